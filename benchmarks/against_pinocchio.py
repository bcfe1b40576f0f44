"""How much faster than Pinocchio's C++ loop is a state, one thread each?

Both get the user's (batch, n) arrays and fill arrays that are there already; a column of its own
has the time with fresh arrays. Peer and ours alternate within each of several rounds; figures are
medians over the rounds, and ratios are ratios of medians. Pinocchio's wheel computes in float64,
which is what float32 is compared with, too.
"""

from __future__ import annotations

import csv
import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin
from options import parser, write_json
from robots import (
    DEFAULT,
    DTYPES,
    FUNCTIONS,
    SHORT,
    Robot,
    States,
    as_tuple,
    chosen,
    machine,
    machine_lines,
    outputs,
    say,
    table,
)
from suite.peers.loop import Loop, PythonLoop, build, largest_error
from suite.peers.loop import Robot as Peer

from featherlane.api.model import Model

CHECKED = 20  # states compared with Pinocchio's Python API before anything is timed
TOLERANCE = {"float64": 1e-9, "float32": 5e-2}  # far above rounding: it is here to find nonsense
# What the ratio should be for float64 with vectors of 512 bits; twice that for float32, and half of
# it with 256 bits
FIXED = dict(zip(FUNCTIONS, (28, 28, 8, 14, 13, 18), strict=True))
FREE = dict(zip(FUNCTIONS, (18, 18, 4, 7, 7, 11), strict=True))
TARGETS = {("iiwa14", "fixed"): FIXED, ("hyq", "fixed"): FIXED}
TARGETS |= {("atlas", "free"): FREE, ("g1", "free"): FREE}


class Result(NamedTuple):
    """Medians, in ns per state."""

    robot: str
    root: str
    function: str
    dtype: str
    peer: float
    ours: float
    fresh: float  # ours, with new arrays in each call
    ratio: float
    target: float | None

    @property
    def verdict(self) -> str:
        return "" if self.target is None else "met" if self.ratio >= self.target else "missed"


def verify(model: Model, peer: Peer, states: States, functions: Sequence[str] = FUNCTIONS) -> None:
    """Stops where a function disagrees with Pinocchio."""
    for name in functions:
        expected = [peer.answers(name, k) for k in range(CHECKED)]
        for dtype in DTYPES:
            given = [x[:CHECKED] for x in states.inputs(model, name, dtype)]
            got = as_tuple(model.function(name)(*given))
            error = largest_error(got, [np.stack(blocks) for blocks in zip(*expected, strict=True)])
            if not error < TOLERANCE[dtype]:
                sys.exit(
                    f"{model.name} {name} {dtype} differs from Pinocchio by {error:.1e}: not timed"
                )


def ns_per_state(call: Callable[[], Any], batch: int, passes: int) -> float:
    """The median of some passes, after one that fills the caches (the C++ loop does the same), by
    the time of the processor: others on the machine disturb long passes more than short ones.
    """
    call()
    times = []
    for _ in range(passes):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times) / batch * 1e9


def measure(
    robot: Robot,
    model: Model,
    loop: Loop | PythonLoop,
    states: States,
    rounds: int,
    passes: int,
    functions: Sequence[str] = FUNCTIONS,
) -> Iterator[Result]:
    batch = len(states.q)
    for name in functions:
        calls: dict[tuple[str, bool], Callable[[], Any]] = {}
        for dtype in DTYPES:
            given, function = states.inputs(model, name, dtype), model.function(name)
            out = outputs(model, name, batch, dtype)
            calls[dtype, False] = lambda f=function, g=given, o=out: f(*g, out=o, threads=1)
            calls[dtype, True] = lambda f=function, g=given: f(*g, threads=1)
        theirs: list[float] = []
        times: dict[tuple[str, bool], list[float]] = {key: [] for key in calls}
        for _ in range(rounds):
            theirs.append(loop.ns_per_state(name, passes))
            for key, call in calls.items():
                times[key].append(ns_per_state(call, batch, passes))
        peer = median(theirs)
        for k, dtype in enumerate(DTYPES):
            ours, fresh = median(times[dtype, False]), median(times[dtype, True])
            target = TARGETS.get((robot.name, robot.root), {}).get(name)
            if target is not None:
                target *= (k + 1) * machine()["vector_bits"] / 512
            yield Result(
                robot.name, robot.root, name, dtype, peer, ours, fresh, peer / ours, target
            )


