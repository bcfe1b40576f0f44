"""Models of the ECP5's cells beside independent definitions, and whole netlists to the bit."""

import ctypes
import itertools
import json
import re
import shutil

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl
from featherlane.backends.fpga.bitstream.build import MULTIPLEXERS, synthesis_script
from featherlane.backends.fpga.bitstream.tools import YOSYS, run_yosys, tool_version
from featherlane.backends.fpga.netlists.read import read_netlist
from featherlane.backends.fpga.netlists.simulation import LinePins, simulated_netlist
from featherlane.backends.fpga.netlists.text import module_text
from featherlane.backends.fpga.serial.host import SerialDriver
from featherlane.backends.fpga.serial.self_test import plan_of
from featherlane.backends.fpga.serial.simulated import side_by_side
from featherlane.backends.fpga.serial.wrapper import SerialCore
from featherlane.backends.fpga.simulation.simulate import compiled
from featherlane.errors import CompileError

needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)

LOOP = r"""
#include "Vdesign.h"
#include "verilated.h"
#include <random>
double sc_time_stamp() { return 0; }
typedef unsigned long long word;
static VerilatedContext context;
static Vdesign *device = new Vdesign(&context);
static std::mt19937_64 others(7);
// The level of one board; those of the others are random
static word level(word bit) {
  return BOARDS == 1 ? bit : (others() & ~(1ull << BOARD)) | bit << BOARD;
}
extern "C" word step(word in, int edge) {
  SET_INPUTS
  device->eval();
  if (edge) {
    device->clock = 1;
    device->eval();
    device->clock = 0;
    device->eval();
  }
  word out = 0;
  GET_OUTPUTS
  return out;
}
"""
BOARD = 37  # of 64, whose levels a test sets and reads


@pytest.fixture(params=[1, 64], autouse=True)
def boards(request, monkeypatch):
    """One board, and one among many whose levels are random."""
    monkeypatch.setattr(Bench, "boards", request.param)


class Bench:
    """A few cells whose inputs are the bits of a number; net 0 is the clock, net n + 1 bit n."""

    boards = 1

    def __init__(self, cells, inputs, outputs):
        ports = {"clock": {"direction": "input", "bits": [0]}}
        ports |= {f"i{n}": {"direction": "input", "bits": [n + 1]} for n in range(inputs)}
        ports |= {f"o{n}": {"direction": "output", "bits": [b]} for n, b in enumerate(outputs)}
        data = {"modules": {"top": {"ports": ports, "cells": dict(enumerate(cells))}}}
        text = module_text(read_netlist(data), "cells", self.boards)
        sets = [f"device->i{n} = level(in >> {n} & 1);" for n in range(inputs)]
        board = BOARD if self.boards > 1 else 0
        gets = [f"out |= ((word)device->o{n} >> {board} & 1) << {n};" for n in range(len(outputs))]
        parts = {"SET_INPUTS": " ".join(sets), "GET_OUTPUTS": " ".join(gets)}
        parts |= {"BOARDS": str(self.boards), "BOARD": str(board)}
        loop = LOOP
        for name, part in parts.items():
            loop = re.sub(rf"\b{name}\b", part, loop)
        self._step = compiled("cells", {"cells.sv": text}, loop).step
        self._step.restype = ctypes.c_ulonglong
        self._step.argtypes = ctypes.c_ulonglong, ctypes.c_int

    def __call__(self, value):
        """The outputs without an edge of the clock."""
        return self._step(value, 0)

    def clock(self, value):
        """The outputs after an edge."""
        return self._step(value, 1)


def cell(kind, outputs, connections, **parameters):
    connections = {name: bits if isinstance(bits, list) else [bits]
                   for name, bits in connections.items()}  # fmt: skip
    directions = {name: "output" if name in outputs else "input" for name in connections}
    parameters = {name: str(value) for name, value in parameters.items()}
    return {"type": kind, "parameters": parameters, "connections": connections,
            "port_directions": directions}  # fmt: skip


def bits(value, count):
    return f"{value:0{count}b}"


