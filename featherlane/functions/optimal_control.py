"""The graphs of iterative LQR: what one knot of a problem contributes, backwards and forwards.

Configurations change by motions in the tangent space, dx = [dq; dv; dm], where m is the memory that
the cost of a knot renews, if it has any: its arrays, one after another. The value of the state at a
knot is one row of numbers: its gradient by dx, the lower triangle of its Hessian, and what the
recursion has gathered on its way, see `GATHERED`.

Trajectories may have gaps: the gap of a step is its end minus the state after it, in the tangent
space of that state. A trial step of length s leaves the part 1 - s of each gap (Mastalli et al.,
Crocoddyl, ICRA 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from featherlane.algorithms.integrators import INTEGRATORS, Integrator
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.progress import compiling
from featherlane.functions.actuation import Actuation
from featherlane.functions.constraint_inputs import INPUTS, ConstraintInputs
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.functions.hessian_runs import dense_runs, hessian_runs
from featherlane.functions.policy import Shapes
from featherlane.functions.results import named_results
from featherlane.functions.riccati import (
    Feedback,
    Quadratic,
    beside,
    cross,
    feedback,
    first_failure,
)
from featherlane.functions.riccati_plan import RiccatiSizes
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.array import call_graph, trace
from featherlane.program.derivatives.graphs import hessian, jacobians
from featherlane.program.graph import Graph, graph_key
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify
from featherlane.robot.model import Robot
from featherlane.robot.parameters import parameter_value

Array = Any  # traced
GATHERED = ("slope", "curvature", "size", "knots", "definite")  # see `gather`
PARAMETER = "own_{}"  # the name of the input that holds a parameter of the user's cost
OF_ROBOT = "robot_{}"  # the name of the input that holds a parameter of the robot
STATE_OF_COST = ("q", "v", "tau", "force")  # which a kernel has; parameters are its inputs
BEFORE = (
    "q_before",
    "v_before",
    "memory_before",
    "tau_before",
)  # the trajectory that a trial departs from
KERNELS = {  # inputs, then those of the user's cost of a knot or of the end; outputs
    "backward": (
        ("q", "v", "memory", "tau", "value", "sums", "gap", "damping", "dt", "limits", *INPUTS),
        "cost",
        ("value_before", "sums_before", "k", "K"),
    ),
    "end": (("q", "v", "memory"), "terminal", ("value_before", "sums_before")),
    "forward": (
        ("q", "v", "memory", "total", *BEFORE, "k", "K", "length", "gap", "dt", "limits", *INPUTS),
        "cost",
        ("tau", "q_next", "v_next", "sum", "memory_next", "force"),
    ),
    "last": (("q", "v", "memory", "total"), "terminal", ("sum",)),
    "expansion": (("q", "v", "memory", "tau"), "cost", ("gradient", "hessian", "renewal")),
    # In place of `backward`, for large robots: see `riccati_plan`
    "slopes": (
        ("q", "v", "memory", "tau", "gap", "dt", *INPUTS),
        "cost",
        ("steps", "maps", "shift", "cost", "forces", "stiffness"),
    ),
}
# Operations of a backward step above which it is a plan (`riccati_plan`). HyQ's, 122,000 with 18
# freedoms and 12 controls, are as fast in one kernel, and faster in float32
LARGE = 150_000
FUSED = 50  # freedoms up to which derivatives of the step and of the cost are one kernel


@dataclass(frozen=True)
class ControlProblem:
    """A robot, its step, and the costs of a knot and of the end as graphs of the users' functions,
    which give numbers, or residuals r for the cost |r|^2 / 2. Costs are compared by `key`.
    """

    model: Robot
    integrator: Integrator
    actuation: Actuation | None
    limited: bool
    exact: bool  # Hessians; else J^T J of the residuals
    key: str
    cost: Graph = field(compare=False, repr=False)
    terminal: Graph = field(compare=False, repr=False)
    constraints: ConstraintInputs | None = None
    gaps: bool = False  # whether trajectories may have them
    params: tuple[str, ...] = ()  # parameters of the robot that each problem has
    memory: Shapes = ()  # of arrays that the cost of a knot renews
    ground: GroundInputs | None = None

    @property
    def _identity(self) -> tuple[Any, ...]:
        held, ground = self.constraints, self.ground
        kind = self.limited, self.exact, self.gaps, self.large
        of_step = self.integrator, self.actuation, held, ground and (ground, ground.key(self.model))
        return *of_step, *kind, self.key, self.params, self.memory

    @property
    def controls(self) -> int:
        return self.actuation.controls if self.actuation else self.model.nv

    @property
    def states(self) -> int:
        """Entries of dx."""
        return 2 * self.model.nv + self.remembered

    @cached_property
    def remembered(self) -> int:
        """Entries of the memory."""
        return sum(math.prod(shape) for _, shape in self.memory)

    @property
    def large(self) -> bool:
        """Whether the backward step is a plan."""
        return self.products > LARGE

    @property
    def fused(self) -> bool:
        """Whether `slopes` is one kernel."""
        return INTEGRATORS[self.integrator].stages == 1 and self.model.nv <= FUSED

    @cached_property
    def sizes(self) -> RiccatiSizes:
        """The sizes of the plan of a backward step."""
        held, forces = self.constraints, 0
        if held is not None and self.reads_forces and self.fused:
            forces = held.constraints.rows
        kind = self.limited, self.gaps, len(GATHERED)
        blocks = None
        if self.fused and INTEGRATORS[self.integrator].semi_implicit and not self.memory:
            model = self.model
            types = [(model.types[i], model.first_v[i]) for i in model.independent]
            blocks = tuple((kind.nv, k) for kind, k in types if kind.commutator is not None)
        if self.reads_forces and not forces:
            hessian = dense_runs(self.states + self.controls)
        else:
            hessian = hessian_runs(self.model, self.cost, self.controls, self.memory)
        return RiccatiSizes(self.states, self.controls, forces, *kind, hessian, blocks)

    @property
    def value_shape(self) -> tuple[int, ...]:
        n = self.states
        return self.sizes.value if self.large else (n + n * (n + 1) // 2 + n * self.gaps,)

    @property
    def products(self) -> int:
        """About how many operations `backward` takes: those of its products of matrices, in which
        Euler's methods have rows of 0 and 1; for the other methods, thrice as many.
        """
        n, nx, nu = self.model.nv, self.states, self.controls
        z = nx + nu
        if INTEGRATORS[self.integrator].stages == 1:
            by_all = 2 * n * n * z + n * z * z // 2
        else:
            by_all = 3 * (4 * n * n * z + n * z * z)
        return 2 * (by_all + nu * nx * nx // 2 + nu * nu * (nx + 1) + nu**3 // 6)

    def _shapes(self, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
        n, nx, nu = self.model.nv, self.states, self.controls
        z = nx + nu
        sizes: dict[str, tuple[int, ...]]
        sizes = {"q": (self.model.nq,), "v": (n,), "tau": (nu,), "k": (nu,), "K": (nu, nx)}
        sizes |= {"value": self.value_shape, "sums": (len(GATHERED),), "limits": (2, nu)}
        sizes |= self.sizes.work_shapes
        sizes |= {"gradient": (z,), "hessian": (z, z), "gap": (nx,)}
        sizes |= {"memory": (self.remembered,), "renewal": (self.remembered, z)}
        sizes |= {OF_ROBOT.format(x): parameter_value(self.model, x).shape for x in self.params}
        plain = lambda name: name.removesuffix("_before").removesuffix("_next")
        absent = {*INPUTS, "force"} | {"maps", "shift", "forces", "stiffness"} - sizes.keys()
        if not self.memory:
            absent |= {"memory", "memory_before", "memory_next", "renewal"}
        absent |= {x for x, used in (("limits", self.limited), ("gap", self.gaps)) if not used}
        if (held := self.constraints) is not None:
            of_constraints = held.shapes
            sizes |= {**of_constraints, "force": (held.constraints.rows,)}
            absent -= {*of_constraints, "force"}
        names = [name for name in names if name not in absent]
        return {name: sizes.get(plain(name), ()) for name in names}

    def inputs(self, kernel: str) -> dict[str, tuple[int, ...]]:
        """Returns the inputs of a kernel, among them the parameters of the user's cost."""
        names, of, _ = KERNELS[kernel]
        if kernel == "expansion" and self.reads_forces:
            names = *names, "dt", *INPUTS
        if "dt" in names:  # it has a step
            names = *names, *map(OF_ROBOT.format, self.params)
        return {**self._shapes(names), **self._parameters(getattr(self, of))}

    def function(self, kernel: str) -> Function:
        """Returns a kernel of the table. It is traced only if the cache has no code for it."""
        outputs = self._shapes(KERNELS[kernel][2])
        graph = lru_cache(1)(partial(self.graph, kernel))
        key = repr((self.model.fingerprint, *self._identity, kernel))

        def compiled(dtype: np.dtype) -> Kernel:
            with compiling(f"{kernel} of ilqr of {self.model.name} ({dtype})"):
                return compile_program(lambda: Program(graph()), key, dtype)

        collect = named_results(tuple(outputs))
        kernels = KernelsByDtype(compiled)
        return Function(kernel, self.inputs(kernel), outputs, kernels, collect)

    def graph(self, kernel: str) -> Graph:
        """Traces a kernel of the table."""
        shapes, outputs = self.inputs(kernel), KERNELS[kernel][2]

        def run(*arrays: Array) -> dict[str, Array]:
            # its method has the name of the kernel in KERNELS
            results = getattr(self, f"_{kernel}")(dict(zip(shapes, arrays, strict=True)))
            return dict(zip(self._shapes(outputs), results, strict=True))

        return simplify(trace(run, shapes))

    def _of_model(self, name: str, **inputs: Array) -> dict[str, Array]:
        variant = Variant(name)
        if "step" in name:
            variant = variant._replace(integrator=self.integrator, actuation=self.actuation)
            variant = variant._replace(constraints=self.constraints, parameters=self.params)
            variant = variant._replace(ground=self.ground)
        return call_graph(dynamics_graph(self.model, variant), inputs)

    # Costs

    def _parameter_shapes(self, graph: Graph) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the user's parameters of a cost."""
        taken = {*STATE_OF_COST, *(name for name, _ in self.memory)}
        return {x: shape for x, shape in graph.inputs.items() if x not in taken}

    def _parameters(self, of: Graph) -> dict[str, tuple[int, ...]]:
        return {PARAMETER.format(x): shape for x, shape in self._parameter_shapes(of).items()}

    def _cost_inputs(
        self, graph: Graph, inputs: Mapping[str, Array], **state: Array
    ) -> dict[str, Array]:
        """Returns the inputs of a cost. state: with the memory as one array, if there is any."""
        parameters = {x: inputs[PARAMETER.format(x)] for x in self._parameter_shapes(graph)}
        if self.memory:
            state |= self.recalled(state.pop("memory"))
        return {**{x: y for x, y in state.items() if x in graph.inputs}, **parameters}

    def recalled(self, memory: Array) -> dict[str, Array]:
        """Returns the arrays of a memory (..., remembered) by their names."""
        sizes = [math.prod(shape) for _, shape in self.memory]
        parts = np.split(memory, np.cumsum(sizes)[:-1], -1)
        lead = memory.shape[:-1]
        named = zip(self.memory, parts, strict=True)
        return {name: np.reshape(part, lead + shape) for (name, shape), part in named}

    def _renewed(self, inputs: Mapping[str, Array]) -> Array:
        """Returns the memory after a knot, of the inputs of its cost."""
        results = call_graph(self.cost, inputs)
        return np.concatenate([np.ravel(results[f"{name}_next"]) for name, _ in self.memory])

    @property
    def reads_forces(self) -> bool:
        """Returns whether the cost of a knot reads the forces of constraints."""
        return "force" in self.cost.inputs

    def _moved(self, graph: Graph, of: Callable[[dict[str, Array]], Array]) -> tuple[Graph, str]:
        """Returns a function of a cost's inputs as one of the state of a kernel, the parameters and
        a motion of q, whose name it returns, too.
        """
        motion = "_".join(graph.inputs)  # longer than the name of any of them
        state = {x: shape for x, shape in graph.inputs.items() if x in STATE_OF_COST}
        state |= {"memory": (self.remembered,)} if self.memory else {}
        parameters = self._parameters(graph)
        shapes = {motion: (self.model.nv,), **state, **parameters}

        def moved(w: Array, *inputs: Array) -> Array:
            x = dict(zip([*state, *parameters], inputs, strict=True))
            x["q"] = self._of_model("integrate", q=x["q"], v=w)["q_next"]
            return of(self._cost_inputs(graph, x, **{name: x[name] for name in state}))

        return trace(moved, shapes), motion

    def _expanded(self, graph: Graph, inputs: Mapping[str, Array], **state: Array) -> Quadratic:
        """Returns a cost as a function of the changes of its state: of [dq, dv, dm, dtau, dforce],
        or those of them that are there.
        """
        value = lambda x: _single(graph, x) if self.exact else call_graph(graph, x)["out"]
        around, motion = self._moved(graph, value)
        by = (motion, *[name for name in state if name != "q"])
        derived = (
            hessian(around, "out", by, values=True)
            if self.exact
            else jacobians(around, ["out"], by, values=True)
        )
        values = call_graph(derived, self._around(derived, inputs, motion, state))
        slopes = np.concatenate([values[f"dout_d{name}"] for name in by], -1)
        if not self.exact:
            return Quadratic(slopes.T @ values["out"], slopes.T @ slopes)
        block = lambda a, b: (
            values[f"d2out_d{a}d{b}"] if by.index(a) <= by.index(b) else values[f"d2out_d{b}d{a}"].T
        )
        return Quadratic(slopes, np.block([[block(a, b) for b in by] for a in by]))

    def _around(
        self, graph: Graph, inputs: Mapping[str, Array], motion: str, state: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Returns the inputs of a graph from `_moved`, or of its derivatives, without a motion."""
        known = {**inputs, **state, motion: np.zeros(self.model.nv)}
        return {name: known[name] for name in graph.inputs}

    def _renewal(self, x: dict[str, Array]) -> Array:
        """Returns the derivatives of the memory after a knot by [dq, dv, dm, dtau]."""
        around, motion = self._moved(self.cost, self._renewed)
        state = self._state(x)
        by = [motion, *[name for name in state if name != "q"]]
        slopes = None
        if self.reads_forces:
            state["force"], slopes = self._forces(x)
        derived = jacobians(around, ["out"], [*by, *(["force"] if self.reads_forces else [])])
        values = call_graph(derived, self._around(derived, x, motion, state))
        renewal = np.concatenate([values[f"dout_d{name}"] for name in by], -1)
        return renewal if slopes is None else renewal + values["dout_dforce"] @ slopes

    def _state(self, x: dict[str, Array]) -> dict[str, Array]:
        """Returns what a knot's cost reads of a kernel's inputs, in the order of its changes."""
        return {name: x[name] for name in ("q", "v", "memory", "tau") if name in x}

    def _of_knot(self, x: dict[str, Array]) -> Quadratic:
        """Returns the cost of a knot as a function of [dq, dv, dm, dtau]. Forces change linearly
        with these: their second derivatives are left out, as those of the step are.
        """
        if not self.reads_forces:
            return self._expanded(self.cost, x, **self._state(x))
        cost, slopes = self._with_forces(x)
        return cost.after(np.concatenate([np.eye(self.states + self.controls), slopes]))

    def _with_forces(self, x: dict[str, Array]) -> tuple[Quadratic, Array]:
        """Returns the cost of a knot as a function of [dq, dv, dm, dtau, dforce], and the
        derivatives of forces by the others.
        """
        force, slopes = self._forces(x)
        return self._expanded(self.cost, x, **self._state(x), force=force), slopes

    def _forces(self, x: dict[str, Array]) -> tuple[Array, Array]:
        """Returns the forces of a knot's step, and their derivatives by [dq, dv, dm, dtau]."""
        state = {name: x[name] for name in ("q", "v", "tau")}
        name = "step_forces_and_derivatives"
        force, *slopes = self._of_model(name, **self._of_step(x, **state)).values()
        slopes.insert(2, np.zeros((len(force), self.remembered)))
        return force, np.concatenate(slopes, -1)

    # What a step does to changes

    def _linear(self, x: dict[str, Array]) -> tuple[Array | None, Array]:
        """Returns T (or None for 1) and S with dx_next = T S [dx; dtau], of a kernel's inputs."""
        T, S = self._linear_step(self._of_step(x, q=x["q"], v=x["v"], tau=x["tau"]))
        if not self.memory:
            return T, S
        n, by_memory = 2 * self.model.nv, np.zeros((len(S), self.remembered))
        S = np.concatenate([S[:, :n], by_memory, S[:, n:]], -1)
        if T is not None:
            zeros = np.zeros((n, self.remembered))
            T = np.block([[T, zeros], [zeros.T, np.eye(self.remembered)]])
        return T, np.concatenate([S, self._renewal(x)])

    def _linear_step(self, inputs: dict[str, Array]) -> tuple[Array | None, Array]:
        """Returns T and S of the step alone. Of Euler's methods S has rows of zeros and ones, which
        fold away, where A and B do not show them. inputs: of a step.
        """
        q, v, dt = inputs["q"], inputs["v"], inputs["dt"]
        if INTEGRATORS[self.integrator].stages > 1:
            step = self._of_model("linearize_step", **inputs)
            return None, np.concatenate([step["A"], step["B"]], -1)
        step = self._of_model("linearize_step_reduced", **inputs)
        n, nu = self.model.nv, self.controls
        I, O = np.eye(n), np.zeros((n, n))
        slopes = dt * np.concatenate([step["da_dq"], step["da_dv"], step["da_du"]], -1)
        below = slopes + np.concatenate([O, I, np.zeros((n, nu))], -1)
        if not INTEGRATORS[self.integrator].semi_implicit:
            maps = self._of_model("integrate_derivatives", q=q, v=dt * v)
            by_q, by_v = maps["dq_next_dq"], dt * maps["dq_next_dv"]
            above = np.concatenate([by_q, by_v, np.zeros((n, nu))], -1)
            return None, np.concatenate([above, below])
        maps = self._of_model("straight_derivatives", u=dt * step["v_next"])
        by_q, by_v = maps["by_q"], dt * maps["by_u"]
        above = np.concatenate([I, np.zeros((n, n + nu))], -1)
        return np.block([[by_q, by_v], [O, I]]), np.concatenate([above, below])

    def _of_step(self, x: dict[str, Array], **state: Array) -> dict[str, Array]:
        """Returns the inputs of a step, of the inputs of a kernel."""
        of_robot = {name: x[OF_ROBOT.format(name)] for name in self.params}
        return {**state, **{name: x[name] for name in ("dt", *INPUTS) if name in x}, **of_robot}

    # Kernels, of their inputs by name

    def _backward(self, x: dict[str, Array]) -> tuple[Array, ...]:
        """Returns the value at a knot, and the feedback, from the value at the knot's end."""
        n, tau = self.states, x["tau"]
        T, S = self._linear(x)
        steps = (S,) if T is None else (T, S)
        after, share = unpacked(x["value"], n)
        crossed = cross(after, share, x["gap"]) if self.gaps else None
        Q = after if crossed is None else crossed.value
        for step in steps:
            Q = Q.after(step)
        limits = tuple(x["limits"] - tau) if self.limited else None
        law, value = feedback(Q.plus(self._of_knot(x)), n, x["damping"], limits)
        carried = []
        if crossed is not None:
            law, share = crossed.before(law, steps)
            carried = [share]
        return packed(value, *carried), gathered(x["sums"], law), law.k, law.K

    def _slopes(self, x: dict[str, Array]) -> tuple[Array, ...]:
        """Returns the derivatives of a knot's step and of its cost, see `RiccatiSizes`."""
        size, n = self.sizes, self.model.nv
        first = np.r_[self.states : size.all, : self.states]  # [du; dx]
        T, S = self._linear(x)
        if size.blocks is None and T is not None:
            T, S = None, T @ S
        results = [S[:, first] if T is None else S[n:, first]]
        if size.blocks and T is not None:
            rows = [slice(k, k + nv) for nv, k in size.blocks]
            halves = T[:n, :n], T[:n, n:]  # by q, and by v
            maps = [np.concatenate([np.ravel(half[i, i]) for i in rows]) for half in halves]
            results.append(np.stack(maps))
        if self.gaps:
            results.append(np.stack([x["gap"]] * size.extra, -1))
        by_forces: list[Array] = []
        if size.forces:
            whole, F = self._with_forces(x)
            cost, stiffness = _apart(whole, F)
            by_forces = [F[:, first], stiffness]
        else:
            cost = self._of_knot(x)
        ordered = cost.gradient[first], cost.hessian[first[:, None], first]
        return *results, size.packed_cost(*ordered), *by_forces

    def _end(self, x: dict[str, Array]) -> tuple[Array, ...]:
        """Returns the value at the end of the last knot."""
        value = self._expanded(self.terminal, x, **self._state(x))
        share, sums = np.zeros(self.states if self.gaps else 0), np.array([0.0, 0.0, 0.0, 0.0, 1.0])
        if not self.large:
            return packed(value, share), sums
        columns = [value.gradient, *([share] if self.gaps else [])]
        return np.concatenate([value.hessian, np.stack(columns, -1)], -1), sums

    def _forward(self, x: dict[str, Array]) -> tuple[Array, ...]:
        """Returns a knot of a trial: its controls, the state after it, the sum of the costs so far,
        and forces of constraints. length: of the step along k, and of the gap the part that closes.
        """
        q, v = x["q"], x["v"]
        dq = self._of_model("difference", q0=x["q_before"], q1=q)["v"]
        memory = {"memory": x["memory"]} if self.memory else {}
        dm = [memory["memory"] - x["memory_before"]] if self.memory else []
        dx = np.concatenate([dq, v - x["v_before"], *dm])
        tau = x["tau_before"] + x["length"] * x["k"] + x["K"] @ dx
        if self.limited:
            low, high = x["limits"]
            tau = np.minimum(np.maximum(tau, low), high)
        inputs = self._of_step(x, q=q, v=v, tau=tau)
        step, forces = self._of_model("step", **inputs), dict[str, Array]()
        if self.constraints is not None:
            forces = self._of_model("step_forces", **inputs)
        state = self._cost_inputs(self.cost, x, q=q, v=v, tau=tau, **memory, **forces)
        renewed = [self._renewed(state)] if self.memory else []
        total = x["total"] + _single(self.cost, state)
        q_next, v_next = step["q_next"], step["v_next"]
        if self.gaps:
            back_q, back_v, *_ = np.split((x["length"] - 1.0) * x["gap"], [len(v), 2 * len(v)])
            q_next = self._of_model("integrate", q=q_next, v=back_q)["q_next"]
            v_next = v_next + back_v
        return tau, q_next, v_next, total, *renewed, *forces.values()

    def _last(self, x: dict[str, Array]) -> tuple[Array]:
        """Returns the sum of the costs with that of the end."""
        state = self._cost_inputs(self.terminal, x, **self._state(x))
        return (x["total"] + _single(self.terminal, state),)

    def _expansion(self, x: dict[str, Array]) -> tuple[Array, ...]:
        """Returns the gradient and the Hessian of a knot's cost, and the derivatives of the memory
        after it, by [dq, dv, dm, dtau].
        """
        return *self._of_knot(x), *([self._renewal(x)] if self.memory else [])


def _apart(cost: Quadratic, slopes: Array) -> tuple[Quadratic, Array]:
    """Returns a cost of [z; dforce], where dforce = slopes z, as a function of z without the
    products of slopes with each other, and the Hessian by forces, by which these are multiplied.
    """
    n = slopes.shape[-1]
    H, mixed = cost.hessian, cost.hessian[:n, n:] @ slopes
    gradient = cost.gradient[:n] + slopes.T @ cost.gradient[n:]
    return Quadratic(gradient, H[:n, :n] + mixed + mixed.T), H[n:, n:]


def gathered(sums: Array, law: Feedback) -> Array:
    """Returns the sums over the knots from this one on."""
    before = [sums[..., k] for k in range(len(GATHERED))]
    return np.concatenate([beside(x) for x in gather(before, law)], -1)


def packed(value: Quadratic, *others: Array) -> Array:
    """Returns the row of a value, with other entries behind it."""
    i, j = np.tril_indices(value.gradient.shape[-1])
    return np.concatenate([value.gradient, value.hessian[..., i, j], *others], -1)


def unpacked(row: Array, n: int) -> tuple[Quadratic, Array]:
    """Returns the value of n entries of dx in a row, and the entries behind it."""
    i, j = np.indices((n, n))
    i, j = np.maximum(i, j), np.minimum(i, j)
    H = row[..., n:][..., i * (i + 1) // 2 + j]
    return Quadratic(row[..., :n], H), row[..., n + n * (n + 1) // 2 :]


def gather(before: list[Array], law: Feedback) -> list[Array]:
    """Adds a knot to the sums over the knots behind it, and to the `Cholesky.definite` of all of
    them. Sizes are summed over the knots that are definite, or that of the first one alone: once
    one is not, those before it in time have no meaning.
    """
    slope, curvature, size, knots, definite = before
    both = first_failure(definite, law.definite)
    counts = np.where((both > 0.0) | (knots == 0.0), 1.0, 0.0)
    sizes = np.where(counts > 0.0, size + law.size, size)
    return [slope + law.slope, curvature + law.curvature, sizes, knots + counts, both]


def _single(graph: Graph, named: Mapping[str, Array]) -> Array:
    """Returns a cost as one number."""
    out = call_graph(graph, named)["out"]
    return 0.5 * np.sum(out * out) if np.ndim(out) else out


def costs_key(*graphs: Graph) -> str:
    """Returns the identity of costs."""
    return " ".join(map(graph_key, graphs))
