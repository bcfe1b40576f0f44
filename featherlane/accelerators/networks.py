"""An accelerator of several functions: a network of pipelines, whose tasks come in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.accelerators.accelerator import Accelerator, checked_run, written
from featherlane.accelerators.board import SEEDS, STALLS, core_of_functions
from featherlane.accelerators.front import Front
from featherlane.accelerators.organise.pass_graph import variant_of
from featherlane.accelerators.pins import PinCase
from featherlane.accelerators.report import trace as traces
from featherlane.accelerators.report.network_page import network_page
from featherlane.accelerators.robot_labels import labels_of
from featherlane.accelerators.tasks import (
    Task,
    TaskRun,
    TaskWords,
    check_after,
    check_arrivals,
    check_function,
    listed,
)
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import floats, quantised
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga.board.core import StreamCore
from featherlane.backends.fpga.network import cycles, folder
from featherlane.backends.fpga.network.cycles import Stalls, Timeline
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.verilog import Circuit, circuit
from featherlane.backends.fpga.network.words import layout, moved
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.verilog import Design
from featherlane.errors import shown
from featherlane.functions.arguments import counted, is_count, whole
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes


@dataclass(frozen=True, eq=False, repr=False)
class NetworkAccelerator(Accelerator):
    """Several functions of a robot in one design; `multifunction` makes it.

    datapath: one pass, of all functions, with the formats of all signals. network: its stations and
    links. The other fields are those of `Accelerator`.
    """

    STATES = 500
    WIDTH = 512

    network: Network

    @cached_property
    def circuit(self) -> Circuit:
        """The sources in SystemVerilog."""
        return circuit(self.network)

    @property
    def wrenches(self) -> Variant:
        """Inverse dynamics with the axes and frames of f_ext."""
        return self.computation.variant

    @cached_property
    def latency(self) -> dict[str, int]:
        """Cycles from a task of each function to its result, where no other task is in flight, with
        its way through all FIFOs.
        """
        return cycles.latencies(self.network)

    @property
    def circuits(self) -> list[Design]:
        return [station.design for station in self.network.stations.values()]

    @property
    def latencies(self) -> dict[str, int]:
        return self.latency

    @property
    def words(self) -> dict[str, tuple[int, int]]:
        return moved(self.network)

    @property
    def stream_bits(self) -> tuple[int, int]:
        plan = layout(self.network)
        return plan.input_bits, plan.result_bits

    @property
    def depth(self) -> int:
        return self.network.depth

    @property
    def core(self) -> StreamCore:
        datapaths = {name: self.narrowed(name) for name in self.functions}
        labels = dict(self.labels)
        for datapath in datapaths.values():
            labels |= labels_of(self.model, datapath.graph, self.spec.frames).entries
        core = core_of_functions(self.circuit, self.input_shapes, datapaths, labels)
        return core.with_ranges(self.computation.assigned_ranges)

    def function(self, name: str) -> FixedFunction:
        """Returns a function on the design's numbers, callable as the model's, to the bit."""
        check_function(name, self.functions)
        if name not in self._functions:
            self._functions[name] = self.computation.function(name, self.datapath)
        return self._functions[name]

    @cached_property
    def _functions(self) -> dict[str, FixedFunction]:
        return {}

    def fixed(self, name: str) -> FixedFunction:
        return self.function(name)

    def samples(self, function: str, states: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Random states within the ranges of a function's inputs, by name. Raises ValueError for a
        function that the design has not, and for no number of states.
        """
        hint = "; the order is function, states" if is_count(function) else ""
        check_function(function, self.functions, hint)
        samples = self.computation.drawn(counted("states", states), seed)[1]
        read = input_shapes(self.model, variant_of(function, self.wrenches))
        return {name: samples[name] for name in read}

    def drawn(self, name: str, states: int) -> dict[str, np.ndarray]:
        return self.samples(name, states)

    def tasks(self, count: int, seed: int = 1) -> list[Task]:
        """Random tasks of all functions, in random order."""
        rng, tasks, count = np.random.default_rng(seed), list[Task](), counted("count", count)
        names = [self.functions[n] for n in rng.integers(0, len(self.functions), count)]
        samples = {name: self.samples(name, count, seed) for name in set(names)}
        for n, name in enumerate(names):
            tasks.append(Task(name, {key: x[n] for key, x in samples[name].items()}))
        return tasks

    def schedule(
        self,
        functions: Sequence[str],
        arrivals: Sequence[int] | None = None,
        after: Sequence[int | None] | None = None,
        stalls: int = 0,
        seed: int = 1,
    ) -> Timeline:
        """Returns in which clock cycle each task goes in, is taken by each station, and comes out,
        by the cycle model, which has the stamps of the circuit.

        functions: of the tasks, in the order in which they are offered, each as soon as the one
        before was taken. arrivals: cycles before which each is not offered. after: for each the
        number of the task whose result must be out before, or None: the serial sub-tasks of one
        sampling point. stalls, seed: as of `simulate`. Raises ValueError for what are none.
        """
        functions = listed("functions", functions, least=0)
        for name in functions:
            check_function(name, self.functions)
        check_arrivals(arrivals, len(functions))
        check_after(after, len(functions))
        stalls, seed = whole("stalls", stalls, *STALLS), whole("seed", seed, *SEEDS)
        codes = [self.network.codes[name] for name in functions]
        return cycles.run(self.network, codes, arrivals, after, Stalls(stalls, seed))

    def simulate(
        self,
        tasks: Sequence[Task | tuple[str, Mapping[str, Any]]],
        simulator: str = "verilator",
        stalls: int = 0,
        seed: int = 1,
        after: Sequence[int | None] | None = None,
    ) -> TaskRun:
        """Simulates the sources for tasks in their order, clock cycle by clock cycle.

        simulator: "verilator" or "icarus". stalls: of 256 cycles, how many both streams pause, at
        random; 0 is back to back. after: for each task, the one whose result must be out before it
        is offered, or None (of tasks of one function, in Verilator). Raises CompileError if
        the simulator is not installed, ValueError for tasks that are none.
        """
        stalls, seed = checked_run(simulator, stalls, seed)
        batch, circuit_ = self._words.batch(tasks), folder.simulated(self.circuit)
        inputs = self._words.packed(batch)
        check_after(after, len(batch.names))
        if after is not None:
            if simulator != "verilator" or len(batch.rows) > 1:
                wanted = "a task or None for each of tasks of one function, in Verilator"
                raise ValueError(f"after is {shown(after)}: wanted {wanted}")
            behind = np.array([0 if n is None else n + 1 for n in after])
            streams = simulate.in_verilator(circuit_, inputs, stalls, seed, behind)
        elif simulator == "icarus":
            streams = simulate.in_icarus(circuit_, inputs, stalls, seed)
        else:
            streams = simulate.in_verilator(circuit_, inputs, stalls, seed)
        return self._words.run(batch, streams)

    @cached_property
    def _words(self) -> TaskWords:
        # Arrays have the formats of their circuits already, those of one kernel in all limbs.
        whole = self.datapath if self.organisation else narrowed(self.datapath)
        ranges = self.computation.assigned_ranges
        return TaskWords(self.model, self.network, whole, self.wrenches, ranges)

    def expected(
        self, tasks: Sequence[Task | tuple[str, Mapping[str, Any]]]
    ) -> list[dict[str, np.ndarray]]:
        """Returns what the circuit gives for tasks, as integers by name, by the golden model."""
        return self._words.expected(self._words.batch(tasks))

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all inputs that functions read, by name."""
        variants = [variant_of(name, self.wrenches) for name in self.functions]
        read = {name for variant in variants for name in input_shapes(self.model, variant)}
        return {name: shape for name, shape in self.computation.shapes.items() if name in read}

    def narrowed(self, function: str) -> Datapath:
        """The datapath of a function in the formats of the circuit."""
        return self._words.evaluator(function).datapath

    def vectors(self, states: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Random tasks and their results, all of the first function, in the order of tasks."""
        name = self.functions[0]
        _, samples, results = self._case(name, states)
        head: dict[str, Any] = {
            "function": np.full(states, self.network.codes[name]),
            "tag": np.arange(states),
        }
        return {**head, **samples}, {**head, **results}

    def cases(self, states: int) -> list[PinCase]:
        parts, more = divmod(states, len(self.functions))
        counts = [parts + (n < more) for n in range(len(self.functions))]
        each = zip(self.functions, counts, strict=True)
        return [self._case(name, count) for name, count in each if count]

    def _case(self, function: str, states: int) -> PinCase:
        """Random states of a function, and their results by the golden model."""
        samples, datapath = self.samples(function, states), self.narrowed(function)
        integers = quantised(datapath, samples)[0]
        results = floats(datapath, self._words.evaluator(function)(integers).integers)
        return PinCase(function, samples, results)

    def write(self, folder_: str | Path, tasks: int = 20) -> list[Path]:
        """Writes the sources, a test bench with random tasks, constraints and reports (JSON with
        all places of words, text) into a folder and returns the files. `iverilog -g2012 *.sv` there
        makes a simulation that says how many tasks passed. Raises ValueError for a folder that
        cannot be written to, or holds another design.
        """
        batch = self._words.batch(self.tasks(counted("tasks", tasks)))
        vectors = self._words.packed(batch), self._words.wanted(batch)
        return folder.write(self.circuit, folder_, vectors, self.facts, self.device.constraints)

    def report(
        self, file: str | Path, tasks: Sequence[str] | None = None, front: Front | None = None
    ) -> Path:
        """Writes a page about the design, which needs no other file, for a browser: stations, links
        and the way of each function, arrays and modules, the timeline of tasks, how busy units are,
        what modules need, errors, and the roof of words. Returns the file.

        tasks: the functions of the tasks of the timeline, all of them twice by default. front:
        the designs around it, as `accelerator.front` gives them for all functions; their search
        takes minutes, so that there are none by default. Raises TypeError for what is no front,
        ValueError for that of something else and for a file that cannot be written.
        """
        names = self._listed(tasks)
        subject, timeline = self._subject(front), self.schedule(names)
        return written(file, network_page(subject, self.network, names, timeline))

    def trace(self, file: str | Path, tasks: Sequence[str] | None = None, **options: Any) -> Path:
        """Writes a trace, which https://ui.perfetto.dev opens: tasks on their way through stations,
        by the cycle model. Returns the file.

        tasks: their functions, in the order in which they come, all of them twice by default;
        options: those of `schedule`. Raises ValueError for a file that cannot be written.
        """
        names = self._listed(tasks)
        timeline = self.schedule(names, **options)
        return self._written_trace(file, traces.network_spans(self.network, timeline, names))

    def _listed(self, tasks: Sequence[str] | None) -> list[str]:
        """The functions of the tasks of a timeline: all of them twice by default."""
        return [*self.functions, *self.functions] if tasks is None else listed("tasks", tasks)

    @property
    def summary(self) -> str:
        """A line with the main figures."""
        slowest = max(self.latency.values())
        return (
            f"{len(self.functions)} functions at interval {self.interval}, "
            f"{min(self.latency.values())} to {slowest} cycles of {self.clock:g} ns, "
            f"{self.cost.percentages(1)}"
        )

    def __str__(self) -> str:
        """The figures, a line each."""
        rows = [f"{self.name}: {self.summary}"]
        for name, n in self.latency.items():
            time, rate = n * self.clock * 1e-3, self.figures["tasks_per_second"][name] / 1e6
            rows.append(f"{name:<36}{n:>5} cycles {time:8.3f} us {rate:8.1f} M/s")
        return "\n".join([*rows, *self._lines_of_board, str(self.cost)])
