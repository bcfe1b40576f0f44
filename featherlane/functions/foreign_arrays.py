"""Arrays of other packages on the CPU, through DLPack: they come in and go out without a copy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

CPU = 1  # kDLCPU in dlpack.h
MODULES = {"torch": "torch", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
"""Modules with `from_dlpack`, of packages whose arrays have no `__array_namespace__`, or not in all
versions.
"""
GRADIENT = (
    "{} is a torch.Tensor that requires a gradient: use featherlane.interop.torch.wrap(model), "
    "whose functions have derivatives, or pass {}.detach()"
)
TRACER = (
    "{} is a {}, which has no numbers: inside of jit, grad and vmap use "
    "featherlane.interop.jax.wrap(model)"
)
DEVICE = "{} is a {} on another device than the CPU: pass {}"
TO_CPU = {"torch": "{}.cpu()", "cupy": "{}.get()", "numba": "{}.copy_to_host()"}


class ForeignArrayError(TypeError):
    """An array of another package where NumPy's are wanted."""


def package_of(value: Any) -> str:
    """The name of the package that a value is of."""
    return type(value).__module__.split(".")[0]


def shown(value: Any) -> str:
    """The type of an array for messages, as in "torch.Tensor"."""
    return f"{package_of(value)}.{type(value).__name__}"


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another package than NumPy."""
    return type(value) is not np.ndarray and _is_array(type(value))  # type: ignore[arg-type]


@cache
def _is_array(kind: type) -> bool:
    if issubclass(kind, np.ndarray | np.generic):
        return False
    protocols = ("__dlpack__", "__cuda_array_interface__")
    return any(hasattr(kind, x) for x in protocols) or _is_tracer(kind)


def _is_tracer(kind: type) -> bool:
    return kind.__module__.startswith("jax") and "Tracer" in kind.__name__


def viewed(name: str, value: Any) -> Any:
    """A NumPy view of another package's array; any other value as it is.

    Raises TypeError for arrays on other devices, and for those whose gradient would be lost.
    """
    if not is_foreign(value):
        return value
    if _is_tracer(type(value)):
        raise TypeError(TRACER.format(name, shown(value)))
    value = without_gradient(name, value)
    if not hasattr(value, "__dlpack_device__") or value.__dlpack_device__()[0] != CPU:
        other = TO_CPU.get(package_of(value), "a copy on the CPU").format(name)
        raise TypeError(DEVICE.format(name, shown(value), other))
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name} is a {shown(value)} that NumPy cannot view: {error}") from None


def without_gradient(name: str, value: Any) -> Any:
    """A tensor as one whose gradient is not wanted. Raises TypeError if torch would record it."""
    if getattr(value, "requires_grad", False) and _records_gradients():
        raise TypeError(GRADIENT.format(name, name))
    return value.detach() if hasattr(value, "detach") else value


def _records_gradients() -> bool:
    """Whether torch would record what is done to a tensor: not within `torch.no_grad()`."""
    torch = sys.modules.get("torch")
    return torch is None or torch.is_grad_enabled()


def maker(values: Mapping[str, Any]) -> Callable[[np.ndarray], Any]:
    """Returns the function that turns NumPy arrays into those of the package of these values.

    Raises TypeError if they come from two packages, or from one without `from_dlpack`.
    """
    name, value = next((name, x) for name, x in values.items() if is_foreign(x))
    package = package_of(value).removesuffix("lib")
    for other, x in values.items():
        if is_foreign(x) and package_of(x).removesuffix("lib") != package:
            message = f"{name} is a {shown(value)} but {other} is a {shown(x)}"
            raise TypeError(f"{message}: wanted arrays of one package, or NumPy's")
    module = sys.modules.get(MODULES.get(package_of(value), ""))
    if module is None and getattr(value, "__array_namespace__", None):
        module = value.__array_namespace__()
    if not hasattr(module, "from_dlpack"):
        message = f"{name} is a {shown(value)}, whose package has no from_dlpack"
        raise TypeError(f"{message}: pass np.from_dlpack({name})")
    return module.from_dlpack  # type: ignore[union-attr]


def any_foreign(values: Iterable[Any]) -> bool:
    """Whether one of these values is an array of another package."""
    return any(map(is_foreign, values))


def call(run: Callable[..., Any], arrays: Mapping[str, Any], out: Any, **options: Any) -> Any:
    """Calls a function of NumPy arrays with those of another package: its results are that
    package's, and arrays of `out` are filled and returned.
    """
    views = [viewed(name, x) for name, x in arrays.items()]
    if out is not None:
        whole = out if isinstance(out, tuple | list) else (out,)
        run(*views, out=tuple(viewed("out", x) for x in whole), **options)
        return out
    make = maker(arrays)
    results = run(*views, **options)
    if not isinstance(results, tuple):
        return make(results)
    converted = [make(x) for x in results]
    return type(results)(*converted) if hasattr(results, "_fields") else tuple(converted)
