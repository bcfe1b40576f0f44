"""Frees the memory of devices that calls leave for later ones: workspaces, buffers, kernels."""

from __future__ import annotations

from featherlane.backends.cuda import calls, copies
from featherlane.backends.cuda.driver import driver
from featherlane.backends.cuda.unloading import unloading
from featherlane.errors import DeviceError


def empty() -> int:
    """Frees workspaces and buffers for copies, but for those that a CUDA graph has recorded or that
    a call uses just now. Returns their bytes. Kernels of collected functions are unloaded, too.
    """
    try:
        api = driver()
    except DeviceError:  # no kernel was ever loaded
        return 0
    unloading.empty(api)
    return calls.workspaces.empty(api) + sum(x.empty(api) for x in copies.every())
