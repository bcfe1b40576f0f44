"""How near are accelerations under fl.SoftContacts to those of MuJoCo?

For each robot, cone and number of Newton steps: the share of random contact states whose
acceleration is within 1e-6 of `mj_forward`'s qacc, relative to its norm, where MuJoCo's own solver
is converged (tolerance 0). Go2, HyQ and the G1 are bundled, the gripper and the loose bodies (a
sphere, a capsule and a box) are those of tests/soft_files.py. Feet are spheres: one on each leg of
the quadrupeds, four under each foot of the G1, whose lowest one is up to 1 cm in the ground. Limits
and dry friction of joints are rows of the same problem.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ground import GROUND, ROBOTS, Standing, in_the_ground
from ground_peers import FRICTION, peer

import featherlane as fl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import mujoco_states
import soft_files
from free_roots import acceleration

DT, WITHIN, DEPTH = 0.002, 1e-6, 0.01
CONES = ("elliptic", "pyramidal")
SCENES = {"gripper": "file", "loose bodies": ()}  # pairs of their shapes that touch one another


class Scene(NamedTuple):
    """A robot, MuJoCo's model of it, its ground, and states."""

    model: fl.Model
    peer: Any
    ground: fl.Ground
    states: tuple[np.ndarray, np.ndarray, np.ndarray]


def random_states(model: fl.Model, robot: Standing, n: int) -> tuple[np.ndarray, ...]:
    """Returns q, v and tau of robots near and far from their stance on the ground."""
    rng = np.random.default_rng(1)
    spread = rng.choice([0.02, 0.1, 0.3], (n, 1))
    q = np.tile(model.neutral(), (n, 1))
    turn = np.zeros((n, model.nv))
    turn[:, 3:6] = spread * rng.normal(size=(n, 3))
    q = model.integrate(q, turn)
    q[:, 7:] = robot.stance + spread * rng.normal(size=(n, model.nv - 6))
    q[:, 2] -= in_the_ground(model, q, DEPTH * rng.uniform(size=n))
    v = rng.normal(size=(n, model.nv)) * rng.choice([0.1, 1.0], (n, 1))
    return q, v, 5.0 * rng.normal(size=(n, model.nv)) * (np.arange(model.nv) >= 6)


def with_joints(spec_model: Any, model: fl.Model) -> Any:
    """Gives MuJoCo's model the limits and dry friction of the robot's joints."""
    spec_model.dof_frictionloss[:] = model.friction
    for joint in model.joints[1:]:
        other = spec_model.joint(joint.name)
        other.range = [*joint.lower, *joint.upper]
        spec_model.jnt_limited[other.id] = bool(np.isfinite(other.range).all())
    return spec_model


def scene(name: str, cone: str, n: int) -> Scene:
    """Returns the scene with n states."""
    import mujoco

    if name in SCENES:
        text, states = soft_files.SCENES[name]
        text = text.replace('cone="elliptic"', f'cone="{cone}"')
        model = fl.load(text, loops="keep")
        ground = fl.Ground(surfaces="file", pairs=SCENES[name])
        return Scene(model, mujoco.MjModel.from_xml_string(text), ground, states(model, n))
    model = fl.load(ROBOTS[name].name, root="free")
    compiled = with_joints(peer(model, cone, 1.0), model)
    return Scene(model, compiled, GROUND, random_states(model, ROBOTS[name], n))


def errors(case: Scene, cone: str, steps: list[int], impratio: float) -> Iterator[np.ndarray]:
    """Yields the relative errors of accelerations after each number of steps."""
    m, states = case.peer, case.states
    m.opt.tolerance, m.opt.ls_tolerance = 0.0, 1e-6
    m.opt.iterations, m.opt.ls_iterations, m.opt.impratio = 100, 100, impratio
    wanted, _ = mujoco_states.accelerations(case.model, m, *states)
    for count in steps:
        law: Any = fl.SoftContacts(cone=cone, steps=count, impratio=impratio)  # type: ignore[arg-type]
        options: dict[str, Any] = {"ground": case.ground, "law": law}
        moved = case.model.step(
            *states, DT, **options, integrator="semi_implicit", constraints=case.model.loops
        )
        a = acceleration(case.model, *states[:2], moved, DT)
        yield np.linalg.norm(a - wanted, axis=1) / np.linalg.norm(wanted, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--steps", type=int, nargs="*", default=[4, 6, 8, 10])
    parser.add_argument("--impratio", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", default=[*ROBOTS, *SCENES])
    chosen = parser.parse_args()
    print(f"share within {WITHIN:g}, in brackets the median error, friction {FRICTION}")
    for name in chosen.only:
        for cone in CONES:
            case = scene(name, cone, chosen.states)
            each = errors(case, cone, chosen.steps, chosen.impratio)
            figures = (f"{(e < WITHIN).mean():.2%} ({np.median(e):.0e})" for e in each)
            shares = ", ".join(f"{n} steps {x}" for n, x in zip(chosen.steps, figures, strict=True))
            print(f"{name}, {cone}: {shares}", flush=True)


if __name__ == "__main__":
    main()
