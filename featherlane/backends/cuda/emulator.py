"""Runs PTX text without a GPU: all threads of a launch as NumPy arrays, instruction by instruction.

It knows the instructions that this package emits, and is stricter than a GPU: it refuses addresses
outside of the arrays that it was given, registers that nothing has set, branches at which threads
of a warp part, barriers that some warps of a block do not reach, and reads of memory that another
thread has written without a barrier in between, or the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends.cuda.emulated_memory import EmulationError, Memory, Shared, Uses
from featherlane.backends.cuda.kernel import MEMORY
from featherlane.backends.cuda.ptx import WARP
from featherlane.program.op import fma

Array = Any
TYPES: dict[str, Any] = {
    **dict.fromkeys(("u32", "b32"), np.uint32),
    **dict.fromkeys(("u64", "b64"), np.uint64),
    "f32": np.float32,
    "f64": np.float64,
    "pred": np.bool_,
}
_LINE = re.compile(r"(?:@(!?)(%\w+) )?([\w.]+)(?: (.*))?;")
_REGISTERS = re.compile(r"\.reg \.(\w+) (%\w+)<(\d+)>;")
_TABLE = re.compile(r"\.global \.align \d+ \.(\w+) (\w+)\[\d+\] = \{(.*)\};")
_OPERANDS = re.compile(r"\[[^]]*\]|[^,\s]+")


def _quiet(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*operands)

    return run


def _wide(a: Array, b: Array) -> Array:
    return a.astype(np.uint64) * b.astype(np.uint64)


# Instructions by their names without type and rounding; how operands become the result
COMPUTE: dict[str, Callable[..., Array]] = {
    "mov": lambda a: a,
    "add": _quiet(np.add),
    "sub": _quiet(np.subtract),
    "mul": _quiet(np.multiply),
    "mul.lo": _quiet(np.multiply),
    "mad.lo": _quiet(lambda a, b, c: a * b + c),
    "div": _quiet(np.divide),
    "fma": fma,
    "sqrt": _quiet(np.sqrt),
    "neg": np.negative,
    "abs": np.abs,
    "copysign": lambda a, b: np.copysign(b, a),
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
COMPARE: dict[str, Callable[..., Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


class Launched:
    """One launch: its text, its memory, and the gangs of warps that run it."""

    def __init__(
        self,
        text: str,
        kernel: str,
        arguments: Sequence[int],
        memory: Memory,
        *,
        blocks: int,
        columns: int,
        threads: int,
        shared: int,
    ) -> None:
        number = np.arange(blocks * columns * threads)
        block = number // threads
        special = {
            "%tid.x": number % threads,
            "%ctaid.x": block % blocks,
            "%ctaid.y": block // blocks,
        }
        self.symbols = {MEMORY: 0, **_tables(text, memory)}
        self.memory, self.threads = memory, threads
        self.shared = Shared(shared, blocks * columns, threads)
        self.uses = Uses(len(memory.bytes) // 4, threads)  # of global memory
        self.lines: list[tuple[str, tuple[Any, ...]]] = []
        self.labels: dict[str, int] = {}
        self.kinds: dict[str, Any] = {}
        names = self._parse(text, kernel)
        self.parameters = dict(zip(names, arguments, strict=True))
        self.gangs = [_Gang(self, number, special)]

    def _parse(self, text: str, kernel: str) -> list[str]:
        """The lines of a kernel; returns the names of its parameters."""
        start = text.index(f".entry {kernel}(\n")
        end = text.index("\n}\n", start)
        head, body = text[start:end].split("\n{\n", 1)
        for line in body.split("\n"):
            if match := _REGISTERS.fullmatch(line):
                self.kinds[match[2]] = TYPES[match[1]]
            elif line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif match := _LINE.fullmatch(line):
                self.lines.append((line, match.groups()))
            else:
                raise EmulationError(f"no PTX that is known here: {line}")
        return re.findall(r"\.param \.\w+ (\w+)", head)

    def run(self) -> None:
        """Runs gang after gang to the next barrier of the block, until all have ended."""
        while self.gangs:
            running, waiting = self.gangs, list[_Gang]()
            while running:
                gang = running.pop()
                running += gang.run()
                if gang.alive.any():
                    waiting.append(gang)
            self._meet(waiting)
            self.gangs = waiting

    def _meet(self, waiting: Sequence[_Gang]) -> None:
        """Raises EmulationError if a block has threads that are not at the barrier."""
        self.barrier(whole_block=True)
        if waiting:
            block = np.concatenate([x.number[x.alive] for x in waiting]) // self.threads
            if (np.bincount(block)[block] != self.threads).any():
                raise EmulationError("bar.sync: a barrier that some threads may not reach")

    def barrier(self, whole_block: bool) -> None:
        self.shared.uses.barrier(whole_block)
        self.uses.barrier(whole_block)


class _Gang:
    """Warps at the same line of a launch: their threads' numbers and registers."""

    def __init__(self, launched: Launched, number: Array, special: dict[str, Array]) -> None:
        self.launched, self.number, self.special = launched, number, special
        self.symbols, self.kinds = launched.symbols, launched.kinds
        self.alive = np.ones(len(number), bool)
        self.registers: dict[str, Array] = {}
        self.at = 0

    def _part(self, mask: Array, at: int) -> _Gang:
        """Some of these threads at another line."""
        part = _Gang(
            self.launched, self.number[mask], {x: y[mask] for x, y in self.special.items()}
        )
        part.alive, part.at = self.alive[mask], at
        part.registers = {x: y[mask] for x, y in self.registers.items()}
        return part

    def run(self) -> list[_Gang]:
        """Runs to a barrier of the block or to the end, or to a branch at which warps part: then
        these threads are done here, and the parts are returned.
        """
        lines = self.launched.lines
        while self.at < len(lines) and self.alive.any():
            line, (negated, guard, name, operands) = lines[self.at]
            self.at += 1
            active = self.alive.copy()
            if guard:
                active &= self._read(guard, np.bool_) ^ bool(negated)
            given = _OPERANDS.findall(operands or "")
            if name == "bra":
                to = self.launched.labels[given[0]]
                if active.any() and not active[self.alive].all():
                    return self._branch(line, active, to)
                self.at = to if active.any() else self.at
            elif name == "ret":
                self.alive &= ~active
            elif name.startswith("bar."):
                if guard:
                    raise EmulationError(f"{line}: a barrier that some threads may not reach")
                if name == "bar.sync":
                    return []
                self.launched.barrier(whole_block=False)
            elif active.any():
                self._step(line, name.split("."), given, active)
        self.alive[:] = False
        return []

    def _branch(self, line: str, active: Array, to: int) -> list[_Gang]:
        """The warps that take a branch, and the others."""
        warp = self.number // WARP
        taken = np.isin(warp, warp[active])
        if (taken & self.alive & ~active).any():
            raise EmulationError(f"{line}: threads part")
        parts = [self._part(taken, to), self._part(~taken, self.at)]
        self.alive[:] = False
        return parts

    def _step(self, line: str, name: list[str], given: list[str], active: Array) -> None:
        if name[0] == "st":
            self._store(line, name[1], TYPES[name[2]], given, active)
        elif name[0] == "ld":
            self._write(
                given[0], self._load(line, name[1], TYPES[name[2]], given[1], active), active
            )
        else:
            self._write(given[0], self._compute(line, name, given[1:]), active)

    def _compute(self, line: str, name: list[str], given: list[str]) -> Array:
        op, kind = name[0], TYPES[name[-1]]
        if op == "setp":
            found = COMPARE[name[1]](*[self._read(x, kind) for x in given[:2]])
            return found & self._read(given[2], np.bool_) if name[2] == "and" else found
        if op == "selp":
            a, b = (self._read(x, kind) for x in given[:2])
            return np.where(self._read(given[2], np.bool_), a, b)
        if op == "cvt":
            to = TYPES[name[-2]]
            x = self._read(given[0], kind)
            return np.rint(x) if name[1] == "rni" else x.astype(to)
        if op in ("shl", "shr"):
            shift = np.left_shift if op == "shl" else np.right_shift
            return shift(self._read(given[0], kind), self._read(given[1], np.uint32).astype(kind))
        if "wide" in name:
            product = _wide(*[self._read(x, kind) for x in given[:2]])
            return product if op == "mul" else product + self._read(given[2], np.uint64)
        plain = ".".join(x for x in name[:-1] if x != "rn")
        if plain not in COMPUTE:
            raise EmulationError(f"no instruction that is known here: {line}")
        return COMPUTE[plain](*[self._read(x, kind) for x in given])

    def _read(self, operand: str, kind: Any) -> Array:
        """An operand of all threads as a type; bits are taken as they are."""
        if operand in self.registers:
            value = self.registers[operand]
            if value.dtype.itemsize != np.dtype(kind).itemsize:
                raise EmulationError(f"{operand} is {value.dtype}, and read as {np.dtype(kind)}")
            return value.view(kind)
        if operand.startswith(("0f", "0d")):
            bits = {"0f": np.uint32, "0d": np.uint64}[operand[:2]](int(operand[2:], 16))
            return np.full(len(self.number), bits).view(kind)
        if operand in self.special:
            return self.special[operand].astype(kind)
        if operand.startswith("%"):
            raise EmulationError(f"{operand} is read before it is set")
        number = self.symbols[operand] if operand in self.symbols else int(operand, 0)
        return np.full(len(self.number), number).astype(kind)

    def _write(self, register: str, value: Array, active: Array) -> None:
        kind = self.kinds[register.rstrip("0123456789")]
        if value.dtype.itemsize != np.dtype(kind).itemsize:
            raise EmulationError(f"{register} is {np.dtype(kind)}, and gets {value.dtype}")
        value = np.broadcast_to(value, self.number.shape).view(kind)
        before = self.registers.get(register)
        if before is None or active.all():
            self.registers[register] = value.copy()
        else:
            self.registers[register] = np.where(active, value, before)

    def _address(self, operand: str, kind: Any) -> Array:
        base, _, offset = operand[1:-1].partition("+")
        return self._read(base, kind) + kind(int(offset or 0))

    def _load(self, line: str, space: str, kind: Any, operand: str, active: Array) -> Array:
        if space == "param":
            return np.full(len(self.number), self.launched.parameters[operand[1:-1]], kind)
        value, threads = np.zeros(len(self.number), kind), self.number[active]
        if space == "shared":
            address = self._address(operand, np.uint32)[active]
            value[active] = self.launched.shared.load(address, threads, kind, line)
        else:
            at = self._words(operand, np.dtype(kind).itemsize, active, line)
            self.launched.uses.load(at, threads, line)
            words = self.launched.memory.bytes.view(np.uint32)
            value[active] = words[at].view(kind)[:, 0]
        return value

    def _words(self, operand: str, size: int, active: Array, line: str) -> Array:
        """The words of global memory at the addresses of threads, a row for each."""
        address = self._address(operand, np.uint64)[active]
        at = self.launched.memory.index(address, size, line)
        return (at * (size // 4))[:, None] + np.arange(size // 4)

    def _store(self, line: str, space: str, kind: Any, given: list[str], active: Array) -> None:
        value, threads = self._read(given[1], kind)[active], self.number[active]
        if space == "shared":
            address = self._address(given[0], np.uint32)[active]
            self.launched.shared.store(address, threads, value, line)
            return
        at = self._words(given[0], value.dtype.itemsize, active, line)
        self.launched.uses.store(at, threads, line)
        words = self.launched.memory.bytes.view(np.uint32)
        words[at] = np.ascontiguousarray(value)[:, None].view(np.uint32)


def _tables(text: str, memory: Memory) -> dict[str, int]:
    """Places the tables of a text in memory; their addresses by name."""
    found = {}
    for kind, name, numbers in _TABLE.findall(text):
        found[name] = memory.place(np.array([int(x) for x in numbers.split(",")], TYPES[kind]))
    return found


def run(
    kernels: Any, inputs: Mapping[str, Array], dtype: Any, count: int | None = None
) -> dict[str, Array]:
    """The outputs that kernels (`stages.Kernels`) compute of arrays of shape (B, *core)."""
    memory = Memory()
    given = [np.ascontiguousarray(inputs[x], dtype) for x in kernels.inputs]
    count = len(given[0]) if count is None else count
    empty = [np.zeros((count, *shape), dtype) for shape in kernels.outputs.values()]
    places = [memory.place(x) for x in (*given, *empty)]
    strides = [x.nbytes // max(count, 1) for x in (*given, *empty)]
    arguments = [y for pair in zip(places, strides, strict=True) for y in pair]
    groups = -(-count // WARP)
    scratch = memory.place(np.full(groups * WARP * kernels.slots, np.nan, dtype))
    for launch in kernels.launches:
        Launched(
            kernels.text,
            launch.kernel,
            [*arguments, scratch, count],
            memory,
            blocks=-(-count // launch.states),
            columns=launch.columns,
            threads=launch.threads,
            shared=launch.shared,
        ).run()
    found = zip(kernels.outputs, places[len(given) :], empty, strict=True)
    return {x: memory.read(place, like) for x, place, like in found}
