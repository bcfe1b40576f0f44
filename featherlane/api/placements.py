"""Placements (..., 4, 4), [R p; 0 1], as `Model.frame_placement` gives them, and motions (..., 6),
[linear; angular]: the Lie group SE(3), its exponential, logarithm and Jacobians.

A function takes NumPy's arrays with any leading dimensions, arrays of other packages, and traced
arrays. It and all its derivatives are finite and exact at the identity and up to half a turn.
"""

# Callers pass arrays; the functions themselves run on symbolic scalars in nested sequences.
# mypy: disable-error-code="arg-type, return-value, index, misc"

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.api.array_functions import array_function
from featherlane.api.rotations import MATRIX, VECTOR, logarithm
from featherlane.functions.array_like import ArrayLike
from featherlane.robot import exponential
from featherlane.robot.spatial import matmul, matvec, transpose

PLACEMENT, MOTION = (4, 4), (6,)


def _rows(R: Any, p: Any) -> Any:
    upper = [[*row, x] for row, x in zip(R, p, strict=True)]
    return [*upper, [0.0, 0.0, 0.0, 1.0]]


def _parts(T: Any) -> tuple[Any, Any]:
    """Returns R and p."""
    return [[*row[:3]] for row in T[:3]], [row[3] for row in T[:3]]


def _inverse(T: Any) -> Any:
    R, p = _parts(T)
    return _rows(transpose(R), -matvec(transpose(R), p))


def _exponential(v: Any) -> Any:
    u, w = [*v[:3]], [*v[3:]]
    return _rows(exponential.turn_matrix(w), exponential.displacement(u, w))


def _logarithm(T: Any) -> Any:
    R, p = _parts(T)
    w = logarithm(R)
    return [*exponential.velocity_of(p, w), *w]


def _relative(T0: Any, T1: Any) -> Any:
    """Returns T0^-1 T1."""
    (R0, p0), (R1, p1) = _parts(T0), _parts(T1)
    back = transpose(R0)
    return _rows(matmul(back, R1), matvec(back, [x - y for x, y in zip(p1, p0, strict=True)]))


def _product(T0: Any, T1: Any) -> Any:
    (R0, p0), (R1, p1) = _parts(T0), _parts(T1)
    return _rows(matmul(R0, R1), matvec(R0, p1) + p0)


@array_function(R=MATRIX, p=VECTOR)
def placement_of(R: ArrayLike, p: ArrayLike) -> np.ndarray:
    """Returns the placements (..., 4, 4) [R p; 0 1] of rotations R (..., 3, 3) and origins p
    (..., 3), m.

    Examples:
        >>> fl.placement_of(np.eye(3), [0.1, 0.2, 0.3])
        array([[1. , 0. , 0. , 0.1],
               [0. , 1. , 0. , 0.2],
               [0. , 0. , 1. , 0.3],
               [0. , 0. , 0. , 1. ]])
    """
    return _rows(R, p)


@array_function(T=PLACEMENT)
def inverse(T: ArrayLike) -> np.ndarray:
    """Returns the inverses (..., 4, 4) of placements T (..., 4, 4): [R^T, -R^T p; 0 1].

    Examples:
        >>> T = fl.exp6([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
        >>> np.allclose(fl.inverse(T) @ T, np.eye(4))
        True
    """
    return _inverse(T)


@array_function(T=PLACEMENT)
def adjoint(T: ArrayLike) -> np.ndarray:
    """Returns the adjoint matrices Ad (..., 6, 6) of placements T (..., 4, 4): Ad v is a velocity
    v = [linear; angular] of the placed frame in the axes and at the origin of the reference frame
    (`SE3.action` in Pinocchio). Ad^T takes forces [force; moment] the other way.

    Examples:
        >>> T, v = fl.exp6([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), np.arange(6.0)
        >>> np.allclose(T @ fl.exp6(v) @ fl.inverse(T), fl.exp6(fl.adjoint(T) @ v))
        True
    """
    return exponential.adjoint(*_parts(T))


@array_function(v=MOTION)
def exp6(v: ArrayLike) -> np.ndarray:
    """Returns the placements (..., 4, 4) after one second at the velocity v (..., 6), m/s and
    rad/s, [linear; angular] in the moving axes: the exponential of SE(3).

    Examples:
        >>> fl.exp6([1.0, 0.0, 0.0, 0.0, 0.0, np.pi])[:2, 3].round(3) + 0.0
        array([0.   , 0.637])
    """
    return _exponential(v)


@array_function(T=PLACEMENT)
def log6(T: ArrayLike) -> np.ndarray:
    """Returns the velocities (..., 6), [linear; angular] in m/s and rad/s, that lead to placements
    T (..., 4, 4) in one second: the logarithm of SE(3), with angles of at most pi.

    Examples:
        >>> v = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
        >>> np.allclose(fl.log6(fl.exp6(v)), v)
        True
    """
    return _logarithm(T)


@array_function(v=MOTION)
def exp6_jacobian(v: ArrayLike) -> np.ndarray:
    """Returns the right Jacobians Jr (..., 6, 6) of `exp6` at v (..., 6), [linear; angular]:
    exp6(v + dv) = exp6(v) exp6(Jr dv) to first order (`Jexp6` in Pinocchio).

    Examples:
        >>> np.allclose(fl.exp6_jacobian(np.zeros(6)), np.eye(6))
        True
    """
    return exponential.motion_jacobian(v[:3], v[3:])


@array_function(v=MOTION)
def exp6_jacobian_inverse(v: ArrayLike) -> np.ndarray:
    """Returns the inverses (..., 6, 6) of `exp6_jacobian` at v (..., 6), for |angular| < 2 pi: with
    v = log6(T), the derivative of log6(T exp6(dv)) by dv (`Jlog6` in Pinocchio).

    Examples:
        >>> v = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
        >>> np.allclose(fl.exp6_jacobian(v) @ fl.exp6_jacobian_inverse(v), np.eye(6))
        True
    """
    return exponential.motion_jacobian_inverse(v[:3], v[3:])


@array_function(T=PLACEMENT, target=PLACEMENT)
def placement_error(T: ArrayLike, target: ArrayLike) -> np.ndarray:
    """Returns the velocities (..., 6), [linear; angular] in m/s and rad/s in the axes of T, that
    lead from placements T (..., 4, 4) to target (..., 4, 4) in one second: log6(T^-1 target).

    Examples:
        >>> T, target = fl.exp6(np.random.default_rng(0).normal(size=(2, 6)))
        >>> np.allclose(T @ fl.exp6(fl.placement_error(T, target)), target)
        True
    """
    return _logarithm(_relative(T, target))


@array_function(T0=PLACEMENT, T1=PLACEMENT, s=())
def interpolate_placements(T0: ArrayLike, T1: ArrayLike, s: ArrayLike) -> np.ndarray:
    """Returns the placements (..., 4, 4) on the screw motion from T0 (..., 4, 4) at s = 0 to T1
    (..., 4, 4) at s = 1, with one velocity all the way: T0 exp6(s log6(T0^-1 T1)).

    Examples:
        >>> T0, T1 = np.eye(4), fl.exp6([0.2, 0.0, 0.0, 0.0, 0.0, 1.0])
        >>> half = fl.exp6([0.1, 0.0, 0.0, 0.0, 0.0, 0.5])
        >>> np.allclose(fl.interpolate_placements(T0, T1, 0.5), half)
        True
    """
    v = _logarithm(_relative(T0, T1))
    return _product(T0, _exponential([s * x for x in v]))
