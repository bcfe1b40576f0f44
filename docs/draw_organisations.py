"""Draws docs/organisation_*.svg: the arrays of three robots for the derivatives of inverse
dynamics, as the package decides.
"""

from __future__ import annotations

from pathlib import Path

import featherlane as fl
from featherlane.accelerators.organise.organisation import organise
from featherlane.accelerators.report.drawing import svg

LIFTED = {"torso_lift_joint": 0.1, "head_1_joint": 0.0, "head_2_joint": 0.0}  # m, rad
ROBOTS = {
    "mobile_arm": (fl.load("mobile_arm").reduced(LIFTED), 12),
    "quadruped_arm": (fl.load("quadruped_arm", root="free"), 12),
    "atlas": (fl.load("atlas", root="free"), 32),
}


def main() -> None:
    for name, (model, interval) in ROBOTS.items():
        found = organise(model, interval=interval)
        Path(__file__).with_name(f"organisation_{name}.svg").write_text(svg(found))
        print(found, end="\n\n")


if __name__ == "__main__":
    main()
