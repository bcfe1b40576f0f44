"""Rotations and placements: those of Pinocchio and SciPy, exact and smooth at the identity and up
to half a turn, in traces as on arrays.
"""

import numpy as np
import pytest
from repetition import examples

import featherlane as fl

try:
    import pinocchio as pin
except ModuleNotFoundError:
    pin = None

needs_pinocchio = pytest.mark.skipif(pin is None, reason="pinocchio is not installed")
ANGLES = [0.0, 1e-300, 1e-12, 1e-7, 1e-4, 0.3, 0.999, 1.0, 1.001, 2.0, 3.0]
ANGLES += [np.pi - x for x in (1e-2, 1e-5, 1e-8, 1e-12)]
EPSILON = np.finfo(float).eps


def axes(n):
    x = np.random.default_rng(n).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


W = (np.array(ANGLES)[:, None, None] * np.concatenate([np.eye(3), -np.eye(3), axes(6)])).reshape(
    -1, 3
)
V = np.concatenate([np.random.default_rng(1).normal(size=W.shape), W], axis=1)
R, T = fl.exp3(W), fl.exp6(V)
RPY = np.random.default_rng(2).uniform(
    [-np.pi, -np.pi / 2, -np.pi], [np.pi, np.pi / 2, np.pi], (64, 3)
)
Q = np.random.default_rng(3).normal(size=(64, 4))
Q /= np.linalg.norm(Q, axis=1, keepdims=True)

# Functions by name: ours, arguments, and Pinocchio's of one state
PEER = {
    "exp3": (W, lambda w: pin.exp3(w)),
    "log3": (R, lambda R: pin.log3(R)),
    "exp3_jacobian": (W, lambda w: pin.Jexp3(w)),
    "exp3_jacobian_inverse": (W, lambda w: pin.Jlog3(pin.exp3(w))),
    "exp6": (V, lambda v: pin.exp6(v).homogeneous),
    "log6": (T, lambda T: pin.log6(T).vector),
    "exp6_jacobian": (V, lambda v: pin.Jexp6(pin.Motion(v))),
    "exp6_jacobian_inverse": (V, lambda v: pin.Jlog6(pin.exp6(v))),
    "inverse": (T, lambda T: pin.SE3(T).inverse().homogeneous),
    "adjoint": (T, lambda T: pin.SE3(T).action),
    "matrix_from_quaternion": (Q, lambda q: pin.Quaternion(q).matrix()),
    "matrix_from_rpy": (RPY, lambda rpy: pin.rpy.rpyToMatrix(rpy)),
}
NEAR_PI = 1e-6  # rad: so near to half a turn, Pinocchio's logarithm has lost half of the digits


@needs_pinocchio
@pytest.mark.parametrize("name", PEER)
def test_as_pinocchio(name):
    values, peer = PEER[name]
    if "log" in name or name.endswith("inverse"):
        near = np.linalg.norm(W, axis=1) > np.pi - NEAR_PI
        values = values[~near[: len(values)]]
    result = getattr(fl, name)(values)
    wanted = np.array([peer(x) for x in values])
    assert result.shape == wanted.shape
    assert np.abs(result - wanted).max() < (1e-7 if "jacobian" in name else 1e-9)


@needs_pinocchio
def test_interpolation_as_pinocchio():
    a, b = T[:40], T[40:80]
    pairs = zip(a, b, strict=True)
    wanted = [pin.SE3.Interpolate(pin.SE3(x), pin.SE3(y), 0.3).homogeneous for x, y in pairs]
    assert np.allclose(fl.interpolate_placements(a, b, 0.3), wanted, atol=1e-9)


