"""How long do functions of `to_casadi`, their derivatives, and IPOPT with them take?

The problem is a motion of an arm from rest to rest, by trapezoidal collocation, with exact
Hessians. All times are processor time. Those of evaluations and solutions are medians of rounds in
which all ways take turns. A script is a process of its own that imports, loads, and solves the
problem once: with an empty cache on disk, and with the cache of the run before. See
docs/frameworks.md.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import casadi
import numpy as np
from options import loaded, parser, write_json
from robots import machine_lines, say, table

import featherlane as fl
from featherlane.interop.casadi import to_casadi

KNOTS, SECONDS, EVALUATIONS = 40, 1.0, 300
QUIET = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False}
WAYS: dict[str, tuple[dict[str, Any], bool]] = {  # options of `to_casadi`, and `expand`
    "default": ({}, False),
    "`inline=True`": ({"inline": True}, False),
    "`expand`": ({}, True),
}
Row = dict[str, Any]


def problem(model: fl.Model, forward_dynamics: Any) -> dict[str, Any]:
    """The unknowns, cost and constraints of the motion."""
    n, h = model.nv, SECONDS / KNOTS
    q, v, tau = (casadi.MX.sym(name, n, KNOTS + 1) for name in ("q", "v", "tau"))
    a = casadi.horzcat(*[forward_dynamics(q[:, k], v[:, k], tau[:, k]) for k in range(KNOTS + 1)])
    mean = lambda x: (x[:, 1:] + x[:, :-1]) / 2
    moved = [q[:, 1:] - q[:, :-1] - h * mean(v), v[:, 1:] - v[:, :-1] - h * mean(a)]
    ends = [q[:, 0], v[:, 0], v[:, -1], q[:, -1] - goal(model)]
    cost = h * (casadi.sumsqr(v) + 1e-3 * casadi.sumsqr(tau))
    return {"x": casadi.veccat(q, v, tau), "f": cost, "g": casadi.veccat(*moved, *ends)}


def goal(model: fl.Model) -> np.ndarray:
    return np.resize([0.5, -0.4, 0.3, -1.0, 0.2, 0.6, -0.1], model.nv)


def start(model: fl.Model) -> np.ndarray:
    line = np.outer(np.linspace(0, 1, KNOTS + 1), goal(model))
    return np.concatenate([line.ravel(), np.zeros(2 * line.size)])


def solver(model: fl.Model, way: str) -> Callable[[], Any]:
    """Returns a call that solves the problem."""
    options, expand = WAYS[way]
    forward_dynamics = to_casadi(model, "forward_dynamics", **options)
    settings = {**QUIET, "expand": expand}
    solve = casadi.nlpsol("solve", "ipopt", problem(model, forward_dynamics), settings)

    def solved() -> Any:
        solution = solve(x0=start(model), lbg=0, ubg=0)
        assert solve.stats()["success"], way
        return solution

    return solved


def evaluations(model: fl.Model, way: str) -> dict[str, Callable[[], None]]:
    """Calls of one state: the value, its Jacobian, and the Hessian of weights . value."""
    options, expand = WAYS[way]
    kind = casadi.SX if expand else casadi.MX
    function = to_casadi(model, "forward_dynamics", **options)
    x, w = kind.sym("x", 3 * model.nv), kind.sym("w", model.nv)
    y = function(*casadi.vertsplit(x, model.nv))
    hessian, _ = casadi.hessian(casadi.dot(w, y), x)
    wanted = {"value": y, "Jacobian": casadi.jacobian(y, x), "Hessian": hessian}
    made = {name: casadi.Function("made", [x, w], [result]) for name, result in wanted.items()}
    return {name: evaluated(function) for name, function in made.items()}


def evaluated(function: Any) -> Callable[[], None]:
    """Returns a call with numbers that passes no array through Python."""
    buffer, call = function.buffer()
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=function.nnz_in(i)) for i in range(function.n_in())]
    results = [np.zeros(function.nnz_out(i)) for i in range(function.n_out())]
    for i, x in enumerate(arrays):
        buffer.set_arg(i, memoryview(x))
    for i, x in enumerate(results):
        buffer.set_res(i, memoryview(x))

    def run(kept: Any = (buffer, arrays, results)) -> None:
        call()

    return run


def seconds(call: Callable[[], Any], count: int) -> float:
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count


def medians(calls: dict[Any, Callable[[], Any]], rounds: int, count: int) -> dict[Any, float]:
    """The median time of a call of each, in seconds; the first round compiles."""
    times = [
        {name: seconds(call, count) for name, call in calls.items()} for _ in range(rounds + 1)
    ]
    return {name: statistics.median(row[name] for row in times[1:]) for name in calls}


def scripts(robot: str, way: str) -> list[float]:
    """The times of a script that solves the problem, with an empty cache and once more."""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, __file__, "--robots", robot, "--solve", way]
        return [spent(call, {**os.environ, "FEATHERLANE_CACHE": folder}) for _ in range(2)]


def spent(call: list[str], environment: dict[str, str]) -> float:
    """The processor time of a process and of its own processes, in seconds."""
    before = os.times()
    subprocess.run(call, env=environment, check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def measured(robot: str, rounds: int) -> list[Row]:
    model = loaded(robot)
    say(f"{robot}: evaluations")
    calls = {(way, name): f for way in WAYS for name, f in evaluations(model, way).items()}
    us = medians(calls, rounds, EVALUATIONS)
    say(f"{robot}: solutions")
    ms = medians({way: solver(model, way) for way in WAYS}, rounds, 1)
    rows = []
    for way in WAYS:
        say(f"{robot}: scripts, {way}")
        cold, warm = scripts(robot, way)
        row = {name: 1e6 * us[way, name] for name in ("value", "Jacobian", "Hessian")}
        rows.append({"way": way, **row, "solution": 1e3 * ms[way], "cold": cold, "warm": warm})
    return rows


def main() -> None:
    options = parser(__doc__, robots=("iiwa14",), rounds=5, json=None)
    options.add_argument("--solve", choices=WAYS, help="solve once, and print nothing")
    arguments = options.parse_args()
    if arguments.solve:
        return solver(loaded(arguments.robots[0]), arguments.solve)()
    rows = [{"robot": r, **row} for r in arguments.robots for row in measured(r, arguments.rounds)]
    figures = ["value, us", "Jacobian, us", "Hessian, us", "solution, ms", "cold, s", "warm, s"]
    cells = [[*row.values()][:2] + [f"{x:.3g}" for x in [*row.values()][2:]] for row in rows]
    print(*machine_lines(), "", table(["robot", "way", *figures], cells), sep="\n")
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
