"""How fast are steps on the ground beside MuJoCo's?

Rollouts from the same states, near the stance with feet in contact, of arrays (B, n) to arrays of
all states, in alternating passes: medians of the processor time of a step, and of its ratios to
that of `mujoco.rollout` with the Newton solver and the same cone in the same round. fl.Coulomb
stands beside both cones, the pyramidal one of MuJoCo's defaults and the elliptic one with impratio
100, which resists slip as rigid contact does. mjbatch and MJX, where they are installed, are
measured with the pyramidal cone. Environments are those of examples/walking.py: a step of them is
four steps, a feedback law, observations, rewards and new beginnings.

Robots are bundled. Feet are spheres: one on each leg of the quadrupeds, four under each foot of
the G1. Residuals of fl.Coulomb, and the distance of velocities from those of 400 sweeps, are those
of single steps without a start; those of fl.SoftContacts are those of the rollouts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ground_peers import DT, FRICTION, PEERS, STEPS, by_rollout, peer
from robots import machine_lines

import featherlane as fl

GROUND = fl.Ground(friction=FRICTION)
STATES, FEW = 1024, 64  # of featherlane, and of its peers
CONES = {"pyramidal": 1.0, "elliptic": 100.0}  # with impratio
DTYPES = np.dtype(np.float64), np.dtype(np.float32)


class Standing(NamedTuple):
    """A bundled robot, and the stance of its joints."""

    name: str
    stance: tuple[float, ...]


LEG = (-0.3, 0.0, 0.0, 0.6, -0.3, 0.0)
ROBOTS = {
    "Go2": Standing("go2", (0.0, 0.9, -1.8) * 4),
    "HyQ": Standing("hyq", (-0.2, 0.75, -1.5, -0.2, -0.75, 1.5) * 2),
    "G1": Standing("g1", (*LEG, *LEG, *[0.0] * 17)),
}


class Pass(NamedTuple):
    """A call, the steps of all its states, and the cone of the `mujoco.rollout` beside it."""

    name: str
    run: Callable[[], Any]
    steps: int
    cones: tuple[str, ...]


def states(model: fl.Model, robot: Standing, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns states near the stance whose lowest foot is 1 mm in the ground."""
    rng = np.random.default_rng(0)
    q = np.tile(model.neutral(), (n, 1))
    turn = np.zeros((n, model.nv))
    turn[:, 3:6] = 0.02 * rng.normal(size=(n, 3))
    q = model.integrate(q, turn)
    q[:, 7:] = robot.stance + 0.05 * rng.normal(size=(n, model.nv - 6))
    q[:, 2] -= in_the_ground(model, q, 0.001)
    return q, 0.2 * rng.normal(size=(n, model.nv))


def in_the_ground(model: fl.Model, q: np.ndarray, depth: Any) -> np.ndarray:
    """Returns how far robots are above the height where their lowest foot is so deep, m."""
    heights = []
    for shape in model.collision_shapes:
        X = model.frame_placement(q, shape.link)
        at = np.linalg.inv(model.frame(shape.link).placement.R) @ (
            np.array(shape.placement.p) - model.frame(shape.link).placement.p
        )
        heights.append((X[:, :3, :3] @ at + X[:, :3, 3])[:, 2] - shape.size[0])
    return np.asarray(np.min(heights, axis=0) + depth)


def of_peers(model: fl.Model, q: np.ndarray, v: np.ndarray) -> Iterator[Pass]:
    """Yields `mujoco.rollout` for each cone, then what else is installed of its peers."""
    there = fl.convert.to_mujoco(model, q, v=v)
    for cone, impratio in CONES.items():
        run = by_rollout(peer(model, cone, impratio), there.q, there.v)
        yield Pass(cone, run, len(q) * STEPS, ())
    for name in [*PEERS][1:]:
        other = PEERS[name](peer(model, "pyramidal", 1.0), there.q, there.v)
        if other is None:
            print(f"{name}: not installed, skipped")
        else:
            yield Pass(name, other, len(q) * STEPS, ("pyramidal",))


