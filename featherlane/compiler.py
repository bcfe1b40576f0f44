"""Where the two halves meet: algorithms are traced with models, and graphs become kernels."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from featherlane import cache, choice, limbs
from featherlane.algorithms.derivatives import world_fixed
from featherlane.backends import cpu, machine, single
from featherlane.derived import DERIVE
from featherlane.errors import CompileError
from featherlane.functions import METHODS, TABLE, Algorithm, Sizes, Variant, shapes
from featherlane.graph.expand import expand
from featherlane.graph.fuse import fuse
from featherlane.graph.graph import Graph, simplify
from featherlane.graph.op import OPS
from featherlane.graph.order import by_columns
from featherlane.graph.pack import Packed, pack
from featherlane.graph.routine import Program, Recorder, record
from featherlane.graph.trace import trace
from featherlane.graph.verify import verify
from featherlane.model import WORLD, Frame, Model
from featherlane.scalar import Scalar
from featherlane.spatial import (
    NO_CORIOLIS,
    NO_TURN,
    ZERO6,
    Coriolis,
    Rotation,
    Transform,
    Vector,
    matmul,
    spatial,
)
from featherlane.tree import BODY_PARAMETERS, PARAMETERS, Tree
from featherlane.tree import tree as make_tree
from featherlane.walk import call, on_hand_over, on_repeat, on_stage

WRENCH_FRAMES = ("body", "world")
SLOTS = "slots"  # a name in machine code
NARROW = 16  # bytes of the narrowest vectors
FLAT = 30_000  # operations of a graph up to which its code is fetched as fast as it computes


def _input_sizes(variant: Variant) -> Sizes:
    sizes = dict(TABLE[variant.name].inputs)
    if variant.wrenches:
        sizes["f_ext"] = (len(variant.at) or "bodies", 6)
    return sizes | {name: PARAMETERS[name] for name in variant.parameters}


def input_shapes(model: Model, variant: Variant) -> dict[str, tuple[int, ...]]:
    """The inputs of a variant in order: the function's own, f_ext, parameters."""
    return shapes(model, _input_sizes(variant))


def output_shapes(model: Model, variant: Variant) -> dict[str, tuple[int, ...]]:
    return shapes(model, TABLE[variant.name].outputs, variant.wrt)


def _wrenches(model: Model, tree: Tree, variant: Variant, q: list, f_ext: list) -> dict[str, Any]:
    """What algorithms take for the user's wrenches [force; moment], on bodies or at frames: sums
    [moment; force] at the origins of the turned body frames, and, for wrenches in the world's axes,
    how those change because body frames turn.
    """
    frames = [model.frame(name) for name in variant.at]
    frames = frames or [Frame("", body) for body in range(model.nbodies)]
    E, world = {WORLD: NO_TURN}, variant.wrenches == "world"
    for i in range(tree.nbodies) if world else ():
        E[i] = call(_turned_on, tree.joint_transform(i, q).E, E[tree.parent[i]])
    wrenches = [ZERO6] * tree.nbodies
    fixed = [NO_CORIOLIS] * tree.nbodies
    for frame, given in zip(frames, f_ext, strict=True):
        i, X = tree.point(frame)
        if i == WORLD:
            continue
        if world:
            X = Transform(NO_TURN, X.r)
            fixed[i] = call(_with_fixed, fixed[i], X, given, E[i])
        wrenches[i] = call(_with_wrench, wrenches[i], X, given, E[i] if world else NO_TURN)
    return {"f_ext": wrenches, "fixed": fixed if world else None}


def _turned_on(E: Rotation, parent: Rotation) -> Rotation:
    return Rotation(matmul(E.rows, parent.rows))


def _wrench(given: Sequence[Scalar], E: Rotation) -> Vector:
    """[moment; force] in axes that E turns to."""
    return spatial(E.to_child(given[3:]), E.to_child(given[:3]))


def _with_wrench(total: Vector, X: Transform, given: Sequence[Scalar], E: Rotation) -> Vector:
    return total + X.force_to_parent(_wrench(given, E))


def _with_fixed(total: Coriolis, X: Transform, given: Sequence[Scalar], E: Rotation) -> Coriolis:
    """How the wrench changes as a vector that does not turn with the body."""
    return total + X.coriolis_to_parent(world_fixed(_wrench(given, E)))


