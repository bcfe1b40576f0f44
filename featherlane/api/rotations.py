"""Rotations: exponential and logarithm, quaternions [x y z w], roll, pitch and yaw.

A function takes NumPy's arrays with any leading dimensions, arrays of other packages, and traced
arrays. It and all its derivatives are finite and exact at the identity and up to half a turn.

References: Barfoot, State Estimation for Robotics (2017), chapter 7; Sola, Deray and Atchuthan, A
micro Lie theory for state estimation in robotics (2018).
"""

# Callers pass arrays; the functions themselves run on symbolic scalars in nested sequences.
# mypy: disable-error-code="arg-type, return-value, index, misc"

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.api.array_functions import array_function
from featherlane.functions.array_like import ArrayLike
from featherlane.robot import exponential
from featherlane.robot.quaternions import along_quaternion, quaternion_rotation
from featherlane.robot.rotations import rpy_angles, rpy_matrix
from featherlane.robot.spatial import matmul, transpose

MATRIX, QUATERNION, VECTOR = (3, 3), (4,), (3,)


def _matrix(quaternion: Any) -> Any:
    return transpose(quaternion_rotation(*quaternion).rows)


def _quaternion(R: Any) -> Any:
    return exponential.unit(along_quaternion(R))


def logarithm(R: Any) -> Any:
    """Returns the rotation vector of a rotation matrix, of scalars of any kind."""
    return exponential.turn_of(_quaternion(R))


@array_function(w=VECTOR)
def exp3(w: ArrayLike) -> np.ndarray:
    """Returns the rotation matrices (..., 3, 3) of rotation vectors w (..., 3): rotations by the
    angle |w| rad about w, the exponential of SO(3) (Rodrigues' formula).

    Examples:
        >>> fl.exp3([0.0, 0.0, np.pi / 2]).round(12)
        array([[ 0., -1.,  0.],
               [ 1.,  0.,  0.],
               [ 0.,  0.,  1.]])
    """
    return exponential.turn_matrix(w)


@array_function(R=MATRIX)
def log3(R: ArrayLike) -> np.ndarray:
    """Returns the rotation vectors (..., 3), rad, of rotation matrices R (..., 3, 3), by angles of
    at most pi: the logarithm of SO(3). At half a turn one of the two vectors is returned.

    Examples:
        >>> w = np.random.default_rng(0).uniform(-1, 1, (100, 3))
        >>> np.allclose(fl.log3(fl.exp3(w)), w)
        True
    """
    return logarithm(R)


@array_function(w=VECTOR)
def exp3_jacobian(w: ArrayLike) -> np.ndarray:
    """Returns the right Jacobians Jr (..., 3, 3) of `exp3` at w (..., 3), rad:
    exp3(w + dw) = exp3(w) exp3(Jr dw) to first order (`Jexp3` in Pinocchio).

    Examples:
        >>> w, dw = np.array([0.3, -0.5, 0.2]), np.array([1e-8, 0.0, 0.0])
        >>> turned = fl.log3(fl.exp3(w).T @ fl.exp3(w + dw))
        >>> np.allclose(turned, fl.exp3_jacobian(w) @ dw, rtol=1e-6)
        True
    """
    return exponential.turn_jacobian(w)


@array_function(w=VECTOR)
def exp3_jacobian_inverse(w: ArrayLike) -> np.ndarray:
    """Returns the inverses (..., 3, 3) of `exp3_jacobian` at w (..., 3), for |w| < 2 pi rad: with
    w = log3(R), the derivative of log3(R exp3(dw)) by dw (`Jlog3` in Pinocchio).

    Examples:
        >>> w = np.array([0.3, -0.5, 0.2])
        >>> np.allclose(fl.exp3_jacobian(w) @ fl.exp3_jacobian_inverse(w), np.eye(3))
        True
    """
    return exponential.turn_jacobian_inverse(w)


@array_function(R=MATRIX, target=MATRIX)
def rotation_error(R: ArrayLike, target: ArrayLike) -> np.ndarray:
    """Returns the rotation vectors (..., 3), rad, that lead from the rotations R (..., 3, 3) to
    target (..., 3, 3), in the axes of R: log3(R^T target).

    Examples:
        >>> R, target = fl.exp3(np.random.default_rng(0).normal(size=(2, 3)))
        >>> np.allclose(R @ fl.exp3(fl.rotation_error(R, target)), target)
        True
    """
    return logarithm(matmul(transpose(R), target))


