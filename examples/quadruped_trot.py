"""A HyQ trots: its feet lift and land at given times, and `featherlane.ilqr` finds the torques.

Masks say which feet are on the ground at each knot. Costs keep the base near a path, lead the feet
that swing over an arc, and keep the forces of the others in their friction cones.
docs/optimal_control.md goes through it.

    python examples/quadruped_trot.py [--figure docs/quadruped_trot.svg]
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import featherlane as fl

DT, KNOTS = 0.02, 50
LEGS = ("lf", "rf", "lh", "rh")
SWINGS = ((5, 13, "lf rh"), (15, 23, "rf lh"), (25, 33, "lf rh"), (35, 43, "rf lh"))  # knots, legs
STRIDE, LIFT = 0.12, 0.08  # m, of a swing; the height of its arc
FRICTION = 0.6
WEIGHTS = {"base": 10.0, "joints": 0.3, "v": 0.3, "tau": 0.003, "feet": 50.0, "cone": 0.1}


def quadruped() -> fl.Model:
    """The bundled HyQ with frames at its feet."""
    robot = fl.load("hyq", root="free")
    for leg in LEGS:
        robot = robot.with_frame(f"{leg}_foot", on=f"{leg}_lowerleg", xyz=(0.33, 0, 0))
    return robot


robot = quadruped()
motors = robot.actuation(robot.joint_names[1:], clip=False)
feet = robot.constraints([fl.Pin(f"{leg}_foot") for leg in LEGS])


def standing() -> np.ndarray:
    """A configuration with all feet at z = 0."""
    bent = {"haa": 0.0, "hfe": 0.75, "kfe": -1.5}  # front legs; hind legs bend the other way
    sign = {"f": 1.0, "h": -1.0}
    joints = [sign[name[1]] * bent[name[3:6]] for name in robot.joint_names[1:]]
    q = np.concatenate([[0, 0, 0, 0, 0, 0, 1], joints])
    q[2] = -robot.frame_placement(q, "lf_foot")[2, 3]
    return q


class Plan(NamedTuple):
    """What a trot follows, with a row for each knot and for the end."""

    active: np.ndarray  # (KNOTS, 4), which feet are on the ground
    posture: np.ndarray  # (KNOTS + 1, nq)
    speed: np.ndarray  # (KNOTS + 1,) of the base
    places: np.ndarray  # (KNOTS + 1, 4, 3) of the feet


def plan(stride: float = STRIDE) -> Plan:
    """The masks and references of a trot: the base moves as far as the feet do, smoothly."""
    stand, t = standing(), np.arange(KNOTS + 1)
    places = np.array([robot.frame_placement(stand, f"{leg}_foot")[:3, 3] for leg in LEGS])
    places = np.repeat(places[None], KNOTS + 1, 0)
    active = np.ones((KNOTS, 4))
    for first, last, legs in SWINGS:
        for leg in map(LEGS.index, legs.split()):
            active[first:last, leg] = 0
            phase = np.clip((t - first) / (last - first), 0, 1)
            places[:, leg, 0] += stride * phase**2 * (3 - 2 * phase)
            places[:, leg, 2] += LIFT * np.sin(np.pi * phase) ** 2
    phase = np.clip((t - SWINGS[0][0]) / (SWINGS[-1][1] - SWINGS[0][0]), 0, 1)
    posture = np.repeat(stand[None], KNOTS + 1, 0)
    posture[:, 0] = 2 * stride * phase**2 * (3 - 2 * phase)
    return Plan(active, posture, np.gradient(posture[:, 0], DT), places)


def cone(force):
    """Residuals of friction pyramids, (20,): 0 where |x|, |y| <= FRICTION z and z >= 0."""
    x, y, z = np.reshape(force, (4, 3)).T
    sides = [s - FRICTION * z for s in (x, -x, y, -y)]
    return np.maximum(np.concatenate([*sides, -z]), 0.0)


def motion(q, v, posture, speed):
    """Residuals of the base, the joints and their velocities."""
    w, away = WEIGHTS, robot.difference(posture, q)
    forward = np.concatenate([np.reshape(speed, (1,)), np.zeros(robot.nv - 1)])
    return [w["base"] * away[:6], w["joints"] * away[6:], w["v"] * (v - forward)]


def cost(q, v, tau, force, posture, speed, places, swing):
    """Residuals of a knot. swing (4,): 1 for feet that come from the air."""
    at = [robot.frame_placement(q, f"{leg}_foot")[:3, 3] for leg in LEGS]
    away = [s * (here - place) for s, here, place in zip(swing, at, places, strict=True)]
    rest = [WEIGHTS["tau"] * tau, WEIGHTS["feet"] * np.concatenate(away)]
    return np.concatenate([*motion(q, v, posture, speed), *rest, WEIGHTS["cone"] * cone(force)])


def end(q, v, posture, speed):
    """Residuals of the end: where the motion leads, at rest."""
    return 10.0 * np.concatenate(motion(q, v, posture, speed))


def first_torques(trot: Plan) -> np.ndarray:
    """The torques that would hold each posture on the feet that are on the ground."""
    still = np.zeros((KNOTS, robot.nv))
    hold = robot.constrained_inverse_dynamics(trot.posture[:-1], still, still, feet, trot.active)
    return hold.tau[:, 6:]


def solve(trot: Plan, q0: np.ndarray | None = None, tau: np.ndarray | None = None, **options):
    """The motions of problems that begin at rest at q0 (..., nq), by default standing. tau: the
    first torques.
    """
    tau = first_torques(trot) if tau is None else tau
    q0 = trot.posture[0] if q0 is None else q0
    of_all = lambda x: np.broadcast_to(x, (*q0.shape[:-1], *x.shape)).astype(q0.dtype)
    swing = 1 - np.concatenate([np.ones((1, 4)), trot.active])  # from the knot before
    references = {"posture": trot.posture, "speed": trot.speed, "places": trot.places}
    references = {name: of_all(x) for name, x in {**references, "swing": swing}.items()}
    return fl.ilqr(
        robot, q0, np.zeros(robot.nv, q0.dtype), tau.astype(q0.dtype), DT, cost, end,
        references=references, actuation=motors, active=trot.active,
        **{"constraints": feet, "integrator": "semi_implicit", **options},
    )  # fmt: skip


def main(figure: str | None = None, starts: int = 0):
    """Solves the trot from standing, and from some more configurations nearby."""
    trot = plan()
    away = 0.03 * np.random.default_rng(0).normal(size=(1 + starts, robot.nv))
    away[0] = 0.0
    first = robot.integrate(np.tile(standing(), (1 + starts, 1)), away)
    q = np.repeat(trot.posture[None], 1 + starts, 0)
    q[:, 0], v = first, np.zeros((*q.shape[:2], robot.nv))
    v[:, 1:, 0] = trot.speed[1:]
    solution = solve(trot, first, states=(q, v))  # open loops would fall within the second
    print(f"{solution.converged.sum()} of {1 + starts} converged, iterations {solution.iterations}")
    force = solution.force[0].reshape(KNOTS, 4, 3)
    print(f"the base moves {1e3 * (solution.q[0, -1, 0] - solution.q[0, 0, 0]):.0f} mm forward")
    share = [np.abs(f[:2]).max() / f[2] for foot in force.swapaxes(0, 1) for f in foot if f[2] > 20]
    print(f"forces of feet: at most {force[..., 2].max():.0f} N, friction {max(share):.2f} of it")
    if figure:
        draw(figure, solution, trot)
    return solution, trot


def draw(path: str, solution, trot: Plan) -> None:
    """Forces of the four feet, heights of feet, and the base, over time."""
    from featherlane.tools.figures import HUES, INK, pyplot, save

    plt = pyplot(size=9)
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.1), layout="constrained")
    t, (forces, heights, base) = DT * np.arange(KNOTS + 1), axes
    force = solution.force[0].reshape(KNOTS, 4, 3)
    for i, leg in enumerate(LEGS):
        style = {"color": HUES[i], "lw": 1.2, "label": leg, "ls": ("-", "--")[i > 1]}
        forces.step(t[:-1], force[:, i, 2], where="post", **style)
        foot = robot.frame_placement(solution.q[0], f"{leg}_foot")[:, :3, 3]
        heights.plot(t, 1e3 * foot[:, 2], **style)
    forces.set(xlabel="time, s", ylabel="vertical force, N", title="forces of the feet")
    heights.set(xlabel="time, s", ylabel="height, mm", title="feet")
    forces.legend(frameon=False, ncols=4, loc="upper center", handlelength=1.4, columnspacing=0.8)
    forces.set_ylim(top=1.25 * force[..., 2].max())
    base.plot(t, solution.v[0, :, 0], color=HUES[0], label="velocity, m/s")
    base.plot(t, solution.q[0, :, 0], color=HUES[1], label="x, m")
    base.plot(t, solution.q[0, :, 2], color=HUES[2], label="height, m")
    base.plot(t, trot.posture[:, 0], color=INK, ls=":", label="x of the plan, m")
    base.set(xlabel="time, s", title="base", ylim=(-0.05, 1.2))
    base.legend(frameon=False, loc="upper left")
    for axis in axes:
        axis.title.set_fontsize(9)
    figure.suptitle("HyQ trots by fl.ilqr, with costs of its feet's forces", fontsize=10)
    save(figure, path, "Forces and heights of the feet of a quadruped that trots", narrow=2.8)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", help="file for forces, heights and the base")
    main(parser.parse_args().figure)
