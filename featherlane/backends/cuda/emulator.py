"""Runs PTX text without a GPU: all threads of a launch as NumPy arrays, instruction by instruction.

It knows the instructions that this package emits, and is stricter than a GPU: it refuses addresses
outside of the arrays that it was given, registers that nothing has set, branches at which threads
part, and reads of shared memory that another thread has written without a barrier in between, or
the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends.cuda.kernel import MEMORY
from featherlane.backends.cuda.parse import LINE, OPERANDS, REGISTERS, TABLE
from featherlane.backends.cuda.ptx import WARP
from featherlane.program.op import fma

Array = Any
FIRST = 1 << 12  # the address of the first array: small numbers are no addresses
GUARD = 64  # bytes around arrays, at least, that belong to none
NOBODY, MANY, SEVERAL = -1, -2, -3  # who used a word of shared memory: no thread, threads of
# several warps; SEVERAL - w: several threads of warp w

TYPES: dict[str, Any] = {
    **dict.fromkeys(("u32", "b32"), np.uint32),
    **dict.fromkeys(("u64", "b64"), np.uint64),
    "f32": np.float32,
    "f64": np.float64,
    "pred": np.bool_,
}


class EmulationError(RuntimeError):
    """PTX that does what no kernel may do."""


class Memory:
    """Global memory: arrays at addresses, with nothing between them."""

    def __init__(self) -> None:
        self.bytes = np.zeros(0, np.uint8)
        self.owned = np.zeros(0, bool)

    def place(self, data: Array) -> int:
        """Puts a contiguous array into memory and returns its address."""
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        start = len(self.bytes) + GUARD
        end = -(-(start + len(raw) + GUARD) // GUARD) * GUARD
        grown, owned = np.zeros(end, np.uint8), np.zeros(end, bool)
        grown[: len(self.bytes)], owned[: len(self.owned)] = self.bytes, self.owned
        grown[start : start + len(raw)], owned[start : start + len(raw)] = raw, True
        self.bytes, self.owned = grown, owned
        return FIRST + start

    def read(self, address: int, like: Array) -> Array:
        """The array at an address, of another one's shape and dtype."""
        start = address - FIRST
        raw = self.bytes[start : start + like.nbytes].tobytes()
        return np.frombuffer(raw, like.dtype).reshape(like.shape).copy()

    def index(self, addresses: Array, size: int, what: str) -> Array:
        """Numbers of elements of a size in memory, if they all belong to arrays."""
        if (addresses % np.uint64(size)).any():
            raise EmulationError(f"{what}: an address is no multiple of {size}")
        start = addresses.astype(np.int64) - FIRST
        inside = (start >= 0) & (start + size <= len(self.bytes))
        if (
            not inside.all()
            or not self.owned[start].all()
            or not self.owned[start + size - 1].all()
        ):
            raise EmulationError(f"{what}: an address is outside of all arrays")
        return start // size


