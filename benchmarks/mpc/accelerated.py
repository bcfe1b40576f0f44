"""How much faster does the predictive controller run with an accelerator for its dynamics?

The experiment of run.py with more controllers, whose dynamics take the time of a circuit's cycle
model (dynamics_accelerator.py), beside a rate by Amdahl's law and what Dadu-RBD (2023) says. The
parts:

design    the pipeline: interval, latency, words, shares of an XCVU9P, errors of its numbers
dynamics  the two calls alone, for one robot and for 64 at once
parts     every controller makes its iteration from the same plans and states, in turn
many      the same for 64 robots at once, whose dynamics are one call
loop      closed loops of three of them, each at the rate that `parts` measured
golden    a short closed loop with the circuit's numbers, to the bit: ten seconds an iteration
array     the same with A and B in the numbers of the chain rule's array
network   the same stages on a design of several functions, by its cycle model, and the chain rule
          behind it: some minutes. With it, other parts have controllers on that design, too
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a thread that waits takes processor time, too

import numpy as np
from chain_columns import ArrayNumbers
from chain_rule import STAGES, piece, products
from circuit import INTERVAL, RESULTS, VARIANT, Circuit, sampled
from circuit_time import LINK, WORD, Times, seconds
from dynamics_accelerator import (
    TURN,
    Accelerated,
    NetworkWithChainRule,
    OnNetwork,
    WithChainRule,
    WithStages,
)
from dynamics_featherlane import Featherlane
from formulation import Formulation
from loop import follow
from network_time import Behind, NetworkTimes, behind, network_design, network_rows
from options import parser, write_json
from plant import TIMESTEP, Plant
from robot import Quadruped, quadruped
from robots import machine_lines, say, table
from run import (
    FEATHERLANE,
    PINOCCHIO,
    PROBLEMS,
    Maker,
    Row,
    dynamics_of,
    loops,
    parts,
    print_dynamics,
    print_many,
    print_parts,
    solver_of,
)
from solver import Dynamics

RIVALS = 11.2, 0.80  # Dadu-RBD (2023), VI-B: faster dynamics, higher control rate
SHARE = 0.65  # of the multipliers of the device that a design may take


class Figures(NamedTuple):
    """Of the pipeline. multipliers: what it leaves of `SHARE` of the device."""

    times: Times
    multipliers: float


def figures_of(circuit: Circuit) -> Figures:
    """From the schedule: a minute or two."""
    pipeline = circuit.made[0].pipeline
    times = Times(pipeline.interval, pipeline.latency, pipeline.clock)
    return Figures(times, circuit.free_multipliers(SHARE))


def figures_in(file: Path) -> Figures:
    """From a result of the part `design`."""
    rows = json.loads(file.read_text())["results"]
    row = next(row for row in rows if row["part"] == "design")
    times = Times(row["interval"], row["latency"], row["clock"])
    return Figures(times, row["multipliers left"])


def every_dynamics(
    circuit: Circuit, figures: Figures, network: tuple[Any, Behind] | None, robot: Quadruped,
    knots: int, threads: int,
) -> dict[str, Dynamics]:  # fmt: skip
    """Those of the processor, and with an accelerator. network: a design of several functions and
    what lies behind it.
    """
    times, multipliers = figures
    cards: list[Dynamics] = [
        kind(robot, knots, circuit, times, dtype)
        for kind in (Accelerated, WithStages)
        for dtype in ("float64", "float32")
    ]
    cards.append(WithChainRule(robot, knots, circuit, times, multipliers=multipliers))
    if network is not None:
        own, rest = NetworkTimes(network[0]), network[1]
        options = {"turn": rest.state.latency}
        cards.append(OnNetwork(robot, knots, circuit, own, **options))
        cards.append(NetworkWithChainRule(robot, knots, circuit, own, behind=rest, **options))
    return dynamics_of(robot, knots, threads) | {card.name: card for card in cards}


def print_design(circuit: Circuit, figures: Figures, knots: int) -> list[Row]:
    """Figures of the pipeline, and errors of its numbers at sampled states."""
    (_, needed), (times, left) = circuit.made, figures
    card = WithStages(circuit.robot, knots, circuit, times)
    moved = card.moved(True)
    serial, batch = (seconds(times, n, moved, len(STAGES), TURN) * 1e6 for n in (1, knots))
    row: Row = {
        **times._asdict(),
        "words in": moved[0], "words out": moved[1],
        "interval of the link": sum(moved) * WORD / LINK / times.clock,
        "us, 4 stages of 1 knot": serial, f"us, 4 stages of {knots} knots": batch,
        **{f"{name} %": x for name, x in needed.shares._asdict().items()},
        "multipliers left": left,
        "products of the chain rule": products(circuit.robot.model, card.variant),
    }  # fmt: skip
    print(table([*row], [[f"{x:.4g}" for x in row.values()]]), "\n")
    return [{"part": "design", **row}, *print_errors(circuit)]


def print_errors(circuit: Circuit) -> list[Row]:
    states = sampled(circuit.robot, 256, 1)
    exact = dict(zip(RESULTS, piece(circuit.robot.model, VARIANT)(*states.values()), strict=True))
    rows, cells = list[Row](), list[list[str]]()
    for form in (circuit, Circuit(circuit.robot, "q16.16")):
        found, happened = form(True, states)
        for name, x in exact.items():
            error = np.abs(found[name] - x).reshape(len(x), -1).max(1)
            figures = np.median(error), error.max(), np.abs(x).max()
            rows.append(
                {
                    "part": "errors",
                    "format": form.format,
                    "result": name,
                    **dict(zip(("median", "largest", "size"), map(float, figures), strict=True)),
                }
            )
            cells.append(
                [
                    form.format,
                    name,
                    *(f"{x:.1e}" for x in figures),
                    str(sum(happened.overflows.values())),
                ]
            )
    print(
        table(
            ["format", "result", "error, median", "largest", "largest result", "overflows"], cells
        ),
        "\n",
    )
    return rows


def golden(circuit: Circuit, knots: int, iterations: int, period: float) -> list[Row]:
    """A trot that follows plans made with the circuit's numbers, to the bit."""
    found, exact = (
        WithStages(circuit.robot, knots, circuit, Times(1, 1), golden=x) for x in (True, False)
    )
    row: Row = {
        "part": "golden", "format": circuit.format,
        **trot(circuit.robot, knots, found, exact, iterations, period),
        "overflows": found.events["overflows"], "saturated": found.events["saturated"],
    }  # fmt: skip
    print(table([*row], [[str(x) for x in row.values()]]), "\n")
    return [row]


