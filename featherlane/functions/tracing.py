"""From a variant of a robot's function to its program: its algorithms are traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import product
from typing import Any

from featherlane.errors import CompileError
from featherlane.functions.derived import DERIVE
from featherlane.functions.derived_kinematics import DERIVE_KINEMATICS
from featherlane.functions.dynamics_function import Algorithm
from featherlane.functions.lost_states import lost_as_a_whole
from featherlane.functions.step_functions import entry_of
from featherlane.functions.steps import DERIVE_STEPS
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes
from featherlane.functions.wrenches import wrenches_on
from featherlane.program.graph import Graph
from featherlane.program.lower import traced
from featherlane.program.passes.inline import flat
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.conditioning import singular_joints
from featherlane.robot.model import Robot
from featherlane.robot.parameters import BODY_PARAMETERS
from featherlane.robot.tree_of import build_tree, tree_of

INERTIAL = {*BODY_PARAMETERS, "armature"}  # parameters that may make M indefinite
LARGEST_FLAT = 30_000  # operations of a graph whose code is fetched as fast as it computes
STORED = 100_000  # nodes of a model's latest programs: some 20 MB


def _traceable(
    model: Robot, variant: Variant, algorithm: Algorithm, regroup: bool
) -> Callable[..., dict[str, Any]]:
    """A function of scalars, with the user's wrenches and frames turned into the algorithms'."""
    names, function = tuple(input_shapes(model, variant)), entry_of(variant)

    def run(*inputs: Any) -> dict[str, Any]:
        values = dict(zip(names, inputs, strict=True))
        parameters = {name: values.pop(name) for name in variant.parameters}
        whole = regroup and not parameters
        tree = tree_of(model) if whole else build_tree(model, parameters, regroup)
        options: dict[str, Any] = {}
        if variant.wrenches:
            options = wrenches_on(model, tree, variant, values["q"], values.pop("f_ext"))
        if variant.reference is not None:
            options["reference"] = variant.reference
        if variant.actuation is not None and "actuation" in function.takes:
            options["actuation"] = variant.actuation
        if variant.constraints is not None:
            options |= variant.constraints.options(values)
        if variant.ground is not None:
            arrays = {name: values.pop(name) for name in variant.ground.parameters}
            options["scene"] = variant.ground.scene(model, **arrays)
        points = [{"frame": tree.point(model.frame(name))} for name in variant.frames]
        each = [algorithm(tree, *values.values(), **at, **options) for at in points or [{}]]
        results = tuple(map(list, zip(*each, strict=True)))
        results = results if isinstance(variant.frame, tuple) else each[0]
        if function.lost_as_a_whole and not INERTIAL.isdisjoint(variant.parameters):
            results = tuple(lost_as_a_whole(results))
        return dict(zip(function.outputs, results, strict=True))

    return run


def _derived(model: Robot, variant: Variant) -> Callable[..., dict[str, Any]]:
    """A function of scalars whose trace holds derivatives of other functions' graphs."""
    names, graphs = tuple(input_shapes(model, variant)), partial(dynamics_graph, model)

    def run(*inputs: Any) -> dict[str, Any]:
        derive = (DERIVE | DERIVE_KINEMATICS | DERIVE_STEPS)[variant.name]
        values = dict(zip(names, inputs, strict=True))
        if not isinstance(variant.frame, tuple):
            return derive(model, variant, values, graphs)
        of = (variant._replace(frame=frame) for frame in variant.frame)
        each = [derive(model, one, {**values}, graphs) for one in of]
        return {name: [results[name] for results in each] for name in each[0]}

    return run


def _choices(model: Robot, variant: Variant) -> list[tuple[Algorithm, bool]]:
    """Returns the algorithms that compute a variant, each with whether inertia is regrouped."""
    function = entry_of(variant)
    algorithms = (tree_of(model).coupled and function.shared) or function.algorithms
    regroup = (True, False) if set(variant.parameters) & set(BODY_PARAMETERS) else (True,)
    if variant.method is not None:
        method = function.methods[variant.method]
        algorithms, regroup = (method.algorithm,), (regroup if method.regroup else (False,))
    return list(product(algorithms, regroup))


