"""Where the two halves meet: algorithms are traced with models, and graphs become kernels.

The dynamics functions are one table. A function may name several algorithms; the graph with the
fewest operations is the one that is compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane import algorithms, cache
from featherlane.algorithms.kinematics import Wrenches
from featherlane.backends import cpu, machine
from featherlane.errors import CompileError
from featherlane.graph.expand import expand
from featherlane.graph.fuse import fuse
from featherlane.graph.graph import Graph, simplify
from featherlane.graph.op import OPS
from featherlane.graph.order import by_columns
from featherlane.graph.routine import Program, Recorder, record
from featherlane.graph.trace import trace
from featherlane.graph.verify import verify
from featherlane.model import WORLD, Model, on_repeat, on_stage
from featherlane.spatial import NO_TURN, Rotation, Vector, matmul, spatial

Algorithm = Callable[..., tuple[Any, ...]]
WRENCH_FRAMES = ("body", "world")
FLAT = 30_000  # operations of a graph up to which its code is fetched as fast as it computes


class DynamicsFunction(NamedTuple):
    """inputs: name -> size ("q", "v" or "vv"); algorithms take (model, *inputs, f_ext,
    world_axes).
    """

    inputs: dict[str, str]
    outputs: dict[str, str]
    algorithms: tuple[Algorithm, ...]
    takes_wrenches: bool = True


def _one(algorithm: Callable[..., Any]) -> Algorithm:
    return lambda model, *args, f_ext=None, world_axes=False: (
        algorithm(model, *args) if f_ext is None else algorithm(model, *args, f_ext),
    )


QVA, QVT, STATE_MATRIX = (
    {"q": "q", "v": "v", "a": "v"},
    {"q": "q", "v": "v", "tau": "v"},
    {"q": "q"},
)
FUNCTIONS = {
    "inverse_dynamics": DynamicsFunction(QVA, {"tau": "v"}, (_one(algorithms.rnea),)),
    "forward_dynamics": DynamicsFunction(
        QVT, {"a": "v"}, (_one(algorithms.aba), _one(algorithms.factored_forward_dynamics))
    ),
    "mass_matrix": DynamicsFunction(
        STATE_MATRIX, {"M": "vv"}, (_one(algorithms.mass_matrix),), False
    ),
    "mass_matrix_inverse": DynamicsFunction(
        STATE_MATRIX,
        {"Minv": "vv"},
        (_one(algorithms.mass_matrix_inverse), _one(algorithms.factored_inverse)),
        False,
    ),
    "inverse_dynamics_derivatives": DynamicsFunction(
        QVA, {"dtau_dq": "vv", "dtau_dv": "vv"}, (algorithms.inverse_dynamics_derivatives,)
    ),
    "forward_dynamics_derivatives": DynamicsFunction(
        QVT,
        {"da_dq": "vv", "da_dv": "vv", "da_dtau": "vv"},
        (algorithms.forward_dynamics_derivatives,),
    ),
    "forward_dynamics_derivatives_from": DynamicsFunction(
        {**QVA, "minv": "vv"},
        {"da_dq": "vv", "da_dv": "vv"},
        (algorithms.forward_dynamics_derivatives_from,),
    ),
}


def shapes(model: Model, sizes: dict[str, str]) -> dict[str, tuple[int, ...]]:
    of = {"q": (model.nq,), "v": (model.nv,), "vv": (model.nv, model.nv)}
    return {name: of[size] for name, size in sizes.items()}


def input_shapes(model: Model, name: str, wrenches: str | None) -> dict[str, tuple[int, ...]]:
    given = shapes(model, FUNCTIONS[name].inputs)
    return {**given, "f_ext": (model.nbodies, 6)} if wrenches else given


def _body_wrenches(model: Model, q: list, f_ext: list, frame: str) -> Wrenches:
    """[moment; force] in the turned body frames, from the user's [force; moment]."""
    E = {WORLD: NO_TURN}
    for i in range(model.nbodies):
        if frame == "world":
            X = model.joint_transform(i, q)
            E[i] = Rotation(matmul(X.E.rows, E[model.parent[i]].rows))
        else:
            E[i] = model.turns[i]
    halves = [(Vector(wrench[:3]), Vector(wrench[3:])) for wrench in f_ext]
    return [
        spatial(E[i].to_child(moment), E[i].to_child(force))
        for i, (force, moment) in enumerate(halves)
    ]


