"""Shared by all peers: states, blocks of results, robot files without shapes."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from lxml import etree

from featherlane.robot.loaders.xml import parse

NOT_MECHANICS = ("visual", "collision", "material", "transmission", "gazebo", "sensor", "mujoco")

DYNAMICS = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "mass_matrix_inverse")

Blocks = dict[str, np.ndarray]


class States(NamedTuple):
    """States of a robot, arrays (states, ...) of float64."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    minv: np.ndarray


def module(name: str) -> Any:
    """Imports a library that only comparisons need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        needed = "comparisons need it, pip install 'featherlane[check]' brings it"
        raise RuntimeError(f"{name} cannot be imported ({error}): {needed}") from error


def is_mjcf(text: str | bytes) -> bool:
    return parse(text, "<text>").tag == "mujoco"


def bare(text: str | bytes) -> str:
    """Returns a URDF without visuals, collisions and the like, so that no mesh is looked for."""
    robot = parse(text, "<text>").node
    for element in list(robot.iter(*NOT_MECHANICS)):
        parent = element.getparent()
        if parent is not None:
            parent.remove(element)
    return etree.tostring(robot, encoding="unicode")
