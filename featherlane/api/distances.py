"""Signed distances of spheres to spheres, capsules and planes: for costs that keep robots clear of
obstacles and of themselves.

A sphere is [x y z r], a capsule [x0 y0 z0 x1 y1 z1 r], the points within r of a segment. Distances
are negative where the bodies overlap, by the depth. Their derivatives have length 1, but for
concentric bodies, where they are 0 instead of without a direction.
"""

# Callers pass arrays; the functions themselves run on symbolic scalars in nested sequences.
# mypy: disable-error-code="arg-type, return-value"

from __future__ import annotations

import numpy as np

from featherlane.algorithms import distances
from featherlane.api.array_functions import array_function
from featherlane.functions.array_like import ArrayLike

SPHERE, CAPSULE, PLANE = (4,), (7,), (4,)


@array_function(a=SPHERE, b=SPHERE)
def sphere_sphere_distance(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Returns the signed distances (...), m, of spheres a and b (..., 4), [x y z r].

    Examples:
        >>> fl.sphere_sphere_distance([0.0, 0.0, 0.0, 0.125], [0.0, 0.5, 0.0, 0.25])
        array(0.125)
    """
    return distances.sphere_sphere(a, b)


@array_function(sphere=SPHERE, capsule=CAPSULE)
def sphere_capsule_distance(sphere: ArrayLike, capsule: ArrayLike) -> np.ndarray:
    """Returns the signed distances (...), m, of spheres (..., 4), [x y z r], and capsules (..., 7),
    [x0 y0 z0 x1 y1 z1 r], whose two ends may be one point.

    Examples:
        >>> upright = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.1]
        >>> fl.sphere_capsule_distance([[0.5, 0.0, 0.4, 0.1], [0.0, 0.0, 1.5, 0.1]], upright)
        array([0.3, 0.3])
    """
    return distances.sphere_capsule(sphere, capsule)


@array_function(sphere=SPHERE, plane=PLANE)
def sphere_plane_distance(sphere: ArrayLike, plane: ArrayLike) -> np.ndarray:
    """Returns the signed distances (...), m, of spheres (..., 4), [x y z r], and planes (..., 4),
    [nx ny nz d] with a normal of length 1: the half-space of points x with n . x <= d is solid.

    Examples:
        >>> floor = [0.0, 0.0, 1.0, 0.0]
        >>> fl.sphere_plane_distance([0.3, 0.2, 0.5, 0.1], floor)
        array(0.4)
    """
    return distances.sphere_plane(sphere, plane)
