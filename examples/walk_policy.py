"""How a policy walks that `walk_ppo.py` has learned: its velocities, and what it looks like.

pip install 'featherlane[gymnasium]'
python examples/walk_policy.py [policy.npz] [--robot go2] [--simulator mujoco] [--view]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import walking

from featherlane.interop.gymnasium import AutoresetMode, TracedVectorEnv

LEARNED = Path(__file__).with_name("walk_go2.npz")


def network_of(weights: dict[str, np.ndarray]) -> Any:
    """The policy of a file of `walk_ppo.py`: a function from observations to actions."""
    layers = [weights[f"layer{i}"] for i in range(6)]

    def act(observation: Any) -> Any:
        x = np.clip((observation - weights["mean"]) / weights["scale"], -6, 6)
        for W, b in zip(layers[:4:2], layers[1:4:2], strict=True):
            x = x @ W.T + b
            x = np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)
        return x @ layers[4].T + layers[5]

    return act


def simulator(name: str) -> Any:
    """The class of vector environments with this physics."""
    return import_module("walking_mujoco").MujocoEnv if name == "mujoco" else TracedVectorEnv


def walk(
    task: walking.Walking, act: Any, commands: np.ndarray, steps: int, kind: Any = TracedVectorEnv
) -> Iterator[tuple[Any, Any]]:
    """Yields the states of robots with commands (n, 3), and which fall in this step. They keep
    their heading: what they have turned is taken back.
    """
    envs = kind(task, len(commands), autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    first = envs.state.q[:, 3:7]
    first[:, 2:] = (0, 1)  # along x
    for _ in range(steps):
        q = envs.state.q
        yaw = np.arctan2(
            2 * (q[:, 6] * q[:, 5] + q[:, 3] * q[:, 4]), 1 - 2 * np.sum(q[:, 4:6] ** 2, 1)
        )
        command = commands - np.outer(yaw, [0, 0, 1])
        envs.state = envs.state._replace(command=command.astype(np.float32))
        ended = envs.step(act(envs.observe()))[2]
        yield envs.state, ended


def judge(task: walking.Walking, act: Any, kind: Any = TracedVectorEnv, robots: int = 300) -> None:
    """Prints how robots walk for 10 s at some commands: pushed, and each on a floor and with a mass
    of its own.
    """
    for forward in (0.5, 0.75, 1.0):
        commands, fallen, speeds, tilts = np.tile([forward, 0, 0], (robots, 1)), False, [], []
        for state, ended in walk(task, act, commands, 500, kind):
            fallen = fallen | ended
            speeds.append(state.v[:, 0])
            tilts.append(2 * np.linalg.norm(state.q[:, 3:5], axis=1))
        mean = np.mean(speeds[100:], axis=0)[~fallen]
        print(
            f"told {forward} m/s: {mean.mean():.2f} m/s ({mean.min():.2f} to {mean.max():.2f})",
            end="",
        )
        print(f", tilted by {np.median(tilts):.2f} rad, {np.sum(fallen)} of {robots} fell")


def show(task: walking.Walking, act: Any) -> None:
    """Plays 10 s of one robot in the browser."""
    from featherlane.interop import view

    rows = [state.q[0] for state, _ in walk(task, act, np.array([[0.8, 0, 0]]), 500)]
    page = view.show(task.robot, np.stack(rows), dt=walking.DT * walking.SUBSTEPS)
    input(f"{page.url}; Enter ends")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("policy", nargs="?", default=LEARNED)
    parser.add_argument("--robot", default="go2", choices=["go2", "g1"])
    parser.add_argument("--simulator", default="featherlane", choices=["featherlane", "mujoco"])
    parser.add_argument("--view", action="store_true", help="watch it in the browser")
    args = parser.parse_args()
    task, act = getattr(walking, args.robot)(), network_of(dict(np.load(args.policy)))
    judge(task, act, simulator(args.simulator))
    if args.view:
        show(task, act)


if __name__ == "__main__":
    main()
