"""Heights and slopes of a bilinear height field on a regular grid."""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.algorithms.common import Scalars
from featherlane.robot.ground import HeightField
from featherlane.robot.spatial import dot
from featherlane.scalar import Scalar, maximum, minimum, select

Heights = Sequence[Sequence[Scalar]]


def height_and_slopes(
    field: HeightField, heights: Heights, x: Scalar, y: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """Returns the height at a point, and its derivatives by x and by y. Beyond the grid the height
    is that of the nearest edge.
    """
    across, slopes_across = _weights(field.x, field.shape[0], x)
    along, slopes_along = _weights(field.y, field.shape[1], y)
    columns = [*zip(*heights, strict=True)]
    values = [dot(across, column) for column in columns]
    slopes = [dot(slopes_across, column) for column in columns]
    return dot(along, values), dot(along, slopes), dot(slopes_along, values)


def _weights(ends: tuple[float, float], count: int, x: Scalar) -> tuple[Scalars, Scalars]:
    """Returns the weights of a line of heights that interpolate them at x, and their derivatives.
    The weight of a height falls from 1 to 0 at both neighbours.
    """
    rate = (count - 1) / (ends[1] - ends[0])
    s = (x - ends[0]) * rate
    inside = minimum(maximum(s, 0.0), count - 1.0)
    offsets = [inside - float(k) for k in range(count)]
    weights = [maximum(1.0 - maximum(d, -d), 0.0) for d in offsets]
    begun = [select(s < float(k), 0.0, rate) for k in range(count)]
    cells = [begun[k] - begun[k + 1] for k in range(count - 1)]  # rate in the cell of x, else 0
    derivatives = [a - b for a, b in zip([0.0, *cells], [*cells, 0.0], strict=True)]
    return weights, derivatives
