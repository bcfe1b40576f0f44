"""Multiplexers of cells: those of five inputs or more of cells that join LUTs, and those of two.

A LUT of six inputs chooses among four signals. The outputs of two of these are joined by a
multiplexer behind them, MUXF7, those of two such by MUXF8, and by MUXF9 (UG574), so that n signals
take a quarter of n LUTs. Synthesis makes a tree of LUTs of a case, which takes a third of n or
more; so the text has the cells as instances.

Of two signals, such a LUT chooses two bits: it has two outputs of five common inputs, LUT6_2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.statements import (
    Alternative,
    Assign,
    GenerateLoop,
    Instance,
    Multiplexer,
    Statement,
)

CELLS = "MUXF7", "MUXF8", "MUXF9"  # each joins two outputs of LUTs, or of the one before
IN_LUT = 4  # signals among which a LUT chooses


def name(inputs: int) -> str:
    """The name of the module, behind that of the design."""
    return f"choice_{inputs}"


def number_bits(inputs: int) -> int:
    """The bits of the number of an input."""
    return (inputs - 1).bit_length()


def is_module(inputs: int) -> bool:
    """Whether a multiplexer of so many inputs is a module, and not an expression."""
    return inputs == 2 or inputs > IN_LUT


def luts(inputs: int) -> float:
    """The LUTs of a bit of a multiplexer of so many inputs, of cells or in one LUT."""
    if inputs < 2:
        return 0
    if inputs == 2:
        return 0.5
    choosing = ceil(inputs / IN_LUT)
    left = ceil(choosing / (1 << len(CELLS)))  # outputs of cells, of which LUTs choose one
    return choosing + ceil((left - 1) / (IN_LUT - 1))


def source(n: int) -> str:
    """The port of an input."""
    return f"source_{n}"


def module(prefix: str, inputs: int) -> Module:
    """The module of a multiplexer of WIDTH bits with so many inputs."""
    what = (
        "LUTs of which each chooses two bits"
        if inputs == 2
        else f"the cells that join LUTs, each of which chooses among {IN_LUT} signals"
    )
    comment = (
        f"One of {inputs} signals by its number. Synthesis takes {what}, any simulation what they "
        "compute."
    )
    circuit = Module(prefix + name(inputs), comment)
    circuit.parameter("WIDTH", 2)
    circuit.input("number", bits=number_bits(inputs))
    circuit.input(*map(source, range(inputs)), bits="WIDTH", signed=True)
    circuit.output("chosen", bits="WIDTH", signed=True)
    others = Multiplexer("chosen", "number", tuple((n, source(n)) for n in range(inputs)))
    cells = _of_two(circuit) if inputs == 2 else _of_cells(circuit, inputs)
    circuit.body = [Alternative("SYNTHESIS", tuple(cells), (others,))]
    circuit.unread = UNREAD_CHOICES
    return circuit


UNREAD_CHOICES = "Synthesis alone has the outputs of LUTs that cells join."
LEVELS = "lut", "pair", "four", "eight"  # the outputs of LUTs, and of the cells behind them


# Outputs O6 and O5 of a LUT whose inputs are both signals of two bits, and the number
FIRST, SECOND, NUMBER = (0, 2), (1, 3), 4


def _of_two(circuit: Module) -> Iterator[Statement]:
    """Yields LUTs for two bits each; the last one may have one alone."""
    circuit.constant("PAIRS", "(WIDTH + 1) / 2")
    circuit.declare("first", "second", "both", bits="(2 * PAIRS)")
    for name, n in (("first", 0), ("second", 1)):
        yield Assign(name, f"(2 * PAIRS)'({source(n)})")
    signals = [f"{name}[2 * n{more}]" for more in ("", " + 1") for name in ("first", "second")]
    outputs, tables = ("both[2 * n]", "both[2 * n + 1]"), (_table(0), _table(1))
    pair = two_bits("choose", outputs, [*signals, "number"], tables)
    yield GenerateLoop("n", "PAIRS", "pairs", (pair,))
    yield Assign("chosen", "both[WIDTH-1:0]")


def two_bits(
    name: str, outputs: tuple[str, str], inputs: Sequence[str], tables: tuple[int, int]
) -> Instance:
    """A LUT that gives two bits of five common inputs, by the tables of both."""
    low, high = outputs
    ports = {"O6": high, "O5": low}
    ports |= {f"I{n}": signal for n, signal in enumerate([*inputs, "1'b1"])}
    init = {"INIT": f"64'h{tables[1] << 32 | tables[0]:016x}"}
    return Instance("LUT6_2", name, ports, init, {})


def _table(bit: int) -> int:
    """The outputs of a LUT for the values of its inputs: those of a bit of both signals."""
    chosen = lambda x: x >> (SECOND if x >> NUMBER & 1 else FIRST)[bit] & 1
    return sum(chosen(x) << x for x in range(32))


def _of_cells(circuit: Module, inputs: int) -> Iterator[Statement]:
    """Yields the choices in LUTs, and the cells that join them."""
    outputs, bit = _declared(circuit, LEVELS[0], ceil(inputs / IN_LUT)), 2
    for n, output in enumerate(outputs):
        sources = [*map(source, range(inputs))][IN_LUT * n : IN_LUT * (n + 1)]
        # A cell takes outputs of LUTs alone: one for a single signal has another one beside it,
        # whose number is none
        yield Assign(
            output, choice(sources if len(sources) > 1 else [*sources, source(0)], "number")
        )
    joins = list[Statement]()
    for cell, level in zip(CELLS, LEVELS[1:], strict=True):
        if len(outputs) > 1:
            joined = _declared(circuit, level, ceil(len(outputs) / 2))
            joins += _joins(cell, outputs, joined, f"number[{bit}]")
            outputs, bit = joined, bit + 1
    yield GenerateLoop("n", "WIDTH", "bits", tuple(joins))
    yield Assign("chosen", choice(outputs, "number", bit))


def _declared(circuit: Module, level: str, count: int) -> list[str]:
    names = [f"{level}_{n}" for n in range(count)]
    circuit.declare(*names, bits="WIDTH")
    return names


def _joins(
    cell: str, outputs: Sequence[str], joined: Sequence[str], number: str
) -> Iterator[Instance]:
    """Yields the cells that join two outputs each for a bit; one that is left alone passes."""
    for n, target in enumerate(joined):
        first, *second = outputs[2 * n : 2 * n + 2]
        ports = {
            "O": f"{target}[n]", "I0": f"{first}[n]",
            "I1": f"{second[0]}[n]" if second else "1'b0", "S": number if second else "1'b0",
        }  # fmt: skip
        yield Instance(cell, f"cell_{target}", ports, {}, {})


def choice(sources: Sequence[str], number: str, bit: int = 0) -> str:
    """The expression of one of some signals by the bits of a number from one on."""
    if len(sources) == 1:
        return sources[0]
    half = 1 << (len(sources) - 1).bit_length() - 1
    low, high = (choice(part, number, bit) for part in (sources[:half], sources[half:]))
    return f"{number}[{bit + half.bit_length() - 1}] ? {_inner(high)} : {_inner(low)}"


def _inner(text: str) -> str:
    return f"({text})" if "?" in text else text
