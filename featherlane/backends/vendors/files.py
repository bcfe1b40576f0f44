"""Kernels for a device of the table as files: its code, and how to launch it, as JSON."""

from __future__ import annotations

import numpy as np

from featherlane.backends.cuda.files import as_json, launches
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.backends.vendors.devices import DEVICES, SPIRV
from featherlane.backends.vendors.emit import emitted


def files(name: str, kernels: GpuKernels, dtype: np.dtype, device: str) -> dict[str, str | bytes]:
    """NAME.s, assembly for AMD's assembler, or NAME.spv, a SPIR-V module; and NAME.json."""
    is_spirv = DEVICES[device][1] is SPIRV
    file = f"{name}.spv" if is_spirv else f"{name}.s"
    description = {"device": device, **launches(kernels, dtype, [file] * len(kernels.texts))}
    if is_spirv:
        description["parameters"].append("shared memory: shared_bytes of the launch")
    code = emitted(kernels, device, "object" if is_spirv else "assembly")
    return {file: code, f"{name}.json": as_json(description)}
