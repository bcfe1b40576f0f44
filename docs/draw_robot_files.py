"""A quadruped and an arm from their files, and the robot that is made of both

Writes docs/robot_files.svg, and robot_files_narrow.svg for narrow screens. Needs node, which runs
the script of the package's page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from drawn_robots import Cell, svg

import featherlane as fl

LEG = [0.0, 0.8, -1.5]  # rad, of Go2
ARM = [0.4, -0.6, 0.7, 0.5, 0, 0.3]  # rad, of SO-101


def covers(dog: fl.Model) -> dict[str, fl.CollisionShape]:
    """Shapes as large as Go2's trunk and legs: its file has feet alone."""
    found = {"base": fl.CollisionShape("trunk", "box", (0.19, 0.06, 0.057))}
    down = fl.Placement.of(np.eye(3), (0, 0, -0.1065))
    for link in dog.body_names:
        if link.endswith(("thigh", "calf")):
            found[link] = fl.CollisionShape(link, "capsule", (0.02, 0.09), placement=down)
    return found


def cells() -> list[Cell]:
    dog, arm = fl.load("go2"), fl.load("so101")
    dog = dog.with_collision_shapes(covers(dog))
    mounted = dog.with_frame("back", on="base", xyz=(0.05, 0, 0.057))
    both = fl.attach(mounted, arm, at="back")
    q = dict(zip((*dog.joint_names, *arm.joint_names), [*LEG * 4, *ARM], strict=True))

    def cell(robot: fl.Model, words: str, size: float) -> Cell:
        words = f"{words}\n{robot.nv} joints, {robot.mass:.1f} kg"
        return Cell(robot, np.array([q[name] for name in robot.joint_names]), words, size)

    return [
        cell(dog, 'dog = fl.load("go2")', 0.75),
        cell(arm, 'arm = fl.load("so101")', 0.6),
        cell(both, 'fl.attach(dog, arm, at="back")', 0.75),
    ]


def main() -> None:
    title = (__doc__ or "").partition("\n")[0]
    for columns, side, end in ((3, 240, ".svg"), (1, 300, "_narrow.svg")):
        text = svg(cells(), columns, side, title)
        Path(__file__).with_name(f"robot_files{end}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
