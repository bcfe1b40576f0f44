"""An algorithm as calls of few steps, for robots that are too long for one graph.

Where an algorithm says `call`, the recorder keeps the step as a graph, once for each form of its
arguments, and notes which scalars it is applied to. What is recorded is a graph again, whose nodes
are steps: code does not grow with the number of calls, and calls that do not wait for each other
may run in the lanes of a vector.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from featherlane.program.graph import Graph, Output, simplify
from featherlane.program.nested import NUMBER, SCALAR, Form, build, flatten, lasting
from featherlane.program.trace import Node
from featherlane.scalar import on_call

VALUES, CONSTANTS, OUT = "values", "constants", "out"


class Placeholder:
    """A scalar that a call gives, by its number. Arithmetic on it is a step like others."""

    __slots__ = ("k", "recorder")
    __array_ufunc__ = None

    def __init__(self, recorder: Recorder, k: int) -> None:
        self.recorder, self.k = recorder, k

    def __repr__(self) -> str:
        return f"<Placeholder %{self.k}>"

    def __bool__(self) -> bool:
        raise TypeError("the value of a recorded scalar is not known while recording")

    __float__ = __int__ = __index__ = __bool__
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self.__bool__()

    def __neg__(self) -> Any:
        return self.recorder.call(operator.neg, self)

    def __add__(self, other: Any) -> Any:
        return self.recorder.call(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self.recorder.call(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self.recorder.call(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.recorder.call(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self.recorder.call(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.recorder.call(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.recorder.call(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.recorder.call(operator.truediv, other, self)

    def sin(self) -> Any:
        return self.recorder.call(Node.sin, self)

    def cos(self) -> Any:
        return self.recorder.call(Node.cos, self)

    def sqrt(self) -> Any:
        return self.recorder.call(Node.sqrt, self)


@dataclass
class Step:
    """A graph, and what it is applied to.

    The graph has the inputs "values", what calls gave or the robot's inputs, and "constants", and
    the output "out" of `size` entries. values and constants have a row for each call, first the
    number of the first scalar that the call gives.
    """

    name: str
    graph: Graph
    size: int
    values: list[list[int]] = field(default_factory=list)
    constants: list[list[float]] = field(default_factory=list)
    first: list[int] = field(default_factory=list)


class Traced(Step):
    """A function for one form of its arguments."""

    def __init__(self, function: Callable[..., Any], forms: Sequence[Form], sizes: str) -> None:
        self._slots = sizes
        graph, size, self._given = self._traced(function, forms)
        super().__init__(getattr(function, "__qualname__", str(function)), graph, size)

    def _traced(
        self, function: Callable[..., Any], forms: Sequence[Form]
    ) -> tuple[Graph, int, list[tuple[str, Any]]]:
        """The graph, its size, and where each scalar of the result comes from: an entry of "out",
        one of the inputs, or a number.
        """
        graph = Graph()
        count = {kind: self._slots.count(kind[0]) for kind in (VALUES, CONSTANTS)}
        nodes = {kind: iter(graph.declare(kind, (n,))) for kind, n in count.items()}
        kinds = {kind[0]: kind for kind in (VALUES, CONSTANTS)}
        scalars = iter([Node(graph, next(nodes[kinds[slot]])) for slot in self._slots])
        result = function(*[build(form, scalars) for form in forms])
        found: list[Any] = []
        self.form = flatten(result, Node, found)
        given: list[tuple[str, Any]] = []
        entries: dict[int, int] = {}
        for x in found:
            if not isinstance(x, Node):
                given.append((NUMBER, x))
            elif graph.op[x.k] == "input":
                given.append(graph.value[x.k])
            elif (number := graph.number(x.k)) is not None:
                given.append((NUMBER, number))
            else:
                given.append((OUT, entries.setdefault(x.k, len(entries))))
        graph.outputs[OUT] = Output((len(entries),), tuple(entries))
        return simplify(graph), len(entries), given

    def applied(self, scalars: Sequence[Any], first: int, make: Callable[[int], Any]) -> Any:
        """Notes a call, and gives its result. make(k) is the scalar number k."""
        values = [x for x, slot in zip(scalars, self._slots, strict=True) if slot == "v"]
        constants = [x for x, slot in zip(scalars, self._slots, strict=True) if slot == "c"]
        if self.size:
            self.values.append([x.k for x in values])
            self.constants.append(constants)
            self.first.append(first)
        outs = [make(first + i) for i in range(self.size)]
        source = {OUT: outs, VALUES: values, CONSTANTS: constants}
        return build(self.form, iter([x if s == NUMBER else source[s][x] for s, x in self._given]))


class Calls(NamedTuple):
    """What was recorded. inputs: the number of the first scalar and the shape of each array; order:
    the calls as they were made, as (number of the step, number among its calls); results: for each
    output array its shape and scalars, numbers of scalars or floats; size: how many scalars.
    """

    inputs: dict[str, tuple[int, tuple[int, ...]]]
    steps: Sequence[Step]
    order: list[tuple[int, int]]
    results: dict[str, tuple[tuple[int, ...], list[int | float]]]
    size: int


class Recorder:
    """Makes `Calls` of an algorithm."""

    def __init__(self) -> None:
        self.steps: list[Traced] = []
        self.order: list[tuple[int, int]] = []
        self.size = 0
        self._steps: dict[Any, int] = {}
        self._forms: dict[Form, int] = {}
        self._lasting: list[bool] = []  # of each form
        self._known: dict[int, tuple[Any, int, Form, list[Any]]] = {}

    def declare(self, count: int) -> list[Placeholder]:
        self.size += count
        return [Placeholder(self, k) for k in range(self.size - count, self.size)]

    def _taken_apart(self, value: Any) -> tuple[int, Form, list[Any]]:
        """The form by number, the form, and the scalars; remembered for what does not change."""
        if (known := self._known.get(id(value))) is not None:
            return known[1:]
        scalars: list[Any] = []
        form = flatten(value, Placeholder, scalars)
        number = self._forms.setdefault(form, len(self._forms))
        if number == len(self._lasting):
            self._lasting.append(form is not SCALAR and lasting(form))
        if self._lasting[number]:
            self._known[id(value)] = value, number, form, scalars
        return number, form, scalars

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        taken = [self._taken_apart(x) for x in arguments]
        scalars = [x for _, _, own in taken for x in own]
        if not any(isinstance(x, Placeholder) for x in scalars):
            return function(*arguments)
        key = function, *[number for number, _, _ in taken]
        at = self._steps.get(key)
        if at is None:
            slots = "".join("v" if isinstance(x, Placeholder) else "c" for x in scalars)
            at = self._steps[key] = len(self.steps)
            self.steps.append(Traced(function, [form for _, form, _ in taken], slots))
        step = self.steps[at]
        result = step.applied(scalars, self.size, lambda k: Placeholder(self, k))
        if step.size:
            self.order.append((at, len(step.first) - 1))
            self.size += step.size
        return result


def record(
    function: Callable[..., Any],
    inputs: Mapping[str, Sequence[int]],
    listen: Callable[[Callable[..., Any]], Any],
) -> Calls:
    """The calls of `function`, as `trace` takes it. listen(call) is a context in which the steps
    of the algorithm come to call.
    """
    recorder, declared, arguments = Recorder(), {}, []
    for name, shape in inputs.items():
        declared[name] = recorder.size, tuple(shape)
        arguments.append(_nested(iter(recorder.declare(int(np.prod(shape)))), shape))
    with listen(recorder.call):
        results = function(*arguments)
    named = results if isinstance(results, dict) else {OUT: results}
    found = {}
    for name, value in named.items():
        array = np.array(_listed(value), object)
        flat = [x.k if isinstance(x, Placeholder) else float(x) for x in array.reshape(-1)]
        found[name] = array.shape, flat
    return Calls(declared, recorder.steps, recorder.order, found, recorder.size)


def _nested(scalars: Iterator[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return next(scalars)
    return [_nested(scalars, shape[1:]) for _ in range(shape[0])]


def _listed(value: Any) -> Any:
    return [_listed(x) for x in value] if isinstance(value, tuple | list) else value


Shapes = Mapping[str, tuple[int, ...]]


@contextmanager
def _listening(call: Callable[..., Any]) -> Iterator[None]:
    """While an algorithm is recorded; the steps inside a step belong to it."""

    def outermost(function: Callable[..., Any], *arguments: Any) -> Any:
        inside = on_call.set(None)
        try:
            return call(function, *arguments)
        finally:
            on_call.reset(inside)

    token = on_call.set(outermost)
    try:
        yield
    finally:
        on_call.reset(token)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """While many objects are made of which none is garbage: looking for some again and again would
    take longer than making them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def recorded(function: Callable[..., Any], inputs: Shapes) -> Calls:
    """The calls of a function of scalars."""
    with _no_garbage():
        return record(function, inputs, _listening)
