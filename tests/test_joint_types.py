"""Random trees of all joint types against Pinocchio, whose model is built joint by joint.

Pinocchio's analytic derivatives are wrong for a universal joint, whose motion vectors are not
constant in the body's axes (its rnea, aba, crba are right): for derivatives, and where a second
axis is not orthogonal to the first, the joint is two turns with no mass between, as in our tree.
"""

from dataclasses import replace

import numpy as np
import peer_models
import pytest
import textbook
from numpy.testing import assert_allclose
from repetition import repeated
from test_convert import everything, run

from featherlane import algorithms, convert
from featherlane.robot.joints import JOINT_TYPES

pin = pytest.importorskip("pinocchio")

KINDS = tuple(JOINT_TYPES)
CHAINS = [(a, b, KINDS[(i + j) % len(KINDS)]) for i, a in enumerate(KINDS)
          for j, b in enumerate(KINDS)]  # fmt: skip

ROUND = CHAINS[1 :: len(KINDS) + 1]  # each type, at the root or behind it
REST = [kinds for kinds in CHAINS if kinds not in ROUND]


def robot(kinds, parents=None, seed=0, mimic=None):
    """Random axes, placements and armature; a planar joint's normal is z, as in Pinocchio. A free
    joint has none along its lines, where Pinocchio's does not turn.
    """
    model = textbook.tree(kinds, parents, seed, True, mimic)
    joints = []
    for joint in model.joints:
        joint = replace(joint, damping=(), friction=())
        if joint.type == "planar":
            joint = replace(joint, axis=(0.0, 0.0, 1.0))
        if joint.type == "free":
            joint = replace(joint, armature=(0.0, 0.0, 0.0, *joint.armature[3:]))
        if joint.type == "universal":
            second = np.cross(joint.axis, joint.axis2)
            joint = replace(joint, axis2=tuple(second / np.linalg.norm(second)))
        joints.append(joint)
    return replace(model, joints=tuple(joints))


def full(upper):
    return np.triu(upper) + np.triu(upper, 1).T


def close(x, wanted, tolerance=1e-11):
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(np.abs(wanted).max(), 1e-3))


def compare(model, split, derivatives=True):
    """All seven functions; what divides by M loses as many digits as cond(M) takes."""
    peer = peer_models.pinocchio_model(model, split)
    data = peer.createData()
    ours = everything(model, batch=2, seed=1)
    for k in range(2):
        q = there(model, ours.q[k])
        v, a, tau = ours.v[k], ours.a[k], ours.tau[k]
        loose = max(1e-11, 100 * np.finfo(float).eps * np.linalg.cond(ours.M[k]))
        close(ours.tau[k], pin.rnea(peer, data, q, v, a))
        close(ours.M[k], full(pin.crba(peer, data, q)))
        close(ours.a[k], pin.aba(peer, data, q, v, tau), loose)
        close(ours.da_dtau[k], full(pin.computeMinverse(peer, data, q)), loose)
        if derivatives:
            dtau_dq, dtau_dv, _ = pin.computeRNEADerivatives(peer, data, q, v, a)
            close(ours.dtau_dq[k], dtau_dq)
            close(ours.dtau_dv[k], dtau_dv)
            da_dq, da_dv, _ = pin.computeABADerivatives(peer, data, q, v, tau)
            close(ours.da_dq[k], da_dq, loose)
            close(ours.da_dv[k], da_dv, loose)


def there(model, q):
    """Pinocchio's q: turns built as JointModelRevolute are angles, planar ones are (cos, sin)."""
    limited = [replace(j, lower=(-1.0,), upper=(1.0,)) if j.type == "revolute" else j
               for j in model.joints]  # fmt: skip
    return convert.to_pinocchio(replace(model, joints=tuple(limited)), q).q


@pytest.mark.parametrize(
    "kinds",
    repeated(ROUND + REST, len(ROUND), spread=False),
    ids=lambda kinds: "-".join(k[:4] for k in kinds),
)
def test_every_type_behind_every_other(kinds):
    compare(robot(kinds, seed=len(kinds[0])), split=("universal",))


@pytest.mark.parametrize("seed", repeated(range(4)))
def test_branched_trees_with_pinocchios_own_joints(seed):
    kinds = np.random.default_rng(seed).permutation(KINDS).tolist()
    model = robot(kinds, (-1, 0, 1, 0, 3, 4, 3, -1, 7), seed)
    compare(model, split=(), derivatives=False)
    compare(model, split=("universal", "cylindrical"))


def test_pinocchios_derivatives_of_a_universal_joint_are_not_those_of_its_rnea():
    """The reason for the split: when this fails, Pinocchio has mended it."""
    model = robot(("universal", "revolute"))
    peer = peer_models.pinocchio_model(model)
    data, ours = peer.createData(), everything(model, batch=1)
    q, v, a = ours.q[0], ours.v[0], ours.a[0]
    dtau_dq = pin.computeRNEADerivatives(peer, data, q, v, a)[0].copy()
    steps = 1e-6 * np.eye(model.nv)
    found = [(pin.rnea(peer, data, q + s, v, a) - pin.rnea(peer, data, q - s, v, a)) / 2e-6
             for s in steps]  # fmt: skip
    close(ours.dtau_dq[0], np.transpose(found), 1e-7)
    assert np.abs(dtau_dq - ours.dtau_dq[0]).max() > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_followers_as_pinocchio_has_them(seed):
    """rnea and crba: what Pinocchio computes for mimic joints."""
    kinds = ("free", "revolute", "prismatic", "revolute", "revolute", "prismatic")
    model = robot(kinds, (-1, 0, 1, 1, 3, 0), seed, mimic={3: 1, 5: 2})
    peer = peer_models.pinocchio_model(model)
    assert list(peer.names[1:]) == list(model.joint_names)
    ours = everything(model, batch=2, seed=seed)
    assert peer.nv == model.nv == 9
    for k in range(2):
        q, data = there(model, ours.q[k]), peer.createData()  # its crba adds to what data.M was
        close(ours.tau[k], pin.rnea(peer, data, q, ours.v[k], ours.a[k]))
        close(ours.M[k], full(pin.crba(peer, data, q)))


def test_float32_on_every_type():
    """The same algorithms on single precision, against Pinocchio's answers to the same states."""
    model = robot(KINDS, (-1, 0, 1, 0, 3, 4, 3, -1, 7), seed=5)
    peer = peer_models.pinocchio_model(model, ("universal",))
    data, ours = peer.createData(), everything(model, batch=3)
    q, v, a = (x.astype(np.float32) for x in ours[:3])
    tau = run(algorithms.rnea, model, q, v, a)
    assert tau.dtype == np.float32
    for k in range(3):
        wanted = pin.rnea(peer, data, there(model, q[k].astype(float)), v[k], a[k])
        close(tau[k], wanted, 1e-5)
