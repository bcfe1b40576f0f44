"""Functions of NumPy arrays that a GPU computes: `device="cuda"`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from featherlane.errors import did_you_mean
from featherlane.functions.function import Form, Function, KernelsByDtype

if TYPE_CHECKING:
    from featherlane.backends.cuda.calls import DeviceFunction


class CopiedFunction(Function):
    """A function whose NumPy arrays go to a GPU, and whose results come back.

    A call waits for its results. `threads=` has no effect. Arrays that live on a GPU are not
    copied, and are computed where they live.
    """

    def __init__(self, function: Function, device: int) -> None:
        def kernel(dtype: np.dtype) -> Any:
            return lambda *arrays, out: self._copied(arrays, out)

        self._function, self._device = function, device
        super().__init__(
            function.name,
            function.inputs,
            function.outputs,
            KernelsByDtype(kernel, function.kernels.graph, function.gpu),
            function.packed,
            function.explain,
            (copied, (function, f"cuda:{device}")),
        )

    def on_gpu(self, dtype: np.dtype) -> DeviceFunction:
        return self._function.on_gpu(dtype)

    def _threads(self, asked: int | None, states: int, form: Form) -> int:
        return 1

    def _copied(self, arrays: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
        """Fills the results of a call with arrays of one dtype."""
        from featherlane.backends.cuda.copies import copies

        core = len(next(iter(self.outputs.values())))
        lead = out[0].shape[: out[0].ndim - core]
        if not math.prod(lead):
            return
        pairs = zip(arrays, self.inputs.values(), strict=True)
        rows = [_rows_of(x, core, lead) for x, core in pairs]
        results = [x if x.flags.c_contiguous else np.empty(x.shape, x.dtype) for x in out]
        flat = [x.reshape(math.prod(lead), -1) for x in results]
        copies(self._device).run(self.on_gpu(out[0].dtype), rows, flat)
        for x, result in zip(out, results, strict=True):
            if x is not result:
                x[...] = result


def _rows_of(x: np.ndarray, core: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    """The numbers of each state as a row, or one row for all states."""
    one = math.prod(x.shape[: x.ndim - len(core)]) == 1
    whole = x if one else np.broadcast_to(x, lead + core)
    return whole.reshape(-1, math.prod(core))


def copied(function: Function, device: str | None) -> Function:
    """A function for NumPy arrays on a device: None and "cpu" leave it as it is, "cuda" and
    "cuda:1" copy the arrays to a GPU. Raises ValueError for other devices.
    """
    if device is None or device == "cpu":
        return function
    match = re.fullmatch(r"cuda(?::(\d{1,4}))?", device) if isinstance(device, str) else None
    if match is None:
        wanted = "wanted 'cpu', 'cuda' or, of several, 'cuda:1'"
        raise ValueError(f"device is {device!r}: {wanted}{did_you_mean(device, ('cpu', 'cuda'))}")
    return CopiedFunction(function, int(match[1] or 0))
