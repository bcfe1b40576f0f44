"""Checks of the numbers of contacts, which shapes, grounds and laws of contact share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from featherlane.errors import shown
from featherlane.robot.parts import Floats, floats
from featherlane.robot.row_softness import SOLREF, RowSoftness

FRICTION: Floats = (1.0, 0.005, 0.0001)  # MuJoCo's: sliding; torsional, m; rolling, m


def is_number(x: Any) -> bool:
    """Tells whether x is a real number of Python or NumPy, not a boolean."""
    return isinstance(x, Real) and not isinstance(x, bool)


def is_whole(x: Any) -> bool:
    """Tells whether x is a whole number of Python or NumPy, not a boolean."""
    return isinstance(x, Integral) and not isinstance(x, bool)


def real_array(value: Any) -> Any:
    """Returns an array of floats, or None if a value is not one of real numbers."""
    try:
        array = np.asarray(value)
        return array.astype(float) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        return None


def finite_numbers(value: Any) -> Floats | None:
    """Returns the numbers of a sequence or an array; None of anything else, or not finite."""
    array = real_array(value)
    if array is None or array.ndim != 1 or not np.isfinite(array).all():
        return None
    return floats(array)


def checked_friction(value: Any, of: str) -> Floats:
    """Returns three coefficients of friction from one or three numbers. of: the object in the
    message. Raises ValueError.
    """
    array = real_array(value)
    numbers = finite_numbers([value] if np.ndim(array) == 0 else value)
    if numbers is not None and len(numbers) == 1:
        numbers = (*numbers, *FRICTION[1:])
    if numbers is None or len(numbers) != 3 or min(numbers) < 0:
        raise ValueError(
            f"{of}: friction is {shown(value)}; wanted the sliding coefficient, or sliding, "
            "torsional and rolling ones, 0 or more; 0 is no friction, as is condim=1 of a shape"
        )
    return numbers


def checked_solref(value: Any, of: str) -> Floats:
    """Returns the two numbers of a solref. of: the object in the message. Raises ValueError."""
    x = finite_numbers(value)
    if x is None or len(x) != 2 or x == (0, 0) or (x[0] > 0) != (x[1] > 0):
        raise ValueError(
            f"{of}: solref is {shown(value)}; wanted 2 finite numbers, as in MJCF: time constant, "
            "s, and damping ratio, both positive, or -stiffness and -damping, both negative"
        )
    return x


def checked_solimp(value: Any, of: str) -> Floats:
    """Returns the five numbers of a solimp. of: the object in the message. Raises ValueError."""
    x = finite_numbers(value)
    if x is None or len(x) != 5 or x != clipped_solimp(x):
        raise ValueError(
            f"{of}: solimp is {shown(value)}; wanted 5 finite numbers, as in MJCF: two impedances "
            "from 0 to 1, width, m, midpoint from 0 to 1, and power, 1 or more"
        )
    return x


def checked_points(value: Any, of: str) -> tuple[Floats, ...]:
    """Returns points. of: the hull in the message. Raises ValueError."""
    x = real_array(value)
    if x is None or not np.isfinite(x).all() or (x.size and x.shape[1:] != (3,)):
        raise ValueError(
            f"{of}: points is {shown(value)}; wanted (n, 3) finite numbers, m, in the shape's frame"
        )
    return tuple(map(floats, x))


def clipped_solimp(x: Floats) -> Floats:
    """Returns a solimp within the ranges that MuJoCo clips it to."""
    low, high, middle = (min(max(share, 0.0), 1.0) for share in (x[0], x[1], x[3]))
    return low, high, max(x[2], 0.0), middle, max(x[4], 1.0)


def row_softness(solref: Any, solimp: Any) -> RowSoftness:
    """Returns the softness of a row of a file as MuJoCo takes it."""
    return RowSoftness(usable_solref(floats(solref)), clipped_solimp(floats(solimp)))


def usable_solref(x: Floats) -> Floats:
    """Returns a solref of a file as MuJoCo takes it: its default for one with mixed signs. Zeros,
    which exert no forces, are the least stiffness.
    """
    if (x[0] > 0) != (x[1] > 0):
        return SOLREF
    return x if any(x) else (-1e-15, -1e-15)
