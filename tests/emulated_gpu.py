"""A driver of two devices whose kernels an emulator runs, and a package with arrays there."""

import ctypes
import sys
from types import ModuleType

import numpy as np

import featherlane as fl
from featherlane.backends.cuda import calls, copies, driver, emulator, workspaces

STREAM = 7  # the current one of the package


class EmulatedDriver:
    """It counts what it allocates, and refuses to where it is told so."""

    def __init__(self):
        self.memory = emulator.Memory()
        self.device = {}  # of allocations, by address
        self.launched, self.loaded, self.allocated, self.freed, self.order = [], [], [], [], []
        self.capturing = self.full = self.lost = False
        self.current = 0  # the package's current device
        self.host, self.copied, self.streams, self.gone = {}, [], 100, []

    def place(self, data, device=0):
        address = self.memory.place(data)
        self.device[address] = device
        return address

    def device_of(self, address):
        return self.device[max(a for a in self.device if a <= address)]

    def load(self, device, text, launches):
        self.loaded.append(device)
        return [text for _ in launches]

    def launch(self, device, stream, kernel, launch, states, values):
        if self.lost:
            raise fl.DeviceError("NVIDIA's driver reports CUDA_ERROR_LAUNCH_FAILED: it is lost")
        self.launched.append((device, stream, launch.kernel, states))
        emulator.Launched(
            kernel,
            launch.kernel,
            values,
            self.memory,
            blocks=-(-states // launch.states),
            columns=launch.columns,
            threads=launch.threads,
            shared=launch.shared,
        ).run()

    def is_capturing(self, device, stream):
        return self.capturing

    def number_of(self, device, stream):
        return stream

    def follow(self, device, stream, before):
        self.order.append((stream, before))

    def allocate(self, device, size):
        if self.full:
            raise MemoryError("the GPU has no memory left for cuMemAlloc")
        self.allocated.append(size)
        return self.place(np.zeros(size, np.uint8), device)

    def free(self, device, address):
        self.freed.append(address)

    def allocate_host(self, device, size):
        if self.full:
            raise MemoryError("the GPU has no memory left for cuMemAllocHost")
        block = ctypes.create_string_buffer(size)
        self.host[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free_host(self, device, address):
        del self.host[address]

    def new_stream(self, device):
        self.streams += 1
        return self.streams

    def free_stream(self, device, stream):
        self.gone.append(stream)

    def to_device(self, device, stream, address, host, size):
        self.copied.append((device, stream, size))
        data = np.frombuffer(ctypes.string_at(host, size), np.uint8)
        start = address - emulator.FIRST
        assert self.memory.owned[start : start + size].all()
        self.memory.bytes[start : start + size] = data

    def to_host(self, device, stream, host, address, size):
        self.copied.append((device, stream, -size))
        start = address - emulator.FIRST
        assert self.memory.owned[start : start + size].all()
        ctypes.memmove(host, self.memory.bytes[start : start + size].tobytes(), size)

    def wait(self, device, stream):
        pass


def emulated(monkeypatch):
    """The driver, with `cupy` as a package whose arrays are in its memory."""
    api = EmulatedDriver()
    for module in (driver, calls, copies):
        monkeypatch.setattr(module, "driver", lambda: api)
    monkeypatch.setattr(calls, "workspaces", workspaces.Workspaces())
    monkeypatch.setattr(copies, "_copies", {})

    class Device:
        def __init__(self, number):
            self.id, self.before = number, []

        def __enter__(self):
            self.before.append(api.current)
            api.current = self.id

        def __exit__(self, *_):
            api.current = self.before.pop()

    class Array:
        __module__ = "cupy"

        def __init__(self, data, device=None):
            data, number = np.ascontiguousarray(data), api.current if device is None else device
            self.like, self.address = data, api.place(data, number)
            self.shape, self.strides, self.dtype = data.shape, None, data.dtype
            self.device, self.read_only = Device(number), False

        @property
        def __cuda_array_interface__(self):
            return {
                "shape": self.shape,
                "typestr": self.like.dtype.str,
                "data": (self.address, self.read_only),
                "strides": self.strides,
                "version": 3,
            }

        def __dlpack__(self, **options):
            raise NotImplementedError

        def __dlpack_device__(self):
            return (2, api.device[self.address])

        def get(self):
            return api.memory.read(self.address, self.like)

    class Stream:
        @property
        def ptr(self):
            return STREAM + api.current

    made = ModuleType("cupy")
    made.empty = lambda shape, dtype: Array(np.zeros(shape, dtype))
    made.full = lambda shape, number, dtype: Array(np.full(shape, number, dtype))
    made.cuda = ModuleType("cupy.cuda")
    made.cuda.get_current_stream = Stream
    monkeypatch.setitem(sys.modules, "cupy", made)
    api.Array = Array
    return api


def states(model, *lead, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(*lead, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]
