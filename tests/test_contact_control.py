"""Optimal control of robots with constraints: costs of forces, anchors, gains at run time."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from constrained_states import pendulum_with_points
from free_roots import acceleration
from repetition import repeated

import featherlane as fl

ROOT = Path(__file__).parents[1]
DT, KNOTS = 0.02, 5


@pytest.fixture(scope="module")
def robot():
    return pendulum_with_points(damping=0.01)


@pytest.fixture(scope="module")
def start(robot):
    rng = np.random.default_rng(4)
    tau = 0.1 * rng.normal(size=(3, KNOTS, 2))
    q = robot.random_configuration(3, seed=2)[[0, 0, 2]]
    return q, 0.2 * rng.normal(size=(3, robot.nv)), tau


ACTIVE = np.ones((3, KNOTS, 2))
ACTIVE[1, -1, 0] = 0
WANTED = np.array([1.0, 0, 6, 0.5])


def cost(q, v, tau, force, wanted):
    """Residuals of forces, among others."""
    cone = np.maximum(force[0] - 0.5 * force[2], 0.0)
    forces = 0.1 * (force - wanted) * (1 + 0.1 * v[0])
    return np.concatenate([0.3 * v, tau, forces, np.reshape(0.2 * cone, (1,))])


def total(robot, held, integrator, start, tau):
    """The cost of controls, with forces by the equations of motion over the step's velocities or,
    where a step holds accelerations, of its beginning.
    """
    q, v, _ = start
    options = {"integrator": integrator, "actuation": robot.actuation(robot.joint_names[1:])}
    whole, sum_of_costs = np.concatenate([np.zeros((3, KNOTS, 6)), tau], -1), np.zeros(3)
    for k in range(KNOTS):
        at_knot = {**held, "active": ACTIVE[:, k]}
        after = robot.step(q, v, tau[:, k], DT, **options, **at_knot)
        if integrator == "semi_implicit":
            a = acceleration(robot, q, v, after, DT)
            J = robot.constraint_jacobian(q, held["constraints"], ACTIVE[:, k])
            surplus = robot.inverse_dynamics(q, v, a) - whole[:, k]
            force = np.stack([np.linalg.lstsq(j.T, s)[0] for j, s in zip(J, surplus, strict=True)])
        else:
            force = robot.constrained_forward_dynamics(q, v, whole[:, k], **at_knot).force
        for i in range(3):
            r = cost(q[i], v[i], tau[i, k], force[i], WANTED)
            sum_of_costs[i] += r @ r / 2
        q, v = after
    return sum_of_costs + 0.5 * np.sum(v * v, -1)


@pytest.mark.parametrize("integrator", repeated(["semi_implicit", "midpoint"], 1, spread=False))
def test_costs_of_forces_reach_an_optimum(robot, start, integrator):
    """At a solution the gradient by the controls vanishes, by differences."""
    c = robot.constraints([fl.Pin("p0"), fl.Pin("p2", axes="z")], kd=6)
    held = {"constraints": c}
    solution = fl.ilqr(
        robot, *start, DT, cost, lambda q, v: v, parameters={"wanted": np.tile(WANTED, (3, 1))},
        integrator=integrator, actuation=robot.actuation(robot.joint_names[1:]), active=ACTIVE,
        iterations=300, tolerance=1e-13, **held,
    )  # fmt: skip
    assert solution.force.shape == (3, KNOTS, 4)
    assert np.all(solution.force[1, -1, :3] == 0)
    assert np.abs(solution.force).max() > 1
    found = total(robot, held, integrator, start, solution.tau)
    assert np.allclose(found, solution.cost, rtol=1e-8)
    assert np.all(solution.cost < 0.99 * solution.history.cost[:, 0])
    for k in range(2 * KNOTS):
        step = 1e-6 * np.eye(2 * KNOTS)[k].reshape(KNOTS, 2)
        ends = [total(robot, held, integrator, start, solution.tau + s * step) for s in (1, -1)]
        assert np.abs(ends[0] - ends[1]).max() < 1e-9 * found.max()


def test_derivatives_of_a_cost_of_forces(robot, start):
    """The expansion at a knot against differences, whose Hessian leaves out second derivatives."""
    from featherlane.functions.constraint_inputs import ConstraintInputs
    from featherlane.functions.control_costs import Wanted, cost_graphs, zero
    from featherlane.functions.optimal_control import ControlProblem, costs_key

    c = robot.constraints([fl.Pin("p0"), fl.Rod("p2", "corner", 0.4)])
    sizes, n = {"q": robot.nq, "v": robot.nv, "tau": robot.nv}, robot.nv
    wanted = Wanted(sizes, {"wanted": (4,)}, {"force": (4,)}, {}, False, True)
    graphs = cost_graphs(cost, zero, wanted)
    held = ConstraintInputs(c, active=True)
    options = "implicit_damping", None, False, False, costs_key(*graphs), *graphs, held
    problem = ControlProblem(robot, *options)
    q, v, tau = start[0], start[1], np.random.default_rng(0).normal(size=(3, n))
    others = np.full(3, DT), np.ones((3, 2)), np.tile(WANTED, (3, 1))
    gradient, hessian = problem.function("expansion")(q, v, tau, *others)
    forces = problem.function("forward")

    def residuals(q, v, tau):
        still = np.zeros((3, n)), np.zeros((3, n, 2 * n)), np.zeros(3)
        *_, force = forces(q, v, np.zeros(3), q, v, tau, *still, *others)
        return np.stack([cost(*x, WANTED) for x in zip(q, v, tau, force, strict=True)])

    columns = []
    for k in range(3 * n):
        dq, dv, du = np.split(1e-6 * np.eye(3 * n)[k], 3)
        ends = [
            residuals(robot.integrate(q, np.tile(s * dq, (3, 1))), v + s * dv, tau + s * du)
            for s in (1, -1)
        ]
        columns.append((ends[0] - ends[1]) / 2e-6)
    J, r = np.stack(columns, -1), residuals(q, v, tau)
    assert np.allclose(gradient, np.einsum("bri,br->bi", J, r), rtol=1e-5, atol=1e-5)
    square = np.einsum("bri,brj->bij", J, J)
    assert np.allclose(hessian, square, rtol=1e-5, atol=1e-6 * np.abs(square).max())


def test_anchors_of_knots(robot, start):
    """A trajectory with anchors is the rollout of its controls with them."""
    c = robot.constraints([fl.Weld("p0")])
    q, v, _ = (x[0] for x in start)
    anchors = np.tile([0.0, 0, 0.3, 0, 0, 0, 1], (KNOTS, 1, 1))
    anchors[:, 0, 0] = 0.1 * np.arange(KNOTS)
    held = {"constraints": c, "anchors": anchors}
    tau = np.zeros((KNOTS, robot.nv))
    solution = fl.ilqr(
        robot, q, v, tau, DT, lambda q, v, tau: np.concatenate([v, tau]), iterations=2, **held
    )
    at = q, v
    for k in range(KNOTS):
        at = robot.step(*at, solution.tau[k], DT, constraints=c, anchors=anchors[k])
        assert np.allclose(at.q, solution.q[k + 1], rtol=1e-9)


def test_semi_implicit_steps_hold_accelerations_if_asked(robot, start):
    """The step's acceleration is that of forward dynamics, with gains and anchors."""
    q, v, _ = start
    c = robot.constraints([fl.Pin("p0")], kp=7.0, kd=5.0, level="acceleration")
    anchors, tau = np.tile([0.1, 0.2, 0.3, 0, 0, 0, 1], (3, 1, 1)), np.ones((3, robot.nv))
    held = {"constraints": c, "anchors": anchors}
    a, _ = robot.constrained_forward_dynamics(q, v, tau, c, anchors=anchors)
    after = robot.step(q, v, tau, DT, integrator="semi_implicit", **held)
    assert np.allclose(acceleration(robot, q, v, after, DT), a, rtol=1e-9)
    linear = robot.linearize_step(q, v, tau, DT, integrator="semi_implicit", **held)
    slopes = robot.constrained_forward_dynamics_derivatives(q, v, tau, c, anchors=anchors)
    n = robot.nv
    assert np.allclose(linear.A[:, n + 3 :, :n], DT * slopes.da_dq[:, 3:], atol=1e-9)
    with pytest.raises(ValueError, match="anchors is missing"):
        robot.step(q, v, tau, DT, constraints=c)
    with pytest.raises(ValueError, match="level is 'position'"):
        robot.constraints([fl.Pin("p0")], level="position")


