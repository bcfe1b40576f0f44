"""Code for devices of the table, which LLVM generates in another process."""

from __future__ import annotations

import io
import json
import subprocess
from typing import Literal

from featherlane.backends.cuda.stages import GpuKernels
from featherlane.backends.llvm import worker
from featherlane.backends.llvm.targets import Processor
from featherlane.backends.vendors import ir
from featherlane.backends.vendors.devices import DEVICES
from featherlane.errors import CompileError


def emitted(kernels: GpuKernels, device: str, what: Literal["assembly", "object"]) -> bytes:
    """Kernels as assembly, or as an object file: ELF, or a SPIR-V module. Raises CompileError for
    what LLVM has no code for.
    """
    target, dialect = DEVICES[device]
    if "bar.sync" in kernels.text:  # warps of 32 that part are inside a wavefront of 64
        raise CompileError(f"kernels whose warps wait for each other have no code for {device}")
    return code_of(ir.module(kernels.text, kernels.launches, dialect), target, what)


def code_of(text: str, target: Processor, what: Literal["assembly", "object"]) -> bytes:
    """LLVM IR as code for a processor."""
    from featherlane.backends.llvm.workers import python_of  # loads llvmlite

    request, sent = {"what": what, "target": target._asdict(), "ir": text}, io.BytesIO()
    worker.send(sent, json.dumps(request).encode())
    module = "featherlane.backends.vendors.code_generator"
    done = subprocess.run(python_of(module), input=sent.getvalue(), capture_output=True)
    try:
        return worker.receive(io.BytesIO(done.stdout))
    except EOFError:
        lines = done.stderr.decode(errors="replace").strip().split("\n")
        message = next((x for x in lines if "LLVM ERROR" in x or ": error: " in x), lines[-1])
        raise CompileError(f"LLVM makes no code for {target.name}: {message}") from None
