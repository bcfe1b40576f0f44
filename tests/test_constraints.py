"""Constrained dynamics against Pinocchio, and by the equations that it solves."""

from dataclasses import replace

import numpy as np
import pytest
from constrained_states import (
    closed_loop,
    feet,
    random_placement,
    run,
    states,
    with_frames,
)
from peer_models import pinocchio_model
from repetition import repeated

import featherlane as fl
from featherlane import algorithms
from featherlane.algorithms.tangent import configuration_rate
from featherlane.backends.dual import evaluate
from featherlane.robot.parts import WORLD

PLAIN = ("revolute", "prismatic", "helical")


def tree(seed, **options):
    """A random tree of all joint types, mimic joints too, with frames on it."""
    options = {"physics": True, "mimic": 0.3, "branching": 1.6} | options
    model = fl.random_tree(9, seed=seed, **options)
    rng = np.random.default_rng(seed)
    more = [(f"f{i}", i, *random_placement(rng)) for i in (3, 5, 7, 8)]
    ground = ("ground", WORLD, *random_placement(rng))
    return with_frames(model, *more, ground)


KINDS = {
    "pin": [fl.Pin("f8")],
    "axes": [fl.Pin("f7", axes="xz"), fl.Pin("f8", "ground", axes="y")],
    "weld": [fl.Weld("f8")],
    "loop": [fl.Pin("f8", "f3")],
    "loop of axes": [fl.Pin("f8", "f5", axes="yz")],
    "hinge": [fl.Hinge("f8", "f3", axis=(1, 2, 3))],
    "loop of a weld": [fl.Weld("f7", "f8")],
    "rod": [fl.Rod("f8", "f5", 0.7), fl.Rod("f7", "ground", 0.3)],
    "several": [fl.Pin("f8"), fl.Rod("f7", "f3", 0.2), fl.Pin("f5", "f7", axes="x")],
}


def coupled(model):
    """Couplings of the first joints of one freedom that mimic no other."""
    names = [model.joints[i].name for i in model.independent if model.types[i].nq == 1]
    law = (0.1, -0.5, 0.3, 0.2)
    return [fl.Coupling(names[0], names[1], law), fl.Pin("f8")]


def well_posed(model, c, q, least=1e-4):
    """States in which the rows are independent."""
    S = run_one(algorithms.delassus_matrix, model, q, constraints=c)
    scale = np.sqrt(np.einsum("nii->ni", S))
    return np.linalg.eigvalsh(S / scale[:, :, None] / scale[:, None, :])[:, 0] > least


def run_one(algorithm, model, *arrays, **options):
    return run(lambda *a, **o: (algorithm(*a, **o),), model.tree, *arrays, **options)[0]


def direction_of(model, q, v):
    rate = lambda tree, q, v: (configuration_rate(model, q, v),)
    return run(rate, model.tree, q, v)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", repeated([2, 4, 5], spread=False))
def test_the_equations_hold_on_random_trees(kind, seed):
    """M a + h = tau + J^T force + J_ext^T f_ext, and d(J v)/dt = 0, exactly differentiated."""
    model = tree(seed)
    items = KINDS[kind]
    c = model.constraints(items)
    q, v, tau = states(model, 6, seed)
    f_ext = np.random.default_rng(seed).normal(size=(6, model.nbodies, 6))
    named = model.graph("constrained_forward_dynamics", "body", constraints=c)
    given, _ = evaluate(named, {"q": q, "v": v, "tau": tau, "f_ext": f_ext}, {})
    a, force = given["a"], given["force"]
    J = run_one(algorithms.constraint_jacobian, model, q, constraints=c)
    wanted = tau + np.einsum("nrk,nr->nk", J, force)
    inverse = model.graph("inverse_dynamics", "body")
    found = evaluate(inverse, {"q": q, "v": v, "a": a, "f_ext": f_ext}, {})[0]["tau"]
    good = well_posed(model, c, q)
    assert good.sum() >= 2
    size = 1 + np.abs(wanted).max(1, keepdims=True)
    assert np.abs((found - wanted) / size)[good].max() < 1e-9
    graph = model.graph("constraint_jacobian", constraints=c)
    _, moved = evaluate(graph, {"q": q}, {"q": direction_of(model, q, v)})
    rates = np.einsum("nrk,nk->nr", moved["J"], v)
    total = np.einsum("nrk,nk->nr", J, a) + rates
    assert np.abs(total / (1 + np.abs(rates).max(1, keepdims=True)))[good].max() < 1e-8


