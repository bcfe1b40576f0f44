"""4,096 arms that reach for points by joint torques, as one vector environment of gymnasium: a step
of all of them, five steps of dynamics with observations and rewards, is one compiled function.

    python examples/gym_vector_env.py [--envs 4096] [--mujoco]
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from time import process_time
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

import featherlane as fl

ROBOT, HAND = "iiwa14", "iiwa_link_7"
DT, SUBSTEPS = 0.004, 5  # s; 50 steps of an environment a second
TORQUE = np.array([100, 100, 50, 50, 20, 10, 2.0])  # N m of an action of 1, beside gravity
FASTEST, LONGEST = 15.0, 200  # rad/s, where an episode ends; steps, after which it is cut


class ReachVectorEnv(VectorEnv):
    """Actions are torques as parts of `TORQUE`, in [-1, 1]; observations q, v and the way from the
    hand to its goal. An episode terminates at `FASTEST`, and is truncated after `LONGEST` steps.

    autoreset_mode: as gymnasium defines them. With AutoresetMode.DISABLED, `reset` takes
    options={"reset_mask": booleans}.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP):
        self.metadata = {"autoreset_mode": autoreset_mode}  # type: ignore[misc]
        self.num_envs, self.mode, self.arm = num_envs, autoreset_mode, fl.load(ROBOT)
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (17,), np.float32)
        self.single_action_space = spaces.Box(-1, 1, (7,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.lowest, self.highest = (
            np.array([getattr(joint, side)[0] for joint in self.arm.joints])
            for side in ("lower", "upper")
        )
        shapes = {"q": 7, "v": 7, "goal": 3}
        self.advance = fl.compile(self._advance, {**shapes, "action": 7})
        self.observe = fl.compile(self._observe, shapes)
        self.q, self.v, self.goal = (np.zeros((num_envs, n), np.float32) for n in shapes.values())
        self.age, self.over = np.zeros(num_envs, int), np.zeros(num_envs, bool)

    # Traced, for one environment

    def _advance(self, q: Any, v: Any, goal: Any, action: Any) -> dict[str, Any]:
        tau = self.arm.gravity_torque(q) + TORQUE * np.clip(action, -1, 1)
        controls = np.stack([tau] * SUBSTEPS)
        moved = self.arm.rollout(q, v, controls, DT, integrator="implicit_damping")
        q, v = moved.q[-1], moved.v[-1]
        reach = self.arm.frame_placement(q, HAND)[:3, 3] - goal
        reward = -np.linalg.norm(reach) - 0.01 * np.sum(action**2)
        failed = ~(np.max(np.abs(v)) < FASTEST)  # NaN fails, too
        return {"q": q, "v": v, "seen": _joined(q, v, reach), "reward": reward, "failed": failed}

    def _observe(self, q: Any, v: Any, goal: Any) -> Any:
        return _joined(q, v, self.arm.frame_placement(q, HAND)[:3, 3] - goal)

    # gymnasium's interface

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs)), bool)
        self._restart(mask)
        self.over[mask] = False
        return self.observe(self.q, self.v, self.goal), {}

    def step(self, actions: np.ndarray):
        waited = self.over & (self.mode == AutoresetMode.NEXT_STEP)
        given = self.q, self.v, self.goal, np.asarray(actions, np.float32)
        self.q, self.v, seen, reward, failed = self.advance(*given)
        self.age += 1
        terminated, truncated = failed != 0, self.age >= LONGEST
        if waited.any():  # their episode ended in the last step, and begins in this one
            self._restart(waited)
            seen[waited] = self.observe(self.q, self.v, self.goal)[waited]
            reward[waited], terminated[waited], truncated[waited] = 0, False, False
        self.over, info = terminated | truncated, {}
        if self.mode == AutoresetMode.SAME_STEP and self.over.any():
            info = {"final_obs": seen.copy(), "_final_obs": self.over.copy()}
            self._restart(self.over)
            seen = np.where(self.over[:, None], self.observe(self.q, self.v, self.goal), seen)
        return seen, reward, terminated, truncated, info

    def _restart(self, mask: np.ndarray) -> None:
        """Begins the episodes of some environments at rest, with goals that can be reached."""
        middle, half = (self.highest + self.lowest) / 2, (self.highest - self.lowest) / 2
        start, there = self.np_random.uniform(-0.8, 0.8, (2, mask.sum(), 7)) * half + middle
        self.q[mask], self.v[mask], self.age[mask] = start, 0, 0
        self.goal[mask] = self.arm.frame_placement(there, HAND)[..., :3, 3]


def _joined(q: Any, v: Any, reach: Any) -> Any:
    return np.concatenate([q, v, reach])


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
    rate = steps_per_second(ReachVectorEnv(args.envs), 50)
    print(f"{rate:,.0f} steps a second of {args.envs:,} environments")
    if args.mujoco:
        print(f"{mujoco_steps_per_second(args.envs):,.0f} of MuJoCo")


if __name__ == "__main__":
    main()
