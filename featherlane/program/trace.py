"""Tracing: runs a function of scalars once, on symbolic scalars, and records its program.

Where the function says `call`, a policy decides whether that call is retained or inlined. The
callee of a retained call is traced once for each form of its arguments and becomes a function of
the program; the callee of an inlined call just runs, and its operations join those around it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from operator import index
from typing import Any, NamedTuple

import numpy as np

from featherlane.errors import shown
from featherlane.program.graph import Graph, Output
from featherlane.program.nested import SCALAR, Form, build, entries_of, flatten, lasting, nest
from featherlane.program.node import REAL, Node
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.refusal import of_numpy
from featherlane.program.rewrite import copied, simplify
from featherlane.program.unfolded import UnfoldedGraph
from featherlane.scalar import Tag, tracer

Shape = int | Sequence[int]
Policy = Callable[[Any, Any], bool]  # (function, tag): is this call retained?

FLAT: Policy = lambda function, tag: False
STEPS: Policy = lambda function, tag: True
# The columns of a derivative differ in their joint alone: as calls of one function they share its
# code and run in the lanes of one vector
COLUMNS: Policy = lambda function, tag: isinstance(tag, Tag) and tag.direction == "c"
NO_TAG = Tag("", "", -1)


class _Traced(NamedTuple):
    """The trace of a function for one form of its arguments. sources: the source of each scalar of
    its result: an output of the graph, an input, or a number.
    """

    number: int | None  # among the functions of the program; None if it computes nothing
    form: Form
    sources: list[tuple[str, Any]]
    size: int  # entries of the graph's output


class _Flat(NamedTuple):
    """A flattened value: the number of its form, its form, its scalars, and their nodes."""

    number: int
    form: Form
    scalars: list[Any]
    operands: list[int]
    value: Any  # a reference that keeps it alive: `_flattened` finds it by its address


class _Numbers(dict[float, int]):
    """The node of each number that has become a constant."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def __missing__(self, x: float) -> int:
        self[x] = k = self.graph.constant(x)
        return k


