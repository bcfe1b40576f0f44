"""Kernels in PTX as LLVM IR: line by line, for devices whose words are in a `Dialect`.

No operation has a flag that would allow LLVM to change its rounding: no contraction, no flushing of
small numbers, no approximate division. A register that is set once is a value; one that is set
several times, or only by some threads, is a place on the stack, which LLVM turns into values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from featherlane.backends.cuda.kernel_stage import MEMORY, Launch
from featherlane.backends.cuda.parse import Instruction, Parsed, Table, parsed, tables
from featherlane.errors import CompileError

TYPES = {
    **dict.fromkeys(("u32", "b32"), "i32"),
    **dict.fromkeys(("u64", "b64"), "i64"),
    "f32": "float",
    "f64": "double",
    "pred": "i1",
}
SPACES = {"global": 1, "shared": 3}
FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTRINSIC = {"fma": "fma", "sqrt": "sqrt", "abs": "fabs", "copysign": "copysign"}
INTEGER = {"add": "add", "sub": "sub", "mul.lo": "mul", "and": "and", "or": "or", "xor": "xor"}
SHIFT = {"shl": "shl", "shr": "lshr"}
FLOAT_TESTS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "one"}
INTEGER_TESTS = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}


class Dialect(NamedTuple):
    """The LLVM IR in which devices differ. convention: of kernels; memory: a pointer to the shared
    memory of a block; parameters: of kernels, behind those of PTX; begin: the lines that set %tid.x
    and %ctaid.x; barriers: the lines of each barrier of PTX; stack: the address space of places on
    the stack; declarations: of what these lines use; attributes: of a launch's kernel.
    """

    convention: str
    memory: str
    parameters: tuple[str, ...]
    begin: tuple[str, ...]
    barriers: Mapping[str, tuple[str, ...]]
    stack: int
    declarations: tuple[str, ...]
    attributes: Callable[[Launch], str]


class _Body:
    """The lines of a kernel in the making."""

    def __init__(self, kernel: Parsed, symbols: Mapping[str, str], dialect: Dialect) -> None:
        self.kernel, self.symbols, self.dialect = kernel, symbols, dialect
        self.count = 0
        sets = Counter(to for line in kernel.lines for to in _sets(line))
        guarded = {to for line in kernel.lines if line.guard for to in _sets(line)}
        self.places = {to for to, n in sets.items() if n > 1} | guarded
        self.lines = [
            f"{to}.at = alloca {self.type(to)}, addrspace({dialect.stack})"
            for to in sorted(self.places)
        ]
        self.lines += dialect.begin

    def type(self, register: str) -> str:
        return TYPES[self.kernel.kind(register)]

    def name(self, prefix: str = "%t") -> str:
        self.count += 1
        return f"{prefix}.{self.count}"

    def new(self, instruction: str) -> str:
        """A value that an instruction computes."""
        to = self.name()
        self.lines.append(f"{to} = {instruction}")
        return to

    def call(self, intrinsic: str, kind: str, *operands: str) -> str:
        of = f"f{_bits(kind)}" if kind in ("float", "double") else kind
        arguments = ", ".join(f"{kind} {x}" for x in operands)
        return self.new(f"call {kind} @llvm.{intrinsic}.{of}({arguments})")

    def value(self, operand: str, kind: str) -> str:
        """An operand as a value of a type; bits are taken as they are."""
        if operand in self.symbols:
            return self.symbols[operand]
        if operand in ("%tid.x", "%ctaid.x"):
            return operand
        if operand.startswith("%"):
            declared, x = self.type(operand), operand
            if operand in self.places:
                x = self.new(f"load {declared}, ptr addrspace({self.dialect.stack}) {operand}.at")
            return x if declared == kind else self.new(f"bitcast {declared} {x} to {kind}")
        if operand.startswith(("0f", "0d")):
            bits = int(operand[2:], 16)
            return f"bitcast (i{4 * len(operand[2:])} {bits} to {kind})"
        return str(int(operand, 0))

    def set(self, register: str, x: str, kind: str) -> None:
        declared = self.type(register)
        if register in self.places:
            x = x if declared == kind else self.new(f"bitcast {kind} {x} to {declared}")
            at = f"ptr addrspace({self.dialect.stack}) {register}.at"
            self.lines.append(f"store {declared} {x}, {at}")
        else:
            self.lines.append(f"{register} = bitcast {kind} {x} to {declared}")

    def pointer(self, operand: str, space: str) -> str:
        """The pointer of an address in brackets."""
        base, _, offset = operand[1:-1].partition("+")
        kind = "i32" if space == "shared" else "i64"
        at = self.value(base, kind)
        if offset:
            at = self.new(f"add {kind} {at}, {int(offset)}")
        if space == "shared":
            return self.new(f"getelementptr i8, ptr addrspace(3) {self.dialect.memory}, i32 {at}")
        return self.new(f"inttoptr i64 {at} to ptr addrspace({SPACES[space]})")

    def block(self, label: str) -> None:
        """Begins a basic block."""
        self.lines += [f"br label %{label}", f"{label}:"]


def _bits(kind: str) -> int:
    return 64 if kind in ("double", "i64") else 32


def _sets(line: Instruction) -> list[str]:
    """The registers that an instruction sets."""
    name = line.parts[0]
    if name in ("st", "bra", "ret", "bar", "call"):
        return []
    return _registers(line.operands[0])


def _registers(operand: str) -> list[str]:
    """A register, or those of a vector in braces."""
    return operand.strip("{}").split(", ")


def _label(label: str) -> str:
    return label.lstrip("$")


def _translate(b: _Body, line: Instruction, next_label: str) -> None:
    """One line. next_label: of a basic block behind it, for lines that not all threads run."""
    name, condition = line.parts, ""
    if line.guard:
        condition = b.value(line.guard, "i1")
        condition = b.new(f"xor i1 {condition}, true") if line.negated else condition
    if name[0] in ("bra", "ret"):
        to = _label(line.operands[0]) if name[0] == "bra" else "leave"
        other = f"i1 {condition}, label %{to}, label %{next_label}" if condition else f"label %{to}"
        b.lines += [f"br {other}", f"{next_label}:"]
        return
    if condition:
        inside = f"{next_label}.do"
        b.lines += [f"br i1 {condition}, label %{inside}, label %{next_label}", f"{inside}:"]
    _run(b, line, name)
    if condition:
        b.block(next_label)


def _run(b: _Body, line: Instruction, name: list[str]) -> None:
    operands = line.operands
    if name[0] == "bar":
        barrier = ".".join(name)
        if barrier not in b.dialect.barriers:
            raise CompileError(f"no barrier that is known here: {line.line}")
        b.lines += b.dialect.barriers[barrier]
    elif name[0] == "call":
        raise CompileError(f"functions in kernels have no translation: {line.line}")
    elif name[0] == "st":
        _store(b, name, operands)
    elif name[0] == "ld" and name[1] == "param":
        b.set(operands[0], f"%{operands[1][1:-1]}", TYPES[name[-1]])
    elif name[0] == "ld":
        _load(b, name, operands)
    else:
        b.set(operands[0], *_computed(b, line, name))


def _memory(b: _Body, name: list[str], operand: str, count: int) -> str:
    """The pointer operand of a load or a store of `count` consecutive numbers."""
    size = count * _bits(TYPES[name[-1]]) // 8
    return f"ptr addrspace({SPACES[name[1]]}) {b.pointer(operand, name[1])}, align {size}"


def _store(b: _Body, name: list[str], operands: list[str]) -> None:
    kind, registers = TYPES[name[-1]], _registers(operands[1])
    values = [b.value(x, kind) for x in registers]
    whole, of = values[0], kind
    if len(registers) > 1:
        whole, of = "poison", f"<{len(registers)} x {kind}>"
        for k, x in enumerate(values):
            whole = b.new(f"insertelement {of} {whole}, {kind} {x}, i32 {k}")
    at = _memory(b, name, operands[0], len(registers))
    b.lines.append(f"store {of} {whole}, {at}")


def _load(b: _Body, name: list[str], operands: list[str]) -> None:
    kind, to = TYPES[name[-1]], _registers(operands[0])
    at = _memory(b, name, operands[1], len(to))
    if len(to) == 1:
        b.set(to[0], b.new(f"load {kind}, {at}"), kind)
        return
    of = f"<{len(to)} x {kind}>"
    whole = b.new(f"load {of}, {at}")
    for k, register in enumerate(to):
        b.set(register, b.new(f"extractelement {of} {whole}, i32 {k}"), kind)


def _computed(b: _Body, line: Instruction, name: list[str]) -> tuple[str, str]:
    """The value of an instruction that computes, and its type."""
    kind, operands = TYPES[name[-1]], line.operands[1:]
    plain = ".".join(x for x in name[:-1] if x not in ("rn", "wide"))
    if name[0] == "setp":
        return _tested(b, name, operands, kind), "i1"
    if name[0] == "selp":
        x, y = (b.value(operand, kind) for operand in operands[:2])
        test = b.value(operands[2], "i1")
        return b.new(f"select i1 {test}, {kind} {x}, {kind} {y}"), kind
    if name[0] == "cvt":
        return _converted(b, name, b.value(operands[0], kind), kind)
    if "wide" in name:
        x, y = (b.new(f"zext i32 {b.value(operand, 'i32')} to i64") for operand in operands[:2])
        product = b.new(f"mul i64 {x}, {y}")
        if plain == "mad":
            product = b.new(f"add i64 {product}, {b.value(operands[2], 'i64')}")
        return product, "i64"
    if name[0] in SHIFT and operands[1].isdecimal() and int(operands[1]) < _bits(kind):
        return b.new(f"{SHIFT[name[0]]} {kind} {b.value(operands[0], kind)}, {operands[1]}"), kind
    result = _arithmetic(b, plain, kind, [b.value(operand, kind) for operand in operands])
    if result is None:
        raise CompileError(f"no instruction that is known here: {line.line}")
    return result, kind


def _arithmetic(b: _Body, plain: str, kind: str, operands: list[str]) -> str | None:
    """An instruction whose operands and result have one type; None for one that is unknown."""
    if plain == "mov":
        return operands[0]
    if kind in ("float", "double"):
        if plain in FLOAT:
            return b.new(f"{FLOAT[plain]} {kind} {', '.join(operands)}")
        if plain == "neg":
            return b.new(f"fneg {kind} {operands[0]}")
        order = operands[::-1] if plain == "copysign" else operands  # PTX names the sign first
        return b.call(INTRINSIC[plain], kind, *order) if plain in INTRINSIC else None
    if plain == "min":
        return b.call("umin", kind, *operands)
    if plain == "mad.lo":
        product = b.new(f"mul {kind} {operands[0]}, {operands[1]}")
        return b.new(f"add {kind} {product}, {operands[2]}")
    return b.new(f"{INTEGER[plain]} {kind} {', '.join(operands)}") if plain in INTEGER else None


def _tested(b: _Body, name: list[str], operands: list[str], kind: str) -> str:
    """A PTX comparison `setp`: name[1] is the test, and if name[2] is "and", the third operand must
    hold, too.
    """
    tests, compare = INTEGER_TESTS, "icmp"
    if kind in ("float", "double"):
        tests, compare = FLOAT_TESTS, "fcmp"
    x, y = (b.value(operand, kind) for operand in operands[:2])
    test = b.new(f"{compare} {tests[name[1]]} {kind} {x}, {y}")
    return b.new(f"and i1 {test}, {b.value(operands[2], 'i1')}") if name[2] == "and" else test


def _converted(b: _Body, name: list[str], x: str, kind: str) -> tuple[str, str]:
    if name[1] == "rni":
        return b.call("roundeven", kind, x), kind
    to = TYPES[name[-2]]
    how = "zext" if _bits(to) > _bits(kind) else "trunc"
    return b.new(f"{how} {kind} {x} to {to}"), to


def _table(table: Table) -> str:
    kind = TYPES[table.kind]
    numbers = ", ".join(f"{kind} {x}" for x in table.numbers)
    size = f"[{len(table.numbers)} x {kind}]"
    return f"@{table.name} = internal addrspace(1) constant {size} [{numbers}], align 4"


def _kernel(text: str, launch: Launch, symbols: Mapping[str, str], dialect: Dialect) -> list[str]:
    kernel = parsed(text, launch.kernel)
    b = _Body(kernel, symbols, dialect)
    starts = {at: _label(label) for label, at in kernel.labels.items()}
    for k, line in enumerate(kernel.lines):
        if k in starts:
            b.block(starts[k])
        _translate(b, line, f"after.{k}")
    b.block("leave")
    parameters = ", ".join([*(f"i64 %{x}" for x in kernel.parameters), *dialect.parameters])
    head = f"define {dialect.convention} void @{launch.kernel}({parameters})"
    return [f"{head} {dialect.attributes(launch)} {{", *b.lines, "ret void", "}"]


def _declared(lines: Iterable[str]) -> Iterator[str]:
    """Declarations of the intrinsics that lines call."""
    declarations = set()
    for line in lines:
        if " call " in line and "@llvm." in line and not line.startswith("declare"):
            name = line.split("@", 1)[1].split("(", 1)[0]
            count, kind = line.split("(", 1)[1].count(",") + 1, line.split(" call ")[1].split()[0]
            declarations.add(f"declare {kind} @{name}({', '.join([kind] * count)})")
    return iter(sorted(declarations))


def module(text: str, launches: Iterable[Launch], dialect: Dialect) -> str:
    """LLVM IR of the kernels of a PTX text. Raises CompileError for a line that is unknown."""
    constants, each = tables(text), {x.kernel: x for x in launches}
    symbols = {x.name: f"ptrtoint (ptr addrspace(1) @{x.name} to i64)" for x in constants}
    symbols[MEMORY] = "0"  # shared addresses count from its first byte
    lines = [line for x in each.values() for line in _kernel(text, x, symbols, dialect)]
    begun = {*dialect.begin, *(x for lines in dialect.barriers.values() for x in lines)}
    declared = _declared(x for x in lines if x not in begun)
    return "\n".join([*dialect.declarations, *declared, *map(_table, constants), *lines, ""])
