"""A GPU for the benchmarks: arrays on it, times of what is put into a stream, CUDA graphs.

For a dry run, `Emulated` stands for it: kernels run in the emulator, so that all results are
checked, and times mean nothing.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import featherlane as fl
from featherlane.backends.cuda import calls, copies, free_memory
from featherlane.backends.cuda import driver as drivers
from featherlane.backends.cuda.stages import GpuKernels

Work = Callable[[], object]
NAN = 0xFF  # a byte: numbers of such bytes are NaN, so that what a kernel leaves out is seen
WARM = 0.3  # seconds of work after which the clocks of an idle GPU have risen
HEAT = 256 << 20  # bytes that this work sets
REPLAYED = 8  # calls of a CUDA graph whose time is taken: fewer would time Python
LEAST, ROUNDS = 0.02, 5  # seconds of work that are timed, in so many rounds of which one is taken


class DeviceArray:
    """An array on the GPU, with the interface that all packages of arrays on GPUs share."""

    def __init__(self, card: Card, shape: tuple[int, ...], dtype: Any) -> None:
        self.card, self.shape, self.dtype = card, shape, np.dtype(dtype)
        self.nbytes = math.prod(shape) * self.dtype.itemsize
        self.address = card.api.allocate(0, max(self.nbytes, 16))
        card.fill(self.address, self.nbytes)

    @classmethod
    def of(cls, card: Card, data: np.ndarray) -> DeviceArray:
        """A copy of an array of the host."""
        array = cls(card, data.shape, data.dtype)
        card.copy_in(array.address, np.ascontiguousarray(data))
        return array

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
        data = np.empty(self.shape, self.dtype)
        self.card.copy_out(data, self.address)
        return data

    def free(self) -> None:
        self.card.api.free(0, self.address)


class Card:
    """The first GPU, with a stream of its own. Raises DeviceError where there is none."""

    emulated = False

    def __init__(self) -> None:
        self.api: Any = drivers.driver()
        self.stream = self.api.new_stream(0)

    @property
    def name(self) -> str:
        text = self.ask("cuDeviceGetName", 100, self.ask("cuDeviceGet", 0))
        return text.split(b"\0")[0].decode()

    def ask(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the driver."""
        return self.api.ask(0, function, *arguments)

    def attribute(self, name: str) -> int:
        """A figure of the device, by its name in the driver's API without CU_DEVICE_ATTRIBUTE_."""
        what = getattr(self.api.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.ask("cuDeviceGetAttribute", what, self.ask("cuDeviceGet", 0)))

    @contextmanager
    def loaded(self, kernels: GpuKernels) -> Iterator[Sequence[Any]]:
        """The kernel of each launch, compiled now, until the end of the context."""
        loaded = self.api.load(0, kernels.texts, kernels.launches)
        try:
            yield loaded
        finally:
            self.wait()
            self.api.unload(0, {id(x.module): x.module for x in loaded}.values())

    def resources(self, kernel: Any) -> dict[str, int]:
        """Registers and bytes of local memory, for spills, of a thread of a loaded kernel."""
        kinds = self.api.cuda.CUfunction_attribute
        asked = {
            "registers": kinds.CU_FUNC_ATTRIBUTE_NUM_REGS,
            "local_bytes": kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        }
        return {
            x: int(self.ask("cuFuncGetAttribute", what, kernel.function))
            for x, what in asked.items()
        }

    def copy_in(self, address: int, data: np.ndarray) -> None:
        """Copies an array there. It is there when this returns, also for other streams."""
        self.api.to_device(0, self.stream, address, data.ctypes.data, data.nbytes)
        self.wait()

    def copy_out(self, data: np.ndarray, address: int) -> None:
        """Fills an array of the host, when all work of the stream is done."""
        self.api.to_host(0, self.stream, data.ctypes.data, address, data.nbytes)
        self.wait()

    def fill(self, address: int, size: int, byte: int = NAN) -> None:
        """Sets all bytes of memory, in the order of the stream."""
        if size:
            self.ask("cuMemsetD8Async", address, byte, size, self.stream)

    def wait(self) -> None:
        self.api.wait(0, self.stream)

    def works(self) -> bool:
        """Whether the context is still there: after some errors it is lost to the process."""
        try:
            self.wait()
        except fl.DeviceError:
            return False
        return True

    def warm(self) -> None:
        """Works until the clocks have risen."""
        end = time.monotonic() + WARM
        address = self.api.allocate(0, HEAT)
        while time.monotonic() < end:
            for _ in range(20):
                self.fill(address, HEAT)
            self.wait()
        self.api.free(0, address)

    def seconds(self, work: Work, times: int) -> float:
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

    def median(self, work: Work) -> float:
        """Seconds of `work` on the GPU, as it is called."""
        once = self.seconds(work, 1)
        times = max(min(math.ceil(LEAST / ROUNDS / max(once, 1e-7)), 1000), 1)
        return float(np.median([self.seconds(work, times) for _ in range(ROUNDS)]))

    def launched(self, *works: Work) -> float:
        """Seconds of the launches of `works`, which take turns, one of them: they are replayed as a
        CUDA graph, or Python's 10 to 150 us a call would be what is timed.
        """
        for work in works:
            work()
        turns = max(REPLAYED // len(works), 1)
        calls = turns * len(works)
        with self.graph(lambda: [work() for _ in range(turns) for work in works]) as replay:
            return self.median(replay) / calls

    @contextmanager
    def graph(self, work: Work) -> Iterator[Work]:
        """Returns what replays `work` as a CUDA graph; its workspaces exist before."""
        mode = self.api.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.ask("cuStreamBeginCapture", self.stream, mode)
        try:
            work()
        except BaseException:
            with suppress(fl.DeviceError):  # the first error tells more
                self.ask("cuStreamEndCapture", self.stream)
            raise
        graph = self.ask("cuStreamEndCapture", self.stream)
        ready = self.ask("cuGraphInstantiate", graph, 0)
        try:
            yield lambda: self.ask("cuGraphLaunch", ready, self.stream)
            self.wait()
        finally:
            self.ask("cuGraphExecDestroy", ready)
            self.ask("cuGraphDestroy", graph)


class Emulated(Card):
    """The emulator in the place of a GPU."""

    emulated = True
    name = "the emulator (no GPU)"

    def __init__(self) -> None:
        sys.path.append(str(Path(__file__).parents[1] / "tests"))
        from gpu_emulator import EmulatedDriver

        self.api = EmulatedDriver()
        for module in (drivers, calls, copies, free_memory):
            module.driver = lambda: self.api  # type: ignore[attr-defined, assignment]
        self.stream = self.api.new_stream(0)

    def resources(self, kernel: Any) -> dict[str, int]:
        return {}

    def fill(self, address: int, size: int, byte: int = NAN) -> None:
        data = np.full(size, byte, np.uint8)
        if size:
            self.api.to_device(0, self.stream, address, data.ctypes.data, size)

    def warm(self) -> None:
        pass

    def seconds(self, work: Work, times: int) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def median(self, work: Work) -> float:
        return self.seconds(work, 1)

    def launched(self, *works: Work) -> float:
        return self.seconds(works[0], 1)

    @contextmanager
    def graph(self, work: Work) -> Iterator[Work]:
        yield work


def card(emulated: bool) -> Card:
    """The GPU, or for a dry run what stands for it. Raises DeviceError where there is no GPU."""
    return Emulated() if emulated else Card()
