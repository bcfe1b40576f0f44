"""The functions of a program in WebAssembly or JavaScript.

A function is cut into blocks. Values that pass from block to block, and operands and results of
calls, are in a workspace, at addresses that are known when the code is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Generic, NamedTuple

from featherlane.backends.layout import WorkspaceLayout, layout, operands
from featherlane.backends.wasm.writer import CodeWriter, T
from featherlane.program.calls import calls_of
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS
from featherlane.program.program import Program, Y

# Operations or statements of a function: a compromise of engines (docs/browser.md)
BLOCK = 1000


class ArgumentAccess(NamedTuple, Generic[T]):
    """The code that accesses a graph's inputs and outputs. read: loads an input entry; stored: the
    writers of code that stores a node as outputs; parameters: the addresses its functions take.
    """

    read: Callable[[tuple[str, int]], T]
    stored: Mapping[int, list[Callable[[T], T]]]
    parameters: int


class Code(NamedTuple, Generic[T]):
    """A program's code. body: the calls of its functions; end: the end address of its workspace."""

    body: T
    end: int


def code(program: Program, form: CodeWriter[T], access: ArgumentAccess[T], base: int) -> Code[T]:
    """Adds the functions of a program to a form. base: the address of its workspace."""
    graph = program.main
    plan = layout(graph, BLOCK)
    blocks = _Blocks(form, graph, access, plan, base)
    calls = _Calls(blocks, program, base + form.unit * plan.size)
    parts = [blocks.fetches()]
    for stage in plan.stages:
        parts.append(calls.run(stage.nodes) if stage.calls else blocks.block(stage.nodes))
    return Code(form.joined([*parts, blocks.copies()]), calls.end)


class _Blocks(Generic[T]):
    """The functions of the blocks of a graph. base: the address of its workspace."""

    def __init__(
        self,
        form: CodeWriter[T],
        graph: Graph,
        access: ArgumentAccess[T],
        plan: WorkspaceLayout,
        base: int,
    ) -> None:
        self.form, self.graph, self.access, self.plan = form, graph, access, plan
        self.base = base

    def block(self, nodes: list[int]) -> T:
        """Adds a function of operations; returns the code that calls it."""
        writer = _Expressions(self, nodes)
        for k in nodes:
            writer.compute(k)
        return self.function(writer.code, writer.locals)

    def function(self, parts: list[T], locals_: int = 0) -> T:
        """Adds a function; returns the code that calls it."""
        form, parameters = self.form, self.access.parameters
        return form.call(form.function(parameters, form.joined(parts), locals_), parameters)

    def statements(self, parts: list[T]) -> T:
        """Adds functions of statements that have no locals; returns the code that calls them."""
        pieces = [parts[n : n + BLOCK] for n in range(0, len(parts), BLOCK)]
        return self.form.joined([self.function(piece) for piece in pieces])

    def fetches(self) -> T:
        """Copies the inputs that calls read into the workspace."""
        value, read = self.graph.value, self.access.read
        fetched = self.plan.fetched
        return self.statements([self.form.store(self.slot(k), read(value[k])) for k in fetched])

    def copies(self) -> T:
        """Stores the outputs that no block computes: inputs, numbers and results of calls."""
        computed = {k for stage in self.plan.stages if not stage.calls for k in stage.nodes}
        rest = {k: stores for k, stores in self.access.stored.items() if k not in computed}
        return self.statements([store(self.leaf(k)) for k, each in rest.items() for store in each])

    def slot(self, k: int) -> int:
        """The address of a value in the workspace."""
        return self.base + self.form.unit * self.plan.slots[k]

    def leaf(self, k: int) -> T:
        """A constant, an input or a value of the workspace."""
        op, value = self.graph.op[k], self.graph.value[k]
        if op == "constant":
            return self.form.number(float(value))
        return self.access.read(value) if op == "input" else self.form.load(self.slot(k))

    def stores(self, k: int, value: T) -> Iterator[T]:
        """Stores a node as outputs and in the workspace. value: code that may be repeated."""
        yield from (store(value) for store in self.access.stored.get(k, ()))
        if k in self.plan.slots:
            yield self.form.store(self.slot(k), value)


