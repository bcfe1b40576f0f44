"""The C code of one program: functions of its blocks and of its calls, and the loop over calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from featherlane.backends.c.arithmetic import CType
from featherlane.backends.layout import LayoutStage, WorkspaceLayout, layout
from featherlane.program.calls import Calls, calls_of
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS
from featherlane.program.program import Program

EXPRESSIONS: dict[str, str] = {  # of C; {f}: the suffix of functions on the type
    "neg": "-{0}",
    "abs": "fabs{f}({0})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "fma": "fl_fma({0}, {1}, {2})",
    "div": "{0} / {1}",
    "sqrt": "sqrt{f}({0})",
    "round": "fl_round({0})",
    "quarter": "fl_quarter({0}, {1}, {2})",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "power_of_two": "fl_power_of_two({0})",
    "exponent": "fl_exponent({0})",
    "copysign": "copysign{f}({0}, {1})",
    "select": "{0} ? {1} : {2}",
}


VECTOR_EXPRESSIONS = EXPRESSIONS | {  # of the vectors of GNU C; one lane elsewhere
    "abs": "fl_abs_v({0})",
    "fma": "fl_fma_v({0}, {1}, {2})",
    "sqrt": "fl_sqrt_v({0})",
    "round": "fl_round_v({0})",
    "quarter": "fl_quarter_v({0}, {1}, {2})",
    "power_of_two": "fl_power_of_two_v({0})",
    "exponent": "fl_exponent_v({0})",
    "copysign": "fl_copysign_v({0}, {1})",
    "select": "fl_select_v({0}, {1}, {2})",
}


class CForm(NamedTuple):
    """Code for one state, or for a vector of states that come as a struct of arrays."""

    type: CType
    batch: bool = False

    @property
    def suffix(self) -> str:
        return "_batch" if self.batch else ""

    @property
    def value(self) -> str:
        """The type of computed values."""
        return "fl_v" if self.batch else self.type.name

    @property
    def expressions(self) -> dict[str, str]:
        return VECTOR_EXPRESSIONS if self.batch else EXPRESSIONS

    def number(self, x: float) -> str:
        text = self.type.number(x)
        if self.batch:
            return f"fl_all({text})"
        return f"({text})" if text.startswith("-") else text

    def read(self, array: str, index: int) -> str:
        """An entry of one of the caller's arrays."""
        return f"fl_load({array} + {index} * stride)" if self.batch else f"{array}[{index}]"

    def stored(self, array: str, index: int) -> str:
        """The statement that stores {0} as an entry of one of the caller's arrays."""
        if self.batch:
            return f"fl_store({array} + {index} * stride, {{0}});"
        return f"{array}[{index}] = {{0}};"

    @property
    def stride(self) -> list[str]:
        """The parameter with the distance between entries of the caller's arrays."""
        return ["stride"] if self.batch else []


VALUE_ARRAYS = ("work", "shared", "operands", "results")  # of computed values, not the caller's


class CArray(NamedTuple):
    """A parameter of a C function."""

    name: str
    written: bool = False

    def declared(self, form: CForm) -> str:
        kind = form.value if self.name in VALUE_ARRAYS else form.type.name
        return f"{'' if self.written else 'const '}{kind} *FL_RESTRICT {self.name}"


class CCode(NamedTuple):
    """The C code of a program. definitions: static functions and tables; body: the statements of
    the public function; workspace: the number of values in it.
    """

    definitions: list[str]
    body: list[str]
    workspace: int


class Names(NamedTuple):
    """The C text of a graph's inputs and outputs. read: an input's entry; stored: the statements
    that store a node; arrays: the parameters of the functions.
    """

    read: Callable[[tuple[str, int]], str]
    stored: Mapping[int, list[str]]
    arrays: list[CArray]


