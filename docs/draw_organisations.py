"""Draws docs/organisation_*.svg: the arrays of three robots for the derivatives of inverse
dynamics, as the package decides, and the same for narrow screens.
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
        path = Path(__file__).with_name(f"organisation_{name}.svg")
        path.write_text(svg(found), encoding="utf-8")
        path.with_stem(f"{path.stem}_narrow").write_text(svg(found, narrow=True), encoding="utf-8")
        print(found, end="\n\n")


if __name__ == "__main__":
    main()
