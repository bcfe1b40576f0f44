"""A driver of two devices whose kernels the emulator runs: for tests, and where there is no GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from featherlane.backends.cuda.driver import LoadedKernel, Properties, StreamState
from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.errors import DeviceError
from gpu_emulator.launch import Launched
from gpu_emulator.memory import FIRST, EmulationError, Memory


class EmulatedDriver:
    """It keeps what it was asked for, and refuses memory or launches where it is told so."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.device: dict[int, int] = {}  # of allocations, by address
        self.launched = list[tuple[int, int, str, int]]()  # device, stream, kernel, states
        self.loaded, self.allocated, self.freed = list[int](), list[int](), list[int]()
        self.unloaded = list[tuple[int, str]]()  # device, text
        self.order, self.copied = list[tuple[int, int]](), list[tuple[int, int, int]]()
        self.capturing = self.full = self.lost = False
        self.current = 0  # the package's current device
        self.host: dict[int, Any] = {}
        self.streams, self.gone = 100, list[int]()

    def place(self, data: np.ndarray, device: int = 0) -> int:
        address = self.memory.place(data)
        self.device[address] = device
        return address

    def on(self, device: int) -> AbstractContextManager[None]:
        return nullcontext()

    def device_of(self, address: int) -> int:
        return self.device[max(a for a in self.device if a <= address)]

    def properties(self, device: int) -> Properties:
        return Properties(4, 227 << 10, 0)

    def load(
        self, device: int, texts: Sequence[str], launches: Sequence[Launch]
    ) -> list[LoadedKernel]:
        self.loaded.append(device)
        return [LoadedKernel(launch.kernel, texts[launch.text]) for launch in launches]

    def launch(
        self,
        device: int,
        stream: int,
        kernel: LoadedKernel,
        launch: Launch,
        states: int,
        values: Sequence[int],
    ) -> None:
        if self.lost:
            raise DeviceError("NVIDIA's driver reports CUDA_ERROR_LAUNCH_FAILED: it is lost")
        self.launched.append((device, stream, launch.kernel, states))
        Launched(
            kernel.module,
            kernel.function,
            values,
            self.memory,
            blocks=launch.blocks(states),
            threads=launch.threads,
            shared=launch.shared,
        ).run()

    def unload(self, device: int, modules: Iterable[str]) -> None:
        self.unloaded += [(device, module) for module in modules]

    def state_of(self, device: int, stream: int) -> StreamState:
        return StreamState(stream, self.capturing)

    def follow(self, device: int, stream: int, before: int) -> None:
        self.order.append((stream, before))

    def allocate(self, device: int, size: int) -> int:
        if self.full:
            raise MemoryError("the GPU has no memory left for cuMemAlloc")
        self.allocated.append(size)
        return self.place(np.zeros(size, np.uint8), device)

    def free(self, device: int, address: int) -> None:
        self.freed.append(address)

    def allocate_host(self, device: int, size: int) -> int:
        if self.full:
            raise MemoryError("the GPU has no memory left for cuMemAllocHost")
        block = ctypes.create_string_buffer(size)
        self.host[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free_host(self, device: int, address: int) -> None:
        del self.host[address]

    def new_stream(self, device: int) -> int:
        self.streams += 1
        return self.streams

    def free_stream(self, device: int, stream: int) -> None:
        self.gone.append(stream)

    def to_device(self, device: int, stream: int, address: int, host: int, size: int) -> None:
        self.copied.append((device, stream, size))
        data = np.frombuffer(ctypes.string_at(host, size), np.uint8)
        start = address - FIRST
        self._check(start, size)
        self.memory.bytes[start : start + size] = data

    def to_host(self, device: int, stream: int, host: int, address: int, size: int) -> None:
        self.copied.append((device, stream, -size))
        start = address - FIRST
        self._check(start, size)
        ctypes.memmove(host, self.memory.bytes[start : start + size].tobytes(), size)

    def wait(self, device: int, stream: int) -> None:
        """All work is done when it is asked for."""

    def wait_for_all(self, device: int) -> None:
        """All work is done when it is asked for."""

    def _check(self, start: int, size: int) -> None:
        if not self.memory.owned[start : start + size].all():
            raise EmulationError(f"a copy of {size} bytes leaves its array")
