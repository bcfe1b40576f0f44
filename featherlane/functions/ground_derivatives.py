"""Derivatives of steps on the ground, by those of inverse dynamics and of the contacts.

A step solves r = dt (ID(q, v, a) - tau) - J^T p = 0 beside the conditions of its rows, see
`algorithms/ground_slopes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.derivatives import inverse_dynamics_derivatives
from featherlane.algorithms.factor import MassFactor, factor
from featherlane.algorithms.implicit_damping import ImplicitTerms
from featherlane.algorithms.mean_accelerations import in_axes_of_beginning
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.tangent import tangent_gradient
from featherlane.functions.ground_inputs import GROUND_OUTPUTS, SOLUTION
from featherlane.functions.table import Variant
from featherlane.functions.wrenches import wrenches_on
from featherlane.program.derivatives.graphs import jacobian
from featherlane.program.derivatives.products import adjoints
from featherlane.program.graph import Graph
from featherlane.program.trace import call, trace
from featherlane.robot.model import Robot
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import build_tree, tree_of
from featherlane.scalar import Scalar

if TYPE_CHECKING:
    from featherlane.algorithms.ground_slopes import StepRows, StepState
    from featherlane.algorithms.scene import Scene

Arrays = dict[str, Any]
Graphs = Callable[[Variant], Graph]


class GroundEquations(NamedTuple):
    """The equations of a step on the ground with these arrays: its surroundings, the smooth tree,
    the forces of joints, and terms of implicit damping, if it has any.
    """

    tree: Tree
    around: StepRows
    tau: Scalars
    options: dict[str, Any]
    terms: ImplicitTerms | None

    @staticmethod
    def of(model: Robot, variant: Variant, arrays: Arrays, damped: bool) -> GroundEquations:
        """arrays: with the forces of joints as tau, and servo_damping if servos have it."""
        from featherlane.algorithms.ground_slopes import EqualityRows, StepRows  # few need it

        q, v = arrays["q"], arrays["v"]
        scene, tree, frictions = _surroundings(model, variant, arrays)
        held = variant.constraints and EqualityRows(**variant.constraints.options({**arrays}))
        options = {}
        if variant.wrenches:
            options = wrenches_on(model, tree, variant, q, arrays["f_ext"])
        terms = ImplicitTerms.at(tree, q, v, arrays.get("servo_damping", ())) if damped else None
        return GroundEquations(
            tree, StepRows(scene, frictions, held), arrays["tau"], options, terms
        )

    def slopes(self, q: Scalars, v: Scalars, a: Scalars, dt: Scalar) -> tuple[Rows, Rows]:
        """Returns the derivatives of inverse dynamics by q and v at fixed a."""
        X = inverse_dynamics_derivatives(self.tree, q, v, a, **self.options)
        shifts = self.terms.shifts(v, a, dt) if self.terms else ()
        for rows, diagonal in zip(X, shifts, strict=False):
            for k, x in enumerate(diagonal):
                rows[k][k] = rows[k][k] + x
        return X

    def factor(self, q: Scalars, dt: Scalar) -> MassFactor:
        """Returns the factor of M, and of implicit damping if there is any."""
        tree = self.resisting(dt)
        return factor(tree, mass_matrix(tree, q))

    def resisting(self, dt: Scalar) -> Tree:
        """Returns the tree, with implicit damping if there is any."""
        return self.terms.resisting(self.tree, dt) if self.terms else self.tree

    def left(self, step: StepState) -> tuple[list[Scalar], list[Scalar]]:
        """Returns r, of the rows whose impulses step.p has, and the closing velocities."""
        from featherlane.algorithms.ground_slopes import contact_kinematics

        q, v, a, _, dt = step
        pull, closing = contact_kinematics(self.tree, step, self.around)
        missing = self.missing_force(q, v, a, dt)
        return [dt * x - y for x, y in zip(missing, pull, strict=True)], closing

    def missing_force(self, q: Scalars, v: Scalars, a: Scalars, dt: Scalar) -> list[Scalar]:
        """Returns the forces of joints that an acceleration takes beside tau."""
        force = rnea(self.tree, q, v, a, **self.options)
        if self.terms is not None:
            force = [x + y for x, y in zip(force, self.terms.force(v, a, dt), strict=True)]
        return [x - y for x, y in zip(force, self.tau, strict=True)]

    @property
    def each(self) -> list[GroundEquations]:
        """The equations of each solution from which a step under rigid contacts is: without
        restitution, and with it if there is any.
        """
        scene = self.around.scene
        if not scene.rebounds:
            return [self]
        settled = self.around._replace(scene=scene._replace(restitution=0.0))
        return [self._replace(around=settled), self]

    def share(self, q: Scalars, v: Scalars, a_each: Sequence[Scalars], dt: Scalar) -> Scalar:
        """Returns the share of restitution in a step, see `restitution.py`, from the accelerations
        of its solutions.
        """
        from featherlane.algorithms.restitution import share_of_motions

        pulls = [[dt * x for x in self.missing_force(q, v, a, dt)] for a in a_each]
        settled, returned = a_each
        end = in_axes_of_beginning(
            self.tree, v, [x + dt * y for x, y in zip(v, settled, strict=True)], dt
        )
        changes = [dt * (y - x) for x, y in zip(settled, returned, strict=True)]
        return share_of_motions([*map(add, v, end)], changes, pulls)

    def with_held(self, step: StepState, factored: MassFactor) -> StepState:
        """Returns a step with the impulses of constraints behind the others."""
        if self.around.held is None:
            return step
        held = self.around.held.impulses(self.tree, factored, step, self.left(step)[0])
        return step._replace(p=[*step.p, *held])


def _surroundings(model: Robot, variant: Variant, arrays: Arrays) -> tuple[Scene, Tree, Scalars]:
    """Returns the scene of a step, the smooth tree, and the dry frictions of its joints."""
    from featherlane.algorithms.ground_steps import dry_frictions  # few need it

    assert variant.ground is not None
    scene = variant.ground.scene(model, **{x: arrays[x] for x in variant.ground.parameters})
    return scene, *dry_frictions(_tree(model, variant, arrays), scene)


def _tree(model: Robot, variant: Variant, arrays: Arrays) -> Tree:
    """Returns the tree of a model with the parameters of a variant."""
    if not variant.parameters:
        return tree_of(model)
    return build_tree(model, {name: arrays[name] for name in variant.parameters})


def ground_step_and_derivatives(
    model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs
) -> Arrays:
    """Returns the acceleration, forces, residual and impulses of a step on the ground, and the
    derivatives of the acceleration by q, v and joint forces.
    """
    is_soft = variant.ground is not None and variant.ground.is_soft
    ending = "" if is_soft else "_solutions"
    name = variant.name.removesuffix("_and_derivatives") + ending
    step = graphs(variant._replace(name=name))
    results = call(step, **{name: arrays[name] for name in step.inputs})
    slopes = (_soft_slopes if is_soft else _rigid_slopes)(model, variant, {**arrays, **results})
    stepped = {x: results[x] for x in ("a", *GROUND_OUTPUTS)}
    return {"a": stepped.pop("a"), **slopes, **stepped}


def _rigid_slopes(model: Robot, variant: Variant, arrays: Arrays) -> Arrays:
    """Returns the derivatives of an acceleration under rigid contacts."""
    each = zip(*(arrays[x] for x in SOLUTION.values()), strict=True)
    of_solution = variant
    if len(arrays["a_each"]) > 1:
        of_solution = variant._replace(ground=variant.ground and variant.ground.with_restitution())
    answers = [
        _answer(model, of_solution, {**arrays, **dict(zip(SOLUTION, solution, strict=True))})
        for solution in each
    ]
    return slopes_of_solutions(model, variant, {**arrays, "answers": answers})


def _answer(model: Robot, variant: Variant, arrays: Arrays) -> Rows:
    """Returns the derivatives of the acceleration of a solution by joint forces, q and v."""
    from featherlane.algorithms.row_elimination import RowBlock, eliminate

    before = ground_rows(model, variant, arrays)
    answer = before["answer"]
    for block in zip(*(before[x] for x in ("rows", "changes", "laws")), strict=True):
        answer = eliminate(RowBlock.unpacked(*block), answer)
    n, columns = model.nv, [*zip(*before["pull"], strict=True)]
    return [
        [*row[:n], *(x + dot(row[:n], column) for x, column in zip(row[n:], columns, strict=True))]
        for row in answer
    ]


def slopes_of_solutions(
    model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs | None = None
) -> Arrays:
    """Returns the derivatives of a step's acceleration, from those of its solutions, the answers,
    nv x 3 nv, by joint forces, q and v.
    """
    answer, n = arrays["answers"][-1], model.nv
    if len(arrays["answers"]) > 1:
        answer = _shortened_answer(model, variant, arrays)
    return {
        "da_dq": [row[n : 2 * n] for row in answer],
        "da_dv": [row[2 * n :] for row in answer],
        "da_dtau": [row[:n] for row in answer],
    }


def _shortened_answer(model: Robot, variant: Variant, arrays: Arrays) -> Rows:
    """Returns the answer of a step whose restitution is shortened: a = a0 + s (a1 - a0), where s
    depends on q, v, joint forces and both accelerations.
    """
    values = {x: arrays[x] for x in ("q", "v", "dt", "a_each")} | _beside(variant, arrays)

    def run(*inputs: Any) -> Arrays:
        named = dict(zip(values, inputs, strict=True))
        equations = GroundEquations.of(model, variant, named, "damped" in variant.name)
        return {"share": equations.share(*(named[x] for x in ("q", "v", "a_each", "dt")))}

    graph = trace(run, {name: shape_of(x) for name, x in values.items()})
    wrt = ("q", "v", "tau", "a_each")
    slopes = call(adjoints(graph, wrt, "by "), **values, **{"by share": 1.0})
    by_q, by_v, by_tau, by_a = (slopes[f"by {x}"] for x in wrt)
    moved = [*by_tau, *tangent_gradient(model, arrays["q"], by_q), *by_v]
    for weights, answer in zip(by_a, arrays["answers"], strict=True):
        columns = zip(*answer, strict=True)
        moved = [x + dot(weights, column) for x, column in zip(moved, columns, strict=True)]
    left = 1.0 - call(graph, **values)["share"]
    rows = []
    for first, last, *answers in zip(*arrays["a_each"], *arrays["answers"], strict=True):
        each = zip(*answers, moved, strict=True)
        rows.append([y - left * (y - x) + (last - first) * s for x, y, s in each])
    return rows


def ground_rows(
    model: Robot, variant: Variant, arrays: Arrays, graphs: Graphs | None = None
) -> Arrays:
    """Returns what an acceleration under rigid contacts is differentiated from: its answer without
    contacts, [M^-1, 0], the blocks of rows that change it, and pull, nv x 2 nv, the derivatives of
    forces by q and v; with the answer [P, V] after all rows they are V + P pull.
    """
    from featherlane.algorithms import ground_slopes

    q, v, a, dt = (arrays[name] for name in ("q", "v", "a", "dt"))
    equations = GroundEquations.of(model, variant, arrays, "damped" in variant.name)
    X = equations.slopes(q, v, a, dt)
    tree, factored = equations.tree, equations.factor(q, dt)
    state = ground_slopes.StepState(q, v, a, arrays["impulse_next"], dt)
    solved, n = equations.with_held(state, factored), model.nv
    _, closing = ground_slopes.contact_kinematics(tree, solved, equations.around)
    moved, rate = _kinematics(model, variant, arrays, solved), 1.0 / dt
    beside = zip(moved["closing"], moved["by_v"], strict=True)
    changes = [[rate * x for x in (*by_q, *by_v)] for by_q, by_v in beside]
    blocks = ground_slopes.row_blocks(tree, factored, solved, equations.around, closing, changes)
    pull = [
        [*[rate * y - x for x, y in zip(by_q, of_rows, strict=True)], *[-x for x in by_v]]
        for by_q, by_v, of_rows in zip(*X, moved["pull"], strict=True)
    ]
    inverse = factored.inverted().inverse()
    return {
        "answer": [[*row, *[0.0] * (2 * n)] for row in inverse],
        "rows": [block.rows for block in blocks],
        "changes": [block.changes for block in blocks],
        "laws": [block.packed_laws() for block in blocks],
        "pull": pull,
    }


def _soft_slopes(model: Robot, variant: Variant, arrays: Arrays) -> Arrays:
    """Returns the derivatives of an acceleration under soft constraints."""
    from featherlane.algorithms.soft import slopes as on_soft
    from featherlane.algorithms.soft.steps import SoftState

    equations = GroundEquations.of(model, variant, arrays, "damped" in variant.name)
    X_q, X_v = equations.slopes(*(arrays[name] for name in ("q", "v", "a", "dt")))

    ground = variant.ground
    assert ground is not None
    held = {} if variant.constraints is None else variant.constraints.sizes
    names = ("q", "v", "a", "dt", *held, *variant.parameters, *ground.parameters)
    values = {name: arrays[name] for name in names}

    def at(named: Arrays) -> tuple[Any, ...]:
        scene, tree, frictions = _surroundings(model, variant, named)
        options = {} if variant.constraints is None else variant.constraints.options({**named})
        state = SoftState(tree, named["q"], named["v"], named["dt"], scene)
        return (state, named["a"], frictions), options

    def run(*inputs: Any) -> Arrays:
        state, options = at(dict(zip(values, inputs, strict=True)))
        return {"push": on_soft.constraint_push(*state, **options)}

    graph = trace(run, {name: shape_of(x) for name, x in values.items()})
    by_q = _by_q(model, graph, "push", values)
    by_v = call(jacobian(graph, "push", "v"), **values)["dpush_dv"]
    (state, a, frictions), options = at(values)
    M = mass_matrix(equations.resisting(arrays["dt"]), arrays["q"])
    H = on_soft.stiffened_factor(state, M, a, frictions, **options)
    return {
        "da_dq": on_soft.slopes(H, _less(X_q, by_q)),
        "da_dv": on_soft.slopes(H, _less(X_v, by_v)),
        "da_dtau": on_soft.inverse(H, model.nv),
    }


def _less(A: Rows, B: Rows) -> Rows:
    """Returns A - B."""
    return [[x - y for x, y in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]


def _inputs(variant: Variant, arrays: Arrays, step: StepState) -> Arrays:
    """Returns the arrays that the equations of a step read."""
    return {**step._asdict(), **_beside(variant, arrays)}


def _beside(variant: Variant, arrays: Arrays) -> Arrays:
    """Returns the arrays that the equations of a step read beside its state and dt."""
    names = [*variant.parameters, *(variant.ground.parameters if variant.ground else ())]
    names += [*(variant.constraints.sizes if variant.constraints else ())]
    names += [x for x in ("f_ext", "servo_damping", "tau") if x in arrays]
    return {x: arrays[x] for x in names}


def _kinematics(model: Robot, variant: Variant, arrays: Arrays, step: StepState) -> dict[str, Rows]:
    """Returns the derivatives of both results of `ground_slopes.contact_kinematics` by q, in the
    tangent space, and of the closing velocities by v.
    """
    from featherlane.algorithms.ground_slopes import StepState, contact_kinematics

    values = _inputs(variant, arrays, step)

    def run(*inputs: Any) -> Arrays:
        named = dict(zip(values, inputs, strict=True))
        state = StepState(*(named[x] for x in StepState._fields))
        equations = GroundEquations.of(model, variant, named, damped=False)
        pull, closing = contact_kinematics(equations.tree, state, equations.around)
        return {"pull": pull, "closing": closing}

    graph = trace(run, {name: shape_of(x) for name, x in values.items()})
    moved = {name: _by_q(model, graph, name, values) for name in ("pull", "closing")}
    moved["by_v"] = call(jacobian(graph, "closing", "v"), **values)["dclosing_dv"]
    return moved


def _by_q(model: Robot, graph: Graph, name: str, values: Arrays) -> Rows:
    """Returns the derivatives of a result of a graph by q, in the tangent space."""
    rows = call(jacobian(graph, name, "q"), **values)[f"d{name}_dq"]
    return [tangent_gradient(model, values["q"], row) for row in rows]


def shape_of(x: Any) -> tuple[int, ...]:
    """Returns the shape of nested lists of scalars."""
    return (len(x), *shape_of(x[0])) if isinstance(x, list | tuple) else ()
