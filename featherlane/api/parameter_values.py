"""Checks of the values of parameters, where they are numbers and not traced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.functions.arguments import numbers_of
from featherlane.functions.table import CALLED
from featherlane.robot.model import Robot
from featherlane.robot.values import ORTHOGONAL


def check_not_negative(model: Robot, function: str, params: Mapping[str, Any]) -> None:
    """Raises ValueError for a negative mass or armature, with which no robot moves, in a function
    that divides by the mass matrix; the others are linear in both.
    """
    if not CALLED[function].divides:
        return
    for name, unit in (("mass", "body"), ("armature", "joint")):
        values = numbers_of(params.get(name))
        if values is None or not (values < 0).any():
            continue
        labels = model.body_names if name == "mass" else _leaders(model)
        if values.shape[-1:] != (len(labels),):  # the function says so
            continue
        at = tuple(np.argwhere(values < 0)[0])
        raise ValueError(
            f"params[{name!r}] is {values[at]} for {unit} {labels[at[-1]]!r}: wanted 0 or more,"
            f" {function} divides by the mass matrix"
        )


def _leaders(model: Robot) -> list[str]:
    """Returns the joint of each degree of freedom; of mimic joints, their leader."""
    owners = reversed([*zip(model.joint_names, model.dofs, strict=True)])
    leaders = {k: joint for joint, dofs in owners for k in dofs}
    return [leaders[k] for k in range(model.nv)]


def with_six_entries(name: str, value: Any) -> Any:
    """Returns inertias that are matrices (..., 3, 3) as [Ixx, Ixy, Iyy, Ixz, Iyz, Izz], and other
    values as they are. Raises ValueError for matrices of numbers that are not symmetric.
    """
    if name != "inertia":
        return value
    matrices = np.asarray(value, float) if isinstance(value, list | tuple) else value
    if tuple(getattr(matrices, "shape", ()))[-2:] != (3, 3):
        return value
    numbers = numbers_of(matrices)
    if numbers is not None and numbers.dtype != bool:
        away = np.abs(numbers - np.swapaxes(numbers, -1, -2))
        if np.any(away > ORTHOGONAL * np.abs(numbers).max((-1, -2), keepdims=True)):
            raise ValueError("params['inertia'] has a matrix that is not symmetric")
    return matrices[..., np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 0, 1, 2])]