def wires(name, first, count):
    """Ports name0, name1 and so on at nets from the first one on."""
    return {f"{name}{n}": first + n for n in range(count)}


@needs_verilator
def test_tables_of_four_inputs():
    """64 tables, some of whose inputs are constants, after synthesis and after routing."""
    draw = np.random.default_rng(0)
    tables = [0, 0xFFFF, 0xAAAA, 0x6996, 0x8000, 0xFFFE, 0x00FF, 0x1234,
              *draw.integers(0, 1 << 16, 24).tolist()]  # fmt: skip
    cells, pins = [], []
    for n, table in enumerate(tables):
        chosen = [1, 2, 3, 4]
        for k in draw.integers(0, 4, n % 3):
            chosen[k] = ["0", "1"][n % 2]
        pins.append(chosen)
        ports = dict(zip("ABCD", chosen, strict=True))
        cells.append(cell("LUT4", "Z", {**ports, "Z": 100 + n}, INIT=bits(table, 16)))
        opened = {name: [] if pin == "1" else [pin] for name, pin in ports.items()}
        muxes = {f"{name}MUX": "0 " for name, pin in ports.items() if pin == "0"}
        opened |= {name: [] for name, pin in ports.items() if pin == "0"}
        cells.append(
            cell("TRELLIS_COMB", "F", {**opened, "F": 200 + n}, INITVAL=bits(table, 16), **muxes)
        )
    for first in (100, 200):
        bench = Bench(cells, 4, [first + n for n in range(len(tables))])
        for value in range(16):
            wanted = 0
            for n, (table, chosen) in enumerate(zip(tables, pins, strict=True)):
                levels = [int(p) if isinstance(p, str) else value >> p - 1 & 1 for p in chosen]
                wanted |= (table >> sum(b << k for k, b in enumerate(levels)) & 1) << n
            assert bench(value) == wanted, value


@needs_verilator
def test_multiplexers_of_tables():
    cells = [
        cell("PFUMX", "Z", {"ALUT": 1, "BLUT": 2, "C0": 3, "Z": 10}),
        cell("L6MUX21", "Z", {"D0": 1, "D1": 2, "SD": 3, "Z": 11}),
        cell("TRELLIS_COMB", ["F", "OFX"], {"A": 2, "F": 12, "F1": 1, "M": 3, "OFX": 13},
             INITVAL=bits(0xAAAA, 16)),
        cell("TRELLIS_COMB", ["F", "OFX"], {"A": 2, "F": 14, "FXA": 1, "FXB": 2, "M": 3, "OFX": 15},
             INITVAL=bits(0x5555, 16)),
    ]  # fmt: skip
    bench = Bench(cells, 3, [10, 11, 12, 13, 14, 15])
    for a, b, c in itertools.product((0, 1), repeat=3):
        wanted = [a if c else b, b if c else a, b, a if c else b, 1 - b, b if c else a]
        assert bench(a | b << 1 | c << 2) == sum(x << n for n, x in enumerate(wanted))


SUM = bits(0x96AA, 16)  # A + (B ^ C) where D is 1


@needs_verilator
@pytest.mark.parametrize("subtracts", [0, 1])
def test_carries_add_and_subtract(subtracts):
    """Two CCU2C in a row and four halves of slices, beside the sums of all numbers."""
    halves = {}
    for n in range(4):
        halves[n] = {"A": 1 + n, "B": 5 + n, "C": str(subtracts), "D": "1"}
    cells, carry = [], str(subtracts)
    for n in (0, 2):
        ports = {f"{p}{k}": halves[n + k][p] for k in (0, 1) for p in "ABCD"}
        sums = {"S0": 20 + n, "S1": 21 + n, "COUT": 30 + n}
        cells.append(cell("CCU2C", list(sums), {**ports, "CIN": carry, **sums},
                          INIT0=SUM, INIT1=SUM, INJECT1_0="NO", INJECT1_1="NO"))  # fmt: skip
        carry = 30 + n
    carry = str(subtracts)
    for n in range(4):
        cells.append(cell("TRELLIS_COMB", ["F", "FCO"],
                          {**halves[n], "FCI": carry, "F": 40 + n, "FCO": 50 + n},
                          MODE="CCU2", CCU2_INJECT1="NO", INITVAL=SUM))  # fmt: skip
        carry = 50 + n
    outputs = [20, 21, 22, 23, 32, 40, 41, 42, 43, 53]
    bench = Bench(cells, 8, outputs)
    for a, b in itertools.product(range(16), repeat=2):
        total = a + ((b ^ 15) + 1 if subtracts else b)
        assert bench(a | b << 4) == (total & 31) * 33, (a, b)


