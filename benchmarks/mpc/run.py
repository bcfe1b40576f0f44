"""How much faster does a whole-body predictive controller run if its dynamics do?

A quadruped with an arm trots in MuJoCo while its hand follows a moving place. Two controllers
differ only in who computes the steps of 64 knots with A and B: Pinocchio in compiled C++, or
featherlane. Times on one thread are of the processor, so that other programs disturb them little;
those on more threads are of the clock. The parts:

dynamics  the two calls alone: their difference, and their times, for one robot and for 64 at once
parts     every controller makes its iteration from the same plans and states, in turn
many      the same for 64 robots at once, whose dynamics are one call
loop      closed loops, at one fixed rate and each at the rate that its times allow
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from dynamics_featherlane import Featherlane
from dynamics_pinocchio import Pinocchio
from formulation import Formulation
from loop import Record, closed_loop, follow
from options import parser, write_json
from plant import TIMESTEP, Plant
from programs import Piqp, Riccati
from robot import Quadruped, quadruped
from robots import machine_lines, say, table
from solver import PARTS, Dynamics, Solver, iterate_together

ROBOTS = 64  # at once
PINOCCHIO, FEATHERLANE, SINGLE = "Pinocchio", "featherlane", "featherlane, float32"
MOST = {FEATHERLANE: 1e-8, SINGLE: 1e-3}  # difference from Pinocchio
Row = dict[str, Any]


class Problem(NamedTuple):
    """Limits of forces, and who solves the quadratic program."""

    barrier: bool
    solver: Callable[[Formulation], Any]


PROBLEMS = {
    "hard limits, PIQP": Problem(False, Piqp),
    "barrier, PIQP": Problem(True, Piqp),
    "barrier, Riccati": Problem(True, Riccati),
}


def dynamics_of(robot: Quadruped, knots: int, threads: int) -> dict[str, Dynamics]:
    return {
        PINOCCHIO: Pinocchio(robot, knots, threads),
        FEATHERLANE: Featherlane(robot, knots, threads),
        SINGLE: Featherlane(robot, knots, threads, "float32"),
    }


Maker = Callable[[Quadruped, int, int], dict[str, Dynamics]]  # of knots and threads


def solver_of(formulation: Formulation, dynamics: Dynamics, problem: str) -> Solver:
    return Solver(formulation, dynamics, PROBLEMS[problem].solver(formulation), dynamics.clock)


def random_knots(robot: Quadruped, knots: int) -> tuple[np.ndarray, ...]:
    """States near standing, joint torques and forces of the feet."""
    rng, model = np.random.default_rng(0), robot.model
    q = model.integrate(np.tile(robot.stance, (knots, 1)), 0.3 * rng.normal(size=(knots, model.nv)))
    u = 20 * rng.normal(size=(knots, model.nv - 6))
    return q, rng.normal(size=(knots, model.nv)), u, 100 * rng.normal(size=(knots, 4, 3))


def differences(robot: Quadruped, knots: int, dt: float) -> list[Row]:
    """The largest difference from Pinocchio's next states, A and B, relative to their largest
    entry. Raises SystemExit where they do not compute the same.
    """
    given, rows = random_knots(robot, knots), []
    every = dynamics_of(robot, knots, 1)
    wanted = every[PINOCCHIO].linearise(*given, dt)
    for name in (FEATHERLANE, SINGLE):
        found = every[name].linearise(*given, dt)
        pairs = zip(("q", "v", "A", "B"), found, wanted, strict=True)
        error = {what: float(np.abs(x - y).max() / np.abs(y).max()) for what, x, y in pairs}
        if max(error.values()) > MOST[name]:
            raise SystemExit(f"{name} and Pinocchio differ: {error}")
        rows.append({"part": "difference", "dynamics": name, **error})
    return rows


def times_of_dynamics(
    robot: Quadruped, knots: int, threads: int, rounds: int, dt: float, made: Maker = dynamics_of
) -> list[Row]:
    """Milliseconds of one call of each, all taking turns, for one robot and for many."""
    rows = []
    for robots in (1, ROBOTS):
        given = random_knots(robot, knots * robots)
        every = made(robot, knots * robots, threads)
        taken: dict[tuple[str, str], list[float]] = {}
        for _ in range(max(3, rounds // robots) + 1):
            for name, dynamics in every.items():
                clock = dynamics.clock if threads == 1 else time.perf_counter
                for what in ("linearise", "step"):
                    begin = clock()
                    getattr(dynamics, what)(*given, dt)
                    taken.setdefault((name, what), []).append(clock() - begin)
        for (name, what), each in taken.items():
            ms = 1e3 * statistics.median(each[1:]) / robots
            row = {"part": "dynamics", "robots": robots, "threads": threads, "dynamics": name}
            rows.append({**row, "what": what, "ms": ms, "least": 1e3 * min(each) / robots})
    return rows


def parts(
    robot: Quadruped, problem: str, knots: int, seconds: float, period: float,
    made: Maker = dynamics_of,
) -> list[Row]:  # fmt: skip
    """Median milliseconds of the parts of an iteration: each controller starts from the same plans
    and states, in turn; the robot follows featherlane's plan.
    """
    every = made(robot, knots, 1)
    formulation = Formulation(robot, knots=knots, barrier=PROBLEMS[problem].barrier)
    solvers = {name: solver_of(formulation, d, problem) for name, d in every.items()}
    plant, leader = Plant(robot, 0), solvers[FEATHERLANE]
    q, v = plant.state()
    plan = leader.first_plan(0.0, q, v)
    names, apart = list(solvers), dict.fromkeys(solvers, 0.0)
    while plant.time < seconds:
        t = plant.time
        q, v = plant.state()
        found = {name: solvers[name].iterate(plan, t, q, v) for name in names}
        names = [*names[1:], names[0]]
        for name, each in found.items():
            off = float(np.abs(each.u - found[PINOCCHIO].u).max())
            apart[name] = max(apart[name], off)
        plan = found[FEATHERLANE]
        for _ in range(round(period / TIMESTEP)):
            plant.step(follow(plan, plant.time, *plant.joints()), np.zeros(2))
    rows = []
    for name, solver in solvers.items():
        times = solver.times[2:]
        median = {f"{p} ms": 1e3 * statistics.median(each[p] for each in times) for p in PARTS}
        total = 1e3 * statistics.median(sum(each.values()) for each in times)
        told = {"iterations of the QP": statistics.mean(solver.iterations)}
        row = {"part": "parts", "problem": problem, "dynamics": name, **median, "ms": total}
        rows.append({**row, **told, "torques apart": apart[name], "knots": knots})
    return rows


def compared(rows: Sequence[Row]) -> list[Row]:
    """Amdahl's prediction from the share of dynamics, and the rate that was measured."""
    found = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        each = {row["dynamics"]: row for row in rows if row["problem"] == problem}
        base = each[PINOCCHIO]
        for name in [name for name in each if name != PINOCCHIO]:
            ratio = base["dynamics ms"] / each[name]["dynamics ms"]
            share = base["dynamics ms"] / base["ms"]
            row = {"problem": problem, "dynamics": name, "share": share, "ratio": ratio}
            predicted, rate = 1 / (1 - share + share / ratio), base["ms"] / each[name]["ms"]
            found.append({"part": "compared", **row, "predicted": predicted, "rate": rate})
    return found


