"""The tables of Dadu-RBD (2023), section VI, again: how long do the seven functions take on an
XCVU9P, how many tasks a second are done in batches, and what do they need?

    python benchmarks/accelerators.py
    python benchmarks/accelerators.py --robots iiwa14 --json iiwa14.json

Of each function there is the pipeline of the smallest interval that fits into 65 % of the DSPs and
into the LUTs and flip-flops, at 125 MHz. DSPs are counted, LUTs and flip-flops estimated, delays
are a model (backends/fpga/devices/xcvu9p.toml). Times are those of the cycle model, which simulated
circuits keep to the cycle (tests/test_accelerator_page.py), with the words of tasks at 32 GB/s: a
task enters every `interval` cycles, or as its words come. A CPU's rates are those of this machine
in the same run. No GPU was measured; figures of the papers are quoted, and marked so.

Energy is an estimate: power is STATIC and, for each DSP, LUT and flip-flop at work in a cycle, the
energies below, whose ratios are assumptions and whose scale is such that a design of the size of
Dadu-RBD's (62 % of the DSPs, 54 % of the LUTs, 17 % of the flip-flops, all at work at 125 MHz)
takes the 36.8 W that are the most it gives. Bytes to and from memory take what DDR4 is said to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import options
from robots import SHORT, chosen, machine_lines, say, table

import featherlane as fl
from featherlane.api.design_space import Front, Point
from featherlane.backends.fpga import devices
from featherlane.tools import timing

CLOCK = 8.0  # ns
LINK = 32.0  # bytes a nanosecond
WORD = 4
STREAM = 2  # cycles of the streams
MOST = 65.0  # % of the DSPs
LONGEST = 512  # cycles of an interval
FORMATS = "q16.16", "fitted"
BATCHES = 1, 4, 16, 64, 256, 1024, 4096
CPU_BATCHES = 1, 256, 4096
ROBOTS = "iiwa14", "hyq:free", "atlas:free"
DERIVATIVES = "dID", "diFD", "dFD"
# Energy: watts, and picojoules of a DSP, a LUT and a flip-flop at work in a cycle, and of a byte
STATIC, DSP, LUT, FF, BYTE = 3.0, 18.0, 0.27, 0.045, 120.0
PAPER = """\
Quoted from Dadu-RBD (2023), section VI, of an XCVU9P at 125 MHz, with I/O at 32 GB/s: diFD of the
iiwa takes 0.76 us (Robomorphic, at 56 MHz: 0.61 us); the design takes 62 % of the DSPs, 17 % of the
flip-flops and 54 % of the LUTs, and 6.2 W to 36.8 W by function, 31.2 W for diFD (Robomorphic:
9.6 W). Its throughput in batches of 256 is 8.1 to 43.6 times that of Pinocchio on an AGX Orin (19.2
on average), 4.1 to 20.2 times that on an i9-13900HX with 32 threads (8.2), 3.5 to 13.4 times that
of GRiD on an AGX Orin (7.2) and 0.5 to 2.8 times that on an RTX 4090 Mobile (1.4), which is faster
from batches of 512 on. Its latency is 0.34 to 1.91 times that of the i9 (0.82). diFD in batches is
6.3 to 7.0 times as fast as on Robomorphic's FPGA: with 0.61 us a task there, about 10.8 million a
second. Its other figures are drawn, not told."""


class Words(NamedTuple):
    """The time, in cycles, in which a task's inputs and results pass."""

    words: float
    packed: float

    @staticmethod
    def of(point: Point) -> Words:
        a_cycle = LINK * CLOCK
        return Words(WORD * point.words / a_cycle, point.bits / 8 / a_cycle)


def rate(point: Point, batch: int, words: float) -> float:
    """Million tasks a second in batches. words: cycles in which those of a task pass."""
    enters = max(point.interval, words)
    cycles = words + point.latency + STREAM + (batch - 1) * enters
    return batch / (cycles * CLOCK) * 1e3


def energy(point: Point, words: Words) -> float:
    """Microjoules a task, where tasks come as fast as they can."""
    device = devices.load("xcvu9p")
    cycles = max(point.interval, words.packed)
    dynamic = (
        DSP * point.dsps + LUT * device.luts * point.luts / 100 + FF * device.ffs * point.ffs / 100
    ) * point.interval + BYTE * point.bits / 8
    return STATIC * cycles * CLOCK * 1e-3 + dynamic * 1e-6


def smallest(model: fl.Model, function: str, form: str) -> tuple[Point | None, Front]:
    """The design of the smallest interval that fits, by bisection: longer ones need less."""
    look = partial(fl.accelerator.front, model, function, formats=(form,))
    algorithms = {"algorithms": None if function not in CHOSEN else (CHOSEN[function],)}
    fits = lambda front: [p for p in front.points if p.fits and p.dsp <= MOST]
    low, high, found = 0, 1, look(intervals=(1,), **algorithms)
    while not fits(found) and high < LONGEST:
        least = min(max(p.dsp / MOST, p.luts / 100, p.ffs / 100) for p in found.points)
        low, high = high, max(high + 1, ceil(high * min(least, 4)))
        found = look(intervals=(high,), **algorithms)
    while high - low > 1:
        middle = (low + high) // 2
        tried = look(intervals=(middle,), **algorithms)
        low, high, found = (low, middle, tried) if fits(tried) else (middle, high, found)
    best = min(fits(found), key=lambda p: p.latency, default=None)
    return best, found


