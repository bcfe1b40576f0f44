"""What do arrays by the robot's structure save on an FPGA: limbs in turn, streams, another root?

"flat" is one pipeline with one pool of multipliers, "arrays" a pipeline for each trunk, and one for
limbs that are alike, in turn, "columns" and "pairs" streams of the columns of a product with M^-1
and of the pairs of freedoms in derivatives; "fused" are those with as many sums as may be in the
post-adders of DSPs. DSPs are counted, LUTs and flip-flops estimated by the cost model, with what
lies between arrays. Cycles are those from operands to results. 125 MHz, an XCVU9P; divisions of
M^-1 by the factor.

`--simulate` runs the arrays' sources in Verilator too, back to back and with half of the cycles of
both streams paused, and compares each bit with the golden model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import options

import featherlane as fl
from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.designers import Designer
from featherlane.accelerators.formats import array_formats
from featherlane.accelerators.organise.arrays import arrays
from featherlane.accelerators.organise.organisation import organise
from featherlane.accelerators.organise.streams import STREAMS, streamed
from featherlane.api.fixed import fixed_function, input_ranges
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fpga import pipeline_folder, words
from featherlane.backends.fpga.arrays.design import ArrayDesign
from featherlane.backends.fpga.simulation import simulate
from featherlane.functions.circuits import CIRCUITS, FACTOR
from featherlane.functions.table import Variant

DEVICE = "xcvu9p"
RUNS = 4  # schedules of each pipeline
PAUSES = 128  # of 256 cycles
ID, DID, MINV = "inverse_dynamics", "inverse_dynamics_derivatives", "mass_matrix_inverse"
FD, DIFD = "forward_dynamics", "forward_dynamics_derivatives_from"
Row = dict[str, Any]
BOTH = "flat flat,fused arrays arrays,fused"
CASES: list[tuple[str, str, str, list[int]]] = [
    *(("hyq:free", function, BOTH, [12]) for function in (ID, DID, DIFD, MINV, FD)),
    *(
        (name, DIFD, "columns columns,fused", [n])
        for name, n in (("hyq:free", 12), ("atlas:free", 32))
    ),
    *(("iiwa14", DIFD, form, [12, 14]) for form in ("flat", "columns")),
    ("iiwa14", DID, "pairs", [14]),
    *(("atlas:free", function, BOTH, [32]) for function in (ID, DID, MINV, FD, DIFD)),
]
HEAD = "robot | function | form | interval | products | cycles | DSPs | LUTs | FFs | seconds"


def main() -> int:
    parser = options.parser(__doc__, robots=(), quick=False, json=None)
    parser.add_argument("--functions", nargs="*", help="only these")
    parser.add_argument("--forms", nargs="*", help="only these")
    parser.add_argument("--format", default="fitted", help="of the signals")
    parser.add_argument("--simulate", type=int, default=0, metavar="STATES")
    args = parser.parse_args()
    rows: list[Row] = []
    print(f"| {HEAD} |\n|{'---|' * 10}")
    for name, function, forms, intervals in CASES[:1] if args.quick else CASES:
        if (args.robots and name not in args.robots) or function not in (
            args.functions or [function]
        ):
            continue
        for form in forms.split():
            if form not in (args.forms or [form]):
                continue
            print(f"{name} {function} {form}", file=sys.stderr, flush=True)
            for row in figures(
                options.loaded(name), function, form, intervals, args.format, args.simulate
            ):
                rows.append({"robot": name, **row})
                print(f"| {' | '.join(map(shown, rows[-1].values()))} |", flush=True)
    if not (args.quick or args.functions or args.forms):
        rows += roots(args.robots)
    options.write_json(args.json, rows, device=DEVICE)
    return 0


def shown(x: Any) -> str:
    return f"{x:,}" if isinstance(x, int) else f"{x:.1f}" if isinstance(x, float) else str(x)


def figures(
    model: fl.Model, function: str, form: str, intervals: list[int], format: str, states: int
) -> Iterator[Row]:
    kind, *sums = form.split(",")
    algorithm = FACTOR if FACTOR in CIRCUITS.get(function, {}) else None
    designer = Designer("robot", DesignSpec(device=DEVICE, sharing="whole"), RUNS)
    if kind == "flat":
        whole: Any = fixed_function(model, Variant(function), format, None, algorithm).datapath
        graphs = [whole.graph]
    else:
        assign = array_formats(model, Variant(function), format, None)
        if kind == "arrays":
            whole = arrays(model, function, algorithm, assign=assign)
        else:
            whole = streamed(model, function, STREAMS[kind], algorithm, assign)
        graphs = [kernel.datapath.graph for kernel in whole.kernels.values()]
    if sums:
        whole = designer.fused(whole)
    for interval in intervals:
        begin = time.process_time()
        made, cost = designer.design(whole, interval)
        found = cost.total
        yield {
            "function": function,
            "form": form,
            "interval": interval,
            "products": sum(graph.op.count("mul") for graph in graphs),
            "cycles": made.latency,
            "dsps": round(found.dsps),
            "luts": round(found.luts),
            "ffs": round(found.ffs),
            "seconds": time.process_time() - begin,
        }
        print(cost, file=sys.stderr, flush=True)
        if states and kind != "flat":
            simulated(model, function, made, states)


def simulated(model: fl.Model, function: str, made: ArrayDesign, states: int) -> None:
    """Compares the sources with the golden model. Raises AssertionError for a bit that differs."""
    shapes = made.datapath.graph.inputs
    _, given = input_ranges(model, shapes, {}, states=states, variant=Variant(function))
    integers, _ = quantised(made.datapath, given)
    wanted = Evaluator(made.datapath)(integers).integers
    with TemporaryDirectory() as place:
        pipeline_folder.write(
            made, place, *({n: x[:1] for n, x in v.items()} for v in (integers, wanted))
        )
        values = words.given_values(made.datapath, made.inputs, integers)
        for pauses in (0, PAUSES):
            found = simulate.verilator(place, values, pauses)
            results = words.results_of(made.datapath, made.outputs, found.values)
            for name, x in wanted.items():
                np.testing.assert_array_equal(results[name], x)
            cycles = found.emitted[-1] - found.accepted[0]
            entries = sum(x.size for x in wanted.values())
            told = f"{states} states, {entries:,} results, {cycles:,} cycles: every bit"
            print(f"  simulated, {pauses} of 256 cycles paused: {told}", flush=True)


def roots(robots: list[str] | None) -> list[Row]:
    """What roots, and modes of the root, take: cycles of the critical path and products."""
    rows: list[Row] = []
    print("\n| robot | mode | root | cycles of derivatives | products | longest branch |")
    print(f"|{'---|' * 6}")
    for name in ("hyq:free", "quadruped_arm:free", "atlas:free"):
        if robots and name not in robots:
            continue
        for x in organise(options.loaded(name), DID, interval=32).roots:
            rows.append({"robot": name, "mode": "computed", **x._asdict()})
            told = f"{name} | computed | {x.body} | {x.cycles} | {x.products:,} | {x.depth}"
            print(f"| {told} |", flush=True)
        for mode in ("prescribed", "ignored"):
            root = options.loaded(name).body_names[0]
            found = organise(options.loaded(name), DID, interval=32, root=root, mode=mode)
            products = found.design.datapath.graph.op.count("mul")
            rows.append({"robot": name, "mode": mode, "products": products})
            print(f"| {name} | {mode} | {found.root} | | {products:,} | |", flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
