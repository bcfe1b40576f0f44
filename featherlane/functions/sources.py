"""Functions of robots as programs for generated source code, and what their arguments are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from featherlane.functions.table import CALLED, Variant
from featherlane.functions.tracing import dynamics_program, scalar_function, solvable
from featherlane.functions.variants import input_shapes
from featherlane.program.lower import lower, traced
from featherlane.program.op import ARITHMETIC
from featherlane.program.program import Program
from featherlane.program.trace import no_garbage
from featherlane.robot.model import Robot

BY_Q = "by a small motion of joint coordinate j, as v counts them"
MEANINGS = {
    "q": "configuration: see the joints",
    "v": "velocity: see the joints",
    "a": "acceleration, as v: see the joints",
    "tau": "force or torque of each joint coordinate: see the joints",
    "M": "mass matrix: kg m^2 (two turning joints), kg (two sliding ones) or kg m",
    "Minv": "inverse of the mass matrix, in the inverse units",
    "minv": "inverse of the mass matrix",
    "dtau_dq": f"[i][j]: derivative of tau[i] {BY_Q}",
    "dtau_dv": "[i][j]: derivative of tau[i] by v[j]",
    "da_dq": f"[i][j]: derivative of a[i] {BY_Q}",
    "da_dv": "[i][j]: derivative of a[i] by v[j]",
    "da_dtau": "[i][j]: derivative of a[i] by tau[j], the inverse of the mass matrix",
    "dtau": "[i][k]: derivative of tau[i] by entry k of the parameter",
    "product": "product of the direction and the weighted Hessian by q, v, and a or tau",
    **{
        f"d2tau_d{x}d{y}": f"derivative along the direction of {y} of the derivative of tau by {x}"
        for x, y in ("qq", "vq", "vv", "aq")
    },
    "f_ext": (
        "external wrenches, row k on body k of the table of joints, at its origin, in the axes "
        "that the function was made for: force in N, then moment in N m"
    ),
    "placement": "homogeneous matrix: rotation, and position in m, of the frame in the world",
    "velocity": "linear velocity in m/s, then angular in rad/s",
    "acceleration": "linear acceleration in m/s^2, then angular in rad/s^2",
    "J": "Jacobian: rows of linear, then of angular velocity, columns as v",
    "dJ_dt": "derivative of the Jacobian by time",
    "c": "centre of mass in the world, m",
    "h": "momentum about the centre of mass: linear in kg m/s, then angular in kg m^2/s",
    "A": "centroidal momentum matrix: h = A v",
    "T": "kinetic energy, J",
    "V": "potential energy of gravity, J",
    "C": "Coriolis matrix: C v are the torques of Coriolis and centrifugal forces",
    "g": "torques that hold the robot against gravity: see the joints",
    "mass": "mass of each body, kg",
    "com": "centre of mass of each body in its axes, m",
    "inertia": "of each body about its centre of mass: xx, xy, xz, yy, yz, zz, kg m^2",
    "inertial": "of each body: mass, mass times centre of mass, inertia about the origin",
    "gravity": "acceleration of free fall in the world's axes, m/s^2",
    "direction": "one direction in the space of velocities",
    "weights": "weight of each entry of the function's result",
    "active": "1 for constraints that hold, 0 for others",
    "anchors": "placements of constraints in the world: position in m, quaternion x, y, z, w",
    "restitution": "coefficient of restitution of each constraint",
    "force": "forces of the constraints in their order, N and N m",
    "impulse": "impulses of the constraints in their order, N s and N m s",
    "impulse_next": "impulses of contacts and joints, at which the next step begins, N s and N m s",
    "contact_force": "force on the body at each contact, in the world's axes, N",
    "residual": "change of a velocity by the last sweep over contacts, m/s or rad/s",
    "friction": "coefficient of friction, of all contacts or of joints",
    "height": "height of the ground, m",
    **{
        f"d{force}_dq": f"[i][j]: derivative of {force}[i] {BY_Q}" for force in ("force", "impulse")
    },
    "dforce_dv": "[i][j]: derivative of force[i] by v[j]",
    "dforce_dtau": "[i][j]: derivative of force[i] by tau[j]",
    "dimpulse_dv": "[i][j]: derivative of impulse[i] by v[j]",
    "S": "inverse inertia along the rows of the constraints, J M^-1 J^T",
}


def about(variant: Variant) -> str:
    """A sentence on what a variant computes."""
    text = CALLED[variant.name].about or f"{variant.name.replace('_', ' ').capitalize()}."
    if variant.frame is not None:
        text += f" Frame: {', '.join(variant.frames)}, in {variant.reference or 'body'} axes."
    if variant.wrt is not None:
        text += f" By the parameter {variant.wrt}."
    return text


def code_size(program: Program) -> int:
    """The operations that a program has as code: those of each function count once."""
    return sum(op in ARITHMETIC for graph in program.graphs for op in graph.op)


def source_program(
    model: Robot, variant: Variant, dtype: Any, limit: int | None, long: bool, target: str = "c"
) -> Program:
    """A variant as a program for generated source: as the package compiles it or, if that has more
    than `limit` operations, with repeated columns, then with the steps of the algorithm as
    functions; the shortest, if none is as short as that. Robots that are too long for one piece of
    code get steps. target: "c" or "wasm".

    Raises CompileError if the mass matrix is singular.
    """
    programs: list[Program] = []
    run = scalar_function(model, variant)
    shapes = input_shapes(model, variant)
    with solvable(model, variant), no_garbage():
        makers = [lambda: lower(dynamics_program(model, variant), target, dtype)]
        if run is not None:
            for kept in (target, f"{target} steps"):
                makers.append(partial(_traced, run, shapes, kept, dtype))
        for make in makers[-1:] if long else makers:
            programs.append(make())
            if limit is None or code_size(programs[-1]) <= limit:
                break
    return min(programs, key=code_size)


def _traced(run: Callable[..., Any], shapes: Mapping[str, Any], target: str, dtype: Any) -> Program:
    return lower(traced(run, shapes, target), target, dtype)