def test_gains_are_inputs(robot, start):
    """Gains of a call give what the same gains of the constraints give, in derivatives too."""
    items = [fl.Pin("p0"), fl.Rod("p2", "corner", 0.4)]
    q, v, _ = start
    tau, anchors = np.ones((3, robot.nv)), np.tile([0.1, 0.2, 0.3, 0, 0, 0, 1], (3, 2, 1))
    kp, kd = np.array([[3.0, 4], [5, 0], [1, 7]]), 2.0
    for name in ("constrained_forward_dynamics", "constrained_forward_dynamics_derivatives"):
        call = getattr(robot, name)
        found = call(q, v, tau, robot.constraints(items), anchors=anchors, kp=kp, kd=kd)
        fixed = robot.constraints(items, kp=kp[1], kd=kd)
        wanted = call(q, v, tau, fixed, anchors=anchors)
        for x, y in zip(found, wanted, strict=True):
            assert np.allclose(x[1], y[1], rtol=1e-9, atol=1e-9)
    plain = robot.constraints(items)
    with pytest.raises(ValueError, match="anchors is missing: Pin p0 has kp as an argument"):
        robot.constrained_forward_dynamics(q, v, tau, plain, kp=kp)
    with pytest.raises(TypeError, match="kd is given without constraints"):
        fl.call(robot, "step", q, v, tau, 0.1, kd=1.0)