def loops(
    robot: Quadruped, problem: str, knots: int, seconds: float, seeds: Sequence[int],
    periods: dict[str, float], made: Maker = dynamics_of,
) -> tuple[list[Row], dict[str, Record]]:  # fmt: skip
    """Closed loops with several seeds. periods: of the controllers, in seconds."""
    rows, records, every = [], {}, made(robot, knots, 1)
    formulation = Formulation(robot, knots=knots, barrier=PROBLEMS[problem].barrier)
    for name, period in periods.items():
        for seed in seeds:
            solver = solver_of(formulation, every[name], problem)
            record = closed_loop(solver, Plant(robot, seed), seconds, period)
            row = {"part": "loop", "problem": problem, "dynamics": name, "seed": seed}
            row |= {"period": period, "stood": record.stood, "fallen": record.fallen}
            rows.append({**row, "hand": record.hand_error, "speed": record.speed})
            records[f"{name} {seed}"] = record
            say(str(rows[-1]))
    return rows, records


def main() -> None:
    options = parser(__doc__, rounds=31, json=None)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--parts", nargs="+", default=["dynamics", "parts", "many", "loop"])
    options.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    options.add_argument("--knots", type=int, default=64)
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--seconds", type=float, default=20.0, help="of each closed loop")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--periods", type=float, nargs="+", help="ms of the three; else measured")
    options.add_argument("--figure", type=Path, help="of closed loops; a CSV goes beside it")
    given = options.parse_args()
    print("\n".join(machine_lines()), "\n")
    robot, rows = quadruped(), list[Row]()
    if "dynamics" in given.parts:
        rows += print_dynamics(robot, given.knots, given.threads, given.rounds)
    measured: list[Row] = []
    if "parts" in given.parts:
        for problem in given.problems:
            measured += parts(robot, problem, given.knots, 3.0, 0.02)
        rows += [*measured, *print_parts(measured)]
    if "many" in given.parts:
        rows += print_many(robot, given.problems, given.knots, 3)
    if "loop" in given.parts:
        rows += print_loops(robot, given, measured)
    write_json(given.json, rows, knots=given.knots)


