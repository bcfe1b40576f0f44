"""Calls with constraints: masks, dtypes, threads, parameters, redundant rows, errors."""

from dataclasses import replace

import numpy as np
import pytest
from constrained_states import feet, pendulum_with_points, run, with_frames

import featherlane as fl
from featherlane.algorithms import constrained_forward_dynamics_derivatives
from featherlane.algorithms.tangent import configuration_rate
from featherlane.backends.dual import evaluate
from featherlane.robot.parts import WORLD


@pytest.fixture(scope="module")
def robot():
    return pendulum_with_points()


@pytest.fixture(scope="module")
def states(robot):
    rng = np.random.default_rng(0)
    q = robot.random_configuration(37, seed=0)
    return q, rng.normal(size=(37, robot.nv)), rng.normal(size=(37, robot.nv))


def test_masks_are_subsets(robot, states):
    """One kernel for all sets: forces of inactive constraints are 0, others those of the subset."""
    items = [fl.Pin("p0"), fl.Rod("p2", "corner", 0.3), fl.Pin("p1", axes="z")]
    c = robot.constraints(items)
    active = np.random.default_rng(1).integers(0, 2, size=(37, 3))
    found = robot.constrained_forward_dynamics(*states, c, active)
    for chosen in np.unique(active, axis=0):
        kept = [item for item, a in zip(items, chosen, strict=True) if a]
        own = (active == chosen).all(1)
        rows = np.repeat(chosen, [item.rows for item in items]).astype(bool)
        assert (found.force[own][:, ~rows] == 0).all()
        some = [x[own] for x in states]
        if not kept:
            wanted = robot.forward_dynamics(*some)
            assert np.allclose(found.a[own], wanted, rtol=1e-11, atol=1e-11)
            continue
        a, force = robot.constrained_forward_dynamics(*some, robot.constraints(kept))
        assert np.allclose(found.a[own], a, rtol=1e-10, atol=1e-10)
        assert np.allclose(found.force[own][:, rows], force, rtol=1e-9, atol=1e-9)


def test_a_state_has_the_same_bits_everywhere(robot, states):
    """Alone, in a batch, on threads, in the caller's arrays, and with masks of booleans."""
    c = robot.constraints([fl.Pin("p0"), fl.Pin("p2", axes="xz")])
    active = np.arange(74).reshape(37, 2) % 3 > 0
    whole = robot.constrained_forward_dynamics(*states, c, active)
    alone = robot.constrained_forward_dynamics(*[x[5] for x in states], c, active[5].astype(float))
    assert (alone.a == whole.a[5]).all()
    assert (alone.force == whole.force[5]).all()
    out = np.empty((37, robot.nv)), np.empty((37, c.rows))
    threaded = robot.constrained_forward_dynamics(*states, c, active, out=out, threads=2)
    assert threaded.a is out[0]
    assert (out[0] == whole.a).all()
    assert (out[1] == whole.force).all()


def test_single_precision(robot, states):
    c = robot.constraints([fl.Pin("p0")])
    single = robot.constrained_forward_dynamics(*[x.astype("f4") for x in states], c)
    double = robot.constrained_forward_dynamics(*states, c)
    assert single.a.dtype == np.float32
    for own, other in zip(single, double, strict=True):
        assert np.abs(own - other).max() < 1e-3 * np.abs(other).max()


def test_parameters_at_run_time(robot, states):
    """Masses that come with the call give what a robot of these masses gives."""
    c = robot.constraints([fl.Pin("p0"), fl.Rod("p1", "corner", 0.4)])
    mass = 1.5 * robot.parameters("mass")["mass"]
    bodies = tuple(replace(b, mass=m) for b, m in zip(robot.bodies, mass, strict=True))
    heavier = replace(robot, bodies=bodies)
    found = robot.constrained_forward_dynamics(*states, c, params={"mass": mass})
    wanted = heavier.constrained_forward_dynamics(*states, c)
    assert np.allclose(found.a, wanted.a, rtol=1e-9, atol=1e-9)
    assert np.allclose(found.force, wanted.force, rtol=1e-9, atol=1e-9)


