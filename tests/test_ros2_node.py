"""The controller of examples/ros2_node, compiled without ROS, gives the package's torques."""

import importlib.util
import shutil
import subprocess

import numpy as np
import pytest
from documents import ROOT

import featherlane as fl

FOLDER = ROOT / "examples" / "ros2_node"
KP, KD = 100.0, 20.0  # of test/replay.cpp
spec = importlib.util.spec_from_file_location("generate", FOLDER / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


@pytest.fixture(scope="module")
def panda():
    return fl.load("panda")  # with a mimic joint, whose name is in messages but not in the model


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """Runs lines through the compiled controller; its exit status is 1 if it allocates."""
    for compiler in ("gcc", "g++"):
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
    folder = tmp_path_factory.mktemp("robot")
    generate.write("panda", folder)
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{folder}", f"-I{FOLDER / 'include'}"]
    program, made = folder / "replay", folder / "robot.o"
    compiled = ["gcc", "-std=c99", "-O1", "-ffp-contract=off", "-c", folder / "robot.c", "-o", made]
    subprocess.run(compiled, check=True)
    source = FOLDER / "test" / "replay.cpp"
    linked = ["g++", "-std=c++17", *flags, source, made, "-o", program, "-lm"]
    subprocess.run(linked, check=True)

    def run(*lines):
        done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True)
        assert done.returncode == 0, "the controller allocates memory"
        told = done.stdout.splitlines()
        return [t if t == "refused" else np.array(t.split(), float) for t in told]

    return run


def line(kind, names, *lists):
    texts = [" ".join([str(len(entries)), *map(str, entries)]) for entries in (names, *lists)]
    return " ".join([kind, *texts])


def shuffled(model, rng, *vectors):
    """Names and numbers as a driver may send them: another order, and the mimic joint too."""
    names = [joint.name for joint in model.joints]  # of which the mimic joint is the last
    order = rng.permutation(len(names))
    longer = (np.append(vector, 7.0) for vector in vectors)
    return [names[k] for k in order], *(vector[order].tolist() for vector in longer)


def limited(model, tau):
    return np.clip(tau, -model.effort_limits, model.effort_limits)


def test_gravity_is_compensated(replay, panda):
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-1, 1, (2, 20, panda.nv))
    told = replay(
        *(line("state", *shuffled(panda, rng, *state)) for state in zip(q, v, strict=True))
    )
    still = np.zeros_like(q)
    wanted = limited(panda, panda.inverse_dynamics(q, still, still))
    np.testing.assert_array_equal(np.array(told), wanted)


def test_a_reference_is_followed_within_the_limits_until_it_is_released(replay, panda):
    rng = np.random.default_rng(2)
    q, v, q_d, v_d, a_d = rng.uniform(-1, 1, (5, panda.nv))
    state = line("state", *shuffled(panda, rng, q, v))
    told = replay(
        line("reference", *shuffled(panda, rng, q_d, v_d, a_d)),
        state,
        line("reference", *shuffled(panda, rng, q_d), [], []),
        state,
        "release",
        state,
    )
    still = np.zeros(panda.nv)
    followed = panda.inverse_dynamics(q, v, a_d + KP * (q_d - q) + KD * (v_d - v))
    assert (np.abs(followed) > panda.effort_limits).any()
    np.testing.assert_allclose(told[0], limited(panda, followed), rtol=1e-12)
    resting = panda.inverse_dynamics(q, v, KP * (q_d - q) - KD * v)
    np.testing.assert_allclose(told[1], limited(panda, resting), rtol=1e-12)
    np.testing.assert_array_equal(told[2], limited(panda, panda.inverse_dynamics(q, still, still)))


@pytest.mark.parametrize("spoil", ["joint", "length", "nan"])
def test_incomplete_messages_change_nothing(replay, panda, spoil):
    rng = np.random.default_rng(3)
    q, v = rng.uniform(-1, 1, (2, panda.nv))
    names = [joint.name for joint in panda.joints if joint.mimic is None]
    good = line("state", names, q, v)
    bad_names = [*names[:-1], "other"] if spoil == "joint" else names
    bad_v = {"joint": v, "length": v[:-1], "nan": [*v[:-1], "nan"]}[spoil]
    told = replay(
        good,
        line("state", bad_names, 2 * q, bad_v),
        line("reference", bad_names, 2 * q, bad_v, []),
        good,
    )
    assert told[1:3] == ["refused", "refused"]
    np.testing.assert_array_equal(told[0], told[3])


def test_a_message_may_change_its_order(replay, panda):
    """The places of joints are kept from one message to the next, and looked up if they move."""
    rng = np.random.default_rng(4)
    q, v = rng.uniform(-1, 1, (2, panda.nv))
    told = replay(*(line("state", *shuffled(panda, rng, q, v)) for _ in range(5)))
    assert all(np.array_equal(torques, told[0]) for torques in told)


def test_joints_that_a_message_cannot_tell_are_refused(tmp_path):
    with pytest.raises(ValueError, match="one number a joint"):
        generate.write("mobile_arm", tmp_path)
