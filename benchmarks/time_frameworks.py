"""What does a call through PyTorch or JAX cost, beside the direct call with NumPy arrays?

The same function at the same states: directly, with tensors of torch, by torch's wrapped model,
and inside of jax.jit. Each takes turns with the direct call, and returns fresh results; figures are
medians of the clock, since XLA and the direct call may both use all cores, and of the ratios to the
direct call of the same round. Frameworks that are not installed are left out. Gradients are of the
sum of squares of the results by all arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from options import parser, write_json
from robots import States, chosen, machine_lines, table

FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives")
Calls = dict[str, Callable[[], Any]]


def main() -> None:
    defaults = {"batch": (1, 64, 4096), "dtype": "float64", "rounds": 201, "json": None}
    args = parser(__doc__, robots=("iiwa14",), functions=FUNCTIONS, **defaults).parse_args()
    results, rows = [], []
    for robot in chosen(args.robots):
        model = robot.model()
        for batch in args.batch:
            for name in args.functions or FUNCTIONS:
                given = States.random(model, batch).inputs(model, name, args.dtype)
                direct = getattr(model, name)
                calls: Calls = {"direct": lambda f=direct, g=given: f(*g)}
                calls |= _torch(model, name, given) | _jax(model, name, given)
                print(robot.title, batch, name, file=sys.stderr)
                times = _times(calls, args.rounds)
                for how, (taken, direct) in times.items():
                    ratios = [a / b for a, b in zip(taken, direct, strict=True)]
                    told = {"us": 1e6 * median(taken), "ratio": median(ratios)}
                    head = {"robot": robot.title, "batch": batch, "function": name, "call": how}
                    results.append({**head, **told})
                    rows.append([*map(str, head.values()), *(f"{x:.2f}" for x in told.values())])
    print(table(["robot", "batch", "function", "call", "us", "times direct"], rows))
    print(f"\n{args.dtype}, medians of {args.rounds} rounds.")
    print("\n".join(machine_lines()))
    write_json(args.json, results, dtype=args.dtype, rounds=args.rounds)


def _times(calls: Calls, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of each call, and of the direct one, with which it takes turns alone: the threads of
    one framework watch for work for a while after a call, and would disturb another's.
    """
    times: dict[str, tuple[list[float], list[float]]] = {}
    for how, call in calls.items():
        pair = call, calls["direct"]
        times[how] = [], []
        for run in pair * 3:
            run()
        for _ in range(rounds):
            for run, taken in zip(pair, times[how], strict=True):
                start = perf_counter()
                run()
                taken.append(perf_counter() - start)
    return times


def _torch(model: Any, name: str, given: tuple[np.ndarray, ...]) -> Calls:
    try:
        import torch

        from featherlane.interop.torch import wrap
    except ImportError:
        return {}
    tensors, wrapped = [torch.from_numpy(x) for x in given], getattr(wrap(model), name)
    active = [x.clone().requires_grad_() for x in tensors]

    def gradient() -> Any:
        made = wrapped(*active)
        total = sum((x**2).sum() for x in (made if isinstance(made, tuple) else (made,)))
        return torch.autograd.grad(total, active)

    calls = {
        "torch, tensors": lambda: getattr(model, name)(*tensors),
        "torch, wrapped": lambda: wrapped(*tensors),
    }
    return calls if name.endswith("derivatives") else calls | {"torch, gradient": gradient}


def _jax(model: Any, name: str, given: tuple[np.ndarray, ...]) -> Calls:
    try:
        import jax
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)
    from featherlane.interop.jax import wrap

    arrays, wrapped = [jax.numpy.asarray(x) for x in given], getattr(wrap(model), name)
    jitted = jax.jit(wrapped)

    def total(arguments: Any) -> Any:
        made = wrapped(*arguments)
        return sum((x**2).sum() for x in (made if isinstance(made, tuple) else (made,)))

    gradient = jax.jit(jax.grad(total))
    calls: Calls = {"jax.jit": lambda: jax.block_until_ready(jitted(*arrays))}
    if name.endswith("derivatives"):
        return calls
    return calls | {"jax.jit, gradient": lambda: jax.block_until_ready(gradient(arrays))}


if __name__ == "__main__":
    main()
