"""Functions of scalars as functions of arrays: one text for numbers, batches and traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from featherlane.api.compile import compile

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

        return of_arrays

    return decorated
