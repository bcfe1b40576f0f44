"""The PTX that this package writes, as a grammar: forms of instructions, types of registers, ranges
of numbers, what must be declared. It takes no line that NVIDIA's assembler refuses.

The grammar is narrower than the PTX ISA (section 9.7 lists all instructions and their types), so
that a line of a new form has to be added here first, and is compared with the assembler by the
tests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import product

from featherlane.backends.cuda.kernel_stage import MEMORY, SHARED
from featherlane.backends.cuda.parse import Instruction, Parsed, parsed, tables
from featherlane.backends.cuda.ptx import HEADER
from featherlane.errors import CompileError

BITS = {"u32": 32, "b32": 32, "f32": 32, "u64": 64, "b64": 64, "f64": 64}
SPECIAL = ("%tid.x", "%ctaid.x")  # registers that only `mov` may read
LARGEST_ACCESS = 16  # bytes of a vector
LARGEST_OFFSET = 1 << 31  # what is added to a register's address
# Types of registers that an operand of a type may be: bits are those of any integer, and `mov`
# takes those of floating-point numbers as well
COMPATIBLE = {
    "b32": ("b32", "u32"),
    "b64": ("b64", "u64"),
    "raw32": ("b32", "f32"),
    "raw64": ("b64", "f64"),
}
INTEGER = re.compile(r"0|[1-9]\d*|0x[0-9a-fA-F]+")
FLOAT = {"f32": re.compile(r"0f[0-9a-fA-F]{8}"), "f64": re.compile(r"0d[0-9a-fA-F]{16}")}
ADDRESS = re.compile(r"\[([^+\]]+)(?:\+(\d+))?\]")


def _templates() -> Iterator[tuple[str, str]]:
    """Instructions and their operands, with {t} for their type: `=` stands before a register that
    is set; others may be numbers.
    """
    for t in ("f32", "f64"):
        for name in ("add.rn", "sub.rn", "mul.rn", "div.rn", "copysign"):
            yield f"{name}.{t}", f"={t} {t} {t}"
        for name in ("neg", "abs", "sqrt.rn", "mov", f"cvt.rni.{t}"):
            yield f"{name}.{t}", f"={t} {t}"
        yield f"fma.rn.{t}", f"={t} {t} {t} {t}"
        yield f"selp.{t}", f"={t} {t} {t} pred"
    for t in ("u32", "u64"):
        for name in ("add", "sub", "min", "mul.lo"):
            yield f"{name}.{t}", f"={t} {t} {t}"
        yield f"mad.lo.{t}", f"={t} {t} {t} {t}"
        yield f"shr.{t}", f"={t} {t} u32"
    for bits in ("32", "64"):
        for name in ("and", "or", "xor"):
            yield f"{name}.b{bits}", f"=b{bits} b{bits} b{bits}"
        for name in ("shl", "shr"):
            yield f"{name}.b{bits}", f"=b{bits} b{bits} u32"
        yield f"mov.b{bits}", f"=raw{bits} raw{bits}"
    for how, t in product(("lt", "le", "gt", "ge", "eq", "ne"), BITS):
        if t[0] != "b" or how in ("eq", "ne"):
            yield f"setp.{how}.{t}", f"=pred {t} {t}"
            yield f"setp.{how}.and.{t}", f"=pred {t} {t} pred"
    for t, space in product(("u32", "u64", "f32", "f64"), ("global", "shared")):
        for count in (1, 2, 4):
            if count * BITS[t] // 8 <= LARGEST_ACCESS:
                vector = "" if count == 1 else f"v{count}."
                yield f"ld.{space}.{vector}{t}", f"={t}*{count} {space}"
                yield f"st.{space}.{vector}{t}", f"{space} {t}*{count}"
        yield f"ld.param.{t}", f"={t} param.{t}"


FORMS = {
    **{name: tuple(operands.split()) for name, operands in _templates()},
    "mov.u32": ("=u32", "start"),  # where addresses and indices begin
    "mov.u64": ("=u64", "table"),
    "mul.wide.u32": ("=u64", "u32", "u32"),
    "mad.wide.u32": ("=u64", "u32", "u32", "u64"),
    "cvt.u32.u64": ("=u32", "u64"),
    "cvt.u64.u32": ("=u64", "u32"),
    "bra": ("label",),
    "bra.uni": ("label",),
    "bar.sync": ("zero",),
    "bar.warp.sync": ("u32",),
    "ret": (),
}
"""The operands of each instruction but calls."""


class Checker:
    """Checks the lines of a kernel or a function. functions: those that it may call, with the types
    of their parameters; symbols: names of memory that the text declares.
    """

    def __init__(
        self, code: Parsed, functions: Mapping[str, list[str]], symbols: Collection[str]
    ) -> None:
        self.code, self.functions, self.symbols = code, functions, symbols

    def check(self, line: Instruction) -> None:
        """Raises CompileError for a line that the assembler may refuse."""
        if line.guard is not None and not self._is_register(line.guard, "pred"):
            raise CompileError(f"{line.line} {line.guard} is no condition")
        if line.name == "call.uni":
            return self._check_call(line)
        form = FORMS.get(line.name)
        if form is None:
            raise CompileError(f"no instruction that is known here: {line.line}")
        if len(form) != len(line.operands):
            raise CompileError(f"{line.line} has {len(line.operands)} operands, not {len(form)}")
        for operand, kind in zip(line.operands, form, strict=True):
            if not self._is(operand, kind):
                raise CompileError(f"{line.line} {operand} is no operand {kind.strip('=')!r}")

    def _check_call(self, line: Instruction) -> None:
        name, *operands = line.operands or ("",)
        listed = ", ".join(operands)
        operands = listed[1:-1].split(", ") if listed.startswith("(") and listed[-1] == ")" else []
        kinds = self.functions.get(name)
        if kinds is None or len(kinds) != len(operands):
            raise CompileError(f"{line.line} calls no function of so many parameters")
        for operand, kind in zip(operands, kinds, strict=True):
            if not self._is(operand, kind):
                raise CompileError(f"{line.line} {operand} is no operand {kind!r}")

    def _is(self, operand: str, kind: str) -> bool:
        """Whether an operand is of a kind, one of those in `FORMS`."""
        if "*" in kind:
            return self._is_vector(operand, kind)
        if kind[0] == "=":
            return self._is_register(operand, kind[1:])
        if kind in ("global", "shared"):
            return self._is_address(operand, "u64" if kind == "global" else "u32")
        if kind.startswith("param."):
            return operand[0] == "[" and self.code.parameters.get(operand[1:-1]) == kind[6:]
        if kind == "start":
            here = operand in SPECIAL or (operand == MEMORY and MEMORY in self.symbols)
            return here or self._is(operand, "u32")
        if kind == "table":
            return operand in self.symbols and operand != MEMORY
        if kind == "label":
            return operand in self.code.labels
        if kind == "zero":
            return operand == "0"
        return self._is_register(operand, kind) or _is_number(operand, kind)

    def _is_vector(self, operand: str, kind: str) -> bool:
        """Whether an operand of an access has so many registers, or is a number that is stored."""
        kind, _, count = kind.partition("*")
        is_set, kind = kind[0] == "=", kind.removeprefix("=")
        if count == "1":
            number = not is_set and _is_number(operand, kind)
            return number or self._is_register(operand, kind)
        registers = operand.strip("{}").split(", ")
        several = operand == f"{{{', '.join(registers)}}}" and len(registers) == int(count)
        apart = not is_set or len({*registers}) == len(registers)
        return several and apart and all(self._is_register(x, kind) for x in registers)

    def _is_register(self, operand: str, kind: str) -> bool:
        """Whether an operand is a declared register whose type goes with another one."""
        name = operand.rstrip("0123456789")
        number = operand[len(name) :]
        return (
            self.code.kinds.get(name) in COMPATIBLE.get(kind, (kind,))
            and bool(INTEGER.fullmatch(number))
            and int(number) < self.code.counts[name]
        )

    def _is_address(self, operand: str, kind: str) -> bool:
        """Whether an operand is a register with an address, and a number that is added to it."""
        match = ADDRESS.fullmatch(operand)
        return (
            match is not None
            and self._is_register(match[1], kind)
            and int(match[2] or 0) < LARGEST_OFFSET
        )


def _is_number(operand: str, kind: str) -> bool:
    """Whether an operand is a number that a type holds."""
    if kind in FLOAT:
        return bool(FLOAT[kind].fullmatch(operand))
    return kind in BITS and bool(INTEGER.fullmatch(operand)) and int(operand, 0) < 1 << BITS[kind]


def _functions(text: str) -> dict[str, list[str]]:
    """The types of the parameters of all functions of a text, by name."""
    return {
        name: re.findall(r"\.param \.(\w+) ", head)
        for name, head in re.findall(r"^\.func (\w+)\(\n([^)]*)\n\)$", text, re.MULTILINE)
    }


@lru_cache(maxsize=64)  # kernels are launched again and again
def checked(text: str, name: str, what: str = "entry") -> Parsed:
    """The code of a kernel of a text, or with what="func" of a function. Raises CompileError for
    text that the assembler may refuse.
    """
    checker = checker_of(text, name, what)
    for line in checker.code.lines:
        checker.check(line)
    return checker.code


def checker_of(text: str, name: str, what: str = "entry") -> Checker:
    """What checks the lines of a kernel or a function, by what the text declares before it."""
    if text.split("\n")[: len(HEADER)] != HEADER:
        raise CompileError(f"PTX begins with {', '.join(HEADER)}")
    before = text[: text.index(f".{what} {name}(\n")]
    symbols = {x.name for x in tables(before)} | ({MEMORY} if SHARED in before else set())
    return Checker(parsed(text, name, what), _functions(before), symbols)