# The algorithms of the fewest products, where others make much larger designs
CHOSEN = {
    "inverse_dynamics": "serial",
    "inverse_dynamics_derivatives": "common",
    "forward_dynamics_derivatives_from": "common",
    "mass_matrix_inverse": "deferred",
    "forward_dynamics": "deferred",
    "forward_dynamics_derivatives": "deferred",
}


def rows_of(
    robot: str, model: fl.Model, functions: Sequence[str], forms: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for function in functions:
        for form in forms:
            say(f"{robot} {SHORT[function]} {form}")
            point, front = smallest(model, function, form)
            if point is None:
                least = min(front.points, key=lambda p: p.dsp, default=None)
                told = str(least) if least else "; ".join(front.refused.values())
                say(f"  no interval up to {LONGEST} fits: {told}")
                continue
            words = Words.of(point)
            yield {
                "robot": robot,
                "function": SHORT[function],
                **point._asdict(),
                "us": point.latency * CLOCK * 1e-3,
                "us_with_words": (point.latency + STREAM + words.words) * CLOCK * 1e-3,
                "rate": {n: rate(point, n, words.words) for n in BATCHES},
                "rate_packed": {n: rate(point, n, words.packed) for n in BATCHES},
                "roof": 1e3 / (words.words * CLOCK),
                "roof_packed": 1e3 / (words.packed * CLOCK),
                "uJ": energy(point, words),
            }


def on_cpu(model: fl.Model, function: str) -> Iterator[dict[str, Any]]:
    """Million tasks a second of this machine."""
    for dtype in ("float64", "float32"):
        for batch in CPU_BATCHES:
            for threads in (1, 0):
                names = tuple(model.function(function).inputs)
                given = timing.inputs(model, batch, dtype, names)
                out = timing.outputs(model, function, batch, dtype)
                call = partial(
                    model.function(function),
                    *(given[name] for name in names),
                    out=out,
                    threads=threads or None,
                )
                seconds = timing.median_seconds(call)
                own = {"dtype": dtype, "batch": batch, "threads": threads or "all"}
                yield {"function": SHORT[function], **own, "rate": batch / seconds / 1e6}


def figure(x: float) -> str:
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


def told(
    robot: str, rows: Sequence[dict[str, Any]], cpu: Sequence[dict[str, Any]]
) -> Iterator[str]:
    """The tables of a robot."""
    yield f"\n### {robot}\n"
    head = [
        "",
        "format",
        "interval",
        "us",
        "us with words",
        "million/s",
        "DSPs",
        "LUTs",
        "FFs",
        "uJ",
    ]
    head += ["roof, words", "roof, packed"]
    yield table(
        head,
        [
            [
                row["function"], row["format"], str(row["interval"]), figure(row["us"]),
                figure(row["us_with_words"]), figure(row["rate_packed"][4096]),
                f"{row['dsp']:.1f} %", f"{row['luts']:.1f} %", f"{row['ffs']:.1f} %",
                figure(row["uJ"]), figure(row["roof"]), figure(row["roof_packed"]),
            ]
            for row in rows
        ],
    )  # fmt: skip
    yield "\nMillion tasks a second in batches, words of 4 bytes\n"
    yield table(
        ["", "format", *map(str, BATCHES)],
        [[r["function"], r["format"], *(figure(r["rate"][n]) for n in BATCHES)] for r in rows],
    )
    yield "\nMillion tasks a second of this CPU, of one thread and of all\n"
    head = ["", "dtype", *(f"{n}, {t}" for n in CPU_BATCHES for t in ("one", "all"))]
    lines = dict[tuple[str, str], list[str]]()
    for row in cpu:
        lines.setdefault((row["function"], row["dtype"]), []).append(figure(row["rate"]))
    yield table(head, [[*key, *values] for key, values in lines.items()])
    for row in rows:
        if row["function"] in DERIVATIVES:
            part = row["rate_packed"][4096] / row["roof_packed"]
            yield (
                f"\n{row['function']}, {row['format']}: {part:.0%} of the roof of packed words "
                f"({row['bits']:,} bits a task) at interval {row['interval']}."
            )


def main() -> int:
    parser = options.parser(__doc__, robots=(), functions=tuple(SHORT), quick=False, json=None)
    args = parser.parse_args()
    functions = args.functions or tuple(SHORT)
    forms = FORMATS[1:] if args.quick else FORMATS
    everything = []
    print("\n".join(machine_lines()))
    for robot in chosen(args.robots or list(ROBOTS)):
        model = robot.model()
        rows = list(rows_of(robot.title, model, functions, forms))
        cpu = [row for function in functions for row in on_cpu(model, function)]
        print("\n".join(told(robot.title, rows, cpu)), flush=True)
        everything += [*rows, *({"robot": robot.title, "cpu": True, **row} for row in cpu)]
        options.write_json(args.json, everything, quoted=PAPER)
    print(f"\n{PAPER}\n\nNo GPU was measured.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
