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
from typing import Any

import numpy as np
from options import parser
from robots import chosen, table

import featherlane as fl
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


def measured(model: Model, emulated: bool = False) -> Iterator[dict[str, Any]]:
    """Seconds of each partition, and how far its result is from the CPU's."""
    every = partitions(model)
    cpu = model.function("forward_dynamics_derivatives")
    for batch in (16,) if emulated else BATCHES:
        rng = np.random.default_rng(0)
        q = model.random_configuration(batch, seed=rng).astype(np.float32)
        v, tau = rng.normal(size=(2, batch, model.nv)).astype(np.float32)
        calls = {**every, "CPU alone": lambda *x: tuple(cpu(*x)[:2])}
        wanted = calls["CPU alone"](q, v, tau)
        for name, call in calls.items():
            found = call(q, v, tau)
            pairs = zip(found, wanted, strict=True)
            error = max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)
            times = []
            for _ in range(1 if emulated else 15):
                start = time.perf_counter()
                call(q, v, tau)
                times.append(time.perf_counter() - start)
            seconds = float(np.median(times))
            yield {"batch": batch, "who": name, "seconds": seconds, "value": f"{error:.0e}"}


def main() -> None:
    from gpu_card import card

    args, gpu = parser(__doc__, robots=("iiwa14",)).parse_args(), card()
    for robot in chosen(args.robots):
        model = fl.load(str(robot.urdf), root=robot.root)
        found = [*measured(model, gpu.emulated)]
        print(f"{robot.title}, {gpu.name}")
        print(table([*found[0]], [[str(x) for x in each.values()] for each in found]))


if __name__ == "__main__":
    main()
