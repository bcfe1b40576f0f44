"""Kernels whose members take turns: a task of k members passes lanes of one kernel in k / lanes
slots.

A task's word holds what all members read (broadcast) and what each one reads (scattered). It is
held while the slots go into the lanes, one after the other, with the constants of their members
from a table. What the members give is gathered into one word, or added up over the members
(reduced). Each of these is a module with streams of valid and ready.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.evaluate import last_bits
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga import slots_text
from featherlane.backends.fpga.bench import bench
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.folder import FACTS, SLOWEST
from featherlane.backends.fpga.multipliers import DSP48E2, Tile
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.backends.fpga.slots_text import Slice, joined
from featherlane.backends.fpga.text import indented
from featherlane.backends.fpga.verilog import Design, check_name, design
from featherlane.errors import CompileError
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.program import Y

MOST_BITS = 32  # of a number
ENTRIES = 64  # of a table, for each of whose bits a LUT of six inputs serves
STREAMS = 5  # cycles: to take a task, a slot and its inputs, the kernel's FIFO, to gather


class Bits(NamedTuple):
    """Some bits of a word: a node of the flat datapath, as a signed number."""

    node: int
    width: int
    offset: int


class Sum(NamedTuple):
    """What is added up over the members: an entry of Y, the node of the flat datapath that the
    total stands for, and its format.
    """

    entry: int
    node: int
    format: Format


@dataclass(frozen=True, eq=False)
class SlotArray:
    """Lanes of a kernel, and what feeds them.

    design: of the kernel. inputs, outputs: the bits of a word of each stream: first what all
    members share, or the totals, then what each member has.
    """

    name: str
    kernel: SlotKernel
    design: Design
    lanes: int
    sums: tuple[Sum, ...]
    inputs: list[Bits]
    outputs: list[Bits]
    sources: dict[str, str]

    @property
    def slots(self) -> int:
        """Slots of a task."""
        return ceil(len(self.kernel.members) / self.lanes)

    @property
    def interval(self) -> int:
        """Cycles from one task to the next."""
        return self.slots * self.design.interval

    @property
    def latency(self) -> int:
        """The most cycles from a task to its results where nothing waits."""
        return self.design.latency + self.interval + STREAMS

    def needs(self, device: Device) -> Resources:
        """What the lanes, and what moves words into and out of them, take of a device."""
        kernels = [cost(self.design, device).total] * self.lanes
        return sum(kernels, start=NOTHING) + self.movement

    @property
    def movement(self) -> Resources:
        """What words, tables and sums take: a flip-flop for each bit of a word, a LUT for each bit
        that is loaded or shifted, for each bit of a sum, and for each bit of a table that no other
        one repeats. Of the legs of HyQ with inverse dynamics Yosys finds 1,074 LUTs and 2,278
        flip-flops, where this gives 1,057 and 2,272.
        """
        ports = _Ports.of(self.kernel)
        own = self.lanes * (self.slots - 1) * sum(ports.widths[i] for i in ports.own)
        sums = self.lanes * sum(total.format.width for total in self.sums)
        luts = _patterns(self, ports) * ceil(self.slots / ENTRIES) + sums
        held = bits(self.inputs) + bits(self.outputs)
        return Resources(luts=own + luts, ffs=held)

    def wanted(self, known: Mapping[int, Any]) -> np.ndarray:
        """Returns the values (states, fields) of words of results, from the integers (states,) of
        the nodes that the members give.
        """
        totals = {
            total.node: last_bits(
                sum(known[k] for k in self.kernel.gives[total.entry]), total.format.width
            )
            for total in self.sums
        }
        return np.stack([{**known, **totals}[f.node] for f in self.outputs], -1)


def bits(fields: Sequence[Bits]) -> int:
    """The bits of a word, one at least."""
    return max((f.offset + f.width for f in fields), default=1)


class _Ports(NamedTuple):
    """The ports of a kernel by what feeds them, and their widths."""

    shared: list[int]
    own: list[int]
    table: list[int]
    widths: dict[int, int]

    @classmethod
    def of(cls, kernel: SlotKernel) -> _Ports:
        graph = kernel.datapath.graph
        widths = {
            graph.value[k][1]: kernel.datapath.format(k).width for k in graph.nodes_of("input")
        }
        found: tuple[list[int], list[int], list[int]] = [], [], []
        for i in sorted(widths):
            port = kernel.ports[i]
            found[2 if port.table else 0 if port.shared else 1].append(i)
        return cls(*found, widths)


def slot_array(
    name: str,
    kernel: SlotKernel,
    pipeline: Pipeline,
    lanes: int = 1,
    sums: Sequence[Sum] = (),
    tile: Tile = DSP48E2,
) -> SlotArray:
    """Returns lanes of a kernel in a pipeline, on which its members take turns.

    sums: entries of Y that are added up over the members instead of given. Raises CompileError for
    a sum whose terms have another fraction, ValueError for what is no name.
    """
    check_name(name)
    for total in sums:
        node = kernel.datapath.graph.outputs[Y].nodes[total.entry]
        if kernel.datapath.format(node).fraction != total.format.fraction:
            raise CompileError(
                f"entry {total.entry} of {name} has format {kernel.datapath.format(node)}: its sum "
                f"in {total.format} rounds, which cannot be done slot by slot"
            )
    made = design(f"{name}_kernel", kernel.datapath, pipeline, tile)
    found = SlotArray(
        name, kernel, made, lanes, tuple(sums), _inputs(kernel), _outputs(kernel, sums), {}
    )
    found.sources.update(_sources(found))
    return found


def _inputs(kernel: SlotKernel) -> list[Bits]:
    ports = _Ports.of(kernel)
    nodes = [(kernel.ports[i].nodes[0], ports.widths[i]) for i in ports.shared]
    for member in range(len(kernel.members)):
        nodes += [(kernel.ports[i].nodes[member], ports.widths[i]) for i in ports.own]
    return _packed(nodes)


def _outputs(kernel: SlotKernel, sums: Sequence[Sum]) -> list[Bits]:
    nodes = [(total.node, total.format.width) for total in sums]
    for member in range(len(kernel.members)):
        nodes += [(kernel.gives[entry][member], width) for entry, width in _kept(kernel, sums)]
    return _packed(nodes)


def _kept(kernel: SlotKernel, sums: Sequence[Sum]) -> list[tuple[int, int]]:
    """The entries of Y that members give, and their widths."""
    added = {total.entry for total in sums}
    return [
        (entry, kernel.datapath.format(k).width)
        for entry, k in enumerate(kernel.datapath.graph.outputs[Y].nodes)
        if entry not in added
    ]


def _packed(nodes: Sequence[tuple[int, int]]) -> list[Bits]:
    fields, offset = [], 0
    for node, width in nodes:
        fields.append(Bits(node, width, offset))
        offset += width
    return fields


def write(array: SlotArray, folder: str | Path, states: int) -> None:
    """Writes the sources, a test bench for words of so many states, and what a simulation must know
    of the streams into a folder, which `simulate.icarus` and `simulate.verilator` read.
    """
    facts = {
        "name": array.name,
        "latency": array.latency,
        "interval": array.interval,
        **{
            key: [{"width": f.width, "offset": f.offset} for f in fields]
            for key, fields in (("inputs", array.inputs), ("outputs", array.outputs))
        },
    }
    limit = SLOWEST * (array.latency + (states + array.design.depth) * array.interval + 100)
    sizes = bits(array.inputs), bits(array.outputs)
    rest = array.latency + 2 * array.interval
    clock = array.design.pipeline.clock
    texts = {
        **array.sources,
        f"{array.name}_bench.sv": bench(array.name, *sizes, states, limit, rest, clock),
        FACTS: json.dumps(facts),
    }
    for name, text in texts.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


# Modules


def _sources(array: SlotArray) -> dict[str, str]:
    name, slots = array.name, array.slots
    slot_bits = max((slots - 1).bit_length(), 1)
    ports = _Ports.of(array.kernel)
    sources = dict(array.design.sources)
    sources[f"{name}_scatter.sv"] = slots_text.SCATTER.format(name=name)
    if ports.table:
        sources[f"{name}_table.sv"] = slots_text.table(name, slot_bits, _rows(array, ports))
    gather, given, taken = _gathered(array)
    sources[f"{name}_gather.sv"] = gather
    body = _body(array, ports, slot_bits, given, taken)
    sources[f"{name}.sv"] = slots_text.TOP.format(
        name=name,
        members=len(array.kernel.members),
        lanes=array.lanes,
        interval=array.interval,
        slots=slots,
        given=bits(array.inputs) - 1,
        results=bits(array.outputs) - 1,
        body="\n".join(indented(body)),
    )
    return sources


def _patterns(array: SlotArray, ports: _Ports) -> int:
    """How many different bits a table has: neither 0 nor 1 in all slots, nor the number of the
    slot, nor another one's opposite.
    """
    rows = [[x for x, _ in row] for row in _rows(array, ports)]
    columns = [*zip(*rows, strict=True)] if ports.table else []
    found = {tuple(x >> bit & 1 for x in column) for column in columns for bit in range(MOST_BITS)}
    found = {pattern if not pattern[0] else tuple(1 - b for b in pattern) for pattern in found}
    found -= {tuple(slot >> bit & 1 for slot in range(array.slots)) for bit in range(MOST_BITS)}
    return len(found)


def _member(array: SlotArray, slot: int, lane: int) -> int:
    """The member whose turn it is; the first one again where there is none."""
    member = slot * array.lanes + lane
    return member if member < len(array.kernel.members) else 0


def _rows(array: SlotArray, ports: _Ports) -> list[list[tuple[int, int]]]:
    """The constants of each slot, lane by lane."""
    return [
        [
            (array.kernel.ports[i].table[_member(array, slot, lane)], ports.widths[i])
            for lane in range(array.lanes)
            for i in ports.table
        ]
        for slot in range(array.slots)
    ]


def _gathered(array: SlotArray) -> tuple[str, list[str], tuple[int, int]]:
    """Returns the module that gathers, what a slot gives it, and the bits of that which are kept
    and which are added up.
    """
    nodes = array.kernel.datapath.graph.outputs[Y].nodes
    fields = {f.node: f for f in array.design.outputs}

    def given(lane: int, entry: int) -> Slice:
        found = fields[nodes[entry]]
        return Slice(f"given_{lane}", found.signal.width, found.offset)

    kept = _kept(array.kernel, array.sums)
    parts = [str(given(lane, entry)) for lane in range(array.lanes) for entry, _ in kept]
    own = max(array.lanes * sum(width for _, width in kept), 1)
    if not kept:
        parts.append("1'b0")
    totals, offset = [], own
    left = len(array.kernel.members) - (array.slots - 1) * array.lanes
    for total in array.sums:
        terms = []
        for lane in range(array.lanes):
            parts.append(given(lane, total.entry).extended(total.format.width))
            terms.append(Slice("in_data", total.format.width, offset))
            offset += total.format.width
        totals.append((total.format.width, terms, [lane < left for lane in range(array.lanes)]))
    width = max(sum(total.format.width for total in array.sums), 1)
    if not array.sums:
        parts.append("1'b0")
    module = slots_text.gather(array.name, array.slots, own, totals)
    return module, parts, (own, width)


def _body(
    array: SlotArray, ports: _Ports, slot_bits: int, given: list[str], taken: tuple[int, int]
) -> list[str]:
    """What connects the modules."""
    name, lanes, slots, members = array.name, array.lanes, array.slots, len(array.kernel.members)
    shared = sum(ports.widths[i] for i in ports.shared)
    own = sum(ports.widths[i] for i in ports.own)
    word = ["in_data" + f"[{shared - 1}:0]" if shared else "1'b0"]
    word.append(f"in_data[{shared + own * members - 1}:{shared}]" if own else f"{slots}'b0")
    if own and (missing := slots * lanes - members):
        word.append(f"{missing * own}'b0")
    held = max(shared, 1) + max(own * lanes, 1)
    kept, sums = taken
    table = lanes * sum(ports.widths[i] for i in ports.table)
    terms = lanes if array.sums else 1
    lines = [
        f"logic [{max(shared, 1) + slots * max(own * lanes, 1) - 1}:0] task_data;",
        f"logic [{held - 1}:0] slot_data;",
        f"logic [{slot_bits - 1}:0] slot;",
        "logic slot_valid, gather_ready;",
        f"logic [{kept + terms * sums - 1}:0] gathered;",
        f"logic [{sums + slots * kept - 1}:0] results;",
        *([f"logic [{table - 1}:0] constants;"] if table else []),
    ]
    for lane in range(lanes):
        lines += [
            f"logic [{array.design.input_bits - 1}:0] taken_{lane};",
            f"logic [{array.design.output_bits - 1}:0] given_{lane};",
            f"logic ready_{lane}, valid_{lane};",
        ]
    lines.append(f"assign task_data = {joined(word)};")
    lines += _instance(
        f"{name}_scatter",
        "scatter",
        {"SLOTS": slots, "SLOT_BITS": slot_bits, "SHARED": max(shared, 1),
         "OWN": max(own * lanes, 1)},
        {"clock": "clock", "reset": "reset", "in_valid": "in_valid", "in_ready": "in_ready",
         "in_data": "task_data", "out_valid": "slot_valid", "out_ready": "ready_0",
         "slot": "slot", "out_data": "slot_data"},
    )  # fmt: skip
    if table:
        lines += _instance(
            f"{name}_table", "lookup", {}, {"slot": "slot", "constants": "constants"}
        )
    for lane in range(lanes):
        lines.append(f"assign taken_{lane} = {joined(_taken(array, ports, lane))};")
        lines += _instance(
            f"{name}_kernel",
            f"kernel_{lane}",
            {},
            {"clock": "clock", "reset": "reset", "in_valid": "slot_valid",
             "in_ready": f"ready_{lane}", "in_data": f"taken_{lane}",
             "out_valid": f"valid_{lane}", "out_ready": "gather_ready",
             "out_data": f"given_{lane}"},
        )  # fmt: skip
    lines.append(f"assign gathered = {joined(given)};")
    lines += _instance(
        f"{name}_gather",
        "gather",
        {"SLOTS": slots, "SLOT_BITS": slot_bits, "OWN": kept, "SUMS": sums},
        {"clock": "clock", "reset": "reset", "in_valid": "valid_0", "in_ready": "gather_ready",
         "in_data": "gathered", "out_valid": "out_valid", "out_ready": "out_ready",
         "out_data": "results"},
    )  # fmt: skip
    first = 0 if array.sums else sums
    lines.append(f"assign out_data = results[{first + bits(array.outputs) - 1}:{first}];")
    return lines


def _taken(array: SlotArray, ports: _Ports, lane: int) -> list[str]:
    """What a lane takes, in the order of the fields of its kernel's word."""
    graph = array.kernel.datapath.graph
    shared = max(sum(ports.widths[i] for i in ports.shared), 1)
    places: dict[int, Slice] = {}
    for name, members, offset in (
        ("slot_data", ports.shared, 0),
        ("slot_data", ports.own, shared + lane * sum(ports.widths[i] for i in ports.own)),
        ("constants", ports.table, lane * sum(ports.widths[i] for i in ports.table)),
    ):
        for i in members:
            places[i] = Slice(name, ports.widths[i], offset)
            offset += ports.widths[i]
    return [str(places[graph.value[f.node][1]]) for f in array.design.inputs]


def _instance(
    module: str, name: str, parameters: Mapping[str, int], ports: Mapping[str, str]
) -> list[str]:
    given = ", ".join(f".{key}({value})" for key, value in parameters.items())
    rows = ",\n".join(f"  .{port}({signal})" for port, signal in ports.items())
    return f"{module} {f'#({given}) ' if given else ''}{name} (\n{rows}\n);".split("\n")
