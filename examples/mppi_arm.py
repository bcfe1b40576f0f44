"""Sampling control of an iiwa14 with torques (model predictive path integral control, Williams et
al. 2017): the hand goes around a ball to a goal. The cost is a function of NumPy, traced.

    python examples/mppi_arm.py [--figure mppi_arm.svg] [--mujoco]
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from itertools import pairwise
from time import process_time
from typing import NamedTuple

import numpy as np

import featherlane as fl
from featherlane.tools.figures import INK, pyplot, save

ROBOT, HAND = "iiwa14", "iiwa_link_7"
LINKS = ("iiwa_link_4", "iiwa_link_5", "iiwa_link_6", HAND)  # must not touch the ball
START = np.array([-1.2, 0.9, 0.0, -1.2, 0.0, 0.9, 0.0])
GOAL, BALL, RADIUS = np.array([0.45, 0.5, 0.45]), np.array([0.6, -0.05, 0.42]), 0.22  # m
DT, STEPS, METHOD = 0.02, 40, "implicit_damping"  # s; 0.8 s are looked ahead
KNOTS, SPACING = 5, 0.2  # accelerations are broken lines through so many knots, s apart
SAMPLES, TEMPERATURE = 1024, 0.02  # rollouts a control step; how far costs of the best differ
NOISE, BRAKE = np.float32(8), 3.0  # rad/s^2, standard deviation; 1/s


class Run(NamedTuple):
    hand: np.ndarray  # (steps + 1, 3), m
    clearance: np.ndarray  # (steps + 1,), m between the ball and the nearest link
    rate: float  # rollouts a second of one processor, with costs and weights


def make_law(arm: fl.Model):
    """The torques of a rollout: those of the accelerations that knots say, and of braking."""

    def law(q, v, t, knots):
        weights = np.maximum(1 - np.abs(t / SPACING - np.arange(KNOTS)), 0)
        tau = arm.inverse_dynamics(q, v, weights @ knots - BRAKE * v)
        return np.clip(tau, -arm.effort_limits, arm.effort_limits)

    return arm.policy(law, {"knots": (KNOTS, 7)})


def make_cost(arm: fl.Model):
    """The cost of a state: far from the goal, fast, near the ball, near joint limits."""
    limit = np.array([joint.upper[0] for joint in arm.joints])

    def cost(q, v):
        away = arm.frame_placement(q, HAND)[:3, 3] - GOAL
        depth = RADIUS + 0.08 - clearance(q)  # 8 cm: half the width of a link
        beyond = np.maximum(np.abs(q) - 0.95 * limit, 0)
        far = np.sqrt(away @ away + 1e-4)
        return 2 * far + 0.01 * v @ v + 40 * np.maximum(depth, 0) + 100 * np.sum(beyond)

    def clearance(q):
        """From the ball's middle to the nearest of the links' origins and of points between."""
        places = [arm.frame_placement(q, name)[:3, 3] for name in LINKS]
        places += [(a + b) / 2 for a, b in pairwise(places)]
        return np.min(np.stack([np.linalg.norm(p - BALL) for p in places]))

    kernel = fl.compile(cost, {"q": 7, "v": 7})
    return kernel, fl.compile(clearance, {"q": 7})


def control(arm: fl.Model, steps: int = 150, samples: int = SAMPLES) -> Run:
    """Moves the arm for some steps, each with the weighted mean of the best plans."""
    rng = np.random.default_rng(0)
    law, (cost, clearance) = make_law(arm), make_cost(arm)
    knots = np.zeros((KNOTS, 7), np.float32)
    q, v, path, spent = START, np.zeros(7), [START], 0.0
    for _ in range(steps):
        before = process_time()
        noise = NOISE * rng.normal(size=(samples, KNOTS, 7)).astype(np.float32)
        noise[0] = 0  # the plan itself is one of the rollouts
        first, plans = (np.float32(q), np.float32(v), np.float32(DT)), {"knots": knots + noise}
        tried = arm.rollout_with(law, *first, STEPS, integrator=METHOD, parameters=plans)
        costs = cost(tried.q[:, 1:], tried.v[:, 1:]).mean(1)
        weights = np.exp((costs.min() - costs) / (TEMPERATURE * costs.std()))
        knots = knots + np.tensordot(weights / weights.sum(), noise, 1)
        spent += process_time() - before
        plan = {"knots": knots.astype(float)}
        moved = arm.rollout_with(law, q, v, DT / 4, 4, integrator="rk4", parameters=plan)
        q, v = moved.q[-1], moved.v[-1]
        knots = later(knots)
        path.append(q)
    hand = arm.frame_placement(np.array(path), HAND)[:, :3, 3]
    return Run(hand, clearance(np.array(path)) - RADIUS, steps * samples / spent)


def later(knots: np.ndarray) -> np.ndarray:
    """The knots of the same accelerations, a control step later; the last one stays."""
    part = DT / SPACING
    return (1 - part) * knots + part * np.concatenate([knots[1:], knots[-1:]])


def mujoco_rate(arm: fl.Model, samples: int = SAMPLES) -> float:
    """Rollouts a second of MuJoCo on one thread: open loop, without contacts, costs or weights."""
    import mujoco
    from mujoco.rollout import rollout

    text = (files("featherlane.robot.bundled") / f"{ROBOT}.urdf").read_text()
    peer = mujoco.MjModel.from_xml_string(text)
    peer.opt.timestep = DT
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    tau = np.zeros((samples, STEPS, 7)) + arm.gravity_torque(START)
    state = np.concatenate([[0], START, np.zeros(7)])[None].repeat(samples, 0)
    applied = int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
    data, before = mujoco.MjData(peer), process_time()
    rollout([peer] * samples, data, state, tau, control_spec=applied, nstep=STEPS)
    return samples / (process_time() - before)


def draw(run: Run, path: str) -> None:
    plt = pyplot()
    figure, (view, curves) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    view.add_patch(plt.Circle(BALL[1:], RADIUS, color=INK, alpha=0.4, label="ball"))
    view.plot(*run.hand[:, 1:].T, label="hand")
    view.plot(*GOAL[1:], "x", label="goal")
    view.set(xlabel="y, m", ylabel="z, m", aspect="equal")
    time = DT * np.arange(len(run.hand))
    curves.plot(time, np.linalg.norm(run.hand - GOAL, axis=1), label="hand to goal")
    curves.plot(time, run.clearance, label="arm to ball")
    curves.set(xlabel="time, s", ylabel="m", ylim=(0, None))
    for axes in (view, curves):
        axes.legend()
    save(figure, path, "An arm goes around a ball", narrow=3.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the motion into this file")
    parser.add_argument("--mujoco", action="store_true", help="also MuJoCo's rollouts a second")
    args = parser.parse_args()
    arm = fl.load(ROBOT)
    run = control(arm)
    print(f"hand to goal {np.linalg.norm(run.hand[-1] - GOAL) * 100:.1f} cm after 3 s")
    print(f"least distance of arm and ball {run.clearance.min() * 100:.1f} cm")
    print(f"{run.rate:,.0f} rollouts of {STEPS} steps a second")
    if args.mujoco:
        print(f"{mujoco_rate(arm):,.0f} of MuJoCo, without costs")
    if args.figure:
        draw(run, args.figure)


if __name__ == "__main__":
    main()
