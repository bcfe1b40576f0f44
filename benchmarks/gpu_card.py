"""A GPU for the benchmarks: arrays on it, times of what is put into a stream, CUDA graphs.

Where there is none, `Emulated` stands for it: kernels run in the emulator, so that all results are
checked, and times mean nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import featherlane as fl
from featherlane.backends.cuda import calls, copies, kept
from featherlane.backends.cuda import driver as drivers


class DeviceArray:
    """An array on the GPU, with the interface that all packages of arrays on GPUs share."""

    def __init__(self, card: Card, data: np.ndarray) -> None:
        data = np.ascontiguousarray(data)
        self.card, self.shape, self.dtype = card, data.shape, data.dtype
        self.address = card.api.allocate(0, max(data.nbytes, 16))
        card.copy_in(self.address, data)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.card.stream,
            "version": 3,
        }

    def numpy(self) -> np.ndarray:
        """Its numbers, when all work is done."""
        found = np.empty(self.shape, self.dtype)
        self.card.copy_out(found, self.address)
        return found

    def free(self) -> None:
        self.card.api.free(0, self.address)


class Card:
    """The first GPU, with a stream of its own."""

    emulated = False

    def __init__(self) -> None:
        self.api = drivers.driver()
        self.stream = self.api.new_stream(0)

    @property
    def name(self) -> str:
        text = self.ask("cuDeviceGetName", 100, self.ask("cuDeviceGet", 0))
        return text.split(b"\0")[0].decode()

    def ask(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the driver."""
        return self.api.ask(0, function, *arguments)

    def copy_in(self, address: int, data: np.ndarray) -> None:
        self.ask("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)

    def copy_out(self, data: np.ndarray, address: int) -> None:
        self.wait()
        self.ask("cuMemcpyDtoH", data.ctypes.data, address, data.nbytes)

    def wait(self) -> None:
        self.api.wait(0, self.stream)

    def seconds(self, work: Callable[[], object], times: int) -> float:
        """The time of `work` on the GPU, the mean of so many calls between two events."""
        begin, end = self.ask("cuEventCreate", 0), self.ask("cuEventCreate", 0)
        self.ask("cuEventRecord", begin, self.stream)
        for _ in range(times):
            work()
        self.ask("cuEventRecord", end, self.stream)
        self.ask("cuEventSynchronize", end)
        seconds = self.ask("cuEventElapsedTime", begin, end) / 1e3 / times
        for event in (begin, end):
            self.ask("cuEventDestroy", event)
        return float(seconds)

    @contextmanager
    def graph(self, work: Callable[[], object]) -> Iterator[Callable[[], object]]:
        """What replays `work` as a CUDA graph. Its workspaces must have been made before."""
        mode = self.api.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.ask("cuStreamBeginCapture", self.stream, mode)
        try:
            work()
        finally:
            graph = self.ask("cuStreamEndCapture", self.stream)
        ready = self.ask("cuGraphInstantiate", graph, 0)
        yield lambda: self.ask("cuGraphLaunch", ready, self.stream)
        self.wait()
        self.ask("cuGraphExecDestroy", ready)
        self.ask("cuGraphDestroy", graph)


class Emulated(Card):
    """The emulator in the place of a GPU."""

    emulated = True
    name = "the emulator (no GPU)"

    def __init__(self) -> None:
        from featherlane.backends.cuda.emulated_driver import EmulatedDriver

        self.api: Any = EmulatedDriver()
        for module in (drivers, calls, copies, kept):
            module.driver = lambda: self.api  # type: ignore[attr-defined, assignment]
        self.stream = self.api.new_stream(0)

    def copy_in(self, address: int, data: np.ndarray) -> None:
        self.api.to_device(0, self.stream, address, data.ctypes.data, data.nbytes)

    def copy_out(self, data: np.ndarray, address: int) -> None:
        self.api.to_host(0, self.stream, data.ctypes.data, address, data.nbytes)

    def wait(self) -> None:
        pass

    def seconds(self, work: Callable[[], object], times: int) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    @contextmanager
    def graph(self, work: Callable[[], object]) -> Iterator[Callable[[], object]]:
        yield work


def card() -> Card:
    """The GPU, or what stands for it."""
    try:
        return Card()
    except fl.DeviceError:
        return Emulated()
