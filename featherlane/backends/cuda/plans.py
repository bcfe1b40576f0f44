"""A plan as one kernel: loops over time on the device, and a function for each stage of its pieces.

A thread goes through all steps with its state. Temporaries lie in slots of scratch memory that no
other thread reads; rows of the user's arrays go in and out as in any kernel. Where a loop would be
too much text for the driver's compiler, its body is several kernels, which are launched again and
again with the number of the iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby, product
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda import matrices
from featherlane.backends.cuda.kernel import KernelFrame
from featherlane.backends.cuda.kernel_body import TOGETHER, KernelBody, Slots, Thread
from featherlane.backends.cuda.kernel_stage import SHARED, KernelStage, Key, Launch, Shape
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, divided, function
from featherlane.backends.cuda.rows import GlobalRows, Warp
from featherlane.backends.cuda.stages import GpuKernels, arrays_of, longest, stages_of
from featherlane.program.graph import Graph, Output
from featherlane.program.plan import (
    ArrayRow,
    Clear,
    Composite,
    Copy,
    CopyRows,
    Diagonal,
    Every,
    KernelRun,
    Loop,
    Matrices,
    MatrixBlock,
    Multiply,
    PlanStep,
    Scale,
    Use,
)
from featherlane.program.program import Program

LONGEST_TEXT = 8_000  # lines of what is compiled in one piece, but for loops over time
LONGEST_LOOP = 2.4  # of a loop in one kernel: how much longer than the longest stage its text is
STEP = "step"  # the parameter that has the number of the iteration


class ArrayAddress(NamedTuple):
    """The start of an array for the warp, or in scratch memory for the thread. base, stride:
    registers; stride: None in scratch memory.
    """

    base: str
    stride: str | None
    shape: Shape


class _Piece(NamedTuple):
    """A program as stages. arrays: inputs, then outputs, with their shapes."""

    arrays: Mapping[Key, Shape]
    stages: Sequence[KernelStage]
    slots: int


class _Sizes(NamedTuple):
    """The slots of scratch memory, and the bytes of shared memory of a warp."""

    slots: int
    bytes: int


def kernels(composite: Composite, name: str, dtype: np.dtype) -> GpuKernels:
    """The kernels of a plan whose pieces are lowered: one, or several where that would take the
    driver's compiler too long.
    """
    plan, functions = composite.plan, _Functions(name, np.dtype(dtype))
    size = lambda names: sum(len(functions.texts[x]) for x in names)
    one = _Written(composite, functions, _Sizes(0, 0), None)
    most = LONGEST_LOOP * longest(functions.dtype)
    apart = [loop for loop, names in one.loops if size(names) > most and not loop.total]
    draft = _Written(composite, functions, _Sizes(0, 0), None, apart)  # tells the sizes
    parts = [*_cut(draft, size)]
    texts, kernels = list[str](), list[Launch]()
    more = [("u64", STEP)] if draft.bodies else []
    for k, part in enumerate(parts):
        kernel_name = f"{name}_{k}" if len(parts) > 1 else name
        own_bytes = _Written(composite, functions, draft.needed, part, apart).needed.bytes
        sizes = _Sizes(draft.needed.slots, own_bytes)
        written = _Written(composite, functions, sizes, part, apart)
        lines = [
            *HEADER,
            SHARED,
            *functions.lines(written.called),
            *written.frame.lines(kernel_name, more),
            "",
        ]
        texts.append("\n".join(lines))
        kernels.append(written.frame.launch(kernel_name)._replace(text=k))
    launches = [
        kernels[k]._replace(arguments=(step,) if more else ())
        for k, step in _order(parts, draft.bodies)
    ]
    arrays = dict(plan.inputs), dict(plan.outputs)
    return GpuKernels(tuple(texts), tuple(launches), *arrays, draft.needed.slots)


class _Body(NamedTuple):
    """The atoms of the body of a loop whose iterations are launches of several kernels."""

    atoms: range
    times: int


def _cut(draft: _Written, size: Callable[[Collection[str]], int]) -> Iterator[range]:
    """Cuts what a plan does into parts that are compiled quickly, and at the ends of bodies. size:
    the lines of the functions of these names.
    """
    first, called = 0, set[str]()
    ends = {end for body in draft.bodies for end in (body.atoms.start, body.atoms.stop)}
    for k, names in enumerate(draft.atoms):
        more = called | {*names}
        if k > first and (k in ends or (called and size(more) > LONGEST_TEXT)):
            yield range(first, k)
            first, more = k, {*names}
        called = more
    yield range(first, len(draft.atoms))


def _order(parts: Sequence[range], bodies: Sequence[_Body]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of parts in the order in which they run, with those of iterations."""
    body_of = lambda k: next((x for x in bodies if parts[k].start in x.atoms), None)
    for body, group in groupby(range(len(parts)), body_of):
        yield from ((k, step) for step, k in product(range(body.times if body else 1), [*group]))


