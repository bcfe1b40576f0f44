"""Actuators and keyframes of an MJCF file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from featherlane.robot.actuators import INF, UNLIMITED, JointActuator
from featherlane.robot.loaders.mjcf_compile import CompiledMjcf
from featherlane.robot.named_configurations import NamedConfiguration
from featherlane.robot.parts import Floats, floats

FREE, BALL, SLIDE, HINGE = range(4)  # mjtJoint
ON_JOINTS = ("JOINT", "JOINTINPARENT")  # transmissions, of mjtTrn
NONE, FIXED, AFFINE = 0, 0, 1  # mjtDyn and mjtBias, mjtGain, mjtBias
COORDINATES: dict[int, Callable[[np.ndarray], np.ndarray]] = {  # from qpos to q
    FREE: lambda x: x[[0, 1, 2, 4, 5, 6, 3]],
    BALL: lambda x: x[[1, 2, 3, 0]],
}
QPOS = {FREE: 7, BALL: 4, SLIDE: 1, HINGE: 1}


def on_joints(robot: CompiledMjcf) -> np.ndarray:
    """Returns whether the transmission of each actuator (nu,) is a joint."""
    kinds = [int(getattr(robot.mujoco.mjtTrn, f"mjTRN_{kind}")) for kind in ON_JOINTS]
    return np.isin(robot.m.actuator_trntype, kinds)


def _is_switched_on(robot: CompiledMjcf, i: int) -> bool:
    group = int(robot.m.actuator_group[i])
    disabled = int(getattr(robot.m.opt, "disableactuator", 0))
    return not robot.disabled("ACTUATION") and not disabled >> max(group, 0) & 1


def _reason(robot: CompiledMjcf, i: int) -> str:
    """Returns why an actuator is no `JointActuator`, or nothing."""
    m = robot.m
    single = bool(on_joints(robot)[i]) and m.jnt_type[m.actuator_trnid[i][0]] in (SLIDE, HINGE)
    has = lambda field: len(x := robot.array(f"actuator_{field}")) and bool(np.any(x[i]))
    plugin, controls = robot.array("actuator_plugin"), robot.array("actuator_ctrlnum")
    reasons = {
        "switched off": not _is_switched_on(robot, i),
        "on no hinge or slide": not single,
        "with activation": m.actuator_dyntype[i] != NONE,
        "with a gain that depends on the state": m.actuator_gaintype[i] != FIXED,
        "with a bias of its own kind": m.actuator_biastype[i] not in (NONE, AFFINE),
        "with a delay": has("delay"),
        "of a plugin": len(plugin) and plugin[i] >= 0,
        "with several controls": len(controls) and controls[i] != 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def joint_actuators(robot: CompiledMjcf) -> list[JointActuator]:
    """Returns the actuators whose force on a joint follows from control, position and velocity."""
    return [_actuator(robot, i) for i in range(robot.m.nu) if not _reason(robot, i)]


def _actuator(robot: CompiledMjcf, i: int) -> JointActuator:
    m, j = robot.m, int(robot.m.actuator_trnid[i][0])
    gear, affine = float(m.actuator_gear[i][0]), m.actuator_biastype[i] == AFFINE
    clamped = m.actuator_ctrllimited[i] and not robot.disabled("CLAMPCTRL")
    force = _range(m.actuator_forcerange[i], m.actuator_forcelimited[i])
    alone = np.sum((m.actuator_trnid[:, 0] == j) & on_joints(robot)) == 1
    if m.jnt_actfrclimited[j] and alone and gear:
        low, high = sorted(m.jnt_actfrcrange[j] / gear)
        force = float(np.clip(force[0], low, high)), float(np.clip(force[1], low, high))
    return JointActuator(
        robot.name("actuator", i),
        robot.joints[j],
        gear,
        float(m.actuator_gainprm[i][0]),
        floats(m.actuator_biasprm[i][:3] if affine else (0.0, 0.0, 0.0)),
        _range(m.actuator_ctrlrange[i], clamped),
        force,
    )


def _range(limits: Any, limited: Any) -> tuple[float, float]:
    return (float(limits[0]), float(limits[1])) if limited else UNLIMITED


def efforts(robot: CompiledMjcf) -> np.ndarray:
    """Returns the largest force (njnt,) of each joint's actuators, also within the range that the
    joint states; infinite where neither bounds it.
    """
    m = robot.m
    totals, driven = np.zeros(m.njnt), np.zeros(m.njnt, bool)
    for i in np.flatnonzero(on_joints(robot)).tolist():
        j = int(m.actuator_trnid[i][0])
        driven[j], totals[j] = True, totals[j] + (INF if _reason(robot, i) else _effort(robot, i))
    limits = np.where(driven, totals, INF)
    stated = np.where(m.jnt_actfrclimited, np.abs(m.jnt_actfrcrange).max(1, initial=0.0), INF)
    return np.asarray(np.minimum(limits, stated))


def _effort(robot: CompiledMjcf, i: int) -> float:
    """Returns the largest joint force that an actuator makes."""
    actuator = _actuator(robot, i)
    force = max(map(abs, actuator.force_range))
    if not any(actuator.bias) and actuator.gain:
        force = min(force, abs(actuator.gain) * max(map(abs, actuator.control_range)))
    return abs(actuator.gear) * force if actuator.gear else 0.0


def left_out(robot: CompiledMjcf) -> list[str]:
    """Names the actuators that `model.actuators` does not have, with the reason."""
    reasons = ((i, _reason(robot, i)) for i in range(robot.m.nu))
    return [f"{robot.name('actuator', i)} ({reason})" for i, reason in reasons if reason]


def servos(robot: CompiledMjcf) -> list[str]:
    """Names the actuators whose force depends on the state."""
    return [actuator.name for actuator in joint_actuators(robot) if any(actuator.bias)]


def motors(robot: CompiledMjcf) -> list[str]:
    """Names the actuators whose force depends on the control only."""
    return [actuator.name for actuator in joint_actuators(robot) if not any(actuator.bias)]


def keyframes(robot: CompiledMjcf) -> Iterator[NamedConfiguration]:
    """Yields the configurations of the keyframes."""
    m = robot.m
    for k in range(m.nkey):
        joints = []
        for j, name in enumerate(robot.joints):
            kind, first = int(m.jnt_type[j]), int(m.jnt_qposadr[j])
            qpos = m.key_qpos[k][first : first + QPOS[kind]]
            joints.append((name, _coordinates(kind, qpos)))
        yield NamedConfiguration(robot.name("key", k), tuple(joints))


def _coordinates(kind: int, qpos: np.ndarray) -> Floats:
    return floats(COORDINATES.get(kind, lambda x: x)(qpos))
