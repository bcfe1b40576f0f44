"""A quadruped with an arm that stands and trots by inverse dynamics in fixed point.

At 1 kHz a controller chooses accelerations of base, arm and feet, asks the inverse dynamics of the
free robot (25 freedoms) for what they take, gives the base's part to the feet on the ground by
least squares, and the joints what remains. Robot, compliant contacts and kinematics are in float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from fixed_loop_arm import FEW, formats, ripple, rms
from fixed_loop_formats import Figures, Job, inverse_jobs
from mpc.robot import FEET, FOOT_RADIUS, LEGS, quadruped

import featherlane as fl
from featherlane.api.model import Model

DT, SUBSTEPS = 1e-3, 2  # s of a control step, and steps of the simulation in it
STIFFNESS, DAMPING, FRICTION = 3e4, 400.0, 0.8  # N/m and N s/m of a foot on the ground
BASE, ARM, FOOT = 12.0, 15.0, 30.0  # rad/s of errors, critically damped
WEIGHTS = np.array([1.0, 1.0, 10.0, 100.0, 100.0, 10.0])  # of forces and moments that feet give
CYCLE, STANCE, CLEARANCE = 0.36, 0.65, 0.06  # s, share, m
SPEED, BEGIN, SETTLED = 0.2, 0.4, 0.6  # m/s; s until the first step, and until errors count
RAIBERT = 0.1  # s, of a foothold by the error of the speed
RANGES = {"v": (-16.0, 16.0), "a": (-512.0, 512.0)}
Array = np.ndarray


class Run(NamedTuple):
    """position: off the reference, m; turn: rad; tau: N m; each (steps, robots, ...)."""

    position: Array
    turn: Array
    tau: Array
    height: Array  # of the base, m


class Robot(NamedTuple):
    """The model, its stance, the freedoms of each leg (4, 3) and of the arm."""

    model: Model
    stance: Array
    legs: Array
    arm: Array
    weight: float


@cache
def robot() -> Robot:
    known = quadruped()
    model, names = known.model, known.model.joint_names
    first = dict(zip(names, model.first_v, strict=True))
    legs = np.array([[first[name] for name in names if name.startswith(leg)] for leg in LEGS])
    arm = np.setdiff1d(np.arange(6, model.nv), legs)
    return Robot(model, known.stance, legs, arm, known.weight)


class Feet(NamedTuple):
    """place, velocity, bias (robots, 4, 3), J (robots, 4, 3, nv), in the world's axes: the feet's
    accelerations are J a + bias.
    """

    place: Array
    velocity: Array
    bias: Array
    J: Array


@cache
def _kinematics() -> Any:
    model = robot().model

    def kinematics(q: Any, v: Any) -> dict[str, Any]:
        still = np.zeros(model.nv)
        return {
            "place": np.stack([model.frame_placement(q, foot)[:3, 3] for foot in FEET]),
            "velocity": np.stack([model.frame_velocity(q, v, foot, "world")[:3] for foot in FEET]),
            "bias": np.stack(
                [model.frame_acceleration(q, v, still, foot, "world")[:3] for foot in FEET]
            ),
            "J": np.concatenate([model.jacobian(q, foot, "world")[:3] for foot in FEET]),
        }

    return fl.compile(kinematics, {"q": model.nq, "v": model.nv})


def feet(q: Array, v: Array) -> Feet:
    place, velocity, bias, J = _kinematics()(q, v)
    return Feet(place, velocity, bias, J.reshape(len(q), 4, 3, -1))


# The ground


@cache
def simulation() -> Any:
    """A step (q, v, tau, anchor), with forces on feet below the ground: springs and dampers, along
    the ground from where a foot sticks (anchor), up to friction. Gives q, v, and the anchors.
    """
    model = robot().model

    def simulated(q: Any, v: Any, tau: Any, anchor: Any) -> dict[str, Any]:
        forces, kept = {}, []
        for foot, held in zip(FEET, anchor, strict=True):
            place = model.frame_placement(q, foot)[:3, 3]
            speed = model.frame_velocity(q, v, foot, "world")[:3]
            deep = FOOT_RADIUS - place[2]
            normal = np.maximum(STIFFNESS * deep - DAMPING * speed[2], 0.0)
            normal = np.where(deep > 0.0, normal, 0.0)
            along = STIFFNESS * (held - place[:2]) - DAMPING * speed[:2]
            size = np.sqrt(along[0] * along[0] + along[1] * along[1] + 1e-12)
            share = np.minimum(1.0, FRICTION * normal / size)
            forces[foot] = np.array([*(along * share), normal, 0.0, 0.0, 0.0])
            slid = place[:2] + along * share / STIFFNESS
            kept.append(np.where(deep > 0.0, np.where(share < 1.0, slid, held), place[:2]))
        q, v = model.step(q, v, tau, DT / SUBSTEPS, forces, f_ext_frame="world")
        return {"q": q, "v": v, "anchor": np.stack(kept)}

    shapes = {"q": model.nq, "v": model.nv, "tau": model.nv, "anchor": (4, 2)}
    return fl.compile(simulated, shapes)


# The controller


class Gait:
    """Which feet stand, and where those in swing should be."""

    def __init__(self, trots: bool, place: Array) -> None:
        self.trots, self.home, self.lift = trots, place.copy(), place.copy()
        self.was_standing = np.ones(4, bool)

    def __call__(self, t: float, place: Array, slip: Array) -> tuple[Array, Array, Array, Array]:
        """Returns who stands (4,), and wanted places, velocities and accelerations of feet.

        slip: (robots, 2), how much faster the base is than it should be.
        """
        still = np.ones(4, bool), place, 0 * place, 0 * place
        if not self.trots or t < BEGIN:
            return still
        phase = ((t - BEGIN) / CYCLE + np.array([0.0, 0.5, 0.5, 0.0])) % 1.0
        stands = phase < STANCE
        self.lift = np.where((self.was_standing & ~stands)[:, None], place, self.lift)
        self.was_standing = stands
        long = (1.0 - STANCE) * CYCLE
        s = np.clip((phase - STANCE) / (1.0 - STANCE), 0.0, 1.0)[:, None]
        landing = t + (1.0 - s) * long + 0.5 * STANCE * CYCLE - BEGIN
        goal = self.home + np.concatenate([SPEED * landing, 0 * landing, 0 * landing], -1)
        goal[..., :2] += RAIBERT * slip[:, None]
        way = goal - self.lift
        blend = (3 * s**2 - 2 * s**3, (6 * s - 6 * s**2) / long, (6 - 12 * s) / long**2)
        w = np.pi
        rise = (
            CLEARANCE * np.sin(w * s) ** 2,
            CLEARANCE * w * np.sin(2 * w * s) / long,
            2 * CLEARANCE * w**2 * np.cos(2 * w * s) / long**2,
        )
        up = np.array([0.0, 0.0, 1.0])
        wanted = [way * b + r * up for b, r in zip(blend, rise, strict=True)]
        return stands, self.lift + wanted[0], wanted[1], wanted[2]


def reference(known: Robot, t: float, trots: bool) -> tuple[Array, Array]:
    """q and v at a time: the base sways if it stands and moves if it trots, and the arm swings."""
    w, size = 2 * np.pi * 0.8, min(t / BEGIN, 1.0)
    twist, twist_rate = np.zeros(known.model.nv), np.zeros(known.model.nv)
    sway = np.zeros(6) if trots else size * np.array([0.03, 0.02, 0.02, 0.05, 0.07, 0.08])
    phases = np.arange(6) * 1.1
    twist[:6], twist_rate[:6] = sway * np.sin(w * t + phases), sway * w * np.cos(w * t + phases)
    if trots and t > BEGIN:
        twist[0], twist_rate[0] = SPEED * (t - BEGIN), SPEED
    swing = size * 0.15 * np.ones(len(known.arm))
    swing_phase = np.arange(len(known.arm)) * 0.7
    twist[known.arm] = swing * np.sin(w * t + swing_phase)
    twist_rate[known.arm] = swing * w * np.cos(w * t + swing_phase)
    return known.model.integrate(known.stance, twist), twist_rate


def control(
    known: Robot, inverse: Callable[..., Array], gait: Gait, t: float, q: Array, v: Array
) -> tuple[Array, Array]:
    """Returns the joint forces (robots, nv), without any on the base, and the error by freedoms."""
    model, legs = known.model, known.legs
    q_wanted, v_wanted = reference(known, t, gait.trots)
    error = model.difference(q, np.broadcast_to(q_wanted, q.shape))
    lag = v_wanted - v
    now = feet(q, v)
    stands, place, velocity, acceleration = gait(t, now.place, -lag[:, :2])
    a = np.zeros_like(v)
    a[:, :6] = BASE**2 * error[:, :6] + 2 * BASE * lag[:, :6]
    a[:, known.arm] = ARM**2 * error[:, known.arm] + 2 * ARM * lag[:, known.arm]
    swing = acceleration + FOOT**2 * (place - now.place) + 2 * FOOT * (velocity - now.velocity)
    wanted = np.where(stands[:, None], -2 * FOOT * now.velocity, swing) - now.bias
    wanted -= np.einsum("nfij,nj->nfi", now.J[..., :6], a[:, :6])
    own = np.stack([now.J[:, f][..., legs[f]] for f in range(4)], 1)  # (robots, 4, 3, 3)
    a[:, legs.ravel()] = np.linalg.solve(own, wanted[..., None])[..., 0].reshape(len(q), 12)
    tau = np.nan_to_num(inverse(q, v, a))
    forces = shared(known, now.J, stands, tau[:, :6])
    tau -= np.einsum("nfij,nfi->nj", now.J, forces)
    tau[:, :6] = 0.0
    return tau.clip(-model.effort_limits, model.effort_limits), error


def shared(known: Robot, J: Array, stands: Array, wrench: Array) -> Array:
    """Forces of the feet (robots, 4, 3) that give the base a wrench, by least squares about equal
    shares of the weight, within the friction that the controller counts on.
    """
    count = len(J)
    G = np.where(stands[:, None, None], J[..., :6], 0.0).reshape(count, 12, 6).swapaxes(1, 2)
    equal = np.zeros((4, 3))
    equal[stands, 2] = known.weight / stands.sum()
    little, weighted = 1e-5 * np.eye(12), G.swapaxes(1, 2) * WEIGHTS
    right = weighted @ (wrench - G @ equal.ravel())[..., None]
    change = np.linalg.solve(weighted @ G + little, right)[..., 0]
    forces = equal + change.reshape(count, 4, 3)
    forces[..., 2] = np.maximum(forces[..., 2], 0.0) * stands
    most = 0.6 * forces[..., 2:]
    forces[..., :2] = forces[..., :2].clip(-most, most)
    return forces


def run(inverse: Callable[..., Array], trots: bool, robots: int, seconds: float) -> Run:
    known = robot()
    model, rng = known.model, np.random.default_rng(11)
    off = np.zeros((robots, model.nv))
    off[:, :6] = 0.01 * rng.standard_normal((robots, 6))
    off[:, 2] = np.abs(off[:, 2])
    q = model.integrate(np.broadcast_to(known.stance, (robots, model.nq)), off)
    v = np.zeros((robots, model.nv))
    place = feet(q, v).place
    gait, anchor = Gait(trots, place), place[..., :2]
    results = [], [], [], []
    for step in range(round(seconds / DT)):
        tau, error = control(known, inverse, gait, step * DT, q, v)
        for x, y in zip(results, (error[:, :3], error[:, 3:6], tau[:, 6:], q[:, 2]), strict=True):
            x.append(y)
        for _ in range(SUBSTEPS):
            q, v, anchor = simulation()(q, v, tau, anchor)
    return Run(*map(np.array, results))


def figures(found: Run, best: Run) -> Figures:
    first = round(SETTLED / DT)
    with np.errstate(all="ignore"):
        yield "position, rms, m", rms(found.position[first:])
        yield "turn, rms, rad", rms(found.turn[first:])
        yield "error over float64, rms, rad", rms((found.turn - best.turn)[first:])
        yield "position over float64, rms, m", rms((found.position - best.position)[first:])
        yield "ripple, rms, N m", ripple(found.tau[first:])
        yield "torque, largest, N m", float(np.abs(found.tau[first:]).max())
        yield "share standing", float(np.mean(found.height[-1] > 0.35))


def jobs(robots: int, seconds: float, quick: bool) -> Iterator[Job]:
    """Standing and trotting, each in all formats, and with one kind of signals in few bits."""
    model = robot().model
    few = re.compile(r"q12\..*|q(10|16)\.16|fitted(14|16|18|20|24|27)|proved(20|24|32)")
    chosen = [*filter(few.fullmatch, formats(quick))]
    for case, trots in (("quadruped, trotting", True), ("quadruped, standing", False)):
        controlled = partial(run, trots=trots, robots=robots, seconds=seconds)
        best = cache(partial(controlled, model.inverse_dynamics))

        def done(
            make: Callable[[], Any], controlled: Any = controlled, best: Any = best
        ) -> Figures:
            return figures(controlled(make()), best())

        yield from inverse_jobs(case, model, RANGES, chosen, done, FEW[1:4])