class Tracing:
    """The tracer: enters the operations of an algorithm into a graph."""

    def __init__(self, policy: Policy = FLAT) -> None:
        self.graph, self.policy = Graph(), policy
        self.functions: list[GraphFunction] = []
        self.handed: tuple[int, ...] = ()
        self._traced: dict[Any, _Traced] = {}
        self._forms: dict[Form, int] = {}
        self._lasting: list[bool] = []  # of each form
        self._flattened: dict[int, _Flat] = {}
        self._numbers = _Numbers(self.graph)
        self._calls, self._inside = 0, False

    # The methods that algorithms call through `scalar`, see `scalar.Tracer`

    def enter(self, tag: Any) -> None:
        self.graph.current_tag = tag

    def boundary(self, scalars: Sequence[Any]) -> None:
        self.handed = tuple(x.k for x in scalars if isinstance(x, Node))

    def within(self, x: Any, low: float, high: float) -> None:
        if isinstance(x, Node) and x.graph is self.graph:
            self.graph.state(x.k, low, high)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the algorithm, or records a call of it where the policy says so."""
        tag = self.graph.current_tag
        if self.policy(function, tag):
            return self._call_retained(function, arguments)
        if self._inside or not isinstance(tag, Tag | None):
            return function(*arguments)
        number, nodes = self._calls + 1, len(self.graph)
        # The outermost call tags everything that is computed within it
        self._inside, self.graph.current_tag = True, Tag(*(tag or NO_TAG)[:3], number)
        try:
            return function(*arguments)
        finally:
            self._inside, self.graph.current_tag = False, tag
            # Calls on numbers alone are not counted: algorithms cache the results of some, so a
            # later trace in the same process would not make them, and would count differently
            if len(self.graph) > nodes:
                self._calls = number

    # Retained calls

    def _flat(self, value: Any) -> _Flat:
        """Flattens a value; the result is cached if the value is immutable."""
        if (known := self._flattened.get(id(value))) is not None:
            return known
        scalars: list[Any] = []
        form = flatten(value, Node, scalars)
        number = self._forms.setdefault(form, len(self._forms))
        numbers = self._numbers
        operands = [x.k if type(x) is Node else numbers[x] for x in scalars]
        flat = _Flat(number, form, scalars, operands, value)
        if number == len(self._lasting):
            self._lasting.append(form is not SCALAR and lasting(form))
        if self._lasting[number]:
            self._flattened[id(value)] = flat
        return flat

    def _call_retained(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Records a call, and traces the function the first time that it is called so."""
        flat = [self._flat(x) for x in arguments]
        scalars = [x for each in flat for x in each.scalars]
        if all(type(x) is not Node for x in scalars):
            return function(*arguments)
        key = function, *[each.number for each in flat]
        traced = self._traced.get(key)
        if traced is None:
            traced = self._trace(function, [each.form for each in flat], len(scalars))
            self._traced[key] = traced
        graph, results = self.graph, list[Any]()
        if traced.number is not None:
            operands = [k for each in flat for k in each.operands]
            first = graph.call(traced.number, operands, traced.size) + 1
            results = [Node(graph, k) for k in range(first, first + traced.size)]
        source = {Y: results, X: scalars}
        leaves = [at if which == NUMBER else source[which][at] for which, at in traced.sources]
        return build(traced.form, iter(leaves))

    def _trace(self, function: Callable[..., Any], forms: Sequence[Form], count: int) -> _Traced:
        unfolded, graph = UnfoldedGraph(), Graph()
        scalars = iter([Node(unfolded, k) for k in unfolded.declare(X, (count,))])
        with following(None):
            result = function(*[build(form, scalars) for form in forms])
        graph.declare(X, (count,))
        folded = unfolded.fold_into(graph)
        flat: list[Any] = []
        form, entries = flatten(result, Node, flat), dict[int, tuple[int, int]]()
        sources = [_source(graph, x, folded, entries) for x in flat]
        number = None
        if entries:
            graph.outputs[Y] = Output((len(entries),), tuple(entries))
            unfolded.outputs[Y] = Output((len(entries),), tuple(k for _, k in entries.values()))
            number = len(self.functions)
            name = getattr(function, "__qualname__", str(function))
            self.functions.append(GraphFunction(name, simplify(graph), unfolded))
        return _Traced(number, form, sources, len(entries))


NUMBER = "number"


def _source(
    graph: Graph, x: Any, folded: Sequence[int], entries: dict[int, tuple[int, int]]
) -> tuple[str, Any]:
    """Returns the source of a scalar of a result. A computed scalar becomes an entry of output Y:
    `entries` has the position and an unfolded node of each, by its node in `graph`.
    """
    if type(x) is not Node:
        return NUMBER, x
    k = folded[x.k]
    if graph.op[k] == "input":
        return X, graph.value[k][1]
    if (number := graph.number(k)) is not None:
        return NUMBER, number
    return Y, entries.setdefault(k, (len(entries), x.k))[0]


@contextmanager
def following(tracing: Tracing | None) -> Iterator[None]:
    """While the context lasts, this tracer records the algorithm that runs, or none does."""
    token = tracer.set(tracing)
    try:
        yield
    finally:
        tracer.reset(token)


@contextmanager
def no_garbage() -> Iterator[None]:
    """Pauses the garbage collector while many objects are allocated of which none is garbage: its
    scans would take longer than the allocations.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _sizes(inputs: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each input, checked."""
    if not isinstance(inputs, Mapping):
        wanted = "wanted the shape of each argument by name, as in {'q': 7, 'A': (3, 3)}"
        raise TypeError(f"inputs is {shown(inputs)}: {wanted}")
    return {name: _size(name, shape) for name, shape in inputs.items()}


def _size(name: Any, shape: Any) -> tuple[int, ...]:
    if not isinstance(name, str):
        raise TypeError(f"inputs has the name {shown(name)}: wanted a text")
    try:
        parts = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        sizes = tuple(map(index, parts))
    except TypeError:
        parts = sizes = (-1,)
    if any(n < 0 for n in sizes) or any(isinstance(n, bool) for n in parts):
        wanted = "wanted a whole number from 0 on, or a tuple of them"
        raise ValueError(f"the shape of {name!r} in inputs is {shown(shape)}: {wanted}")
    return sizes


