"""How much faster does the predictive controller run with an accelerator for its dynamics?

The experiment of run.py with more controllers, whose dynamics take the time of a circuit's cycle
model (dynamics_accelerator.py), beside a rate by Amdahl's law and what Dadu-RBD (2023) says. The
parts:

design    the pipeline: interval, latency, words, shares of an XCVU9P, errors of its numbers
dynamics  the two calls alone, for one robot and for 64 at once
parts     every controller makes its iteration from the same plans and states, in turn
many      the same for 64 robots at once, whose dynamics are one call
golden    iterations from the same plans and short closed loops with the circuit's numbers, to the
          bit: a quarter of a minute for each iteration
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from chain_rule import STAGES, piece, products
from circuit import RESULTS, VARIANT, Circuit, sampled
from circuit_time import LINK, WORD, Times, seconds
from dynamics_accelerator import TURN, Accelerated, WithChainRule, WithStages
from formulation import Formulation
from loop import closed_loop
from options import parser, write_json
from plant import Plant
from robot import Quadruped, quadruped
from robots import machine_lines, say, table
from run import (
    PROBLEMS,
    Row,
    dynamics_of,
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
    circuit: Circuit, figures: Figures, robot: Quadruped, knots: int, threads: int
) -> dict[str, Dynamics]:
    """Those of the processor, and with an accelerator."""
    times, multipliers = figures
    cards: list[Dynamics] = [
        kind(robot, knots, circuit, times, dtype)
        for kind in (Accelerated, WithStages)
        for dtype in ("float64", "float32")
    ]
    cards.append(WithChainRule(robot, knots, circuit, times, multipliers=multipliers))
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
    """Closed loops with the circuit's numbers, and with those of float64, side by side."""
    rows, times = list[Row](), Times(1, 1)  # of no account at a fixed rate
    for exact in (True, False):
        formulation = Formulation(circuit.robot, knots=knots, barrier=True)
        formulation.task.begin = 0.0
        card = WithStages(circuit.robot, knots, circuit, times, golden=not exact)
        solver = solver_of(formulation, card, "barrier, Riccati")
        record = closed_loop(solver, Plant(circuit.robot, 0), iterations * period, period, say=say)
        off = np.linalg.norm(record.hand - record.hand_wanted, axis=1)
        row = {"part": "golden", "numbers": "float64" if exact else circuit.format}
        row |= {
            "fallen": record.fallen,
            "seconds": record.stood,
            "hand": float(np.sqrt(np.mean(off**2))),
        }
        row |= {"height": [float(x(record.base[:, 2])) for x in (np.min, np.max)]}
        rows.append(
            {
                **row,
                "sizes of steps": float(np.mean(solver.sizes)),
                **card.events,
                "end": record.base[-1].tolist(),
            }
        )
        say(str(rows[-1]))
    print(table([*rows[0]], [[str(x) for x in row.values()] for row in rows]), "\n")
    return rows


def main() -> None:
    options = parser(__doc__, rounds=31, json=None)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--parts", nargs="+", default=["design", "dynamics", "parts", "many"])
    options.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    options.add_argument("--knots", type=int, default=64)
    options.add_argument("--seconds", type=float, default=3.0, help="of plans in `parts`")
    options.add_argument(
        "--design", type=Path, help="a --json of that part, in place of a schedule"
    )
    options.add_argument("--iterations", type=int, default=40, help="of closed loops in `golden`")
    given = options.parse_args()
    print("\n".join(machine_lines()), "\n")
    robot, rows = quadruped(), list[Row]()
    circuit = Circuit(robot)
    if "golden" in given.parts:
        rows += golden(circuit, given.knots, given.iterations, 0.02)
    if {*given.parts} != {"golden"}:
        figures = figures_in(given.design) if given.design else figures_of(circuit)
    made = lambda *sizes: every_dynamics(circuit, figures, *sizes)
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
    if "many" in given.parts:
        rows += print_many(robot, given.problems, given.knots, 3, made)
    write_json(given.json, rows, knots=given.knots)


if __name__ == "__main__":
    main()
