"""Variants of functions: parsed from arguments, checked, with their inputs, outputs and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.errors import CompileError, ModelError, did_you_mean, instead, one_of, shown
from featherlane.functions.actuation import FILE, Actuated, Actuation, file_actuation
from featherlane.functions.array_like import Params
from featherlane.functions.constraint_inputs import check_anchors, check_loops, with_inputs
from featherlane.functions.dynamics_function import Sizes
from featherlane.functions.ground_inputs import GROUND_OUTPUTS, with_ground_inputs
from featherlane.functions.results import (
    GROUND_FIELDS,
    GroundStep,
    GroundTrajectory,
    with_fields,
)
from featherlane.functions.sensors import WITH_SENSORS
from featherlane.functions.step_functions import entry_of
from featherlane.functions.table import (
    CALLED,
    DEFAULT_INTEGRATOR,
    ON_CONTACTS,
    REFERENCE_HINT,
    REFERENCES,
    Variant,
    shapes,
)
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.robot.constraints import Constraints, constraints_on
from featherlane.robot.massless import massless_refusal
from featherlane.robot.model import Robot
from featherlane.robot.parameters import BASE, PARAMETERS
from featherlane.robot.tree_of import build_tree, tree_of

WITH_CONTACTS = ("step", "policy_step", "rollout", "rollout_with")  # that return contact forces
INERTIAL = {"mass", "com", "inertia"}
WITH_INERTIA = {"mass", "inertia", "inertial", "armature"}  # what makes a mass matrix regular
LONGEST_CHAIN = 100  # links of a constrained chain, whose code compiles in half a minute
MOST_PAIRS = LONGEST_CHAIN**2 // 2
ACTUATION_HINT = (
    "wanted one from model.actuation(...), or 'file' for the actuators of the robot's file"
)


def variant_of(
    model: Robot, name: str, *, method: str | None = None, actuation: Any = None, **options: Any
) -> Variant:
    """The variant that a user's arguments ask for: "auto" is no method, "file" the actuation of the
    robot's file, and no integrator the default one. options: the other fields of a Variant.
    """
    chosen = None if method == "auto" else method
    controls = actuation_of(model, actuation)
    return with_defaults(Variant(name, method=chosen, actuation=controls, **options))


def variant_of_graph(
    model: Robot,
    name: str,
    f_ext: str | None = None,
    *,
    params: Iterable[str] = (),
    frame: Any = None,
    constraints: Constraints | None = None,
    active: bool = False,
    anchors: bool = False,
    kp: bool = False,
    kd: bool = False,
    ground: Any = None,
    law: Any = None,
    ground_params: Iterable[str] = (),
    **options: Any,
) -> Variant:
    """The variant that the arguments of `Model.graph` ask for."""
    return variant_of(
        model,
        name,
        wrenches=f_ext,
        parameters=tuple(params),
        frame=tuple(frame) if isinstance(frame, list) else frame,
        constraints=with_inputs(constraints, active, anchors, kp, kd),
        ground=with_ground_inputs(ground, law, ground_params),
        **options,
    )


def with_defaults(variant: Variant) -> Variant:
    """Fills in the default integrator."""
    function = CALLED.get(variant.name) if isinstance(variant.name, str) else None
    if variant.integrator is None and function and "integrator" in function.takes:
        return variant._replace(integrator=DEFAULT_INTEGRATOR)
    return variant


def options_in_texts(variant: Variant) -> dict[str, str] | None:
    """Returns the options of a method that ask for a variant if all of them are texts, or wrenches
    at frames; else None.
    """
    others = variant._replace(
        frame=None, reference=None, wrt=None, integrator=None, wrenches=None, at=()
    )
    if others != Variant(variant.name) or isinstance(variant.frame, tuple):
        return None
    texts = {
        "frame": variant.frame,
        "reference": variant.reference,
        "wrt": variant.wrt,
        "integrator": variant.integrator,
        "f_ext_frame": variant.wrenches,
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def actuation_of(model: Robot, actuation: Actuated) -> Actuation | None:
    """The actuation that an argument names. Raises ValueError for another text than "file"."""
    if isinstance(actuation, str):
        if actuation != FILE:
            raise ValueError(f"actuation is {actuation!r}: {ACTUATION_HINT}")
        return file_actuation(model)
    return actuation


def check_parameters(names: Sequence[str], wrt: str | None = None) -> None:
    """Raises ValueError for unknown parameters, and for two that hold the same figures."""
    for name in (*names, *([] if wrt is None else [wrt])):
        if not isinstance(name, str) or name not in PARAMETERS:
            what = "wrt" if name == wrt else "params"
            raise ValueError(f"{what} names {name!r}{instead(str(name), PARAMETERS)}")
    together = {*names, *([wrt] if wrt and wrt != "inertial" else [])}
    if "inertial" in together and (twice := together & INERTIAL):
        raise ValueError(
            f"'inertial' is given together with {', '.join(map(repr, sorted(twice)))}: it contains "
            f"mass, centre and inertia, give one or the other"
        )


def in_order(params: Params) -> tuple[str, ...]:
    """Returns the names in the order of the table, so that all orders of a dict have one kernel."""
    if params is None:
        return ()
    if not isinstance(params, Mapping):
        kind = type(params).__name__
        raise TypeError(f"params is {kind}: wanted a dict of arrays by name, as in {{'mass': m}}")
    check_parameters(tuple(params))
    return tuple(name for name in PARAMETERS if name in params)


def check_variant(model: Robot, variant: Variant) -> None:
    """Raises ValueError or TypeError for options that a function or the robot does not take, and
    ModelError for massless bodies where it divides by the mass matrix.
    """
    name, wrenches, parameters, frame, reference, wrt, at, method, *_ = variant
    if not isinstance(name, str) or name not in CALLED:
        raise ValueError(f"there is no function {name!r}{instead(str(name), CALLED)}")
    if wrenches not in (None, *WRENCH_FRAMES):
        raise ValueError(
            f"f_ext is {wrenches!r}: {one_of(wrenches, WRENCH_FRAMES)}, the axes of that "
            "input; other options go by keyword"
        )
    check_parameters(parameters, wrt)
    if (base := {*parameters, wrt} & {*BASE}) and not CALLED[name].on_moving_ground:
        others = (other for other, function in CALLED.items() if function.on_moving_ground)
        raise ValueError(
            f"{name} takes no {min(map(str, base))}: a moving ground is possible in "
            f"{', '.join(others)}; load the robot with root='free' for the rest"
        )
    takes = CALLED[name].takes
    options: dict[str, Any]
    options = {"f_ext": wrenches, "frame": frame, "reference": reference, "wrt": wrt}
    options |= {"integrator": variant.integrator, "actuation": variant.actuation}
    options |= {"ground": variant.ground, "sensors": variant.sensors}
    for what, value in options.items():
        if value is not None and what not in takes:
            raise ValueError(f"{name} takes no {what}")
    if "wrt" in takes and wrt is None:
        raise ValueError(f"wrt is missing: wanted one of {', '.join(PARAMETERS)}")
    if "frame" in takes and not variant.frames:
        model.frame(frame)  # type: ignore[arg-type]
    for place in (*at, *variant.frames):
        model.frame(place)
    if "reference" in takes and reference not in REFERENCES:
        meant = did_you_mean(reference, REFERENCES)
        raise ValueError(f"reference is {reference!r}: wanted {REFERENCE_HINT}{meant}")
    _check_constraints(model, variant)
    _check_time(model, variant)
    _check_sensors(model, variant)
    if not model.nv:
        raise ValueError(f"{model.name!r} has no moving joint, so it has no dynamics")
    needs_inertia = CALLED[name].divides and not WITH_INERTIA & {*parameters}
    if needs_inertia and (why := massless_refusal(model, name)):
        raise ModelError(why)
    if name in ON_CONTACTS and variant.ground is None:
        raise TypeError(f"{name} needs a ground: wanted ground=fl.Ground(...)")
    if method is not None:
        _check_method(model, variant, method)


def _check_constraints(model: Robot, variant: Variant) -> None:
    """Raises ValueError or TypeError for constraints that do not go with the function."""
    name, inputs, takes = variant.name, variant.constraints, CALLED[variant.name].takes
    if model.loop_closures and (instead := CALLED[name].with_loops):
        check_loops(model, name, inputs and inputs.constraints, instead)
    if inputs is None:
        if CALLED[name].kind == "constrained":
            raise TypeError(f"{name} misses constraints: wanted model.constraints([...])")
        return
    if "constraints" not in takes:
        raise ValueError(f"{name} takes no constraints")
    if not isinstance(inputs.constraints, Constraints):
        kind = type(inputs.constraints).__name__
        raise TypeError(f"constraints is {kind}: wanted those that model.constraints(...) gives")
    if sum(kind.links for kind in model.types) >= LONGEST_CHAIN and _pairs(model) > MOST_PAIRS:
        raise CompileError(
            f"{name} of {model.name!r}, a long robot, takes no constraints: their code is one "
            f"piece, and its compilation takes minutes from chains of {LONGEST_CHAIN} links on"
        )
    if inputs.constraints != constraints_on(model, inputs.constraints):
        raise ValueError(
            f"constraints are of {inputs.constraints.robot!r}, perhaps before an edit, and mean "
            f"something else in this {model.name!r}: make them by its own constraints(...)"
        )
    if "anchors" not in takes and (unknown := [*inputs.sizes.keys() - {"active"}]):
        raise ValueError(f"{name} takes no {min(unknown)}")
    of_velocities = [x for x, method in INTEGRATORS.items() if method.semi_implicit]
    in_velocities = variant.integrator in of_velocities or variant.ground is not None
    by_velocities = in_velocities and inputs.constraints.level == "velocity"
    if "anchors" in takes and not by_velocities:
        check_anchors(inputs, positions=name in ("constraint_error", "closing_step"))


def _pairs(model: Robot) -> int:
    """Returns the number of pairs of joints on one path."""
    return sum(map(len, tree_of(model).above))


def _check_time(model: Robot, variant: Variant) -> None:
    """Raises ValueError or TypeError for what functions in discrete time do not take."""
    name, integrator, actuation = variant.name, variant.integrator, variant.actuation
    if integrator is not None and integrator not in tuple(INTEGRATORS):
        raise ValueError(f"integrator is {integrator!r}: {one_of(integrator, INTEGRATORS)}")
    if name == "linearize_step_reduced" and integrator and INTEGRATORS[integrator].stages > 1:
        wanted = "wanted a method of one stage; linearize_step takes all"
        raise ValueError(f"{name} got integrator={integrator!r}: {wanted}")
    if variant.ground and integrator and not INTEGRATORS[integrator].semi_implicit:
        semi = [x for x, method in INTEGRATORS.items() if method.semi_implicit]
        raise ValueError(
            f"{name} on the ground got integrator={integrator!r}: wanted {' or '.join(semi)}, "
            "which hold velocities at the end of a step"
        )
    if actuation is not None and not isinstance(actuation, Actuation):
        raise TypeError(f"actuation is {shown(actuation)}: {ACTUATION_HINT}")
    if actuation and any(k >= model.nv for k in actuation.freedoms):
        raise ValueError(f"actuation is of another robot: {model.name!r} has nv = {model.nv}")
    if actuation and name == "constrained_inverse_dynamics" and actuation.couples:
        raise ValueError(
            f"{name} got an actuation of which a control drives several joints: wanted controls of "
            "one joint"
        )
    if variant.by_wrenches and (name != "linearize_step" or not variant.wrenches):
        raise ValueError(f"{name} has no columns of f_ext: only linearize_step with f_ext does")
    if ("rollout" in name) != (variant.steps > 0) or variant.steps % variant.every:
        options = f"steps={variant.steps}, every={variant.every}"
        wanted = "steps from 1 on for rollouts, a multiple of every; none for others"
        raise ValueError(f"{name} got {options}: wanted {wanted}")
    if (variant.policy is not None) != (name == "rollout_with"):
        raise ValueError(f"{name} and a policy do not go together: see model.rollout_with")
    held = variant.constraints.sizes if variant.constraints else ()
    others = {*held, *variant.parameters}
    if variant.policy and (shared := others.intersection(variant.policy.names)):
        raise ValueError(
            f"the policy has an array {min(shared)!r}, which is another input of the rollout: "
            "rename it in the policy"
        )


def _check_sensors(model: Robot, variant: Variant) -> None:
    """Raises ValueError for sensors of other contacts or controls than those of the step, and for a
    policy that reads others.
    """
    sensors, shapes = variant.sensors, variant.sensors.shapes if variant.sensors else {}
    for name, shape in variant.policy.sensors if variant.policy else ():
        if shapes.get(name) != shape:
            raise ValueError(
                f"the policy reads the sensor {name!r} of shape {shape}: wanted sensors= of the "
                f"rollout with it, and they are {shapes or 'none'}"
            )
    if sensors is None:
        return
    controls = variant.actuation.controls if variant.actuation else model.nv
    (nq,), (read,) = (sensors.graph.inputs[x] for x in ("q", "tau"))
    if (nq, read) != (model.nq, controls):
        raise ValueError(
            f"sensors read nq = {nq} and {read} controls: {model.name!r} has {model.nq} and "
            f"{controls}; wanted those of its sensors(function, actuation=...)"
        )
    touching = None if variant.ground is None else variant.ground.contact_names(model)
    if sensors.contacts is not None and sensors.contacts != touching:
        raise ValueError(
            f"sensors read {len(sensors.contacts)} contacts, and not those of this ground: wanted "
            "the ground of the call in model.sensors(function, ground)"
        )
    for name, shape in sensors.parameters:
        if variant.policy and dict(variant.policy.parameters).get(name, shape) != shape:
            raise ValueError(
                f"the policy and the sensors have a parameter {name!r} of different shapes: wanted "
                "the same one, or two names"
            )


def _check_method(model: Robot, variant: Variant, method: str) -> None:
    name, known = variant.name, CALLED[variant.name].methods
    if method not in known:
        wanted = one_of(method, ("auto", *known))
        raise ValueError(f"method of {name} is {method!r}: {wanted}")
    refusals = {}
    for other, entry in known.items():
        tree = tree_of(model) if entry.regroup else build_tree(model, regroup=False)
        refusals[other] = entry.refusal(tree)
    if why := refusals[method]:
        others = ", ".join(repr(other) for other, no in refusals.items() if not no)
        raise ValueError(f"method={method!r} cannot handle {model.name!r}: {why}; use {others}")


def input_sizes(variant: Variant) -> Sizes:
    sizes = dict(entry_of(variant).inputs)
    if variant.actuation is None:  # controls are joint forces
        sizes = {k: tuple("v" if n == "u" else n for n in size) for k, size in sizes.items()}
    if variant.policy is not None:
        sizes |= variant.policy.sizes(variant.steps > 0)
    if variant.constraints is not None:
        held = variant.constraints.sizes
        if variant.steps and "active" in held:
            held["active"] = ("steps", *held["active"])
        sizes |= held
    if variant.ground is not None:
        sizes |= variant.ground.sizes
    if variant.sensors is not None and variant.name in WITH_SENSORS:
        sizes = {**sizes, **dict(variant.sensors.parameters)}
    if variant.wrenches:
        each = ("steps",) if variant.steps else ()
        sizes["f_ext"] = (*each, len(variant.at) or "bodies", 6)
    return sizes | {name: PARAMETERS[name] for name in variant.parameters}


def input_names(variant: Variant) -> list[str]:
    """The inputs of a variant in order."""
    return [*input_sizes(variant)]


def input_shapes(model: Robot, variant: Variant) -> dict[str, tuple[int, ...]]:
    """The inputs of a variant in order: the function's own, f_ext, parameters."""
    return shapes(model, input_sizes(variant), variant)