def test_redundant_rows_are_no_harm(robot):
    """Four points of a body are a weld, at velocities that they allow, in both dtypes."""
    corners = [(x, y) for x in (-0.1, 0.1) for y in (-0.2, 0.2)]
    points = [(f"c{i}", 0, np.eye(3), [x, y, -0.1]) for i, (x, y) in enumerate(corners)]
    model = with_frames(robot, *points)
    four = model.constraints([fl.Pin(f"c{i}") for i in range(4)])
    assert four.rank == 6
    assert "redundant there by 6 rows" in str(four)
    weld = model.constraints([fl.Weld("p0")])
    q = model.random_configuration(20, seed=1)
    v = np.random.default_rng(1).normal(size=(20, model.nv))
    v[:, :6] = 0
    tau = np.zeros_like(v)
    wanted = model.constrained_forward_dynamics(q, v, tau, weld).a
    found = model.constrained_forward_dynamics(q, v, tau, four)
    assert np.abs(found.a - wanted).max() < 1e-8 * np.abs(wanted).max()
    single = model.constrained_forward_dynamics(*[x.astype("f4") for x in (q, v, tau)], four)
    assert np.abs(single.a - wanted).max() < 1e-4 * np.abs(wanted).max()
    total = found.force.reshape(20, 4, 3).sum(1)
    at_foot = model.constrained_forward_dynamics(q, v, tau, weld).force[:, :3]
    assert np.abs(total - at_foot).max() < 1e-6 * np.abs(at_foot).max()


def test_contradicting_rows_give_finite_numbers(robot, states):
    """Two rods that can't have both of their lengths, and rows along which nothing moves."""
    arm = with_frames(fl.load("double_pendulum"), ("tip", 1, np.eye(3), [0, 0, 0.3]))
    c = arm.constraints([fl.Weld("tip"), fl.Pin("tip")], kp=100.0, kd=20.0)
    anchors = np.tile([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0], (2, 1))
    card = str(c)
    assert "rank 2 of 9 rows at a random configuration, nv = 2" in card
    assert "redundant there by 7 rows" in card
    assert "rows that contradict each other are not satisfied, but give finite numbers" in card
    for dtype in ("f4", "f8"):
        given = [np.array(x, dtype) for x in ([0.1, 0.2], [1.0, 2.0], [0.0, 0.0])]
        results = arm.constrained_forward_dynamics_derivatives(
            *given, c, anchors=anchors.astype(dtype)
        )
        assert all(np.isfinite(x).all() for x in results)


def test_impulses(robot, states):
    """Velocities after an impact, their momentum and restitution; Pinocchio's impulse for all."""
    q, v, _ = states
    c = robot.constraints([fl.Pin("p0"), fl.Pin("p2", axes="z")])
    e = np.array([0.5, 0.0])
    active = np.random.default_rng(2).integers(0, 2, size=(37, 2))
    after, impulse = robot.impulse(q, v, c, active, e)
    J, M = robot.constraint_jacobian(q, c, active), robot.mass_matrix(q)
    change = np.einsum("nij,nj->ni", M, after - v) - np.einsum("nri,nr->ni", J, impulse)
    assert np.abs(change).max() < 1e-10
    rows = np.repeat(e, [3, 1])
    left = np.einsum("nrk,nk->nr", J, after) + rows * np.einsum("nrk,nk->nr", J, v)
    assert np.abs(left).max() < 1e-9
    assert (impulse[~np.repeat(active, [3, 1], 1).astype(bool)] == 0).all()


