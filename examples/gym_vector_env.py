"""4,096 arms that reach for points by joint torques, as one vector environment of gymnasium: a step
of all of them, five steps of dynamics with observations and rewards, is one compiled function.

    pip install 'featherlane[gymnasium]'
    python examples/gym_vector_env.py [--envs 4096] [--mujoco]
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from time import process_time
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

import featherlane as fl
from featherlane.interop.gymnasium import EpisodicTask, TracedVectorEnv

ROBOT, HAND = "iiwa14", "iiwa_link_7"
DT, SUBSTEPS = 0.004, 5  # s; 50 steps of an environment a second
TORQUE = np.array([100, 100, 50, 50, 20, 10, 2.0])  # N m of an action of 1, beside gravity
FASTEST = 15.0  # rad/s, where an episode ends


class Reach(EpisodicTask):
    """Actions are torques as parts of `TORQUE`, in [-1, 1]; observations q, v and the way from the
    hand to its goal. Episodes begin at rest, with goals that can be reached.
    """

    state, actions, longest, random = {"q": 7, "v": 7, "goal": 3}, 7, 200, 14

    def __init__(self) -> None:
        self.arm = fl.load(ROBOT)
        self.lowest, self.highest = (x[:7] for x in self.arm.position_limits)

    def start(self, random: Any) -> dict[str, Any]:
        middle, half = (self.highest + self.lowest) / 2, (self.highest - self.lowest) / 2
        q, there = 0.8 * half * (2 * np.reshape(random, (2, 7)) - 1) + middle
        return {"q": q, "v": 0 * q, "goal": self.arm.frame_placement(there, HAND)[:3, 3]}

    def advance(self, state: Any, action: Any, noise: Any) -> Any:
        tau = self.arm.gravity_torque(state.q) + TORQUE * np.clip(action, -1, 1)
        moved = self.arm.rollout(state.q, state.v, np.stack([tau] * SUBSTEPS), DT)
        return state._replace(q=moved.q[-1], v=moved.v[-1])

    def observe(self, state: Any) -> Any:
        reach = self.arm.frame_placement(state.q, HAND)[:3, 3] - state.goal
        return np.concatenate([state.q, state.v, reach])

    def reward(self, state: Any, action: Any, after: Any) -> Any:
        return -np.linalg.norm(self.observe(after)[14:]) - 0.01 * np.sum(action**2)

    def terminated(self, state: Any) -> Any:
        return np.max(np.abs(state.v)) > FASTEST


def steps_per_second(envs: VectorEnv, count: int) -> float:
    """Steps of single environments, of random actions, a second of this process."""
    envs.reset(seed=0)
    actions = envs.action_space.sample() * np.float32(0.1)
    envs.step(actions)
    before = process_time()
    for _ in range(count):
        envs.step(actions)
    return envs.num_envs * count / (process_time() - before)


def mujoco_steps_per_second(num_envs: int) -> float:
    """The same of MuJoCo's `rollout`, one thread: without contacts, observations and rewards."""
    import mujoco
    from mujoco.rollout import rollout

    text = (files("featherlane.robot.bundled") / f"{ROBOT}.urdf").read_text()
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.timestep, model.opt.integrator = DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    states, data = np.zeros((num_envs, 15)), mujoco.MjData(model)
    before = process_time()
    rollout([model] * num_envs, data, states, nstep=SUBSTEPS)
    return num_envs / (process_time() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--envs", type=int, default=4096, help="environments (%(default)s)")
    parser.add_argument("--mujoco", action="store_true", help="also MuJoCo's steps a second")
    args = parser.parse_args()
    rate = steps_per_second(TracedVectorEnv(Reach(), args.envs), 50)
    print(f"{rate:,.0f} steps a second of {args.envs:,} environments")
    if args.mujoco:
        print(f"{mujoco_steps_per_second(args.envs):,.0f} of MuJoCo")


if __name__ == "__main__":
    main()