@needs_verilator
@pytest.mark.parametrize("table", [0x000A, 0xCC00])
def test_a_carry_comes_in_from_the_fabric(table):
    """A half whose sum is not used takes a bit into the chain, and one gives it out of it."""
    cells = [
        cell("TRELLIS_COMB", "FCO", {"A": 1, "FCO": 20}, MODE="CCU2", CCU2_INJECT1="NO",
             INITVAL=bits(0x000A, 16)),
        cell("TRELLIS_COMB", "FCO", {"FCI": 20, "FCO": 21}, MODE="CCU2", CCU2_INJECT1="YES",
             INITVAL=bits(0xFFFF, 16)),
        cell("TRELLIS_COMB", ["F"], {"A": "0", "B": 2, "FCI": 21, "F": 22}, MODE="CCU2",
             CCU2_INJECT1="NO", INITVAL=bits(table, 16)),
    ]  # fmt: skip
    bench = Bench(cells, 2, [22])
    for value in range(4):
        carry, b = value & 1, value >> 1
        propagates = b if table == 0xCC00 else 0  # by the upper four bits
        assert bench(value) == propagates ^ carry


@needs_verilator
def test_flip_flops():
    """Each reset, enable and value after it, beside a model in a few lines."""
    kinds = [
        dict(zip(("LSRMUX", "SRMODE", "REGSET", "CEMUX", "SD"), row, strict=True))
        for row in itertools.product(
            ("LSR", "INV"), ("LSR_OVER_CE", "CE_OVER_LSR", "ASYNC"), ("SET", "RESET"),
            ("CE", "INV", "1 "), ("1 ", "0 "),
        )
    ][::3]  # fmt: skip
    if Bench.boards > 1:
        kinds = [kind for kind in kinds if kind["SRMODE"] != "ASYNC"]
    nets = {"CLK": 0, "DI": 1, "M": 2, "CE": 3, "LSR": 4}
    cells = [cell("TRELLIS_FF", "Q", {**nets, "Q": 10 + n}, CLKMUX="CLK", **kind)
             for n, kind in enumerate(kinds)]  # fmt: skip
    bench, state = Bench(cells, 4, [10 + n for n in range(len(kinds))]), {}
    for step in np.random.default_rng(1).integers(0, 16, 200).tolist():
        for n, kind in enumerate(kinds):
            start = int(kind["REGSET"] == "SET")
            d = step & 1 if kind["SD"] == "1 " else step >> 1 & 1
            enable = {"CE": step >> 2 & 1, "INV": ~step >> 2 & 1, "1 ": 1}[kind["CEMUX"]]
            reset = (step >> 3 & 1) ^ (kind["LSRMUX"] == "INV")
            if kind["SRMODE"] == "CE_OVER_LSR":
                reset &= enable
            state[n] = start if reset else d if enable else state.get(n, start)
        assert bench.clock(step) == sum(x << n for n, x in state.items())


