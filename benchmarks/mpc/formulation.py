"""The optimal control problem: references of a trot with a moving hand, costs, and limits.

A knot has the state (q, v), joint torques u and forces f of the feet in the world's axes. The cost
is half the sum of squared residuals times weights, so that its Hessian is Gauss's and Newton's. The
residuals and their exact derivatives in the tangent space are one traced function, for all knots in
a call. Feet in stance stand still: their velocity has a large weight. Feet in swing have no force:
their columns of B are zero. In stance forces lie in the friction pyramid: a hard limit, as those of
the torques are, or a relaxed logarithmic barrier in the cost (Feller and Ebenbauer 2017).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from robot import FEET, FOOT_RADIUS, HAND, HEIGHT, Quadruped

import featherlane as fl

DIAGONALS = np.array([0.0, 0.5, 0.5, 0.0])  # of a period, when each foot begins its stance


@dataclass
class Task:
    """The task of the robot, in SI units."""

    period: float = 0.6  # of the trot
    stance: float = 0.6  # the share of the period in which a foot stands
    lift: float = 0.07  # height of a step
    speed: float = 0.3  # forwards
    circle: float = 0.10  # radius of the hand's way
    turn: float = 4.0  # seconds for one turn of the hand
    begin: float = 0.5  # seconds of standing before the trot

    def phases(self, t: np.ndarray) -> np.ndarray:
        """(..., 4): the part of the period that has passed since each foot's stance began."""
        phase = ((t[..., None] - self.begin) / self.period + DIAGONALS) % 1.0
        return np.where(t[..., None] < self.begin, 0.0, phase)

    def stands(self, t: np.ndarray) -> np.ndarray:
        """(..., 4): whether each foot stands."""
        return self.phases(t) < self.stance

    def forward(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distance and the speed that are wanted: the robot sets off within a second."""
        s = np.clip(t - self.begin, 0.0, 1.0)
        return self.speed * (s * s / 2 + np.maximum(t - self.begin - 1.0, 0.0)), self.speed * s

    def hand(self, t: np.ndarray) -> np.ndarray:
        """(..., 3): the hand's offset from its place in standing, relative to the body's way."""
        angle = 2 * np.pi * np.maximum(t - self.begin, 0.0) / self.turn
        grown = self.circle * np.clip(t - self.begin, 0.0, 1.0)
        zero = np.zeros_like(angle)
        return np.stack([zero, grown * np.sin(angle), grown * (np.cos(angle) - 1.0)], -1)


@dataclass
class Weights:
    """Of squared residuals, in the order of `Formulation.residuals`, and of controls."""

    base: tuple[float, ...] = (20.0, 100.0, 1000.0, 300.0, 300.0, 200.0)
    joints: float = 5.0
    base_velocity: tuple[float, ...] = (40.0, 40.0, 40.0, 10.0, 10.0, 10.0)
    joint_velocity: float = 0.1
    stance_height: float = 2000.0
    stance_velocity: float = 400.0
    swing_place: tuple[float, ...] = (150.0, 150.0, 3000.0)
    hand: tuple[float, ...] = (400.0, 400.0, 400.0, 20.0, 20.0, 20.0)
    torque: float = 2e-3
    force: float = 1e-3
    barrier: float = 1.0
    last: float = 5.0  # times as much in the last state


class References(NamedTuple):
    """The references of the residuals, for each of the states after the first, and of u, f."""

    q: np.ndarray  # (K, nq)
    v: np.ndarray  # (K, nv)
    feet: np.ndarray  # (K, 4, 3)
    hand: np.ndarray  # (K, 3)
    stands: np.ndarray  # (K, 4), at states
    f: np.ndarray  # (K, 4, 3)
    acts: np.ndarray  # (K, 4), at controls


class Costs(NamedTuple):
    """Quadratic models of the costs of each knot's state and controls."""

    value: float
    gx: np.ndarray  # (K, 2 nv)
    Hx: np.ndarray  # (K, 2 nv, 2 nv)
    gu: np.ndarray  # (K, nu + 12)
    Hu: np.ndarray  # (K, nu + 12, nu + 12): diagonal, and a block for each foot


@dataclass
class Formulation:
    """The problem of a robot with a task over knots of a horizon."""

    robot: Quadruped
    task: Task = field(default_factory=Task)
    weights: Weights = field(default_factory=Weights)
    dt: float = 0.015
    knots: int = 64
    friction: float = 0.5  # of the pyramid
    most: float = 800.0  # N, of a foot's vertical force
    relaxed: float = 5.0  # N from a face, from where on the barrier is a parabola
    barrier: bool = False  # limits of forces in the cost, none of torques
    threads: int = 1

    def __post_init__(self) -> None:
        model = self.robot.model
        state = {"q": model.nq, "v": model.nv, "q_ref": model.nq}
        moved = {**state, "dq": model.nv, "dv": model.nv}
        self.effort = model.effort_limits[6:]
        self.u_ref = self._standing_torques()
        self.offsets = np.array(
            [model.frame_placement(self.robot.stance, foot)[:2, 3] for foot in FEET]
        )
        place = model.frame_placement(self.robot.stance, HAND)
        self.hand_place, self.hand_axes = place[:3, 3], place[:3, :3]
        self.values = fl.compile(self._terms, state)
        self.slopes = fl.compile(
            fl.jacobian(self._moved_terms, moved, wrt=("dq", "dv"), values=True)
        )
        self.zero = np.zeros(model.nv)
        self.controls = len(self.effort) + 12
        mu = self.friction
        self.faces = np.array([[1, 0, mu], [-1, 0, mu], [0, 1, mu], [0, -1, mu], [0, 0, 1.0]])

    def _standing_torques(self) -> np.ndarray:
        """Joint torques that hold the robot in stance with its weight on four equal feet."""
        robot = self.robot
        forces = {foot: np.array([0, 0, robot.weight / 4, 0, 0, 0]) for foot in FEET}
        still = np.zeros(robot.model.nv)
        model = robot.model
        return model.inverse_dynamics(robot.stance, still, still, forces, f_ext_frame="world")[6:]

    def _terms(self, q, v, q_ref):  # type: ignore[no-untyped-def]
        """Traced: the base's displacement, feet and their velocities, the hand and its tilt."""
        model = self.robot.model
        base = model.difference(q_ref, q)[:6]
        feet = np.concatenate([model.frame_placement(q, foot)[:3, 3] for foot in FEET])
        speeds = np.concatenate([model.frame_velocity(q, v, foot, "world")[:3] for foot in FEET])
        hand = model.frame_placement(q, HAND)
        R = self.hand_axes.T @ hand[:3, :3]
        tilt = np.stack([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
        return np.concatenate([base, feet, speeds, hand[:3, 3], tilt])

    def _moved_terms(self, q, v, q_ref, dq, dv):  # type: ignore[no-untyped-def]
        return self._terms(self.robot.model.integrate(q, dq), v + dv, q_ref)

    # References

    def references(self, t: float, base: np.ndarray, v_base: np.ndarray) -> References:
        """Those of a horizon that begins at time t. base, v_base: the base's place and velocity
        now, in the world's axes, which decide where feet are put down.
        """
        task, robot = self.task, self.robot
        times = t + self.dt * np.arange(self.knots + 1)
        states, controls = times[1:], times[:-1]
        way, speed = task.forward(states)
        q = np.tile(robot.stance, (self.knots, 1))
        q[:, 0] = way
        v = np.zeros((self.knots, robot.model.nv))
        v[:, 0] = speed
        stands, phases = task.stands(states), task.phases(states)
        s = np.clip((phases - task.stance) / (1 - task.stance), 0.0, 1.0)
        feet = np.empty((self.knots, 4, 3))
        # In the middle of its stance a foot is below its hip (Raibert 1986)
        feet[:, :, 0] = way[:, None] + self.offsets[:, 0]
        feet[:, :, 0] += speed[:, None] * task.period * task.stance * (s - 0.5)
        feet[:, :, 1] = self.offsets[:, 1]
        excess = np.sqrt(HEIGHT / 9.81) * (v_base[:2] - [task.forward(np.array(t))[1], 0.0])
        ahead = base[:2] - [task.forward(np.array(t))[0], 0.0]
        feet[:, :, :2] += excess + ahead
        feet[:, :, 2] = FOOT_RADIUS + task.lift * np.sin(np.pi * s) ** 2
        hand = self.hand_place + task.hand(states)
        hand[:, 0] += way
        acts = task.stands(controls)
        f = np.zeros((self.knots, 4, 3))
        f[:, :, 2] = robot.weight * acts / np.maximum(acts.sum(1, keepdims=True), 1)
        return References(q, v, feet, hand, stands, f, acts)

    # Costs

    def _weights_of(self, refs: References) -> tuple[np.ndarray, np.ndarray]:
        """Weights of residuals (K, 36), and of joints and velocities (K, 2 nv)."""
        w, K = self.weights, self.knots
        on, nv = refs.stands[..., None], self.robot.model.nv
        place = np.where(on, (0.0, 0.0, w.stance_height), w.swing_place)
        speed = np.where(on, w.stance_velocity, 0.0) * np.ones(3)
        each = np.empty((K, 36))
        each[:, :6], each[:, 30:] = w.base, w.hand
        each[:, 6:18], each[:, 18:30] = place.reshape(K, 12), speed.reshape(K, 12)
        plain = np.zeros((K, 2 * nv))
        plain[:, 6:nv], plain[:, nv + 6 :] = w.joints, w.joint_velocity
        plain[:, nv : nv + 6] = w.base_velocity
        each[-1] *= w.last
        plain[-1] *= w.last
        return each, plain

    def _residuals(self, raw: np.ndarray, refs: References) -> np.ndarray:
        raw[:, 6:18] -= refs.feet.reshape(-1, 12)
        raw[:, 30:33] -= refs.hand
        return raw

    def _plain(self, q: np.ndarray, v: np.ndarray, refs: References) -> np.ndarray:
        """Errors of joints and velocities; the base's place is among the residuals."""
        nv = self.robot.model.nv
        e = np.zeros((self.knots, 2 * nv))
        e[:, 6:nv] = q[:, 7:] - refs.q[:, 7:]
        e[:, nv:] = v - refs.v
        return e

    def _controls(self, u: np.ndarray, f: np.ndarray, refs: References) -> np.ndarray:
        K = self.knots
        return np.concatenate([u - self.u_ref, (f - refs.f).reshape(K, -1)], 1)

    @property
    def control_weights(self) -> np.ndarray:
        w = self.weights
        return np.array([w.torque] * len(self.effort) + [w.force] * 12)

    def cost(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, refs: References
    ) -> float:
        """The cost of states after the first, q and v, and of controls."""
        each, plain = self._weights_of(refs)
        r = self._residuals(self.values(q, v, refs.q, threads=self.threads), refs)
        e, c = self._plain(q, v, refs), self._controls(u, f, refs)
        squares = (
            np.sum(each * r * r) + np.sum(plain * e * e) + np.sum(self.control_weights * c * c)
        )
        barrier = self._barrier(f, refs)[0] if self.barrier else 0.0
        return 0.5 * float(squares) + barrier

    def costs(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, refs: References
    ) -> Costs:
        """Quadratic models about these states and controls."""
        each, plain = self._weights_of(refs)
        found = self.slopes(q, v, refs.q, self.zero, self.zero, threads=self.threads)
        r = self._residuals(found[0], refs)
        J = np.concatenate(found[1:], 2)  # (K, 36, 2 nv)
        e, c = self._plain(q, v, refs), self._controls(u, f, refs)
        weighted = each[:, :, None] * J
        Hx = np.matmul(J.swapaxes(1, 2), weighted)
        diagonal = np.arange(Hx.shape[1])
        Hx[:, diagonal, diagonal] += plain
        gx = np.matmul(r[:, None], weighted)[:, 0] + plain * e
        w = self.control_weights
        value = 0.5 * float(np.sum(each * r * r) + np.sum(plain * e * e) + np.sum(w * c * c))
        gu, Hu = w * c, np.zeros((self.knots, self.controls, self.controls))
        Hu[:, np.arange(self.controls), np.arange(self.controls)] = w
        if self.barrier:
            barrier, slope, bend = self._barrier(f, refs)
            value += barrier
            gu[:, -12:] += (slope @ self.faces).reshape(-1, 12)
            blocks = np.einsum("kfi,ia,ib->kfab", bend, self.faces, self.faces)
            for i in range(4):
                own = slice(self.controls - 12 + 3 * i, self.controls - 9 + 3 * i)
                Hu[:, own, own] += blocks[:, i]
        return Costs(value, gx, Hx, gu, Hu)

    def _barrier(self, f: np.ndarray, refs: References) -> tuple[float, np.ndarray, np.ndarray]:
        """The barrier's value, and its derivatives (K, 4, 5) by distances from the faces."""
        h, near = f @ self.faces.T, self.relaxed
        far = np.maximum(h, near)
        bent = (h - 2 * near) / near
        inside, on = h > near, self.weights.barrier * refs.acts[..., None]
        value = np.where(inside, -np.log(far), 0.5 * (bent * bent - 1) - np.log(near))
        slope = np.where(inside, -1 / far, bent / near)
        return float(np.sum(on * value)), on * slope, on / (far * far)
