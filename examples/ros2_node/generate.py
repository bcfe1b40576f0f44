"""Writes what the node needs of a robot: python generate.py ROBOT FOLDER

robot.h and robot.c are the robot's inverse dynamics in C; robot.hpp has the joints in the order of
that C, their effort limits, and the function under a name that does not depend on the robot.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import featherlane as fl

HEADER = """\
// Written by generate.py for {name}: do not edit.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

#include "robot.h"

struct Robot {{
  static constexpr std::size_t N = {size};
  static constexpr std::array<const char *, N> joints{{{joints}}};
  // N m or N, infinite where the robot's file has none
  static constexpr std::array<double, N> effort{{{effort}}};

  static void inverse_dynamics(const double *q, const double *v, const double *a, double *tau)
  {{
    double work[ROBOT_INVERSE_DYNAMICS_WORK + 1];
    robot_inverse_dynamics(q, v, a, tau, work);
  }}
}};
"""


def write(robot: str, folder: Path) -> None:
    """Writes the three files. Raises ValueError for joints that a JointState cannot tell."""
    model = fl.load(robot)
    for joint, kind in zip(model.joints, model.types, strict=True):
        if (kind.nq, kind.nv) != (1, 1):
            raise ValueError(f"{joint.name} is {joint.type}: a JointState has one number a joint")
    folder.mkdir(parents=True, exist_ok=True)
    fl.generate(model, folder, ["inverse_dynamics"], name="robot")
    infinity = "std::numeric_limits<double>::infinity()"
    effort = (infinity if math.isinf(x) else repr(float(x)) for x in model.effort_limits)
    # A mimic joint has no coordinate: its leader's torque is that of both
    joints = (json.dumps(joint.name) for joint in model.joints if joint.mimic is None)
    facts = {"joints": ", ".join(joints), "effort": ", ".join(effort)}
    text = HEADER.format(name=model.name, size=model.nv, **facts)
    (folder / "robot.hpp").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("robot", help="a bundled robot, a URDF or an MJCF file")
    options.add_argument("folder", type=Path)
    args = options.parse_args()
    write(args.robot, args.folder)
