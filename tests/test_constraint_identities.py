"""Identities of constrained dynamics on trees of every joint type, and Pinocchio's impulses."""

import numpy as np
import pytest
from constrained_states import run, states, with_frames
from repetition import repeated
from test_constraints import (
    KINDS,
    ROBOTS,
    allowed,
    direction_of,
    in_axes_of_frames,
    pinocchio_problem,
    run_one,
    tree,
    well_posed,
    without_resistance,
)

import featherlane as fl
from featherlane import algorithms
from featherlane.algorithms.impulse_slopes import impulse_derivatives
from featherlane.backends.dual import evaluate

seeds = pytest.mark.parametrize("seed", repeated([2, 4, 5], spread=False))


@pytest.mark.parametrize("kind", KINDS)
@seeds
def test_no_acceleration_leaves_the_constraints(kind, seed):
    """P = da/dtau is symmetric with P J^T = 0 and P M P = P, and no force does work on it."""
    model = tree(seed)
    c = model.constraints(KINDS[kind])
    q, v, tau = states(model, 6, seed)
    derivatives = algorithms.constrained_forward_dynamics_derivatives
    found = run(derivatives, model.tree, q, v, tau, constraints=c)
    P, by_tau = found[4], found[7]
    J = run_one(algorithms.constraint_jacobian, model, q, constraints=c)
    M = run_one(algorithms.mass_matrix, model, q)
    good = well_posed(model, c, q)
    assert good.sum() >= 2
    size = np.abs(P).max((1, 2), keepdims=True)
    long = np.abs(J).max((1, 2), keepdims=True)
    off = np.abs(P @ J.transpose(0, 2, 1)) / (size * long)
    assert off[good].max() < 1e-9
    assert (np.abs(P - P.transpose(0, 2, 1)) / size)[good].max() < 1e-12
    assert (np.abs(P @ M @ P - P) / size)[good].max() < 1e-7
    # M P = 1 + J^T df/dtau: forces balance what the constraints do not let through
    rest = M @ P - np.eye(model.nv) - J.transpose(0, 2, 1) @ by_tau
    assert (np.abs(rest) / (1 + np.abs(M @ P).max((1, 2), keepdims=True)))[good].max() < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@seeds
def test_constraints_do_no_work(kind, seed):
    """The power of joint forces is the rate of energy, by dual numbers, where J v = 0."""
    model = tree(seed, physics=False)
    c = model.constraints(KINDS[kind])
    q, v, tau = states(model, 6, seed)
    v = allowed(model, c, q, v)
    a, _ = run(algorithms.constrained_forward_dynamics, model.tree, q, v, tau, constraints=c)
    rate = 0.0
    moving = {"q": direction_of(model, q, v), "v": a}
    for name in ("kinetic_energy", "potential_energy"):
        graph = model.graph(name)
        given = {x: y for x, y in (("q", q), ("v", v)) if x in graph.inputs}
        _, change = evaluate(graph, given, {x: moving[x] for x in given})
        rate = rate + next(iter(change.values())).reshape(-1)
    power = np.einsum("nk,nk->n", tau, v)
    good = well_posed(model, c, q)
    size = 1 + np.abs(np.einsum("nk,nk->n", np.abs(tau), np.abs(v)))
    assert (np.abs(rate - power) / size)[good].max() < 1e-7


@pytest.mark.parametrize("kind", ["weld", "pin", "hinge", "rod"])
def test_galilean_invariance(kind):
    """A robot that flies at a constant velocity has the same joint accelerations and forces,
    whether its foot is held in its acceleration, or two of its bodies in theirs.
    """
    model = without_resistance(fl.load("quadruped_arm", root="free"))
    ends = [f.body for f in model.frames if "lower_leg" in f.name][:2]
    points = [(f"p{i}", body, np.eye(3), [0.0, 0.05, -0.2]) for i, body in enumerate(ends)]
    model = with_frames(model, *points)
    item = {
        "weld": fl.Weld("p0"),
        "pin": fl.Pin("p0"),
        "hinge": fl.Hinge("p0", "p1", (1, 2, 3)),
        "rod": fl.Rod("p0", "p1", 0.4),
    }[kind]
    c = model.constraints([item])
    q, v, tau = states(model, 4, 6)
    frame = model.frame_placement(q, model.frame_names[0])[:, :3, :3]
    flying = v.copy()
    flying[:, :3] += np.einsum("nji,j->ni", frame, [3.0, -2.0, 1.0])
    still, moving = (
        run(algorithms.constrained_forward_dynamics, model.tree, q, x, tau, constraints=c)
        for x in (v, flying)
    )
    assert np.abs(still[0][:, 6:] - moving[0][:, 6:]).max() < 1e-8 * np.abs(still[0]).max()
    assert np.abs(still[1] - moving[1]).max() < 1e-8 * np.abs(still[1]).max()


