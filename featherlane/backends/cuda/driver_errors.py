"""Errors of NVIDIA's driver as exceptions, with a sentence about what to do."""

from __future__ import annotations

import sys

from featherlane.errors import DeviceError

LOST = (
    "ASSERT",
    "CONTAINED",
    "CONTEXT_IS_DESTROYED",
    "DEVICE_UNAVAILABLE",
    "ECC_UNCORRECTABLE",
    "EXTERNAL_DEVICE",
    "HARDWARE_STACK_ERROR",
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "LAUNCH_FAILED",
    "LAUNCH_TIMEOUT",
    "MISALIGNED_ADDRESS",
    "MPS_CLIENT_TERMINATED",
    "NVLINK_UNCORRECTABLE",
    "TENSOR_MEMORY_LEAK",
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
    "workspaces{}, or pass fewer states"
)
TORCH = ", and torch.cuda.empty_cache(), which frees what PyTorch keeps for later tensors"


class MissingFunction(DeviceError):
    """A function that the driver, or cuda-bindings, does not have."""


def error_of(name: str, function: str, log: str = "") -> DeviceError | MemoryError:
    """The exception for an error that a function of the driver reports. log: that of the driver's
    compiler, whose first sentence about an error is quoted.
    """
    if name == "CUDA_ERROR_OUT_OF_MEMORY":
        return MemoryError(NO_MEMORY.format(function, TORCH if "torch" in sys.modules else ""))
    advice = ADVICE.get(name.removeprefix("CUDA_ERROR_"))
    reason = f"its compiler says: {_first_error(log)}" if log.strip() else None
    more = "; ".join(x for x in (reason, advice) if x)
    return DeviceError(f"NVIDIA's driver reports {name} in {function}{': ' if more else ''}{more}")


def _first_error(log: str) -> str:
    """The first line of a log that speaks of an error, or its first one."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line or "fatal" in line), lines[0])
