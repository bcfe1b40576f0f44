"""How many cycles, units and DSPs do pipelines on an FPGA take, at which interval, and with which
algorithm?

Schedules of the datapaths of functions: no circuit is synthesised here. Cycles are those of the
datapath, operands present, with sine and cosine unless it says otherwise. Delays are assumptions
(backends/fpga/devices/xcvu9p.toml): at 125 MHz a product takes 3 cycles, two additions fit one,
sine and cosine take 8 cycles, a reciprocal 10; at 55.6 MHz a product takes 7 ns and a sum 2 ns
(pessimistic: 8 and 2.5 ns), chained, and sine and cosine are given. "with I/O" adds the time in
which a state's inputs and outputs, in words of 4 bytes, pass at 32 GB/s, each number once. DSPs
are counted, LUTs and flip-flops estimated, as shares of an XCVU9P. Multipliers are in one pool.
At 125 MHz sums of products are in the post-adders of DSPs, where that makes no path longer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import options

import featherlane as fl
from featherlane.api.fixed import entry_bounds, input_ranges
from featherlane.backends import reference
from featherlane.backends.fixed import evaluate
from featherlane.backends.fixed.assign import fitted, uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Bounds
from featherlane.backends.fpga import devices, verilog
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.fuse import fused
from featherlane.functions.circuits import CIRCUITS, algorithm_of, circuit_graph
from featherlane.functions.table import Variant
from featherlane.program.analysis.modulo import pipelined
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.graph import Graph
from featherlane.program.passes.guards import LOST
from featherlane.program.rewrite import entered, placed, simplify

DEVICE = "xcvu9p"
SLOW = 18.0  # ns
BANDWIDTH = 32e9  # bytes a second
WORD = 4  # bytes
SPARE = (0, 0.03, 0.1)  # more units than needed, where that shortens a pipeline
MORE = (0, 0.05, 0.15, 0.3)  # the same where latency is what counts
SLACK = 12  # cycles, for sums in post-adders at intervals above 1
FORMATS = ("q16.16", "fitted")
DIFD = "forward_dynamics_derivatives_from"
Row = dict[str, Any]
HEAD = (
    "robot | function | format | interval | cycles | us | us with I/O | M states/s | the same with "
)
HEAD += "I/O | multipliers | DSP % | LUT % | FF %"


def main() -> int:
    args = options.parser(
        __doc__, robots=["iiwa14"], functions={*fl.FUNCTIONS}, intervals=[1, 2, 4, 12],
        quick=False, json=None,
    ).parse_args()  # fmt: skip
    intervals = [12] if args.quick else args.intervals
    functions = [name for name in fl.FUNCTIONS if name in args.functions]
    if args.quick:
        functions = functions[:1]
    rows: list[Row] = []
    for name in args.robots:
        model = options.loaded(name)
        for title, found in (
            ("At 125 MHz", fast(name, model, functions, intervals)),
            ("At 55.6 MHz, sine and cosine given", slow(name, model, functions, intervals)),
        ):
            print(f"\n{title}\n\n| {HEAD} |\n|{'---|' * 13}")
            for row in found:
                rows.append(row)
                print(f"| {' | '.join(map(shown, row.values()))} |", flush=True)
        rows += variants(name, model, [1] if args.quick else [1, 12])
    options.write_json(args.json, rows, device=DEVICE)
    return 0


def shown(x: Any) -> str:
    return f"{x:.3g}" if isinstance(x, float) else str(x)


# Pipelines of functions


def fast(
    name: str, model: fl.Model, functions: Sequence[str], intervals: Sequence[int]
) -> Iterator[Row]:
    device = devices.load(DEVICE)
    for function in functions:
        print(f"{name} {function}", file=sys.stderr, flush=True)
        graph = prepared(in_circuits(model, Variant(function)))
        for form in FORMATS:
            datapath = in_format(model, graph, form)
            for interval in intervals:
                row = figures(datapath, device, interval, SPARE)
                yield {"robot": name, "function": function, "format": form, **row}


def slow(
    name: str, model: fl.Model, functions: Sequence[str], intervals: Sequence[int]
) -> Iterator[Row]:
    """Of derivatives of forward dynamics from M^-1 alone, which the papers give."""
    for delays in ("low_latency", "low_latency_pessimistic") if DIFD in functions else ():
        device = devices.load(DEVICE, delays, SLOW)
        graph = prepared(without_angles(in_circuits(model, Variant(DIFD))))
        for interval in intervals:
            row = figures(uniform(graph, "q16.16"), device, interval, MORE)
            told = f"{DIFD}, {delays.replace('_', ' ')}"
            yield {"robot": name, "function": told, "format": "q16.16", **row}


def in_circuits(model: fl.Model, variant: Variant) -> Graph:
    """The graph of a function by the algorithm that `fl.accelerator` takes."""
    return circuit_graph(model, variant, algorithm_of(model, variant, None, False), {})


def in_format(model: fl.Model, graph: Graph, form: str) -> Datapath:
    if form != "fitted":
        return uniform(graph, form)
    return fitted(graph, input_ranges(model, graph.inputs, {})[1])


def figures(
    datapath: Datapath, device: devices.Device, interval: int, spare: Sequence[float]
) -> Row:
    datapath = narrowed(fused(datapath, device, SLACK if interval > 1 else 0))
    pipeline = scheduled(datapath, device, interval, spare)
    made = verilog.design("pipeline", datapath, pipeline, device.tile)
    found = cost(made, device)
    moved = (len(made.inputs) + len(made.outputs)) * WORD / BANDWIDTH  # seconds
    return {
        "interval": interval,
        "cycles": pipeline.latency,
        "us": pipeline.time,
        "us_with_io": pipeline.time + moved * 1e6,
        "million_a_second": pipeline.throughput / 1e6,
        "million_a_second_with_io": min(pipeline.throughput, 1 / moved) / 1e6,
        "multipliers": sum(n for kind, n in pipeline.kinds.items() if kind[:8] == "multiply"),
        "dsp_percent": round(found.shares.dsps, 1),
        "lut_percent": round(found.shares.luts, 1),
        "ff_percent": round(found.shares.ffs, 1),
    }


def scheduled(
    datapath: Datapath, device: devices.Device, interval: int, spare: Sequence[float]
) -> Pipeline:
    own = devices.operators(datapath, device)
    pipeline = pipelined(datapath.graph, own, device.clock, interval, spare=spare)
    pipeline.verify()
    return pipeline


def without_angles(graph: Graph) -> Graph:
    """Returns the graph with sines and cosines as inputs."""
    new, place = Graph(), list[int]()
    angles = [k for k, op in enumerate(graph.op) if op in ("sin", "cos")]
    for name, shape in graph.inputs.items():
        new.declare(name, shape)
    known = dict(zip(angles, new.declare("sin_cos", (len(angles),)), strict=True))
    for k, op in enumerate(graph.op):
        new.current_tag = graph.tag[k]
        if op == "input":
            place.append(new.node("input", value=graph.value[k]))
        else:
            operands = [place[a] for a in graph.args[k]]
            place.append(known[k] if k in known else entered(graph, new, k, operands))
    new.outputs = placed(graph.outputs, place)
    return simplify(new)


# Algorithms for one function


def algorithms_of(model: fl.Model, bounds: Bounds) -> Iterator[tuple[str, str, Graph]]:
    """Yields the name of each function that has several algorithms, theirs, and their graphs."""
    for function, known in CIRCUITS.items():
        for name in known:
            yield function, name, circuit_graph(model, Variant(function), name, bounds)


def variants(name: str, model: fl.Model, intervals: Sequence[int]) -> list[Row]:
    """Prints and returns what each algorithm takes at 125 MHz in Q16.16, and its errors in fitted
    formats.
    """
    print("\nAlgorithms, at 125 MHz in Q16.16; errors in fitted formats\n")
    cycles = [f"cycles at interval {n}" for n in intervals]
    head = ["robot", "function", "algorithm", "products", "additions", "reciprocals", *cycles]
    head += ["error, median", "error, largest"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    rows, device = list[Row](), devices.load(DEVICE)
    bounds = entry_bounds(input_ranges(model, {"q": (model.nq,)}, {})[0])
    for function, title, graph in algorithms_of(model, bounds):
        graph = prepared(graph)
        datapath = uniform(graph, "q16.16")
        own = devices.operators(datapath, device)
        row = {
            "robot": name,
            "function": function,
            "algorithm": title,
            "products": sum(bool(o and o.kind[:8] == "multiply") for o in own),
            "additions": sum(bool(o and o.kind == "add") for o in own),
            "reciprocals": graph.op.count("div"),
        }
        for interval in intervals:
            found = scheduled(datapath, device, interval, SPARE)
            row[f"cycles at interval {interval}"] = found.latency
        row["median_error"], row["largest_error"] = errors(model, graph)
        rows.append(row)
        print(f"| {' | '.join(map(shown, row.values()))} |", flush=True)
    return rows


def errors(model: fl.Model, graph: Graph) -> tuple[float, float]:
    """Returns the median and the largest of the largest errors of each state's results, in fitted
    formats against float64.
    """
    states = input_ranges(model, graph.inputs, {}, seed=1)[1]
    datapath, exact = in_format(model, graph, "fitted"), reference.evaluate(graph, states)
    found = evaluate.floats(datapath, evaluate.evaluate(datapath, states).integers)
    results = [name for name in exact if name != LOST]
    each = [np.abs(found[k] - exact[k]).reshape(len(exact[k]), -1).max(1) for k in results]
    largest = np.max(each, axis=0)
    return float(np.median(largest)), float(largest.max())


if __name__ == "__main__":
    sys.exit(main())
