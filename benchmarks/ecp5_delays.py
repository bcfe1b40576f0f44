"""How long do operators take on an ECP5? Probes between registers, placed and routed.

Each probe has a clock of its own, a dozen are one design. The worst path of a probe is split into
logic, with what registers take, and wires: a placement of small circuits has short wires, so that
the table of the device takes logic from here, and wires from whole designs. Grades 6 and 8 of an
ECP5-85k by Yosys and nextpnr-ecp5; --quick takes a probe of each kind. A dozen takes half a minute
of a core.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import options
from synthesis import ECP5

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.bitstream.tools import NEXTPNR, run, run_yosys
from featherlane.backends.fpga.expressions import NodeOperands, circuit
from featherlane.backends.fpga.module import Module, named, sources
from featherlane.backends.fpga.text import Signal
from featherlane.backends.fpga.units import multiplier_cell, multipliers
from featherlane.backends.fpga.units.multiplier_cell import CellRegisters
from featherlane.program.graph import Graph

GRADES = (6, 8)
TOGETHER = 12  # clocks of one design, of the 16 global ones
PLACE = ("--85k", "--package", "CABGA381", "--lpf-allow-unconstrained", "--timing-allow-fail",
         "--router", "router2", "--freq", "250", "--quiet")  # fmt: skip
WIDTH = 18
Circuit = tuple[str, Module, Mapping[str, Module]]  # the name, the module, those inside


class Probe(NamedTuple):
    """A circuit of operands with these widths: its wires and the expression of its result."""

    name: str
    operands: tuple[int, ...]
    result: int
    wires: Sequence[tuple[Signal, str]]
    expression: str


def operation(op: str, width: int, operands: int = 2, out: int | None = None) -> Probe:
    """A probe of an operation of a datapath, on integers."""
    graph, form = Graph(), Format(width, 0)
    to = Format(out or width, 0)
    k = graph.node(op, *graph.declare("x", (operands,)))
    signals = tuple(Signal(f"a{n}", width) for n in range(operands))
    node = NodeOperands(Datapath(graph, (*[form] * operands, to)), k, "y", signals)
    return Probe(f"{op} {width}", (width,) * operands, to.width, *circuit(node)[:2])


def shifter(width: int) -> Probe:
    """A probe of a product with a power of two."""
    graph, exponents = Graph(), Format(5, 0)
    a, e = graph.declare("x", (2,))
    k = graph.node("mul", a, graph.node("power_of_two", e))
    formats = (Format(width, 0), exponents, exponents, Format(width, 4))
    node = NodeOperands(Datapath(graph, formats), k, "y", (Signal("a0", width), Signal("a1", 5)))
    return Probe(f"shift {width}", (width, 5), width, *circuit(node)[:2])


def sums(count: int) -> Probe:
    """A probe of chained sums."""
    wires = [
        (Signal(f"sum{n}", WIDTH), f"{f'sum{n - 1}' if n > 1 else 'a0'} + a{n}")
        for n in range(1, count + 1)
    ]
    return Probe(f"{count} sums", (WIDTH,) * (count + 1), WIDTH, wires, f"sum{count}")


def multiplexer(count: int) -> Probe:
    """A probe of a choice among signals."""
    bits = (count - 1).bit_length()
    choices = "".join(f"a{count} == {bits}'d{n} ? a{n} : " for n in range(count - 1))
    operands = (*(WIDTH,) * count, bits)
    return Probe(f"multiplexer {count}", operands, WIDTH, [], f"{choices}a{count - 1}")


def probes(quick: bool) -> Iterator[Probe]:
    """Yields the circuits made of expressions, a few of each kind at first."""
    yield Probe("wire", (WIDTH,), WIDTH, [], "a0")
    yield from (operation("add", width) for width in ((WIDTH,) if quick else (8, 18, 24, 36, 48)))
    yield sums(3)
    yield operation("abs", WIDTH, 1)
    yield from (operation("exponent", w, 1, 8) for w in ((WIDTH,) if quick else (18, 27, 36)))
    yield from (shifter(width) for width in ((WIDTH,) if quick else (18, 27)))
    yield from (multiplexer(n) for n in ((4,) if quick else (2, 4, 8, 16, 32)))


def module_of(probe: Probe) -> Module:
    """The module of a probe without its registers."""
    module = Module("probe", probe.name)
    module.input("clock")
    for n, width in enumerate(probe.operands):
        module.input(f"a{n}", bits=width, signed=True)
    module.output("y", bits=probe.result, signed=True)
    for signal, text in probe.wires:
        module.declare_signal(signal)
        module.assign(signal.name, text)
    module.assign("y", probe.expression)
    return module


def cells() -> Iterator[Circuit]:
    """Yields multipliers with registers: the name, the module and those inside."""
    for bits in ((0, 0, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1)):
        cell = multiplier_cell.module("", CellRegisters(*bits))
        yield f"multiplier, registers {bits}", cell, {}
    tile = multipliers.MULT18X18D._replace(registered=True)
    unit = multipliers.module("", multipliers.Multiplier(WIDTH, WIDTH, 36, 3), tile)
    inside = multiplier_cell.module("", CellRegisters(1, 0, 1))
    yield "multiplier, half added", unit, named(inside)


def memories(quick: bool) -> Iterator[Circuit]:
    """Yields memories that are read at an address out of a register: distributed ones before the
    next register, and a block, whose own register the address goes to.
    """
    for words in (16,) if quick else (16, 32, 64):
        yield memory("distributed", words, "assign")
    yield memory("block", 512, "clocked")


def memory(style: str, words: int, read: str) -> Circuit:
    name, bits = f"{style} memory, {words} words", (words - 1).bit_length()
    module = Module(f"memory_{words}", name)
    module.input("clock", "write")
    module.input("to", "at", bits=bits)
    module.input("word", bits=WIDTH)
    module.output("y", bits=WIDTH)
    attribute = f'ram_style = "{style}", no_rw_check'
    module.declare("places", bits=WIDTH, size=words, attribute=attribute)
    module.clocked("if (write) places[to] <= word;")
    if read == "assign":
        module.assign("y", "places[at]")
    else:
        module.clocked("y <= places[at];")
    return name, module, {}


def framed(number: int, module: Module) -> Module:
    """A probe with registers before and behind: what goes in is shifted in, what comes out is
    folded bit by bit.
    """
    around = Module(f"framed_{number}", module.comment)
    around.input("clock", "bit_in")
    around.output("bit_out")
    ports, bits, result = {"clock": "clock"}, 0, 0
    for name, port in module.ports.items():
        width = int(port.bits or 1)
        if port.kind == "output logic":
            ports[name], result = "now", width
        elif name != "clock":
            ports[name] = f"operands[{bits + width - 1}:{bits}]"
            bits += width
    around.declare("operands", bits=bits)
    around.declare("now", "behind", "folded", bits=result)
    around.clocked(
        "operands <= {operands, bit_in};", "behind <= now;",
        "folded <= {folded, bit_in} ^ behind;", f"bit_out <= folded[{result - 1}];",
    )  # fmt: skip
    around.instance(module.name, "probe", {k: v for k, v in ports.items() if k in module.ports})
    return around


def all_of(frames: Sequence[Module]) -> Module:
    """The top module, with a clock for each frame."""
    top = Module("top", "Probes side by side")
    top.input("clocks", bits=len(frames))
    top.input("bit_in")
    top.output("bit_out")
    top.declare("bits", bits=len(frames))
    for n, frame in enumerate(frames):
        ports = {"clock": f"clocks[{n}]", "bit_in": "bit_in", "bit_out": f"bits[{n}]"}
        top.instance(frame.name, f"frame_{n}", ports)
    top.assign("bit_out", "^bits")
    return top


def measured(circuits: Sequence[Circuit]) -> Iterator[list[Any]]:
    """Yields a row for each circuit and grade: nanoseconds of the worst path, of them wires, and
    the number of wires that leave their place.
    """
    modules: dict[str, Module] = {}
    frames = []
    for n, (_, module, inside) in enumerate(circuits):
        if module.name == "probe":
            module.name = f"probe_{n}"
        frames.append(framed(n, module))
        modules |= {module.name: module, **inside}
    files = sources(modules | named(*frames, all_of(frames)))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for file, text in files.items():
            (place / file).write_text(text)
        script = ECP5.format(files=" ".join(files), top="top")
        run_yosys(f"{script} write_json top.json", place)
        for grade in GRADES:
            report = ("--speed", str(grade), "--json", "top.json", "--report", "report.json")
            run(NEXTPNR, (*PLACE, *report), place)
            for n, path in paths(json.loads((place / "report.json").read_text())):
                yield [circuits[n][0], grade, *figures(path)]


def paths(report: Mapping[str, Any]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yields the worst path of each clock, with its number."""
    for path in report["critical_paths"]:
        if path["from"] == path["to"] and "clocks[" in path["from"]:
            yield int(path["from"].split("clocks[")[1].split("]")[0]), path["path"]


def figures(path: Sequence[Mapping[str, Any]]) -> tuple[float, float, int]:
    by_kind, wires = Counter[str](), 0
    for part in path:
        by_kind[part["type"]] += part["delay"]
        wires += part["type"] == "routing" and part["delay"] > 0
    return round(sum(by_kind.values()), 2), round(by_kind["routing"], 2), wires


def main() -> int:
    args = options.parser(__doc__, quick=False, json=None).parse_args()
    circuits: list[Circuit] = [(probe.name, module_of(probe), {}) for probe in probes(args.quick)]
    circuits += [*cells(), *memories(args.quick)]
    rows = []
    print("| probe | grade | ns | of them wires | wires |\n|---|---|---|---|---|")
    for first in range(0, len(circuits), TOGETHER):
        for row in measured(circuits[first : first + TOGETHER]):
            rows.append(dict(zip(("probe", "grade", "ns", "wire_ns", "wires"), row, strict=True)))
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    options.write_json(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