def test_as_scipy():
    spatial = pytest.importorskip("scipy.spatial.transform", reason="scipy is not installed")
    of = spatial.Rotation
    positive = np.where(Q[:, 3:] < 0, -Q, Q)
    assert np.abs(fl.exp3(W) - of.from_rotvec(W).as_matrix()).max() < 1e-14
    assert np.abs(fl.matrix_from_quaternion(3 * Q) - of.from_quat(Q).as_matrix()).max() < 1e-14
    assert np.abs(fl.quaternion_from_matrix(of.from_quat(Q).as_matrix()) - positive).max() < 1e-14
    turns = of.from_euler("xyz", RPY)
    assert np.abs(fl.matrix_from_rpy(RPY) - turns.as_matrix()).max() < 1e-14
    assert np.abs(fl.rpy_from_matrix(turns.as_matrix()) - RPY).max() < 1e-11
    assert np.abs(fl.rpy_from_quaternion(turns.as_quat()) - RPY).max() < 1e-11
    assert np.abs(fl.quaternion_from_rpy(RPY) - turns.as_quat(canonical=True)).max() < 1e-14
    product = (of.from_quat(Q[:32]) * of.from_quat(Q[32:])).as_quat(canonical=True)
    ours = fl.quaternion_product(Q[:32], Q[32:])
    assert np.abs(np.where(ours[:, 3:] < 0, -ours, ours) - product).max() < 1e-14
    way = spatial.Slerp([0, 1], of.from_quat(Q[:2]))
    s = np.linspace(0, 1, 9)
    for turn in (
        fl.matrix_from_quaternion(fl.slerp(Q[0], Q[1], s)),
        fl.interpolate_rotations(*fl.matrix_from_quaternion(Q[:2]), s),
    ):
        assert np.abs(turn - way(s).as_matrix()).max() < 1e-14


def test_logarithms_near_zero_and_half_a_turn():
    """To the digits that the matrix has: near zero all, also of an angle of 1e-300."""
    angle = np.linalg.norm(W, axis=1, keepdims=True)
    assert np.all(np.abs(fl.log3(R) - W) <= 8 * EPSILON * angle)
    assert np.all(np.abs(fl.log6(T) - V) <= 64 * EPSILON * (1 + angle))
    assert np.array_equal(fl.log3(np.eye(3)), np.zeros(3))
    half = np.pi * axes(20)
    back = fl.log3(fl.exp3(half))
    assert np.abs(np.abs(np.sum(back * half, axis=1)) - np.pi**2).max() < 1e-12


def test_hypothesis_rotations():
    hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
    st = hypothesis.strategies
    exponents = st.floats(-300, 0)
    angle = st.one_of(
        exponents.map(lambda x: 10.0**x),
        exponents.map(lambda x: np.pi - 10.0 ** (x / 20)),
        st.floats(0, np.pi * (1 - 1e-14)),
    )

    @hypothesis.settings(max_examples=examples(200))
    @hypothesis.given(angle, st.tuples(*[st.floats(-1, 1)] * 3))
    def round_trips(angle, axis):
        length = np.linalg.norm(axis)
        hypothesis.assume(length > 1e-3)
        w = angle * np.array(axis) / length
        R = fl.exp3(w)
        assert np.abs(R @ R.T - np.eye(3)).max() < 8 * EPSILON
        rounding = max(16 * EPSILON * np.abs(w).max(), 2 * np.finfo(float).smallest_subnormal)
        assert np.abs(fl.log3(R) - w).max() <= rounding
        q = fl.quaternion_from_matrix(R)
        assert abs(q @ q - 1) < 8 * EPSILON
        assert np.abs(fl.matrix_from_quaternion(q) - R).max() < 16 * EPSILON
        assert np.abs(fl.matrix_from_rpy(fl.rpy_from_matrix(R)) - R).max() < 16 * EPSILON
        J = fl.exp3_jacobian(w) @ fl.exp3_jacobian_inverse(w)
        assert np.abs(J - np.eye(3)).max() < 32 * EPSILON

    round_trips()


@pytest.mark.parametrize("pitch", [np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, 1e-12 - np.pi / 2])
def test_roll_pitch_yaw_at_a_quarter_turn(pitch):
    """Where only the sum or the difference of roll and yaw is known, the matrix is as exact."""
    rpy = np.stack([RPY[:, 0], np.full(64, pitch), RPY[:, 2]], axis=1)
    R = fl.matrix_from_rpy(rpy)
    assert np.abs(fl.matrix_from_rpy(fl.rpy_from_matrix(R)) - R).max() < 1e-15


