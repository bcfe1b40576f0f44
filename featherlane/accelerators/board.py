"""`Accelerator.board`: a design between AXI streams with registers, as a
board needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.board import folder
from featherlane.backends.fpga.board.core import (
    TAG,
    KnownEntry,
    SelectedFunction,
    StreamCore,
    WordField,
    Words,
)
from featherlane.backends.fpga.board.document import page, summary
from featherlane.backends.fpga.board.host import BoardDriver, BoardFacts
from featherlane.backends.fpga.board.packets import Rate
from featherlane.backends.fpga.board.simulated import SimulatedBoard
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.module import hashed_sources
from featherlane.backends.fpga.netlist import constant_integer
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.verilog import Circuit
from featherlane.backends.fpga.network.words import layout
from featherlane.backends.fpga.words import Entry
from featherlane.errors import instead
from featherlane.functions.arguments import counted, whole

STALLS, SEEDS = (0, 255), (0, 2**31 - 1)  # the ends of what simulators take
DMA = {
    "stalls": STALLS,
    "burst": (1, 2**31 - 1),
    "pause": (0, 2**31 - 1),
    "seed": SEEDS,
    "limit": (1, 2**63 - 1),
}
Vectors = Callable[[int], tuple[Mapping[str, Any], Mapping[str, Any]]]


@dataclass(frozen=True, eq=False)
class Board:
    """A design as a board needs it: between streams of AXI, with registers.

    wrapped: the modules. vectors: inputs and results of so many random tasks, as numbers by name.
    part: the device as Vivado names it, None if it is none of AMD's.
    """

    wrapped: WrappedCore
    vectors: Vectors
    part: str | None

    @property
    def facts(self) -> BoardFacts:
        """The facts that a host needs; board.json has them."""
        return folder.facts_of(self.wrapped)

    @property
    def rate(self) -> Rate:
        """Beats and bytes of a task, and what limits the stream."""
        return self.wrapped.rate

    @property
    def summary(self) -> str:
        """A line with the main figures."""
        return summary(self.rate)

    def __str__(self) -> str:
        """The page on packets and registers, in Markdown."""
        return page(self.wrapped)

    def write(self, folder_: str | Path, states: int = 20) -> list[Path]:
        """Writes the sources, a test bench with vectors of some states, the page (board.md), what
        the driver reads (board.json) and scripts for Vivado, which were not run, into a folder and
        returns the files. `iverilog -g2012 *.sv` there makes a simulation. Raises ValueError for a
        folder that cannot be written to, or holds another design.
        """
        vectors = self.vectors(counted("states", states))
        return folder.write(self.wrapped, folder_, *vectors, self.part)

    def simulated(self, tasks_per_packet: int = 4096, **dma: int) -> BoardDriver:
        """The driver of the board in a simulation by Verilator, behind a simulated DMA. dma:
        `stalls`, `burst`, `pause`, `seed` and `limit` of `SimulatedBoard`. Raises TypeError for
        other names, ValueError for other numbers, and CompileError if Verilator is not installed.
        """
        for name in dma.keys() - DMA:
            raise TypeError(f"simulated takes no {name!r}{instead(name, DMA)}")
        options = {name: whole(name, value, *DMA[name]) for name, value in dma.items()}
        return BoardDriver(self.facts, SimulatedBoard(self.wrapped, **options), tasks_per_packet)


# Several functions

SELECTOR = "function"  # the entry with the code of the function, in tasks and results


def core_of_functions(
    circuit: Circuit,
    inputs: Mapping[str, tuple[int, ...]],
    datapaths: Mapping[str, Datapath],
    labels: Mapping[Entry, str],
) -> StreamCore:
    """A design of several functions as a module between streams. Its tasks have `function`, the
    code of one (`network.codes`), and those inputs that this function reads; so have results.

    inputs: the shapes of all inputs; datapaths: of each function, in the formats of the circuit;
    labels: what entries are.
    """
    network, head = circuit.network, {SELECTOR: (), TAG: ()}
    tasks, results, constants = _fields_of_functions(network, datapaths)
    outputs = {
        output: shape
        for name in network.codes
        for output, (shape, _) in datapaths[name].graph.outputs.items()
    }
    return StreamCore(
        network.name,
        circuit.sources,
        Words(tasks, head | dict(inputs), selector=SELECTOR),
        Words(results, head | outputs, constants, SELECTOR),
        network.interval,
        network.depth,
        network.clock,
        {
            name: SelectedFunction(code, tuple(datapaths[name].graph.inputs))
            for name, code in network.codes.items()
        },
        labels_of_head(network.codes) | dict(labels),
        hashed_sources(circuit.modules),
    )


def _fields_of_functions(
    network: Network, datapaths: Mapping[str, Datapath]
) -> tuple[tuple[WordField, ...], tuple[WordField, ...], tuple[KnownEntry, ...]]:
    """The fields of words of tasks and of results, and the entries of results that are constants,
    which no word has.
    """
    plan, constants = layout(network), list[KnownEntry]()
    head = [
        WordField(((name, 0),), offset, width, signed=False)
        for name, (offset, width) in ((SELECTOR, plan.code), (TAG, plan.tag))
    ]
    tasks, results = [*head], [*head]
    for function, code in network.codes.items():
        tasks += [WordField((x.entry,), *x[1:], when=code) for x in plan.inputs[function]]
        datapath, of_pass = datapaths[function], SHARES[function].of_pass
        places = {place.entry: place for place in plan.results[function]}
        for output, (_, nodes) in datapath.graph.outputs.items():
            for k in dict.fromkeys(nodes):
                entries = tuple((output, n) for n, other in enumerate(nodes) if other == k)
                if datapath.graph.op[k] == "constant":
                    value = constant_integer(datapath, k) * datapath.format(k).step
                    constants += [KnownEntry(*entry, value, code) for entry in entries]
                else:
                    place = places[of_pass[output], entries[0][1]]
                    results.append(WordField(entries, *place[1:], when=code))
    return tuple(tasks), tuple(results), tuple(constants)


def labels_of_head(codes: Mapping[str, int]) -> dict[Entry, str]:
    """The labels of what stands before the numbers of a word of several functions."""
    listed = ", ".join(f"{code} {name}" for name, code in codes.items())
    return {(SELECTOR, 0): f"the function: {listed}", (TAG, 0): "a number that its result has, too"}
