"""Dynamics that are parallel in the links: recursions as scans, solves by elimination."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from featherlane.algorithms.parallel.abia import abia
from featherlane.algorithms.parallel.constraint_force import cfa, cfa_refusal
from featherlane.algorithms.parallel.derivatives import scanned_derivatives
from featherlane.algorithms.parallel.divide_and_conquer import dca
from featherlane.algorithms.parallel.inverse import scanned_inverse_dynamics
from featherlane.algorithms.parallel.joint import coupling_refusal
from featherlane.algorithms.parallel.jsiia import jsiia
from featherlane.robot.tree import Tree


class Method(NamedTuple):
    """An algorithm for a function of the robot, and the trees that it takes."""

    algorithm: Callable[..., Any]  # (tree, *inputs, f_ext) -> result
    refusal: Callable[[Tree], str | None] = lambda tree: None  # why it refuses a tree, if it does
    regroup: bool = True  # whether inertias may be regrouped (`build_tree(model, regroup)`)


FORWARD_DYNAMICS = {
    "jsiia": Method(jsiia),
    "abia": Method(abia, partial(coupling_refusal, method="abia")),
    "cfa": Method(cfa, cfa_refusal, regroup=False),
    "dca": Method(dca, partial(coupling_refusal, method="dca"), regroup=False),
}

__all__ = [
    "FORWARD_DYNAMICS",
    "Method",
    "abia",
    "cfa",
    "coupling_refusal",
    "dca",
    "jsiia",
    "scanned_derivatives",
    "scanned_inverse_dynamics",
]
