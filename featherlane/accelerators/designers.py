"""The design of a datapath, or of arrays, at an interval: with sums in post-adders, or with sums in
LUTs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from featherlane.accelerators.choices import LONGEST, MEMORIES, SHARED, SHARING, DesignSpec
from featherlane.accelerators.computation import Whole
from featherlane.accelerators.organise.array_stations import StationArrays
from featherlane.accelerators.organise.network import array_network, memory_network, network
from featherlane.accelerators.organise.pass_graph import parts_of
from featherlane.backends import stages
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.runs import accumulated
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.arrays.design import array_design
from featherlane.backends.fpga.arrays.schedule import scheduled
from featherlane.backends.fpga.binding import bound
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.floor import Floors, least_cost_of_arrays
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.memories.design import MemoryDesign, memory_design
from featherlane.backends.fpga.network.cost import cost
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import Design, design
from featherlane.errors import CompileError
from featherlane.program.analysis.modulo import pipelined

# The share of what a design may take that the least may be where a schedule is tried first: designs
# of units with operand memories take 3 to 12 % more multipliers, those of shared ones up to 50 %
LIKELY = 0.95
LONGEST_ON_BOARDS = 64  # cycles of an interval that is tried where LUTs are a floor
Candidate = tuple[Design | Network, DesignCost, Whole]
SLACK = 0, 6, 12, 24  # cycles, for sums in post-adders: 12 does for the iiwa14 at 4 and 12


class LookedAt:
    """The results that designers of one circuit share: the floors of datapaths, and the last design
    of units with operand memories that fits, which takes ten seconds or more for a large robot.
    """

    def __init__(self) -> None:
        self.floors = Floors()
        self.stage = ""  # the last one that began
        self._fitting: tuple[Any, Candidate] | None = None

    def fitting(self, key: Any, make: Callable[[], Candidate]) -> Candidate:
        """Returns the design of a key: the last one, or a new one by `make`."""
        if self._fitting is not None and self._fitting[0] == key:
            return self._fitting[1]
        candidate = make()
        if candidate[1].fits:
            self._fitting = key, candidate
        return candidate


@dataclass(frozen=True)
class Designer:
    """Makes designs by a spec: pipelines, or networks of its functions, of datapaths or of arrays.

    name: of the top module. runs: schedules that are tried for each design, as many as `pipelined`
    likes if None. labels: for names and comments in the sources. looks: whether the designs only
    tell which interval fits.
    """

    name: str
    spec: DesignSpec
    runs: int | None = None
    labels: Labels = NO_LABELS
    looks: bool = False
    looked_at: LookedAt = field(default_factory=LookedAt, repr=False, compare=False)

    @property
    def slacks(self) -> tuple[int, ...]:
        """Cycles, those of `fuse.fused` that are tried; networks take longer to schedule."""
        return SLACK[::2] if self.spec.is_network else SLACK

    def fused(self, whole: Whole, slack: int = 0) -> Whole:
        """Returns a datapath, or arrays, with sums in post-adders, as `fuse.fused`."""
        device, is_network = self.spec.target, self.spec.is_network
        if isinstance(whole, Datapath):
            return fused(whole, device, slack, ports=is_network)
        return whole.changed(lambda kernel: fused(kernel, device, slack, narrows=not is_network))

    def design(self, whole: Whole, interval: int) -> tuple[Design | Network, DesignCost]:
        """Returns the design of a datapath, or of arrays, as it is, and its cost."""
        sums = ", sums in post-adders" * bool(whole.fused)
        self._tell(interval, f"shared multipliers{sums}")
        make = self._network if self.spec.is_network else self._pipeline
        design = make(whole, interval)
        return design, cost(design, self.spec.target)

    def _pipeline(self, whole: Whole, interval: int) -> Design:
        device = self.spec.target
        if not isinstance(whole, Datapath):
            kernels = [*whole.kernels.values()]
            timed = scheduled(whole.whole, kernels, interval, device, self.runs)
            return array_design(self.name, whole.whole, timed, interval, device.tile, self.labels)
        narrow = narrowed(whole)
        pools = SHARING[self.spec.sharing](narrow.graph)
        units = devices.operators(narrow, device, self.spec.has_units_apart(interval))
        options = units, device.clock, interval, pools
        pipeline = pipelined(narrow.graph, *options, runs=self.runs)
        pipeline.verify()
        if self.spec.sharing == "whole":
            narrow, pipeline = bound(narrow, pipeline)
        return design(self.name, narrow, pipeline, device.tile, labels=self.labels)

    def _network(self, whole: Whole, interval: int) -> Network:
        if isinstance(whole, StationArrays):
            return array_network(self.name, whole, self.spec, interval, self.runs, self.labels)
        assert isinstance(whole, Datapath), "several functions are a pass, or arrays in stations"
        return network(self.name, narrowed(whole), self.spec, interval, self.runs, self.labels)

    def smallest(self, whole: Whole, interval: int) -> DesignCost:
        """Returns the cost with as many sums in post-adders as may be, or in runs; of the kind of
        datapath that fits better, if both are asked for.
        """
        kind = self.spec.datapath
        if kind == SHARED or interval == 1 or not isinstance(whole, Datapath):
            return self._smallest_shared(whole, interval)
        if kind == MEMORIES:
            return self._best_memories(whole, interval)[1]
        shared = self._of_kind(SHARED).quick(whole, interval)
        if self._prefers(shared):
            return shared
        try:
            memories = self._of_kind(MEMORIES).quick(whole, interval)
        except CompileError:  # as in `best`
            return shared
        return min(shared, memories, key=lambda needed: needed.excess)

    def least(self, whole: Whole, interval: int) -> DesignCost:
        """Returns what a design takes at least, without a schedule: of the kind of datapath that
        takes less, if both are asked for.
        """
        spec, device = self.spec, self.spec.target
        if isinstance(whole, StationArrays):
            kernels = [kernel for several in whole.of_stations.values() for kernel in several]
            return least_cost_of_arrays(kernels, interval, device)
        if not isinstance(whole, Datapath):
            return least_cost_of_arrays(whole.kernels.values(), interval, device)
        parts = parts_of(whole.graph) if spec.is_network else None
        floor, costs = self.looked_at.floors.of(whole, device, parts), list[DesignCost]()
        if spec.datapath != MEMORIES or interval == 1:
            costs.append(floor.shared(interval, spec.has_units_apart(interval)))
        if spec.datapath != SHARED and interval > 1:
            try:
                costs.append(floor.memories(interval))
            except CompileError:  # an operation without a unit
                if not costs:
                    raise
        return min(costs, key=lambda needed: needed.excess)

    def quick(self, whole: Whole, interval: int) -> DesignCost:
        """Returns the cost as `smallest` does, or what a design takes at least if that is too
        much already.
        """
        least = self.least(whole, interval)
        return self.smallest(whole, interval) if least.fits else least

    def _smallest_shared(self, whole: Whole, interval: int) -> DesignCost:
        try:
            return self.design(self.fused(whole), interval)[1]
        except CompileError:  # products of several widths on a unit that has no post-adder
            return self.design(whole, interval)[1]

    def best(self, whole: Whole, interval: int) -> Candidate:
        """Returns the design, its cost, and the datapath that it computes: of the kind of datapath
        that was chosen, or of the one that needs the smaller share of what the device has for it;
        on boards of units with operand memories where shared multipliers do not fit.
        """
        kind = self.spec.datapath
        if kind == SHARED or interval == 1 or not isinstance(whole, Datapath):
            return self._best_shared(whole, interval)
        if kind == MEMORIES:
            return self._best_memories(whole, interval)
        candidates = list[Candidate]()
        if self._may_fit(SHARED, whole, interval):
            shared = self._best_shared(whole, interval)
            if self._prefers(shared[1]) or not self._may_fit(MEMORIES, whole, interval):
                return shared
            candidates.append(shared)
        try:
            candidates.append(self._best_memories(whole, interval))
        except CompileError:  # an operation without a unit, or formats without common places
            candidates = candidates or [self._best_shared(whole, interval)]
        return min(candidates, key=lambda candidate: candidate[1].excess)

    def _prefers(self, shared: DesignCost) -> bool:
        """Whether shared multipliers are taken without a look at units with operand memories: on a
        board where they fit, since their latency is shorter.
        """
        return self.spec.board is not None and shared.fits

    def _best_memories(self, whole: Datapath, interval: int) -> Candidate:
        """The design of units with operand memories."""
        key = self.name, whole, interval, self.spec.target
        return self.looked_at.fitting(key, lambda: self._made_memories(whole, interval))

    def _made_memories(self, whole: Datapath, interval: int) -> Candidate:
        self._tell(interval, "units with operand memories")
        device = self.spec.target
        design: Design | Network
        if self.spec.is_network:
            runs = accumulated(whole, interval, parts_of(whole.graph))
            design = memory_network(self.name, runs, self.spec, interval, self.labels)
        else:
            runs = accumulated(whole, interval)
            design = memory_design(self.name, runs, interval, device, self.labels)
        return design, cost(design, device), runs

    def _best_shared(self, whole: Whole, interval: int) -> Candidate:
        """The design of shared multipliers: with sums in post-adders if that makes it no slower, or
        makes it fit.
        """
        first, needed = self.design(whole, interval)
        for slack in self.slacks if interval > 1 else self.slacks[:1]:
            candidate = self.fused(whole, slack)
            if not candidate.fused:
                break
            try:
                other, its_need = self.design(candidate, interval)
            except CompileError:  # as above
                continue
            if its_need.fits and (not needed.fits or _is_no_slower(other, first)):
                return other, its_need, candidate
        return first, needed, whole

    def _tell(self, interval: int, kind: str) -> None:
        """Begins the stage of a schedule, if it is not the last one already."""
        label, there = self.spec.label, self.spec.target.name
        text = f"schedule of {label} at interval {interval}, {kind}"
        if self.looks:
            text = f"interval of {label} that fits {there}: {interval} is tried, {kind}"
        if text != self.looked_at.stage:
            self.looked_at.stage = text
            stages.begin(text)

    def _of_kind(self, datapath: str) -> Designer:
        """A designer of one kind of datapath."""
        return replace(self, spec=replace(self.spec, datapath=datapath))

    def _may_fit(self, kind: str, whole: Whole, interval: int) -> bool:
        """Whether the least that a design of a kind of datapath takes fits."""
        return self._of_kind(kind).least(whole, interval).fits


def latency_of(design: Design | Network) -> Mapping[str, int]:
    """Cycles from a task to its result, by function of a network; those of a pipeline as one."""
    return latencies(design) if isinstance(design, Network) else {"": design.latency}


def datapath_of(design: Design | Network) -> str:
    """The kind of datapath of a pipeline, or of the stations of a network, as DATAPATHS has it."""
    designs: list[Any] = [design]
    if isinstance(design, Network):
        designs = [station.design for station in design.stations.values()]
    return MEMORIES if any(isinstance(each, MemoryDesign) for each in designs) else SHARED


def _is_no_slower(design: Design | Network, other: Design | Network) -> bool:
    """Tells whether a design gives all results as early as another one."""
    cycles = latency_of(other)
    return all(n <= cycles[name] for name, n in latency_of(design).items())


def interval_that_fits(
    designer: Designer, whole: Whole, interval: int, needed: DesignCost
) -> tuple[int | None, int, DesignCost]:
    """Returns an interval that fits, if one does, the last that was tried and its cost. needed: at
    this interval, which is the smallest one that is wanted.

    Shared units shrink as the interval grows. The first one tried is the smallest at which the
    least that a design takes leaves some room; the next ones are as much longer as the one before
    is too large. Then the search goes back, until the interval before the result is known not to
    fit. A still smaller one may fit by chance, since schedules are heuristic.
    """
    last = LONGEST if designer.spec.board is None else LONGEST_ON_BOARDS
    longer = range(interval + 1, last + 1)
    if needed.fits or not longer:
        return interval if needed.fits else None, interval, needed
    may_fit = lambda n: designer.least(whole, n).fits
    if not may_fit(last):
        return None, last, designer.least(whole, last)
    failed = longer[bisect_left(longer, True, key=may_fit)] - 1
    likely = lambda n: designer.least(whole, n).excess <= LIKELY
    tried = min(bisect_left(longer, True, key=likely) + interval + 1, last)
    needed = designer.quick(whole, tried)
    while not needed.fits and tried < last:
        failed, tried = tried, min(max(tried + 1, ceil(tried * min(needed.excess, 2))), last)
        needed = designer.quick(whole, tried)
    while needed.fits and failed < tried - 1:
        n = min(max(ceil(tried * needed.excess), failed + 1), tried - 1)
        shorter = designer.quick(whole, n)
        if shorter.fits:
            tried, needed = n, shorter
        else:
            failed = n
    return tried if needed.fits else None, tried, needed