def scalar_function(
    model: Robot, variant: Variant, algorithm: Algorithm | None = None, **options: Any
) -> Callable[..., dict[str, Any]] | None:
    """A variant as a function of scalars, by an algorithm, or the first in its row: for robots that
    are too long to try all. options: further arguments of the algorithm. None if there is none.
    """
    for first, regroup in _choices(model, variant):
        return _traceable(model, variant, partial(algorithm or first, **options), regroup)
    return None


def _runs(model: Robot, variant: Variant) -> list[Callable[..., dict[str, Any]]]:
    """The functions whose traces compute a variant."""
    runs = [_traceable(model, variant, *choice) for choice in _choices(model, variant)]
    return runs or [_derived(model, variant)]


@contextmanager
def solvable(model: Robot, variant: Variant) -> Iterator[None]:
    try:
        yield
    except ZeroDivisionError:
        joints = ", ".join(singular_joints(model)) or "one of its joints"
        raise CompileError(
            f"the mass matrix of {model.name!r} is singular for every q, and has no inverse: too "
            f"little inertia resists {joints}; lock with fl.load(..., lock=...) or model.reduced, "
            "or give the links inertia"
        ) from None


def candidates(model: Robot, variant: Variant) -> dict[str, Graph]:
    """The graphs of the algorithms that compute a variant, by their names."""
    inputs = input_shapes(model, variant)
    choices = _choices(model, variant)
    names = [a.__name__ + (not regroup) * ", not regrouped" for a, regroup in choices]
    runs = zip(names or ["derived"], _runs(model, variant), strict=True)
    with solvable(model, variant), no_garbage():
        return {name: simplify(trace(run, inputs)) for name, run in runs}


@lru_cache(maxsize=8)
def dynamics_graph(model: Robot, variant: Variant) -> Graph:
    """The graph of one form of a function of a model, as an algorithm gives it: of several, that
    with the fewest operations, which is the fastest or nearly so, see docs/choices.md.
    """
    graphs = candidates(model, variant).values()
    return min(graphs, key=lambda graph: graph.cost().operations)


def dynamics_program(model: Robot, variant: Variant) -> Program:
    """The program of a variant: a flat graph, or, if that is large, one with calls of functions for
    repeated columns. Of several algorithms, the one with the fewest operations, as a flat graph.

    The model stores its latest programs of one algorithm, which kernels for batches and for one
    state and those of both dtypes share.
    """
    if len(_runs(model, variant)) > 1:
        return Program(dynamics_graph(model, variant))
    stored = model.__dict__.get("_programs", {})  # a cache outside would keep the model alive
    if variant not in stored:
        program = _program_of_columns(model, variant)
        model.__dict__["_programs"] = stored = _latest(stored, variant, program)
    return stored[variant]


def _latest(
    stored: dict[Variant, Program], variant: Variant, program: Program
) -> dict[Variant, Program]:
    """Adds a program to those of a model, and drops the oldest ones above STORED nodes in all. Two
    stay in any case; a plan has up to ten small ones.
    """
    latest, nodes = {variant: program}, sum(map(len, program.graphs))
    for name, other in reversed(stored.items()):
        nodes += sum(map(len, other.graphs))
        if len(latest) >= 2 and nodes > STORED:
            break
        latest = {name: other, **latest}
    return latest


def _program_of_columns(model: Robot, variant: Variant) -> Program:
    """Traces the only algorithm of a variant, with its columns as calls: inlined if the flat graph
    is not too large.
    """
    (run,) = _runs(model, variant)
    with solvable(model, variant):
        program = traced(run, input_shapes(model, variant), "cpu")
    if program.functions and program.operations > LARGEST_FLAT:
        return program
    with no_garbage():
        return Program(simplify(flat(program) if program.functions else program.main))