def laws(sweeps: list[int], newton: list[int]) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yields the laws of contact, with the cones of MuJoCo that they are compared with."""
    for n in sweeps:
        yield f"Coulomb, {n} sweeps", fl.Coulomb(sweeps=n), tuple(CONES)
    for n, (cone, impratio) in product(newton, CONES.items()):
        law = fl.SoftContacts(cone=cone, impratio=impratio, steps=n)
        yield f"SoftContacts, {cone}, {n} steps", law, (cone,)


def of_featherlane(
    model: fl.Model, q: np.ndarray, v: np.ndarray, sweeps: list[int], newton: list[int]
) -> Iterator[Pass]:
    """Yields rollouts with each law in both dtypes."""
    for (name, law, cones), dtype in product(laws(sweeps, newton), DTYPES):
        tau, dt = np.zeros((len(q), STEPS, model.nv), dtype), dtype.type(DT)
        state = q.astype(dtype), v.astype(dtype), tau, dt
        options: dict[str, Any] = {"ground": GROUND, "law": law, "threads": 1}
        run = lambda s=state, o=options: model.rollout(*s, **o)
        yield Pass(f"{name}, {dtype}", run, len(q) * STEPS, cones)


def processor_times(passes: list[Pass], rounds: int) -> dict[str, np.ndarray]:
    """Returns the processor time of a step of each pass in each round, us."""
    for one in passes:
        one.run()
    times = {one.name: np.empty(rounds) for one in passes}
    for k in range(rounds):
        for one in passes:
            begin = time.process_time()
            one.run()
            times[one.name][k] = (time.process_time() - begin) / one.steps * 1e6
    return times


def errors(model: fl.Model, q: np.ndarray, v: np.ndarray, sweeps: int) -> str:
    """Returns medians and largest values of the residual and of the distance from the solution."""
    at = lambda n: model.step(q, v, 0 * v, DT, ground=GROUND, law=fl.Coulomb(sweeps=n))
    after, solved = at(sweeps), at(400)
    distance = np.abs(after.v - solved.v).max(-1)[solved.residual < 1e-9]
    share = len(distance) / len(q)
    return (
        f"residual {np.median(after.residual):.0e} / {after.residual.max():.0e} m/s, error of v' "
        f"{np.median(distance):.0e} / {distance.max():.0e} in the {share:.0%} that 400 sweeps solve"
    )


def soft_residuals(model: fl.Model, q: np.ndarray, v: np.ndarray, law: Any) -> str:
    """Returns how many time steps of the rollouts above were solved to 1e-6 N."""
    tau = np.zeros((len(q), STEPS, model.nv))
    residual = model.rollout(q, v, tau, DT, ground=GROUND, law=law).residual
    return f"residual below 1e-6 N in {(residual < 1e-6).mean():.2%} of all time steps"


def measure(name: str, robot: Standing, chosen: argparse.Namespace) -> None:
    """Prints the figures of a robot."""
    model = fl.load(robot.name, root="free")
    q, v = states(model, robot, STATES)
    passes = [*of_peers(model, q[:FEW], v[:FEW])]
    passes += of_featherlane(model, q, v, chosen.sweeps, chosen.newton)
    times = processor_times(passes, chosen.rounds)
    print(f"{name}, {len(model.collision_shapes)} contacts")
    for one in passes:
        ratios = [
            f"{np.median(times[cone] / times[one.name]):.1f} times {cone}" for cone in one.cones
        ]
        label = one.name if one.cones else f"mujoco.rollout, {one.name}"
        print(f"  {label}: {np.median(times[one.name]):.2f} us", *ratios, sep=", ", flush=True)
    few = len(model.collision_shapes) <= 4  # 400 sweeps of more take minutes to compile
    for n in chosen.sweeps if few else ():
        print(f"  {n} sweeps: {errors(model, q, v, n)}")
    for label, law, _ in laws([], chosen.newton):
        print(f"  {label}: {soft_residuals(model, q, v, law)}", flush=True)


def environments(name: str, count: int, rounds: int) -> None:
    """Prints steps of environments of examples/walking.py, which has a task of this name."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    try:
        import walking

        from featherlane.interop.gymnasium import TracedVectorEnv
    except ImportError as error:
        print(f"environments: {error}, skipped")
        return
    task = getattr(walking, name.lower())()
    envs = TracedVectorEnv(task, count)
    envs.reset(seed=0)
    action = np.zeros((count, task.actions), np.float32)
    one = Pass(name, lambda: envs.step(action), count, ())
    times = processor_times([one], 10 * rounds)[name]
    rate, each = 1e6 / np.median(times), walking.SUBSTEPS
    print(f"{name}, {count} environments: {rate:,.0f} steps a second on one core, of {each} each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sweeps", type=int, nargs="*", default=[10, 20])
    parser.add_argument("--newton", type=int, nargs="*", default=[8], help="steps of SoftContacts")
    parser.add_argument("--only", nargs="*", default=list(ROBOTS))
    parser.add_argument("--environments", type=int, nargs="*", default=[4096])
    chosen = parser.parse_args()
    print("\n".join(machine_lines()))
    for name in chosen.only:
        measure(name, ROBOTS[name], chosen)
    for name, count in product([x for x in chosen.only if x != "HyQ"], chosen.environments):
        environments(name, count, chosen.rounds)


if __name__ == "__main__":
    main()
