"""Functions in WebAssembly, which compute with vectors of states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from featherlane.backends.wasm.code import ArgumentAccess, code
from featherlane.backends.wasm.encode import (
    ADD,
    ModuleWriter,
    call,
    get,
    integer,
    memory,
    put,
    repeat,
)
from featherlane.backends.wasm.lanes import WasmLanes, operation
from featherlane.backends.wasm.writer import CodeWriter
from featherlane.program.program import Program

LOAD, STORE = 0x00, 0x0B  # of whole vectors


class WasmForm(CodeWriter[bytes]):
    """WebAssembly that computes with vectors of states, in a module under construction."""

    unit = 16

    def __init__(self, module: ModuleWriter, lanes: WasmLanes) -> None:
        self.module, self.lanes = module, lanes

    def joined(self, parts: Iterable[bytes]) -> bytes:
        return b"".join(parts)

    def number(self, x: float) -> bytes:
        return self.lanes.number(x)

    def load(self, address: int) -> bytes:
        return integer(0) + memory(LOAD, address, 4)

    def store(self, address: int, value: bytes) -> bytes:
        return integer(0) + value + memory(STORE, address, 4)

    def store_behind(self, offset: int, value: bytes) -> bytes:
        return get(0) + value + memory(STORE, offset, 4)

    def operation(self, op: str, operands: list[bytes], scratch: int) -> bytes:
        return operation(self.lanes, op, operands, scratch)

    def keep(self, local: int, value: bytes) -> bytes:
        return value + put(local)

    def local(self, local: int) -> bytes:
        return get(local)

    def function(self, parameters: int, body: bytes, locals_: int = 0) -> int:
        return self.module.function(parameters, body, locals_)

    def call(self, function: int, parameters: int) -> bytes:
        return b"".join(get(p) for p in range(parameters)) + call(function)

    def call_to(self, function: int, address: int) -> bytes:
        return integer(address) + call(function)


def rows(program: Program, t: WasmLanes) -> ArgumentAccess[bytes]:
    """A program's inputs and outputs as arrays of rows, whose addresses are the parameters: entry j
    of state i lies at address + (i entries + j) bytes.
    """
    graph = program.main
    sizes = {name: math.prod(shape) for name, shape in graph.inputs.items()}
    number = {name: n for n, name in enumerate(sizes)}
    stored: dict[int, list[Callable[[bytes], bytes]]] = {}
    for n, out in enumerate(graph.outputs.values(), len(sizes)):
        for j, k in enumerate(out.nodes):
            stored.setdefault(k, []).append(store_rows(t, n, len(out.nodes), j))
    read = lambda value: load_rows(t, number[value[0]], sizes[value[0]], value[1])
    return ArgumentAccess(read, stored, len(sizes) + len(graph.outputs))


def write(module: ModuleWriter, name: str, program: Program, t: WasmLanes, base: int) -> int:
    """Adds the function `name` of a program: of the number of states and the address of each input
    and output. It computes whole vectors, so that arrays need room for a multiple of their lanes.

    Returns the end of its workspace, which begins at `base`, a multiple of 16.
    """
    access = rows(program, t)
    code_of_program = code(program, WasmForm(module, t), access, base)
    vector = module.function(access.parameters, code_of_program.body)
    sizes = [math.prod(shape) for shape in program.inputs.values()]
    sizes += [len(out.nodes) for out in program.outputs.values()]
    arrays = range(1, len(sizes) + 1)
    once = b"".join(get(a) for a in arrays) + call(vector)
    for a, size in zip(arrays, sizes, strict=True):
        once += get(a) + integer(size * t.size * t.width) + ADD + put(a)
    module.function(len(sizes) + 1, repeat(0, t.width, once), export=name)
    return code_of_program.end


def load_rows(t: WasmLanes, pointer: int, entries: int, j: int) -> bytes:
    """Pushes entry j of the rows of as many states as there are lanes onto the stack. pointer: the
    local with the address of the first row.
    """
    at = [t.size * (j + lane * entries) for lane in range(t.width)]
    lanes = [memory(t.load_lane, at[lane], t.align) + bytes([lane]) for lane in range(1, t.width)]
    return get(pointer) * t.width + memory(t.load_zero, at[0], t.align) + b"".join(lanes)


def store_rows(t: WasmLanes, pointer: int, entries: int, j: int) -> Callable[[bytes], bytes]:
    """Returns a function from the code of a vector, which may be repeated, to code that stores it
    as entry j of as many rows.
    """
    at = [t.size * (j + lane * entries) for lane in range(t.width)]
    ends = [memory(t.store_lane, at[lane], t.align) + bytes([lane]) for lane in range(t.width)]
    return lambda value: b"".join(get(pointer) + value + end for end in ends)
