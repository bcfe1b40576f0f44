"""Modules of functions that were collected: they are unloaded when none of their kernels runs.

A finalizer may run in any thread and amid any line, a capture of a CUDA graph included, in which
nothing may wait. So it only puts the kernels of its function onto a list. Where the driver may be
asked to wait, at the next first call of a function, they are unloaded.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from featherlane.backends.cuda.driver import Driver, LoadedKernel, StreamState
from featherlane.errors import DeviceError


@dataclass(eq=False)
class Resident:
    """The kernels of a function in the memory of a device. streams: the numbers of those in which
    they may still run; recorded: a CUDA graph has them, so that they are kept for good.
    """

    device: int
    kernels: Sequence[LoadedKernel]
    streams: set[int] = field(default_factory=set)
    recorded: bool = False

    def put_into(self, stream: StreamState) -> None:
        """Notes that the kernels are put into a stream."""
        if stream.capturing:
            self.recorded = True
        else:
            self.streams.add(stream.number)

    @property
    def modules(self) -> list[Any]:
        """The modules of the kernels, each once."""
        return [*{id(x.module): x.module for x in self.kernels}.values()]


class Unloading:
    """The kernels of collected functions."""

    def __init__(self) -> None:
        self._abandoned = deque[Resident]()  # without a lock: a finalizer may interrupt any line

    def when_collected(self, owner: object, resident: Resident) -> None:
        """Lets kernels be unloaded after their owner is collected; not when the process ends."""
        weakref.finalize(owner, self._abandoned.append, resident).atexit = False

    def behind(self, api: Driver, device: int, stream: int) -> None:
        """Waits for a stream that is not captured if collected functions ran there, and unloads
        those that run in no other one.
        """
        if not self._abandoned:
            return
        here, number = self._taken(device), api.state_of(device, stream).number
        if any(number in x.streams for x in here):
            with suppress(DeviceError):
                api.wait(device, stream)
                for x in here:
                    x.streams.discard(number)
        for x in here:
            if x.streams:
                self._abandoned.append(x)
            else:
                self._unload(api, x)

    def empty(self, api: Driver) -> None:
        """Waits for all devices that have kernels of collected functions, and unloads those."""
        for device in {x.device for x in [*self._abandoned]}:
            with suppress(DeviceError):  # some stream is captured, or the device is lost
                api.wait_for_all(device)
                for x in self._taken(device):
                    self._unload(api, x)

    def _taken(self, device: int) -> list[Resident]:
        """Takes those of a device off the list, and drops those that a graph has recorded."""
        taken = list[Resident]()
        for _ in range(len(self._abandoned)):
            with suppress(IndexError):  # another thread took it
                x = self._abandoned.popleft()
                if x.device != device:
                    self._abandoned.append(x)
                elif not x.recorded:
                    taken.append(x)
        return taken

    def _unload(self, api: Driver, resident: Resident) -> None:
        with suppress(DeviceError):  # the device is lost, and its memory with it
            api.unload(resident.device, resident.modules)


unloading = Unloading()