@contextmanager
def _following(
    stage: Callable[[Any], None], repeated: Any = None, handed_over: Any = None
) -> Iterator[None]:
    """While an algorithm runs: what it tells."""
    listeners = {on_stage: stage, on_repeat: repeated, on_hand_over: handed_over}
    tokens = [(told, told.set(listener)) for told, listener in listeners.items()]
    try:
        yield
    finally:
        for told, token in tokens:
            told.reset(token)


def _traceable(
    model: Model, variant: Variant, algorithm: Algorithm, ride: bool
) -> Callable[..., dict[str, Any]]:
    """A function of scalars, with the user's wrenches and frames turned into the algorithms'."""
    names, outputs = tuple(input_shapes(model, variant)), TABLE[variant.name].outputs

    def run(*inputs: Any) -> dict[str, Any]:
        given = dict(zip(names, inputs, strict=True))
        parameters = {name: given.pop(name) for name in variant.parameters}
        tree = model.tree if ride and not parameters else make_tree(model, parameters, ride)
        options: dict[str, Any] = {}
        if variant.wrenches:
            options = _wrenches(model, tree, variant, given["q"], given.pop("f_ext"))
        if variant.frame is not None:
            options["frame"] = tree.point(model.frame(variant.frame))
        if variant.reference is not None:
            options["reference"] = variant.reference
        return dict(zip(outputs, algorithm(tree, *given.values(), **options), strict=True))

    return run


def _derived(model: Model, variant: Variant) -> Callable[..., dict[str, Any]]:
    """A function of scalars whose trace holds derivatives of other functions' graphs."""
    names = tuple(input_shapes(model, variant))
    graphs = partial(dynamics_graph, model)

    def run(*inputs: Any) -> dict[str, Any]:
        return DERIVE[variant.name](model, variant, dict(zip(names, inputs, strict=True)), graphs)

    return run


def _choices(model: Model, variant: Variant) -> list[tuple[Algorithm, bool]]:
    """The algorithms that compute a variant, each with whether mass rides on parents."""
    function = TABLE[variant.name]
    algorithms = function.algorithms
    if model.tree.coupled and function.shared:
        algorithms = function.shared
    ride = (True, False) if set(variant.parameters) & set(BODY_PARAMETERS) else (True,)
    if variant.method is not None:
        method = METHODS[variant.name][variant.method]
        algorithms, ride = (method.algorithm,), (ride if method.ride else (False,))
    return list(product(algorithms, ride))


def scalar_function(
    model: Model, variant: Variant, **options: Any
) -> Callable[..., dict[str, Any]] | None:
    """A variant as a function of scalars, by the first of its algorithms: for robots that are too
    long to try all. options: further arguments of the algorithm. None if no algorithm computes it.
    """
    for algorithm, ride in _choices(model, variant):
        return _traceable(model, variant, partial(algorithm, **options), ride)
    return None


def _runs(model: Model, variant: Variant) -> list[Callable[..., dict[str, Any]]]:
    """The functions whose traces compute a variant."""
    runs = [_traceable(model, variant, *choice) for choice in _choices(model, variant)]
    return runs or [_derived(model, variant)]


@contextmanager
def _solvable(model: Model, variant: Variant) -> Iterator[None]:
    try:
        yield
    except ZeroDivisionError:
        raise CompileError(
            f"the mass matrix of {model.name!r} is singular for every q: too little inertia "
            f"resists one of its joints for {variant.name}, see print(model)"
        ) from None


def candidates(model: Model, variant: Variant) -> dict[str, Graph]:
    """The graphs of the algorithms that compute a variant, by their names."""
    inputs = input_shapes(model, variant)
    names = [a.__name__ + (not ride) * ", no riding" for a, ride in _choices(model, variant)]
    with _solvable(model, variant):
        return {
            name: simplify(trace(run, inputs, lambda g: _following(Recorder(g).enter)))
            for name, run in zip(names or ["derived"], _runs(model, variant), strict=True)
        }


@lru_cache(maxsize=8)
def dynamics_graph(model: Model, variant: Variant) -> Graph:
    """The graph of one form of a function of a model, as an algorithm gives it: of several, that
    with the fewest operations, which is the fastest or nearly so, see docs/choices.md.
    """
    graphs = candidates(model, variant).values()
    return min(graphs, key=lambda graph: graph.cost().operations)


