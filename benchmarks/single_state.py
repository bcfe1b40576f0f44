"""How long does one state take from Python, ours against Pinocchio's own call?

Arrays of one state go in and new arrays come out. The two alternate; figures are medians.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pinocchio as pin
from peers.loop import Robot as Peer
from robots import FUNCTIONS, SHORT, Robot, States, chosen, machine, machine_lines, parser, table

from featherlane.bench import method


class Result(NamedTuple):
    """Medians, in us per call."""

    robot: str
    root: str
    function: str
    peer: float
    ours: float

    @property
    def verdict(self) -> str:
        return "met" if self.ours <= self.peer else "missed"


def us_per_call(call: Callable[[], Any], seconds: float) -> float:
    """The mean over a run long enough to be timed."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        for _ in range(20):
            call()
        count += 20
    return passed / count * 1e6


def run(robot: Robot, rounds: int, seconds: float) -> list[Result]:
    model = robot.model()
    states = States.random(model, 1)
    peer = Peer(model, str(robot.urdf), *states)
    results = []
    for name in FUNCTIONS:
        given = [x[0].copy() for x in states.inputs(model, name, "float64")]
        method(model, name)(*given)  # compiles
        ours = method(model, name)
        calls = {"peer": peer.call(name), "ours": lambda f=ours, g=given: f(*g)}
        times: dict[str, list[float]] = {who: [] for who in calls}
        for call in calls.values():
            call()
        for _ in range(rounds):
            for who, call in calls.items():
                times[who].append(us_per_call(call, seconds))
        medians = {who: median(t) for who, t in times.items()}
        results.append(Result(robot.name, robot.root, name, **medians))
    return results


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=21)
    options.add_argument("--seconds", type=float, default=0.02, help="of each in a round")
    options.add_argument("--json", type=Path, metavar="FILE")
    args = options.parse_args()
    results = [r for robot in chosen(args.robots) for r in run(robot, args.rounds, args.seconds)]
    header = ["robot", "function", "Pinocchio's Python", "featherlane", "ratio", "no slower"]
    rows = [
        [
            f"{r.robot}, {r.root}",
            SHORT[r.function],
            f"{r.peer:.2f}",
            f"{r.ours:.2f}",
            f"{r.peer / r.ours:.2f}",
            r.verdict,
        ]
        for r in results
    ]
    print(table(header, rows))
    date = datetime.date.today().isoformat()
    print(f"\nus per call, one state, float64, medians of {args.rounds} rounds; {date}.")
    print(f"Pinocchio {pin.__version__}. " + "\n".join(machine_lines()))
    if args.json:
        facts = {"date": date, "pinocchio": pin.__version__, "machine": machine()}
        facts["results"] = [{**r._asdict(), "verdict": r.verdict} for r in results]
        args.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