# Derivatives, by identities: that of w -> log3(exp3(w)) is 1, its second derivative is 0

IDENTITIES = {
    "log3(exp3(w))": (3, lambda w: fl.log3(fl.exp3(w))),
    "log6(exp6(v))": (6, lambda v: fl.log6(fl.exp6(v))),
    "rpy_from_matrix(matrix_from_rpy(w))": (
        3,
        lambda w: fl.rpy_from_matrix(fl.matrix_from_rpy(w)),
    ),
    "quaternions": (
        3,
        lambda w: fl.log3(fl.matrix_from_quaternion(fl.quaternion_from_matrix(fl.exp3(w)))),
    ),
    "rotation_error": (3, lambda w: fl.rotation_error(np.eye(3), fl.exp3(w))),
    "placement_error": (6, lambda v: fl.placement_error(np.eye(4), fl.exp6(v))),
    "inverse": (6, lambda v: -fl.log6(fl.inverse(fl.exp6(v)))),
    "slerp": (3, lambda w: 2 * fl.log3(fl.interpolate_rotations(np.eye(3), fl.exp3(w), 0.5))),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_first_and_second_derivatives(name):
    size, function = IDENTITIES[name]
    weights = np.random.default_rng(5).normal(size=size)
    points = {3: W, 6: V}[size]
    if "rpy" in name:
        points = points[np.abs(points[:, 1]) < 1.5]
    hessian = fl.hessian(lambda x: weights @ function(x), {"x": size}, values=True)
    value, gradient, curvature = fl.compile(hessian)(points)
    assert np.abs(value - points @ weights).max() < 1e-12
    assert np.abs(gradient - weights).max() < 1e-12
    assert np.abs(curvature).max() < 1e-9
    small = np.linalg.norm(points, axis=1) < 2.9
    assert np.abs(curvature[small]).max() < 2e-11


def test_derivatives_of_the_exponential_at_zero():
    """exp3(w) = 1 + W + W^2 / 2 + ..., where W is the matrix of w x."""
    first = fl.compile(fl.jacobian(fl.exp3, {"w": 3}))(np.zeros(3))
    generators = np.moveaxis(first, -1, 0)
    assert np.array_equal(generators @ [1.0, 2.0, 3.0], np.cross(np.eye(3), [1.0, 2.0, 3.0]))
    products = np.einsum("iab,jbc->acij", generators, generators)
    second = fl.compile(fl.jacobian(fl.jacobian(fl.exp3, {"w": 3})))(np.zeros(3))
    assert np.array_equal(second, 0.5 * (products + np.swapaxes(products, -1, -2)))


@pytest.mark.parametrize("group", [3, 6])
def test_jacobians_are_those_of_small_motions(group):
    exp, log = getattr(fl, f"exp{group}"), getattr(fl, f"log{group}")
    points, zero = {3: W, 6: V}[group], np.zeros(group)
    shapes = {"x": group, "dx": group}
    ahead = fl.jacobian(lambda x, dx: log(exp(x) @ exp(dx)), shapes, wrt="dx")
    inverse = getattr(fl, f"exp{group}_jacobian_inverse")(points)
    assert np.abs(fl.compile(ahead)(points, zero) - inverse).max() < 1e-11
    # The derivative of the matrix itself: exp(x)^-1 d exp(x) is Jr dx
    slopes = fl.compile(fl.jacobian(exp, {"x": group}))(points)
    back = np.linalg.inv(exp(points))
    moved = np.einsum("nij,njkl->nikl", back, slopes)[:, :3]
    turning = np.stack([moved[:, 2, 1], moved[:, 0, 2], moved[:, 1, 0]], axis=1)
    parts = [moved[:, :, 3], turning] if group == 6 else [turning]
    result = getattr(fl, f"exp{group}_jacobian")(points)
    assert np.abs(np.concatenate(parts, axis=1) - result).max() < 1e-13


# Arrays

ARGUMENTS = {
    "exp3": (W,),
    "log3": (R,),
    "exp3_jacobian": (W,),
    "exp3_jacobian_inverse": (W,),
    "rotation_error": (R, R[::-1]),
    "interpolate_rotations": (R, R[::-1], np.linspace(0, 1, len(R))),
    "matrix_from_quaternion": (Q,),
    "quaternion_from_matrix": (R,),
    "quaternion_product": (Q, Q[::-1]),
    "slerp": (Q, Q[::-1], np.linspace(0, 1, len(Q))),
    "matrix_from_rpy": (RPY,),
    "rpy_from_matrix": (fl.matrix_from_rpy(RPY),),
    "quaternion_from_rpy": (RPY,),
    "rpy_from_quaternion": (Q,),
    "placement_of": (R, W),
    "inverse": (T,),
    "adjoint": (T,),
    "exp6": (V,),
    "log6": (T,),
    "exp6_jacobian": (V,),
    "exp6_jacobian_inverse": (V,),
    "placement_error": (T, T[::-1]),
    "interpolate_placements": (T, T[::-1], np.linspace(0, 1, len(T))),
}


def test_every_function_is_in_the_table():
    modules = ("featherlane.api.rotations", "featherlane.api.placements")
    names = [name for name, x in vars(fl).items() if getattr(x, "__module__", "") in modules]
    assert sorted(ARGUMENTS) == sorted(names)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_traces_batches_and_dtypes(name):
    """A trace has the bits of arrays; leading dimensions broadcast; float32 stays float32."""
    function, arrays = getattr(fl, name), ARGUMENTS[name]
    result = function(*arrays)
    shapes = {f"x{n}": x.shape[1:] for n, x in enumerate(arrays)}
    traced = fl.compile(lambda *xs: function(*xs), shapes)
    assert np.array_equal(traced(*arrays), result)
    assert np.array_equal(function(*[x[7] for x in arrays]), result[7])
    pair = fl.compile(lambda *xs: function(*xs), {k: (2, *shape) for k, shape in shapes.items()})
    assert np.array_equal(pair(*[x[:2] for x in arrays]), result[:2])
    grid = function(*[x[:4].reshape(2, 2, *x.shape[1:]) for x in arrays])
    assert np.array_equal(grid.reshape(4, *result.shape[1:]), result[:4])
    single = function(*[x.astype(np.float32) for x in arrays])
    assert single.dtype == np.float32
    away = np.linalg.norm(W, axis=1)[: len(single)] < 3  # from half a turn, with its two axes
    if name not in ("rotation_error", "placement_error") and "interpolate" not in name:
        assert np.allclose(single[away[: len(single)]], result[away[: len(single)]], atol=1e-4)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"w has shape \(4,\), wanted \(\.\.\., 3\)"):
        fl.exp3(np.zeros(4))
    with pytest.raises(ValueError, match=r"R has shape \(4, 4\), wanted \(\.\.\., 3, 3\)"):
        fl.log3(np.eye(4))
    with pytest.raises(TypeError, match="rotation_error misses target"):
        fl.rotation_error(np.eye(3))
    assert np.isnan(fl.matrix_from_quaternion(np.zeros(4))).all()


def test_a_cost_of_a_pose_in_a_trace(iiwa):
    """Its gradient is that of finite differences, and zero at the goal."""
    q = np.random.default_rng(7).normal(size=7)
    goal = iiwa.frame_placement(q, "iiwa_link_7")

    def cost(q):
        error = fl.placement_error(iiwa.frame_placement(q, "iiwa_link_7"), goal)
        return 0.5 * error @ error

    shapes = {"q": 7}
    gradient = fl.compile(fl.gradient(cost, shapes))
    assert np.abs(gradient(q)).max() < 1e-14
    J = iiwa.jacobian(q, "iiwa_link_7", reference="body")
    curvature = fl.compile(fl.hessian(cost, shapes))(q)
    assert np.allclose(curvature, J.T @ J, atol=1e-12)
    ahead = 1e-5 * np.eye(7)
    value = fl.compile(cost, shapes)
    slopes = (value(q + 0.4 + ahead) - value(q + 0.4 - ahead)) / 2e-5
    assert np.allclose(gradient(q + 0.4), slopes, atol=1e-8)
