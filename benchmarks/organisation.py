"""What do arrays by the robot's structure save on an FPGA: limbs in turn, streams, another root?

"flat" is one pipeline with one pool of multipliers, "arrays" a circuit for each trunk and for limbs
that are alike one in turn, "columns" and "pairs" streams of the columns of a product with M^-1 and
of the pairs of freedoms in derivatives. DSPs are counted, LUTs and flip-flops estimated by the cost
model, with the registers of words, tables, shifts and sums that feed the turns. Cycles are those of
the longest way through the circuits; each waits for whole tasks. Q16.16, 125 MHz, an XCVU9P. FIFOs
between the arrays are not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import options

import featherlane as fl
from featherlane.backends.fpga import devices
from featherlane.functions.accelerator.arrays import arrays
from featherlane.functions.accelerator.built import Built, built, latency, needs
from featherlane.functions.accelerator.organisation import organise
from featherlane.functions.accelerator.streams import STREAMS, streamed

DEVICE = "xcvu9p"
DIFD, DID = "forward_dynamics_derivatives_from", "inverse_dynamics_derivatives"
Row = dict[str, Any]
CASES: list[tuple[str, str, str, list[int]]] = [
    ("hyq:free", "inverse_dynamics", "flat arrays", [12]),
    ("hyq:free", DID, "flat arrays", [12]),
    ("iiwa14", DIFD, "flat columns", [12, 14]),
    ("iiwa14", DID, "flat pairs", [12, 14]),
    ("hyq:free", DIFD, "flat columns", [12]),
    ("atlas:free", DID, "arrays organised flat", [32]),
]
HEAD = "robot | function | form | interval | products | cycles | DSPs | LUTs | FFs | seconds"


def main() -> int:
    args = options.parser(__doc__, robots=(), quick=False, json=None).parse_args()
    rows: list[Row] = []
    print(f"| {HEAD} |\n|{'---|' * 10}")
    for name, function, forms, intervals in CASES[:1] if args.quick else CASES:
        if args.robots and name not in args.robots:
            continue
        for form in forms.split():
            print(f"{name} {function} {form}", file=sys.stderr, flush=True)
            for row in figures(options.loaded(name), function, form, intervals):
                rows.append({"robot": name, **row})
                print(f"| {' | '.join(map(shown, rows[-1].values()))} |", flush=True)
    if not args.quick:
        rows += roots(args.robots)
    options.write_json(args.json, rows, device=DEVICE)
    return 0


def shown(x: Any) -> str:
    return f"{x:,}" if isinstance(x, int) else f"{x:.1f}" if isinstance(x, float) else str(x)


def figures(model: fl.Model, function: str, form: str, intervals: list[int]) -> Iterator[Row]:
    cut = FORMS[form](model, function)
    for interval in intervals:
        begin = time.monotonic()
        circuits: Mapping[Any, Built] = built(
            cut.datapath, cut.kernels, interval, devices.load(DEVICE)
        )
        found = needs(circuits)
        ops = [kernel.datapath.graph.op for kernel in cut.kernels.values()]
        yield {
            "function": function,
            "form": form,
            "interval": interval,
            "products": sum(own.count("mul") for own in ops),
            "cycles": latency(cut.kernels, circuits),
            "dsps": round(found.dsps),
            "luts": round(found.luts),
            "ffs": round(found.ffs),
            "seconds": time.monotonic() - begin,
        }


FORMS: dict[str, Callable[[fl.Model, str], Any]] = {
    "flat": lambda model, function: streamed(model, function, lambda call, tag: False),
    "arrays": arrays,
    "organised": lambda model, function: organise(model, function, interval=32).design,
    **{
        name: lambda model, function, kept=kept: streamed(model, function, kept)
        for name, kept in STREAMS.items()
    },
}


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