def test_derivatives_of_impulses(robot, states):
    """By dual numbers through the values, with restitution and masks."""
    q, v, _ = (x[:4] for x in states)
    items = [fl.Pin("p0"), fl.Pin("p2", "p0", axes="y"), fl.Rod("p1", "corner", 0.4)]
    c, e = robot.constraints(items), [0.5, 0.0, 1.0]
    active = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0]])
    found = robot.impulse_derivatives(q, v, c, active, e)
    graph, n = robot.graph("impulse", constraints=c, active=True), robot.nv
    given = {"q": q, "v": v, "restitution": np.tile(e, (4, 1)), "active": active.astype(float)}
    for k in range(n):
        unit = np.tile(np.eye(n)[k], (4, 1))
        by_q = [configuration_rate(robot, list(x), list(u)) for x, u in zip(q, unit, strict=True)]
        for name, along in (("q", np.array(by_q, float)), ("v", unit)):
            value, rate = evaluate(graph, given, {name: along})
            for out, own in (("v_next", "dv"), ("impulse", "dimpulse")):
                matrix = getattr(found, f"{own}_d{name}")[:, :, k]
                assert np.abs(matrix - rate[out]).max() < 1e-9 * (1 + np.abs(rate[out]).max())
    assert np.allclose(found.v, value["v_next"], rtol=1e-9, atol=1e-9)


def test_least_forces_of_a_standing_robot():
    """On four feet: no torque on the base, the weight on the ground, and less where weights say."""
    robot, items = feet()
    c = robot.constraints(items)
    q = np.array([0, 0, 0, 0, 0, 0, 1.0, *np.tile([0.1, 0.8, -1.5], 4)])
    still = np.zeros(robot.nv)
    tau, force = robot.constrained_inverse_dynamics(q, still, still, c)
    assert np.abs(tau[:6]).max() < 1e-7
    J = robot.constraint_jacobian(q, c)
    assert np.allclose(tau + J.T @ force, robot.inverse_dynamics(q, still, still), atol=1e-7)
    assert force.reshape(4, 3).sum(0) == pytest.approx([0, 0, 9.81 * robot.mass], abs=1e-6)
    least = np.linalg.pinv(J[:, :6].T) @ robot.inverse_dynamics(q, still, still)[:6]
    assert np.allclose(force, least, rtol=1e-7, atol=1e-7)
    heavy = [1.0] * 9 + [100.0] * 3
    other = robot.constrained_inverse_dynamics(q, still, still, c, weights=heavy).force
    assert np.linalg.norm(other[9:]) < 0.1 * np.linalg.norm(force[9:])
    two = robot.constrained_inverse_dynamics(q, still, still, c, [1, 0, 0, 1])
    assert (two.force[3:9] == 0).all()
    air = robot.constrained_inverse_dynamics(q, still, still, c, [0, 0, 0, 0])
    assert np.allclose(air.tau, robot.inverse_dynamics(q, still, still))


@pytest.mark.parametrize("wrong", [0.0, -1, np.nan, np.inf, [1.0] * 11 + [0.0]])
def test_wrong_weights(wrong):
    robot, items = feet()
    still = np.zeros(robot.nv)
    with pytest.raises(ValueError, match=r"weights is .*wanted positive, finite numbers"):
        robot.constrained_inverse_dynamics(
            robot.neutral(), still, still, robot.constraints(items), weights=wrong
        )


def test_unreachable_motions():
    """A torque that no force can give remains on the base; with weights that differ too much, so
    does a part of one that forces could give.
    """
    robot, items = feet()
    c = robot.constraints(items)
    q = np.array([0, 0, 0, 0, 0, 0, 1.0, *np.tile([0.1, 0.8, -1.5], 4)])
    still, weight = np.zeros(robot.nv), 9.81 * robot.mass

    def left(active=None, heavy=1.0):
        weights = [heavy] * 6 + [1.0] * 6
        found = robot.constrained_inverse_dynamics(q, still, still, c, active, weights=weights)
        J = robot.constraint_jacobian(q, c)
        wanted = robot.inverse_dynamics(q, still, still)
        assert np.allclose(found.tau + J.T @ found.force, wanted, atol=1e-8)
        return np.abs(found.tau[:6]).max() / weight

    assert left() < 1e-13
    assert left(heavy=100.0) < 1e-8
    assert 1e-5 < left(heavy=1e4) < 1e-3
    assert left([1, 0, 0, 1]) > 0.05  # on a diagonal, it falls over
    assert left([0, 0, 0, 0]) == pytest.approx(1.0)