@array_function(R0=MATRIX, R1=MATRIX, s=())
def interpolate_rotations(R0: ArrayLike, R1: ArrayLike, s: ArrayLike) -> np.ndarray:
    """Returns the rotations (..., 3, 3) on the shortest way from R0 (..., 3, 3) at s = 0 to R1
    (..., 3, 3) at s = 1, with one velocity all the way: R0 exp3(s log3(R0^T R1)).

    Examples:
        >>> R = fl.exp3([[0.0, 0.0, 0.2], [0.0, 0.0, 0.4]])
        >>> fl.log3(fl.interpolate_rotations(*R, s=0.5)).round(12)
        array([0. , 0. , 0.3])
    """
    w = logarithm(matmul(transpose(R0), R1))
    return matmul(R0, exponential.turn_matrix([s * x for x in w]))


# Quaternions


@array_function(quaternion=QUATERNION)
def matrix_from_quaternion(quaternion: ArrayLike) -> np.ndarray:
    """Returns the rotation matrices (..., 3, 3) of quaternions (..., 4), x y z w, of any length
    but 0, which gives NaN.

    Examples:
        >>> fl.matrix_from_quaternion([0.0, 0.0, 0.0, 2.0])
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """
    return _matrix(quaternion)


@array_function(R=MATRIX)
def quaternion_from_matrix(R: ArrayLike) -> np.ndarray:
    """Returns the unit quaternions (..., 4), x y z w with w >= 0, of rotation matrices R
    (..., 3, 3).

    Examples:
        >>> fl.quaternion_from_matrix(np.diag([1.0, -1.0, -1.0]))
        array([1., 0., 0., 0.])
    """
    return _quaternion(R)


@array_function(a=QUATERNION, b=QUATERNION)
def quaternion_product(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Returns quaternions (..., 4), x y z w, the products a b: the rotation by b, followed by that
    by a.

    Examples:
        >>> i, j = np.eye(4)[:2]
        >>> fl.quaternion_product(i, j)
        array([0., 0., 1., 0.])
    """
    return exponential.product(a, b)


@array_function(quaternion0=QUATERNION, quaternion1=QUATERNION, s=())
def slerp(quaternion0: ArrayLike, quaternion1: ArrayLike, s: ArrayLike) -> np.ndarray:
    """Returns the unit quaternions (..., 4), x y z w, on the shortest way from quaternion0
    (..., 4) at s = 0 to quaternion1 (..., 4) at s = 1, with one angular velocity all the way
    (Shoemake 1985). Quaternions of opposite signs are the same rotation.

    Examples:
        >>> fl.slerp([0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0], 0.5).round(6)
        array([0.      , 0.      , 0.707107, 0.707107])
    """
    w = exponential.shortest_turn(quaternion0, quaternion1)
    return exponential.turned(quaternion0, [s * x for x in w])


# Roll, pitch and yaw, as in URDF: rotations about the fixed axes x, y and z, in this order


@array_function(rpy=VECTOR)
def matrix_from_rpy(rpy: ArrayLike) -> np.ndarray:
    """Returns the rotation matrices (..., 3, 3) of roll, pitch and yaw (..., 3), rad:
    Rz(yaw) Ry(pitch) Rx(roll), as in URDF files.

    Examples:
        >>> np.allclose(fl.matrix_from_rpy([0.0, 0.0, 0.3]), fl.exp3([0.0, 0.0, 0.3]))
        True
    """
    return rpy_matrix(*rpy)


@array_function(R=MATRIX)
def rpy_from_matrix(R: ArrayLike) -> np.ndarray:
    """Returns roll, pitch and yaw (..., 3), rad, of rotation matrices R (..., 3, 3), with the pitch
    from -pi/2 to pi/2.

    At a pitch of a quarter turn, roll and yaw are not unique, and have no derivatives: there the
    result is one of the triples whose `matrix_from_rpy` is R.

    Examples:
        >>> fl.rpy_from_matrix(fl.matrix_from_rpy([0.1, -0.2, 3.0])).round(12)
        array([ 0.1, -0.2,  3. ])
    """
    return rpy_angles(R)


@array_function(rpy=VECTOR)
def quaternion_from_rpy(rpy: ArrayLike) -> np.ndarray:
    """Returns the unit quaternions (..., 4), x y z w with w >= 0, of roll, pitch and yaw (..., 3),
    rad, as in `matrix_from_rpy`.

    Examples:
        >>> fl.quaternion_from_rpy([np.pi, 0.0, 0.0]).round(12)
        array([1., 0., 0., 0.])
    """
    return _quaternion(rpy_matrix(*rpy))


@array_function(quaternion=QUATERNION)
def rpy_from_quaternion(quaternion: ArrayLike) -> np.ndarray:
    """Returns roll, pitch and yaw (..., 3), rad, of quaternions (..., 4), x y z w, of any length
    but 0, as `rpy_from_matrix` does.

    Examples:
        >>> fl.rpy_from_quaternion(fl.quaternion_from_rpy([0.1, -0.2, 3.0])).round(12)
        array([ 0.1, -0.2,  3. ])
    """
    return rpy_angles(_matrix(quaternion))
