"""Loops of an MJCF file: equalities of types connect and weld, and couplings of joints.

MuJoCo's residual of a connect is p1 - p2, and that of a weld has the vector of the quaternion
q2^-1 q1 relpose below it; here `frame` is the first side, and `to` the second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.polynomial import Polynomial

from featherlane.errors import ModelError
from featherlane.robot.constraint_types import LoopClosure
from featherlane.robot.contact_numbers import row_softness
from featherlane.robot.loaders.loops import LoopEnd, LoopSpec
from featherlane.robot.loaders.mjcf_compile import CompiledMjcf
from featherlane.robot.loaders.mjcf_notes import closing, coupling, equality_in_words
from featherlane.robot.loops import LinearJoint, coupling_of
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, Placement
from featherlane.robot.rotations import xyzw_rotation
from featherlane.robot.row_softness import RowSoftness

Ends = Mapping[int, tuple[str, str, Placement]]  # frame, its link and its placement on it


def loop_specs(robot: CompiledMjcf, bodies: Ends, sites: Ends) -> Iterator[LoopSpec]:
    """Yields the connects and welds of a file. bodies, sites: the frames of each by number."""
    m = robot.m
    for i in closing(robot):
        of_sites = robot.mujoco.mjtObj(int(m.eq_objtype[i])).name == "mjOBJ_SITE"
        weld = int(m.eq_type[i]) == int(robot.mujoco.mjtEq.mjEQ_WELD)
        local = (IDENTITY, IDENTITY) if of_sites else _placements(m.eq_data[i], weld)
        ends = []
        for k, placement in zip((m.eq_obj1id[i], m.eq_obj2id[i]), local, strict=True):
            frame, link, place = (sites if of_sites else bodies)[int(k)]
            ends.append(LoopEnd(frame, placement, link, place))
        where = f"{robot.source}: {equality_in_words(robot, i)}"
        kind = "weld" if weld else "pin"
        softness = _softness(robot, i, float(m.eq_data[i][10]) if weld else 1.0)
        yield LoopSpec(
            robot.name("equality", i), kind, (ends[0], ends[1]), where=where, softness=softness
        )


def _softness(robot: CompiledMjcf, i: int, torque_scale: float = 1.0) -> RowSoftness:
    m = robot.m
    softness = row_softness(m.eq_solref[i], m.eq_solimp[i])
    return softness._replace(torque_scale=torque_scale)


def _placements(data: np.ndarray, weld: bool) -> tuple[Placement, Placement]:
    """Returns the placements of both sides on their bodies."""
    if weld:
        rotation = xyzw_rotation(np.roll(data[6:10], -1))
        return Placement.of(rotation, data[3:6]), Placement.of(np.eye(3), data[:3])
    first, second = (Placement.of(np.eye(3), data[k : k + 3]) for k in (0, 3))
    return first, second


def joint_couplings(
    robot: CompiledMjcf, model: Robot, held: Mapping[int, float]
) -> Iterator[LoopClosure]:
    """Yields the equalities of joints that are neither mimics nor hold a joint: y - y0 is a
    polynomial of x - x0. held: the positions of joints that equalities hold, by number. Raises
    ModelError that names an equality of which there is no `Coupling`.
    """
    m = robot.m
    for i in coupling(robot):
        ends = [int(k) for k in (m.eq_obj1id[i], m.eq_obj2id[i]) if k >= 0]
        y0, *x0 = (float(m.qpos0[m.jnt_qposadr[j]]) for j in ends)
        y, *x = (_independent(robot.joints[j], model, held.get(j)) for j in ends)
        law = Polynomial(m.eq_data[i][:5] if x0 else m.eq_data[i][:1])
        shifted = law(Polynomial([-x0[0], 1.0])) if x0 else law
        try:
            item = coupling_of(y, x[0] if x else None, shifted + y0)
        except ValueError as error:
            hint = 'load with loops="drop" to leave the loops out'
            raise ModelError(
                f"{robot.source}: {equality_in_words(robot, i)}: {error} ({hint})"
            ) from None
        if item is not None:
            yield LoopClosure(item, softness=_softness(robot, i))


def _independent(name: str, model: Robot, position: float | None) -> LinearJoint:
    """Returns a joint of the file as a line of one that has an entry of q."""
    if position is not None:
        return LinearJoint(None, offset=position)
    mimic = model.joint(name).mimic
    return LinearJoint(*mimic) if mimic else LinearJoint(name)
