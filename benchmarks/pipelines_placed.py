"""Which clock do the modules of pipelines reach on an ECP5-85k, placed and routed by open tools?

A module of each class (modules that are equal up to constants and signs), at the smallest interval
at which its multipliers fit the device and it can be routed, by itself, with its ports behind shift
registers: the clock is the one between registers. Yosys 0.70 and nextpnr-ecp5, speed grade 8, aimed
at 125 MHz, the first of four seeds that reaches it. The smallest modules come first; what is placed
once is read from the cache, with its seconds.
Formats: fitted with data of 18 or 27 bits and small numbers of 18, and Q16.16.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import options
import placement
import synthesis

from featherlane.api.fixed import fixed_function, input_ranges
from featherlane.backends.fixed.assign import fitted
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices, verilog
from featherlane.backends.fpga.report import module_tiles
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.program.analysis.modulo import by_call, pipelined

DEVICE, CLOCK = "ecp5_85k", 8.0  # ns
LONGEST = 16  # cycles of an interval
FORMATS = {"fitted, 18/18": 18, "fitted, 27/18": 27, "q16.16": None}
FUNCTIONS = ("inverse_dynamics", "forward_dynamics_derivatives_from")
HEAD = (
    "robot",
    "function",
    "format",
    "class",
    "interval",
    "MHz",
    "multipliers",
    "LUTs",
    "FFs",
    "seed",
    "s",
)
Row = dict[str, Any]


class Job(NamedTuple):
    """A module that is to be placed."""

    robot: str
    function: str
    form: str
    interval: int
    design: verilog.Design
    module: str

    @property
    def size(self) -> int:
        """The text of the module, which says how long the tools take."""
        return len(self.design.sources[f"{self.module}.sv"])


def main() -> int:
    args = options.parser(
        __doc__, robots=["iiwa14"], functions={*FUNCTIONS}, minutes=0.0, quick=False, json=None
    ).parse_args()
    limit = time.monotonic() + 60 * (args.minutes or 1e6)
    functions = [name for name in FUNCTIONS if name in args.functions]
    jobs = [
        job
        for robot in args.robots
        for function in functions
        for form in FORMATS
        for job in jobs_of(robot, function, form)
    ]
    jobs = sorted(jobs, key=lambda job: job.size)[: 3 if args.quick else None]
    rows: list[Row] = []
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for job in jobs:
        if time.monotonic() > limit:
            break
        rows.append(row := figures(job))
        print(f"| {' | '.join(map(str, row.values()))} |", flush=True)
    slow = [row for row in rows if row["MHz"] < 1e3 / CLOCK]
    print(f"\n{len(rows)} of {len(jobs)} modules, {len(slow)} of them below {1e3 / CLOCK:g} MHz")
    options.write_json(args.json, rows, device=DEVICE)
    return 0


def figures(job: Job) -> Row:
    """What is placed, at the next interval if it is never routed."""
    modules = synthesis.modules_of_unit(job.design, job.module)
    try:
        found = placement.placed(modules, job.module, 1e3 / CLOCK)
    except CompileError as error:
        print(f"{job.module} at {job.interval}: {error}", file=sys.stderr, flush=True)
        if job.interval == LONGEST:
            raise
        longer = job.interval + 1
        design = design_at(job.robot, job.function, job.form, longer)
        return figures(job._replace(interval=longer, design=design))
    cells = found.cells
    return {
        "robot": job.robot,
        "function": job.function,
        "format": job.form,
        "class": job.module.removeprefix(f"{job.design.name}_"),
        "interval": job.interval,
        "MHz": round(found.megahertz),
        "multipliers": cells.get("MULT18X18D", 0),
        "LUTs": cells.get("TRELLIS_COMB", 0),
        "FFs": cells.get("TRELLIS_FF", 0),
        "seed": found.seed,
        "seconds": round(found.seconds),
    }


@cache
def datapath_of(robot: str, function: str, form: str) -> Datapath:
    """The datapath of a function in one of FORMATS."""
    model, bits = options.loaded(robot), FORMATS[form]
    if bits is None:
        return narrowed(fixed_function(model, Variant(function), form, None).datapath)
    graph = fixed_function(model, Variant(function), "q16.16", None).datapath.graph
    return narrowed(fitted(graph, input_ranges(model, graph.inputs, {})[1], bits))


@cache
def design_at(robot: str, function: str, form: str, interval: int) -> verilog.Design:
    """A function as a pipeline, with multipliers shared by module."""
    datapath, device = datapath_of(robot, function, form), devices.load(DEVICE)
    operators, pools = devices.operators(datapath, device), by_call(datapath.graph)
    pipeline = pipelined(datapath.graph, operators, CLOCK, interval, pools)
    return verilog.design("d", datapath, pipeline, device.tile)


def jobs_of(robot: str, function: str, form: str) -> Iterator[Job]:
    """A module of each class, at the first interval at which it fits the device."""
    placed = set[int]()
    for interval in range(1, LONGEST + 1):
        design = design_at(robot, function, form, interval)
        found = synthesis.class_modules(design)
        for n, own in enumerate(found):
            fits = own and module_tiles(design, own[0]) <= devices.load(DEVICE).dsps
            if fits and n not in placed:
                placed.add(n)
                yield Job(robot, function, form, interval, design, own[0])
        waiting = sum(bool(own) for own in found) - len(placed)
        if not waiting:
            return
    raise CompileError(f"{waiting} classes do not fit the {DEVICE} at interval {LONGEST}")


if __name__ == "__main__":
    sys.exit(main())
