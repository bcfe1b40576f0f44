"""The viewer: robots that are pushed, with what each call draws, as a page of `show` has it

Writes docs/view_many.png by headless Chromium (CHROMIUM, or `chromium` of the path), from a
recording of the page. Needs the extra `view`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import featherlane as fl
from featherlane.interop import view

ROBOTS, STEPS, DT, DAMPING = 9, 160, 0.005, 8.0  # ..., s, 1/s
FRAME = "iiwa_link_7"
BROWSER = ["--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
# Viser's page warns of WebGL in software
QUIET = "<style>.mantine-Notification-root {display: none !important}</style>"


def page() -> view.View:
    """A page of arms, each with a push of its own on its last link, that gravity does not move."""
    arm = fl.load("iiwa14")
    rng = np.random.default_rng(0)
    q = np.array([0.0, 0.6, 0.0, -1.2, 0.0, 0.9, 0.0]) + rng.uniform(-0.3, 0.3, (ROBOTS, 7))
    turn = 2 * np.pi * np.arange(ROBOTS) / ROBOTS
    push = 12 * np.stack([np.cos(turn), np.sin(turn), 0.6 + 0 * turn], -1)  # N, world's axes
    rows, v = [q], np.zeros((ROBOTS, 7))
    for _ in range(STEPS):
        J = arm.jacobian(q, FRAME, reference="world")[:, :3]
        tau = arm.inverse_dynamics(q, v, -DAMPING * v) + (J.mT @ push[..., None])[..., 0]
        q, v = arm.step(q, v, tau, DT)[:2]
        rows.append(q)
    shown = view.show(arm, np.stack(rows, 1), dt=DT)
    shown.add_frames(["iiwa_link_4", FRAME], size=0.25)
    shown.add_forces({FRAME: push[:, None]}, scale=30.0)
    shown.add_trajectories(FRAME)
    goal = arm.frame_placement(rows[-1], FRAME)
    goal[:, :3, 3] += shown.places
    shown.add_targets(goal[:, :3, 3], size=0.2)
    return shown


def photographed(recording: Path, picture: Path, seconds: float) -> None:
    """Writes a picture of a recording that has played for so long."""
    browser = os.environ.get("CHROMIUM", "chromium")
    wait = f"--virtual-time-budget={int(1000 * seconds)}"
    size = "--window-size=1000,620"
    command = [browser, *BROWSER, size, wait, f"--screenshot={picture}", recording.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


def main() -> None:
    """Draws the picture."""
    shown = page()
    with tempfile.TemporaryDirectory() as folder:
        recording = shown.record(Path(folder) / "view.html")
        print(f"{recording.stat().st_size / 1e6:.1f} MB of recording")
        page_text = recording.read_text(encoding="utf-8")
        recording.write_text(page_text.replace("</head>", QUIET + "</head>", 1), encoding="utf-8")
        photographed(recording, Path(__file__).with_name("view_many.png"), 4.0)
    shown.close()


if __name__ == "__main__":
    main()