def _of_program(program: Program, dtype: np.dtype) -> _Piece:
    return _Piece(arrays_of(program), *stages_of(program, longest(dtype)))


@cache
def _copy(shape: Shape) -> Program:
    """A program whose output is its input."""
    graph = Graph()
    graph.outputs = {"y": Output(shape, tuple(graph.declare("x", shape)))}
    return Program(graph)


@cache
def _zeros(shape: Shape) -> Program:
    """A program whose output is zero."""
    graph = Graph()
    graph.outputs = {"y": Output(shape, (graph.constant(0.0),) * math.prod(shape))}
    return Program(graph)


@cache
def _first_columns(shape: Shape, pitch: int) -> Program:
    """A program whose output is the first columns of its input."""
    graph, (rows, columns) = Graph(), shape
    x = graph.declare("x", (rows, pitch))
    nodes = (x[i * pitch + j] for i in range(rows) for j in range(columns))
    graph.outputs = {"y": Output(shape, tuple(nodes))}
    return Program(graph)


class _Functions:
    """The functions of a text, one for each stage of a program and kind of its arrays: the driver's
    compiler takes them one by one.
    """

    def __init__(self, name: str, dtype: np.dtype) -> None:
        self.name, self.dtype = name, dtype
        self._pieces: dict[int, tuple[Program, _Piece]] = {}  # by the identity of the program
        self._made: dict[tuple[int, int, frozenset[Key]], tuple[str, KernelBody]] = {}
        self.texts: dict[str, list[str]] = matrices.functions(name, dtype)

    def lines(self, names: Collection[str]) -> list[str]:
        """The texts of some functions."""
        return [line for name in names for line in self.texts[name]]

    def piece(self, program: Program) -> _Piece:
        known = self._pieces.get(id(program))
        if known is None:
            known = self._pieces[id(program)] = program, _of_program(program, self.dtype)
        return known[1]

    def of(self, program: Program, number: int, in_slots: frozenset[Key]) -> tuple[str, KernelBody]:
        """The name and the body of a stage. in_slots: its arrays in scratch memory."""
        key = id(program), number, in_slots
        if key not in self._made:
            self._made[key] = self._write(self.piece(program), number, in_slots)
        return self._made[key]

    def _write(
        self, piece: _Piece, number: int, in_slots: frozenset[Key]
    ) -> tuple[str, KernelBody]:
        """Writes a stage of a piece as a kernel, and returns its text and its body."""
        name, text = f"{self.name}_stage{len(self._made)}", Text(self.dtype)
        numbers = {x: math.prod(shape) for x, shape in piece.arrays.items()}
        body = KernelBody(piece.stages[number], name, self.dtype, numbers, in_slots)
        registers = [text.set(kind, f"ld.param.{text.kind(kind)}", f"[{x}]") for x, kind in OWN]
        lane, states, place, scratch, column = registers
        arrays: dict[Key, GlobalRows | Slots] = {}
        parameters = [(x, kind) for x, kind in OWN]
        for k, x in enumerate(body.arrays_used):
            base = text.set("w", "ld.param.u64", f"[a{k}]")
            parameters.append((f"a{k}", "w"))
            if x in in_slots:
                arrays[x] = Slots(base)
            else:
                parameters.append((f"s{k}", "w"))
                arrays[x] = GlobalRows(numbers[x], base, text.set("w", "ld.param.u64", f"[s{k}]"))
        body.write(text, Thread(Warp(lane, states), place, scratch, column), arrays)
        text.do(TOGETHER)  # the next function uses the same shared memory
        self.texts[name] = [*body.tables, *function(name, parameters, text)]
        return name, body


OWN = (("lane", "r"), ("states", "r"), ("place", "r"), ("scratch", "w"), ("column", "r"))


