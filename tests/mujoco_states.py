"""Accelerations of MuJoCo, in featherlane's coordinates, for arrays of states."""

import numpy as np

import featherlane as fl


def accelerations(model, peer, q, v, tau):
    """Returns qacc as featherlane has it, and the number of contacts."""
    import mujoco

    there = fl.convert.to_mujoco(model, q, v=v, tau=tau)
    d, a, contacts = mujoco.MjData(peer), np.empty_like(v), np.empty(len(v), int)
    for i, (qpos, qvel, force) in enumerate(zip(there.q, there.v, there.tau, strict=True)):
        d.qpos[:], d.qvel[:], d.qfrc_applied[:], d.qacc_warmstart[:] = qpos, qvel, force, 0
        mujoco.mj_forward(peer, d)
        a[i], contacts[i] = d.qacc, d.ncon
    return fl.convert.from_mujoco(model, there.q, v=there.v, a=a).a, contacts