@needs_verilator
@pytest.mark.parametrize(
    ("signs", "registers"),
    repeated(
        [((1, 1), (1, 0, 1)), ((1, 0), (0, 0, 0)), ((0, 0), (1, 1, 1)), ((0, 1), (0, 0, 0))], 2
    ),
)
def test_multipliers(signs, registers):
    clocks = ["NONE", "CLK0"]
    names = ("REG_INPUTA_CLK", "REG_PIPELINE_CLK", "REG_OUTPUT_CLK")
    parameters = {name: clocks[on] for name, on in zip(names, registers, strict=True)}
    ports = {**wires("A", 1, 18), **wires("B", 19, 18), **wires("P", 100, 36), "CLK0": 0,
             "CE0": "1", "RST0": "0", "SIGNEDA": str(signs[0]), "SIGNEDB": str(signs[1]),
             "SOURCEA": "0", "SOURCEB": "0"}  # fmt: skip
    multiplier = cell("MULT18X18D", wires("P", 0, 36), ports, **parameters,
                      REG_INPUTB_CLK=parameters["REG_INPUTA_CLK"])  # fmt: skip
    bench = Bench([multiplier], 36, [100 + n for n in range(36)])
    draw = np.random.default_rng(2).integers(0, 1 << 18, (100, 2)).tolist()
    for a, b in [*itertools.product((0, 1, 0x1FFFF, 0x20000, 0x3FFFF), repeat=2), *draw]:
        for _ in range(sum(registers) + 1):
            found = bench.clock(a | b << 18)
        x, y = (v - (v >> 17 << 18) * s for v, s in zip((a, b), signs, strict=True))
        assert found == x * y & (1 << 36) - 1, (a, b)


@needs_verilator
def test_a_product_comes_after_its_registers():
    ports = {**wires("A", 1, 18), **wires("P", 100, 36), "CLK0": 0, **wires("B", 1, 18),
             "SIGNEDA": "1", "SIGNEDB": "1", "SOURCEA": "0", "SOURCEB": "0"}  # fmt: skip
    parameters = dict.fromkeys(
        ("REG_INPUTA_CLK", "REG_INPUTB_CLK", "REG_PIPELINE_CLK", "REG_OUTPUT_CLK"), "CLK0"
    )
    bench = Bench([cell("MULT18X18D", wires("P", 0, 36), ports, **parameters)], 18,
                  [100 + n for n in range(36)])  # fmt: skip
    assert [bench.clock(n) for n in (3, 4, 5, 6)][2:] == [9, 16]


@needs_verilator
@pytest.mark.parametrize("mode", ["SYNC", "ASYNC"])
def test_registers_of_a_product_are_reset_and_enabled(mode):
    """One register, of the product, with its enable and reset at inputs."""
    ports = {**wires("A", 1, 18), **wires("P", 100, 36), **wires("B", 1, 18), "CLK0": 0,
             "CE0": 19, "RST0": 20, "SIGNEDA": "1", "SIGNEDB": "1", "SOURCEA": "0",
             "SOURCEB": "0"}  # fmt: skip
    parameters = {"REG_OUTPUT_CLK": "CLK0", "RESETMODE": mode}
    multiplier = cell("MULT18X18D", wires("P", 0, 36), ports, **parameters)
    if Bench.boards > 1 and mode == "ASYNC":
        with pytest.raises(CompileError, match="an asynchronous reset of one board"):
            Bench([multiplier], 20, [100])
        return
    bench, latest = Bench([multiplier], 20, [100 + n for n in range(36)]), 0
    for value in np.random.default_rng(5).integers(0, 1 << 12, 100).tolist():
        control, a = value >> 10, value & 1023
        latest = 0 if control & 2 else a * a if control & 1 else latest
        assert bench.clock(a | control << 18) == latest


@needs_verilator
def test_memories_of_16_words():
    """A word of four bits after synthesis, and a bit of a routed slice behind its write port. The
    routed slices of a memory with words at the start have those of bit n in that of their bit n.
    """
    words = np.random.default_rng(5).integers(0, 16, 16).tolist()
    start = sum(word << 4 * k for k, word in enumerate(words))
    columns = [sum((word >> n & 1) << k for k, word in enumerate(words)) for n in range(4)]
    write = dict(zip(("D0", "B0", "C0", "A0"), (4, 2, 3, 1), strict=True))
    data = dict(zip(("A1", "B1", "C1", "D1"), (10, 12, 9, 11), strict=True))
    ports = {f"WADO{n}": 60 + n for n in range(4)} | {f"WDO{n}": 64 + n for n in range(4)}
    cells = [
        cell("TRELLIS_DPR16X4", ["DO"], {"DI": [9, 10, 11, 12], "WAD": [1, 2, 3, 4], "WCK": 0,
             "WRE": 13, "RAD": [5, 6, 7, 8], "DO": [40, 41, 42, 43]}, INITVAL=bits(start, 64)),
        cell("TRELLIS_RAMW", list(ports), {**write, **data, **ports}),
        *(cell("TRELLIS_COMB", "F", {**wires("WAD", 60, 4), "WD": 64 + n, "WCK": 0, "WRE": 13,
               **dict(zip("ABCD", (5, 6, 7, 8), strict=True)), "F": 50 + n}, MODE="DPRAM",
               INITVAL=bits(columns[n], 16)) for n in range(4)),
    ]  # fmt: skip
    bench = Bench(cells, 13, [*range(40, 44), *range(50, 54)])
    for value in np.random.default_rng(3).integers(0, 1 << 13, 300).tolist():
        if value >> 12:
            words[value & 15] = value >> 8 & 15
        assert bench.clock(value) == words[value >> 4 & 15] * 17