def check_function(function: Any, names: Sequence[str], keywords: Sequence[str] = ()) -> None:
    """Raises TypeError unless `function` can be called with as many positional arguments as there
    are names, and with these keywords.
    """
    if not callable(function):
        raise TypeError(f"function is {shown(function)}: wanted a function of arrays")
    try:
        takes = signature(function)
    except (TypeError, ValueError):  # builtins without a signature
        return
    try:
        takes.bind(*names, **dict.fromkeys(keywords))
    except TypeError:
        arguments = ", ".join([*names, *[f"{name}=" for name in keywords]])
        raise TypeError(
            f"function takes {takes}: wanted one of the inputs, by position, ({arguments})"
        ) from None


def program_of(
    function: Callable[..., Any],
    inputs: Mapping[str, Shape],
    policy: Policy,
    whole: Callable[[list[Any], tuple[int, ...]], Any] = nest,
) -> Program:
    """The program of `function`, as `trace` takes it, in which `policy` chooses the retained
    calls. whole: builds an argument from its scalars and its shape. Raises as `trace` does.
    """
    tracing = Tracing(policy)
    graph, arguments = tracing.graph, []
    shapes = _sizes(inputs)
    check_function(function, [*shapes])
    for name, sizes in shapes.items():
        arguments.append(whole([Node(graph, k) for k in graph.declare(name, sizes)], sizes))
    with no_garbage():
        with following(tracing):
            try:
                result = function(*arguments)
            except (TypeError, ValueError, IndexError) as error:
                raise of_numpy(error) or error from None
        graph.current_tag = None
        for name, value in _named(result).items():
            graph.outputs[name] = _output(graph, name, value)
    return Program(graph, tuple(tracing.functions), tracing.handed)


def _named(result: Any) -> Mapping[str, Any]:
    """Returns the results of a function by name."""
    if hasattr(result, "_asdict"):  # a named tuple
        return result._asdict()
    return result if isinstance(result, dict) else {"out": result}


def _output(graph: Graph, name: str, value: Any) -> Output:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    try:
        shape, flat = entries_of(value, (Node, *REAL), name)
    except TypeError:
        raise TypeError(
            f"output {name!r} is {type(value).__name__}: wanted scalars, arrays or lists of them"
        ) from None
    if any(isinstance(x, Node) and x.graph is not graph for x in flat):
        raise ValueError(f"output {name!r} holds a scalar of a different trace")
    return Output(shape, tuple(x.k if isinstance(x, Node) else graph.constant(x) for x in flat))


def trace(function: Callable[..., Any], inputs: Mapping[str, Shape]) -> Graph:
    """The graph of `function`, which is called once on symbolic scalars.

    inputs: the name and shape of each argument (`{"q": 7, "A": (3, 3), "s": ()}`); the function
    gets nested lists of scalars in this order. It returns a scalar, nested lists of scalars, or a
    dict of these by name; a single result is called "out".

    Raises TypeError or ValueError if the function branches on a scalar or returns anything else.
    """
    return program_of(function, inputs, FLAT).main


def call(graph: Graph, **arguments: Any) -> dict[str, Any]:
    """The outputs of a graph for scalars of another trace: calls the graph as a function.

    arguments: nested lists of scalars, or numbers, for each input of the graph. Raises TypeError
    for missing ones, ValueError for other shapes.
    """
    flat: dict[tuple[str, int], Any] = {}
    for name, shape in graph.inputs.items():
        if name not in arguments:
            raise TypeError(f"{name} is missing: the graph takes {', '.join(graph.inputs)}")
        actual, entries = entries_of(arguments[name], (Node, *REAL), name)
        if actual != shape:
            raise ValueError(f"{name} has shape {actual}, wanted {shape}")
        flat |= {(name, i): x for i, x in enumerate(entries)}
    into = next((x for x in flat.values() if isinstance(x, Node)), None)
    if into is None:
        raise TypeError("there is no traced scalar among the arguments: evaluate the graph instead")
    node_map = copied(graph, into.graph, {at: into.lift(x) for at, x in flat.items()})
    return {
        name: nest([Node(into.graph, node_map[k]) for k in out.nodes], out.shape)
        for name, out in graph.outputs.items()
    }
