"""Functions of scalars as functions of arrays: one text for numbers, batches and traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from featherlane.api.argument_texts import with_arguments
from featherlane.api.compile import compile

ARGUMENTS = {
    "w": "(..., 3), rad. Rotation vectors",
    "v": "(..., 6), m/s and rad/s. Velocities [linear; angular] in the moving axes",
    "p": "(..., 3), m. The origins of the placed frames",
    "rpy": "(..., 3), rad. Roll, pitch and yaw about the fixed axes x, y and z, in this order",
    "s": "(...), from 0 to 1. The fraction of the way",
    "sphere": "(..., 4), m. Spheres [x y z r]",
    "capsule": "(..., 7), m. Capsules [x0 y0 z0 x1 y1 z1 r], whose ends may be one point",
    "plane": "(..., 4), d in m. Half-spaces [nx ny nz d] of the points with n . x <= d, |n| = 1",
    **dict.fromkeys(("R", "R0", "R1"), "(..., 3, 3), without units. Rotation matrices"),
    **dict.fromkeys(("T", "T0", "T1"), "(..., 4, 4), p in m. Placements [R p; 0 1]"),
    **dict.fromkeys(
        ("quaternion", "quaternion0", "quaternion1"),
        "(..., 4), without units. Quaternions x y z w of any length but 0",
    ),
    **dict.fromkeys(("a", "b"), "(..., 4). The first and the second of two"),
    "target": "the shape of the first argument. Where the way ends",
}
P = ParamSpec("P")
Result = TypeVar("Result")


def array_function(
    **shapes: tuple[int, ...],
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Makes a function of arrays with these shapes a function of arrays that also have leading
    dimensions, which broadcast. shapes: of each argument, in their order.

    The function runs once, on symbolic scalars, and is compiled at the first call. In a trace its
    operations are entered into the graph.
    """

    def decorated(function: Callable[P, Result]) -> Callable[P, Result]:
        @cache
        def compiled() -> Callable[..., Result]:
            return compile(function, shapes)

        @wraps(function)
        def of_arrays(*arrays: P.args, **named: P.kwargs) -> Result:
            return compiled()(*arrays, **named)

        texts = {name: ARGUMENTS[name] for name in shapes}
        of_arrays.__doc__ = with_arguments(str(function.__doc__), texts)
        return of_arrays

    return decorated