def derivatives_of(model, c, q, v, tau, **more):
    """Those of the values' graph by dual numbers, along all directions at once."""
    graph = model.graph("constrained_forward_dynamics", constraints=c, **dict.fromkeys(more, True))
    n, count = model.nv, len(q)
    given = {"q": q, "v": v, "tau": tau, **more}
    given = {name: np.repeat(x, 3 * n, axis=0) for name, x in given.items()}
    units = np.tile(np.eye(3 * n), (count, 1))
    by_q, by_v, by_tau = units[:, :n], units[:, n : 2 * n], units[:, 2 * n :]
    directions = {"q": direction_of(model, given["q"], by_q), "v": by_v, "tau": by_tau}
    _, found = evaluate(graph, given, directions)
    result = {}
    for out, x in found.items():
        x = x.reshape(count, 3, n, -1)
        for k, name in enumerate(("q", "v", "tau")):
            result[f"d{out}_d{name}"] = x[:, k].transpose(0, 2, 1)
    return result


@pytest.mark.parametrize("kind", [*KINDS, "couplings"])
@pytest.mark.parametrize("seed", repeated([5, 2], spread=False))
def test_derivatives_are_those_of_dual_numbers(kind, seed):
    """Off the constraints, with Baumgarte's terms and anchors, on every joint type."""
    model = tree(seed) if kind in KINDS else tree(seed, joint_types=PLAIN, mimic=0.0)
    c = model.constraints(KINDS.get(kind) or coupled(model), kp=30.0, kd=11.0)
    q, v, tau = states(model, 4, seed)
    more = {"active": np.tile([1.0, 1.0, 0.0][: c.count], (4, 1))}
    if any(getattr(place, "anchored", False) for place in c.places):
        rng = np.random.default_rng(seed)
        more["anchors"] = rng.normal(size=(4, c.count, 7))
    wanted = derivatives_of(model, c, q, v, tau, **more)
    found = run(
        algorithms.constrained_forward_dynamics_derivatives,
        model.tree, q, v, tau, constraints=c, **more,
    )  # fmt: skip
    names = ("a", "force", "da_dq", "da_dv", "da_dtau", "dforce_dq", "dforce_dv", "dforce_dtau")
    good = well_posed(model, c, q, 1e-3)
    assert good.any()
    for name, x in dict(zip(names, found, strict=True)).items():
        if name in wanted:
            size = np.abs(wanted[name]).max((1, 2), keepdims=True) + 1e-3
            assert np.abs((x - wanted[name]) / size)[good].max() < 1e-9, name


# Pinocchio

PROXIMAL = 1e-14


def pinocchio_pairs(peer, c):
    """Pinocchio's descriptions of pins and welds."""
    import pinocchio as pin

    def at(frame):
        placement = pin.SE3(np.array(frame.placement.R), np.array(frame.placement.p))
        return [0 if frame.body == WORLD else frame.body + 1, placement]

    kinds = {3: pin.ContactType.CONTACT_3D, 6: pin.ContactType.CONTACT_6D}
    pairs = pin.StdVec_RigidConstraintModel()
    for item, place in zip(c.items, c.places, strict=True):
        places = *at(place.frame), *at(place.to)
        kind = kinds[item.rows]
        pairs.append(pin.RigidConstraintModel(kind, peer, *places, pin.ReferenceFrame.LOCAL))
    return pairs


def pinocchio_problem(model, c):
    """Pinocchio's model, its data, pairs of frames with their data, and settings."""
    import pinocchio as pin

    peer = pinocchio_model(model)
    pairs = pinocchio_pairs(peer, c)
    data, datas = peer.createData(), pin.StdVec_RigidConstraintData()
    datas.extend(pair.createData() for pair in pairs)
    pin.initConstraintDynamics(peer, data, pairs, datas)
    return peer, data, pairs, datas, pin.ProximalSettings(PROXIMAL, 0.0, 1)


def pinocchio_results(model, c, q, v, tau):
    """Values and derivatives; forces in the axes of `frame`, linear first."""
    import pinocchio as pin

    peer, data, made, datas, settings = pinocchio_problem(model, c)
    names = ("ddq_dq", "ddq_dv", "ddq_dtau", "dlambda_dq", "dlambda_dv", "dlambda_dtau")
    rows = []
    for state in zip(q, v, tau, strict=True):
        a = pin.constraintDynamics(peer, data, *state, made, datas, settings).copy()
        force = data.lambda_c.copy()
        pin.computeConstraintDynamicsDerivatives(peer, data, made, datas, settings)
        rows.append([a, force, *[getattr(data, name).copy() for name in names]])
    return [np.array(x) for x in zip(*rows, strict=True)]


