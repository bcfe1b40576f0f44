"""The functions that steps in discrete time call: they have kernels as those of the table do, but
are not for users. steps.py puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from featherlane import algorithms
from featherlane.algorithms import (
    configurations,
    implicit_damping,
    integrators,
    lie_group_joints,
    mean_accelerations,
)
from featherlane.algorithms.integrators import Tableau
from featherlane.algorithms.late import late
from featherlane.algorithms.row_elimination import BLOCK, LAWS
from featherlane.algorithms.step_derivatives import (
    number,
    stage_names,
    step_derivatives,
)
from featherlane.functions.actuation import Actuation
from featherlane.functions.constrained_table import ROWS_BY_V, ROWS_OF
from featherlane.functions.dynamics_function import Algorithm, chosen, without_fixed
from featherlane.functions.ground_inputs import GROUND_OUTPUTS
from featherlane.functions.table import (
    BY_CONTROLS,
    CALLED,
    CONTROLLED,
    DIRECTIONS,
    DT,
    END_GRADIENTS,
    FUNCTIONS,
    IN_TIME,
    LINEAR,
    MOVED,
    NEXT,
    QVT,
    SLOPES,
    STATE,
    VV,
    DynamicsFunction,
    Sizes,
    V,
    Variant,
)
from featherlane.robot.tree import Tree

_forward = FUNCTIONS["forward_dynamics"]
_and_derivatives = DynamicsFunction(
    QVT, {"a": V, **SLOPES}, (algorithms.forward_dynamics_and_derivatives,), ("f_ext",)
)


def _damped(function: DynamicsFunction) -> DynamicsFunction:
    """Returns forward dynamics with implicit damping and friction, which takes dt too."""
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
_FORCES: Sizes = {"force": ROWS_OF}
_FORCE_SLOPES: Sizes = dict.fromkeys(("dforce_dq", "dforce_dv", "dforce_dtau"), ROWS_BY_V)


def _held(
    name: str, inputs: Sizes, values: Algorithm, linearised: Algorithm
) -> dict[str, DynamicsFunction]:
    """Returns accelerations with constraints, and forces, each without and with derivatives, of
    algorithms that give both, or the equations of both.
    """
    rows = {
        "": ({"a": V}, chosen(without_fixed(values), (0,))),
        "_and_derivatives": ({"a": V, **SLOPES}, _part(linearised, "of_accelerations")),
        "_forces": (_FORCES, chosen(without_fixed(values), (1,))),
        "_forces_and_derivatives": ({**_FORCES, **_FORCE_SLOPES}, _part(linearised, "of_forces")),
    }
    return {
        f"{name}{ending}": DynamicsFunction(inputs, outputs, (algorithm,), _HELD)
        for ending, (outputs, algorithm) in rows.items()
    }


def _part(linearised: Algorithm, name: str) -> Algorithm:
    """Returns an algorithm that gives one part of the derivatives of constrained dynamics."""

    def run(tree: Tree, *inputs: Any, **options: Any) -> tuple[Any, ...]:
        return getattr(linearised(tree, *inputs, **options), name)()

    run.__name__ = linearised.__name__
    return run


_of_steps = partial(late, "featherlane.algorithms.constrained_steps")
CONSTRAINED_STEPS = _held(
    "constrained_acceleration",
    QVT,
    algorithms.constrained_forward_dynamics,
    late("featherlane.algorithms.constrained_derivatives", "linearised_forward_dynamics"),
)
for _name in ("constrained_step", "damped_constrained_step"):
    _both = _of_steps(_name), _of_steps(f"{_name}_and_derivatives")
    CONSTRAINED_STEPS |= _held(_name, {**QVT, **DT}, *_both)


_on_ground = CALLED["contact_forward_dynamics"]._replace(
    inputs={**QVT, **DT}, takes=("f_ext", "constraints", "anchors", "ground")
)
_of_contacts = lambda module, name: (without_fixed(late(f"featherlane.algorithms.{module}", name)),)
# The solutions of the law from which a rigid step is: two where contacts rebound
EACH: Sizes = {
    "a_each": ("solutions", "v"),
    "impulse_each": ("solutions", "impulses"),
    "restitution_each": ("solutions",),
}
_NAMES = ("ground_step", "damped_ground_step")
GROUND_STEPS = {
    f"{name}{ending}": _on_ground._replace(
        outputs={**_on_ground.outputs, **more},
        algorithms=_of_contacts("ground_steps", f"{name}{ending}"),
    )
    for name in _NAMES
    for ending, more in (("", {}), ("_solutions", EACH))
}
# Pieces of a step with many contacts, whose plan repeats the sweeps
_PACKED: Sizes = {"p": ("swept",), "x": ("moved",)}
GROUND_SYSTEM: Sizes = {"system": ("system",), **_PACKED, "ending": ("ending",)}
GROUND_SYSTEMS = {
    name: DynamicsFunction(
        {**QVT, **DT}, GROUND_SYSTEM, _of_contacts("ground_steps", name), ("f_ext", "ground")
    )
    for name in ("ground_system", "damped_ground_system")
}
GROUND_SYSTEMS["ground_sweeps"] = DynamicsFunction(
    {"system": ("system",), **_PACKED},
    {"p_next": ("swept",), "x_next": ("moved",), "residual": ()},
    _of_contacts("many_contacts", "ground_sweeps"),
    ("ground",),
)
GROUND_SYSTEMS |= {
    name: DynamicsFunction(
        {"ending": ("ending",), **_PACKED, **DT},
        {"a": V, **{x: GROUND_OUTPUTS[x] for x in ("contact_force", "impulse_next")}, **more},
        _of_contacts("many_contacts", name),
        ("ground",),
    )
    for name, more in (("ground_end", {}), ("ground_end_solutions", EACH))
}
# Pieces of its derivatives, whose plan repeats the elimination of blocks of rows
BLOCKS: Sizes = {"rows": (BLOCK, "v"), "changes": (BLOCK, "2v"), "laws": (LAWS,)}
ANSWER: Sizes = {"answer": ("v", "3v")}
GROUND_ROWS = {
    name.replace("step", "rows"): _on_ground._replace(
        inputs={**_on_ground.inputs, "a": V, "impulse_next": GROUND_OUTPUTS["impulse_next"]},
        outputs={
            **ANSWER,
            **{x: ("blocks", *size) for x, size in BLOCKS.items()},
            "pull": ("v", "2v"),
        },
        algorithms=(),
    )
    for name in _NAMES
}
GROUND_ROWS |= {
    name.replace("step", "slopes"): _on_ground._replace(
        inputs={**_on_ground.inputs, **EACH, "answers": ("solutions", "v", "3v")},
        outputs=SLOPES,
        algorithms=(),
    )
    for name in _NAMES
}
GROUND_STEPS |= {
    f"{name}_and_derivatives": _on_ground._replace(
        outputs={"a": V, **SLOPES, **GROUND_OUTPUTS}, algorithms=()
    )
    for name in _NAMES
}


def _with_servos(function: DynamicsFunction) -> DynamicsFunction:
    """Returns the function with the damping of servos as its last input."""
    return function._replace(inputs={**function.inputs, "servo_damping": V})


def _function(inputs: Sizes, outputs: Sizes, algorithm: Callable[..., Any]) -> DynamicsFunction:
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


MOTION_MAPS: Sizes = {"adjoint": ("lie_groups",), "jacobian": ("lie_groups",)}
RATE_MAPS: Sizes = {"rate_by_u": ("lie_groups",), "rate_by_v": ("lie_groups",)}
STEP_FUNCTIONS: dict[str, DynamicsFunction] = {
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
    "mean_slopes": _function(
        {"v": V, "a": V, **DT, **BY_CONTROLS},
        {f"mean_{x}": size for x, size in BY_CONTROLS.items()},
        mean_accelerations.mean_acceleration_slopes,
    ),
    "eliminate_rows": _function(
        {**BLOCKS, **ANSWER},
        {"next_answer": ANSWER["answer"]},
        late("featherlane.algorithms.row_elimination", "eliminate_rows"),
    ),
    "motion_maps": _function({"u": V}, MOTION_MAPS, lie_group_joints.motion_maps),
    "straight_maps": _function({"u": V}, MOTION_MAPS, lie_group_joints.straight_maps),
    "straight_derivatives": _function(
        {"u": V}, {"by_q": VV, "by_u": VV}, configurations.integrate_straight_derivatives
    ),
    "add_gradients": _function(
        {"gq": V, "gv": V, "more_q": V, "more_v": V},
        {"sum_q": V, "sum_v": V},
        integrators.add_gradients,
    ),
}

STEP_FUNCTIONS |= CONSTRAINED_STEPS | GROUND_STEPS | GROUND_SYSTEMS | GROUND_ROWS
STEP_FUNCTIONS |= {
    f"servo_{name}": _with_servos(function)
    for name, function in STEP_FUNCTIONS.items()
    if name.startswith("damped")
}
_MATRICES: Sizes = {x: LINEAR[x] for x in ("A", "B")}
STEP_FUNCTIONS |= {
    "slopes_along": CALLED["step_jvp"]._replace(inputs={**_MATRICES, **DIRECTIONS}),
    "slopes_backwards": CALLED["step_vjp"]._replace(inputs={**_MATRICES, **END_GRADIENTS}),
}
STEP_FUNCTIONS |= {
    "step_forces": DynamicsFunction(CONTROLLED, _FORCES, (), IN_TIME),
    "step_forces_and_derivatives": DynamicsFunction(
        CONTROLLED,
        {**_FORCES, "dforce_dq": ROWS_BY_V, "dforce_dv": ROWS_BY_V, "dforce_du": ("rows", "u")},
        (),
        IN_TIME,
    ),
}


# and the arrays of a policy
EVALUATED: Sizes = {"controls": ("u",), "count_next": ()}
STEP_FUNCTIONS["control_law"] = DynamicsFunction(
    {**STATE, **DT, "count": ()}, EVALUATED, (), ("actuation",)
)
STEP_FUNCTIONS["policy_step"] = DynamicsFunction(
    {**STATE, **DT, "count": ()}, {**NEXT, **EVALUATED}, (), IN_TIME
)
ALL_FUNCTIONS = {**CALLED, **STEP_FUNCTIONS}


# Functions of a tableau: their inputs are those of the stages that it combines


def _combination(row: Tableau) -> Sizes:
    """Returns the inputs of a combination of stages: their rates, and their accelerations."""
    stages = range(row.stages)
    combined = {f"{x}{k}": V for x in ("rate", "a") for k in stages}
    return {**STATE, **combined, **DT}


def _to_stage(row: Tableau) -> DynamicsFunction:
    rate = {"rate": V} if row.series else {}
    outputs = {"q_stage": ("q",), "v_stage": V, "u": V, **rate}
    return _function(_combination(row), outputs, integrators.to_stage(row))


def _advance(row: Tableau) -> DynamicsFunction:
    return _function(_combination(row), MOVED, integrators.advance(row))


def _stage_maps(row: Tableau) -> DynamicsFunction:
    maps = partial(lie_group_joints.stage_maps, series=row.series)
    return _function(
        {"u": V, "v": V}, {**MOTION_MAPS, **RATE_MAPS}, update_wrapper(maps, maps.func)
    )


def _step_derivatives(method: Tableau) -> DynamicsFunction:
    inputs = derivative_inputs(method)
    return _function(inputs, LINEAR, step_derivatives(method, [*inputs]))


def derivative_inputs(method: Tableau) -> Sizes:
    """Returns the arrays that the derivatives of a step read: rates and accelerations that the end
    combines, motions to the stages and velocities there, slopes of all accelerations.
    """
    later = range(2, method.stages + 1)
    rates, accelerations = stage_names(method, method.b)
    names = [*rates, *accelerations]
    names += [f"u{k}" for k in later]
    names += [f"v{k}" for k in later] if method.series else []
    slopes = {
        f"{name}{number(k)}": size
        for k in range(1, method.stages + 1)
        for name, size in BY_CONTROLS.items()
    }
    return {**STATE, **DT, **dict.fromkeys(names, V), **slopes}


OF_TABLEAUS: dict[str, Callable[[Tableau], DynamicsFunction]] = {
    "to_stage": _to_stage,
    "advance": _advance,
    "stage_maps": _stage_maps,
    "step_derivatives": _step_derivatives,
}


SENSE = "sense"  # the function that sensors are


def entry_of(variant: Variant) -> DynamicsFunction:
    """Returns the inputs, outputs and algorithms of a variant."""
    if variant.name == SENSE and variant.sensors is not None:
        return variant.sensors.entry
    if variant.tableau is None:
        return ALL_FUNCTIONS[variant.name]
    return OF_TABLEAUS[variant.name](variant.tableau)
