"""One launch of a kernel: all threads as NumPy arrays, instruction by instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from featherlane.backends.cuda.kernel_stage import MEMORY
from featherlane.backends.cuda.parse import Instruction, Parsed, tables
from featherlane.backends.cuda.ptx import WARP
from featherlane.errors import CompileError
from gpu_emulator.grammar import checked
from gpu_emulator.instructions import COMPARE, COMPUTE, TYPES, wide_product
from gpu_emulator.memory import EmulationError, Memory, Shared, Uses

Array = Any


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
        threads: int,
        shared: int,
    ) -> None:
        number = np.arange(blocks * threads)
        special = {"%tid.x": number % threads, "%ctaid.x": number // threads}
        self.symbols = {MEMORY: 0, **_tables(text, memory)}
        self.memory, self.threads = memory, threads
        self.shared = Shared(shared, blocks, threads)
        self.uses = Uses(len(memory.bytes) // 4, threads)  # of global memory
        self.text = text
        code = self.code(kernel, "entry")
        parameters = dict(zip(code.parameters, arguments, strict=True))
        self.gangs = [_Gang(self, number, special, [_Frame(code, parameters, number >= 0)])]

    def code(self, name: str, what: str) -> Parsed:
        """The code of a kernel or a function, which the assembler would take."""
        try:
            return checked(self.text, name, what)
        except CompileError as error:
            raise EmulationError(str(error)) from None

    def run(self) -> None:
        """Runs all gangs to the next barrier of the block, until all have ended. The one that is
        the furthest behind runs first, and joins others where it reaches them.
        """
        while self.gangs:
            running, waiting = self.gangs, list[_Gang]()
            while running:
                gang = running.pop(min(range(len(running)), key=lambda k: running[k].line))
                parts = gang.run({other.line for other in running})
                for part in parts:
                    same = [k for k, other in enumerate(running) if part.meets(other)]
                    running.append(part.joined(running.pop(same[0])) if same else part)
                if not parts and gang.alive.any():
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


class _Frame:
    """Where threads are in a kernel, or in a function that it calls. parameters: numbers, or one of
    each thread; alive: the threads that have not returned from it.
    """

    def __init__(self, code: Parsed, parameters: Mapping[str, Any], alive: Array) -> None:
        self.code, self.parameters = code, parameters
        self.registers: dict[str, Array] = {}
        self.at = 0
        self.lives(alive)

    def lives(self, alive: Array) -> None:
        """Sets which threads are alive."""
        self.alive, self.some, self.whole = alive, bool(alive.any()), bool(alive.all())

    def part(self, mask: Array) -> _Frame:
        """That of some of the threads."""
        each = lambda x: x[mask] if isinstance(x, np.ndarray) else x
        parameters = {name: each(x) for name, x in self.parameters.items()}
        part = _Frame(self.code, parameters, self.alive[mask])
        part.registers = {x: y[mask] for x, y in self.registers.items()}
        part.at = self.at
        return part


class _Gang:
    """Warps at the same line of a launch. frames: of the kernel, and of functions inside of each
    other.
    """

    def __init__(
        self, launched: Launched, number: Array, special: dict[str, Array], frames: list[_Frame]
    ) -> None:
        self.launched, self.number, self.special = launched, number, special
        self.symbols, self.frames = launched.symbols, frames

    @property
    def frame(self) -> _Frame:
        return self.frames[-1]

    @property
    def alive(self) -> Array:
        """The threads that have not ended."""
        return self.frames[0].alive

    @property
    def line(self) -> int:
        """Where it is in the kernel."""
        return self.frames[0].at

    def meets(self, other: _Gang) -> bool:
        """Whether both are at one line of the kernel, in no function."""
        return len(self.frames) == len(other.frames) == 1 and self.line == other.line

    def joined(self, other: _Gang) -> _Gang:
        """Both, with the registers that both have."""
        both = lambda x, y: np.concatenate([x, y])
        special = {x: both(y, other.special[x]) for x, y in self.special.items()}
        mine, others = self.frame, other.frame
        frame = _Frame(mine.code, mine.parameters, both(mine.alive, others.alive))
        common = mine.registers.keys() & others.registers.keys()
        frame.registers = {x: both(mine.registers[x], others.registers[x]) for x in common}
        frame.at = mine.at
        return _Gang(self.launched, both(self.number, other.number), special, [frame])

    def _part(self, mask: Array, at: int) -> _Gang:
        """Some of these threads at another line."""
        special = {x: y[mask] for x, y in self.special.items()}
        frames = [frame.part(mask) for frame in self.frames]
        frames[-1].at = at
        return _Gang(self.launched, self.number[mask], special, frames)

    def run(self, stops: Set[int]) -> list[_Gang]:
        """Runs to a barrier of the block or to the end, and returns nothing; or to a branch at
        which warps part, and returns the parts; or to a line of `stops`, and returns itself.
        """
        while True:
            frame = self.frame
            if frame.at in stops and len(self.frames) == 1:
                return [self]
            if frame.at == len(frame.code.lines) or not frame.some:
                if len(self.frames) == 1:
                    frame.lives(np.zeros(len(frame.alive), bool))
                    return []
                self.frames.pop()
                continue
            line = frame.code.lines[frame.at]
            frame.at += 1
            active = frame.alive
            if line.guard:
                active = active & (self._read(line.guard, np.bool_) ^ line.negated)
            if line.name in ("bra", "bra.uni"):
                if parts := self._branch(line, active):
                    return parts
            elif line.name == "ret":
                frame.lives(frame.alive & ~active)
            elif line.parts[0] == "call":
                self._call(line)
            elif line.parts[0] == "bar":
                if line.guard:
                    raise EmulationError(f"{line.line}: a barrier that some threads may not reach")
                if line.name == "bar.sync":
                    return []
                self.launched.barrier(whole_block=False)
            elif not line.guard or active.any():
                self._step(line, active)

    def _call(self, line: Instruction) -> None:
        """Begins a function, with registers of its own."""
        if line.guard:
            raise EmulationError(f"{line.line}: a call that some threads may not make")
        name, *given = (x.strip("()") for x in line.operands)
        code = self.launched.code(name, "func")
        pairs = zip(given, code.parameters.values(), strict=True)
        values = [self._read(x, TYPES[kind]) for x, kind in pairs]
        parameters = dict(zip(code.parameters, values, strict=True))
        self.frames.append(_Frame(code, parameters, self.frame.alive.copy()))

    def _branch(self, line: Instruction, active: Array) -> list[_Gang]:
        """Goes to a label, or returns the warps that do and the others."""
        frame = self.frame
        to = frame.code.labels[line.operands[0]]
        if not line.guard or active[frame.alive].all():
            frame.at = to
            return []
        if not active.any():
            return []
        warp = self.number // WARP
        taken = np.isin(warp, warp[active])
        if (taken & frame.alive & ~active).any():
            raise EmulationError(f"{line.line}: threads part")
        parts = [self._part(taken, to), self._part(~taken, frame.at)]
        self.frames[0].lives(np.zeros(len(frame.alive), bool))
        return [part for part in parts if part.frames[0].some]

    def _step(self, line: Instruction, active: Array) -> None:
        name = line.parts
        if name[0] == "st":
            self._store(line.line, name[1], TYPES[name[-1]], line.operands, active)
        elif name[0] == "ld":
            self._load(line.line, name[1], TYPES[name[-1]], line.operands, active)
        else:
            found = self._compute(line.line, name, line.operands[1:])
            self._write(line.operands[0], found, None if active is self.frame.alive else active)

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
            product = wide_product(*[self._read(x, kind) for x in given[:2]])
            return product if op == "mul" else product + self._read(given[2], np.uint64)
        plain = ".".join(x for x in name[:-1] if x != "rn")
        if plain not in COMPUTE:
            raise EmulationError(f"no instruction that is known here: {line}")
        return COMPUTE[plain](*[self._read(x, kind) for x in given])

    def _read(self, operand: str, kind: Any) -> Array:
        """An operand of all threads as a type; bits are taken as they are."""
        if operand in self.frame.registers:
            value = self.frame.registers[operand]
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

    def _write(self, register: str, value: Array, active: Array | None) -> None:
        """Sets a register. active: the threads that do, None for all that are alive."""
        kind = TYPES[self.frame.code.kind(register)]
        if value.dtype.itemsize != np.dtype(kind).itemsize:
            raise EmulationError(f"{register} is {np.dtype(kind)}, and gets {value.dtype}")
        value = np.broadcast_to(value, self.number.shape).view(kind)
        registers = self.frame.registers
        before = registers.get(register)
        if before is None or (active is None and self.frame.whole):
            registers[register] = value.copy()
        else:
            mask = self.frame.alive if active is None else active
            registers[register] = np.where(mask, value, before)

    def _addresses(
        self, line: str, space: str, operand: str, size: int, count: int, active: Array
    ) -> list[Array]:
        """The addresses of so many numbers beside each other, from a multiple of their bytes on."""
        kind = np.uint32 if space == "shared" else np.uint64
        base, _, offset = operand[1:-1].partition("+")
        first = self._read(base, kind)[active] + kind(int(offset or 0))
        if (first % kind(size * count)).any():
            raise EmulationError(f"{line}: an address is no multiple of {size * count}")
        return [first + kind(k * size) for k in range(count)]

    def _load(self, line: str, space: str, kind: Any, given: list[str], active: Array) -> None:
        if space == "param":
            parameter = self.frame.parameters[given[1][1:-1]]
            number = np.broadcast_to(parameter, self.number.shape).astype(kind)
            return self._write(given[0], number, active)
        registers, size = given[0].strip("{}").split(", "), np.dtype(kind).itemsize
        threads = self.number[active]
        places = self._addresses(line, space, given[1], size, len(registers), active)
        for register, place in zip(registers, places, strict=True):
            value = np.zeros(len(self.number), kind)
            if space == "shared":
                value[active] = self.launched.shared.load(place, threads, kind, line)
            else:
                at = self._words(place, size, line)
                self.launched.uses.load(at, threads, line)
                words = self.launched.memory.bytes.view(np.uint32)
                value[active] = words[at].view(kind)[:, 0]
            self._write(register, value, active)

    def _words(self, address: Array, size: int, line: str) -> Array:
        """The words of global memory at the addresses of threads, a row for each."""
        at = self.launched.memory.index(address, size, line)
        return (at * (size // 4))[:, None] + np.arange(size // 4)

    def _store(self, line: str, space: str, kind: Any, given: list[str], active: Array) -> None:
        registers, size = given[1].strip("{}").split(", "), np.dtype(kind).itemsize
        threads = self.number[active]
        places = self._addresses(line, space, given[0], size, len(registers), active)
        for register, place in zip(registers, places, strict=True):
            value = self._read(register, kind)[active]
            if space == "shared":
                self.launched.shared.store(place, threads, value, line)
                continue
            at = self._words(place, size, line)
            self.launched.uses.store(at, threads, line)
            words = self.launched.memory.bytes.view(np.uint32)
            words[at] = np.ascontiguousarray(value)[:, None].view(np.uint32)


def _tables(text: str, memory: Memory) -> dict[str, int]:
    """The addresses of the tables of a text by name, which a first launch places in memory."""
    if text not in memory.tables:
        memory.tables[text] = {
            x.name: memory.place(np.array(x.numbers, TYPES[x.kind])) for x in tables(text)
        }
    return memory.tables[text]
