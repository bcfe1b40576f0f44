"""The examples: each does what it says, on a smaller scale."""

import runpy

import numpy as np
import pytest
from documents import ROOT
from numpy.testing import assert_allclose
from repetition import full

import featherlane as fl

FOLDER = ROOT / "examples"  # `documents` adds it to the path: one example reads another
LONG = {"identify_iiwa.py", "array_scans.py", "quadruped_trot.py", "walk_ppo.py"}  # of documents


def example(name, *packages):
    """What a script defines, if it has its packages."""
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed")
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert path.name in LONG or len(path.read_text().splitlines()) < 150


def test_closed_loops_stay_closed():
    loops = example("closed_loops")
    drive = loops["drive"]
    machines = loops["machines"]()
    of_velocities, *_, with_gains = loops["METHODS"]
    robot, torque, q = machines["four-bar"]
    run = drive(robot, torque, q, of_velocities, steps=600)
    assert np.ptp(run.q[:, 0]) > np.pi  # the crank goes round
    assert run.error.max() < 2e-4
    assert drive(robot, torque, q, with_gains, steps=600).error.max() < 1e-8
    robot, torque, q = machines["gripper"]
    run = drive(robot, torque, q, of_velocities, steps=1000)
    knuckle = run.q[:, robot.first_q[robot.joint_names.index(loops["KNUCKLE"])]]
    assert knuckle.max() > 0.6
    assert run.error.max() < 1e-12


def test_solutions_between_walls_are_clear():
    clear = example("clear_of_obstacles")
    solutions = clear["solve"](fl.load("panda"), count=100)
    plain = solutions.plain.converged & (solutions.gaps >= clear["MARGIN"])
    assert solutions.clear.converged.mean() > 0.9 > plain.mean()
    assert solutions.clear.clearance[solutions.clear.converged].min() >= clear["MARGIN"]


def test_sampling_control_goes_around_the_ball(iiwa):
    mppi = example("mppi_arm")
    run = mppi["control"](iiwa, steps=40, samples=128)
    away = np.linalg.norm(run.hand - mppi["GOAL"], axis=1)
    assert away[-1] < 0.3 * away[0]
    assert run.clearance.min() > 0
    through = np.min(np.linalg.norm(run.hand - mppi["BALL"], axis=1))
    assert run.clearance.min() <= through - mppi["RADIUS"] + 1e-6  # the hand is one of the links


@pytest.fixture(scope="module")
def gym():
    return example("gym_vector_env", "gymnasium")


def test_environments_step_as_the_model(gym, iiwa):
    envs = gym["TracedVectorEnv"](gym["Reach"](), 5)
    seen, _ = envs.reset(seed=3)
    assert envs.observation_space.contains(seen)
    q, v, goal = envs.state
    v = v + np.float32(0.3)
    envs.state = {"q": q, "v": v, "goal": goal}
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 7)).astype(np.float32)
    seen, reward, ended, _, _ = envs.step(actions)
    tau = iiwa.gravity_torque(q) + np.float32(gym["TORQUE"]) * actions
    tau = np.repeat(tau[:, None], gym["SUBSTEPS"], 1)
    moved = iiwa.rollout(q, v, tau, np.float32(gym["DT"]))
    assert_allclose(seen[:, :7], moved.q[:, -1], atol=1e-5)
    hand = iiwa.frame_placement(moved.q[:, -1], gym["HAND"])[:, :3, 3]
    wanted = -np.linalg.norm(hand - goal, axis=1) - 0.01 * np.sum(actions**2, 1)
    assert_allclose(reward, wanted, atol=1e-5)
    fast = np.abs(moved.v[:, -1]).max(1) > gym["FASTEST"]
    assert ended.tolist() == fast.tolist()
    assert 0 < fast.sum() < 5


@pytest.fixture(scope="module")
def policy():
    return example("walk_policy", "gymnasium")


@pytest.fixture(scope="module")
def go2(policy):
    return policy["walking"].go2()