def array(robot: Quadruped, knots: int, iterations: int, period: float) -> list[Row]:
    """The same with A and B in the numbers of the chain rule's array."""
    cards = ArrayNumbers(robot, knots), Featherlane(robot, knots, 1)
    row: Row = {"part": "array", **trot(robot, knots, *cards, iterations, period)}
    print(table([*row], [[str(x) for x in row.values()]]), "\n")
    return [row]


def trot(
    robot: Quadruped, knots: int, found: Dynamics, exact: Dynamics, iterations: int, period: float
) -> Row:
    """Figures of a trot that follows plans with some dynamics; from each of these plans, also an
    iteration with others is made, whose torques are compared.
    """
    formulation = Formulation(robot, knots=knots, barrier=True)
    formulation.task.begin = 0.0
    solvers = [solver_of(formulation, card, "barrier, Riccati") for card in (found, exact)]
    plant, apart, heights = Plant(robot, 0), list[float](), list[float]()
    plan = solvers[0].first_plan(0.0, *plant.state())
    for k in range(iterations):
        state = plant.state()
        plan, wanted = (solver.iterate(plan, plant.time, *state) for solver in solvers)
        apart.append(float(np.abs(plan.u - wanted.u).max()))
        heights.append(float(state[0][2]))
        most = float(np.abs(wanted.u).max())
        say(f"iteration {k}: torques apart by {apart[-1]:.2g} of {most:.3g} N m")
        for _ in range(round(period / TIMESTEP)):
            plant.step(follow(plan, plant.time, *plant.joints()), np.zeros(2))
    return {
        "iterations": iterations, "seconds": plant.time, "fallen": plant.fallen(),
        "least height": min(heights), "largest height": max(heights),
        "median of torques apart": float(np.median(apart)), "largest": max(apart),
        "mean step size": float(np.mean(solvers[0].sizes)),
    }  # fmt: skip


