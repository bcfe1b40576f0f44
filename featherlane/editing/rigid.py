"""Bodies joined and seen from other frames, and messages about names, as all edits need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from featherlane.loaders.words import near, quoted
from featherlane.model import IDENTITY, Body, Placement


def merged(name: str, parts: Sequence[tuple[Body, Placement]]) -> Body:
    """One body from bodies rigidly joined, each with the placement of its frame in the new one."""
    if len(parts) == 1 and parts[0][1] == IDENTITY:
        return replace(parts[0][0], name=name)
    moved = [_moved(body, place) for body, place in parts if body.mass or np.any(body.inertia)]
    if len(moved) == 1:
        mass, com, inertia = moved[0]
    else:  # parallel axes, about the common centre of mass
        mass = sum(m for m, _, _ in moved)
        com = sum((m * c for m, c, _ in moved), np.zeros(3)) / (mass or 1.0)
        inertia = sum((J + m * _spread(c - com) for m, c, J in moved), np.zeros((3, 3)))
    rows = tuple(tuple(map(float, row)) for row in inertia)
    return Body(name, float(mass), tuple(map(float, com)), rows)  # type: ignore[arg-type]


def _moved(body: Body, place: Placement) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it, where the body's frame is at `place`."""
    R = np.array(place.R)
    com = np.array(place.p) + R @ np.array(body.com)
    return body.mass, com, R @ np.array(body.inertia) @ R.T


def _spread(d: np.ndarray) -> np.ndarray:
    """The rotational inertia of a unit mass at d."""
    return np.asarray(d @ d * np.eye(3) - np.outer(d, d))


def index(kind: str, name: object, names: Sequence[str]) -> int:
    """Where the name is among those of a model's joints, bodies or frames."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of a {kind}: wanted a text")
    if name not in names:
        raise ValueError(f"there is no {kind} {quoted(name)}{near(name, names)}")
    return names.index(name)