def run(robot: Robot, program: Path | None, batch: int, rounds: int, passes: int) -> list[Result]:
    model = robot.model()
    say(f"{robot.title}: compiling")
    for name in FUNCTIONS:
        for dtype in DTYPES:
            model.function(name).ufunc(dtype)
    states = States.random(model, batch)
    peer = Peer(model, str(robot.urdf), *states)
    verify(model, peer, states)
    loop = Loop(program, model, str(robot.urdf), peer) if program else PythonLoop(peer)
    say(f"{robot.title}: timing")
    try:
        return list(measure(robot, model, loop, states, rounds, passes))
    finally:
        loop.close()


def markdown(results: list[Result], kind: str) -> str:
    header = ["", f"Pinocchio {kind}"]
    for short in ("f64", "f32"):
        header += [short, "fresh arrays", "ratio", "target", ""]
    blocks = []
    for robot, root in dict.fromkeys((r.robot, r.root) for r in results):
        rows = []
        mine = [r for r in results if (r.robot, r.root) == (robot, root)]
        for name in FUNCTIONS:
            both = [r for r in mine if r.function == name]
            row = [SHORT[name], f"{both[0].peer:.0f}"]
            for r in both:
                target = "" if r.target is None else f"{r.target:g}"
                row += [f"{r.ours:.1f}", f"{r.fresh:.1f}", f"**{r.ratio:.1f}**", target, r.verdict]
            rows.append(row)
        blocks.append(f"### {robot}, {root} root\n\n{table(header, rows)}")
    return "\n\n".join(blocks)


def _times_faster(r: Result) -> str:
    digits = 1 if r.ours < 100 else 0
    return f"{r.ours:,.{digits}f} ({r.ratio:.{1 if r.ratio < 10 else 0}f}x)"


def compact(results: list[Result], kind: str) -> str:
    """One table of all robots: times, and in brackets how many times faster than the peer."""
    rows = []
    for robot, root in dict.fromkeys((r.robot, r.root) for r in results):
        mine = [r for r in results if (r.robot, r.root) == (robot, root)]
        peers = [next(r.peer for r in mine if r.function == name) for name in FUNCTIONS]
        rows.append([f"**{robot}, {root} root**: Pinocchio", *(f"{ns:,.0f}" for ns in peers)])
        for dtype in DTYPES:
            at = {r.function: r for r in mine if r.dtype == dtype}
            rows.append([dtype, *(_times_faster(at[name]) for name in FUNCTIONS)])
    return table([f"ns per state, against {kind}", *(SHORT[name] for name in FUNCTIONS)], rows)


def main() -> None:
    figures = {"batch": 4096, "rounds": 9, "passes": 3, "json": None, "csv": None}
    options = parser(__doc__, robots=DEFAULT, **figures)
    options.add_argument("--python", action="store_true", help="time Pinocchio's Python API")
    options.add_argument("--compact", action="store_true", help="one small table, as in the README")
    args = options.parse_args()
    program, why = None, "as asked"
    if not args.python:
        try:
            program = build()
        except RuntimeError as error:
            why = str(error)
    kind = Loop.kind if program else PythonLoop.kind
    results: list[Result] = []
    for robot in chosen(args.robots):
        results += run(robot, program, args.batch, args.rounds, args.passes)
    if program is None:
        print(f"Pinocchio's Python API was timed, not its C++ library: {why}. No target applies.\n")
        results = [r._replace(target=None) for r in results]
    print(compact(results, kind) if args.compact else markdown(results, kind))
    counted = [r for r in results if r.target is not None]
    if counted:
        met = sum(r.verdict == "met" for r in counted)
        print(f"\n{met} of {len(counted)} targets met.")
    date = datetime.date.today().isoformat()
    print(
        f"\nns per state, one thread, batch {args.batch}, medians of {args.rounds} rounds; {date}."
    )
    print(f"Pinocchio {pin.__version__} ({kind}). " + "\n".join(machine_lines()))
    rows = [{**r._asdict(), "verdict": r.verdict} for r in results]
    facts = {"batch": args.batch, "rounds": args.rounds, "pinocchio": pin.__version__}
    write_json(args.json, rows, **facts, peer=kind)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Result._fields)
            writer.writerows(results)


if __name__ == "__main__":
    main()
