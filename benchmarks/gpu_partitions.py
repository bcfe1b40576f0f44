"""How should the gradient of forward dynamics be shared between CPU and GPU?

The partitions of Plancher et al. (RA-L 2021, section IV-B, figures 2 and 3), each from NumPy arrays
to NumPy arrays:

- split: the CPU computes the accelerations and M^-1, the GPU the derivatives of inverse dynamics,
  and the CPU the product of both;
- fused: the CPU computes the accelerations and M^-1, the GPU all the rest;
- completely fused: the GPU computes everything.

There the link velocities, accelerations and forces are on the CPU in the split form; here the
derivatives of inverse dynamics need nothing but the state and the acceleration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_card import card
from gpu_cells import Bench, Cell, Row, asked, rows
from gpu_rates import by_the_clock
from options import parser
from robots import States, table

from featherlane.api.model import Model

BATCHES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
Partition = Callable[..., tuple[np.ndarray, np.ndarray]]


def partitions(model: Model) -> dict[str, Partition]:
    """By name: what gives da/dq and da/dv of (q, v, tau)."""
    forward, inverse = model.function("forward_dynamics"), model.function("mass_matrix_inverse")
    derivatives = model.function("inverse_dynamics_derivatives", device="cuda")
    rest = model.function("forward_dynamics_derivatives_from", device="cuda")
    whole = model.function("forward_dynamics_derivatives", device="cuda")

    def split(q: Any, v: Any, tau: Any) -> tuple[np.ndarray, np.ndarray]:
        a, minv = forward(q, v, tau), inverse(q)
        by_q, by_v = derivatives(q, v, a)
        return -minv @ by_q, -minv @ by_v

    def fused(q: Any, v: Any, tau: Any) -> tuple[np.ndarray, np.ndarray]:
        return tuple(rest(q, v, forward(q, v, tau), inverse(q)))

    def completely_fused(q: Any, v: Any, tau: Any) -> tuple[np.ndarray, np.ndarray]:
        return tuple(whole(q, v, tau)[:2])

    return {"split": split, "fused": fused, "completely fused": completely_fused}


def cells(bench: Bench) -> Iterator[Cell]:
    """Each partition, and the CPU alone, for so many states."""
    for robot, model in [*bench.models()][:1]:
        calls = {**partitions(model), "CPU alone": _on_cpu(model)}
        for batch in bench.batches(*BATCHES):
            for who, call in calls.items():
                told = {"robot": asked(robot), "function": "forward_dynamics_derivatives"}
                work = partial(_measured, model, call, batch, bench.gpu.emulated)
                yield Cell({**told, "dtype": "float32", "batch": batch, "who": who}, work)


def _on_cpu(model: Model) -> Partition:
    derivatives = model.function("forward_dynamics_derivatives")
    return lambda *state: tuple(derivatives(*state)[:2])


def _measured(model: Model, call: Partition, batch: int, once: bool) -> Row:
    """Seconds of a partition, and how far its result is from the CPU's."""
    state = States.random(model, batch).inputs(model, "forward_dynamics", "float32")
    pairs = zip(call(*state), _on_cpu(model)(*state), strict=True)
    error = max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)
    seconds = by_the_clock(lambda: call(*state), once)
    return {"seconds": seconds, "value": f"{error:.0e}"}


def main() -> None:
    options = parser(__doc__, robots=("iiwa14",))
    options.add_argument("--emulated", action="store_true", help="a dry run in the emulator")
    args = options.parse_args()
    bench = Bench(card(args.emulated), Path(), tuple(args.robots), (), time.monotonic() + 600)
    found = [row for row in rows(cells(bench), bench) if "begun" not in row]
    print(bench.gpu.name)
    print(table([*found[0]], [[str(x) for x in each.values()] for each in found]))


if __name__ == "__main__":
    main()
