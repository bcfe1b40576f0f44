"""Costs of each way of calling a function for one state, in microseconds of processor time.

Ways alternate in rounds of one process, and the least of all rounds counts. See docs/real_time.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import featherlane as fl

CALLS = 200  # of each way in a round


def ways(model: fl.Model) -> dict[str, Callable[[], Any]]:
    """Returns calls for one state by what they show."""
    q, v = np.linspace(0.2, 1.4, model.nq), np.linspace(-0.5, 1.0, model.nv)
    tau, frame = np.ones(model.nv), model.frame_names[-1]
    lists = [x.tolist() for x in (q, v, tau)]
    listed, dt, wrench = q.tolist(), np.array(0.002), {frame: np.ones(6)}
    step, jacobian = (
        model.function("step"),
        model.function("jacobian", frame=frame, reference="body"),
    )
    scaled = fl.compile(lambda q, s: s * q, {"q": model.nq, "s": ()})
    wrt, small, single = "mass", np.float32(0.002), [x.astype(np.float32) for x in (q, v, tau)]
    tensor, cube = fl.compile(lambda A: 2.0 * A, {"A": (3, 3, 3)}), np.ones((3, 3, 3))

    def terms(q: Any, v: Any) -> dict[str, Any]:
        J = model.jacobian(q, frame)
        return {"M": model.mass_matrix(q), "h": model.bias_force(q, v), "J": J}

    together = fl.compile(terms, {"q": model.nq, "v": model.nv})
    return {
        "three terms, one compiled function": lambda: together(q, v),
        "three terms, three methods": lambda: terms(q, v),
        "method, arrays": lambda: model.inverse_dynamics(q, v, tau),
        "method, a list among arrays": lambda: model.inverse_dynamics(listed, v, tau),
        "method, lists": lambda: model.inverse_dynamics(*lists),
        "method of a frame": lambda: model.jacobian(q, frame),
        "method of a frame, its axes by name": lambda: model.jacobian(q, frame, reference="world"),
        "derivatives by a parameter": lambda: model.inverse_dynamics_parameter_derivatives(
            q, v, tau, wrt
        ),
        "function of a frame": lambda: jacobian(q),
        "step, method, a float as dt": lambda: model.step(q, v, tau, 0.002),
        "step, method, np.float32": lambda: model.step(*single, small),
        "step, method, an integrator": lambda: model.step(q, v, tau, 0.002, integrator="euler"),
        "step, function, an array as dt": lambda: step(q, v, tau, dt),
        "method, f_ext by frames' names": lambda: model.forward_dynamics(q, v, tau, wrench),
        "method, f_ext in the world's axes": lambda: model.forward_dynamics(
            q, v, tau, wrench, f_ext_frame="world"
        ),
        "step, method, f_ext by frames' names": lambda: model.step(q, v, tau, 0.002, wrench),
        "compiled function, a float": lambda: scaled(q, 0.5),
        "compiled function, three dimensions": lambda: tensor(cube),
        "second derivatives, method": lambda: model.inverse_dynamics_second_derivatives(q, v, v),
    }


def ways_of_torch(model: fl.Model) -> dict[str, Callable[[], Any]]:
    """Returns calls of a model that is wrapped for PyTorch, if that is installed."""
    if find_spec("torch") is None:
        return {}
    import torch

    from featherlane.interop import torch as interop

    wrapped, frame = interop.wrap(model), model.frame_names[-1]
    q, v, tau = (
        torch.linspace(0.2, 1.0, n, dtype=torch.float64) for n in (model.nq, model.nv, model.nv)
    )
    dt, varied = torch.tensor(0.002, dtype=torch.float64), q.clone().requires_grad_(True)
    return {
        "wrapped step": lambda: wrapped.step(q, v, tau, dt),
        "wrapped step, recorded for gradients": lambda: wrapped.step(varied, v, tau, dt),
        "wrapped method of a frame": lambda: wrapped.jacobian(q, frame),
    }


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the least time of a call of each way, in us."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds + 1):  # the first round compiles
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.process_time() - start) / CALLS * 1e6)
    return least


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="iiwa14")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    model = fl.load(arguments.robot)
    for name, us in measured(ways(model) | ways_of_torch(model), arguments.rounds).items():
        print(f"| {name} | {us:.2f} |")


if __name__ == "__main__":
    main()
