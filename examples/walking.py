"""Robots that learn to walk: tasks for gymnasium's vector API, a Go2 and a G1.

`TracedVectorEnv(go2(), 1024)` (the extra `gymnasium`) compiles physics, observations, rewards and
new episodes to one function. `walk_ppo.py` learns, and `walk_policy.py` shows what was learned.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

import featherlane as fl
from featherlane.interop.gymnasium import EpisodicTask

DT, SUBSTEPS = 0.005, 4  # s; 50 actions a second
PUSH, PUSHED = 0.6, 1 / 250  # m/s, and the share of steps in which a robot is pushed
CONTACT = {"ground": fl.Ground(), "law": fl.Coulomb(sweeps=10)}


class Gait(NamedTuple):
    """How a robot stands and steps, and the servos of its joints."""

    stance: np.ndarray  # rad, of all joints
    height: float  # m, of the root above the ground
    fallen: float  # m, below which it has fallen
    kp: np.ndarray  # N m/rad
    kd: np.ndarray  # N m s/rad
    feet: tuple[str, ...]  # frames
    offsets: tuple[float, ...]  # of the feet's strides, as parts of one
    period: float  # s, of a stride
    lift: tuple[float, float]  # m, of the feet's frames on the ground, and above that in the air
    acting: int = 12  # so many joints, the first ones, get actions; the others stay in the stance
    scale: float = 0.3  # rad, of an action of 1


class Walking(EpisodicTask):
    """Walking at a commanded velocity, (forward, left, turn), m/s and rad/s. Friction and mass of
    the root are those of each environment; the robots are pushed now and then. An episode has 10 s.
    """

    longest, random, noise = 500, 12, 3
    bounds: ClassVar[tuple[Any, Any]] = (-np.inf, np.inf)

    def __init__(self, robot: fl.Model, gait: Gait) -> None:
        self.robot, self.gait = robot, gait
        self.actions, feet = gait.acting, len(gait.feet)
        self.servo = robot.policy(self._servo, {"target": robot.nv - 6})
        self.spheres = len(robot.collision_shapes) // feet  # of each foot, one foot after another
        self.state = {
            **{"q": robot.nq, "v": robot.nv, "action": self.actions, "tau": robot.nv - 6},
            **{"command": 3, "clock": 1, "touching": feet, "mass": 1, "friction": 1},
        }

    def _servo(self, q: Any, v: Any, t: Any, target: Any) -> Any:
        tau, most = self.gait.kp * (target - q[7:]) - self.gait.kd * v[6:], self.robot.effort_limits
        return np.concatenate([np.zeros(6), np.clip(tau, -most[6:], most[6:])])

    def start(self, random: Any) -> dict[str, Any]:
        signed = 2 * random - 1
        half, still = np.pi / 2 * signed[0], np.zeros(self.robot.nv - 6)  # of its heading
        turned = [0 * half, 0 * half, np.sin(half), np.cos(half)]
        joints = self.gait.stance * (1 + 0.1 * signed[1])
        return {
            "q": np.concatenate([np.array([0, 0, self.gait.height]), turned, joints]),
            "v": np.concatenate([0.3 * signed[2:8], still]),
            "action": still[: self.actions],
            "tau": still,
            "command": np.array([random[8], 0.3 * signed[9], 0.7 * signed[10]]),
            "clock": random[11:12],
            "touching": np.ones(len(self.gait.feet)),
            "mass": 1 + 0.1 * signed[2:3],
            "friction": 0.7 + 0.3 * signed[4:5],
        }

    def advance(self, state: Any, action: Any, noise: Any) -> Any:
        push = PUSH * np.where(noise[0] < PUSHED, 2 * noise[1:] - 1, 0.0)
        v = state.v + np.concatenate([push, np.zeros(self.robot.nv - 2)])
        masses = np.array([body.mass for body in self.robot.bodies])
        offsets = np.concatenate([action, np.zeros(len(self.gait.stance) - self.actions)])
        moved = self.robot.rollout_with(
            self.servo, state.q, v, DT, SUBSTEPS,
            parameters={"target": self.gait.stance + self.gait.scale * offsets},
            params={"mass": np.concatenate([masses[:1] * state.mass, masses[1:]])},
            ground_params={"friction": state.friction[0]}, **CONTACT,
        )  # fmt: skip
        forces = np.reshape(moved.contact_force[-1, :, 2], (-1, self.spheres))
        clock = state.clock + DT * SUBSTEPS / self.gait.period
        return state._replace(
            q=moved.q[-1], v=moved.v[-1], tau=moved.tau[-1, 6:], action=action,
            clock=clock - np.floor(clock), touching=np.sum(forces, axis=1) > 0,
        )  # fmt: skip

    def observe(self, state: Any) -> Any:
        phase, n = 2 * np.pi * state.clock, self.actions
        joints = [(state.q[7:] - self.gait.stance)[:n], 0.1 * state.v[6 : 6 + n], state.action]
        clock = np.concatenate([np.sin(phase), np.cos(phase)])
        return np.concatenate([down(state.q), state.v[:6], state.command, clock, *joints])

    def reward(self, state: Any, action: Any, after: Any) -> Any:
        v, command, gravity = after.v, after.command, down(after.q)
        stride = (after.clock + np.array(self.gait.offsets)) % 1.0
        in_step = np.mean(np.where(stride < 0.5, 1 - after.touching, after.touching))
        heights = [self.robot.frame_placement(after.q, foot)[2, 3] for foot in self.gait.feet]
        arc = self.gait.lift[0] + self.gait.lift[1] * np.sin(2 * np.pi * stride)
        low = np.where(stride < 0.5, np.maximum(arc - np.stack(heights), 0), 0)
        terms = [
            1.0 * np.exp(-4 * np.sum((v[:2] - command[:2]) ** 2)),
            0.5 * np.exp(-4 * (v[5] - command[2]) ** 2),
            0.5 * in_step,
            -50.0 * np.sum(low**2),
            -1.0 * v[2] ** 2 - 0.05 * np.sum(v[3:5] ** 2),
            -2.0 * np.sum(gravity[:2] ** 2),
            -10.0 * (after.q[2] - self.gait.height) ** 2,
            -0.01 * np.sum((after.tau / self.robot.effort_limits[6:]) ** 2),
            -2.5e-4 * np.sum((v - state.v)[6:] ** 2),
            -0.01 * np.sum((action - state.action) ** 2),
            -0.05 * np.sum((after.q[7:] - self.gait.stance) ** 2),
        ]
        return DT * SUBSTEPS * np.maximum(sum(terms), 0)  # below 0, to fall early would pay

    def terminated(self, state: Any) -> Any:
        return (state.q[2] < self.gait.fallen) | (down(state.q)[2] > -0.5)


def down(q: Any) -> Any:
    """The direction of gravity in the root's axes."""
    return -fl.matrix_from_quaternion(q[3:7])[2]


