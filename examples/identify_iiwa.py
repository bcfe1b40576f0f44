"""Identifies the inertial parameters and joint friction of an iiwa14 from noisy measurements.

The measurements are simulated, so that the answer is known. docs/identification.md goes through it.

    python examples/identify_iiwa.py [--figure docs/identification.svg]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import featherlane as fl
from featherlane.api.identification import (
    BaseParameters,
    base_parameters,
    consistent_parameters,
    parameter_names,
    pseudo_inertia,
)

PERIOD, HARMONICS = 10.0, 5  # s; the motion holds 0.1 to 0.5 Hz
RATE, REPEATS = 200, 10  # samples a second, periods measured
BAND = 20  # harmonics kept of the measured angles: 2 Hz
SPEED, REACH = 1.3, 0.8  # rad/s, part of the joint limits
ANGLE_NOISE = 1e-4  # rad
TORQUE_NOISE = np.array([1, 1, 0.5, 0.5, 0.2, 0.2, 0.2])  # N m, all as standard deviations
FRICTION = {
    "friction": np.array([0.8, 0.9, 0.5, 0.6, 0.3, 0.3, 0.2])
}  # N m; damping as in the file
KINDS = {"m": "m c, kg m", "I": "inertias, kg m^2", "damping": "damping, N m s",
         "friction": "friction, N m"}  # fmt: skip


class Motion(NamedTuple):
    q: np.ndarray  # (..., samples, nv), as v and a
    v: np.ndarray
    a: np.ndarray


# The experiment


def fourier(coefficients: np.ndarray, t: np.ndarray) -> Motion:
    """The motion of Fourier series (..., 2, HARMONICS, nv) of sines and cosines, in rad."""
    w = 2 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    rows = [np.hstack(x) for x in ((s, c), (w * c, -w * s), (-(w**2) * s, -(w**2) * c))]
    flat = coefficients.reshape(*coefficients.shape[:-3], -1, coefficients.shape[-1])
    return Motion(*(x @ flat for x in rows))


def within_limits(robot: fl.Model, coefficients: np.ndarray) -> np.ndarray:
    """The series of every joint scaled to its limits, whichever of angle and speed is met first.
    The joints of this robot turn equally far to both sides.
    """
    motion = fourier(coefficients, np.arange(0, PERIOD, 0.1))
    upper = np.array([joint.upper[0] for joint in robot.joints])
    scale = np.minimum(REACH * upper / np.abs(motion.q).max(-2), SPEED / np.abs(motion.v).max(-2))
    return coefficients * scale[..., None, None, :]


def random_series(robot: fl.Model, rng: np.random.Generator, count: int) -> np.ndarray:
    return within_limits(robot, rng.normal(size=(count, 2, HARMONICS, robot.nv)))


def regressor(robot: fl.Model, motion: Motion) -> np.ndarray:
    """(..., nv, 12 * nv): the columns of the inertial parameters, of damping and of friction."""
    kinds = ("inertial", "damping", "friction")
    columns = [robot.inverse_dynamics_parameter_derivatives(*motion, wrt) for wrt in kinds]
    return np.concatenate(columns, -1)


def information(robot: fl.Model, base: BaseParameters, coefficients: np.ndarray) -> np.ndarray:
    """log det of the base parameters' information (...): their joint uncertainty, negated."""
    Y = regressor(robot, fourier(coefficients, np.arange(0, PERIOD, 0.25)))
    Y = np.take(Y / TORQUE_NOISE[:, None], base.columns, -1)
    Y = Y.reshape(*coefficients.shape[:-3], -1, len(base.columns))
    return np.linalg.slogdet(np.swapaxes(Y, -1, -2) @ Y)[1]


def exciting(robot: fl.Model, base: BaseParameters, rng: np.random.Generator) -> np.ndarray:
    """A series that tells much: the best of many, changed at random while that helps."""
    best = random_series(robot, rng, 50)
    best = best[np.argmax(information(robot, base, best))]
    for size in np.geomspace(0.3, 0.03, 25):
        changed = best + size * np.abs(best).max((0, 1)) * rng.normal(size=(25, *best.shape))
        changed = np.concatenate([best[None], within_limits(robot, changed)])
        best = changed[np.argmax(information(robot, base, changed))]
    return best