@pytest.mark.parametrize("root", ["fixed", "free"])
def test_a_weld_is_four_points(root):
    """On another body of the robot, too: the same accelerations, and the sum of the forces."""
    model = fl.chain(9, seed=4) if root == "fixed" else fl.load("quadruped_arm", root="free")
    last = model.nbodies - 1
    corners = [(x, y) for x in (-0.1, 0.1) for y in (-0.2, 0.2)]
    places = [(f"c{i}", last, np.eye(3), [x, y, -0.1]) for i, (x, y) in enumerate(corners)]
    q, v, tau = states(model, 1, 2)
    model = with_frames(model, *places, ("foot", last, np.eye(3), [0, 0, -0.1]))
    weld = model.constraints([fl.Weld("foot")])
    four = model.constraints([fl.Pin(name) for name, *_ in places])
    v = allowed(model, weld, q, v)
    values = algorithms.constrained_forward_dynamics
    a, force = run(values, model.tree, q, v, tau, constraints=weld)
    points = run(values, model.tree, q, v, tau, constraints=four)
    assert np.abs(a - points[0]).max() < 1e-8 * np.abs(a).max()
    total = points[1].reshape(1, 4, 3).sum(1)
    assert np.abs(total - force[:, :3]).max() < 1e-7 * np.abs(force).max()


# Pinocchio's impulses


def pinocchio_impulses(model, c, restitution):
    """A function from q and v to Pinocchio's velocities, and to impulses in the axes of `frame`."""
    import pinocchio as pin

    peer, data, pairs, datas, settings = pinocchio_problem(model, c)

    def impulses(q, v):
        after = pin.impulseDynamics(peer, data, q, v, pairs, datas, restitution, settings)
        return np.concatenate([after, data.impulse_c])

    return impulses


@pytest.mark.parametrize("restitution", [0.0, 0.4])
@pytest.mark.parametrize("name", repeated([*ROBOTS], 2, spread=False))
def test_impulses_are_those_of_pinocchio(name, restitution):
    """Velocities and impulses after an impact on points and welds; their derivatives are the
    differences of Pinocchio's values, whose own derivatives leave out some terms by q.
    """
    pytest.importorskip("pinocchio")
    model, items = ROBOTS[name]()
    model = without_resistance(model)
    c = model.constraints(items)
    q, v, _ = states(model, 3, 1)
    e = np.full((3, c.count), restitution)
    found = run(impulse_derivatives, model.tree, q, v, e, constraints=c)
    theirs = pinocchio_impulses(model, c, restitution)
    impulse, slopes = in_axes_of_frames(model, c, q, found[1], found[4:6])
    for own, *state in zip(np.concatenate([found[0], impulse], 1), q, v, strict=True):
        other = theirs(*state)
        assert np.abs(own - other).max() < 1e-10 * np.abs(other).max()
    h = 1e-5
    for k, step in enumerate(h * np.eye(model.nv)):
        ends = [theirs(model.integrate(q[0], x), v[0]) for x in (step, -step)]
        speeds = [theirs(q[0], v[0] + x) for x in (step, -step)]
        for (ahead, behind), by in ((ends, 0), (speeds, 1)):
            own = np.concatenate([found[2 + by][0, :, k], slopes[by][0, :, k]])
            other = (ahead - behind) / (2 * h)
            largest = max(np.abs(found[2 + by][0]).max(), np.abs(slopes[by][0]).max())
            assert np.abs(own - other).max() < 1e-6 * largest