def test_a_step_of_walking_is_what_its_functions_compute_with_numpy(policy, go2):
    options = {"autoreset_mode": policy["AutoresetMode"].DISABLED, "dtype": float}
    envs = policy["TracedVectorEnv"](go2, 3, **options)
    envs.reset(seed=0)
    action, noise = 0.5 * np.random.default_rng(0).normal(size=(3, 12)), np.full((3, 3), 0.9)
    noise[1, 0] = 0  # pushed
    envs.draw_noise = lambda actions: noise
    envs.step(action)
    before = envs.state
    seen, reward, ended, _, _ = envs.step(action)
    for i, row in enumerate(zip(*before, strict=True)):
        state = type(before)(*row)
        after = go2.advance(state, action[i], noise[i])
        assert_allclose(envs.state.q[i], after.q, atol=1e-10)
        assert_allclose(reward[i], go2.reward(state, action[i], after), rtol=1e-9)
        assert_allclose(seen[i], go2.observe(after), atol=1e-9)
        assert ended[i] == go2.terminated(after)
    still = np.zeros(3)
    steady = state._replace(v=np.zeros(18), command=still, tau=np.zeros(12), action=np.zeros(12))
    steady = steady._replace(q=np.array([0, 0, 0.31, 0, 0, 0, 1, *go2.gait.stance]))
    steady = steady._replace(clock=np.array([0.25]), touching=np.array([0, 1.0, 1, 0]))
    low = 0.022 + 0.06 - go2.robot.frame_placement(steady.q, "FL_foot")[2, 3]
    wanted = 0.02 * (1.0 + 0.5 + 0.5 - 50 * 2 * low**2)  # two feet should be higher
    assert_allclose(go2.reward(steady, np.zeros(12), steady), max(wanted, 0), rtol=1e-6)


def test_the_learned_policy_walks_as_it_is_told(policy, go2):
    act = policy["network_of"](dict(np.load(policy["LEARNED"])))
    commands = np.repeat(np.array([[0.5, 0, 0], [0.75, 0, 0], [1.0, 0, 0]]), 8, 0)
    speeds, fallen = [], np.zeros(24, bool)
    for state, ended in policy["walk"](go2, act, commands, 150):
        speeds.append(state.v[:, 0])
        fallen |= ended
    mean = np.mean(speeds[50:], axis=0)
    assert not fallen.any()
    assert np.abs(mean - commands[:, 0]).max() < 0.15
    assert state.touching.mean() < 0.8  # it lifts its feet
    assert state.q[:, 2].min() > 0.25


def test_walking_in_mujoco_is_nearly_the_same(policy, go2):
    pytest.importorskip("mujoco")
    act = policy["network_of"](dict(np.load(policy["LEARNED"])))
    commands, kind = np.tile([0.75, 0, 0], (4, 1)), policy["simulator"]("mujoco")
    speeds = [state.v[:, 0] for state, _ in policy["walk"](go2, act, commands, 100, kind)]
    assert np.mean(speeds[50:], axis=0) == pytest.approx(0.75, abs=0.15)


@full
def test_longer_predictions_identify_better_and_say_how_well(iiwa):
    script = example("rollout_identification", "jax")
    data = script["measured"](iiwa)
    short = script["Data"](data.q[:641], data.tau[:640])
    p, wrong = np.append(iiwa.damping, 0.0), {}
    for horizon in (2, 16):
        found = script["identified"](iiwa, short, horizon, p)
        error = np.append(found.p[:7] - script["DAMPING"], found.p[7] - script["PAYLOAD"])
        assert np.abs(error / found.deviation).max() < 4.5
        p, wrong[horizon] = found.p, np.abs(error).max()
    assert wrong[16] < wrong[2] / 3