def go2() -> Walking:
    """The bundled Go2, which trots."""
    robot = fl.load("go2", root="free").with_physics(armature=np.repeat([0, 0.01], [6, 12]))
    for leg in ("FL", "FR", "RL", "RR"):
        robot = robot.with_frame(f"{leg}_foot", on=f"{leg}_calf", xyz=(0, 0, -0.213))
    stance, kp, kd = np.array([0.0, 0.8, -1.6] * 4), np.full(12, 40.0), np.full(12, 0.5)
    gait = ("FL_foot", "FR_foot", "RL_foot", "RR_foot"), (0, 0.5, 0.5, 0), 0.5, (0.022, 0.06)
    return Walking(robot, Gait(stance, 0.31, 0.18, kp, kd, *gait))


def g1() -> Walking:
    """The bundled G1, which walks with its legs; its waist and arms stay where they are."""
    damping = np.repeat([0, 0.5], [6, 29])
    robot = fl.load("g1", root="free").with_physics(armature=damping / 25, damping=damping)
    stance = np.zeros(29)
    stance[:12] = [-0.2, 0, 0, 0.42, -0.22, 0] * 2
    kp = np.array([100.0, 100, 100, 150, 40, 40] * 2 + [100] * 3 + [40] * 14)
    feet = "left_ankle_roll_link", "right_ankle_roll_link"
    return Walking(robot, Gait(stance, 0.76, 0.5, kp, kp / 40, feet, (0, 0.5), 0.8, (0.035, 0.08)))
