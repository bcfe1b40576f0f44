"""NVIDIA's driver, through the package cuda-bindings: kernels loaded and launched, and memory for
what several kernels of a call share.

Nothing is imported before a function is called on a GPU's array. Work is put into the caller's
stream and never waited for.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from featherlane.backends.cuda.kernel import BLOCK_BYTES, Launch
from featherlane.errors import DeviceError


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
        except RuntimeError as error:  # cuda-bindings did not find the driver
            raise DeviceError(f"there is no NVIDIA driver that works here: {error}") from None
        self._contexts: dict[int, Any] = {}
        self._lock = threading.Lock()

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the driver and returns its result. Raises MemoryError or DeviceError
        for what the driver reports.
        """
        code, *results = getattr(self.cuda, function)(*arguments)
        if code != self.cuda.CUresult.CUDA_SUCCESS:
            name = getattr(code, "name", str(code))
            if name == "CUDA_ERROR_OUT_OF_MEMORY":
                raise MemoryError(f"the GPU has no memory left for {function}")
            raise DeviceError(f"NVIDIA's driver reports {name} in {function}")
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
        finally:
            self._ask("cuCtxPopCurrent")

    def device_of(self, address: int) -> int:
        """The number of the device whose memory an address belongs to."""
        what = self.cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._ask("cuPointerGetAttribute", what, address))

    def load(self, device: int, text: str, launches: Sequence[Launch]) -> list[Any]:
        """The kernels of a PTX text, compiled for a device."""
        more = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        with self._on(device):
            module = self._ask("cuModuleLoadData", text.encode() + b"\0")
            loaded = []
            for x in launches:
                loaded.append(self._ask("cuModuleGetFunction", module, x.kernel.encode()))
                if x.shared > BLOCK_BYTES:
                    self._ask("cuFuncSetAttribute", loaded[-1], more, x.shared)
            return loaded

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
        blocks = -(-states // launch.states)
        arguments = tuple(values), (ctypes.c_uint64,) * len(values)
        grid, block = (blocks, launch.columns, 1), (launch.threads, 1, 1)
        with self._on(device):
            self._ask("cuLaunchKernel", kernel, *grid, *block, launch.shared, stream, arguments, 0)

    def is_capturing(self, device: int, stream: int) -> bool:
        """Whether a stream records a CUDA graph, in which nothing may be allocated."""
        with self._on(device):
            status = self._ask("cuStreamIsCapturing", stream)
        return status != self.cuda.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def allocate(self, device: int, size: int) -> int:
        """The address of new memory."""
        with self._on(device):
            return int(self._ask("cuMemAlloc", size))

    def free(self, device: int, address: int) -> None:
        """Gives memory back, once all work that was put into streams before is done."""
        with self._on(device):
            self._ask("cuMemFree", address)


@cache
def driver() -> Driver:
    """The driver of this process. Raises DeviceError if there is none."""
    return Driver()
