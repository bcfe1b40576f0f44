"""Are the DSPs, LUTs and flip-flops that are told of a pipeline those that Yosys finds?

A module of each class (modules that are equal up to constants and signs) of derivatives of forward
dynamics from M^-1, for the XCVU9P: predicted (`backends.fpga.cost`) beside Yosys 0.70, and both in
sum. The smallest modules come first; what is synthesised once is read from the cache. A class takes
5 to 70 seconds of one core, those of large robots more: --classes and --minutes leave out the rest,
the largest; --spread takes some of all sizes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import options
import synthesis

from featherlane.api.fixed import fixed_function
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices, verilog
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.fuse import fused
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.functions.table import Variant
from featherlane.program.analysis.modulo import by_call, pipelined

DEVICE, CLOCK = "xcvu9p", 8.0  # ns
SLACK = 12  # cycles, for sums in post-adders at intervals above 1
FORMATS = ("q16.16", "fitted")
DIFD = "forward_dynamics_derivatives_from"
WANTED = 0.15  # of Yosys's counts
HEAD = ("robot", "format", "interval", "class", "modules", "DSPs", "Yosys", "LUTs", "Yosys", "FFs")
Row = dict[str, Any]


class Class(NamedTuple):
    """Modules of a design that are alike, the first of which is synthesised."""

    robot: str
    form: str
    interval: int
    design: verilog.Design
    modules: list[str]
    predicted: Resources

    @property
    def size(self) -> int:
        """The text of a module, which says how long Yosys takes."""
        return len(self.design.sources[f"{self.modules[0]}.sv"])


def main() -> int:
    parser = options.parser(
        __doc__,
        robots=["iiwa14"],
        intervals=[4, 12],
        classes=0,
        spread=0,
        minutes=0.0,
        quick=False,
        json=None,
    )
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    args = parser.parse_args()
    limit = time.monotonic() + 60 * (args.minutes or 1e6)
    count = 3 if args.quick else args.classes
    rows: list[Row] = []
    print(f"| {' | '.join([*HEAD, 'Yosys'])} |\n|{'---|' * (len(HEAD) + 1)}")
    for robot in args.robots:
        for form in args.formats:
            for interval in [12] if args.quick else args.intervals:
                found = sorted(classes_of(robot, form, interval), key=lambda own: own.size)
                some = spread(found, args.spread) if args.spread else found[:count]
                rows += told(some, len(found), limit)
    options.write_json(args.json, rows, device=DEVICE)
    return 0


def spread(found: Sequence[Class], count: int) -> list[Class]:
    """Returns so many classes, evenly over their order."""
    last = len(found) - 1
    return [found[n] for n in sorted({round(k * last / max(count - 1, 1)) for k in range(count)})]


def told(found: list[Class], whole: int, limit: float) -> Iterator[Row]:
    """Prints and yields what each class takes, and prints the sums."""
    sums, beyond, count = (NOTHING, NOTHING), [0, 0, 0], 0
    for own in found:
        if time.monotonic() > limit:
            break
        sources = synthesis.module_sources(own.design, own.modules[0])
        counted = synthesis.synthesised(sources, own.modules[0])
        row = figures(own, counted)
        print(f"| {' | '.join(map(str, row.values()))} |", flush=True)
        yield row
        sums, count = (sums[0] + own.predicted, sums[1] + counted), count + 1
        for n in range(3):
            beyond[n] += abs(own.predicted[n] - counted[n]) > WANTED * counted[n]
    print(
        f"\n{count} of {whole} classes. DSPs, LUTs, FFs: "
        + ", ".join(
            f"{p:,.0f} predicted, {y:,.0f} by Yosys" for p, y in list(zip(*sums, strict=True))[:3]
        )
        + f"; beyond {WANTED:.0%}: {beyond}\n"
    )


def figures(own: Class, counted: Resources) -> Row:
    row = {
        "robot": own.robot,
        "format": own.form,
        "interval": own.interval,
        "class": own.modules[0].removeprefix(f"{own.design.name}_"),
        "modules": len(own.modules),
    }
    for n, name in enumerate(("DSPs", "LUTs", "FFs")):
        row |= {name: round(own.predicted[n]), f"{name}, Yosys": round(counted[n])}
    return row


def classes_of(robot: str, form: str, interval: int) -> Iterator[Class]:
    device = devices.load(DEVICE)
    model = options.loaded(robot)
    plain = fixed_function(model, Variant(DIFD), form, None).datapath
    datapath = narrowed(fused(plain, device, SLACK if interval > 1 else 0))
    operators, pools = devices.operators(datapath, device), by_call(datapath.graph)
    pipeline = pipelined(datapath.graph, operators, CLOCK, interval, pools)
    design = verilog.design("d", datapath, pipeline, device.tile)
    predicted = cost(design, device).modules
    for modules in synthesis.class_modules(design):
        if modules:
            yield Class(robot, form, interval, design, modules, predicted[modules[0]])


if __name__ == "__main__":
    sys.exit(main())
