"""Dynamics that are parallel in the links: recursions as scans, solves by elimination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from featherlane.algorithms.parallel.abia import abia, abia_refusal
from featherlane.algorithms.parallel.constraint_force import cfa, cfa_refusal
from featherlane.algorithms.parallel.derivatives import scanned_derivatives
from featherlane.algorithms.parallel.divide_and_conquer import dca, dca_refusal
from featherlane.algorithms.parallel.inverse import scanned_inverse_dynamics
from featherlane.algorithms.parallel.joint import coupling_refusal
from featherlane.algorithms.parallel.jsiia import bias_and_mass_matrix, jsiia
from featherlane.robot.tree import Tree


class Method(NamedTuple):
    """algorithm(tree, q, qd, tau, f_ext) -> qdd, or as its function wants it; refusal(tree): why it
    does not take a robot, and what does; ride: whether it wants trees in which mass rides on
    parents (`tree(model, ride)`).
    """

    algorithm: Callable[..., Any]
    refusal: Callable[[Tree], str | None] = lambda tree: None
    ride: bool = True


FORWARD_DYNAMICS = {
    "jsiia": Method(jsiia),
    "abia": Method(abia, abia_refusal),
    "cfa": Method(cfa, cfa_refusal, ride=False),
    "dca": Method(dca, dca_refusal, ride=False),
}

__all__ = [
    "FORWARD_DYNAMICS",
    "Method",
    "abia",
    "abia_refusal",
    "bias_and_mass_matrix",
    "cfa",
    "cfa_refusal",
    "coupling_refusal",
    "dca",
    "dca_refusal",
    "jsiia",
    "scanned_derivatives",
    "scanned_inverse_dynamics",
]
