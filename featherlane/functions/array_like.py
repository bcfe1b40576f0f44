"""The types of the arguments of public methods, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np


class _HasArray(Protocol):
    """NumPy's arrays and numbers, and what converts itself to them."""

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray: ...


class _HasUfunc(Protocol):
    """Arrays that compute NumPy's functions themselves."""

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any: ...


class _HasDLPack(Protocol):
    """Tensors of other packages, by the DLPack protocol."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


_Entry = float | _HasArray | _HasUfunc | _HasDLPack
# Sequences up to three deep, and not without end: text is a sequence of text
ArrayLike = _Entry | Sequence[_Entry | Sequence[_Entry | Sequence[_Entry]]]
"""An array of real numbers: NumPy's, a tensor, numbers, or lists of them. `numpy.typing.ArrayLike`
also has text and complex numbers.
"""
Vector3 = Sequence[float] | np.ndarray
"""Three numbers."""
Wrenches = ArrayLike | Mapping[str, ArrayLike] | None
"""External forces: an array, or arrays by the name of their frame."""
WrenchFrame = Literal["body", "world"]
"""The axes of external forces, which act at the origin of their body or frame."""
Reference = Literal["body", "world", "spatial"]
"""The axes and the point of a velocity or a Jacobian (docs/conventions.md)."""
Frames = str | Sequence[str]
"""The name of a frame, or names of several."""
Hessian = Literal["gauss_newton", "exact"]
"""The second derivatives of a cost that `ilqr` uses."""
Params = Mapping[str, ArrayLike] | None
"""Arrays by the name of a parameter, see `parameters`, in place of the values of the model."""
Out = np.ndarray | None
"""The array that takes the result, of its shape and dtype; None: a new one."""
Outs = np.ndarray | Sequence[np.ndarray] | None
Threads = int | None
"""The largest number of threads of a call; None: as many cores as save time."""