class Shared:
    """The shared memory of all blocks, and who last wrote and read each word, before which barrier.

    A word may go from thread to thread of a warp after a barrier of the warp, to other warps after
    one of the block.
    """

    def __init__(self, size: int, blocks: int, block: Array) -> None:
        words = -(-size // 4)
        self.size, self.words, self.block = size, words, block
        self.data = np.zeros(max(words * blocks, 2), np.uint32)
        empty = lambda value: np.full(words * blocks, value, np.int64)
        self.writer, self.reader = empty(NOBODY), empty(NOBODY)
        self.written, self.read = empty(-1), empty(-1)  # when
        self.written_block, self.read_block = empty(-1), empty(-1)
        self.now = self.now_block = 0

    def barrier(self, whole_block: bool) -> None:
        self.now += 1
        self.now_block += whole_block

    def _words(self, address: Array, threads: Array, size: int, what: str) -> Array:
        if (address % size).any() or (address.astype(np.int64) + size > self.size).any():
            raise EmulationError(f"{what}: outside of the {self.size} bytes of shared memory")
        first = self.block[threads] * self.words + address.astype(np.int64) // 4
        return first[:, None] + np.arange(size // 4)

    def _clashes(self, other: Array, when: Array, when_block: Array, threads: Array) -> bool:
        """Whether another thread's use, given with its times, is not separated by a barrier."""
        warp = np.where(other >= 0, other // WARP, SEVERAL - other)  # negative: no single one
        same_warp = warp == threads // WARP
        late = np.where(same_warp, when == self.now, when_block == self.now_block)
        return bool(((other != NOBODY) & (other != threads) & late).any())

    def load(self, address: Array, threads: Array, dtype: Any, what: str) -> Array:
        words = self._words(address, threads, np.dtype(dtype).itemsize, what)
        own = np.broadcast_to(threads[:, None], words.shape)
        used = self.writer[words], self.written[words], self.written_block[words]
        if self._clashes(*used, own):
            raise EmulationError(f"{what}: reads what another thread wrote, without a barrier")
        self._note_reading(words, own)
        return self.data[words].view(dtype)[:, 0]

    def _note_reading(self, words: Array, own: Array) -> None:
        """Several threads may read a word, in one instruction too."""
        stale = self.read_block[words] != self.now_block
        self.reader[words[stale]] = NOBODY
        for part, threads in zip(words.T, own.T, strict=True):
            order = np.argsort(part, kind="stable")
            self._note_readers(part[order], threads[order])

    def _note_readers(self, words: Array, own: Array) -> None:
        """Words in their order, and the threads that read them in one instruction."""
        first = np.flatnonzero(np.r_[True, words[1:] != words[:-1]])
        least, most = np.minimum.reduceat(own, first), np.maximum.reduceat(own, first)
        words, before = words[first], self.reader[words[first]]
        alone = (least == most) & ((before == NOBODY) | (before == least))
        warp = np.where(before >= 0, before // WARP, SEVERAL - before)
        one_warp = (least // WARP == most // WARP) & ((before == NOBODY) | (warp == least // WARP))
        self.reader[words] = np.where(
            alone, least, np.where(one_warp, SEVERAL - least // WARP, MANY)
        )
        self.read[words], self.read_block[words] = self.now, self.now_block

    def store(self, address: Array, threads: Array, value: Array, what: str) -> None:
        words = self._words(address, threads, value.dtype.itemsize, what)
        own = np.broadcast_to(threads[:, None], words.shape)
        if len(np.unique(words)) != words.size:
            raise EmulationError(f"{what}: two threads write one word")
        reads = self.reader[words], self.read[words], self.read_block[words]
        writes = self.writer[words], self.written[words], self.written_block[words]
        if self._clashes(*reads, own) or self._clashes(*writes, own):
            raise EmulationError(f"{what}: writes what another thread uses, without a barrier")
        self.data[words] = np.ascontiguousarray(value)[:, None].view(np.uint32)
        self.writer[words], self.written[words], self.written_block[words] = (
            own,
            self.now,
            self.now_block,
        )


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
    """One launch: the threads' registers and where they are in the text."""

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
        self.memory = memory
        number = np.arange(blocks * columns * threads)
        self.number, block = number, number // threads
        self.special = {
            "%tid.x": number % threads,
            "%ctaid.x": block % blocks,
            "%ctaid.y": block // blocks,
        }
        self.shared = Shared(shared, blocks * columns, block)
        self.alive = np.ones(len(number), bool)
        self.symbols = {MEMORY: 0, **_tables(text, memory)}
        self.lines: list[tuple[str, tuple[Any, ...]]] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, Array] = {}
        self.kinds: dict[str, Any] = {}
        names = self._parse(text, kernel)
        self.parameters = dict(zip(names, arguments, strict=True))

    def _parse(self, text: str, kernel: str) -> list[str]:
        """The lines of a kernel; returns the names of its parameters."""
        start = text.index(f".entry {kernel}(\n")
        end = text.index("\n}\n", start)
        head, body = text[start:end].split("\n{\n", 1)
        for line in body.split("\n"):
            if match := REGISTERS.fullmatch(line):
                self.kinds[match[2]] = TYPES[match[1]]
            elif line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif match := LINE.fullmatch(line):
                self.lines.append((line, match.groups()))
            else:
                raise EmulationError(f"no PTX that is known here: {line}")
        return re.findall(r"\.param \.\w+ (\w+)", head)

    def run(self) -> None:
        at = 0
        while at < len(self.lines) and self.alive.any():
            line, (negated, guard, name, operands) = self.lines[at]
            at += 1
            active = self.alive.copy()
            if guard:
                active &= self._read(guard, np.bool_) ^ bool(negated)
            given = OPERANDS.findall(operands or "")
            if name == "bra":
                if active.any() and not active[self.alive].all():
                    raise EmulationError(f"{line}: threads part")
                at = self.labels[given[0]] if active.any() else at
            elif name == "ret":
                self.alive &= ~active
            elif name.startswith("bar."):
                if guard:
                    raise EmulationError(f"{line}: a barrier that some threads may not reach")
                self.shared.barrier(name == "bar.sync")
            elif active.any():
                self._step(line, name.split("."), given, active)

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
            return np.full(len(self.number), self.parameters[operand[1:-1]], kind)
        value = np.zeros(len(self.number), kind)
        if space == "shared":
            address = self._address(operand, np.uint32)[active]
            value[active] = self.shared.load(address, self.number[active], kind, line)
        else:
            address = self._address(operand, np.uint64)[active]
            size = np.dtype(kind).itemsize
            value[active] = self.memory.bytes.view(kind)[self.memory.index(address, size, line)]
        return value

    def _store(self, line: str, space: str, kind: Any, given: list[str], active: Array) -> None:
        value = self._read(given[1], kind)[active]
        if space == "shared":
            address = self._address(given[0], np.uint32)[active]
            self.shared.store(address, self.number[active], value, line)
            return
        at = self.memory.index(
            self._address(given[0], np.uint64)[active], value.dtype.itemsize, line
        )
        if len(np.unique(at)) != len(at):
            raise EmulationError(f"{line}: two threads write one number")
        self.memory.bytes.view(kind)[at] = value


def _tables(text: str, memory: Memory) -> dict[str, int]:
    """Places the tables of a text in memory; their addresses by name."""
    found = {}
    for kind, name, numbers in TABLE.findall(text):
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
