"""An accelerator of one function: a pipeline, which takes a new state every interval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from featherlane.accelerators.accelerator import Accelerator, checked_run, written
from featherlane.accelerators.choices import SIMULATORS
from featherlane.accelerators.front import Front
from featherlane.accelerators.pins import PinCase
from featherlane.accelerators.report import page
from featherlane.accelerators.report import trace as traces
from featherlane.accelerators.report.boxes import boxes
from featherlane.backends.cache import digest
from featherlane.backends.fixed.evaluate import Evaluator, first_beyond, floats, quantised
from featherlane.backends.fixed.input_limits import limits_of
from featherlane.backends.fpga import pipeline_folder, report, words
from featherlane.backends.fpga.board.batch import TaskBatch, check_names, check_saturate
from featherlane.backends.fpga.board.core import SelectedFunction, StreamCore, core_of
from featherlane.backends.fpga.verilog import Design
from featherlane.errors import shown
from featherlane.functions.arguments import alike, counted, lead_of
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.shape_hints import shape_hint
from featherlane.functions.table import Variant
from featherlane.program.analysis.pipeline import Pipeline

STREAM = 2  # cycles that the streams add to a pipeline's latency


class Run(NamedTuple):
    """The results of a simulation. outputs: integers (..., *shape) by name, "lost" among them;
    results: the numbers that they stand for; accepted, emitted: the clock cycles in which each
    state, in C order, went in and its result came out; saturated: entries of each input beyond its
    range or format; design: a digest of the sources that were simulated.
    """

    outputs: dict[str, np.ndarray]
    results: dict[str, np.ndarray]
    accepted: np.ndarray
    emitted: np.ndarray
    saturated: Mapping[str, int]
    design: str

    @property
    def cycles(self) -> np.ndarray:
        """Clock cycles from the acceptance of each state to its result."""
        return self.emitted - self.accepted


@dataclass(frozen=True, eq=False, repr=False)
class PipelineAccelerator(Accelerator):
    """A function of a robot as a pipeline for a device; `accelerator` makes it.

    design: the sources in SystemVerilog; `function` is what it computes, callable as any
    `Function`, to the bit. The other fields are those of `Accelerator`.

    Examples:
        >>> made = fl.accelerator(arm, "inverse_dynamics", interval=4)
        >>> states = made.samples(100)
        >>> made.function(**states).shape
        (100, 2)
    """

    STATES = 1000
    WIDTH = 128

    design: Design

    @cached_property
    def function(self) -> FixedFunction:
        """The function on the design's numbers, callable as the model's, to the bit."""
        return self.computation.function(self.spec.label, self.datapath)

    @property
    def variant(self) -> Variant:
        """The function with the axes and frames of its wrenches."""
        return self.computation.variant

    @property
    def latency(self) -> int:
        """Cycles from the inputs of a state to its results, without its way through the streams."""
        return self.pipeline.latency

    @property
    def pipeline(self) -> Pipeline:
        """When and where each operation runs; of arrays, when values cross between them."""
        return self.design.pipeline

    @property
    def circuits(self) -> tuple[Design]:
        return (self.design,)

    @property
    def latencies(self) -> dict[str, int]:
        return {self.spec.label: self.latency}

    @property
    def words(self) -> dict[str, tuple[int, int]]:
        design = self.design
        numbers = len(design.inputs) + len(design.outputs)
        return {self.spec.label: (numbers, design.input_bits + design.output_bits)}

    @property
    def stream_bits(self) -> tuple[int, int]:
        return self.design.input_bits, self.design.output_bits

    @property
    def depth(self) -> int:
        return self.design.depth

    @property
    def core(self) -> StreamCore:
        core = core_of(self.design, self.labels)
        (name,), inputs = self.functions, tuple(core.tasks.shapes)
        functions = {name: SelectedFunction(0, inputs)}
        return core._replace(functions=functions).with_ranges(self.computation.assigned_ranges)

    def fixed(self, name: str) -> FixedFunction:
        return self.function

    def samples(self, states: int) -> dict[str, np.ndarray]:
        """Random states within the ranges of the inputs, by name. Raises ValueError unless `states`
        is a number of states.
        """
        return self.computation.drawn(counted("states", states))[1]

    def drawn(self, name: str, states: int) -> dict[str, np.ndarray]:
        return self.samples(states)

    def vectors(self, states: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        datapath, inputs = self.function.datapath, self.samples(states)
        integers = Evaluator(datapath)(quantised(datapath, inputs)[0]).integers
        return inputs, floats(datapath, integers)

    def cases(self, states: int) -> list[PinCase]:
        return [PinCase(None, *self.vectors(states))]

    @cached_property
    def _digest(self) -> str:
        """Tells designs apart: the same for the same sources."""
        return digest(json.dumps(self.design.sources).encode())

    @property
    def summary(self) -> str:
        """A line with the main figures."""
        return (
            f"interval {self.interval}, latency {self.latency} cycles of {self.clock:g} ns, "
            f"{self.cost.percentages(1)}"
        )

    def __str__(self) -> str:
        """The report as text."""
        return "\n".join([report.report(self.facts).rstrip("\n"), *self._lines_of_board, ""])

    def write(self, folder_: str | Path, states: int = 20) -> list[Path]:
        """Writes the sources, constants, a test bench with vectors of some states, constraints and
        reports (JSON, text) into a folder and returns the files. `iverilog -g2012 *.sv` there makes
        a simulation that says how many states passed. Raises ValueError for a folder that cannot be
        written to, or holds another design.
        """
        vectors = self._integers(counted("states", states))
        return pipeline_folder.write(
            self.design, folder_, *vectors, self.facts, self.device.constraints
        )

    def report(self, file: str | Path, front: Front | None = None) -> Path:
        """Writes a page about the design, which needs no other file, for a browser: its arrays and
        modules, the timeline of its pipeline, how busy units are, what modules need, errors with
        bounds, the designs around it and the roof of words. Returns the file.

        front: the designs around it, as `accelerator.front` gives them for this function, device
        and clock; their search takes a second or so for each, minutes for derivatives of an arm, so
        that there are none by default. Raises TypeError for what is no front, ValueError for that
        of another function and for a file that cannot be written.
        """
        return written(file, page.page(self._subject(front), self.design))

    def trace(self, file: str | Path, tasks: int = 16, run: Run | None = None) -> Path:
        """Writes a trace, which https://ui.perfetto.dev opens: tasks on their way through words,
        modules and FIFO, by the cycle. Returns the file.

        tasks: how many, which come as fast as they are taken; run: of a simulation, with its stalls
        instead. Raises TypeError for what is no run, ValueError for that of another design and for
        a file that cannot be written.
        """
        tasks = counted("tasks", tasks)
        if run is None:
            accepted = [n * self.interval for n in range(tasks)]
            emitted = [n + self.latency + STREAM for n in accepted]
        elif not isinstance(run, Run):
            raise TypeError(f"run is {shown(run)}: wanted what simulate returns, or None")
        elif run.design != self._digest:
            raise ValueError(f"run is of another design: wanted a simulation of {self.name}")
        else:
            accepted, emitted = run.accepted.tolist(), run.emitted.tolist()
        spans = traces.spans(boxes(self.design, self.cost), self.latency, accepted, emitted)
        return self._written_trace(file, spans)

    def simulate(
        self,
        inputs: Mapping[str, Any],
        simulator: str = "verilator",
        stalls: int = 0,
        seed: int = 1,
        *,
        saturate: bool = False,
    ) -> Run:
        """Simulates the sources for states, clock cycle by clock cycle.

        inputs: arrays (..., *shape) by name; leading dimensions broadcast. simulator: "verilator"
        or "icarus". stalls: of 256 cycles, how many both streams pause, at random; 0 is back to
        back. seed: of the pauses. saturate: entries of inputs beyond the ranges that formats were
        assigned for, or beyond a uniform format, take the nearest number in it, which is counted.
        Raises CompileError if the simulator is not installed, ValueError for NaN, and without
        saturate for such an entry.
        """
        stalls, seed = checked_run(simulator, stalls, seed)
        check_saturate(saturate)
        design, batch = self.design, self._states(inputs)
        datapath, ranges = design.datapath, self.computation.assigned_ranges
        limits = limits_of(datapath, ranges)
        inputs_of_circuit, saturated = quantised(datapath, batch.inputs, limits)
        if saturated and not saturate:
            raise batch.refusal(first_beyond(datapath, batch.inputs, ranges))
        values = words.given_values(design.datapath, design.inputs, inputs_of_circuit)
        with TemporaryDirectory() as place:
            pipeline_folder.write(design, place, *self._integers(1))  # a simulation needs no report
            streams = SIMULATORS[simulator](place, values, stalls, seed)
        integers = words.results_of(design.datapath, design.outputs, streams.values)
        numbers = floats(design.datapath, integers)
        outputs, results = (
            {name: x.reshape(batch.lead + x.shape[1:]) for name, x in values.items()}
            for values in (integers, numbers)
        )
        return Run(outputs, results, streams.accepted, streams.emitted, saturated, self._digest)

    def _states(self, inputs: Mapping[str, Any]) -> TaskBatch:
        """Returns inputs in float64, with their leading dimensions as one. Raises ValueError for
        what are no inputs of the function.
        """
        shapes = self.function.inputs
        check_names(inputs, shapes)
        _, arrays = alike({name: inputs[name] for name in shapes})
        lead = lead_of(arrays.values(), shapes, partial(shape_hint, self.model, None))
        if not prod(lead):
            raise ValueError(f"inputs has leading dimensions {lead}: wanted a state, or more")
        states = {
            name: np.broadcast_to(x, lead + shapes[name])
            .reshape(prod(lead), *shapes[name])
            .astype(np.float64)
            for name, x in arrays.items()
        }
        batch = TaskBatch(lead, states, {name: x.shape for name, x in arrays.items()})
        batch.check_numbers()
        return batch

    def _integers(self, states: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Random states and their results, as integers."""
        datapath = self.function.datapath
        integers, _ = quantised(datapath, self.samples(states))
        return integers, Evaluator(datapath)(integers).integers
