"""Identifies joint damping and a payload of an iiwa14 from noisy angles alone, by the errors of
predictions over several steps. Where each prediction begins, and how fast, is unknown as well;
derivatives by all of it go through the rollouts. The longer the predictions, the less noise counts:
two steps are the second differences of angles that other methods take for accelerations.

    pip install 'featherlane[jax]'
    python examples/rollout_identification.py [--figure rollout_identification.svg]
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import featherlane as fl
from featherlane.interop.jax import wrap

jax.config.update("jax_enable_x64", True)

ROBOT = "iiwa14"
DT, SECONDS = 0.005, 10.0  # s
HORIZONS = (2, 8, 32, 128)  # steps of a prediction
NOISE = 1e-4  # rad, standard deviation of angles
DAMPING = np.array([0.9, 1.1, 0.7, 0.6, 0.4, 0.3, 0.2])  # N m s/rad; the file says 0.5
PAYLOAD = 2.0  # kg, in the middle of the last link
ITERATIONS = 6


class Data(NamedTuple):
    """A motion as it was measured: angles (samples + 1, 7), and torques (samples, 7) between."""

    q: np.ndarray
    tau: np.ndarray


class Estimate(NamedTuple):
    p: np.ndarray  # (8,): damping of the joints, payload
    deviation: np.ndarray  # (8,), as the residuals tell


def measured(arm: fl.Model, seed: int = 0) -> Data:
    """Simulates the true arm, held on a slow motion, and measures it."""
    rng = np.random.default_rng(seed)
    own = arm.parameters("mass")["mass"]
    true = {"damping": DAMPING, "mass": own + PAYLOAD * (np.arange(7) == 6)}
    steps = int(SECONDS / DT)
    t = DT * np.arange(steps)[:, None]
    waves = rng.uniform(2, 6, (3, 7)), rng.uniform(0, 2 * np.pi, (3, 7))
    wanted = 0.3 * sum(np.sin(w * t + p) for w, p in zip(*waves, strict=True))
    q, v, tau = [wanted[0]], np.zeros(7), []
    gain = 100 * np.diag(arm.mass_matrix(np.zeros(7)))
    for goal in wanted:
        tau.append(arm.gravity_torque(q[-1]) + gain * (goal - q[-1]) - 0.15 * gain * v)
        moved, v = arm.step(q[-1], v, tau[-1], DT, integrator="rk4", params=true)
        q.append(moved)
    return Data(np.array(q) + NOISE * rng.normal(size=(steps + 1, 7)), np.array(tau))


def identified(arm: fl.Model, data: Data, horizon: int, p: np.ndarray) -> Estimate:
    """Fits parameters and first states of predictions of so many steps (Gauss and Newton's method,
    in which each prediction's own first state is eliminated). p: damping and payload, a guess.
    """
    robot, own = wrap(arm), jnp.array(arm.parameters("mass")["mass"])
    starts = np.arange(0, len(data.tau) - horizon + 1, horizon)
    rows = starts[:, None] + np.arange(horizon + 1)
    seen, tau = data.q[rows], data.tau[rows[:, :-1]]

    @jax.jit
    def errors(p, first):
        """Of all predictions (predictions, angles), as multiples of the noise."""
        params = {"damping": p[:7], "mass": own.at[6].add(p[7])}
        q, v = first[:, :7], first[:, 7:]
        moved = robot.rollout(q, v, tau, DT, params=params, integrator="rk4").q
        return ((moved - seen) / NOISE).reshape(len(starts), -1)

    @jax.jit
    def linear(p, first):
        by_p = jax.jacfwd(errors)(p, first)
        along = lambda x: jax.jvp(lambda y: errors(p, y), (first,), (0 * first + x,))[1]
        return errors(p, first), by_p, jax.vmap(along, out_axes=2)(jnp.eye(14))

    speed = (data.q[starts + 2] - data.q[starts]) / (2 * DT)
    first = np.concatenate([data.q[starts], speed], 1)
    for _ in range(ITERATIONS):
        e, by_p, by_first = map(np.asarray, linear(p, first))
        Q = np.linalg.qr(by_first)[0]
        rest = lambda x, Q=Q: x - Q @ (Q.mT @ x)  # what no first state explains
        e_rest, J = rest(e[..., None]).ravel(), rest(by_p).reshape(-1, 8)
        dp = np.linalg.lstsq(J, -e_rest, rcond=None)[0]
        p = p + dp
        first = first - (np.linalg.pinv(by_first) @ (e + by_p @ dp)[..., None])[..., 0]
    spread = np.sqrt(np.diag(np.linalg.inv(J.T @ J)) * np.mean(e_rest**2))
    return Estimate(p, spread)


def draw(found: dict[int, Estimate], path: str) -> None:
    from featherlane.tools.figures import INK, pyplot, save

    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    wrong = [np.abs(x.p[:7] - DAMPING) for x in found.values()]
    axes.loglog(list(found), wrong, ".-", color=INK)
    axes.loglog(list(found), np.sqrt(np.mean(np.square(wrong), 1)), "o-", label="all joints")
    axes.set(xlabel="steps of a prediction", ylabel="error of the damping, N m s/rad")
    axes.set_xticks(list(found), map(str, found))
    axes.legend()
    save(figure, path, "Errors of identified damping against the length of predictions")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the errors into this file")
    args = parser.parse_args()
    arm = fl.load(ROBOT)
    data = measured(arm)
    found, p = {}, np.append(arm.damping, 0.0)  # the first guess: what the file says
    for horizon in HORIZONS:
        found[horizon] = identified(arm, data, horizon, p)
        p = found[horizon].p
        error = np.sqrt(np.mean((p[:7] - DAMPING) ** 2))
        print(f"{horizon:3} steps: damping within {error:.4f} N m s/rad, payload {p[7]:.4f} kg")
    if args.figure:
        draw(found, args.figure)


if __name__ == "__main__":
    main()