def output_sizes(variant: Variant) -> Sizes:
    """The outputs of a variant in order: the function's own, the memory of a policy, contacts and
    sensors.
    """
    sizes, when = entry_of(variant).outputs, "end" if variant.steps else "next"
    if variant.policy is not None:
        sizes = sizes | {f"{name}_{when}": shape for name, shape in variant.policy.memory}
    if variant.ground is not None and variant.name in WITH_CONTACTS:
        sizes = sizes | _of_contacts(variant)
    if variant.sensors is not None and variant.name in WITH_SENSORS:
        rows = variant.sensors.sizes("kept", ("sensed",))
        sizes = sizes | (rows if variant.steps else variant.sensors.sizes("next"))
    return sizes


def _of_contacts(variant: Variant) -> Sizes:
    """Returns the outputs of a step or a rollout on the ground."""
    if not variant.steps:
        return GROUND_OUTPUTS
    rows: Sizes = {x: ("steps", *GROUND_OUTPUTS[x]) for x in ("contact_force", "residual")}
    return {**rows, "impulse_end": GROUND_OUTPUTS["impulse_next"]}


def output_shapes(model: Robot, variant: Variant) -> dict[str, tuple[int, ...]]:
    sizes = output_sizes(variant)
    if isinstance(variant.frame, tuple):
        sizes = {name: (len(variant.frame), *size) for name, size in sizes.items()}
    return shapes(model, sizes, variant)


def results_type(variant: Variant) -> type[tuple] | None:
    """The named tuple of a variant's results, if there are several."""
    base, touches = CALLED[variant.name].collect, variant.name in WITH_CONTACTS and variant.ground
    more: tuple[str, ...] = ()
    if variant.policy is not None:
        more = (*variant.policy.memory_names, *(GROUND_FIELDS if touches else ()))
    elif touches:
        base = GroundTrajectory if variant.steps else GroundStep
    if variant.sensors is not None:
        more = (*more, *variant.sensors.shapes)
    return with_fields(base, more) if base and more else base


def variant_key(model: Robot, variant: Variant) -> str:
    """The facts on which the code of a variant depends: frames by their placements, not by their
    names.
    """
    places = [model.frame(name)[1:] for name in (*variant.frames, *variant.at)]
    several = isinstance(variant.frame, tuple)
    plain = variant._replace(frame=() if several else None, at=())
    touching = () if variant.ground is None else (variant.ground.key(model),)
    return repr((model.fingerprint, plain, tuple(places), *touching))
