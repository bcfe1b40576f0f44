"""Steps in discrete time, as lists of calls that follow from the tableau of an integrator.

One list serves three times: run on traced scalars it is the graph of the step, and the flat kernel
of a small robot; with a kernel for each call it is the plan for a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.integrators import INTEGRATORS, Tableau
from featherlane.algorithms.step_derivatives import number, stage_names
from featherlane.algorithms.tangent import (
    configuration_rate,
    coordinate_gradient,
    tangent_gradient,
    tangent_of_rate,
)
from featherlane.functions.ground_derivatives import (
    ground_rows,
    ground_step_and_derivatives,
    slopes_of_solutions,
)
from featherlane.functions.ground_inputs import GROUND_OUTPUTS
from featherlane.functions.ground_products import RigidStep, SolvedStep
from featherlane.functions.soft_products import SoftStep
from featherlane.functions.step_functions import EACH, SENSE, derivative_inputs, entry_of
from featherlane.functions.table import DEFAULT_INTEGRATOR, Variant
from featherlane.functions.variants import output_sizes
from featherlane.program.derivatives.graphs import directional, jacobian, pullback
from featherlane.program.graph import Graph
from featherlane.program.trace import call, trace
from featherlane.robot.model import Robot
from featherlane.robot.spatial import dot

Arrays = dict[str, Any]  # inputs by name, as nested lists of traced scalars
Graphs = Callable[[Variant], Graph]  # the graph of another function of the model


class Call(NamedTuple):
    """A function of the table, and the names of the arrays that are its inputs and outputs."""

    variant: Variant
    inputs: dict[str, str]
    outputs: dict[str, str]


class _Calls:
    """Makes the calls of a step. Arrays are known by their names."""

    def __init__(self, model: Robot, variant: Variant) -> None:
        self.variant, self.calls = variant, list[Call]()
        self.method = INTEGRATORS[variant.integrator or DEFAULT_INTEGRATOR]
        turns = any(model.types[i].straight for i in model.independent)
        self.has_means = self.method.semi_implicit and turns

    def __call__(
        self, name: str, *inputs: str, to: str, tableau: Tableau | None = None
    ) -> list[str]:
        """Calls a function; its outputs get the names in `to`."""
        outer = self.variant
        variant = Variant(name, actuation=outer.actuation, by_wrenches=outer.by_wrenches)
        variant = variant._replace(sensors=outer.sensors if name == SENSE else None)
        variant = variant._replace(at=outer.at if outer.by_wrenches else (), tableau=tableau)
        function = entry_of(variant)
        named = dict(zip(function.inputs, inputs, strict=True))
        if "f_ext" in function.takes:
            variant = variant._replace(wrenches=outer.wrenches, at=outer.at)
            variant = variant._replace(parameters=outer.parameters)
            named |= {x: x for x in [*(["f_ext"] if outer.wrenches else []), *outer.parameters]}
        if "constraints" in function.takes and outer.constraints is not None:
            variant = variant._replace(constraints=outer.constraints)
            named |= {x: x for x in outer.constraints.sizes}
        if "ground" in function.takes and outer.ground is not None:
            variant = variant._replace(ground=outer.ground)
            named |= {x: x for x in outer.ground.sizes}
        results = to.split()
        self.calls.append(Call(variant, named, dict(zip(function.outputs, results, strict=True))))
        return results

    @cached_property
    def has_servos(self) -> bool:
        """Returns whether joint forces depend on the state of each stage."""
        return bool(self.variant.actuation and self.variant.actuation.has_servos)

    @cached_property
    def _forces_of_motors(self) -> str:
        """Returns the array of joint forces that hold over the step."""
        return self("actuate", "tau", to="forces")[0] if self.variant.actuation else "tau"

    def forces(self, q: str, v: str, number: str) -> str:
        """Returns the array of joint forces at a stage."""
        if self.has_servos:
            return self("servo_forces", q, v, "tau", to=f"forces{number}")[0]
        return self._forces_of_motors

    def slopes(self, number: str = "") -> None:
        """Calls the derivatives of an acceleration by q, v and controls, and wrenches."""
        controls = by_forces = self.by_forces(number)
        q, v, by_controls = f"q{number}", f"v{number}", self.slope("du", number)
        if self.variant.actuation:
            controls = f"da_dc{number}" if self.variant.by_wrenches else by_controls
        if self.has_servos:
            of_motion = self.by_motion(number)
            to = f"{self.slope('dq', number)} {self.slope('dv', number)} {controls}"
            self("servo_slopes", q, v, *of_motion, by_forces, "tau", to=to)
        elif self.variant.actuation:
            self("actuated_slopes", by_forces, "tau", to=controls)
        if self.variant.by_wrenches:
            self("slopes_by_wrenches", q, by_forces, controls, to=by_controls)
        if self.has_means:
            slopes = [self.slope(x, number) for x in ("dq", "dv", "du")]
            self("mean_slopes", v, f"a{number}", "dt", *slopes, to="da_dq da_dv da_du")

    def slope(self, by: str, number: str) -> str:
        """Returns the array of derivatives of an acceleration, of a mean one before it is that."""
        return f"{'early_' if self.has_means else ''}da_{by}{number}"

    def by_motion(self, number: str) -> tuple[str, str]:
        """Returns the arrays of the derivatives of an acceleration by q and v under held joint
        forces.
        """
        if self.has_servos:
            return f"held_da_dq{number}", f"held_da_dv{number}"
        return self.slope("dq", number), self.slope("dv", number)

    def by_forces(self, number: str) -> str:
        """Returns the array of the derivatives of an acceleration by joint forces."""
        more = self.variant.actuation or self.variant.by_wrenches
        return f"da_dtau{number}" if more else self.slope("du", number)

    def solutions(self) -> None:
        """Calls a step under rigid contacts, with the solutions from which it is."""
        self.solve("", "_solutions", to=" ".join(("a", *GROUND_OUTPUTS, *EACH)))

    def dynamics(self, number: str = "", derivatives: bool = False) -> None:
        """Calls forward dynamics at a stage."""
        by = [*self.by_motion(number), self.by_forces(number)] if derivatives else []
        ending = "_and_derivatives" if derivatives else ""
        more = GROUND_OUTPUTS if self.variant.ground is not None else ()
        self.solve(number, ending, to=" ".join([f"a{number}", *by, *more]))

    def constraint_forces(self, derivatives: bool = False) -> None:
        """Calls the forces of constraints at the first stage, with derivatives by joint forces."""
        by = "dforce_dq dforce_dv dforce_dtau" if derivatives else ""
        self.solve("", "_forces_and_derivatives" if derivatives else "_forces", to=f"force {by}")

    def solve(self, number: str, ending: str, to: str) -> None:
        """Calls forward dynamics, or another of the results of its equations, by the ending of its
        name. Damping that is implicit has M + dt D. Of constraints, semi-implicit steps hold
        velocities.
        """
        q, v, damped = f"q{number}", f"v{number}", self.method.damped
        name, of_step = "forward_dynamics", damped
        if self.variant.constraints is not None:
            of_step = self.method.semi_implicit
            name = "constrained_step" if of_step else "constrained_acceleration"
        if self.variant.ground is not None:
            name, of_step = "ground_step", True
        name = f"{name}{ending}"
        inputs = [q, v, self.forces(q, v, number)]
        if of_step:
            inputs.append("dt")
        if damped:
            name = f"damped_{name}"
            if self.has_servos:
                name = f"servo_{name}"
                inputs += self("servo_damping", q, v, "tau", to="servo_damping")
        self(name, *inputs, to=to)

    def stages(self, derivatives: bool = False) -> None:
        """Calls the functions that lead to the state, motion and acceleration of each stage, in
        arrays with the stage's number.
        """
        self.dynamics("", derivatives)
        for k, row in enumerate(self.method.a, 2):
            rate = f"rate{k}" if self.method.series else ""
            self.combination("to_stage", row, to=f"q{k} v{k} u{k} {rate}")
            self.dynamics(str(k), derivatives)

    def combination(self, name: str, row: Sequence[float], to: str) -> None:
        """Calls a function of the stages that a row of the tableau combines."""
        rates, accelerations = stage_names(self.method, row)
        inputs = "q", "v", *rates, *accelerations, "dt"
        self(name, *inputs, to=to, tableau=self.method.combination(row))

    def end(self) -> None:
        """Calls the function that gives the state at the end of the step, and the motion to it."""
        self.combination("advance", self.method.b, to=MOVED)

    def sense(self) -> None:
        """Calls the sensors of the step, if it has any."""
        if (sensors := self.variant.sensors) is not None:
            self(SENSE, *sensors.entry.inputs, to=" ".join(sensors.sizes("next")))


END = "q_next v_next"
MOVED = f"{END} motion"
LINEAR = f"{END} A B"


def _step(c: _Calls) -> None:
    c.stages()
    c.end()
    c.sense()


def _linearize_step(c: _Calls) -> None:
    c.stages(derivatives=True)
    for k in range(1, c.method.stages + 1):
        c.slopes(number(k))
    method = c.method._replace(damped=False)  # dynamics alone differ
    c("step_derivatives", *derivative_inputs(method), to=LINEAR, tableau=method)


def _linearize_step_reduced(c: _Calls) -> None:
    """Calls a step of one stage, and the derivatives of its acceleration as they are."""
    c.stages(derivatives=True)
    c.slopes()
    c.end()


COMPOSED: dict[str, Callable[[_Calls], None]] = {
    "step": _step,
    "linearize_step": _linearize_step,
    "linearize_step_reduced": _linearize_step_reduced,
    "step_solutions": _Calls.solutions,
    "step_forces": _Calls.constraint_forces,
    "step_forces_and_derivatives": partial(_Calls.constraint_forces, derivatives=True),
}


def calls_of(model: Robot, variant: Variant) -> list[Call]:
    """Returns the calls that a step consists of, in order."""
    step = _Calls(model, variant)
    COMPOSED[variant.name](step)
    return step.calls


def composed(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the outputs of a step on traced scalars."""
    values = _every_array(model, variant, arrays, graphs)
    return {name: values[name] for name in output_sizes(variant)}


