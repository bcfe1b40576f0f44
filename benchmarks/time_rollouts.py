"""What do gradients through rollouts cost inside of jax.jit, beside the direct calls?

The case of examples/jax_rollout.py: torques of 256 throws of an iiwa14, 40 steps, float32. "jax"
is the loss with its gradient in one jitted call, with the frames and the flight of the ball;
"direct" are `rollout` and `rollout_gradient` with the same controls in NumPy. They take turns;
figures are medians of the clock and of the processor time of all threads, and of the ratios of
rounds. By the clock XLA's threads also wait for a core: on a machine with other work the processor
time tells more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import jax
import numpy as np
from options import parser, write_json
from robots import machine_lines, table

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from jax_rollout import DT, ROBOT, SCALE, START, STEPS, make_loss, targets

import featherlane as fl

CLOCKS = {"clock": perf_counter, "processor": process_time}


def main() -> None:
    args = parser(__doc__, batch=256, rounds=201, json=None).parse_args()
    arm, wanted = fl.load(ROBOT), targets(args.batch)
    controls = np.zeros((args.batch, STEPS, arm.nv), np.float32)
    gradient = jax.jit(jax.value_and_grad(make_loss(arm, wanted)))
    q, v = np.tile(np.float32(START), (args.batch, 1)), np.zeros((args.batch, arm.nv), np.float32)
    tau = np.float32(arm.gravity_torque(START)) + np.float32(SCALE) * controls
    by_states = np.ones((args.batch, STEPS + 1, arm.nv), np.float32)
    given, integrator = (tau, np.float32(DT)), {"integrator": "implicit_damping"}

    def direct() -> None:
        moved = arm.rollout(q, v, *given, **integrator)
        arm.rollout_gradient(moved, *given, by_states, by_states, **integrator)

    calls = {"jax": lambda: jax.block_until_ready(gradient(controls)), "direct": direct}
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in calls}
    for k in range(args.rounds + 3):
        for name, call in calls.items():
            start = [clock() for clock in CLOCKS.values()]
            call()
            each = tuple(clock() - x for clock, x in zip(CLOCKS.values(), start, strict=True))
            if k > 2:  # those before compile and warm up
                taken[name].append(each)
    rows = []
    for clock, times in zip(CLOCKS, zip(*map(columns, taken.values()), strict=True), strict=True):
        ratio = median(a / b for a, b in zip(*times, strict=True))
        ms = dict(zip(calls, (1e3 * median(x) for x in times), strict=True))
        rows.append({"time": clock, **ms, "ratio": ratio})
    cells = [[row["time"], *(f"{row[x]:.2f}" for x in (*calls, "ratio"))] for row in rows]
    print(table(["ms", *calls, "jax / direct"], cells))
    print(f"\nMedians of {args.rounds} rounds.")
    print("\n".join(machine_lines()))
    write_json(args.json, rows, rounds=args.rounds)


def columns(rows: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    return list(zip(*rows, strict=True))


if __name__ == "__main__":
    main()