def test_closing(robot):
    """Loops close from nearby, and it is told where they can't."""
    hinge = robot.constraints([fl.Rod("p2", "corner", 0.5), fl.Pin("p1", axes="z")])
    q = robot.random_configuration(20, seed=4)
    anchors = np.tile([0.0, 0.0, 0.7, 0, 0, 0, 1], (2, 1))
    found = robot.close(q, hinge, anchors=anchors)
    assert found.converged.all()
    assert np.abs(robot.constraint_error(found.q, hinge, anchors=anchors)).max() < 1e-9
    arm = with_frames(fl.load("double_pendulum"), ("far", WORLD, np.eye(3), [9.0, 0, 0]))
    reach = arm.constraints([fl.Pin("link2", "far")])
    assert not arm.close([0.1, 0.2], reach).converged


def test_the_matrices(robot, states):
    q, _, _ = states
    c = robot.constraints([fl.Pin("p0"), fl.Weld("p2", "p1")])
    S, J = robot.delassus_matrix(q, c), robot.constraint_jacobian(q, c)
    wanted = J @ robot.mass_matrix_inverse(q) @ J.transpose(0, 2, 1)
    assert np.abs(S - wanted).max() < 1e-10 * np.abs(wanted).max()
    masked = robot.delassus_matrix(q, c, [0, 1])
    assert (masked[:, :3] == 0).all()
    assert np.allclose(masked[:, 3:, 3:], S[:, 3:, 3:])


def test_in_a_trace(robot, states):
    """Of the user's own function, and by `call`, with the same numbers."""
    c = robot.constraints([fl.Pin("p0")])
    q, v, tau = states
    own = fl.compile(
        lambda q, v, tau: robot.constrained_forward_dynamics(q, v, tau, c).force * 2.0,
        {"q": robot.nq, "v": robot.nv, "tau": robot.nv},
    )
    wanted = 2 * robot.constrained_forward_dynamics(q, v, tau, c).force
    assert np.allclose(own(q, v, tau), wanted, rtol=1e-12)
    name = "constrained_forward_dynamics"
    called = fl.call(robot, name, q, v, tau, constraints=c, active=[0.0])
    assert (called.force == 0).all()


# What is refused