class _Written:
    """A kernel of a plan, which calls those functions. sizes: what it may use; needed: what it does
    use; atoms: the functions that each thing that it may do calls, which is a call of one, or a
    whole loop; part: which of these it does, None for all. loops: those that are atoms, with the
    functions that they call; apart: loops whose body is several atoms, as `bodies` has them.
    """

    def __init__(
        self,
        composite: Composite,
        functions: _Functions,
        sizes: _Sizes,
        part: range | None,
        apart: Sequence[Loop] = (),
    ) -> None:
        self.functions, self.dtype, self.part = functions, functions.dtype, part
        self.apart, self.bodies = apart, list[_Body]()
        self.loops: list[tuple[Loop, Collection[str]]] = []
        self.atoms: list[dict[str, None]] = []
        self.called: dict[str, None] = {}  # in the order of their first calls
        self.depth = 0  # of loops
        self.row = WARP * self.dtype.itemsize  # bytes from slot to slot
        self.needed = _Sizes(0, 0)
        plan, self.text = composite.plan, Text(self.dtype)
        arrays = {("input", x): shape for x, shape in plan.inputs.items()}
        arrays |= {("output", x): shape for x, shape in plan.outputs.items()}
        self.frame = KernelFrame(self.text, arrays, sizes.slots, sizes.bytes)
        places = {}
        for x, shape in arrays.items():
            array = self.frame.array(x)
            places[x[1]] = ArrayAddress(array.base, array.stride, shape)
        _Steps(self, composite, places, 0).write()

    @contextmanager
    def atom(self) -> Iterator[None]:
        """Groups instructions that one kernel runs whole or not at all."""
        if self.depth:
            yield
            return
        number, lines, before = len(self.atoms), len(self.text.lines), self.called
        self.called, self.depth, needed = {}, 1, self.needed
        yield
        self.atoms.append(self.called)
        self.called, self.depth = before | self.called, 0
        if self.part is not None and number not in self.part:
            del self.text.lines[lines:]
            self.called, self.needed = before, needed

    def call(self, name: str, operands: Iterable[str | int]) -> None:
        self.called[name] = None
        self.text.do(f"call.uni {name}, ({', '.join(map(str, operands))})")

    def need(self, slots: int, bytes_of_warp: int = 0) -> None:
        self.needed = _Sizes(*map(max, self.needed, (slots, bytes_of_warp)))

    def slot(self, k: int) -> str:
        """The address of a slot of the thread."""
        return self.text.set("w", "add.u64", self.frame.thread.scratch, k * self.row)


