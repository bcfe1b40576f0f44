"""Calls of kernels: where they are loaded, and the chunks of states that their workspaces take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cuda.driver import Driver, driver
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.cuda.stages import Kernels
from featherlane.backends.cuda.workspaces import CAPTURED, LARGEST, workspaces
from featherlane.errors import DeviceError


class Rows(NamedTuple):
    """An array on a device: the address of the first state, and the bytes from state to state."""

    address: int
    stride: int


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
        loaded = self._kernels_on(api, device, stream)
        group = WARP * self.kernels.slots * self.dtype.itemsize  # bytes of scratch for 32 states
        groups = min(-(-states // WARP), max(LARGEST // group, 1)) if group else 0
        chunk = groups * WARP or max(states, 1)
        with workspaces.borrowed(api, device, stream, groups * group) as scratch:
            for first in range(0, states, chunk):
                count = min(chunk, states - first)
                rows = [(x.address + first * x.stride, x.stride) for x in arrays]
                values = [y for row in rows for y in row] + [scratch, count]
                for kernel, launch in zip(loaded, self.kernels.launches, strict=True):
                    own = [*values, *launch.arguments]
                    api.launch(device, stream, kernel, launch, count, own)

    def _kernels_on(self, api: Driver, device: int, stream: int) -> list[Any]:
        with self._lock:
            if device not in self._loaded:
                if api.is_capturing(device, stream):
                    raise DeviceError(CAPTURED)
                made = self.kernels
                self._loaded[device] = api.load(device, made.texts, made.launches)
            return self._loaded[device]