def measure(robot: fl.Model, coefficients: np.ndarray, rng: np.random.Generator):
    """Noisy angles and torques (REPEATS, samples, nv) of a robot that repeats the motion."""
    motion = fourier(coefficients, np.arange(0, PERIOD, 1 / RATE))
    tau = robot.inverse_dynamics(*motion, params=FRICTION)
    shape = (REPEATS, *motion.q.shape)
    angles = motion.q + ANGLE_NOISE * rng.normal(size=shape)
    return angles, tau + TORQUE_NOISE * rng.normal(size=shape)


# From measurements to parameters


def smoothed(angles: np.ndarray) -> Motion:
    """The mean period without what is above the band, and its exact derivatives: no phase shift."""
    spectrum = np.fft.rfft(angles.mean(0), axis=0)
    spectrum[BAND + 1 :] = 0
    w = 2j * np.pi / PERIOD * np.arange(len(spectrum))[:, None]
    return Motion(*(np.fft.irfft(w**k * spectrum, angles.shape[1], axis=0) for k in range(3)))


def weighted_rows(robot: fl.Model, angles: np.ndarray, torques: np.ndarray):
    """Y (rows, p) and tau (rows,) in units of the noise, as the scatter of the periods shows it."""
    sigma = np.sqrt(torques.var(0, ddof=1).mean(0) / len(torques))
    Y = regressor(robot, smoothed(angles)) / sigma[:, None]
    return Y.reshape(-1, Y.shape[-1]), (torques.mean(0) / sigma).ravel()


def least_squares(Y: np.ndarray, tau: np.ndarray, base: BaseParameters):
    """The base parameters and their covariance."""
    columns = Y[:, base.columns]
    return np.linalg.lstsq(columns, tau, rcond=None)[0], np.linalg.inv(columns.T @ columns)


def cad_model(robot: fl.Model, rng: np.random.Generator) -> fl.Model:
    """The robot with figures as CAD gives them: masses and inertias are up to 30 % off, centres of
    mass by some 2 cm.
    """
    bodies = []
    for body in robot.bodies:
        mass, turn = rng.uniform(0.7, 1.3, 2)
        com = tuple(np.array(body.com) + rng.normal(0, 0.02, 3))
        inertia = tuple(map(tuple, turn * np.array(body.inertia)))
        bodies.append(replace(body, mass=mass * body.mass, com=com, inertia=inertia))
    return replace(robot, bodies=tuple(bodies))


