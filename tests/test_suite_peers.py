"""benchmarks/suite/peers: what is there agrees with us, what is not says why."""

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest
from repetition import repeated

import featherlane as fl
from featherlane.api import random_robots
from featherlane.tools.check import comparable

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from suite.peers import (  # noqa: E402
    PEERS,
    Case,
    Unsupported,
    reduced,
)
from suite.peers.native import (  # noqa: E402
    Loop,
    compiler,
    made,
    shared_library,
    single,
)
from suite.peers.with_generated import looped  # noqa: E402

NAMES = {
    "ID": "inverse_dynamics",
    "FD": "forward_dynamics",
    "M": "mass_matrix",
    "Minv": "mass_matrix_inverse",
    "dID": "inverse_dynamics_derivatives",
    "dFD": "forward_dynamics_derivatives",
}
PEER = {peer.name: peer for peer in PEERS}
TOLERANCE = {"float64": 1e-8, "float32": 1e-3}
BATCH = 5


def case(robot, root, short, dtype="float64", threads=1):
    folder = Path(fl.__file__).parent / "robot/bundled"
    source = str(folder / f"{robot}.urdf")
    model = comparable(fl.load(source, root=root, mimic="keep"))[0]
    q = model.random_configuration(BATCH, seed=1)
    v, u = np.random.default_rng(2).normal(size=(2, BATCH, model.nv))
    return Case(model, source, NAMES[short], dtype, q, v, u, threads)


def prepared(name, given):
    peer = PEER[name]
    if (why := peer.missing()) is not None:
        pytest.skip(f"{name}: {why}")
    return peer.prepare(given)


def agrees(name, given, passes=2):
    run = prepared(name, given)
    assert not isinstance(run, Unsupported), run
    rows = np.array([3, 0])
    exact = given.exact()[: len(given.given())]
    expected = given.model.function(given.name)(*exact)
    expected = expected if isinstance(expected, tuple) else (expected,)
    try:
        run.run(passes)
        got, some = run.answers(), run.answers(rows)
    finally:
        run.close()
    assert len(got) == len(expected)
    for x, y, part in zip(got, expected, some, strict=True):
        assert np.abs(x - y).max() < TOLERANCE[given.dtype] * np.abs(y).max()
        assert np.array_equal(part, x[rows])


@pytest.mark.parametrize("short", ["ID", "FD", "M"])
@pytest.mark.parametrize("robot", ["iiwa14", "hyq"])
def test_dynibo_has_the_gravity_and_the_order_of_the_case(robot, short):
    agrees("dynibo", case(robot, "fixed", short))


@pytest.mark.parametrize("name", ["mujoco-c", "mujoco-python"])
@pytest.mark.parametrize("short", ["ID", "FD", "M", "Minv"])
@pytest.mark.parametrize(
    ("robot", "root"), repeated([("double_pendulum", "free"), ("hyq", "fixed")])
)
def test_mujoco(name, short, robot, root):
    agrees(name, case(robot, root, short))


@pytest.mark.parametrize("short", NAMES)
@pytest.mark.parametrize(
    ("robot", "root"), repeated([("double_pendulum", "free"), ("hyq", "fixed")])
)
def test_pinocchio_in_python(short, robot, root):
    agrees("pinocchio-python", case(robot, root, short))


@pytest.mark.parametrize(
    ("name", "short", "threads"),
    [
        ("mujoco-c", "ID", 3),
        ("mujoco-batch", "FD", 2),
        ("pinocchio-in-parallel", "ID", 2),
        ("pinocchio-in-parallel", "FD", 1),
    ],
)
def test_threads(name, short, threads):
    agrees(name, case("hyq", "fixed", short, threads=threads))


@pytest.mark.parametrize("dtype", repeated(["float64", "float32"]))
@pytest.mark.parametrize("name", ["frax", "casadi-c"])
@pytest.mark.parametrize(("root", "short"), repeated([("free", "ID"), ("fixed", "dFD")]))
def test_peers_that_compile(name, root, short, dtype):
    agrees(name, case("double_pendulum", root, short, dtype))