@needs_verilator
@pytest.mark.parametrize(
    ("mode", "register"), repeated([("NORMAL", "OUTREG"), ("READBEFOREWRITE", "NOREG")], 1)
)
def test_block_ram(mode, register):
    """Port A writes bytes of 18 bits and reads, port B reads 9 bits, beside lists of numbers."""
    draw = np.random.default_rng(4)
    words = draw.integers(0, 1 << 18, 1024).tolist()
    values = {}
    for n in range(64):
        row = sum(word << 20 * k for k, word in enumerate(words[16 * n : 16 * n + 16]))
        values[f"INITVAL_{n:02X}"] = bits(row, 320)
    # Inputs: 2 bits enable bytes, 4 bits of the address, 18 bits of data, WEA, 5 bits of address B
    ports = {"ADA0": 1, "ADA1": 2, **{f"ADA{n}": "0" for n in (2, 3, 8, 9, 10, 11, 12, 13)},
             **wires("ADA", 0, 0), **{f"ADA{4 + n}": 3 + n for n in range(4)},
             **wires("DIA", 7, 18), "WEA": 25, "CLKA": 0, "CEA": "1", "CLKB": 0, "CEB": "1",
             **{f"ADB{n}": "0" for n in (0, 1, 2, 8, 9, 10, 11, 12, 13)},
             **{f"ADB{3 + n}": 26 + n for n in range(5)}, "WEB": "0", "RSTA": "0", "RSTB": "0",
             **{f"CS{p}{n}": "0" for p in "AB" for n in range(3)}, "OCEA": "1", "OCEB": "1",
             **wires("DOA", 100, 18), **wires("DOB", 120, 9)}  # fmt: skip
    ram = cell("DP16KD", {**wires("DOA", 0, 18), **wires("DOB", 0, 9)}, ports,
               DATA_WIDTH_A=bits(18, 32), DATA_WIDTH_B=bits(9, 32), REGMODE_A=register,
               REGMODE_B=register, WRITEMODE_A=mode, WRITEMODE_B=mode, CSDECODE_A="0b000",
               CSDECODE_B="0b000", **values)  # fmt: skip
    bench = Bench([ram], 30, [*range(100, 118), *range(120, 129)])
    latest, before = 0, 0
    for value in draw.integers(0, 1 << 30, 300).tolist():
        place, byte = value >> 2 & 15, value >> 25
        a = words[place] if mode != "NORMAL" or not value >> 24 & 1 else latest & (1 << 18) - 1
        before, latest = latest, a | (words[byte >> 1] >> 9 * (byte & 1) & 511) << 18
        if value >> 24 & 1:
            mask = (value & 1) * 511 | (value >> 1 & 1) * (511 << 9)
            words[place] = words[place] & ~mask | value >> 6 & mask
        assert bench.clock(value) == (latest if register == "NOREG" else before)


