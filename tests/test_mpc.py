"""The parts of the predictive controller in benchmarks/mpc: derivatives, two solvers, the plant."""

import sys

import numpy as np
import pytest
from documents import ROOT

for needed in ("piqp", "mujoco", "scipy"):
    pytest.importorskip(needed)

KNOTS, DT = 6, 0.015


@pytest.fixture(scope="module")
def mpc():
    """The modules of the experiment, by name."""
    places = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "mpc")]
    sys.path[:0] = places
    names = ("robot", "dynamics_featherlane", "formulation", "programs", "solver", "plant", "run")
    before = set(sys.modules)
    yield {name: __import__(name) for name in names}
    for name in {*sys.modules} - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(places[0]):
            del sys.modules[name]
    for place in places:
        sys.path.remove(place)


@pytest.fixture(scope="module")
def robot(mpc):
    return mpc["robot"].quadruped()


@pytest.fixture(scope="module")
def dynamics(mpc, robot):
    return mpc["dynamics_featherlane"].Featherlane(robot, KNOTS, 1)


def test_slopes_are_those_of_steps(mpc, robot, dynamics):
    """Against differences of steps along random directions."""
    q, v, u, f = mpc["run"].random_knots(robot, KNOTS)
    rng, model, h = np.random.default_rng(1), robot.model, 1e-6
    q_next, _, A, B = (x.copy() for x in dynamics.linearise(q, v, u, f, DT))
    dx, du = rng.normal(size=(KNOTS, 50)), rng.normal(size=(KNOTS, 31))
    ends = []
    for s in (h, -h):
        moved = model.integrate(q, s * dx[:, :25]), v + s * dx[:, 25:]
        controls = u + s * du[:, :19], f + s * du[:, 19:].reshape(KNOTS, 4, 3)
        at, speed = dynamics.step(*moved, *controls, DT)
        ends.append(np.concatenate([model.difference(q_next, at), speed], 1))
    wanted = (ends[0] - ends[1]) / (2 * h)
    found = np.einsum("kij,kj->ki", A, dx) + np.einsum("kij,kj->ki", B, du)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


def test_two_solvers_give_one_step(mpc, robot, dynamics):
    """PIQP and a Riccati pass, from a disturbed state during the trot."""
    formulation = mpc["formulation"].Formulation(robot, knots=KNOTS, barrier=True)
    plans = []
    rng = np.random.default_rng(2)
    v = 0.05 * rng.normal(size=robot.model.nv)
    programs = mpc["programs"]
    for program in (programs.Piqp(formulation, 1e-9), programs.Riccati(formulation)):
        solver = mpc["solver"].Solver(formulation, dynamics, program)
        plan = solver.first_plan(0.8, robot.stance, v)
        plans.append(solver.iterate(plan, 0.8, robot.stance, v))
    for name in ("q", "v", "u", "f"):
        found, wanted = (getattr(plan, name) for plan in plans)
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max(), err_msg=name)


def test_robots_together_do_what_each_does_alone(mpc, robot, dynamics):
    formulation = mpc["formulation"].Formulation(robot, knots=KNOTS, barrier=True)
    program, solver = mpc["programs"].Riccati, mpc["solver"]
    solvers = [solver.Solver(formulation, dynamics, program(formulation)) for _ in range(2)]
    states = [(robot.stance, np.full(robot.model.nv, speed)) for speed in (0.02, -0.05)]
    firsts = zip(solvers, states, strict=True)
    plans = [each.first_plan(0.8, *state) for each, state in firsts]
    many = mpc["dynamics_featherlane"].Featherlane(robot, 2 * KNOTS, 1)
    together = solver.iterate_together(solvers, many, plans, 0.8, states)
    for each, plan, state, found in zip(solvers, plans, states, together, strict=True):
        alone = each.iterate(plan, 0.8, *state)
        for name in ("q", "v", "u", "f"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))


def test_the_plant_is_the_robot(mpc, robot):
    assert mpc["plant"].Plant(robot, seed=1).mass_matrix_error() < 1e-12
