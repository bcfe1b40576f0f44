"""`featherlane.multifunction`: several functions of a robot in one design for an FPGA, which takes
their tasks in any order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import featherlane
from featherlane.accelerators.accelerator import (
    LINK,
    SIMULATORS,
    check_choices,
    figure_of,
    interval_that_fits,
    with_wrenches,
    written,
)
from featherlane.accelerators.board import SEEDS, STALLS, Board, core_of_functions
from featherlane.accelerators.cutting import AUTO, functions_in_arrays
from featherlane.accelerators.designers import ArrayNetworkDesigner, NetworkDesigner
from featherlane.accelerators.organise.organisation import Organisation
from featherlane.accelerators.organise.pass_graph import (
    METHODS,
    NO_WRENCHES,
    SHARES,
    all_functions_graph,
    function_datapath,
    outputs_of,
    variant_of,
)
from featherlane.accelerators.ranges import pass_ranges, shapes_of
from featherlane.accelerators.report import page
from featherlane.accelerators.report import trace as traces
from featherlane.accelerators.report.charts import Mark
from featherlane.accelerators.search import TOGETHER, Front, marks
from featherlane.accelerators.tasks import (
    Task,
    TaskRun,
    TaskWords,
    check_after,
    check_arrivals,
    check_function,
    listed,
)
from featherlane.api.fixed import (
    FITTED,
    PROVED,
    Formats,
    checked_ranges,
    entry_bounds,
    input_ranges,
)
from featherlane.api.model import Model
from featherlane.backends.fixed.assign import fitted, proved, uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import floats, quantised
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.network import cycles, folder
from featherlane.backends.fpga.network.cycles import Stalls, Timeline
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.verilog import Circuit, circuit
from featherlane.backends.fpga.simulation import simulate
from featherlane.backends.fpga.verilog import check_name
from featherlane.errors import CompileError, one_of, shown
from featherlane.functions.arguments import counted, whole
from featherlane.functions.array_like import WrenchFrame
from featherlane.functions.circuits import BOUNDED, DEFERRED, FACTOR
from featherlane.functions.fixed import FixedFunction
from featherlane.functions.table import Variant
from featherlane.functions.variants import check_variant, input_shapes
from featherlane.program.graph import Graph
from featherlane.robot.tree_of import tree_of

Ends = tuple[np.ndarray, np.ndarray]
STATES = 500  # over which a page tells errors


@dataclass(frozen=True, eq=False)
class Multifunction:
    """Several functions of a robot in one design; `multifunction` makes it.

    datapath: one pass, of all functions, with the formats of all signals. network: its stations and
    links. circuit: the sources in SystemVerilog. cost: what it needs of the device. wrenches: the
    variant of inverse dynamics with the axes and frames of f_ext. organisation: of its arrays, if
    it has some.
    """

    name: str
    model: Model
    functions: tuple[str, ...]
    device: devices.Device
    datapath: Datapath
    network: Network
    circuit: Circuit
    cost: DesignCost
    ranges: Mapping[str, tuple[Any, Any]]
    choices: Mapping[str, Any]
    wrenches: Variant
    organisation: Organisation | None = None
    _functions: dict[str, FixedFunction] = field(default_factory=dict)

    @property
    def interval(self) -> int:
        """Cycles from one task to the next; the derivatives of forward dynamics take two."""
        return self.network.interval

    @property
    def clock(self) -> float:
        """Nanoseconds a cycle."""
        return self.network.clock

    @cached_property
    def latency(self) -> dict[str, int]:
        """Cycles from a task of each function to its result, where no other task is under way, with
        its way through all FIFOs.
        """
        return cycles.latencies(self.network)

    def function(self, name: str) -> FixedFunction:
        """Returns a function on the design's numbers, callable as the model's, to the bit."""
        check_function(name, self.functions)
        if name not in self._functions:
            bounds = lambda: entry_bounds(self._limits)
            make = lambda: function_datapath(self.datapath, name)
            method, origin = self.choices["algorithm"], (Multifunction.function, (self, name))
            own = self.model._function(variant_of(name, self.wrenches))
            self._functions[name] = FixedFunction(own, make, bounds, method, origin)
        return self._functions[name]

    def __getstate__(self) -> dict[str, Any]:
        """What pickling keeps: all that follows from the design is computed again."""
        return {own.name: getattr(self, own.name) for own in fields(self)} | {"_functions": {}}

    @cached_property
    def _limits(self) -> Mapping[str, Ends]:
        """The least and the largest numbers of each input."""
        return self._drawn(1)[0]

    @cached_property
    def _given(self) -> dict[str, Ends]:
        return checked_ranges(shapes_of(self.model, self.wrenches), self.ranges)

    def _drawn(self, states: int, seed: int = 1) -> tuple[dict[str, Ends], dict[str, np.ndarray]]:
        given = shapes_of(self.model, self.wrenches), self._given, seed, states
        return input_ranges(self.model, *given, variant=self.wrenches)

    def samples(self, function: str, states: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Random states within the ranges of a function's inputs, by name."""
        check_function(function, self.functions)
        own = variant_of(function, self.wrenches)
        found = self._drawn(counted("states", states), seed)[1]
        return {name: found[name] for name in input_shapes(self.model, own)}

    def tasks(self, count: int, seed: int = 1) -> list[Task]:
        """Random tasks of all functions, in random order."""
        rng, found, count = np.random.default_rng(seed), list[Task](), counted("count", count)
        names = [self.functions[n] for n in rng.integers(0, len(self.functions), count)]
        samples = {name: self.samples(name, count, seed) for name in set(names)}
        for n, name in enumerate(names):
            found.append(Task(name, {key: x[n] for key, x in samples[name].items()}))
        return found

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
        if simulator not in SIMULATORS:
            raise ValueError(f"simulator is {shown(simulator)}: {one_of(simulator, SIMULATORS)}")
        stalls, seed = whole("stalls", stalls, *STALLS), whole("seed", seed, *SEEDS)
        batch, circuit_ = self._words.batch(tasks), folder.simulated(self.circuit)
        given = self._words.given(batch)
        check_after(after, len(batch.names))
        if after is not None:
            if simulator != "verilator" or len(batch.rows) > 1:
                wanted = "a task or None for each of tasks of one function, in Verilator"
                raise ValueError(f"after is {shown(after)}: wanted {wanted}")
            behind = np.array([0 if n is None else n + 1 for n in after])
            found = simulate.in_verilator(circuit_, given, stalls, seed, behind)
        elif simulator == "icarus":
            found = simulate.in_icarus(circuit_, given, stalls, seed)
        else:
            found = simulate.in_verilator(circuit_, given, stalls, seed)
        return self._words.run(batch, found)

    @cached_property
    def _words(self) -> TaskWords:
        # Arrays have the formats of their circuits already, those of one kernel in all limbs.
        whole = self.datapath if self.organisation else narrowed(self.datapath)
        return TaskWords(self.model, self.network, whole, self.wrenches)

    def expected(
        self, tasks: Sequence[Task | tuple[str, Mapping[str, Any]]]
    ) -> list[dict[str, np.ndarray]]:
        """Returns what the circuit gives for tasks, as integers by name, by the golden model."""
        return self._words.expected(self._words.batch(tasks))

    def board(self, width: int = 512) -> Board:
        """The design between AXI4-Stream ports with TDATA of `width` bits and registers on
        AXI4-Lite, as `Accelerator.board`; entries are packed. A task's `function` is its code, of
        `network.codes`, inputs that this has not are ignored, and entries that its result has not
        are NaN.
        """
        wrapped = WrappedCore(core_of_functions(self), width, "packed")
        return Board(wrapped, self._samples_and_results, self.device.part)

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all inputs that functions read, by name."""
        own = [variant_of(name, self.wrenches) for name in self.functions]
        read = {name for variant in own for name in input_shapes(self.model, variant)}
        shapes = shapes_of(self.model, self.wrenches)
        return {name: shape for name, shape in shapes.items() if name in read}

    def narrowed(self, function: str) -> Datapath:
        """The datapath of a function in the formats of the circuit."""
        return self._words.evaluator(function).datapath

    def _samples_and_results(self, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Random tasks and their results, as numbers by name, all of one function: in the order of
        tasks.
        """
        name = self.functions[0]
        states, datapath = self.samples(name, count), self.narrowed(name)
        integers = quantised(datapath, states)[0]
        results = floats(datapath, self._words.evaluator(name)(integers).integers)
        head = {"function": np.full(count, self.network.codes[name]), "tag": np.arange(count)}
        return head | states, head | results

    def write(self, folder_: str | Path, tasks: int = 20) -> list[Path]:
        """Writes the sources, a test bench with random tasks, constraints and the report with all
        places of words into a folder and returns the files. `iverilog -g2012 *.sv` there makes a
        simulation that says how many tasks passed. Raises ValueError for a folder that cannot be
        written to, or holds another design.
        """
        batch = self._words.batch(self.tasks(counted("tasks", tasks)))
        vectors = self._words.given(batch), self._words.wanted(batch)
        return folder.write(self.circuit, folder_, vectors, self.facts, self.device.constraints)

    def report(
        self, file: str | Path, tasks: Sequence[str] | None = None, front: Front | None = None
    ) -> Path:
        """Writes a page about the design, which needs no other file, for a browser: stations, links
        and the way of each function, arrays and modules, the timeline of tasks, how busy units are,
        what modules need, errors, and the roof of words. Returns the file.

        tasks: the functions of the tasks of the timeline, all of them in turn by default. front:
        the designs around it, as `accelerator.front` gives them for all functions; their search
        takes minutes, so that there are none by default. Raises TypeError for what is no front,
        ValueError for that of something else and for a file that cannot be written.
        """
        names = self._in_turn(tasks)
        robot = page.Robot(self.model.name, self.model.joint_names, self.model.parent)
        found = self.schedule(names)
        options = self.network, self.cost, robot, self.facts, names, found, [*self._errors()]
        around = [] if front is None else self._marks(front)
        figure = None if self.organisation is None else figure_of(self.organisation)
        return written(file, page.network_page(*options, around, LINK, figure))

    def _marks(self, front: Front) -> list[Mark]:
        """The designs of a front, for charts. Raises ValueError for those of something else."""
        told = TOGETHER if self.functions == tuple(SHARES) else ", ".join(self.functions)
        of = self.model.name, told, self.device.name, self.clock
        return marks(front, of, self.choices, self.interval)

    def trace(self, file: str | Path, tasks: Sequence[str] | None = None, **options: Any) -> Path:
        """Writes a trace, which https://ui.perfetto.dev opens: tasks on their way through stations,
        by the cycle model. Returns the file.

        tasks: their functions, in the order in which they come, all of them in turn by default;
        options: those of `schedule`. Raises ValueError for a file that cannot be written.
        """
        names = self._in_turn(tasks)
        spans = traces.network_spans(self.network, self.schedule(names, **options), names)
        data = traces.trace([*spans], self.clock, {"design": self.name, "summary": self.summary})
        return written(file, json.dumps(data, separators=(",", ":")) + "\n")

    def _in_turn(self, tasks: Sequence[str] | None) -> list[str]:
        """The functions of the tasks of a timeline: all of them twice by default."""
        return [*self.functions, *self.functions] if tasks is None else listed("tasks", tasks)

    def _errors(self) -> Iterator[page.Error]:
        """Yields the errors of each result of each function, over random states and proved."""
        for name in self.functions:
            function = self.function(name)
            found, bounds = function.errors(**self.samples(name, STATES)), function.error_bounds()
            for output, largest in found.largest.items():
                magnitude, bound = found.magnitude[output], bounds[output]
                proved = bound if bound <= magnitude else None
                yield page.Error(name, output, magnitude, found.median[output], largest, proved)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The report as data."""
        graph, needed = self.datapath.graph, self.cost.total
        microseconds = {name: n * self.clock * 1e-3 for name, n in self.latency.items()}
        return {
            "robot": self.model.name,
            "functions": list(self.functions),
            **self.choices,
            "joints": list(self.model.joint_names),
            "ranges": {name: [x.tolist() for x in ends] for name, ends in self._limits.items()},
            "made_by": f"featherlane {featherlane.__version__}",
            "device": self.device.name,
            "delays": self.device.model,
            "clock_ns": self.clock,
            "interval": self.interval,
            "tasks_per_second": {
                name: 1e9 / (self.clock * self.interval * SHARES[name].passes)
                for name in self.functions
            },
            "tasks_under_way": self.network.depth,
            "latency": self.latency,
            "latency_us": microseconds,
            "operations": dict(Counter(op for op in graph.op if op not in ("input", "constant"))),
            "needs": {"dsps": needed.dsps, "luts": round(needed.luts), "ffs": round(needed.ffs)},
            "percent_of_device": dict(
                zip(("dsps", "luts", "ffs"), self.cost.shares[:3], strict=True)
            ),
        }

    @property
    def summary(self) -> str:
        """A line with the main figures."""
        slowest = max(self.latency.values())
        return (
            f"{len(self.functions)} functions at interval {self.interval}, "
            f"{min(self.latency.values())} to {slowest} cycles of {self.clock:g} ns, "
            f"{self.cost.told(1)}"
        )

    def __str__(self) -> str:
        """The figures, a line each."""
        rows = [f"{self.name}: {self.summary}"]
        for name, n in self.latency.items():
            time, rate = n * self.clock * 1e-3, self.facts["tasks_per_second"][name] / 1e6
            rows.append(f"{name:<36}{n:>5} cycles {time:8.3f} us {rate:8.1f} M/s")
        return "\n".join([*rows, str(self.cost)])


def multifunction(
    model: Model,
    functions: Sequence[str] | None = None,
    *,
    interval: int = 1,
    format: str = "q16.16",
    device: str = "xcvu9p",
    delays: str | None = None,
    clock: float = 125.0,
    sharing: str = "module",
    spare: float = 0.0,
    algorithm: str | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    tag_bits: int = 16,
    f_ext: WrenchFrame | None = None,
    frames: Sequence[str] = (),
    name: str | None = None,
    arrays: str | None = None,
) -> Multifunction:
    """Returns several functions of a robot in one design, which takes a task of any of them every
    `interval` clock cycles; the derivatives of forward dynamics pass it twice.

    functions: some of "inverse_dynamics", "forward_dynamics", "mass_matrix",
    "mass_matrix_inverse", "inverse_dynamics_derivatives", "forward_dynamics_derivatives_from" and
    "forward_dynamics_derivatives"; all seven if None. spare: a share by which the
    units of each kind may be more than tasks need, where that shortens the latency, such as 0.1.
    algorithm: of M^-1, "deferred" (the shortest path), "factor" (the fewest products) or "bounded"
    (what proved formats take). ranges: (low, high) of q, v, a, tau, minv and f_ext by name;
    accelerations and M^-1 that come back for a second pass saturate at the formats of a and minv.
    tag_bits: of a number that comes with a task and leaves with its result, since tasks of
    different functions overtake each other. arrays: None for two flat pipelines; "auto" for arrays
    in both: limbs that are alike take turns in what walks the tree, and columns in the product with
    M^-1, each where that needs less (`print(result.organisation)` says why): a fraction of the LUTs
    at long intervals, for robots with many joints. They take uniform and fitted formats, M^-1 by
    its factor, no wrenches, friction or joints that share coordinates; `sharing` is then "whole" in
    each array. f_ext, frames: for the functions that take wrenches; they and the other arguments
    are those of `accelerator`.

    Raises CompileError for what no circuit computes, and for a design that the device cannot hold,
    with the interval that would do.

    Examples:
        >>> both = fl.multifunction(arm, ["inverse_dynamics", "mass_matrix"], interval=4)
        >>> both.interval
        4
    """
    check_choices(model, interval, sharing, clock)
    from featherlane.backends.c.names import identifier

    chosen = _chosen(functions)
    if not isinstance(tag_bits, int) or not 1 <= tag_bits <= 32:
        raise ValueError(f"tag_bits is {shown(tag_bits)}: wanted a whole number from 1 to 32")
    if not isinstance(spare, Real) or isinstance(spare, bool) or not 0 <= float(spare) <= 4:
        raise ValueError(f"spare is {shown(spare)}: wanted a share, such as 0.1")
    if arrays not in (None, AUTO):
        wanted = f"wanted None or {AUTO!r}, limbs and columns in turn"
        raise ValueError(f"arrays is {shown(arrays)}: {wanted}")
    if algorithm is None:
        kind = Formats.named(format).kind
        algorithm = FACTOR if arrays else BOUNDED if kind == PROVED else DEFERRED
    if algorithm not in METHODS:
        raise ValueError(f"algorithm is {shown(algorithm)}: {one_of(algorithm, METHODS)}")
    top = identifier(f"{model.name}_functions") if name is None else name
    check_name(top)
    wrenches = with_wrenches(NO_WRENCHES, f_ext, frames)
    check_variant(model, wrenches)
    target = devices.load(device, delays, 1e3 / clock)
    given = checked_ranges(shapes_of(model, wrenches), ranges)
    choices = {
        "format": format, "sharing": "whole" if arrays else sharing, "spare": float(spare),
        "algorithm": algorithm, "f_ext": f_ext, "frames": [*frames], "arrays": arrays,
    }  # fmt: skip
    options = top, target, choices["sharing"], chosen
    if arrays:
        if f_ext:
            raise ValueError(f"f_ext is {f_ext!r}: arrays take no wrenches")
        if spare:
            raise ValueError(f"spare is {spare:g}: arrays have spare units of their own")
        cut = functions_in_arrays(model, chosen, format, given, algorithm, target)
        found = cut.at(int(interval))
        own = _in_arrays(ArrayNetworkDesigner(*options, tag_bits=int(tag_bits)), found)
    else:
        datapath = datapath_of(model, chosen, format, algorithm, given, wrenches)
        flat = NetworkDesigner(*options, sorted({0.0, float(spare)}), int(tag_bits))
        own = _Computed(*_fitting(flat, datapath, int(interval)))
    return Multifunction(
        top,
        model,
        chosen,
        target,
        own.datapath,
        own.network,
        circuit(own.network),
        own.cost,
        ranges or {},
        choices,
        wrenches,
        own.organisation,
    )


class _Computed(NamedTuple):
    """What a design consists of; the others are those of a Multifunction."""

    network: Network
    cost: DesignCost
    datapath: Datapath
    organisation: Organisation | None = None


def _in_arrays(designer: ArrayNetworkDesigner, found: Organisation) -> _Computed:
    """Returns the design of an organisation. Raises CompileError for constants, and if it does not
    fit.
    """
    check_constants(found.model.name, designer.functions, found.design.whole.graph)
    network, cost, cut = _fitting(designer, found.design, found.interval)
    return _Computed(network, cost, cut.whole, replace(found, design=cut))


def _chosen(functions: Any) -> tuple[str, ...]:
    """The functions in the order of their codes."""
    if functions is None:
        return tuple(SHARES)
    if isinstance(functions, str) or not functions or not {*functions} <= {*SHARES}:
        wanted = f"wanted some of {', '.join(SHARES)}"
        raise ValueError(f"functions is {shown(functions)}: {wanted}")
    return tuple(name for name in SHARES if name in functions)


def datapath_of(
    model: Model,
    functions: Sequence[str],
    format: str,
    method: str,
    given: dict[str, Ends],
    wrenches: Variant = NO_WRENCHES,
) -> Datapath:
    """A pass with its formats. Those that are sampled are of tasks of both kinds: with an
    acceleration, and with the torques for one.
    """
    kind, data, small = Formats.named(format)
    samples, bounds = pass_ranges(model, given, wrenches)
    if method == BOUNDED and tree_of(model).coupled:
        raise CompileError(f"algorithm is {method!r}: joints of {model.name!r} share coordinates")
    graph = all_functions_graph(model, functions, method, bounds, wrenches)
    check_constants(model.name, functions, graph)
    if kind == PROVED:
        return proved(graph, bounds, data, small)
    if kind == FITTED:
        read = {name: samples[name] for name in graph.inputs}
        return fitted(graph, read, data, small, inputs=bounds)
    return uniform(graph, kind)


def check_constants(robot: str, functions: Collection[str], graph: Graph) -> None:
    """Raises CompileError for functions of which an output is constant, of their own or of what
    they are computed from: no stream has it; and where nothing depends on the state.
    """
    if not {"q", "v", "f_ext"} & {graph.value[k][0] for k in graph.nodes_of("input")}:
        wanted = "wanted fl.accelerator, a function at a time, for what is not constant"
        raise CompileError(f"no function of {robot} depends on q or v: {wanted}")
    constant = {
        output
        for output, (_, nodes) in graph.outputs.items()
        if all(graph.op[k] == "constant" for k in nodes)
    }
    left = [name for name in functions if not constant & {*outputs_of([name])}]
    if len(left) < len(functions):
        out = ", ".join(name for name in functions if name not in left)
        wanted = f"wanted functions={left}" if left else "nothing is left to compute"
        raise CompileError(f"constant outputs in {out} of {robot}, or what they need: {wanted}")


def _fitting(
    designer: NetworkDesigner | ArrayNetworkDesigner,
    datapath: Any,
    interval: int,
) -> tuple[Network, DesignCost, Any]:
    """The network at an interval, its cost, and the datapath, or arrays, that it computes. Raises
    CompileError if it does not fit, with an interval that does.
    """
    found = _, needed, _ = designer.best(datapath, interval)
    if needed.fits:
        return found
    would, _ = interval_that_fits(replace(designer, runs=1), datapath, interval, needed)
    flat = isinstance(designer, NetworkDesigner) and needed.shares.luts > 100
    fewer = f", arrays={AUTO!r} fewer LUTs at long intervals" if flat else ""
    raise CompileError(
        f"{len(designer.functions)} functions at interval {interval} take {needed.told(0)}: "
        f"{would}; formats with fewer bits need fewer DSPs{fewer}"
    )
