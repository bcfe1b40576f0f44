"""256 arms learn to throw: torques over 0.4 s are found by gradients, through the rollout and the
flight of the ball, in JAX. The rollout and its gradient are one call each inside of jax.jit.

    pip install 'featherlane[jax]'
    python examples/jax_rollout.py [--figure jax_rollout.svg]
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import featherlane as fl
from featherlane.interop.jax import wrap

ROBOT, HAND = "iiwa14", "iiwa_link_7"
DT, STEPS = 0.01, 40  # s; the ball leaves the hand after 0.4 s
START = np.array([0.0, -0.6, 0.0, -1.4, 0.0, 0.6, 0.0])
SCALE = np.array([60, 60, 30, 30, 5, 3, 0.2])  # N m, of a control of 1, beside gravity at the start
RATE = 0.04  # of Adam (Kingma and Ba 2015)


class Throws(NamedTuple):
    controls: np.ndarray  # (throws, STEPS, 7), of gravity's torque and SCALE
    landing: np.ndarray  # (throws, 2), m
    losses: np.ndarray  # of each iteration, their mean
    seconds: float  # of all iterations after the first


def targets(count: int, seed: int = 0) -> np.ndarray:
    """Places on the ground, 1.5 to 3 m away and up to 60 degrees to both sides."""
    rng = np.random.default_rng(seed)
    distance, angle = rng.uniform(1.5, 3, count), rng.uniform(-np.pi / 3, np.pi / 3, count)
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], 1).astype(np.float32)


def make_landing(arm: fl.Model):
    """The function that gives where balls land, from the controls."""
    robot = wrap(arm)
    q0, v0 = jnp.float32(START), jnp.zeros(7, jnp.float32)
    held, scale = jnp.float32(arm.gravity_torque(START)), jnp.float32(SCALE)

    def landing(controls):
        first = (jnp.broadcast_to(x, (len(controls), 7)) for x in (q0, v0))
        tau = held + scale * controls
        moved = robot.rollout(*first, tau, jnp.float32(DT), integrator="implicit_damping")
        q, v = moved.q[:, -1], moved.v[:, -1]
        place = robot.frame_placement(q, frame=HAND)[:, :3, 3]
        speed = robot.frame_velocity(q, v, frame=HAND, reference="world")[:, :3]
        up, height = speed[:, 2], place[:, 2]
        time = (up + jnp.sqrt(up**2 + 2 * 9.81 * jnp.maximum(height, 0.01))) / 9.81
        return place[:, :2] + time[:, None] * speed[:, :2]

    return landing


def make_loss(arm: fl.Model, wanted: np.ndarray):
    """The sum over throws of what balls miss by, with little and smooth effort, of the controls."""
    landing = make_landing(arm)

    def loss(controls):
        missed = jnp.sum((landing(controls) - wanted) ** 2, axis=1)
        smooth = jnp.sum(jnp.diff(controls, axis=1) ** 2, axis=(1, 2))
        effort = jnp.mean(controls**2, axis=(1, 2))
        return jnp.sum(missed + 0.01 * smooth + 0.01 * effort)

    return loss


def throw(arm: fl.Model, wanted: np.ndarray, iterations: int = 200) -> Throws:
    """Finds controls that land the balls where they are wanted."""
    loss = make_loss(arm, wanted)

    @jax.jit
    def improve(k, controls, mean, square):
        value, gradient = jax.value_and_grad(loss)(controls)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        step = mean / (1 - 0.9**k) / (jnp.sqrt(square / (1 - 0.99**k)) + 1e-6)
        return value / len(wanted), controls - RATE * step, mean, square

    state = [jnp.zeros((len(wanted), STEPS, 7), jnp.float32)] * 3
    losses, before = [], perf_counter()
    for k in range(1, iterations + 1):
        value, *state = improve(jnp.float32(k), *state)
        losses.append(float(value))
        if k == 1:  # the first one compiles
            before = perf_counter()
    spent = perf_counter() - before
    controls = np.asarray(state[0])
    return Throws(controls, np.asarray(make_landing(arm)(controls)), np.array(losses), spent)


def draw(wanted: np.ndarray, found: Throws, path: str) -> None:
    from featherlane.tools.figures import INK, pyplot, save

    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.plot(*wanted.T, "o", color=INK, label="wanted")
    left.plot(*found.landing.T, ".", label="landed")
    left.plot(0, 0, "^", color=INK, label="arm")
    left.set(xlabel="x, m", ylabel="y, m", aspect="equal", xlim=(-1.6, 3.2))
    left.legend(loc="upper left")
    right.semilogy(found.losses)
    right.set(xlabel="iteration", ylabel="mean loss")
    save(figure, path, "256 arms learn to throw", narrow=3.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw where the balls land into this file")
    args = parser.parse_args()
    wanted = targets(256)
    found = throw(fl.load(ROBOT), wanted)
    missed = np.linalg.norm(found.landing - wanted, axis=1)
    print(
        f"missed by {np.median(missed) * 100:.1f} cm (median), {missed.max() * 100:.1f} cm at most"
    )
    each = found.seconds / (len(found.losses) - 1)
    print(f"{each * 1e3:.1f} ms for the gradients of {len(wanted)} rollouts of {STEPS} steps")
    if args.figure:
        draw(wanted, found, args.figure)


if __name__ == "__main__":
    main()
