"""The tables of Dadu-RBD (2023), section VI, again: how long do the seven functions take on an
XCVU9P, how many tasks a second are done in batches, and what do they need?

    python benchmarks/accelerators.py
    python benchmarks/accelerators.py --robots iiwa14 --parts together --json iiwa14.json

"together": all seven functions in one design, of the smallest interval that fits into 65 % of the
DSPs, and into the LUTs and flip-flops; "arrays": all seven in one design whose limbs and columns
take turns, at the intervals of ARRAYS, with sums in post-adders where no function is slower for it
or it fits only so; "alone": each function as a pipeline of its own, of the
smallest such interval; "cpu": the rates of this machine, in the same run. DSPs are counted, LUTs
and flip-flops estimated, 125 MHz and delays are a model (backends/fpga/devices/xcvu9p.toml). Times
are those of the cycle models, which simulated circuits keep to the cycle (tests), with the words of
tasks at 32 GB/s: a task comes when its words, and the results of the one before, have passed. No
GPU was measured; figures of the papers are quoted, and marked so.

Energy is an estimate. Power is STATIC and, for each DSP, LUT and flip-flop of the design in each
cycle, the energies below. Their ratios are assumptions; their scale is such that a design of the
size of Dadu-RBD's (62 % of the DSPs, 54 % of the LUTs, 17 % of the flip-flops, all at work at 125
MHz) takes the 36.8 W that are the most it gives. Bytes to and from memory take BYTE, an assumption
for DDR4. A task has the power over its share of the time, where tasks come as fast as they can.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from math import ceil
from typing import Any, NamedTuple

import options
from robots import SHORT, chosen, machine_lines, say, table

import featherlane as fl
from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.computation import Computation, flat_of
from featherlane.accelerators.designers import Designer
from featherlane.accelerators.front import Front, Point
from featherlane.accelerators.organise.network import network
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.network.cost import cost
from featherlane.backends.fpga.network.cycles import latencies, run
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.network.words import moved
from featherlane.backends.fpga.resources import Resources
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
PARTS = "cpu", "together", "arrays", "alone"
ARRAYS = {"hyq, free root": 12, "atlas, free root": 32}  # the intervals of designs of arrays
MANY, RUNS = 30_000, 2  # products, from which on so many schedules are tried
ARRAY_RUNS = 8  # of each array, which is smaller
DSPS_A_PRODUCT = {"q16.16": 3.3, "fitted": 1.8}  # of a design of all functions, about
Row = dict[str, Any]
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
    """The cycles in which the words of a task and its results pass: of 4 bytes each, and packed."""

    plain: float
    packed: float

    @staticmethod
    def of(numbers: int, bits: int) -> Words:
        a_cycle = LINK * CLOCK
        return Words(WORD * numbers / a_cycle, bits / 8 / a_cycle)


def energy(needs: Resources, cycles: float, bits: int) -> float:
    """Microjoules a task. cycles: from one to the next."""
    a_cycle = DSP * needs.dsps + LUT * needs.luts + FF * needs.ffs
    return (STATIC * cycles * CLOCK * 1e3 + a_cycle * cycles + BYTE * bits / 8) * 1e-6


def row_of(
    needs: Resources,
    cycles: int,
    enters: float,
    moved: tuple[int, int],
    rates: Callable[[int, float], float],
    **named: Any,
) -> Row:
    """The figures of a function. cycles: to its result; enters: from one task to the next;
    moved: numbers and bits of a task and its results; rates: million tasks a second of a batch
    whose tasks come no faster than after some cycles.
    """
    words, device = Words.of(*moved), devices.load("xcvu9p")
    return {
        **named,
        "us": cycles * CLOCK * 1e-3,
        "us_with_words": (cycles + words.plain) * CLOCK * 1e-3,
        "rate": {n: rates(n, words.plain) for n in BATCHES},
        "rate_packed": {n: rates(n, words.packed) for n in BATCHES},
        "roof": 1e3 / (words.plain * CLOCK),
        "roof_packed": 1e3 / (words.packed * CLOCK),
        "bits": moved[1],
        "dsp": 100 * needs.dsps / device.dsps,
        "luts": 100 * needs.luts / device.luts,
        "ffs": 100 * needs.ffs / device.ffs,
        "uJ": energy(needs, max(enters, words.packed), moved[1]),
    }


# All functions in one design


def together(robot: str, form: str, made: Network, needed: DesignCost) -> Iterator[Row]:
    """The figures of a design of all functions for the tables."""
    of_words = moved(made)
    for function, cycles in latencies(made).items():

        def rates(batch: int, words: float, code: int = made.codes[function]) -> float:
            """By the cycle model, with tasks that come as their words do."""
            found = run(made, [code] * batch, [ceil(words * n) for n in range(batch)])
            return batch / ((int(found.emitted[-1]) + words) * CLOCK) * 1e3

        enters = made.interval * SHARES[function].passes
        named = {"function": SHORT[function], "format": form, "interval": made.interval}
        yield row_of(needed.total, cycles, enters, of_words[function], rates, robot=robot, **named)


def smallest_together(robot: str, model: fl.Model, form: str) -> tuple[Network, DesignCost]:
    """The design of the smallest interval that fits, or, where it is LUTs that are too few at any
    interval, of the smallest that has DSPs enough. Most DSPs go to products, so that there are
    about as many of them as the interval is shorter.
    """
    device = devices.load("xcvu9p")
    spec = DesignSpec(
        tuple(SHORT), is_network=True, format=form, algorithm="deferred", sharing="whole"
    )
    datapath = narrowed(Computation.of(model, spec).flat)
    products = datapath.graph.op.count("mul")
    interval = max(ceil(DSPS_A_PRODUCT[form] * products / device.dsps * 100 / MOST), 1)
    runs = None if products < MANY else RUNS
    best = None
    while True:
        made = network(model.name, datapath, spec, interval, runs)
        needed = cost(made, device)
        share = needed.shares.dsps
        say(f"{robot}, all functions, {form}, interval {interval}: {needed.shares}")
        if share > MOST:
            interval += 1 + (interval // 16 if best is None else 0)
            if best is not None and interval == best[0].interval:
                return best
            continue
        best = made, needed
        if interval == 1 or share * interval / (interval - 1) > MOST + 2:
            return best
        interval = max(min(interval - 1, ceil(share * interval / (MOST + 2))), 1)


def in_arrays(robot: str, model: fl.Model, form: str, interval: int) -> tuple[Network, DesignCost]:
    """The design whose limbs and columns take turns."""
    spec = DesignSpec(tuple(SHORT), is_network=True, format=form, arrays="auto", sharing="whole")
    computation = Computation.of(model, spec)
    whole, organisation = computation.at(interval)
    say(str(organisation))
    runs = None if flat_of(whole).graph.op.count("mul") < MANY else ARRAY_RUNS
    made, needed, _ = Designer(model.name, computation.spec, runs).best(whole, interval)
    assert isinstance(made, Network)
    say(f"{robot}, all functions in arrays, {form}, interval {interval}: {needed.shares}")
    return made, needed


# Each function alone


def alone(robot: str, model: fl.Model, function: str, form: str) -> Iterator[Row]:
    say(f"{robot}, {SHORT[function]}, {form}")
    point, front = smallest(model, function, form)
    if point is None:
        least = min(front.points, key=lambda p: p.dsp, default=None)
        told = str(least) if least else "; ".join(front.refused.values())
        say(f"  no interval up to {LONGEST} fits: {told}")
        return
    cycles, device = point.latency + STREAM, devices.load("xcvu9p")

    def rates(batch: int, words: float) -> float:
        last = words + cycles + (batch - 1) * max(point.interval, words)
        return batch / (last * CLOCK) * 1e3

    shares = device.luts * point.luts / 100, device.ffs * point.ffs / 100
    named = {"function": SHORT[function], "format": form, "interval": point.interval}
    needs, moved = Resources(point.dsps, *shares), (point.words, point.bits)
    yield row_of(needs, cycles, point.interval, moved, rates, robot=robot, **named)


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


# The CPU, and tables


def on_cpu(robot: str, model: fl.Model, function: str) -> Iterator[Row]:
    """Million tasks a second of this machine."""
    for dtype in ("float64", "float32"):
        for batch in CPU_BATCHES:
            for threads in (1, os.cpu_count() or 1):
                names = tuple(model.function(function).inputs)
                given = timing.inputs(model, batch, dtype, names)
                out = timing.outputs(model, function, batch, dtype)
                call = partial(
                    model.function(function),
                    *(given[name] for name in names),
                    out=out,
                    threads=threads,
                )
                call()  # compiles
                seconds = timing.median_seconds(call)
                own = {"robot": robot, "dtype": dtype, "batch": batch, "threads": threads}
                yield {"function": SHORT[function], **own, "rate": batch / seconds / 1e6}


def figure(x: float) -> str:
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


def told(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """The tables of designs of a robot."""
    yield f"\n### {title}\n"
    head = ["", "format", "interval", "us", "us with words", "million/s", "DSPs", "LUTs", "FFs"]
    yield table(
        [*head, "uJ", "roof, words", "roof, packed"],
        [
            [
                row["function"], row["format"], str(row["interval"]), figure(row["us"]),
                figure(row["us_with_words"]), figure(row["rate_packed"][BATCHES[-1]]),
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
    for row in rows:
        if row["function"] in DERIVATIVES:
            part = row["rate_packed"][BATCHES[-1]] / row["roof_packed"]
            yield (
                f"\n{row['function']}, {row['format']}: {part:.0%} of the roof of packed words "
                f"({row['bits']:,} bits a task) at interval {row['interval']}."
            )


def cpu_told(rows: Sequence[Row]) -> Iterator[str]:
    yield "\nMillion tasks a second of this CPU, of one thread and of all\n"
    head = ["", "dtype", *(f"{n}, {t}" for n in CPU_BATCHES for t in ("one", "all"))]
    lines = dict[tuple[str, str], list[str]]()
    for row in rows:
        lines.setdefault((row["function"], row["dtype"]), []).append(figure(row["rate"]))
    yield table(head, [[*key, *values] for key, values in lines.items()])


def main() -> int:
    parser = options.parser(__doc__, robots=(), functions=tuple(SHORT), quick=False, json=None)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, help="what is done")
    parser.add_argument("--formats", nargs="+", default=FORMATS, choices=FORMATS)
    args = parser.parse_args()
    functions = args.functions or tuple(SHORT)
    forms = FORMATS[1:] if args.quick else args.formats
    everything = list[Row]()

    def noted(rows: Iterable[Row], lines: Callable[[list[Row]], Iterator[str]]) -> None:
        own = list(rows)
        print("\n".join(lines(own)), flush=True)
        everything.extend(own)
        options.write_json(args.json, everything, quoted=PAPER)

    print("\n".join(machine_lines()))
    for robot in chosen(args.robots or list(ROBOTS)):
        model, name = robot.model(), robot.title
        if "cpu" in args.parts:
            rows = (row for function in functions for row in on_cpu(name, model, function))
            noted(rows, cpu_told)
        if "together" in args.parts:
            made = ((form, *smallest_together(name, model, form)) for form in forms)
            found = (row for own in made for row in together(name, *own))
            noted(found, partial(told, f"{name}, all functions in one design"))
        if "arrays" in args.parts and name in ARRAYS:
            made = ((form, *in_arrays(name, model, form, ARRAYS[name])) for form in forms)
            found = (row for own in made for row in together(name, *own))
            noted(found, partial(told, f"{name}, all functions in one design of arrays"))
        if "alone" in args.parts:
            pairs = product(functions, forms)
            found = (row for own in pairs for row in alone(name, model, *own))
            noted(found, partial(told, f"{name}, each function alone"))
    print(f"\n{PAPER}\n\nNo GPU was measured.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
