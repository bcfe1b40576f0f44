"""How fast are steps on the ground beside MuJoCo's?

Rollouts from the same states, near the stance with feet in contact, on one thread in alternating
passes: least processor time of a step. `mujoco.rollout` with the Newton solver, its defaults and
its pyramidal cone; featherlane with fl.Coulomb in float64 and float32. HyQ and the G1 are bundled;
Go2 is read from the folder --robots, which has unitree_go2.xml. Feet are spheres: one on each leg
of the quadrupeds, four under each foot of the G1. The residual of the last sweep, and the distance
of the velocities from those of 400 sweeps, are those of single steps without a start.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from peer_models import mujoco_spec

DT, STEPS, FRICTION = 0.002, 20, 0.8
GROUND = fl.Ground(friction=FRICTION)


class Standing(NamedTuple):
    """A robot, the stance of its joints, and links that get a sphere where its file has none."""

    file: str
    stance: tuple[float, ...]
    feet: tuple[str, ...] = ()
    sphere: tuple[float, float] = (0.0, 0.0)  # place along the link's z, and radius, m


LEG = (-0.3, 0.0, 0.0, 0.6, -0.3, 0.0)
ROBOTS = {
    "Go2": Standing(
        "unitree_go2.xml",
        (0.0, 0.9, -1.8) * 4,
        tuple(f"{leg}_calf" for leg in ("FL", "FR", "RL", "RR")),
        (-0.213, 0.022),
    ),
    "HyQ": Standing("hyq", (-0.2, 0.75, -1.5, -0.2, -0.75, 1.5) * 2),
    "G1": Standing("g1", (*LEG, *LEG, *[0.0] * 17)),
}


def with_feet(robot: Standing, folder: Path | None) -> fl.Model | None:
    """Returns the robot with its spheres; None if its file is not there."""
    if robot.file in fl.bundled():
        return fl.load(robot.file, root="free")
    if folder is None or not (folder / robot.file).exists():
        return None
    z, radius = robot.sphere
    at = fl.Placement.of(np.eye(3), (0, 0, z))
    spheres = {
        link: fl.CollisionShape(link, "sphere", (radius,), placement=at) for link in robot.feet
    }
    return fl.load(folder / robot.file).with_collision_shapes(spheres)


def peer(model: fl.Model, cone: str) -> Any:
    """Returns MuJoCo's model of the robot on a plane."""
    import mujoco

    spec = mujoco_spec(model)
    spec.option.disableflags, spec.option.timestep = 0, DT
    spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone.upper()}")
    friction = (FRICTION, 0.005, 0.0001)
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 1), contype=0, friction=friction
    )
    for shape in model.collision_shapes:
        spec.body(model.body_names[shape.body]).add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=(*shape.size, 0, 0),
            pos=shape.placement.p,
            mass=0,
            conaffinity=0,
            friction=friction,
        )
    return spec.compile()


def states(model: fl.Model, robot: Standing, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns states near the stance whose lowest foot is 1 mm in the ground."""
    rng = np.random.default_rng(0)
    q = np.tile(model.neutral(), (n, 1))
    turn = np.zeros((n, model.nv))
    turn[:, 3:6] = 0.02 * rng.normal(size=(n, 3))
    q = model.integrate(q, turn)
    q[:, 7:] = robot.stance + 0.05 * rng.normal(size=(n, model.nv - 6))
    heights = []
    for shape in model.collision_shapes:
        X = model.frame_placement(q, shape.link)
        at = np.linalg.inv(model.frame(shape.link).placement.R) @ (
            np.array(shape.placement.p) - model.frame(shape.link).placement.p
        )
        heights.append((X[:, :3, :3] @ at + X[:, :3, 3])[:, 2] - shape.size[0])
    q[:, 2] -= np.min(heights, axis=0) + 0.001
    return q, 0.2 * rng.normal(size=(n, model.nv))


def mujoco_passes(model: fl.Model, m: Any, q: np.ndarray, v: np.ndarray) -> Callable[[], Any]:
    """Returns a pass of mujoco.rollout."""
    import mujoco
    from mujoco import rollout

    there = fl.convert.to_mujoco(model, q, v=v)
    d, kind = mujoco.MjData(m), mujoco.mjtState.mjSTATE_FULLPHYSICS
    first = np.empty((len(q), mujoco.mj_stateSize(m, kind)))
    for row, qpos, qvel in zip(first, there.q, there.v, strict=True):
        d.qpos[:], d.qvel[:] = qpos, qvel
        mujoco.mj_getState(m, d, row, kind)
    return lambda: rollout.rollout([m] * len(q), [d], first, nstep=STEPS)


def microseconds(passes: dict[str, tuple[Callable[[], Any], int]], rounds: int) -> dict[str, float]:
    """Returns the least processor time of a step of each pass, with its number of states, us."""
    best = dict.fromkeys(passes, np.inf)
    for run, _ in passes.values():
        run()
    for _ in range(rounds):
        for name, (run, n) in passes.items():
            begin = time.process_time()
            run()
            taken = time.process_time() - begin
            best[name] = min(best[name], taken / (n * STEPS) * 1e6)
    return best


def errors(model: fl.Model, q: np.ndarray, v: np.ndarray, sweeps: int) -> str:
    """Returns medians and largest values of the residual and of the distance from the solution."""
    at = lambda n: model.step(q, v, 0 * v, DT, ground=GROUND, law=fl.Coulomb(sweeps=n))
    after, solved = at(sweeps), at(400)
    distance = np.abs(after.v - solved.v).max(-1)[solved.residual < 1e-9]
    share = len(distance) / len(q)
    return (
        f"residual {np.median(after.residual):.0e} / {after.residual.max():.0e}, error of v' "
        f"{np.median(distance):.0e} / {distance.max():.0e} in the {share:.0%} that 400 sweeps solve"
    )


def measure(
    name: str, robot: Standing, folder: Path | None, rounds: int, sweeps: list[int]
) -> None:
    """Prints the figures of a robot."""
    model = with_feet(robot, folder)
    if model is None:
        print(f"{name}: no {robot.file}")
        return
    q, v = states(model, robot, 1024)
    few = q[:64], v[:64]
    passes: dict[str, tuple[Callable[[], Any], int]] = {
        "mujoco": (mujoco_passes(model, peer(model, "pyramidal"), *few), 64)
    }
    for dtype in (np.float64, np.float32):
        state = q.astype(dtype), v.astype(dtype), np.zeros((1024, STEPS, model.nv), dtype)
        dt = dtype(DT)
        for n in sweeps:
            options: dict[str, Any] = {"ground": GROUND, "law": fl.Coulomb(sweeps=n), "threads": 1}
            run = lambda s=state, o=options, h=dt: model.rollout(*s, h, **o)
            passes[f"{n} sweeps, {np.dtype(dtype)}"] = run, 1024
    times = microseconds(passes, rounds)
    print(f"{name}: mujoco.rollout, pyramidal, {times['mujoco']:.1f} us")
    for label in [*passes][1:]:
        print(f"  {label}: {times[label]:.2f} us, {times['mujoco'] / times[label]:.1f} times")
    for n in sweeps:
        print(f"  {n} sweeps: {errors(model, q, v, n)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sweeps", type=int, nargs="*", default=[10, 20])
    parser.add_argument("--only", nargs="*", default=list(ROBOTS))
    chosen = parser.parse_args()
    for name in chosen.only:
        measure(name, ROBOTS[name], chosen.robots, chosen.rounds, chosen.sweeps)


if __name__ == "__main__":
    main()
