"""Wrenches at frames, by name, as one array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.function import common_dtype


def stacked(wrenches: Mapping[str, Any]) -> tuple[tuple[str, ...], np.ndarray]:
    """The frames, in an order of their own, and (..., frames, 6). Raises ValueError or TypeError
    naming the frame.
    """
    names = tuple(sorted(wrenches))
    dtype = common_dtype({f"f_ext[{name!r}]": wrenches[name] for name in names})
    arrays = [np.asarray(wrenches[name], dtype) for name in names]
    for name, array in zip(names, arrays, strict=True):
        if not array.ndim or array.shape[-1] != 6:
            raise ValueError(
                f"f_ext[{name!r}] has shape {array.shape}, wanted (..., 6): [force; moment] at the "
                "frame's origin"
            )
    return names, np.stack(np.broadcast_arrays(*arrays), -2)