def test_forces_are_asked_of_constraints(robot, start):
    """A cost that reads forces without constraints, and a cost of the end, name the argument."""
    q, v, _ = start
    tau = np.zeros((KNOTS, robot.nv))
    with pytest.raises(TypeError, match="'force'; there are none; force is that of constraints="):
        fl.ilqr(robot, q, v, tau, DT, lambda q, v, tau, force: force)
    c = robot.constraints([fl.Pin("p0")])
    options = {"terminal_cost": lambda q, v, force: force, "constraints": c}
    with pytest.raises(TypeError, match="terminal_cost takes"):
        fl.ilqr(robot, q, v, tau, DT, lambda q, v, tau: tau, **options)


def test_the_quadruped_of_the_example_trots(tmp_path):
    """Feet are lifted and land, the base moves forward, and forces stay near their cones."""
    example = runpy.run_path(str(ROOT / "examples" / "quadruped_trot.py"))
    figure = tmp_path / "figure.svg"
    has_plots = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    solution, trot = example["main"](str(figure) if has_plots else None)
    assert figure.stat().st_size > 10_000
    assert solution.converged.all()
    assert 0.2 < solution.q[0, -1, 0] < 0.28
    force = solution.force[0].reshape(-1, 4, 3)
    assert np.all(force[trot.active == 0] == 0)
    assert max(example["cone"](f).max() for f in solution.force[0]) < 5.0  # N
    for i, leg in enumerate(example["LEGS"]):
        height = example["robot"].frame_placement(solution.q[0], f"{leg}_foot")[:, 2, 3]
        lifted, landed = trot.active[:, i] == 0, np.flatnonzero(trot.active[:, i])[-1]
        assert height[:-1][lifted].max() > 0.05
        assert abs(height[landed]) < 0.02  # it lands where it is when its mask says so
