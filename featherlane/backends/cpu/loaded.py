"""The inner loop of a generalised ufunc that is told at run time what to compute on."""

from __future__ import annotations

import ctypes
import weakref
from collections import namedtuple
from collections.abc import Callable, Sequence

import numpy as np

from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.linked import loaded

# The global @work of such code: the addresses of its program and of the program's data, the bytes
# of a workspace, and the address of what a new workspace contains
LoopWords = namedtuple(
    "LoopWords", "constants program end given results bytes start", defaults=(0, 0, 0, 0, 0, 0, 0)
)


class LoadedLoop:
    """Such a loop in one dtype, in memory: `ufunc` calls it, `code` has its address.

    Its workspaces wait for the next call in a pool; @forget frees them when this object goes.
    """

    def __init__(
        self,
        key: str,
        source: Callable[[], str],
        work: LoopWords,
        dtype: np.dtype,
        inputs: Sequence[tuple[int, ...]],
        outputs: Sequence[tuple[int, ...]],
    ) -> None:
        self.dtype = dtype
        self.code = code = loaded(key, source, ("loop", "work", "forget"))
        (ctypes.c_int64 * len(work)).from_address(code.place("work"))[:] = list(work)
        self.ufunc, self._alive = gufunc("loop", code.address, dtype, inputs, outputs)
        free = ctypes.CFUNCTYPE(None)(code.place("forget"))
        weakref.finalize(self, lambda free, code: free(), free, code)  # code: must be there still