def print_loops(
    robot: Quadruped, given: argparse.Namespace, measured: list[Row], made: Maker
) -> list[Row]:
    """Closed loops of each at its own rate, in whole milliseconds."""
    rows = list[Row]()
    for problem in given.problems:
        own = {r["dynamics"]: 1e-3 * ceil(r["ms"]) for r in measured if r["problem"] == problem}
        own = {name: own[name] for name in (PINOCCHIO, FEATHERLANE, "accelerator, all")}
        sizes = robot, problem, given.knots, given.of_loops, given.seeds
        rows += loops(*sizes, own, made)[0]
    cells = [
        [
            *(r["problem"], r["dynamics"], str(r["seed"]), f"{1 / r['period']:.0f}"),
            *(f"{r['stood']:.1f}", f"{1e3 * r['hand']:.0f}", f"{r['speed']:.2f}"),
        ]
        for r in rows
    ]
    head = ["problem", "dynamics", "seed", "rate, Hz", "on its feet, s", "hand off, mm"]
    print(table([*head, "speed, m/s"], cells), "\n")
    return rows


def main() -> None:
    options = parser(__doc__, rounds=31, json=None)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--parts", nargs="+", default=["design", "dynamics", "parts", "many"])
    options.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    options.add_argument("--of-loops", type=float, default=6.0, help="seconds of closed loops")
    options.add_argument("--seeds", type=int, nargs="+", default=[0])
    options.add_argument("--knots", type=int, default=64)
    options.add_argument("--seconds", type=float, default=3.0, help="of plans in `parts`")
    options.add_argument(
        "--design", type=Path, help="a --json of that part, in place of a schedule"
    )
    options.add_argument(
        "--network", type=Path, help="where the design of that part is kept, or taken from"
    )
    options.add_argument(
        "--iterations", type=int, default=40, help="of the closed loops in `golden` and `array`"
    )
    given = options.parse_args()
    print("\n".join(machine_lines()), "\n")
    robot, rows = quadruped(), list[Row]()
    circuit = Circuit(robot)
    if "golden" in given.parts:
        rows += golden(circuit, given.knots, given.iterations, 0.02)
    if "array" in given.parts:
        rows += array(robot, given.knots, given.iterations, 0.02)
    network = None
    if "network" in given.parts:
        rest = behind(robot), behind(robot, columns=2)
        network = network_design(robot, INTERVAL, given.network), rest[0]
        moved = WithStages(robot, given.knots, circuit, Times(1, 1)).moved(True)
        for row in network_rows(network[0], given.knots, moved, rest):
            rows.append({"part": "network", **row})
            cells = [x if isinstance(x, str) else f"{x:.4g}" for x in row.values()]
            print(table([*row], [cells]), "\n")
    if {*given.parts} & {"design", "dynamics", "parts", "many"}:
        figures = figures_in(given.design) if given.design else figures_of(circuit)
    made = lambda *sizes: every_dynamics(circuit, figures, network, *sizes)
    if "design" in given.parts:
        rows += print_design(circuit, figures, given.knots)
    if "dynamics" in given.parts:
        rows += print_dynamics(robot, given.knots, [1], given.rounds, made)
    measured: list[Row] = []
    if "parts" in given.parts:
        for problem in given.problems:
            measured += parts(robot, problem, given.knots, given.seconds, 0.02, made)
        rows += [*measured, *print_parts(measured)]
        faster, more = RIVALS
        print(f"Dadu-RBD (2023): dynamics {faster} times faster, control rate +{more:.0%}\n")
    if "loop" in given.parts and measured:
        rows += print_loops(robot, given, measured, made)
    if "many" in given.parts:
        rows += print_many(robot, given.problems, given.knots, 3, made)
    write_json(given.json, rows, knots=given.knots)


if __name__ == "__main__":
    main()