class _BlockCode:
    """The functions of the blocks of a graph."""

    def __init__(
        self, prefix: str, graph: Graph, form: CForm, names: Names, plan: WorkspaceLayout
    ) -> None:
        self.prefix, self.graph, self.form, self.names = prefix, graph, form, names
        self.plan = plan
        self.definitions: list[str] = []

    def statements(self, nodes: Iterable[int]) -> list[str]:
        form, graph, nodes = self.form, self.graph, list(nodes)
        computed, lines = set(nodes), list[str]()
        for k in nodes:
            operands = [self._operand(a, computed) for a in graph.args[k]]
            value = form.expressions[graph.op[k]].format(*operands, f=form.type.suffix)
            lines.append(f"const {form.value} t{k} = {value};")
            lines += [store.format(f"t{k}") for store in self.names.stored.get(k, ())]
            if k in self.plan.slots:
                lines.append(f"work[{self.plan.slots[k]}] = t{k};")
        return lines

    def _operand(self, a: int, computed: Container[int]) -> str:
        graph = self.graph
        op, value = graph.op[a], graph.value[a]
        if op in CONDITIONS:
            return EXPRESSIONS[op].format(*(self._operand(b, computed) for b in graph.args[a]))
        if op == "constant":
            return self.form.number(float(value))
        if op == "input":
            return self.names.read(value)
        return f"t{a}" if a in computed else f"work[{self.plan.slots[a]}]"

    def copies(self) -> list[str]:
        """Stores the outputs that no block computes: inputs, numbers and results of calls."""
        computed = {k for stage in self.plan.stages if not stage.calls for k in stage.nodes}
        rest = {k: stores for k, stores in self.names.stored.items() if k not in computed}
        return [
            store.format(self._operand(k, ())) for k, stores in rest.items() for store in stores
        ]

    def fetches(self) -> list[str]:
        """Copies the inputs that calls read into the workspace."""
        value, slots = self.graph.value, self.plan.slots
        return [f"work[{slots[k]}] = {self.names.read(value[k])};" for k in self.plan.fetched]

    def block(self, lines: list[str]) -> list[str]:
        """Defines a function of the lines; returns the statement that calls it."""
        if not lines:
            return []
        name = f"{self.prefix}_{len(self.definitions) + 1}{self.form.suffix}"
        text = "\n".join(lines)
        used = [a for a in self.names.arrays if re.search(rf"\b{a.name}\b", text)]
        stride = [x for x in self.form.stride if re.search(rf"\b{x}\b", text)]
        parameters = [f"size_t {x}" for x in stride] + [a.declared(self.form) for a in used]
        self.definitions.append(function(f"static FL_NOINLINE void {name}", parameters, lines))
        return [f"{name}({', '.join([*stride, *[a.name for a in used]])});"]

    def whole(self) -> list[str]:
        """The statements of a graph without calls: calls of its blocks, or the single block
        itself.
        """
        fetches, *blocks, copies = self.pieces()
        if len(blocks) <= 1:
            return [*fetches, *(blocks or [[]])[0], *copies]
        return [line for lines in (fetches, *blocks, copies) for line in self.block(lines)]

    def pieces(self) -> list[list[str]]:
        """The statements of each stage of operations, with the copies before and after them."""
        stages = [s for s in self.plan.stages if not s.calls]
        return [self.fetches(), *[self.statements(s.nodes) for s in stages], self.copies()]


def function(head: str, parameters: Iterable[str], lines: Iterable[str]) -> str:
    """The text of a function. head: up to the name."""
    return with_body(wrapped(f"{head}(", list(parameters) or ["void"]), lines)