def _every_array(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the arrays of all calls of a step, but for calls whose results are known."""
    values = dict(arrays)
    for function, reads, writes in calls_of(model, variant):
        if values.keys() >= {*writes.values()}:
            continue
        inputs = {name: values[array] for name, array in reads.items()}
        results = call(graphs(function), **inputs)
        values |= {array: results[name] for name, array in writes.items()}
    return values


def force_slopes(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the forces of constraints in a step, and their derivatives by q, v and controls."""
    values, actuation = _every_array(model, variant, arrays, graphs), variant.actuation
    by_q, by_v, by_u = (values[f"dforce_d{name}"] for name in ("q", "v", "tau"))
    if actuation is not None:
        state = arrays["q"], arrays["v"]
        by_q, by_v, by_u = actuation.servo_slopes(*state, by_q, by_v, by_u, arrays["tau"])
    return {"force": values["force"], "dforce_dq": by_q, "dforce_dv": by_v, "dforce_du": by_u}


def slopes_by_wrenches(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns da/du and, behind it, da/df_ext = -M^-1 dtau/df_ext, where inverse dynamics is linear
    in the wrenches.
    """
    plain = variant._replace(name="inverse_dynamics", by_wrenches=False)
    base = graphs(plain._replace(actuation=None, constraints=None))
    still = dict.fromkeys(("v", "a"), [0.0] * model.nv)
    known = {name: arrays[name] for name in base.inputs if name in arrays}
    rows = call(jacobian(base, "tau", "f_ext"), **still, **known)["dtau_df_ext"]
    columns = list(zip(*[[x for wrench in row for x in wrench] for row in rows], strict=True))
    beside = [
        [*controls, *[-dot(minv, column) for column in columns]]
        for controls, minv in zip(arrays["da_du"], arrays["da_dtau"], strict=True)
    ]
    return {"beside": beside}


# Derivatives along directions and backwards, by differentiating the graph of a step


def _in_one(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> tuple[Graph, Arrays]:
    """Returns the graph of a step with one input x, [q, v, controls], and one output y, [q, v];
    and its inputs.
    """
    base = graphs(variant._replace(name="step"))
    moving = ("q", "v", "tau")
    counts = [base.inputs[name][0] for name in moving]
    others = {name: shape for name, shape in base.inputs.items() if name not in moving}

    def run(x: Any, *fixed: Any) -> dict[str, Any]:
        named = dict(zip(others, fixed, strict=True))
        at = 0
        for name, count in zip(moving, counts, strict=True):
            named[name], at = x[at : at + count], at + count
        results = call(base, **named)
        return {"y": [*results["q_next"], *results["v_next"]]}

    x = [entry for name in moving for entry in arrays[name]]
    graph = trace(run, {"x": (len(x),), **others})
    return graph, {"x": x, **{name: arrays[name] for name in others}}


def solved_step(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> SolvedStep:
    """Returns a step on the ground at its solution, of which derivatives are taken."""
    step = variant._replace(name="step")
    inputs = {x: arrays[x] for x in graphs(step).inputs}
    is_soft = variant.ground is not None and variant.ground.is_soft
    solution = step if is_soft else step._replace(name="step_solutions")
    values = _every_array(model, solution, inputs, graphs)

    def end(solved: Arrays) -> Arrays:
        values = _every_array(model, step, solved, graphs)
        return {name: values[name] for name in output_sizes(step)}

    damped = INTEGRATORS[variant.integrator or DEFAULT_INTEGRATOR].damped
    kind = SoftStep if is_soft else RigidStep
    return kind(model, step, inputs, values, damped, end)


def slopes_along(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns how the end of a step with the derivatives A and B changes along directions."""
    moves = [*arrays["dq"], *arrays["dv"], *arrays["dtau"]]
    slopes = zip(arrays["A"], arrays["B"], strict=True)
    change = [dot([*a, *b], moves) for a, b in slopes]
    return {"dq_next": change[: model.nv], "dv_next": change[model.nv :]}


def slopes_backwards(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns gradients by the beginning of a step with the derivatives A and B."""
    weights, nv = [*arrays["gq_next"], *arrays["gv_next"]], model.nv
    of_state, of_controls = (
        [dot(column, weights) for column in zip(*arrays[x], strict=True)] for x in ("A", "B")
    )
    return {"gq": of_state[:nv], "gv": of_state[nv:], "gtau": of_controls}


def along(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns how the end of a step changes along directions of q, v and controls."""
    if variant.ground is not None:
        return _along_on_ground(model, variant, arrays, graphs)
    dq, dv, du = (arrays[f"d{name}"] for name in ("q", "v", "tau"))
    graph, inputs = _in_one(model, variant, arrays, graphs)
    rate = [*configuration_rate(model, arrays["q"], dq), *dv, *du]
    change = call(directional(graph, "y", "x"), **inputs, x_direction=rate)["y_direction"]
    end = call(graph, **inputs)["y"]
    dq_next = tangent_of_rate(model, end[: model.nq], change[: model.nq])
    return {"dq_next": dq_next, "dv_next": change[model.nq :]}


def backwards(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns gradients by a step's beginning and controls from those by its end."""
    if variant.ground is not None:
        return _backwards_on_ground(model, variant, arrays, graphs)
    graph, inputs = _in_one(model, variant, arrays, graphs)
    end = call(graph, **inputs)["y"][: model.nq]
    weights = [*coordinate_gradient(model, end, arrays["gq_next"]), *arrays["gv_next"]]
    gradient = call(pullback(graph, "y", "x"), **inputs, y_weight=weights)["x_weight"]
    gq = tangent_gradient(model, arrays["q"], gradient[: model.nq])
    n = model.nq + model.nv
    return {"gq": gq, "gv": gradient[model.nq : n], "gtau": gradient[n:]}


def _along_on_ground(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the changes of `along` on the ground."""
    solved = solved_step(model, variant, arrays, graphs)
    directions = {name: arrays[f"d{name}"] for name in ("v", "tau")}
    directions["q"] = configuration_rate(model, arrays["q"], arrays["dq"])
    change = solved.along(directions)
    dq_next = tangent_of_rate(model, solved.ends["q_next"], change["q_next"])
    return {"dq_next": dq_next, "dv_next": change["v_next"]}


def _backwards_on_ground(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the gradients of `backwards` on the ground."""
    solved = solved_step(model, variant, arrays, graphs)
    by_q = coordinate_gradient(model, solved.ends["q_next"], arrays["gq_next"])
    weights = {"q_next": by_q, "v_next": arrays["gv_next"]}
    gradients = solved.backwards(weights, ("q", "v", "tau"))
    gq = tangent_gradient(model, arrays["q"], gradients["q"])
    return {"gq": gq, "gv": gradients["v"], "gtau": gradients["tau"]}


# Many steps


def one_step(variant: Variant, name: str) -> Variant:
    """Returns the function of this name that a rollout repeats."""
    ground = variant.ground and variant.ground.warm()
    return variant._replace(name=name, steps=0, every=1, policy=None, ground=ground)


def control_law(variant: Variant) -> Variant:
    """Returns the function that evaluates the feedback law of a rollout."""
    return Variant("control_law", actuation=variant.actuation, policy=variant.policy)


def _at(arrays: Arrays, k: int, *names: str) -> Arrays:
    """Returns the inputs of step k: rows of some, of wrenches and of masks of constraints."""
    rows = [*names, *[x for x in ("f_ext", "active") if x in arrays]]
    return {**arrays, **{name: arrays[name][k] for name in rows}}


def rollout(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the states that are kept of a rollout, on traced scalars."""
    step, contacts = graphs(one_step(variant, "step")), _Contacts(model, variant, arrays)
    q, v = arrays["q"], arrays["v"]
    kept = _Kept(variant, q, v)
    for k in range(variant.steps):
        results = call(step, **{**_at(arrays, k, "tau"), "q": q, "v": v, **contacts.start})
        q, v = results["q_next"], results["v_next"]
        contacts.add(results)
        kept.add(k, results)
    results = {**kept.results, **contacts.results}
    return {name: results[name] for name in output_sizes(variant)}


class _Kept:
    """The states that are kept of a rollout, and the sensors of the steps to them."""

    def __init__(self, variant: Variant, q: Scalars, v: Scalars) -> None:
        names = variant.sensors.shapes if variant.sensors else ()
        self.every = variant.every
        self.results: Arrays = {"q_kept": [q], "v_kept": [v], **{f"{x}_kept": [] for x in names}}

    def add(self, k: int, step: Arrays) -> None:
        """Keeps the results of step k, if it is one of those that are kept."""
        if (k + 1) % self.every == 0:
            for name, rows in self.results.items():
                rows.append(step[f"{name.removesuffix('_kept')}_next"])


class _Contacts:
    """The results of contacts in a rollout on the ground; nothing without ground. start: the
    impulses at which the sweeps of the next step begin.
    """

    def __init__(self, model: Robot, variant: Variant, arrays: Arrays) -> None:
        self.start: Arrays = {}
        self.results: Arrays = {}
        if variant.ground is not None:
            none = [0.0] * variant.ground.counts(model)["impulses"]
            self.start = {"impulse": arrays.get("impulse", none)}
            self.results = {"contact_force": [], "residual": []}

    def add(self, step: Arrays) -> None:
        """Adds the results of a step."""
        if self.start:
            for name in ("contact_force", "residual"):
                self.results[name].append(step[name])
            self.start["impulse"] = self.results["impulse_end"] = step["impulse_next"]


def law_controls(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the controls of a feedback law and its new memory, and the steps until its next
    evaluation.
    """
    policy, count = variant.policy, arrays["count"]
    assert policy is not None
    read = {name: arrays[name] for name in policy.graph.inputs if name != "t"}
    results = call(policy.graph, **read, t=count * arrays["dt"])
    return {"controls": results.pop("tau"), "count_next": count + policy.hold, **results}


def policy_step(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the end of a step with the controls of a feedback law, and what the law gives."""
    evaluated = law_controls(model, variant, arrays, graphs)
    step = graphs(one_step(variant, "step"))
    values = {**arrays, "tau": evaluated["controls"]}
    results = {**call(step, **{name: values[name] for name in step.inputs}), **evaluated}
    return {name: results[name] for name in output_sizes(variant)}


def rollout_with(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the states that are kept of a rollout with a feedback law, on traced scalars."""
    policy = variant.policy
    assert policy is not None
    step, law = graphs(one_step(variant, "step")), graphs(control_law(variant))
    states, references = ("q", "v", "count", *policy.renewed_names), dict(policy.references)
    values: Arrays = {**arrays, "count": 0.0}
    contacts = _Contacts(model, variant, arrays)
    kept, controls = _Kept(variant, arrays["q"], arrays["v"]), list[Any]()
    for k in range(variant.steps):
        results: Arrays = {}
        now = _at(values, k, *references)
        if k % policy.hold == 0:
            results = dict(call(law, **{name: now[name] for name in law.inputs}))
            now["tau"] = values["tau"] = results.pop("controls")
        controls.append(values["tau"])
        now |= contacts.start
        results |= call(step, **{name: now[name] for name in step.inputs})
        contacts.add(results)
        kept.add(k, results)
        values |= {x: results[f"{x}_next"] for x in states if f"{x}_next" in results}
    ends = {f"{name}_end": values[name] for name in policy.memory_names}
    results = {**kept.results, "controls": controls, **ends, **contacts.results}
    return {name: results[name] for name in output_sizes(variant)}


def sensed(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns the arrays of the sensors of a step, on traced scalars."""
    assert variant.sensors is not None
    results = call(variant.sensors.graph, **arrays)
    return {f"{name}_next": x for name, x in results.items()}


def _solved_impulses(
    model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs
) -> list[Arrays]:
    """Returns the impulses of each step on the ground, at which its solution begins again."""
    if variant.ground is None:
        return [{}] * variant.steps
    step, contacts = graphs(one_step(variant, "step")), _Contacts(model, variant, arrays)
    starts = []
    for k in range(variant.steps):
        contacts.add(call(step, **{**_at(arrays, k, "q", "v", "tau"), **contacts.start}))
        starts.append(dict(contacts.start))
    return starts


def rollout_gradient(model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs) -> Arrays:
    """Returns gradients by the beginning and the controls of a rollout, on traced scalars."""
    step, rows = graphs(one_step(variant, "step_vjp")), list[Any]()
    starts = _solved_impulses(model, variant, arrays, graphs)
    ends = {name: arrays[name][variant.steps] for name in ("gq", "gv")}
    for k in reversed(range(variant.steps)):
        following = {f"{name}_next": g for name, g in ends.items()}
        gradients = call(step, **{**_at(arrays, k, "q", "v", "tau"), **following, **starts[k]})
        for name in ends:
            ends[name] = [x + y for x, y in zip(gradients[name], arrays[name][k], strict=True)]
        rows.insert(0, gradients["gtau"])
    return {"gq0": ends["gq"], "gv0": ends["gv"], "gtau": rows}


DERIVE_STEPS = {
    **{
        f"{damped}ground_{name}": derive
        for damped in ("", "damped_", "servo_damped_")
        for name, derive in (
            ("rows", ground_rows),
            ("slopes", slopes_of_solutions),
            ("step_and_derivatives", ground_step_and_derivatives),
        )
    },
    "slopes_by_wrenches": slopes_by_wrenches,
    "step": composed,
    "linearize_step": composed,
    "linearize_step_reduced": composed,
    "step_forces": composed,
    "step_forces_and_derivatives": force_slopes,
    "slopes_along": slopes_along,
    "slopes_backwards": slopes_backwards,
    "step_jvp": along,
    "step_vjp": backwards,
    "control_law": law_controls,
    "policy_step": policy_step,
    SENSE: sensed,
    "rollout": rollout,
    "rollout_with": rollout_with,
    "rollout_gradient": rollout_gradient,
}
