"""Functions compiled before they are called."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from featherlane.api.compiled import Compiled
from featherlane.api.named_variants import variant_named
from featherlane.functions.function import Function
from featherlane.functions.functions_of import usual_functions
from featherlane.functions.table import TABLE, Variant
from featherlane.program.lower import checked_dtype

THREADS = 3  # one traces, the others wait for code: the functions come in their order


class FirstCalls(Compiled):
    """The method that compiles functions of a `featherlane.Model` before they are called."""

    def compile(
        self,
        functions: Iterable[str] | None = None,
        *,
        dtype: Any = np.float64,
        derivatives: bool = False,
        single: bool = False,
    ) -> dict[str, float]:
        """Compiles functions in advance, several at once on all cores, so that their first calls
        take no longer than others. Returns the seconds after which each was ready.

        functions: names, by default the seven dynamics functions, or those of them that a robot
        with loops or massless joints has, with a warning that names the others; after a colon
        follows a frame or parameter ("jacobian:tool0", or with axes "jacobian:tool0:world"), an
        integrator ("step:rk4"), or a number of steps ("rollout:32"). derivatives: also compile
        their derivatives ("forward_dynamics_derivatives", or "linearize_step" for "step"). single:
        also compile the kernels for calls with a single state. The code is stored in the cache on
        disk, from which later processes load it. Raises ValueError for an unknown function,
        TypeError for a single name that is not in a list.

        Examples:
            >>> seconds = arm.compile(["inverse_dynamics", "step:rk4"])
            >>> list(seconds)
            ['inverse_dynamics', 'step:rk4']
        """
        if isinstance(functions, str):
            raise TypeError(f"functions is {functions!r}: wanted a list of names")
        chosen = usual_functions(self) if functions is None else functions
        names, kind = dict.fromkeys(chosen), checked_dtype(dtype)
        if derivatives:
            known = [TABLE[name].derivatives for name in names if name in TABLE]
            names |= dict.fromkeys(filter(None, known))
        variants = {name: variant_named(self, name) for name in names}
        compiled = {name: self._function(variant) for name, variant in variants.items()}
        return _compiled(variants, compiled, kind, single)


def _compiled(
    variants: dict[str, Variant], compiled: dict[str, Function], dtype: np.dtype, single: bool
) -> dict[str, float]:
    """Compiles functions in threads: while one of them is traced, code of others is generated. The
    shortest come first, so that there is soon something to generate.
    """
    seconds = dict.fromkeys(compiled, 0.0)

    def one(name: str) -> None:
        start = time.perf_counter()
        compiled[name].prepare(dtype, single)
        seconds[name] = time.perf_counter() - start

    order = sorted(compiled, key=lambda name: "derivatives" in variants[name].name)
    with ThreadPoolExecutor(THREADS) as threads:
        [*threads.map(one, order)]
    return seconds
