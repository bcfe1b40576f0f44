"""MuJoCo's numbers for the softness of constraint rows, as files have them."""

from __future__ import annotations

from typing import NamedTuple

Floats = tuple[float, ...]
SOLREF: Floats = (0.02, 1.0)
SOLIMP: Floats = (0.9, 0.95, 0.001, 0.5, 2.0)


class RowSoftness(NamedTuple):
    """The solref and solimp of a limit, of dry friction or of an equality constraint. margin: rad
    or m, within which a limit acts; torque_scale: m, of the rotation of a weld.
    """

    solref: Floats = SOLREF
    solimp: Floats = SOLIMP
    margin: float = 0.0
    torque_scale: float = 1.0


DEFAULT_SOFTNESS = RowSoftness()
