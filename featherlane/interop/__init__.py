"""Models in other packages, each an extra: `torch`, `jax` and `casadi`; `view` draws robots."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featherlane.errors import did_you_mean

_MODULES = ("casadi", "dask", "gymnasium", "jax", "torch", "view", "zarr")

if not TYPE_CHECKING:  # type checkers find the modules themselves

    def __getattr__(name: str) -> Any:
        """A module of an extra, loaded when it is asked for."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        message = f"module {__name__!r} has no attribute {name!r}{did_you_mean(name, _MODULES)}"
        raise AttributeError(message, name=name)