@needs_verilator
@pytest.mark.parametrize("width", [1, 2, 4])
def test_narrow_words_of_block_ram(width):
    """Bits of the address choose among the lower eight of nine, beside a list of numbers."""
    words = np.random.default_rng(7).integers(0, 1 << 18, 16).tolist()
    ports = {**{f"ADA{n}": 1 + n if n < 8 else "0" for n in range(14)}, "WEA": "0", "CLKA": 0,
             "CEA": "1", "RSTA": "0", **{f"CSA{n}": "0" for n in range(3)}, "CLKB": "0",
             **wires("DOA", 100, width)}  # fmt: skip
    row = sum(word << 20 * k for k, word in enumerate(words))
    sizes = {f"DATA_WIDTH_{port}": bits(width, 32) for port in "AB"}
    ram = cell("DP16KD", wires("DOA", 0, width), ports, CSDECODE_A="0b000", **sizes,
               INITVAL_00=bits(row, 320))  # fmt: skip
    bench = Bench([ram], 8, range(100, 100 + width))
    for address in range(256):
        byte = words[address >> 4] >> 9 * (address >> 3 & 1)
        part = (address & 7) // width * width
        assert bench.clock(address) == byte >> part & (1 << width) - 1


@needs_verilator
def test_block_ram_of_36_bits():
    """Port A writes bytes, port B reads, beside a list of numbers."""
    # Inputs: 4 bits enable bytes, 3 bits of the address, 9 bits of data thrice, WEA, address B
    data = [8 + n % 9 for n in range(18)], [17 + n % 9 for n in range(18)]
    ports = {**wires("ADA", 1, 4), "ADA4": "0", **{f"ADA{n}": "0" for n in range(8, 14)},
             **{f"ADA{5 + n}": 5 + n for n in range(3)},
             **{f"DI{'AB'[half]}{n}": data[half][n] for half in range(2) for n in range(18)},
             "WEA": 26, "CLKA": 0, "CEA": "1", "CLKB": 0, "CEB": "1", "WEB": "0", "RSTA": "0",
             "RSTB": "0", **{f"ADB{n}": "0" for n in (*range(5), *range(8, 14))},
             **{f"ADB{5 + n}": 27 + n for n in range(3)},
             **{f"CS{p}{n}": "0" for p in "AB" for n in range(3)}, "OCEB": "1",
             **wires("DOA", 100, 18), **wires("DOB", 118, 18)}  # fmt: skip
    first = sum((7 * n + 3) << 20 * n for n in range(16))
    ram = cell("DP16KD", {**wires("DOA", 0, 18), **wires("DOB", 0, 18)}, ports,
               DATA_WIDTH_A=bits(36, 32), DATA_WIDTH_B=bits(36, 32), CSDECODE_A="0b000",
               CSDECODE_B="0b000", INITVAL_00=bits(first, 320))  # fmt: skip
    bench = Bench([ram], 29, range(100, 136))
    words = [14 * n + 3 | (14 * n + 10) << 18 for n in range(8)]
    for value in np.random.default_rng(6).integers(0, 1 << 29, 200).tolist():
        place, low, high = value >> 4 & 7, value >> 7 & 511, value >> 16 & 511
        assert bench.clock(value) == words[value >> 26]
        if value >> 25 & 1:
            for n, byte in enumerate((low, low, high, high)):
                if value >> n & 1:
                    words[place] = words[place] & ~(511 << 9 * n) | byte << 9 * n


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (cell("DCUA", [], {}), "cell 0 .DCUA.: a kind, which its model does not know"),
        (cell("DP16KD", ["DOA0"], {"DOA0": 5, "CLKA": 0, "RSTA": "0"}, DATA_WIDTH_A=bits(3, 32)),
         "words of 3 bits"),
        (cell("DP16KD", ["DOA0"], {"DOA0": 5, "CLKA": 0, "RSTA": "0", "WEA": "1"},
              DATA_WIDTH_A=bits(4, 32)), "writes of 4 bits"),
        (cell("MULT18X18D", ["P0"], {"P0": 5, "SOURCEA": "1", "SOURCEB": "0"}), "chain of shifts"),
        (cell("TRELLIS_COMB", ["F"], {"F": 5}, MODE="ROM", INITVAL="0"), "mode ROM"),
        (cell("TRELLIS_IO", [], {"B": 5}, DIR="BIDIR"), "a pad of both directions"),
    ],
)  # fmt: skip
def test_cells_that_no_model_knows(wrong, message):
    with pytest.raises(CompileError, match=message):
        Bench([wrong], 4, [1])


