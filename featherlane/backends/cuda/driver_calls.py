"""Calls functions of NVIDIA's driver through the package cuda-bindings, on the context of a device,
and turns error codes into exceptions.

Nothing is imported before a function is called on a GPU's array.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from featherlane.backends.cuda.driver_errors import MissingFunction, error_of
from featherlane.errors import DeviceError, clause


class DriverCalls:
    """The driver of this process, and the primary context of each device that was used."""

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
        self._lock = threading.Lock()
        self._thread = threading.local()  # its device is the one whose context `_on` has pushed

    def _ask(self, function: str, *arguments: Any, log: bytearray | None = None) -> Any:
        """Calls a function of the driver and returns its result. Raises MemoryError or DeviceError
        for what the driver reports. log: where the function writes why it failed.
        """
        call = getattr(self.cuda, function, None)
        if call is None:
            raise MissingFunction(f"cuda-bindings has no {function}; wanted 12.8 or later")
        try:
            code, *results = call(*arguments)
        except RuntimeError as error:  # cuda-bindings did not find the function
            raise MissingFunction(f"{clause(error)}; wanted a driver of CUDA 12 or later") from None
        except (KeyError, ValueError) as error:  # of a newer driver, or of arguments
            if isinstance(error, ValueError) and "CUresult" not in str(error):
                raise
            message = f"NVIDIA's driver reports in {function} what cuda-bindings does not know"
            raise DeviceError(f"{message}: {clause(error)}; wanted a newer cuda-bindings") from None
        if code != self.cuda.CUresult.CUDA_SUCCESS:
            text = (log or b"").split(b"\0")[0].decode(errors="replace")
            raise error_of(getattr(code, "name", str(code)), function, text)
        return results[0] if len(results) == 1 else results

    @contextmanager
    def _on(self, device: int) -> Iterator[None]:
        """A device's primary context, which other packages use too, as the current one. It stays so
        for what is asked meanwhile.
        """
        before = getattr(self._thread, "device", None)
        if before == device:
            yield
            return
        with self._lock:
            if device not in self._contexts:
                number = self._ask("cuDeviceGet", device)
                self._contexts[device] = self._ask("cuDevicePrimaryCtxRetain", number)
        self._ask("cuCtxPushCurrent", self._contexts[device])
        self._thread.device = device
        try:
            yield
        except BaseException:
            self._thread.device = before
            with suppress(DeviceError):  # the first error tells more
                self._ask("cuCtxPopCurrent")
            raise
        self._thread.device = before
        self._ask("cuCtxPopCurrent")

    on = _on

    @contextmanager
    def _on_whatever_is_captured(self, device: int) -> Iterator[None]:
        """The context of a device, to load kernels or allocate while streams are captured."""
        relaxed = self.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self._ask("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            with self._on(device):
                yield
        finally:
            self._ask("cuThreadExchangeStreamCaptureMode", before)

    @contextmanager
    def _on_any(self) -> Iterator[None]:
        """Some context: the current one of the thread, or that of a device that is in use, so that
        no context is created on a device without any work.
        """
        if int(self._ask("cuCtxGetCurrent")):
            yield
            return
        used = [*self._contexts]
        with self._on(used[0] if used else self._active()):
            yield

    def _active(self) -> int:
        """The first device whose primary context is in use, 0 if none is."""
        for device in range(self._ask("cuDeviceGetCount")):
            _, active = self._ask("cuDevicePrimaryCtxGetState", self._ask("cuDeviceGet", device))
            if active:
                return device
        return 0