@contextmanager
def _following(stage: Callable[[Any], None], repeated: Any = None) -> Iterator[None]:
    """While an algorithm runs: what its loops tell."""
    tokens = on_stage.set(stage), on_repeat.set(repeated)
    try:
        yield
    finally:
        on_stage.reset(tokens[0])
        on_repeat.reset(tokens[1])


def _traceable(
    model: Model, name: str, wrenches: str | None, algorithm: Algorithm
) -> Callable[..., dict[str, Any]]:
    """A function of scalars by name, with the user's wrenches turned into the algorithms'."""

    def run(*inputs: Any) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if wrenches:
            *inputs, f_ext = inputs  # type: ignore[assignment]
            options["f_ext"] = _body_wrenches(model, inputs[0], f_ext, wrenches)
            options["world_axes"] = wrenches == "world"
        return dict(zip(FUNCTIONS[name].outputs, algorithm(model, *inputs, **options), strict=True))

    return run


@lru_cache(maxsize=8)
def _cheapest(model: Model, name: str, wrenches: str | None) -> tuple[Graph, Algorithm]:
    def traced(algorithm: Algorithm) -> Graph:
        run = _traceable(model, name, wrenches, algorithm)
        return simplify(
            trace(run, input_shapes(model, name, wrenches), lambda g: _following(Recorder(g).enter))
        )

    graphs = [(traced(algorithm), algorithm) for algorithm in FUNCTIONS[name].algorithms]
    return min(graphs, key=lambda pair: pair[0].cost().operations)


def dynamics_graph(model: Model, name: str, wrenches: str | None = None) -> Graph:
    """The graph of one of the dynamics functions (a key of FUNCTIONS) of a model, as an algorithm
    gives it.

    wrenches: None, or the frame of an input f_ext of shape (nbodies, 6): "body" or "world".
    """
    return _cheapest(model, name, wrenches)[0]


def dynamics_program(model: Model, name: str, wrenches: str | None = None) -> Program:
    """The same for a processor that runs out of room for code: large graphs keep what is repeated
    as routines.
    """
    graph, algorithm = _cheapest(model, name, wrenches)
    if graph.cost().operations <= FLAT:
        return Program(graph, [])
    run = _traceable(model, name, wrenches, algorithm)
    following = lambda recorder: _following(recorder.enter, recorder.repeat)
    return record(run, input_shapes(model, name, wrenches), following)


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
        graph = by_columns(simplify(fuse(expand(graph, np.dtype(dtype)))))
        verify(graph, allowed=set(OPS) - {"sin", "cos"})
        return graph

    return program.map(lower)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Machine code of one program in one dtype."""

    code: machine.Code
    dtype: np.dtype
    width: int


def compile_program(
    program: Callable[[], Program], key: str, dtype: Any, width: int | None = None
) -> Kernel:
    """Machine code for this processor, from the cache if it is there. `program` is only asked for
    if it is not.
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise CompileError(f"dtype is {dtype}: kernels are compiled for float32 and float64")
    width = machine.widest(dtype) if width is None else width
    if width not in (1, 2, 4, 8, 16):
        raise CompileError(f"width is {width}: wanted 1, 2, 4, 8 or 16 lanes")
    full = f"{key} {dtype} {width} {machine.target()}"
    image = cache.fetch(
        full, lambda: machine.machine_code(cpu.source(lowered(program(), dtype), dtype, width))
    )
    return Kernel(machine.Code(image), dtype, width)