# Whole netlists


def echoing_boards(boards):
    """Boards that send what they receive, a cycle later."""
    ports = {name: {"direction": way, "bits": [net]} for name, way, net in (
        ("clock", "input", 2), ("rx", "input", 3), ("tx", "output", 4)
    )}  # fmt: skip
    register = cell("TRELLIS_FF", "Q", {"CLK": 2, "DI": 3, "Q": 4}, REGSET="SET", CEMUX="1")
    data = {"modules": {"top": {"ports": ports, "cells": {"echo": register}}}}
    return simulated_netlist(data, {0: 30}, 70, 9, LinePins(reset=None), boards)


@needs_verilator
def test_boards_of_one_simulation_have_lines_of_their_own():
    """They send other bytes, read until nothing comes, and leave at other times."""
    count = 64 if Bench.boards > 1 else 1

    def echoed(number, line):
        data = bytes(range(number, 3 * number + 1))
        line.write(data)
        line.level(True, 3 + number % 3)
        line.write(data)
        came = b""
        while received := line.read(1 + number % 4):
            came += received
        line.quiet()
        return came == 2 * data

    assert side_by_side(echoing_boards(count).lines, echoed) == [True] * count


@needs_verilator
def test_an_error_of_one_board_is_raised_when_the_others_have_ended():
    ended = []

    def work(number, line):
        line.write(bytes(4))
        if number == Bench.boards // 2:
            raise RuntimeError(f"board {number}")
        while line.read(4):
            pass
        ended.append(number)

    with pytest.raises(RuntimeError, match=f"board {Bench.boards // 2}"):
        side_by_side(echoing_boards(Bench.boards).lines, work)
    assert sorted(ended) == [n for n in range(Bench.boards) if n != Bench.boards // 2]


@needs_verilator
def test_a_pause_takes_its_time():
    (line, *others) = echoing_boards(Bench.boards).lines
    for other in others:
        other.close()
    line.write(b"U")
    line.quiet()  # of 2^10 cycles behind ten bits, and what the last answer may take
    assert line.boards.cycles > 2**10 + 10 * 70 / 16


HINGE = """<robot name="hinge"><link name="base"/><link name="rod"><inertial>
  <origin xyz="0.2 0 0"/><mass value="0.5"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0"
  izz="0.02"/></inertial></link><joint name="turn" type="revolute"><parent link="base"/>
  <child link="rod"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" velocity="5" effort="5"/>
  </joint></robot>"""


@needs_verilator
@pytest.mark.parametrize("interval", repeated([4, 1]))
def test_a_robot_of_one_joint_after_synthesis(interval, tmp_path):
    """Inverse dynamics, synthesised by Yosys for the ECP5, at the pins of its serial line; at
    interval 4 with shared multipliers, whose operands come through trees of multiplexers.
    """
    try:
        tool_version(YOSYS)
    except CompileError as error:
        pytest.skip(str(error))
    made = fl.accelerator(fl.load(HINGE), "inverse_dynamics", interval=interval, board="ulx3s")
    design = SerialCore(made.core, plan_of(made.core, *made.vectors(16)), 64, 9)
    for name, text in design.sources.items():
        (tmp_path / name).write_text(text)
    (tmp_path / MULTIPLEXERS.name).write_text(MULTIPLEXERS.read_text())
    run_yosys(synthesis_script(design.sources, design.name), tmp_path)
    data = json.loads((tmp_path / f"{design.name}.json").read_text())
    boards = simulated_netlist(data, design.facts.payloads, 64, 9, LinePins(), Bench.boards)
    states = made.samples(50)
    wanted = made.function(**states)

    def computed(number, line):
        """What one of the boards gives for its states."""
        device, chosen = SerialDriver(design.facts, line), slice(number % 3, None, 1 + number % 5)
        assert device.self_test(number % 4).passed
        run = device.run({name: x[chosen] for name, x in states.items()})
        return np.array_equal(run.results["tau"], wanted[chosen])

    assert all(side_by_side(boards.lines, computed))