def in_axes_of_frames(model, c, q, force, slopes):
    """Forces and their derivatives by q, v and tau, taken from the axes of `to` to those of
    `frame`: f = R^T F, df = R^T dF + f x w for a turn w of `frame` against `to`.
    """
    forces, changes = [], [[] for _ in slopes]
    for i, place in enumerate(c.places):
        pair = with_frames(
            model, ("one", place.frame.body, *place.frame.placement),
            ("two", place.to.body, *place.to.placement),
        )  # fmt: skip
        one, two = (pair.frame_placement(q, name)[:, :3, :3] for name in ("one", "two"))
        R = two.transpose(0, 2, 1) @ one
        w = (
            one.transpose(0, 2, 1)
            @ (pair.jacobian(q, "one", "world") - pair.jacobian(q, "two", "world"))[:, 3:]
        )
        entries = c.entries(i)
        for start in range(entries.start, entries.stop, 3):
            f = np.einsum("nji,nj->ni", R, force[:, start : start + 3])
            forces.append(f)
            for k, dF in enumerate(slopes):
                df = R.transpose(0, 2, 1) @ dF[:, start : start + 3]
                turning = np.cross(f[:, :, None], w, axis=1) if k == 0 else 0.0
                changes[k].append(df + turning)
    return np.concatenate(forces, 1), [np.concatenate(x, 1) for x in changes]


def feet_of(name, root, links, rows):
    model = fl.load(name, root=root)
    kind = fl.Pin if rows == 3 else fl.Weld
    return model, [kind(f) for f in model.frame_names if links in f]


ROBOTS = {
    "hyq": lambda: feet(),
    "g1": lambda: feet_of("g1", "free", "ankle_roll_link", 6),
    "iiwa14": lambda: feet_of("iiwa14", "fixed", "link_7", 3),
    "panda": lambda: feet_of("panda", "fixed", "hand_tcp", 3),
    "atlas": lambda: feet_of("atlas", "free", "foot", 6),
    "quadruped_arm": lambda: feet("quadruped_arm", "lower_leg"),
    "chain": lambda: (fl.chain(9, seed=4), [fl.Weld("body8")]),
    "ball joints": lambda: (fl.chain(7, 2, ("spherical", "prismatic")), [fl.Pin("body6")]),
}


@pytest.mark.parametrize("name", repeated([*ROBOTS], 1, spread=False))
def test_contacts_are_those_of_pinocchio(name):
    """Points at any velocity, welds at one that they allow, where both packages' rows agree."""
    pytest.importorskip("pinocchio")
    model, items = ROBOTS[name]()
    assert items
    model = without_resistance(model)
    compare_with_pinocchio(model, items, *states(model, 3, 1))


@pytest.mark.parametrize("kind", [fl.Pin, fl.Weld])
def test_loops_are_those_of_pinocchio(kind):
    """Between the hands of a humanoid, in a closed configuration and at a velocity that keeps it
    closed: elsewhere the packages measure different errors, and have other derivatives.
    """
    pytest.importorskip("pinocchio")
    model = without_resistance(fl.load("g1", root="free"))
    hands = [model.frame(f"{side}_wrist_yaw_link").body for side in ("left", "right")]
    model, q = closed_loop(model, *hands, seed=9)
    c = model.constraints([kind("outer", "inner")])
    _, v, tau = states(model, 1, 3)
    q = q[None]
    v = allowed(model, c, q, v)
    algorithm = algorithms.constrained_forward_dynamics
    a, force = run(algorithm, model.tree, q, v, tau, constraints=c)
    force, _ = in_axes_of_frames(model, c, q, force, [])
    for own, other in zip((a, force), pinocchio_results(model, c, q, v, tau), strict=False):
        assert np.abs(own - other).max() < 1e-10 * np.abs(other).max()


def allowed(model, c, q, v):
    """The velocities nearest to v that the constraints allow."""
    J = run_one(algorithms.constraint_jacobian, model, q, constraints=c)
    return v - np.einsum("nij,njk,nk->ni", np.linalg.pinv(J, rcond=1e-9), J, v)


def without_resistance(model):
    """The robot without damping, friction and mimic joints, which Pinocchio does not count here."""
    bare = {"damping": (), "friction": (), "mimic": None}
    return replace(model, joints=tuple(replace(joint, **bare) for joint in model.joints))


def compare_with_pinocchio(model, items, q, v, tau):
    c = model.constraints(items)
    if any(isinstance(item, fl.Weld) for item in items):
        v = allowed(model, c, q, v)
    a, force, *slopes = run(
        algorithms.constrained_forward_dynamics_derivatives,
        model.tree, q, v, tau, constraints=c,
    )  # fmt: skip
    theirs_a, theirs_f, *theirs = pinocchio_results(model, c, q, v, tau)
    force, df = in_axes_of_frames(model, c, q, force, slopes[3:])
    pairs = [(a, theirs_a), (force, theirs_f), *zip([*slopes[:3], *df], theirs, strict=True)]
    for k, (own, other) in enumerate(pairs):
        size = np.abs(other).reshape(len(q), -1).max(1).reshape(-1, *[1] * (other.ndim - 1))
        assert np.abs((own - other) / size).max() < 1e-10, k