class _Steps:
    """The steps of a plan, or of one inside another. places: of its inputs and outputs; first: the
    first slot that is free.
    """

    def __init__(
        self, kernel: _Written, composite: Composite, places: Mapping[str, ArrayAddress], first: int
    ) -> None:
        self.kernel, self.text, self.plan = kernel, kernel.text, composite.plan
        self.pieces, self.places = composite.pieces, dict(places)
        self.slot_of: dict[str, int] = {}
        for x, shape in {**self.plan.temporaries, **self.plan.scratch}.items():
            self.slot_of[x] = first
            self.places[x] = ArrayAddress(kernel.slot(first), None, shape)
            first += math.prod(shape)
        self.free = first
        kernel.need(first)
        self.counters: dict[str, str] = {}

    def write(self) -> None:
        for step in self.plan.steps:
            self._step(step)

    def _step(self, step: PlanStep) -> None:
        """Adds the launches of a step of the plan."""
        if isinstance(step, Loop):
            self._loop(step)
        elif isinstance(step, Every):
            self._every(step)
        elif isinstance(step, KernelRun):
            self._run(self.pieces[step.kernel], [*map(self._place, step.uses)])
        elif isinstance(step, Copy):
            source, target = map(self._place, step)
            self._run(_copy(target.shape), [source, target])
        elif isinstance(step, Clear):
            target = self._place(step.use)
            self._run(_zeros(target.shape), [target])
        else:
            self._matrices(step)

    def _loop(self, loop: Loop) -> None:
        t, whole = self.text, not self.kernel.depth
        if whole and loop in self.kernel.apart:
            self._launched(loop)
            return
        with self.kernel.atom(), t.loop(loop.times) as k:
            self.counters[loop.counter] = k
            if loop.total:
                outer = self.counters[loop.outer]
                self.counters[loop.total] = t.set("r", "mad.lo.u32", outer, loop.times, k)
            for step in loop.body:
                self._step(step)
        if whole:
            self.kernel.loops.append((loop, self.kernel.atoms[-1]))

    def _launched(self, loop: Loop) -> None:
        """Adds an iteration of a loop, whose number is a parameter of the kernel."""
        t, first = self.text, len(self.kernel.atoms)
        number = t.set("w", "ld.param.u64", f"[{STEP}]")
        self.counters[loop.counter] = t.set("r", "cvt.u32.u64", number)
        for step in loop.body:
            self._step(step)
        self.kernel.bodies.append(_Body(range(first, len(self.kernel.atoms)), loop.times))

    def _every(self, step: Every) -> None:
        t, done = self.text, self.text.label()
        _, rest = divided(t, self._number(step.row), step.steps)
        t.do(f"@{t.set('p', 'setp.ne.u32', rest, 0)} bra.uni {done}")
        for inner in step.body:
            self._step(inner)
        t.lines.append(f"{done}:")

    def _number(self, row: ArrayRow) -> str:
        """The number of a row."""
        times = self.text.set("r", "mul.lo.u32", self.counters[row.counter], row.slope % (1 << 32))
        return self.text.set("r", "add.u32", times, row.offset)

    def _place(self, use: Use) -> ArrayAddress:
        """The address of a used array, or of the row of it that loop counters choose."""
        whole = self.places[use.array]
        if use.row is None:
            return whole
        t, shape = self.text, whole.shape[1:]
        each = math.prod(shape) * (self.kernel.row if whole.stride is None else t.dtype.itemsize)
        row = self._number(use.row)
        return ArrayAddress(t.set("w", "mad.wide.u32", row, each, whole.base), whole.stride, shape)

    def _run(self, piece: Program | Composite, places: Sequence[ArrayAddress]) -> None:
        """Runs a program, or a plan, on arrays: inputs, then outputs."""
        if isinstance(piece, Composite):
            names = [*piece.plan.inputs, *piece.plan.outputs]
            inside = dict(zip(names, places, strict=True))
            _Steps(self.kernel, piece, inside, self.free).write()
            return
        stages = self.kernel.functions.piece(piece)
        arrays = dict(zip(stages.arrays, places, strict=True))
        in_slots = frozenset(x for x, place in arrays.items() if place.stride is None)
        scratch = self.kernel.slot(self.free) if stages.slots else self.kernel.frame.thread.scratch
        for number, stage in enumerate(stages.stages):
            name, body = self.kernel.functions.of(piece, number, in_slots)
            used = [arrays[x] for x in body.arrays_used]
            operands = [y for place in used for y in (place.base, place.stride) if y is not None]
            columns = stage.columns.calls if stage.columns else 1
            needed = _Sizes(self.free + stages.slots, body.bytes)
            self._call(name, needed, scratch, columns, operands)

    def _call(
        self, name: str, needed: _Sizes, scratch: str, columns: int, operands: Sequence[str]
    ) -> None:
        """Calls the function of a stage, once for each column."""
        t, ((lane, states), place, *_) = self.text, self.kernel.frame.thread
        with self.kernel.atom(), t.loop(columns) as column:
            self.kernel.need(*needed)
            self.kernel.call(name, [lane, states, place, scratch, column, *operands])

    # Work on matrices in scratch memory

    def _matrices(self, step: Matrices) -> None:
        t = self.text
        dt = t.new("f")
        if any(getattr(work, "power", 0) for work in step.work):
            self._load_number("dt", dt)
        for work in step.work:
            if isinstance(work, CopyRows):
                self._block(work)
            else:
                assert isinstance(work, Multiply | Scale | Diagonal)  # as steps have
                self._work(work, dt)

    def _load_number(self, name: str, to: str) -> None:
        """Loads an array of one number."""
        t, at, thread = self.text, self.places[name], self.kernel.frame.thread
        start = at.base
        if at.stride is not None:  # threads beyond the last state read its number
            last = t.set("r", "sub.u32", thread.warp.states, 1)
            state = t.set("w", "cvt.u64.u32", t.set("r", "min.u32", thread.warp.lane, last))
            start = t.set("w", "mad.lo.u64", state, at.stride, at.base)
        t.do(f"ld.global.{t.type} {to}, [{start}]")

    def _part(self, part: MatrixBlock) -> tuple[str, int]:
        """The address of the first number of a part of a matrix, and the numbers of a row."""
        return self.kernel.slot(self.slot_of[part.array] + part.start), part.pitch

    def _block(self, block: CopyRows) -> None:
        """Copies rows of a matrix to the whole of an array."""
        target = self.places[block.target]
        source = ArrayAddress(
            self._part(block.source)[0], None, (target.shape[0], block.source.pitch)
        )
        self._run(_first_columns(target.shape, block.source.pitch), [source, target])

    def _work(self, work: Multiply | Scale | Diagonal, dt: str) -> None:
        target = self._part(work.target)
        if isinstance(work, Multiply):
            factors = *self._part(work.left), *self._part(work.right)
            self._do("multiply", *target, *factors, work.rows, work.inner, work.columns)
        elif isinstance(work, Diagonal):
            self._do("diagonal", *target, work.size, self._factor(work, dt))
        elif work.source is None:
            self._do("clear", *target, work.rows, work.columns)
        else:
            sizes = work.rows, work.columns, self._factor(work, dt)
            self._do("add" if work.more else "scale", *target, *self._part(work.source), *sizes)

    def _factor(self, work: Scale | Diagonal, dt: str) -> str:
        t = self.text
        factor = t.set("f", f"mov.{t.type}", t.number(work.factor))
        return t.set("f", f"mul.rn.{t.type}", factor, dt) if work.power else factor

    def _do(self, what: str, *operands: str | int) -> None:
        with self.kernel.atom():
            self.kernel.call(f"{self.kernel.functions.name}_{what}", operands)