@pytest.mark.skipif(compiler("clang++", "g++") is None, reason="there is no clang++ or g++")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_loop_around_generated_code(dtype):
    """Written by hand here, since the generator takes minutes to build."""
    given = case("double_pendulum", "fixed", "dID", dtype, threads=2)
    body = "t1 = 0.5 * q[0];\n a[2] = t1 + v[1];\n b[3] = t1 * u[1];"
    library, _ = shared_library(looped(body, given), ["-std=c++17"])
    loop = Loop(library, lambda x: made(x, [ctypes.c_int], given.threads))
    q, v, u = inputs = [np.ascontiguousarray(x, dtype) for x in given.exact()]
    a, b = outputs = given.empty()
    try:
        loop.passes(given.name, inputs, outputs)(3)
    finally:
        loop.close()
    tolerance = {"rtol": 8 * np.finfo(dtype).eps, "atol": 0}
    assert np.allclose(a.reshape(BATCH, 4)[:, 2], 0.5 * q[:, 0] + v[:, 1], **tolerance)
    assert np.allclose(b.reshape(BATCH, 4)[:, 3], 0.5 * q[:, 0] * u[:, 1], **tolerance)


def test_constants_of_generated_code_in_single_precision():
    code = "t1 = 8.5e-05 * t2 + 2. * a[10] - 1e-09 + -1 * b[2];"
    assert single(code) == "t1 = 8.5e-05f * t2 + 2.f * a[10] - 1e-09f + -1 * b[2];"


def test_what_is_absent_says_what_brings_it(monkeypatch):
    monkeypatch.setattr("suite.peers.base.find_spec", lambda module: None)
    for peer in PEERS:
        assert "pip install" in peer.missing(), peer.name


def test_names_are_different_and_precisions_known():
    assert len(PEER) == len(PEERS)
    assert all(peer.precisions and set(peer.precisions) <= {"float64", "float32"} for peer in PEERS)


@pytest.mark.parametrize(
    ("name", "root", "short", "why"),
    [
        ("mujoco-python", "fixed", "dID", "finite differences"),
        ("mujoco-batch", "fixed", "M", "accelerations"),
        ("pinocchio-in-parallel", "fixed", "M", "rneaInParallel"),
        ("frax", "free", "dFD", "by coordinates"),
        ("casadi-c", "free", "dID", "by coordinates"),
    ],
)
def test_unsupported_says_why(name, root, short, why):
    answer = prepared(name, case("double_pendulum", root, short))
    assert isinstance(answer, Unsupported)
    assert why in answer.why


# The robot as a file


@pytest.mark.parametrize(
    ("robot", "root"), [("iiwa14", "fixed"), ("hyq", "free"), ("atlas", "free")]
)
def test_the_reduced_robot_is_the_robot(robot, root):
    model = case(robot, root, "ID").model
    same = fl.load(reduced.urdf(model), root=root)
    assert same.joint_names[1:] == model.joint_names[1:]
    assert same.parent == model.parent
    for a, b in zip(model.joints[root == "free" :], same.joints[root == "free" :], strict=True):
        assert np.allclose(a.placement.R, b.placement.R, rtol=0, atol=1e-14)
        assert np.allclose(a.placement.p, b.placement.p, rtol=0, atol=1e-14)
    for a, b in zip(model.bodies, same.bodies, strict=True):
        assert np.isclose(a.mass, b.mass, rtol=1e-15)
        assert np.allclose(a.com, b.com, rtol=0, atol=1e-14)
        assert np.allclose(a.inertia, b.inertia, rtol=0, atol=1e-14)


def test_right_angles_of_the_reduced_robot():
    for pitch in (np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-11):
        R = turn(2, 0.3) @ turn(1, pitch) @ turn(0, -1.1)
        roll, tilt, yaw = reduced._rpy(R)
        assert np.allclose(turn(2, yaw) @ turn(1, tilt) @ turn(0, roll), R, rtol=0, atol=1e-15)


def turn(axis, angle):
    i, k = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[i, i] = R[k, k] = np.cos(angle)
    R[k, i], R[i, k] = np.sin(angle), -np.sin(angle)
    return R


@pytest.mark.parametrize("kind", ["spherical", "planar"])
def test_robots_that_a_urdf_cannot_say(kind):
    model = random_robots.chain(2, 0, [kind])
    states = (np.zeros((1, n)) for n in (model.nq, model.nv, model.nv))
    refused = reduced.refused(Case(model, "", NAMES["ID"], "float64", *states))
    assert kind in refused.why


@pytest.mark.skipif(compiler("clang++", "g++") is None, reason="there is no clang++ or g++")
def test_compilers_complaints_and_limit():
    with pytest.raises(RuntimeError, match=r"does not compile: .*error"):
        shared_library("no", [])
    with pytest.raises(RuntimeError, match="not compiled in 0 s"):
        shared_library('#include "batch.h"', [], limit=0.001)
