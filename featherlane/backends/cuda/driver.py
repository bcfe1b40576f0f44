"""NVIDIA's driver: kernels loaded and launched, memory, copies, and the order of streams."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, partial
from threading import get_ident
from time import perf_counter
from typing import Any, NamedTuple

from featherlane.backends.cores import physical_cores
from featherlane.backends.cuda.driver_calls import DriverCalls
from featherlane.backends.cuda.driver_errors import MissingFunction
from featherlane.backends.cuda.jit_link import Capability, Linker, linker
from featherlane.backends.cuda.kernel_stage import BLOCK_BYTES, Launch
from featherlane.errors import DeviceError

LEGACY = 1  # the handle of the default stream, which 0 stands for too
PER_THREAD = 2  # the handle that stands for another stream in each thread
UNKNOWN = -1  # in the place of the number of a stream
NON_BLOCKING, NO_TIMING = 1, 2  # of streams that do not wait for the default one, and of events
LOG_BYTES = 8 << 10  # of what the driver's compiler may say about a text


class StreamState(NamedTuple):
    """number: one that no other stream of this process ever has, as handles do, `UNKNOWN` of one
    that is captured before its first call; capturing: whether the stream records a CUDA graph, in
    which nothing may be allocated or loaded.
    """

    number: int
    capturing: bool


class LoadedKernel(NamedTuple):
    """A kernel that can be launched on a device, and the module that it belongs to."""

    function: Any
    module: Any


class LoadedText(NamedTuple):
    """A text on a device, its kernels by name, and how long that took."""

    module: Any
    kernels: Mapping[str, LoadedKernel]
    seconds: float


class CompileTime(NamedTuple):
    """Of all texts that were loaded so far. seconds: of the calls by the clock; of_threads: of the
    threads together, more than `seconds` if the driver compiles texts side by side.
    """

    texts: int = 0
    seconds: float = 0.0
    of_threads: float = 0.0


class Properties(NamedTuple):
    """Of a device: multiprocessors, bytes of shared memory that a block may ask for, of memory."""

    multiprocessors: int
    shared: int
    memory: int


class Driver(DriverCalls):
    """The driver's functions that this package calls, on the primary context of each device."""

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[int, Properties] = {}
        self._numbers: dict[tuple[int, int, int], int] = {}  # by device, handle and thread
        self.compile_time = CompileTime()

    def ask(self, device: int, function: str, *arguments: Any) -> Any:
        """The result of any function of the driver, on a device: for benchmarks."""
        with self._on(device):
            return self._ask(function, *arguments)

    def device_of(self, address: int) -> int:
        """The number of the device whose memory an address belongs to."""
        what = self.cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with self._on_any():
            return int(self._ask("cuPointerGetAttribute", what, address))

    def properties(self, device: int) -> Properties:
        """The properties of a device on which mappings and workspaces depend."""
        if device not in self._properties:
            attribute, number = self.cuda.CUdevice_attribute, self._ask("cuDeviceGet", device)
            processors, shared = (
                int(self._ask("cuDeviceGetAttribute", what, number))
                for what in (
                    attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                    attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                )
            )
            memory = int(self._ask("cuDeviceTotalMem", number))
            self._properties[device] = Properties(processors, shared, memory)
        return self._properties[device]

    @cached_property
    def _linker(self) -> Linker | None:
        return linker()

    def _capability(self, device: int) -> Capability:
        """The compute capability of a device."""
        attribute, number = self.cuda.CUdevice_attribute, self._ask("cuDeviceGet", device)
        major, minor = (
            int(self._ask("cuDeviceGetAttribute", what, number))
            for what in (
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return major, minor

    def load(
        self, device: int, texts: Sequence[str], launches: Sequence[Launch]
    ) -> list[LoadedKernel]:
        """The kernel of each launch, whose texts threads compile for a device at the same time:
        with NVIDIA's linker where it is found, since the driver compiles one after the other.
        """
        begin = perf_counter()
        together = len(texts) > 1 and self._linker is not None
        capability = self._capability(device) if together else None
        shared = [dict[str, int]() for _ in texts]  # by text: bytes by the kernel's name
        for x in launches:
            shared[x.text][x.kernel] = max(x.shared, shared[x.text].get(x.kernel, 0))
        with ThreadPoolExecutor(physical_cores()) as threads:
            submit = partial(threads.submit, partial(self._loaded, device, capability))
            loading = [*map(submit, texts, shared)]
        done = [x.result() for x in loading if not x.exception()]
        if len(done) < len(texts):
            self.unload(device, [x.module for x in done])
        loaded = [x.result() for x in loading]  # or the error of the first that has one
        spent = len(texts), perf_counter() - begin, sum(x.seconds for x in done)
        with self._lock:
            self.compile_time = CompileTime(*map(operator.add, self.compile_time, spent))
        return [loaded[x.text].kernels[x.kernel] for x in launches]

    def _loaded(
        self, device: int, capability: Capability | None, text: str, shared: Mapping[str, int]
    ) -> LoadedText:
        """A text. capability: of the device where the linker shall compile it; shared: the bytes of
        shared memory that each of its kernels asks for.
        """
        begin, code = perf_counter(), None
        if capability is not None and self._linker is not None:
            code = self._linker.machine_code(text, capability)
        with self._on_whatever_is_captured(device):
            module = self._module(text, code)
            try:
                kernels = {name: self._kernel(module, name, size) for name, size in shared.items()}
            except DeviceError:
                with suppress(DeviceError):  # the first error tells more
                    self._ask("cuModuleUnload", module)
                raise
        return LoadedText(module, kernels, perf_counter() - begin)

    def _module(self, text: str, code: bytes | None = None) -> Any:
        """A text, compiled. code: its machine code, if there is one. Raises DeviceError with the
        sentence of the driver's compiler.
        """
        if code is not None:
            with suppress(DeviceError):  # a linker that is newer than the driver made it
                return self._ask("cuModuleLoadData", code)
        option, log = self.cuda.CUjit_option, bytearray(LOG_BYTES)
        options = {
            option.CU_JIT_ERROR_LOG_BUFFER: log,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES,
        }
        data, count = text.encode() + b"\0", len(options)
        return self._ask(
            "cuModuleLoadDataEx", data, count, [*options], [*options.values()], log=log
        )

    def _kernel(self, module: Any, name: str, shared: int) -> LoadedKernel:
        """A kernel, which may ask for its shared memory. It is loaded now, and not at its first
        launch, which may be captured by a graph: drivers since CUDA 12.4 have an option for that.
        """
        function = self._ask("cuModuleGetFunction", module, name.encode())
        if shared > BLOCK_BYTES:
            what = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._ask("cuFuncSetAttribute", function, what, shared)
        with suppress(MissingFunction):
            self._ask("cuFuncLoad", function)
        return LoadedKernel(function, module)

    def launch(
        self,
        device: int,
        stream: int,
        kernel: LoadedKernel,
        launch: Launch,
        states: int,
        values: Sequence[int],
    ) -> None:
        """Puts a kernel into a stream, for so many states. values: its arguments."""
        arguments = tuple(values), (ctypes.c_uint64,) * len(values)
        grid, block = (launch.blocks(states), 1, 1), (launch.threads, 1, 1)
        with self._on(device):
            self._ask(
                "cuLaunchKernel",
                kernel.function,
                *(*grid, *block, launch.shared, stream, arguments, 0),
            )

    def unload(self, device: int, modules: Iterable[Any]) -> None:
        """Unloads modules of which no kernel runs."""
        with self._on_whatever_is_captured(device):
            for module in modules:
                self._ask("cuModuleUnload", module)

    def state_of(self, device: int, stream: int) -> StreamState:
        """The number of a stream, and whether it is captured now. The driver does not tell the
        number of a captured stream, and ends its capture if it is asked: the number that its handle
        had before is taken.
        """
        key = device, stream, get_ident() if stream == PER_THREAD else 0
        with self._on(device):
            status = self._ask("cuStreamIsCapturing", stream)
            if status != self.cuda.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
                return StreamState(self._numbers.get(key, UNKNOWN), True)
            self._numbers[key] = number = int(self._ask("cuStreamGetId", stream))
        return StreamState(number, False)

    def follow(self, device: int, stream: int, before: int) -> None:
        """Lets what is put into a stream from now on wait for what another one has by now."""
        with self._on(device):
            event = self._ask("cuEventCreate", NO_TIMING)
            try:
                self._ask("cuEventRecord", event, before)
                self._ask("cuStreamWaitEvent", stream, event, 0)
            finally:
                self._ask("cuEventDestroy", event)

    def allocate(self, device: int, size: int) -> int:
        """The address of new memory."""
        with self._on_whatever_is_captured(device):
            return int(self._ask("cuMemAlloc", size))

    def free(self, device: int, address: int) -> None:
        """Gives memory back, once all work that was put into streams before is done."""
        with self._on_whatever_is_captured(device):
            self._ask("cuCtxSynchronize")
            self._ask("cuMemFree", address)

    def wait_for_all(self, device: int) -> None:
        """Waits until all work in all streams of a device is done."""
        with self._on_whatever_is_captured(device):
            self._ask("cuCtxSynchronize")

    def allocate_host(self, device: int, size: int) -> int:
        """The address of new memory of the host, from and to which a device copies by itself."""
        with self._on_whatever_is_captured(device):
            return int(self._ask("cuMemAllocHost", size))

    def free_host(self, device: int, address: int) -> None:
        """Gives memory of `allocate_host` back, which no copy reads or writes any more."""
        with self._on_whatever_is_captured(device):
            self._ask("cuMemFreeHost", address)

    def new_stream(self, device: int) -> int:
        """A new stream, which does not wait for the default one."""
        with self._on(device):
            return int(self._ask("cuStreamCreate", NON_BLOCKING))

    def free_stream(self, device: int, stream: int) -> None:
        """Gives a stream of `new_stream` back."""
        with self._on(device):
            self._ask("cuStreamDestroy", stream)

    def to_device(self, device: int, stream: int, address: int, host: int, size: int) -> None:
        """Puts a copy from memory of the host into a stream."""
        with self._on(device):
            self._ask("cuMemcpyHtoDAsync", address, host, size, stream)

    def to_host(self, device: int, stream: int, host: int, address: int, size: int) -> None:
        """Puts a copy to memory of the host into a stream."""
        with self._on(device):
            self._ask("cuMemcpyDtoHAsync", host, address, size, stream)

    def wait(self, device: int, stream: int) -> None:
        """Waits until all work in a stream is done."""
        with self._on_whatever_is_captured(device):
            self._ask("cuStreamSynchronize", stream)


@cache
def driver() -> Driver:
    """The driver of this process. Raises DeviceError if there is none."""
    return Driver()
