"""An iiwa14 reaches many points at once, within limits of torque, and then with pushes on the way.

Each problem is one of optimal control: 0.6 s from rest at a random posture to a random point with
the flange, at rest there, with little torque. `featherlane.ilqr` solves all of them together; its
feedback gains bring the arm to the point although it is pushed. docs/optimal_control.md goes
through it.

    python examples/ilqr_arm.py [--figure docs/optimal_control.svg]
"""

from __future__ import annotations

import argparse

import numpy as np

import featherlane as fl

COUNT, KNOTS, DT = 256, 60, 0.01
LIMIT = np.array([80.0, 80, 45, 45, 25, 10, 10])  # N m, a quarter of what the joints bear
FLANGE = "iiwa_link_7"
robot = fl.load("iiwa14")


def cost(q, v, tau, target):
    """Residuals of a knot: the sum of their squares is twice its cost."""
    return np.concatenate([0.2 * v, 0.003 * (tau - robot.gravity_torque(q))])


def end(q, v, target):
    """Residuals of the end: 1 cm counts as much as 0.3 rad/s of all joints."""
    return np.concatenate([100 * (robot.frame_placement(q, FLANGE)[:3, 3] - target), 3.0 * v])


def problems(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Postures (count, 7), and points (count, 3) that the flange reaches from them."""
    rng = np.random.default_rng(seed)
    q0 = 0.5 * robot.random_configuration(count, seed=rng)
    there = q0 + rng.uniform(-0.8, 0.8, q0.shape)
    return q0, robot.frame_placement(there, FLANGE)[:, :3, 3]


def solve(q0: np.ndarray, target: np.ndarray, **options):
    hold = np.repeat(robot.gravity_torque(q0)[:, None], KNOTS, 1)  # the first guess stays there
    return fl.ilqr(
        robot, q0, np.zeros_like(q0), np.clip(hold, -LIMIT, LIMIT), DT, cost, end,
        parameters={"target": target}, tau_limits=(-LIMIT, LIMIT), **options,
    )  # fmt: skip


def pushed(solution, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The ends q (count, 7) of runs in which all joints get pushes, without and with feedback."""
    rng = np.random.default_rng(seed)
    pushes = 5.0 * rng.normal(size=solution.tau.shape) * LIMIT / LIMIT[0]
    ends = []
    for gain in (0.0, 1.0):
        q, v = solution.q[:, 0], solution.v[:, 0]
        for t in range(KNOTS):
            dx = np.concatenate([robot.difference(solution.q[:, t], q), v - solution.v[:, t]], -1)
            more = gain * np.einsum("bij,bj->bi", solution.gains[:, t], dx)
            tau = np.clip(solution.tau[:, t] + more, -LIMIT, LIMIT) + pushes[:, t]
            q, v = robot.step(q, v, tau, DT)
        ends.append(q)
    return ends[0], ends[1]


def distance(q: np.ndarray, target: np.ndarray) -> np.ndarray:
    """From the flange to the point, in mm."""
    return 1e3 * np.linalg.norm(robot.frame_placement(q, FLANGE)[..., :3, 3] - target, axis=-1)


def main(figure: str | None = None, count: int = COUNT):
    q0, target = problems(count)
    solution = solve(q0, target)
    words, counts = np.unique(solution.status, return_counts=True)
    print(", ".join(f"{n} {word}" for word, n in zip(words, counts, strict=True)))
    print(f"iterations: median {np.median(solution.iterations):.0f}, at most "
          f"{solution.iterations.max()}")  # fmt: skip
    reached = distance(solution.q[:, -1], target)
    print(f"the flange ends {np.median(reached):.1f} mm from its point (median)")
    at_limit = np.mean(np.any(np.abs(solution.tau) == LIMIT, (1, 2)))
    print(f"with a torque at its limit: {100 * at_limit:.0f} %")
    without, fed_back = (np.median(distance(q, target)) for q in pushed(solution))
    print(f"with pushes: {without:.0f} mm without feedback, {fed_back:.1f} mm with it")
    if figure:
        draw(figure, solution, target)
    return solution, target


def draw(path: str, solution, target: np.ndarray) -> None:
    """Paths of the flange, torques of one joint, and how the costs fall."""
    from featherlane.tools.figures import BLUE, INK, pyplot, save

    plt = pyplot(size=9)
    figure, (paths, torques, costs) = plt.subplots(1, 3, figsize=(9.5, 3.1), layout="constrained")
    shown = slice(0, 24)
    at = robot.frame_placement(solution.q[shown], FLANGE)[..., :3, 3]
    for path_of_one in at:
        paths.plot(path_of_one[:, 0], path_of_one[:, 2], color=BLUE, lw=0.8, alpha=0.7)
    paths.plot(at[:, 0, 0], at[:, 0, 2], "o", ms=2.5, color=INK, label="start")
    paths.plot(target[shown, 0], target[shown, 2], "x", ms=4, color="#d1495b", label="point")
    paths.set(xlabel="x, m", ylabel="z, m", title="flanges", aspect="equal", ylim=(0.1, 1.6))
    paths.legend(frameon=False, loc="upper center", ncols=2)
    t = DT * np.arange(KNOTS)
    torques.plot(t, solution.tau[shown, :, 3].T, color=BLUE, lw=0.6, alpha=0.6)
    for limit in (-LIMIT[3], LIMIT[3]):
        torques.axhline(limit, color="#d1495b", lw=1, ls=(0, (4, 2)))
    torques.set(xlabel="time, s", ylabel="torque, N m", title="joint 4, limits dashed")
    history = solution.history.cost[shown] / solution.cost[shown, None] - 1
    costs.semilogy(np.maximum(history, 1e-9).T, color=BLUE, lw=0.6, alpha=0.6)
    costs.set(xlabel="iteration", title="cost above the optimum, relative", xlim=(0, 50))
    for axis in (paths, torques, costs):
        axis.title.set_fontsize(9)
    figure.suptitle(
        "256 problems of fl.ilqr: iiwa14 moves its flange to points, within limits", fontsize=10
    )
    save(figure, path, "Optimal control of 256 arms", narrow=3.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", help="file for paths, torques and costs")
    main(parser.parse_args().figure)
