"""NVIDIA's driver, through the package cuda-bindings: kernels loaded and launched, memory, copies,
and the order of streams.

Nothing is imported before a function is called on a GPU's array.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, NamedTuple

from featherlane.backends.cores import physical_cores
from featherlane.backends.cuda.kernel import BLOCK_BYTES, Launch
from featherlane.errors import DeviceError

LEGACY = 1  # the handle of the default stream, which 0 stands for too
NON_BLOCKING, NO_TIMING = 1, 2  # of streams that do not wait for the default one, and of events
LOST = (
    "ASSERT",
    "CONTEXT_IS_DESTROYED",
    "DEVICE_UNAVAILABLE",
    "ECC_UNCORRECTABLE",
    "HARDWARE_STACK_ERROR",
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "LAUNCH_FAILED",
    "LAUNCH_TIMEOUT",
    "MISALIGNED_ADDRESS",
    "NVLINK_UNCORRECTABLE",
    "UNKNOWN",
)
"""Errors of the driver after which a device, and what is in its memory, is lost to the process."""
ADVICE = {
    **dict.fromkeys(
        LOST,
        "the GPU is lost to this process, here or by an earlier kernel: start another process; "
        "arrays on the CPU still work",
    ),
    **dict.fromkeys(
        (
            "STREAM_CAPTURE_UNSUPPORTED",
            "STREAM_CAPTURE_IMPLICIT",
            "STREAM_CAPTURE_INVALIDATED",
            "STREAM_CAPTURE_ISOLATION",
            "STREAM_CAPTURE_MERGE",
            "STREAM_CAPTURE_UNJOINED",
            "STREAM_CAPTURE_WRONG_THREAD",
        ),
        "a CUDA graph is being captured: call the function once before, on the same stream",
    ),
    **dict.fromkeys(
        ("NO_BINARY_FOR_GPU", "INVALID_PTX", "UNSUPPORTED_PTX_VERSION"),
        "kernels need a GPU of compute capability 7.0 or more, and a driver of CUDA 12",
    ),
    "INVALID_DEVICE": "there is no GPU of this number",
    "INVALID_HANDLE": "the stream was destroyed, or is one of another GPU",
    "NOT_INITIALIZED": "a process cannot use GPUs that its parent used before the fork: start it "
    "with the method 'spawn'",
}
NO_MEMORY = (
    "the GPU has no memory left for {}: free arrays, or call fl.empty_cache(), which frees the "
    "workspaces, or pass fewer states"
)


class Properties(NamedTuple):
    """Of a device: multiprocessors, bytes of shared memory that a block may ask for, of memory."""

    multiprocessors: int
    shared: int
    memory: int


class Driver:
    """The driver's functions that this package calls, on the primary context of each device."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver
        except ImportError:
            raise DeviceError(
                "functions on GPUs need NVIDIA's driver API: pip install 'featherlane[cuda]'"
            ) from None
        self.cuda: Any = driver
        try:
            self._ask("cuInit", 0)
        except DeviceError as error:
            raise DeviceError(f"there is no NVIDIA driver that works here: {error}") from None
        self._contexts: dict[int, Any] = {}
        self._properties: dict[int, Properties] = {}
        self._lock = threading.Lock()

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the driver and returns its result. Raises MemoryError or DeviceError
        for what the driver reports.
        """
        try:
            code, *results = getattr(self.cuda, function)(*arguments)
        except RuntimeError as error:  # cuda-bindings did not find the function
            raise DeviceError(f"{error}; wanted a driver of CUDA 12 or later") from None
        if code != self.cuda.CUresult.CUDA_SUCCESS:
            name = getattr(code, "name", str(code))
            if name == "CUDA_ERROR_OUT_OF_MEMORY":
                raise MemoryError(NO_MEMORY.format(function))
            advice = ADVICE.get(name.removeprefix("CUDA_ERROR_"), "")
            told = f"NVIDIA's driver reports {name} in {function}"
            raise DeviceError(f"{told}: {advice}" if advice else told)
        return results[0] if len(results) == 1 else results

    @contextmanager
    def _on(self, device: int) -> Iterator[None]:
        """A device's primary context, which other packages use too, as the current one."""
        with self._lock:
            if device not in self._contexts:
                number = self._ask("cuDeviceGet", device)
                self._contexts[device] = self._ask("cuDevicePrimaryCtxRetain", number)
        self._ask("cuCtxPushCurrent", self._contexts[device])
        try:
            yield
        except BaseException:
            with suppress(DeviceError):  # the first error tells more
                self._ask("cuCtxPopCurrent")
            raise
        self._ask("cuCtxPopCurrent")

    @contextmanager
    def _on_whatever_is_captured(self, device: int) -> Iterator[None]:
        """A device where kernels or memory are made, whatever other streams capture meanwhile."""
        relaxed = self.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self._ask("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            with self._on(device):
                yield
        finally:
            self._ask("cuThreadExchangeStreamCaptureMode", before)

    def ask(self, device: int, function: str, *arguments: Any) -> Any:
        """The result of any function of the driver, on a device: for benchmarks."""
        with self._on(device):
            return self._ask(function, *arguments)

    def device_of(self, address: int) -> int:
        """The number of the device whose memory an address belongs to."""
        what = self.cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._ask("cuPointerGetAttribute", what, address))

    def properties(self, device: int) -> Properties:
        """What mappings and workspaces depend on."""
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

    def load(self, device: int, texts: Sequence[str], launches: Sequence[Launch]) -> list[Any]:
        """The kernels of PTX texts, which threads compile for a device at the same time."""
        with ThreadPoolExecutor(physical_cores()) as threads:
            modules = [*threads.map(partial(self._module, device), texts)]
        with self._on_whatever_is_captured(device):
            return [self._kernel(modules[x.text], x) for x in launches]

    def _kernel(self, module: Any, launch: Launch) -> Any:
        """A kernel, which may ask for its shared memory."""
        kernel = self._ask("cuModuleGetFunction", module, launch.kernel.encode())
        if launch.shared > BLOCK_BYTES:
            what = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._ask("cuFuncSetAttribute", kernel, what, launch.shared)
        return kernel

    def _module(self, device: int, text: str) -> Any:
        with self._on_whatever_is_captured(device):
            return self._ask("cuModuleLoadData", text.encode() + b"\0")

    def launch(
        self,
        device: int,
        stream: int,
        kernel: Any,
        launch: Launch,
        states: int,
        values: Sequence[int],
    ) -> None:
        """Puts a kernel into a stream, for so many states. values: its arguments."""
        arguments = tuple(values), (ctypes.c_uint64,) * len(values)
        grid, block = (launch.blocks(states), 1, 1), (launch.threads, 1, 1)
        with self._on(device):
            self._ask("cuLaunchKernel", kernel, *grid, *block, launch.shared, stream, arguments, 0)

    def is_capturing(self, device: int, stream: int) -> bool:
        """Whether a stream records a CUDA graph, in which nothing may be allocated."""
        with self._on(device):
            status = self._ask("cuStreamIsCapturing", stream)
        return status != self.cuda.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def number_of(self, device: int, stream: int) -> int:
        """A number of a stream that no other one of this process ever has, as handles do."""
        with self._on(device):
            return int(self._ask("cuStreamGetId", stream))

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

    def allocate_host(self, device: int, size: int) -> int:
        """The address of new memory of the host, from and to which a device copies by itself."""
        with self._on_whatever_is_captured(device):
            return int(self._ask("cuMemAllocHost", size))

    def free_host(self, device: int, address: int) -> None:
        """Gives memory of `allocate_host` back, which no copy reads or writes any more."""
        with self._on_whatever_is_captured(device):
            self._ask("cuMemFreeHost", address)

    def new_stream(self, device: int) -> int:
        """A stream of our own, which does not wait for the default one."""
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
        with self._on(device):
            self._ask("cuStreamSynchronize", stream)


@cache
def driver() -> Driver:
    """The driver of this process. Raises DeviceError if there is none."""
    return Driver()
