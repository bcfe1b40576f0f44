"""Inner loops of generalised ufuncs whose program is data that is set at run time."""

from __future__ import annotations

import ctypes
import math
import weakref
from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence

import numpy as np

from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.strides import power_of_two
from featherlane.backends.llvm import jit

# The global @work of such code: the addresses of its constants, its program and the program's end,
# and of the tables of the addresses of inputs and results; the bytes of a workspace, and the
# address of the initial contents of a workspace
LoopWords = namedtuple(
    "LoopWords", "constants program end inputs results bytes start", defaults=(0, 0, 0, 0, 0, 0, 0)
)


class LoadedLoop:
    """Such a loop in one dtype, in memory: `ufunc` calls it, `code` has its address.

    Its workspaces stay in a pool for later calls; @forget frees them when this object is freed.
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
        self.code = code = loaded(f"{key} {dtype}", source, ("loop", "work", "forget"))
        (ctypes.c_int64 * len(work)).from_address(code.address_of("work"))[:] = list(work)
        self.ufunc, self._alive = gufunc("loop", code.address, dtype, inputs, outputs)
        free = ctypes.CFUNCTYPE(None)(code.address_of("forget"))
        weakref.finalize(self, lambda free, code: free(), free, code)  # code: must outlive the call


class BatchEvaluator(ABC):
    """An evaluator (*arrays, out=) with the broadcasting of a generalised ufunc. It creates a loop
    for each number of states that fills the lanes of vectors in a different way.

    core: the dimensions of one state of the first result.
    """

    def __init__(self, dtype: np.dtype, core: int) -> None:
        self.dtype, self.width = dtype, jit.widest(dtype)
        self._core = core
        self._loops: dict[int, LoadedLoop] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        batch = math.prod(out[0].shape[: out[0].ndim - self._core])
        self.loop(batch).ufunc(*arrays, out=tuple(out))

    @property
    def single(self) -> LoadedLoop | None:
        """The loop for single states, if it exists."""
        return self._loops.get(1)

    def loop(self, batch: int) -> LoadedLoop:
        """The loop for so many states."""
        states = min(power_of_two(batch), self.width)
        if states not in self._loops:
            self._loops.setdefault(states, self._make(states))
        return self._loops[states]

    @abstractmethod
    def _make(self, states: int) -> LoadedLoop:
        """The loop for so many states at once, a power of two up to all lanes."""
