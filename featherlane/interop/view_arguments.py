"""The arguments of the viewer, checked: errors name them."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.functions.arguments import is_count, is_real

PORTS = 65535


def finite(name: str, value: Any, wanted: str) -> np.ndarray:
    """Returns an array of finite numbers. Raises TypeError or ValueError, which names it."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r:.60}: wanted {wanted}") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has a NaN or an infinity: wanted finite numbers")
    return array


def positive(name: str, value: Any, unit: str) -> float:
    """Returns a positive number. Raises ValueError, which names it."""
    if not is_real(value, np.nextafter(0, 1), np.finfo(float).max):
        raise ValueError(f"{name} is {value!r:.60}: wanted positive {unit}")
    return float(value)


def checked_rollouts(model: Model, q: Any) -> tuple[np.ndarray, bool]:
    """Returns rollouts (robots, T, nq), checked, and whether q was of many robots."""
    if hasattr(q, "q"):  # a rollout
        q = q.q
    wanted = f"({model.nq},), (T, {model.nq}) of one rollout, or (robots, T, {model.nq})"
    rows = finite("q", q, wanted)
    if rows.ndim not in (1, 2, 3) or not rows.size or rows.shape[-1] != model.nq:
        raise ValueError(f"q has shape {rows.shape}, wanted {wanted}")
    return rows.reshape((*[1] * (3 - rows.ndim), *rows.shape)), rows.ndim == 3


def checked_places(places: Any, robots: int) -> np.ndarray:
    """Returns places (robots, 3), checked."""
    array = finite("places", places, f"({robots}, 3), m")
    if array.shape not in ((3,), (robots, 3)):
        raise ValueError(f"places has shape {array.shape}, wanted (3,) or ({robots}, 3)")
    return np.broadcast_to(array, (robots, 3))


def check_address(host: Any, port: Any) -> None:
    """Raises ValueError for what a server cannot have: viser's would wait for ever."""
    if not is_count(port) or port > PORTS:
        raise ValueError(f"port is {port!r:.60}: wanted a whole number from 1 to {PORTS}")
    try:
        socket.getaddrinfo(host, None)
    except (OSError, TypeError, UnicodeError) as error:
        wanted = "wanted a name or an address of this machine"
        raise ValueError(f"host is {host!r:.60}: {wanted} ({error})") from None


def checked_forces(forces: Any, robots: int, steps: int) -> dict[str, np.ndarray]:
    """Returns forces as arrays (robots, steps, 3)."""
    if not isinstance(forces, Mapping) or not forces:
        wanted = "wanted a dictionary from names of frames to forces (3,) in N"
        raise TypeError(f"forces is {forces!r:.60}: {wanted}")
    arrays = {}
    for name, force in forces.items():
        title = f"forces[{name!r}]"
        array = finite(title, force, "(3,), N")
        whole = (robots, steps, 3)
        if array.shape[-1:] != (3,) or array.ndim > 3:
            raise ValueError(f"{title} has shape {array.shape}, wanted (3,) or {whole}")
        try:
            arrays[name] = np.broadcast_to(array, whole)
        except ValueError:
            raise ValueError(
                f"{title} has shape {array.shape}, wanted (3,) or {whole}: (robots, rows, 3)"
            ) from None
    return arrays
