"""Errors of an arm's rollouts by integrator, and a joint that comes to rest by friction

Writes docs/time_steps.svg, and time_steps_narrow.svg for narrow screens.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib as mpl
import numpy as np
from drawing import main
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

import featherlane as fl
from featherlane.tools.figures import BLUE, GREEN, INK, ORANGE, PINK, PURPLE

COLOURS = {
    "implicit_damping": BLUE,
    "semi_implicit": ORANGE,
    "euler": GREEN,
    "midpoint": PURPLE,
    "rk4": PINK,
}
SECONDS = 0.512  # of the arm's motion
STEPS = 2 ** np.arange(4, 11)  # in this time
TICKS = (0.5, 1, 2, 4, 8, 16, 32)  # ms
FINEST = 2**13  # steps of the classical Runge-Kutta method, for the errors
FRICTION, INERTIA, DAMPING, SPEED = 0.3, 0.001, 0.01, 5.0  # N m, kg m^2, N m s/rad, rad/s
DT, STOPPED = 0.002, 20  # s, steps, of the joint


def errors() -> dict[str, np.ndarray]:
    """The largest error of a joint's position in the end, rad, by integrator and number of steps;
    not finite where the rollout is unstable.
    """
    arm = fl.load("iiwa14")
    q0, v0 = arm.random_configuration(seed=3), np.zeros(arm.nv)

    def end(integrator: str, steps: int) -> np.ndarray:
        still = np.zeros((steps, arm.nv))
        path = arm.rollout(q0, v0, still, SECONDS / steps, integrator=integrator)
        return np.asarray(path.q[-1])

    exact = end("rk4", FINEST)
    warnings.simplefilter("ignore", RuntimeWarning)  # of those that are unstable
    return {
        name: np.array([np.abs(end(name, steps) - exact).max() for steps in STEPS])
        for name in COLOURS
    }


def stops() -> dict[str, np.ndarray]:
    """Velocities of a joint with friction, rad/s, by integrator, step by step."""
    builder = fl.ModelBuilder("joint")
    builder.link("base", mass=1.0, inertia=(1, 1, 1))
    builder.link("wheel", mass=1.0, inertia=(1, 1, INERTIA))
    builder.joint("turn", "revolute", "base", "wheel", axis=(0, 0, 1))
    wheel = builder.build().with_physics(damping=DAMPING, friction=FRICTION)
    still = np.zeros((STOPPED, 1))
    return {
        name: wheel.rollout([0.0], [SPEED], still, DT, integrator=name).v[:, 0]
        for name in ("implicit_damping", "semi_implicit")
    }


def order(axes: Any) -> None:
    dt = 1000 * SECONDS / STEPS
    for name, error in errors().items():
        shown = np.where(error < 1, error, np.nan)
        axes.plot(dt, shown, "o-", ms=3.5, color=COLOURS[name], label=f'"{name}"')
    axes.set(xscale="log", yscale="log", xlabel="time step, ms")
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_title("iiwa14: error after half a second, rad", fontsize=10, loc="left")


def rest(axes: Any) -> None:
    t = 1000 * DT * np.arange(STOPPED + 1)
    for name, v in stops().items():
        axes.plot(t, v, "o-", ms=3.5, color=COLOURS[name])
    rate, still = DAMPING / INERTIA, FRICTION / DAMPING  # 1/s; rad/s that damping resists equally
    fine = np.linspace(0, t[-1], 400)
    exact = (SPEED + still) * np.exp(-rate * fine / 1000) - still
    axes.plot(fine, np.maximum(exact, 0), color=INK, ls="--", lw=1.2, label="exact")
    axes.set(xlabel=f"ms, in steps of {1000 * DT:g} ms")
    axes.set_title("a joint with friction: velocity, rad/s", fontsize=10, loc="left")


def drawn(lines: int, columns: int, size: tuple[float, float], below: float) -> Figure:
    figure, panels = plt.subplots(lines, columns, figsize=size)
    order(panels[0])
    rest(panels[1])
    figure.tight_layout(w_pad=2, h_pad=2, rect=(0, below, 1, 1))
    figure.legend(loc="lower center", ncols=3, fontsize=9, columnspacing=1, handletextpad=0.4)
    return figure


if __name__ == "__main__":
    main(
        lambda: drawn(1, 2, (8.2, 3.8), 0.13),
        __file__,
        __doc__,
        lambda: drawn(2, 1, (4.7, 6.8), 0.08),
    )
