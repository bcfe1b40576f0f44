"""MuJoCo's steps of robots on a plane, by three libraries: `mujoco.rollout`, mjbatch and MJX.

A pass of each takes states in rows and returns those of all steps in rows. A library that is not
installed is None: mjbatch and MJX ask for versions of MuJoCo of their own, `pip install mjbatch
mujoco-mjx jax` in an environment beside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import featherlane as fl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from peer_models import mujoco_spec

DT, STEPS, FRICTION = 0.002, 20, 0.8
Run = Callable[[], Any]


def peer(model: fl.Model, cone: str, impratio: float) -> Any:
    """Returns MuJoCo's model of the robot, whose shapes are spheres, on a plane."""
    import mujoco

    spec = mujoco_spec(model)
    spec.option.disableflags, spec.option.timestep = 0, DT
    spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone.upper()}")
    spec.option.impratio = impratio
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


def by_rollout(m: Any, qpos: np.ndarray, qvel: np.ndarray) -> Run:
    """Returns a pass of `mujoco.rollout` in one thread."""
    import mujoco
    from mujoco import rollout

    d, kind = mujoco.MjData(m), mujoco.mjtState.mjSTATE_FULLPHYSICS
    first = np.empty((len(qpos), mujoco.mj_stateSize(m, kind)))
    for row, q, v in zip(first, qpos, qvel, strict=True):
        d.qpos[:], d.qvel[:] = q, v
        mujoco.mj_getState(m, d, row, kind)
    return lambda: rollout.rollout([m] * len(qpos), [d], first, nstep=STEPS)


def by_mjbatch(m: Any, qpos: np.ndarray, qvel: np.ndarray) -> Run | None:
    """Returns a pass of mjbatch in one thread."""
    try:
        from mjbatch import Batch
    except ImportError:
        return None
    batch = Batch(m, len(qpos), num_threads=1)
    q, v = batch.bind("qpos"), batch.bind("qvel")
    history = np.empty((len(qpos), STEPS, batch.nstate))

    def run() -> np.ndarray:
        q[:], v[:] = qpos, qvel
        batch.step(nstep=STEPS, history=history)
        return history

    return run


def by_mjx(m: Any, qpos: np.ndarray, qvel: np.ndarray) -> Run | None:
    """Returns a pass of MJX on the CPU, in float32, as XLA divides it among its threads."""
    try:
        import jax
        from mujoco import mjx
    except ImportError:
        return None
    m_x = mjx.put_model(m)
    still = mjx.make_data(m_x)

    def rollout(q: Any, v: Any) -> Any:
        def step(d: Any, _: None) -> Any:
            after = mjx.step(m_x, d)
            return after, (after.qpos, after.qvel)

        return jax.lax.scan(step, still.replace(qpos=q, qvel=v), None, STEPS)[1]

    run = jax.jit(jax.vmap(rollout))
    return lambda: [*map(np.asarray, run(qpos.astype(np.float32), qvel.astype(np.float32)))]


PEERS = {"mujoco.rollout": by_rollout, "mjbatch": by_mjbatch, "MJX, float32": by_mjx}