WRONG = [
    (lambda m: m.constraints([]), ValueError, "constraints is empty"),
    (lambda m: m.constraints([fl.Pin("p7")]), ValueError, "there is no frame 'p7'.*p0"),
    (lambda m: m.constraints([fl.Pin("p0", "p0")]), ValueError, "both on body"),
    (lambda m: m.constraints([fl.Pin("corner")]), ValueError, "both on the ground"),
    (lambda m: m.constraints([fl.Pin("p0", axes="zx")]), ValueError, "axes is 'zx'"),
    (lambda m: m.constraints([fl.Hinge("p0", "p1", (0, 0, 0))]), ValueError, "axis is"),
    (lambda m: m.constraints([fl.Rod("p0", "p1", 0)]), ValueError, "length is 0"),
    (lambda m: m.constraints([fl.Rod("p0", None, 1)]), ValueError, "Rod p0.*to is None"),
    (lambda m: m.constraints([fl.Hinge("p0", None)]), ValueError, "to is None: wanted a frame"),
    (lambda m: m.constraints([fl.Coupling("joint9")]), ValueError, "there is no joint 'joint9'"),
    (lambda m: m.constraints([fl.Coupling("joint1", "joint1")]), ValueError, "its own leader"),
    (lambda m: m.constraints([fl.Coupling(m.joints[0].name)]), ValueError, "joint of one q"),
    (lambda m: m.constraints(["p0"]), TypeError, "wanted fl.Pin"),
    (lambda m: m.constraints([fl.Pin("p0")], kp=-1), ValueError, "kp is -1"),
    (lambda m: m.constraints([fl.Pin("p0")], kp=[1, 2]), ValueError, "one for each of the 1"),
    (
        lambda m: m.constraints([fl.Coupling("joint1", None, "1")]),
        ValueError,
        "is '1', wanted numb",
    ),
    (
        lambda m: m.constraints([fl.Coupling("joint1", None, [[0, 1]])]),
        ValueError,
        "wanted numbers",
    ),
    (lambda m: m.constraints([fl.Hinge("p0", "p1", "z")]), ValueError, "axis is 'z'"),
    (lambda m: m.constraints([fl.Hinge("p0", "p1", [[0, 1], 0])]), ValueError, "axis is"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_descriptions(robot, number):
    make, error, text = WRONG[number]
    with pytest.raises(error, match=text):
        make(robot)


@pytest.mark.parametrize("wrong", [-1, -0.5, np.nan, np.inf, [[0.0, 1.0], [0.0, -2.0]]])
def test_wrong_gains_and_restitutions(robot, wrong):
    c = robot.constraints([fl.Coupling("joint2", "joint1"), fl.Coupling("joint1")])
    q, v = robot.neutral(), np.zeros(robot.nv)
    for x in ("kp", "kd"):
        with pytest.raises(ValueError, match=f"{x} has .*: wanted finite numbers, 0 or more"):
            robot.constrained_forward_dynamics(q, v, v, c, **{x: wrong})
    for impulse in (robot.impulse, robot.impulse_derivatives):
        with pytest.raises(ValueError, match=r"restitution has .*0 stops the motion"):
            impulse(q, v, c, restitution=np.array(wrong))


def test_anchors_without_an_orientation(robot):
    c = robot.constraints([fl.Pin("p0"), fl.Weld("p1")], kp=10)
    q, v = np.tile(robot.neutral(), (3, 1)), np.zeros((3, robot.nv))
    anchors = np.zeros((3, 2, 7))
    anchors[:2, 1, 6] = 1
    with pytest.raises(ValueError, match="quaternion of length 0 for Weld p1 in state 2: wanted"):
        robot.constrained_forward_dynamics(q, v, v, c, anchors=anchors)
    anchors[2, 1, 6] = 1
    assert np.isfinite(robot.constrained_forward_dynamics(q, v, v, c, anchors=anchors).a).all()


def test_closing_in_a_trace(robot):
    c = robot.constraints([fl.Pin("p0", "p2")])
    with pytest.raises(TypeError, match=r"close in a trace: .* call it outside"):
        fl.trace(lambda q: robot.close(q, c).q, {"q": robot.nq})


def test_wrong_calls(robot, states):
    c = robot.constraints([fl.Pin("p0"), fl.Pin("p1")])
    pulled = robot.constraints([fl.Pin("p0")], kp=10)
    call = robot.constrained_forward_dynamics
    with pytest.raises(ValueError, match=r"active has shape \(3,\).*wanted \(\.\.\., 2\)"):
        call(*states, c, [1, 1, 1])
    for half in ([0.5, 1], np.full((37, 2), 2.0), [[np.nan, 1]], np.full((300, 2), -1)):
        with pytest.raises(ValueError, match=r"active has .*: wanted 1 for"):
            call(*states, c, half)
    with pytest.raises(ValueError, match="anchors is missing: Pin p0 has kp = 10"):
        call(*states, pulled)
    with pytest.raises(ValueError, match="anchors has no effect"):
        call(*states, c, anchors=np.ones((2, 7)))
    with pytest.raises(ValueError, match="anchors is missing"):
        robot.constraint_error(states[0], c)
    with pytest.raises(TypeError, match="constraints is list"):
        call(*states, [fl.Pin("p0")])
    points = [(f"p{i}", i, np.eye(3), np.ones(3)) for i in range(2)]
    other = with_frames(fl.load("iiwa14"), *points)
    with pytest.raises(ValueError, match="something else"):
        other.constrained_forward_dynamics(*[np.zeros(7)] * 3, c)
    with pytest.raises(TypeError, match="misses constraints"):
        robot.function("impulse")
    with pytest.raises(ValueError, match="takes no constraints"):
        robot.function("forward_dynamics", constraints=c)

    with pytest.raises(TypeError, match=r"active is \[1, 1\]: wanted True"):
        robot.graph("constrained_forward_dynamics", constraints=c, active=[1, 1])
    with pytest.raises(TypeError, match="takes no activ; did you mean 'active'"):
        fl.call(robot, "constrained_forward_dynamics", *states, constraints=c, activ=[1, 1])


def test_numbers_of_any_type(robot, states):
    """Lists, arrays and NumPy's numbers are those of the tuples of floats that they hold."""
    plain = [fl.Hinge("p2", "p1", (0.0, 1.0, 0.0)), fl.Rod("p0", "corner", 1.0)]
    plain += [fl.Coupling("joint2", "joint1", (0.0, 2.0)), fl.Coupling("joint1", None, (0.5,))]
    other = [fl.Hinge("p2", "p1", np.array([0, 1, 0])), fl.Rod("p0", "corner", np.int64(1))]
    other += [fl.Coupling("joint2", "joint1", [0, 2]), fl.Coupling("joint1", None, 0.5)]
    c = robot.constraints(other)
    assert c == robot.constraints(plain)
    assert hash(robot.with_loops(other)) == hash(robot.with_loops(plain))
    gained = robot.constrained_forward_dynamics(*states, c, kp=np.int64(2), kd=np.float32(0.5))
    wanted = robot.constrained_forward_dynamics(*states, c, kp=2.0, kd=0.5)
    assert (gained.force == wanted.force).all()
    assert robot.constraints([fl.Coupling("joint1")]).names == ("Coupling joint1 = 0",)


def test_float32_closes_to_its_precision(robot, states):
    closed = robot.close(states[0].astype(np.float32), robot.constraints([fl.Rod("p2", "p0", 0.3)]))
    assert closed.converged.all()
    assert closed.error.max() > 0


def test_constraints_of_an_edited_robot(robot, states):
    """Looked up again by name: rerooted and with a joint locked, the forces are the same."""
    c = robot.constraints([fl.Pin("p0"), fl.Pin("p1", "corner", axes="z")], kd=3.0)
    q, v, tau = (x[0].copy() for x in states)
    locked = robot.reduced({"joint2": float(q[-1])})
    again = locked.constraints(c)
    assert again.items == c.items
    assert again.kd == c.kd
    v[-1] = 0
    held = robot.constraints([*c.items, fl.Coupling("joint2", None, (float(q[-1]),))], kd=3.0)
    wanted = robot.constrained_forward_dynamics(q, v, tau, held).force
    found = locked.constrained_forward_dynamics(q[:-1], v[:-1], tau[:-1], again).force
    assert np.allclose(found, wanted[:-1], rtol=1e-6, atol=1e-7)


def test_the_card_and_the_key(robot):
    items = [fl.Weld("p0"), fl.Hinge("p2", "p1", (1, 0, 0)), fl.Coupling("joint2", "joint1")]
    c = robot.constraints(items, kp=[100, 0, 0], kd=20)
    card = str(c)
    assert "3 constraints of double_pendulum: 12 rows" in card
    assert "0: Weld p0, rows 0-5, kp 100, kd 20" in card
    assert "2: Coupling joint2 = 1 joint1^1, row" in card
    again = robot.constraints(items, kp=[100, 0, 0], kd=20)
    assert c == again
    assert hash(c) == hash(again)
    assert c != robot.constraints(items, kd=20)


def test_columns_of_a_large_kernel():
    """The derivatives of a quadruped keep a function for their columns, and are what the algorithm
    gives on numbers.
    """
    model, items = feet()
    c = model.constraints(items)
    rng = np.random.default_rng(5)
    q = model.random_configuration(3, seed=5)
    v, tau = rng.normal(size=(2, 3, model.nv))
    active = np.array([[1, 1, 1, 1], [1, 0, 0, 1], [0, 0, 1, 0.0]])
    found = model.constrained_forward_dynamics_derivatives(q, v, tau, c, active)
    algorithm = constrained_forward_dynamics_derivatives
    wanted = run(algorithm, model.tree, q, v, tau, constraints=c, active=active)
    for own, other in zip(found, wanted, strict=True):
        assert np.abs(own - other).max() < 1e-10 * np.abs(other).max()
