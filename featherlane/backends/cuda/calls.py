"""Calls of kernels: where they are loaded, and the chunks of states that their workspaces take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda.driver import Driver, Properties, StreamState, driver
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.backends.cuda.unloading import Resident, unloading
from featherlane.backends.cuda.workspaces import CAPTURED, LARGEST, workspaces
from featherlane.errors import DeviceError

SHARE = 64  # workspaces may take this part of a large device's memory, so that all of it has work


class Rows(NamedTuple):
    """An array on a device: the address of the first state, and the bytes from state to state."""

    address: int
    stride: int


class DeviceFunction:
    """The kernels of a function in one dtype, on every device where they are called. make: gives
    those of a mapping; choose: the mapping for so many states on a device, of these kernels. They
    are unloaded after this object is collected.
    """

    def __init__(
        self,
        make: Callable[[str], GpuKernels],
        choose: Callable[[Callable[[str], GpuKernels], int, Properties], str],
        dtype: np.dtype,
    ) -> None:
        self._make, self._choose, self.dtype = make, choose, dtype
        self._kernels: dict[str, GpuKernels] = {}
        self._residents: dict[tuple[int, str], Resident] = {}
        self._lock = Lock()

    def kernels(self, mapping: str) -> GpuKernels:
        """The kernels of a mapping."""
        if mapping not in self._kernels:
            self._kernels.setdefault(mapping, self._make(mapping))
        return self._kernels[mapping]

    def mapping(self, device: int, states: int) -> str:
        """The mapping that a call with so many states takes."""
        return self._choose(self.kernels, states, driver().properties(device))

    def call(self, device: int, stream: int, arrays: Sequence[Rows], states: int) -> None:
        """Puts the kernels into a stream. arrays: inputs, then outputs."""
        api, mapping = driver(), self.mapping(device, states)
        with api.on(device):  # once for all that is asked
            self._put(api, mapping, device, stream, arrays, states)

    def _put(
        self,
        api: Driver,
        mapping: str,
        device: int,
        stream: int,
        arrays: Sequence[Rows],
        states: int,
    ) -> None:
        """Puts the kernels of a mapping into a stream, in chunks that the workspace takes."""
        state = api.state_of(device, stream)
        resident = self._resident(api, device, stream, mapping, state)
        resident.put_into(state)
        kernels = self._kernels[mapping]
        group = WARP * kernels.slots * self.dtype.itemsize  # bytes of scratch for 32 states
        largest = max(LARGEST, api.properties(device).memory // SHARE)
        groups = min(-(-states // WARP), max(largest // group, 1)) if group else 0
        chunk = groups * WARP or max(states, 1)
        with workspaces.borrowed(api, device, state, groups * group) as scratch:
            for first in range(0, states, chunk):
                count = min(chunk, states - first)
                rows = [(x.address + first * x.stride, x.stride) for x in arrays]
                values = [y for row in rows for y in row] + [scratch, count]
                for kernel, launch in zip(resident.kernels, kernels.launches, strict=True):
                    arguments = [*values, *launch.arguments]
                    api.launch(device, stream, kernel, launch, count, arguments)

    def _resident(
        self, api: Driver, device: int, stream: int, mapping: str, state: StreamState
    ) -> Resident:
        """The kernels of a mapping on a device, loaded at the first call."""
        with self._lock:
            if (device, mapping) not in self._residents:
                if state.capturing:
                    raise DeviceError(CAPTURED)
                unloading.behind(api, device, stream)
                kernels = self.kernels(mapping)
                resident = Resident(device, api.load(device, kernels.texts, kernels.launches))
                unloading.when_collected(self, resident)
                self._residents[device, mapping] = resident
            return self._residents[device, mapping]