def as_params(robot: fl.Model, x: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters behind the regressor's columns as `params=`."""
    inertial, damping, friction = np.split(x, [10 * robot.nbodies, 11 * robot.nbodies])
    return {
        "inertial": inertial.reshape(-1, 10), "damping": damping, "friction": friction
    }  # fmt: skip


# The report


def row(name: str, values: np.ndarray, form: str = "8.3f") -> None:
    print(f"{name:28}" + "".join(f"{x:{form}}" for x in values))


def rms(x: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(x**2, 0))


def report_base(robot, base, found, covariance, truth) -> None:
    """How near the base parameters are, and whether their standard deviations say so."""
    own = base.combinations @ truth
    sd, error = np.sqrt(covariance.diagonal()), found - own
    print(f"errors within 1, 2, 3 sd: {[int(np.sum(abs(error) < n * sd)) for n in (1, 2, 3)]}")
    names = [*parameter_names(robot), *(f"{kind} {j}" for kind in ("damping", "friction")
                                        for j in robot.joint_names)]  # fmt: skip
    for kind in ("m", "I", "damping", "friction"):
        rows = [i for i, k in enumerate(base.columns) if names[k].startswith(kind)]
        largest = f"{np.abs(error[rows]).max():.4f}, of values up to {np.abs(own[rows]).max():.2f}"
        print(f"largest error of {KINDS[kind]}: {largest}")
    print(f"\n{'base parameter':28}{'true':>9}{'found':>9}{'sd':>9}")
    for i, k in enumerate(base.columns):
        if names[k].endswith(("link_4", "joint_4")):
            grouped = np.count_nonzero(base.combinations[i]) - 1
            name = names[k] + (f" + {grouped} more" if grouped else "")
            row(name, [own[i], found[i], sd[i]], "9.5f")


def validate(robot, cad, base, found, params, rng) -> tuple[np.ndarray, ...]:
    """Prints errors on a motion that was not used; returns torques: true, measured, predicted."""
    coefficients = random_series(robot, rng, 1)[0]
    _, measured = measure(robot, coefficients, rng)
    motion = fourier(coefficients, np.arange(0, PERIOD, 1 / RATE))
    true = robot.inverse_dynamics(*motion, params=FRICTION)
    torques = {
        "CAD": cad.inverse_dynamics(*motion, params=FRICTION),
        "base parameters": regressor(robot, motion)[..., base.columns] @ found,
        "consistent parameters": robot.inverse_dynamics(*motion, params=params),
    }
    row("torque, rms in N m", rms(true))
    row("noise of one sample", TORQUE_NOISE)
    for name, tau in torques.items():
        row(f"error, {name}", rms(tau - true))
    row("acceleration, rad/s^2", rms(motion.a))
    for name, model, known in (("CAD", cad, FRICTION), ("consistent", robot, params)):
        a = model.forward_dynamics(motion.q, motion.v, true, params=known)
        row(f"error, {name}", rms(a - motion.a))
    return true, measured[0], torques["CAD"], torques["consistent parameters"]


def report_bodies(robot, Y, tau, prior, params) -> None:
    """What a possible body is, and what of it was only believed."""
    smallest = np.linalg.lstsq(Y, tau, rcond=1e-9)[0][: prior.size].reshape(-1, 10)
    for name, x in (
        ("least squares of smallest norm", smallest),
        ("consistent", params["inertial"]),
    ):
        possible = int(np.sum(np.linalg.eigvalsh(pseudo_inertia(x))[:, 0] > 0))
        print(f"possible bodies, {name}: {possible} of {len(x)}")
    print()
    true = robot.parameters("inertial")["inertial"]
    for name, x in (("true", true), ("CAD", prior), ("consistent", params["inertial"])):
        row(f"mass in kg, {name}", x[:, 0], "8.2f")


def main(figure: str | None = None) -> None:
    rng = np.random.default_rng(14)
    robot = fl.load("iiwa14")
    cad = cad_model(robot, rng)
    everything = Motion(*rng.normal(size=(3, 100, robot.nv)))
    base = base_parameters(regressor(robot, everything))
    count, size = base.combinations.shape
    print(f"{count} base parameters of {size}: {len(base.alone)} alone, "
          f"{count - len(base.alone)} sums; {len(base.without_effect)} without effect")  # fmt: skip

    first = random_series(robot, rng, 50)
    best = exciting(robot, base, rng)
    middle = np.median(information(robot, base, first))
    gain = np.exp((information(robot, base, best) - middle) / 2 / count)
    print(f"exciting motion: standard deviations {gain:.1f} times below those of a random one")

    Y, tau = weighted_rows(robot, *measure(robot, best, rng))
    found, covariance = least_squares(Y, tau, base)
    prior = cad.parameters("inertial")["inertial"]
    x = consistent_parameters(Y, tau, prior)
    params = as_params(robot, x)
    for name, rest in (("base", Y[:, base.columns] @ found), ("consistent", Y @ x)):
        print(f"{name} parameters: residual {np.sqrt(np.mean((rest - tau) ** 2)):.4f} sd")
    truth = np.concatenate([robot.parameters("inertial")["inertial"].ravel(),
                            robot.damping, FRICTION["friction"]])  # fmt: skip
    report_base(robot, base, found, covariance, truth)
    print()
    torques = validate(robot, cad, base, found, params, rng)
    print()
    report_bodies(robot, Y, tau, prior, params)
    if figure:
        draw(figure, *torques)


def draw(path: str, true, measured, cad, found) -> None:
    """Torques of the validation: of each joint the first half of the period."""
    from featherlane.tools.figures import BLUE, RED, pyplot, save

    plt = pyplot(size=9)
    figure, axes = plt.subplots(2, 2, figsize=(8.5, 4.6), sharex=True, layout="constrained")
    n = measured.shape[0] // 2
    t = np.arange(n) / RATE
    for axis, j in zip(axes.flat, (0, 1, 3, 5), strict=True):
        axis.plot(t[::2], measured[:n:2, j], color="#a9b1b8", lw=0.5, label="measured, one period")
        axis.plot(t, cad[:n, j], color=RED, lw=1.4, ls=(0, (4, 2)), label="CAD")
        axis.plot(t, found[:n, j], color=BLUE, lw=1.6, label="identified")
        axis.set_title(f"joint {j + 1}", fontsize=9)
        axis.margins(x=0)
    for axis in axes[1]:
        axis.set_xlabel("time, s")
    for axis in axes[:, 0]:
        axis.set_ylabel("torque, N m")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
    save(
        figure, path, "Torques of a motion that was not used: measured, CAD, identified", narrow=2.0
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", help="file for the torques of the validation")
    main(parser.parse_args().figure)
