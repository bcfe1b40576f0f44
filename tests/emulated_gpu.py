"""A package with arrays in the memory of an emulated driver."""

import sys
from types import ModuleType
from typing import NamedTuple

import numpy as np
from gpu_emulator import EmulatedDriver

from featherlane.backends.cuda import calls, copies, driver, free_memory, unloading, workspaces

STREAM = 7  # the current one of the package


def fresh_unloading(monkeypatch):
    """No kernels of functions that other tests collected."""
    made = unloading.Unloading()
    for module in (calls, copies, free_memory):
        monkeypatch.setattr(module, "unloading", made)


def emulated(monkeypatch):
    """The driver, with `cupy` as a package whose arrays are in its memory."""
    api = EmulatedDriver()
    for module in (driver, calls, copies, free_memory):
        monkeypatch.setattr(module, "driver", lambda: api)
    monkeypatch.setattr(calls, "workspaces", workspaces.DeviceWorkspaces())
    monkeypatch.setattr(copies, "_copies", {})
    fresh_unloading(monkeypatch)

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


def with_tensors(monkeypatch):
    """The driver, with `torch` as a package whose tensors are in its memory."""
    api = emulated(monkeypatch)
    made = ModuleType("torch")

    class Tensor(api.Array):
        __module__ = "torch"

        def __init__(self, data, requires_grad=False):
            super().__init__(data)
            self.dtype, self.device = f"torch.{self.like.dtype.name}", Device(self.device.id)
            self.requires_grad, self.is_cuda = requires_grad, True

        def data_ptr(self):
            return self.address

        def stride(self):
            return tuple(x // self.like.itemsize for x in self.strides or self.like.strides)

    class Device(NamedTuple):
        index: int

    def empty(shape, dtype, device):
        assert device == Device(api.current)
        return Tensor(np.full(shape, np.nan, dtype.removeprefix("torch.")))

    def full(shape, number, dtype, device):
        return Tensor(np.full(shape, number, dtype.removeprefix("torch.")))

    made.Tensor, made.empty, made.full, made.is_grad_enabled = Tensor, empty, full, lambda: True
    made.cuda = ModuleType("torch.cuda")
    made.cuda.is_current_stream_capturing = lambda: api.capturing
    made._C = ModuleType("torch._C")
    made._C._cuda_getCurrentRawStream = lambda index: STREAM + index
    monkeypatch.setitem(sys.modules, "torch", made)
    api.Tensor = Tensor
    return api


def states(model, *lead, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(*lead, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]