def print_dynamics(
    robot: Quadruped, knots: int, threads: Sequence[int], rounds: int, made: Maker = dynamics_of
) -> list[Row]:
    dt = Formulation.dt
    found = differences(robot, knots, dt)
    cells = [[r["dynamics"], *(f"{r[x]:.1e}" for x in "qvAB")] for r in found]
    print(table(["difference from Pinocchio", "q", "v", "A", "B"], cells), "\n")
    times = [row for n in threads for row in times_of_dynamics(robot, knots, n, rounds, dt, made)]
    keys = ("robots", "threads", "what")
    base = {tuple(r[k] for k in keys): r["ms"] for r in times if r["dynamics"] == PINOCCHIO}
    head = ["robots", "threads", "call", "dynamics", "ms a robot", "times faster"]
    cells = []
    for r in times:
        ratio = base[tuple(r[k] for k in keys)] / r["ms"]
        cells.append([*(str(r[k]) for k in keys), r["dynamics"], f"{r['ms']:.2f}", f"{ratio:.1f}"])
    print(table(head, cells), "\n")
    return [*found, *times]


def print_parts(measured: list[Row]) -> list[Row]:
    head = ["problem", "dynamics", *[f"{p}, ms" for p in PARTS], "all, ms", "torques apart, N m"]
    cells = [
        [
            *(r["problem"], r["dynamics"]),
            *(f"{r[f'{p} ms']:.2f}" for p in PARTS),
            *(f"{r['ms']:.1f}", f"{r['torques apart']:.0e}"),
        ]
        for r in measured
    ]
    print(table(head, cells), "\n")
    found = compared(measured)
    cells = [
        [
            *(r["problem"], r["dynamics"], f"{r['share']:.0%}", f"{r['ratio']:.1f}"),
            *(f"+{r['predicted'] - 1:.0%}", f"+{r['rate'] - 1:.0%}"),
        ]
        for r in found
    ]
    head = ["problem", "dynamics", "share of dynamics with Pinocchio", "dynamics faster, times"]
    print(table([*head, "rate, predicted by Amdahl", "rate, measured"], cells), "\n")
    return found


def print_many(
    robot: Quadruped, problems: Sequence[str], knots: int, rounds: int, made: Maker = dynamics_of
) -> list[Row]:
    """Iterations a second and core where many robots share each call of the dynamics."""
    found, cells = list[Row](), []
    for problem in problems:
        every = made(robot, knots * ROBOTS, 1)
        taken: dict[str, list[float]] = {name: [] for name in every}
        formulation = Formulation(robot, knots=knots, barrier=PROBLEMS[problem].barrier)
        solvers = [solver_of(formulation, every[FEATHERLANE], problem) for _ in range(ROBOTS)]
        states = [Plant(robot, seed).state() for seed in range(ROBOTS)]
        t = 1.0  # during the trot
        firsts = zip(solvers, states, strict=True)
        plans = [solver.first_plan(t, *state) for solver, state in firsts]
        for _ in range(rounds + 1):
            for name, dynamics in every.items():
                begin = dynamics.clock()
                new = iterate_together(solvers, dynamics, plans, t, states)
                taken[name].append(dynamics.clock() - begin)
            plans = new
        for name, each in taken.items():
            rate = ROBOTS / statistics.median(each[1:])
            row = {"problem": problem, "dynamics": name, "rate": rate}
            found.append({"part": "many", **row})
            base = next(x["rate"] for x in found if x["problem"] == problem)
            cells.append([problem, name, f"{rate:.1f}", f"+{rate / base - 1:.0%}"])
    head = ["problem", "dynamics", f"iterations a second and core, {ROBOTS} robots", "more"]
    print(table(head, cells), "\n")
    return found


def print_loops(robot: Quadruped, given: argparse.Namespace, measured: list[Row]) -> list[Row]:
    rows: list[Row] = []
    records: dict[str, Record] = {}
    for problem in given.problems:
        names = (PINOCCHIO, FEATHERLANE, SINGLE)
        times = dict(zip(names, given.periods or (), strict=False))
        times |= {r["dynamics"]: r["ms"] for r in measured if r["problem"] == problem}
        if not times:
            raise SystemExit("give --periods, or --parts parts loop")
        own = {name: 1e-3 * math.ceil(ms) for name, ms in times.items()}
        arguments = robot, problem, given.knots, given.seconds, given.seeds
        found, records = loops(*arguments, own)
        rows += [{**row, "rate": "own"} for row in found]
        # The fixed rate is Pinocchio's own: a run of that rate is a run of this one
        rows += [{**row, "rate": "fixed"} for row in found if row["dynamics"] == PINOCCHIO]
        found, _ = loops(*arguments, {FEATHERLANE: own[PINOCCHIO]})
        rows += [{**row, "rate": "fixed"} for row in found]
    if given.figure:  # of the last problem
        from figure import draw, first_seeds, write

        shown = first_seeds(records)
        write(given.figure.with_suffix(".csv"), shown)
        draw(given.figure, shown)
    head = ["problem", "rate", "dynamics", "seed", "rate, Hz", "on its feet, s", "hand off, mm"]
    cells = [
        [
            *(r["problem"], r["rate"], r["dynamics"], str(r["seed"]), f"{1 / r['period']:.0f}"),
            *(f"{r['stood']:.1f}", f"{1e3 * r['hand']:.0f}", f"{r['speed']:.2f}"),
        ]
        for r in rows
    ]
    print(table([*head, "speed, m/s"], cells))
    return rows


if __name__ == "__main__":
    main()
