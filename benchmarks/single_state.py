"""How long does one state take from Python: against Pinocchio's own call, and against its C++?

Arrays of one state go in; new arrays come out, or those of `out=` are filled. The target is 1.2 us
for the way through Python and 0.4 times what Pinocchio takes in C++ for one state of a long loop
(where there is a C++ compiler). All alternate; figures are the best of the rounds, since what
others do on the machine only adds to them.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pinocchio as pin
from options import parser, write_json
from robots import (
    DEFAULT,
    FUNCTIONS,
    SHORT,
    Robot,
    States,
    chosen,
    machine_lines,
    say,
    table,
)
from suite.peers.loop import Loop, build
from suite.peers.loop import Robot as Peer

from featherlane.tools.timing import method

STATES = 256  # of the C++ loop
OVERHEAD, SHARE = 1.2, 0.4  # the target: us, and of the time in C++


class Result(NamedTuple):
    """The best rounds, in us per call; cpp is None without a C++ compiler."""

    robot: str
    root: str
    function: str
    python: float  # Pinocchio's
    cpp: float | None
    fresh: float  # ours, with new arrays
    given: float  # ours, with out=

    @property
    def target(self) -> float | None:
        return None if self.cpp is None else OVERHEAD + SHARE * self.cpp

    @property
    def verdict(self) -> str:
        if self.target is None:
            return "?"
        return "met" if max(self.fresh, self.given) <= self.target else "missed"


def us_per_call(call: Callable[[], Any], seconds: float) -> float:
    """The mean over a run long enough to be timed."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        for _ in range(20):
            call()
        count += 20
    return passed / count * 1e6


def calls_of(model: Any, name: str, states: States) -> dict[str, Callable[[], Any]]:
    """Ours on the first state, with new arrays and with `out=`."""
    given = [x[0].copy() for x in states.inputs(model, name, "float64")]
    out = method(model, name)(*given)  # compiles
    f = method(model, name)
    if len(given) == 1:
        (q,) = given
        return {"fresh": lambda: f(q), "given": lambda: f(q, out=out)}
    q, v, u = given
    return {"fresh": lambda: f(q, v, u), "given": lambda: f(q, v, u, out=out)}


def run(robot: Robot, program: Path | None, rounds: int, seconds: float) -> list[Result]:
    model = robot.model()
    states = States.random(model, STATES)
    peer = Peer(model, str(robot.urdf), *states)
    loop = Loop(program, model, str(robot.urdf), peer) if program else None
    results = []
    for name in FUNCTIONS:
        calls = {"python": peer.call(name), **calls_of(model, name, states)}
        times: dict[str, list[float]] = {who: [] for who in (*calls, "cpp")}
        for _ in range(rounds):
            for who, call in calls.items():
                times[who].append(us_per_call(call, seconds))
            if loop is not None:
                times["cpp"].append(loop.ns_per_state(name, 3) / 1e3)
        best = {who: min(t, default=None) for who, t in times.items()}
        results.append(Result(robot.name, robot.root, name, **best))
    if loop is not None:
        loop.close()
    return results


def row(r: Result) -> list[str]:
    def us(x: float | None) -> str:
        return "?" if x is None else f"{x:.2f}"

    times = [r.python, r.cpp, r.target, r.fresh, r.given]
    return [f"{r.robot}, {r.root}", SHORT[r.function], *map(us, times), r.verdict]


def main() -> None:
    options = parser(__doc__, robots=DEFAULT, rounds=101, json=None)
    options.add_argument("--seconds", type=float, default=0.002, help="of each in a round")
    args = options.parse_args()
    try:
        program = build()
    except RuntimeError as error:
        say(f"without the C++ loop: {error}")
        program = None
    robots = chosen(args.robots)
    results = [r for robot in robots for r in run(robot, program, args.rounds, args.seconds)]
    header = ["robot", "function", "Pinocchio's Python", "C++", "target", "new arrays", "out=", ""]
    print(table(header, list(map(row, results))))
    date = datetime.date.today().isoformat()
    print(f"\nus per call, one state, float64, the best of {args.rounds} rounds; {date}.")
    print(f"Target: {OVERHEAD} us + {SHARE} times C++.")
    print(f"Pinocchio {pin.__version__}. " + "\n".join(machine_lines()))
    rows = [{**r._asdict(), "target": r.target, "verdict": r.verdict} for r in results]
    write_json(args.json, rows, rounds=args.rounds, pinocchio=pin.__version__)


if __name__ == "__main__":
    main()