def with_body(head: str, lines: Iterable[str]) -> str:
    """The text of a function, its lines indented. head: up to the parameters."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"{head} {{\n{body}}}\n"


def wrapped(head: str, parts: list[str], end: str = ")") -> str:
    """The parts with commas between them, in lines of up to 100 characters."""
    lines, indent = [head], " " * min(len(head), 8)
    for n, part in enumerate(parts):
        part += ", " if n < len(parts) - 1 else end
        if len(lines[-1]) + len(part.rstrip()) > 98 and lines[-1].strip():
            lines.append(indent)
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _stores(graph: Graph, entry: Callable[[str, int], str]) -> dict[int, list[str]]:
    """The statements that store nodes, as outputs."""
    stored: dict[int, list[str]] = {}
    for name, out in graph.outputs.items():
        for i, k in enumerate(out.nodes):
            stored.setdefault(k, []).append(entry(name, i))
    return stored


def code(prefix: str, program: Program, form: CForm, renamed: Mapping[str, str]) -> CCode:
    """The C code of a program. prefix: of the names of its static functions; renamed: the names of
    outputs in C.
    """
    graph = program.main
    plan, groups = layout(graph), {group.function: group for group in calls_of(graph)}
    arrays = [CArray(name) for name in graph.inputs]
    arrays += [CArray(renamed[name], True) for name in graph.outputs] + [CArray("work", True)]
    stored = _stores(graph, lambda name, i: form.stored(renamed[name], i))
    names = Names(lambda value: form.read(*value), stored, arrays)
    straight = _BlockCode(prefix, graph, form, names, plan)
    if not groups:
        return CCode(straight.definitions, straight.whole(), plan.size)
    fetches, *blocks, copies = straight.pieces()
    steps = _CallTable(prefix, program, form, plan, groups)
    body, texts = straight.block(fetches), iter(blocks)
    for stage in plan.stages:
        body += steps.run(stage) if stage.calls else straight.block(next(texts))
    body += straight.block(copies)
    return CCode([*steps.text(), *straight.definitions], body, steps.size)


class _CallTable:
    """The functions of a program, the table of its calls, and the loop over the table.

    An entry of the table is the number of a function, the slot of its results, and its operands:
    numbers below the count of constants are constants, the others slots of the workspace. Operands
    that all calls of a function share are copied once, before the first of them, by a separate
    entry.
    """

    def __init__(
        self,
        prefix: str,
        program: Program,
        form: CForm,
        plan: WorkspaceLayout,
        groups: Mapping[int, Calls],
    ) -> None:
        self.prefix, self.program, self.form = prefix, program, form
        self.plan, self.groups = plan, groups
        self.size, self.shared = plan.size, dict[int, int]()
        for f, group in groups.items():
            if group.shared:
                self.shared[f] = self._reserve(len(group.shared))
        self.operands = self._reserve(max(len(group.varying) for group in groups.values()))
        self.scratch = self.size
        self.entries = {f: n for n, f in enumerate(groups)}
        self.copies = {f: len(groups) + n for n, f in enumerate(self.shared)}
        self.constants = self._constants()
        self.operand_number = {a: n for n, a in enumerate(self.constants)}  # of operands
        self.operand_number |= {a: len(self.constants) + slot for a, slot in plan.slots.items()}
        self.words: list[int] = []

    def _reserve(self, count: int) -> int:
        first = self.size
        self.size += count
        return first

    def _constants(self) -> list[int]:
        """The constants that calls read."""
        graph = self.program.main
        read = (a for group in self.groups.values() for k in group.nodes for a in graph.args[k])
        return [a for a in dict.fromkeys(read) if graph.op[a] == "constant"]

    def run(self, stage: LayoutStage) -> list[str]:
        """Enters the calls of a stage into the table; returns the statement that runs them."""
        graph, begin = self.program.main, len(self.words)
        for k in stage.nodes:
            f, group = graph.value[k], self.groups[graph.value[k]]
            if f in self.shared and k == group.nodes[0]:
                shared = [self.operand_number[a] for a in group.shared.values()]
                self.words += [self.copies[f], self.shared[f], *shared]
            operands = [self.operand_number[graph.args[k][i]] for i in group.varying]
            self.words += [self.entries[f], self.plan.slots[k + 1], *operands]
        return [f"{self.prefix}_run{self.form.suffix}({begin}, {len(self.words)}, work);"]

    def text(self) -> list[str]:
        """All definitions, once every stage has been entered."""
        functions, calls = [], {}
        for f, group in self.groups.items():
            texts, calls[f] = self._function(f, group)
            functions += texts
        return [*functions, *self._tables(), self._loop(calls)]

    def _function(self, f: int, group: Calls) -> tuple[list[str], str]:
        """The C functions of one function of the program, and the statement that calls it."""
        graph, form = self.program.functions[f].graph, self.form
        name = f"{self.prefix}_step{self.entries[f]}"
        arrays = [
            CArray("shared"),
            CArray("operands"),
            CArray("results", True),
            CArray("work", True),
        ]
        parameter = {i: f"shared[{n}]" for n, i in enumerate(group.shared)}
        parameter |= {i: f"operands[{n}]" for n, i in enumerate(group.varying)}
        stored = _stores(graph, lambda _, i: f"results[{i}] = {{0}};")
        names, plan = Names(lambda value: parameter[value[1]], stored, arrays), layout(graph)
        straight = _BlockCode(name, graph, form, names, plan)
        self.size = max(self.size, self.scratch + plan.size)
        lines = straight.whole()
        used = [a for a in arrays if re.search(rf"\b{a.name}\b", "\n".join(lines))]
        passed = {
            "shared": f"work + {self.shared.get(f, 0)}",
            "operands": "operands",
            "results": "results",
            "work": f"work + {self.scratch}",
        }
        head = f"static FL_NOINLINE void {name}{form.suffix}"
        text = function(head, [a.declared(form) for a in used], lines)
        arguments = ", ".join(passed[a.name] for a in used)
        return [*straight.definitions, text], f"{name}{form.suffix}({arguments});"

    @property
    def _word(self) -> str:
        return "uint16_t" if max(self.words) < 1 << 16 else "uint32_t"

    def _tables(self) -> list[str]:
        """The calls, the number of operands of each entry, and the constants. Code for many states
        uses the tables of the code for one state.
        """
        if self.form.batch:
            return []
        counts = [len(group.varying) for group in self.groups.values()]
        counts += [len(self.groups[f].shared) for f in self.shared]
        t, graph = self.form.type, self.program.main
        numbers = [t.number(float(graph.value[a])) for a in self.constants]
        tables = [
            (self._word, "calls", [str(x) for x in self.words]),
            ("uint16_t", "counts", [str(x) for x in counts]),
        ]
        tables += [(t.name, "constants", numbers)] if numbers else []
        return [
            wrapped(f"static const {kind} {self.prefix}_{table}[] = {{", items, "};") + "\n"
            for kind, table, items in tables
        ]

    def _loop(self, calls: Mapping[int, str]) -> str:
        """The function that runs a range of the table."""
        form, prefix, known = self.form, self.prefix, len(self.constants)
        t, slot = form.value, "work[from]"
        if known:
            constant = f"{prefix}_constants[from]"
            constant = f"fl_all({constant})" if form.batch else constant
            slot = f"from < {known} ? {constant} : work[from - {known}]"
        to = f"f < {len(self.groups)} ? operands : results" if self.copies else "operands"
        cases = [f"    case {self.entries[f]}: {call} break;" for f, call in calls.items()]
        lines = [
            f"const {self._word} *next = {prefix}_calls + begin;",
            f"const {self._word} *const stop = {prefix}_calls + end;",
            f"{t} *const operands = work + {self.operands};",
            "while (next != stop) {",
            "  const unsigned f = *next++;",
            f"  {t} *const results = work + *next++;",
            f"  {t} *const to = {to};",
            f"  for (unsigned n = 0; n < {prefix}_counts[f]; ++n) {{",
            "    const size_t from = *next++;",
            f"    to[n] = {slot};",
            "  }",
            "  switch (f) {",
            *cases,
            "    default: break; /* copied only */",
            "  }",
            "}",
        ]
        parameters = ["size_t begin", "size_t end", f"{t} *work"]
        return function(f"static void {prefix}_run{form.suffix}", parameters, lines)