def test_hoppers_stand_hop_and_have_derivatives():
    script = example("hopping_contact")
    robot = script["hopper"]()
    run = script["hop"](robot, np.array([0.0, 0.3]), 9000)
    weight = 5.9 * 9.81  # kg of body and leg
    assert run.force[-1, 0] == pytest.approx(weight, rel=0.02)
    assert run.foot[-1, 0] == pytest.approx(-weight / script["STIFFNESS"], rel=0.05)
    assert run.height[5000:, 1].max() > run.height[5000:, 0].max() + 0.1
    height, slope = script["height_by_push"](robot, 0.2, 2500)  # an impact is before
    beside = [script["height_by_push"](robot, 0.2 + x, 2500)[0] for x in (1e-6, -1e-6)]
    assert slope == pytest.approx((beside[0] - beside[1]) / 2e-6, rel=1e-4)
    assert abs(slope) > 0.05
    assert height == pytest.approx(np.mean(beside), abs=1e-9)


def test_a_humanoid_squats_on_both_feet():
    """One that carries 2 kg, of which its feedback law does not know, too."""
    script = example("standing_humanoid")
    robot, feet = script["humanoid"]()
    run = script["stand"](robot, feet, 700, np.array([0.0, 2.0]))
    assert (np.ptp(run.height, axis=1) > 0.1).all()
    assert np.abs(run.error[0]).max() < 1e-3
    assert 2e-3 < np.abs(run.error[1]).max() < 2e-2
    assert (np.abs(run.torque) < 0.5 * robot.effort_limits[6:]).all()
    assert run.drift.max() < 1e-3
    weights = 9.81 * (robot.mass + np.array([0.0, 2.0]))
    assert run.force[:, 0, [2, 8]].sum(1) == pytest.approx(weights, rel=0.1)
    centre = script["pressure"](run.force)  # the foot reaches from -5 to 12 cm
    assert -0.03 < centre.min() < centre.max() < 0.1


def test_a_quadruped_stands_while_its_hand_draws_a_circle():
    script = example("mpc_quadruped_arm")
    rows, _ = script["control"](script["load"](), seconds=0.8)
    hand, wanted, root = rows.swapaxes(0, 1)
    assert np.ptp(wanted, axis=0).max() > 0.1
    assert np.linalg.norm(hand - wanted, axis=1).max() < 0.01
    assert np.ptp(root, axis=0).max() < 0.02


def test_casadi_swings_the_pendulum_up():
    script = example("casadi_ocp", "casadi")
    robot = fl.load(script["ROBOT"])
    found = script["plan"](robot)
    assert found.success
    assert np.all(np.abs(found.tau) <= script["strongest"](robot) + 1e-6)
    end = robot.rollout(found.q[0], found.v[0], found.tau, script["DT"], integrator="rk4")
    assert_allclose(end.q[-1], script["UPRIGHT"], atol=1e-6)


@full
def test_arms_learn_to_throw(iiwa):
    script = example("jax_rollout", "jax")
    wanted = script["targets"](8)
    found = script["throw"](iiwa, wanted, iterations=60)
    at_first = script["make_landing"](iiwa)(np.zeros((1, script["STEPS"], 7), np.float32))
    before = np.linalg.norm(np.asarray(at_first) - wanted, axis=1)
    assert np.median(np.linalg.norm(found.landing - wanted, axis=1)) < 0.1 * np.median(before)


def test_a_policy_learns_through_the_dynamics():
    script = example("torch_policy", "torch")
    _, history = script["train"](script["Reaching"](), iterations=25, batch=32)
    assert np.mean(history[-5:]) < 0.8 * np.mean(history[:5])


def test_crocoddyl_finds_the_same_with_the_packages_dynamics():
    script = example("crocoddyl_dynamics", "crocoddyl", "pinocchio")
    text = (FOLDER.parent / "featherlane/robot/bundled/iiwa14.urdf").read_text()
    state = script["crocoddyl"].StateMultibody(script["pin"].buildModelFromXML(text))
    ours, theirs = (
        script["solved"](script[who], state, "semi_implicit")[:2] for who in ("ours", "theirs")
    )
    assert ours[1] == theirs[1]
    assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
