"""Dynamics that are parallel in the links: recursions as scans, solves by elimination."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from featherlane.algorithms.late import late
from featherlane.robot.tree import Tree

abia = late("featherlane.algorithms.parallel.articulated_bodies", "abia")
cfa = late("featherlane.algorithms.parallel.constraint_force", "cfa")
cfa_refusal = late("featherlane.algorithms.parallel.constraint_force", "cfa_refusal")
coupling_refusal = late("featherlane.algorithms.parallel.joint", "coupling_refusal")
dca = late("featherlane.algorithms.parallel.divide_and_conquer", "dca")
jsiia = late("featherlane.algorithms.parallel.joint_space_inertia", "jsiia")
scanned_derivative_rows = late(
    "featherlane.algorithms.parallel.derivatives", "scanned_derivative_rows"
)
scanned_derivatives = late("featherlane.algorithms.parallel.derivatives", "scanned_derivatives")
scanned_inverse_dynamics = late(
    "featherlane.algorithms.parallel.inverse", "scanned_inverse_dynamics"
)


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
    "scanned_derivative_rows",
    "scanned_derivatives",
    "scanned_inverse_dynamics",
]
