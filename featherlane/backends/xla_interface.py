"""XLA's foreign function interface: constants that handlers for CPUs and for GPUs share, from XLA's
public header xla/ffi/api/c_api.h. Structures only grow at their ends, and each says its size.
"""

from __future__ import annotations

import re
from pathlib import Path

MAJOR = 0  # the version of the interface; minor versions only add
MINOR = 1  # the first with all that the handlers read
DTYPES = {"float32": 11, "float64": 12}  # XLA_FFI_DataType
METADATA, EXECUTE = 1, 3  # XLA_FFI_Extension_Type, XLA_FFI_ExecutionStage
INVALID_ARGUMENT, RESOURCE_EXHAUSTED, INTERNAL = 3, 8, 13  # XLA_FFI_Error_Code
ERROR_SIZE = 28  # XLA_FFI_Error_Create_Args up to its last field
STATE_TYPE = 48  # XLA_FFI_Metadata with the type of a state behind version and traits
FRAME_END = 120  # XLA_FFI_CallFrame up to its attributes


def versions(header: Path) -> tuple[int, int] | None:
    """The version that a header declares, None if it declares none."""
    try:
        text = header.read_text()
    except OSError:
        return None
    matches = [re.search(rf"#define XLA_FFI_API_{x} (\d+)", text) for x in ("MAJOR", "MINOR")]
    major, minor = (int(x[1]) if x else -1 for x in matches)
    return (major, minor) if min(major, minor) >= 0 else None


def is_known(version: tuple[int, int] | None) -> bool:
    """Whether the handlers know the structures of a version."""
    return version is not None and version[0] == MAJOR and version[1] >= MINOR