def dynamics_program(model: Model, variant: Variant) -> Program:
    """The same for a processor that runs out of room for code: large graphs keep what is repeated
    as routines.
    """
    run, *others = _runs(model, variant)
    if not others:
        following = lambda r: _following(r.enter, r.repeat, r.hand_over)
        with _solvable(model, variant):
            program = record(run, input_shapes(model, variant), following)
        if not program.routines:
            return Program(simplify(program.main), [])
        if program.operations > FLAT:
            return program
    return Program(dynamics_graph(model, variant), [])


def graph_key(graph: Graph) -> str:
    """The identity of a graph, as text."""
    nodes = repr((graph.op, graph.args, graph.value, graph.inputs, graph.outputs))
    return hashlib.sha256(nodes.encode()).hexdigest()


def lowered(program: Program, dtype: Any) -> Program:
    """The program as the CPU runs it in this dtype: every pass is named here, and the result is
    checked.
    """

    def lower(graph: Graph) -> Graph:
        verify(graph)
        graph = by_columns(fuse(expand(graph, np.dtype(dtype))))
        verify(graph, allowed=set(OPS) - {"sin", "cos"})
        return graph

    return program.map(lower)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Machine code of one program in one dtype, and the arithmetic instructions of one state."""

    code: machine.Code
    dtype: np.dtype
    width: int

    @cached_property
    def slots(self) -> int:
        """Kept in the code: a cached one has no program to count."""
        return ctypes.c_int64.from_address(self.code.place(SLOTS)).value


def _checked_dtype(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise CompileError(f"dtype is {dtype}: kernels are compiled for float32 and float64")
    return dtype


def _kernel(
    key: str, dtype: np.dtype, width: int, source: Callable[[], tuple[str, Program]]
) -> Kernel:
    """The code of a source, with what it counts, from the cache if it is there."""

    def make() -> bytes:
        text, made = source()
        count = f"\n@{SLOTS} = constant i64 {choice.slots(choice.of_program(made))}\n"
        return machine.machine_code(text + count)

    image = cache.fetch(f"{key} {dtype} {machine.target()}", make)
    return Kernel(machine.Code(image, ("loop", SLOTS)), dtype, width)


def compile_program(
    program: Callable[[], Program], key: str, dtype: Any, width: int | None = None
) -> Kernel:
    """Machine code for this processor, from the cache if it is there. `program` is only asked for
    if it is not.
    """
    dtype = _checked_dtype(dtype)
    width = machine.widest(dtype) if width is None else width
    if width not in (1, 2, 4, 8, 16):
        raise CompileError(f"width is {width}: wanted 1, 2, 4, 8 or 16 lanes")
    columns = machine.widest(dtype) if width == 1 else 1

    def source() -> tuple[str, Program]:
        made = lowered(program(), dtype)
        return cpu.source(made, dtype, width, columns), made

    return _kernel(f"{key} {width}", dtype, width, source)


def compile_single(model: Model, variant: Variant, key: str, dtype: Any) -> Kernel:
    """Machine code for one state: limbs that are alike fill the lanes of vectors, or the columns of
    matrices do, where routines compute them.
    """
    dtype = _checked_dtype(dtype)

    def source() -> tuple[str, Program]:
        made = lowered(dynamics_program(model, variant), dtype)
        if made.routines:
            return cpu.source(made, dtype, 1, machine.widest(dtype)), made
        packed = in_lanes(model, variant, made.main, dtype)
        lanes = cheapest(packed)
        return single.source(packed[lanes], lanes, dtype), made

    return _kernel(f"{key} single", dtype, 1, source)


def in_lanes(model: Model, variant: Variant, graph: Graph, dtype: np.dtype) -> dict[int, Packed]:
    """A lowered graph for one state, packed in one lane and in those of limbs that are alike."""
    found = {1: pack(graph, [], 1)}
    together = limbs.count(model, machine.widest(dtype))
    if together > 1:
        lanes = max(together, NARROW // dtype.itemsize)
        twins = limbs.twins(model, _input_sizes(variant), together)
        found[lanes] = pack(graph, twins, lanes)
    return found


def cheapest(packed: Mapping[int, Packed]) -> int:
    """The lanes that save operations."""
    return min(packed, key=lambda lanes: packed[lanes].operations)
