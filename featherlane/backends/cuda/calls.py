"""Calls of kernels: where they are loaded, their workspaces, chunks of states that these take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cuda.driver import Driver, driver
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.cuda.stages import Kernels
from featherlane.errors import DeviceError

LARGEST = 256 << 20  # bytes of a workspace: larger batches go in chunks


class Rows(NamedTuple):
    """An array on a device: the address of the first state, and the bytes from state to state."""

    address: int
    stride: int


class _Workspaces:
    """Memory for what the kernels of a call share, one for each stream of a device: work in a
    stream is done in its order, so that all functions can have the same. One that was too small is
    kept, since a CUDA graph may have recorded its address; sizes double.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[tuple[int, int], list[tuple[int, int]]] = {}  # sizes and addresses

    def of(self, api: Driver, device: int, stream: int, size: int) -> int:
        """The address of at least so many bytes. Raises DeviceError if they were to be allocated
        while the stream is captured, MemoryError if there are none.
        """
        with self._lock:
            found = self._found.setdefault((device, stream), [])
            if not found or found[-1][0] < size:
                if api.is_capturing(device, stream):
                    raise DeviceError(
                        "the stream is being captured, in which nothing can be allocated: call the "
                        "function once for as many states on this stream before the capture"
                    )
                size = min(max(size, 2 * found[-1][0] if found else 0), max(size, LARGEST))
                found.append((size, api.allocate(device, size)))
            return found[-1][1]


_workspaces = _Workspaces()


class DeviceFunction:
    """The kernels of a function in one dtype, on every device where they are called."""

    def __init__(self, make: Callable[[], Kernels], dtype: np.dtype) -> None:
        self._make, self.dtype = make, dtype
        self._loaded: dict[int, list[Any]] = {}
        self._lock = Lock()

    @cached_property
    def kernels(self) -> Kernels:
        return self._make()

    def call(self, device: int, stream: int, arrays: Sequence[Rows], states: int) -> None:
        """Puts the kernels into a stream. arrays: inputs, then outputs."""
        api = driver()
        loaded = self._kernels_on(api, device)
        group = WARP * self.kernels.slots * self.dtype.itemsize  # bytes of scratch for 32 states
        groups = min(-(-states // WARP), max(LARGEST // group, 1)) if group else 0
        scratch = _workspaces.of(api, device, stream, groups * group) if groups else 0
        chunk = groups * WARP or max(states, 1)
        for first in range(0, states, chunk):
            count = min(chunk, states - first)
            rows = [(x.address + first * x.stride, x.stride) for x in arrays]
            values = [y for row in rows for y in row] + [scratch, count]
            for kernel, launch in zip(loaded, self.kernels.launches, strict=True):
                api.launch(device, stream, kernel, launch, count, [*values, *launch.arguments])

    def _kernels_on(self, api: Driver, device: int) -> list[Any]:
        with self._lock:
            if device not in self._loaded:
                made = self.kernels
                self._loaded[device] = api.load(device, made.text, made.launches)
            return self._loaded[device]