class _Expressions(Generic[T]):
    """The code of a block: a value that is read once is an expression, written where it is read;
    others have locals. Memory is read into locals where the first node reads it, since a later node
    may reuse its slot.
    """

    def __init__(self, blocks: _Blocks[T], nodes: list[int]) -> None:
        self.blocks, self.graph, self.form = blocks, blocks.graph, blocks.form
        self.reads = Counter(a for k in nodes for a in operands(blocks.graph, k))
        self.code, self.locals = list[T](), 1
        self.scratch = blocks.access.parameters
        self.pending, self.local = dict[int, T](), dict[int, T]()

    def compute(self, k: int) -> None:
        read = [self._operand(a) for a in self.graph.args[k]]
        value = self.form.operation(self.graph.op[k], read, self.scratch)
        stored = k in self.blocks.access.stored or k in self.blocks.plan.slots
        if self.reads[k] == 1 and not stored:
            self.pending[k] = value
        else:
            self._keep(k, value)
            self.code += self.blocks.stores(k, self.local[k])

    def _keep(self, k: int, value: T) -> None:
        local = self.scratch + self.locals
        self.code.append(self.form.keep(local, value))
        self.local[k] = self.form.local(local)
        self.locals += 1

    def _operand(self, a: int) -> T:
        op = self.graph.op[a]
        if op in CONDITIONS:
            sides = [self._operand(b) for b in self.graph.args[a]]
            return self.form.operation(op, sides, self.scratch)
        if a in self.pending:
            return self.pending.pop(a)
        if op == "constant":
            return self.blocks.leaf(a)
        if a not in self.local:
            self._keep(a, self.blocks.leaf(a))
        return self.local[a]


class _Calls(Generic[T]):
    """The functions that a program calls, and its calls. Operands are copied to addresses of the
    function; operands that all calls share are copied once, before the first call. Results are
    written into the workspace of the caller.
    """

    def __init__(self, blocks: _Blocks[T], program: Program, base: int) -> None:
        self.blocks, self.form, self.graph = blocks, blocks.form, program.main
        self.groups = {group.function: group for group in calls_of(program.main)}
        self.operands, self.functions = dict[int, dict[int, int]](), dict[int, int]()
        self.end = base
        for f, group in self.groups.items():
            copied = [*group.shared, *group.varying]
            self.operands[f] = {i: self.end + self.form.unit * n for n, i in enumerate(copied)}
            self.end += self.form.unit * len(copied)
        base = self.end
        for f in self.groups:
            self.functions[f] = self._function(f, program.functions[f].graph, base)

    def _function(self, f: int, graph: Graph, base: int) -> int:
        """Adds the code of program function f, which takes the address where its results go.
        Returns the function's number.
        """
        form, stored = self.form, dict[int, list[Callable[[T], T]]]()
        for n, k in enumerate(graph.outputs[Y].nodes):
            stored.setdefault(k, []).append(partial(form.store_behind, form.unit * n))
        access = ArgumentAccess(lambda value: form.load(self.operands[f][value[1]]), stored, 1)
        plan = layout(graph, BLOCK)
        blocks = _Blocks(form, graph, access, plan, base)
        self.end = max(self.end, base + form.unit * plan.size)
        parts = [blocks.block(stage.nodes) for stage in plan.stages]
        return form.function(1, form.joined([*parts, blocks.copies()]))

    def run(self, nodes: list[int]) -> T:
        """Adds functions that make these calls; returns the code that calls them."""
        return self.blocks.statements([part for k in nodes for part in self._call(k)])

    def _call(self, k: int) -> Iterator[T]:
        graph, form, group = self.graph, self.form, self.groups[self.graph.value[k]]
        addresses = self.operands[group.function]
        for i in group.varying if k != group.nodes[0] else addresses:
            yield form.store(addresses[i], self._operand(graph.args[k][i]))
        results = self.blocks.slot(k + 1) if graph.results(k) else 0
        yield form.call_to(self.functions[group.function], results)

    def _operand(self, a: int) -> T:
        fetched = self.graph.op[a] == "input"
        return self.form.load(self.blocks.slot(a)) if fetched else self.blocks.leaf(a)
