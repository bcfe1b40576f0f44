"""What steps in discrete time consist of: functions that have kernels as those of the table do, but
are not for users. `steps.py` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane import algorithms
from featherlane.algorithms import constrained_steps, implicit_damping, integrators
from featherlane.functions.actuation import Actuation
from featherlane.functions.table import (
    BY_ALL,
    BY_CONTROLS,
    CALLED,
    DT,
    FUNCTIONS,
    IN_TIME,
    LINEAR,
    MOVED,
    NEXT,
    QVA,
    QVT,
    SLOPES,
    STATE,
    VV,
    DynamicsFunction,
    Sizes,
    V,
)
from featherlane.robot.tree import Tree

_forward = FUNCTIONS["forward_dynamics"]
_and_derivatives = DynamicsFunction(
    QVT, {"a": V, **SLOPES}, (algorithms.forward_dynamics_and_derivatives,), ("f_ext",)
)


def _damped(function: DynamicsFunction) -> DynamicsFunction:
    """Forward dynamics with implicit damping and friction, which takes dt too."""
    algorithms, shared = (
        entries and tuple(map(implicit_damping.with_implicit_damping, entries))
        for entries in (function.algorithms, function.shared)
    )
    inputs = {**function.inputs, **DT}
    return function._replace(inputs=inputs, algorithms=algorithms or (), shared=shared)


_damped_and_derivatives = _and_derivatives._replace(
    inputs={**QVT, **DT}, algorithms=(implicit_damping.damped_forward_dynamics_and_derivatives,)
)


_HELD = ("f_ext", "constraints", "anchors")
_BY_STATE: Sizes = {"a": V, **SLOPES}
CONSTRAINED_PIECES: dict[str, DynamicsFunction] = {
    "constrained_acceleration": DynamicsFunction(
        QVT, {"a": V}, (constrained_steps.constrained_acceleration,), _HELD
    ),
    "constrained_acceleration_and_derivatives": DynamicsFunction(
        QVT, _BY_STATE, (constrained_steps.constrained_acceleration_and_derivatives,), _HELD
    ),
    "constrained_step": DynamicsFunction(
        {**QVT, **DT}, {"a": V}, (constrained_steps.constrained_step,), _HELD
    ),
    "constrained_step_and_derivatives": DynamicsFunction(
        {**QVT, **DT}, _BY_STATE, (constrained_steps.constrained_step_and_derivatives,), _HELD
    ),
    "damped_constrained_step": DynamicsFunction(
        {**QVT, **DT}, {"a": V}, (constrained_steps.damped_constrained_step,), _HELD
    ),
    "damped_constrained_step_and_derivatives": DynamicsFunction(
        {**QVT, **DT},
        _BY_STATE,
        (constrained_steps.damped_constrained_step_and_derivatives,),
        _HELD,
    ),
}


def _with_servos(function: DynamicsFunction) -> DynamicsFunction:
    """The function with the damping of servos as its last input."""
    return function._replace(inputs={**function.inputs, "servo_damping": V})


def _piece(inputs: Sizes, outputs: Sizes, algorithm: Callable[..., Any]) -> DynamicsFunction:
    return DynamicsFunction(inputs, outputs, (algorithm,))


def _actuate(tree: Tree, u: Any, actuation: Actuation) -> tuple[Any, ...]:
    return (actuation.forces(tree.nv, u),)


def _servo_forces(tree: Tree, q: Any, v: Any, u: Any, actuation: Actuation) -> tuple[Any, ...]:
    return (actuation.forces(tree.nv, u, q, v),)


def _servo_damping(tree: Tree, q: Any, v: Any, u: Any, actuation: Actuation) -> tuple[Any, ...]:
    return (actuation.servo_damping(tree.nv, u, q, v),)


def _servo_slopes(tree: Tree, *inputs: Any, actuation: Actuation) -> tuple[Any, ...]:
    return actuation.servo_slopes(*inputs)


def _actuated_slopes(tree: Tree, da_dtau: Any, u: Any, actuation: Actuation) -> tuple[Any, ...]:
    return (actuation.slopes(da_dtau, u),)


_STAGE: Sizes = {**STATE, "rate": V, "a": V, **DT}
_AT_STAGE: Sizes = {"q_stage": ("q",), "v_stage": V, "rate_stage": V, "u": V}
_RATES: Sizes = {"rate2": V, "rate3": V, "rate4": V}
_ACCELERATIONS: Sizes = {"a1": V, "a2": V, "a3": V, "a4": V}
_CHANGES: Sizes = {"Dq": BY_ALL, "Dv": BY_ALL, "Dr": BY_ALL}
_AT: Sizes = {"u": V, "v_stage": V, **DT, **BY_CONTROLS}
_MAPS: Sizes = dict.fromkeys(("moved_by_q", "moved_by_u", "rate_by_u", "rate_by_v"), ("curved",))
PIECES: dict[str, DynamicsFunction] = {  # what steps in time consist of, see functions/steps.py
    "forward_dynamics_and_derivatives": _and_derivatives,
    "damped_forward_dynamics": _damped(_forward),
    "damped_forward_dynamics_and_derivatives": _damped_and_derivatives,
    "actuate": DynamicsFunction({"tau": ("u",)}, {"forces": V}, (_actuate,), ("actuation",)),
    "actuated_slopes": DynamicsFunction(
        {"da_dtau": VV, "tau": ("u",)}, {"da_du": ("v", "u")}, (_actuated_slopes,), ("actuation",)
    ),
    "servo_forces": DynamicsFunction(
        {**STATE, "tau": ("u",)}, {"forces": V}, (_servo_forces,), ("actuation",)
    ),
    "servo_damping": DynamicsFunction(
        {**STATE, "tau": ("u",)}, {"servo_damping": V}, (_servo_damping,), ("actuation",)
    ),
    "servo_slopes": DynamicsFunction(
        {**STATE, **SLOPES, "tau": ("u",)}, BY_CONTROLS, (_servo_slopes,), ("actuation",)
    ),
    "slopes_by_wrenches": DynamicsFunction(  # beside those by controls
        {"q": ("q",), "da_dtau": VV, "da_du": ("v", "u")},
        {"beside": ("v", "columns")},
        (),
        ("f_ext",),
    ),
    "advance": _piece({"q": ("q",), "rate": V, "v": V, "a": V, **DT}, MOVED, integrators.advance),
    "advance_semi_implicitly": _piece(
        {**STATE, "a": V, **DT}, MOVED, integrators.advance_semi_implicitly
    ),
    "to_half_stage": _piece(_STAGE, _AT_STAGE, integrators.stage(0.5)),
    "to_full_stage": _piece(_STAGE, _AT_STAGE, integrators.stage(1.0)),
    "runge_kutta": _piece(
        {**STATE, **DT, **_RATES, **_ACCELERATIONS}, MOVED, integrators.runge_kutta
    ),
    "motion_maps": _piece({"u": V, "v": V}, _MAPS, integrators.motion_maps),
    "add_gradients": _piece(
        {"gq": V, "gv": V, "more_q": V, "more_v": V},
        {"sum_q": V, "sum_v": V},
        integrators.add_gradients,
    ),
    "linear_euler": _piece(
        {**QVA, **DT, **BY_CONTROLS}, LINEAR, integrators.linear_step(semi_implicit=False)
    ),
    "linear_semi_implicit": _piece(
        {**QVA, **DT, **BY_CONTROLS}, LINEAR, integrators.linear_step(semi_implicit=True)
    ),
    "first_half_sensitivities": _piece(_AT, _CHANGES, integrators.first_sensitivities(0.5)),
    "half_sensitivities": _piece(
        {**_AT, **_CHANGES},
        {"Da": BY_ALL, "Dq_next": BY_ALL, "Dv_next": BY_ALL, "Dr_next": BY_ALL},
        integrators.next_sensitivities(0.5),
    ),
    "full_sensitivities": _piece(
        {**_AT, **_CHANGES},
        {"Da": BY_ALL, "Dq_next": BY_ALL, "Dv_next": BY_ALL, "Dr_next": BY_ALL},
        integrators.next_sensitivities(1.0),
    ),
    "linear_midpoint": _piece(
        {**STATE, "v_middle": V, "a": V, **DT, **BY_CONTROLS, "Dq": BY_ALL, "Dv": BY_ALL},
        LINEAR,
        integrators.linear_midpoint,
    ),
    "linear_runge_kutta": _piece(
        {
            **STATE,
            **DT,
            **_RATES,
            **_ACCELERATIONS,
            **BY_CONTROLS,
            **dict.fromkeys(("Da2", "Da3", "Dr2", "Dr3", "Dr4"), BY_ALL),
            **{f"last_{name}": size for name, size in BY_CONTROLS.items()},
            "Dq4": BY_ALL,
            "Dv4": BY_ALL,
        },
        LINEAR,
        integrators.linear_runge_kutta,
    ),
}

PIECES |= CONSTRAINED_PIECES
PIECES |= {
    f"servo_{name}": _with_servos(function)
    for name, function in PIECES.items()
    if name.startswith("damped")
}
_BY_STAGE = lambda *stages: {
    f"{name}{k}": size for k in stages for name, size in BY_CONTROLS.items()
}
PIECES |= {  # of other pieces
    "midpoint_sensitivities": DynamicsFunction(
        {**STATE, "v_middle": V, "a": V, **DT, "u2": V, **_BY_STAGE(1, 2)}, LINEAR, ()
    ),
    "rk4_sensitivities": DynamicsFunction(
        {
            **STATE,
            **DT,
            **_RATES,
            **_ACCELERATIONS,
            **dict.fromkeys(("u2", "u3", "u4", "v2", "v3", "v4"), V),
            **_BY_STAGE(1, 2, 3, 4),
        },
        LINEAR,
        (),
    ),
}
PIECES["policy_step"] = DynamicsFunction(
    {**STATE, **DT, "count": ()}, {**NEXT, "count_next": (), "controls": ("u",)}, (), IN_TIME
)
EVERY = {**CALLED, **PIECES}
"""All functions that have variants."""
