"""Scans of arrays: each round is one compiled kernel over the lanes of (state, link) pairs, so that
code does not grow with the number of links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane.linkscan.arrays import ArrayScan, ArraySubtreeSum, array_scan
from featherlane.linkscan.blocks import BlockedInverseDynamics, is_chain
from featherlane.linkscan.inverse import ScannedInverseDynamics
from featherlane.tree import Tree

__all__ = [
    "FUNCTIONS",
    "ArrayScan",
    "ArraySubtreeSum",
    "BlockedInverseDynamics",
    "ScannedInverseDynamics",
    "array_scan",
]


def _inverse(tree: Tree, dtype: Any) -> Callable[..., None]:
    return (BlockedInverseDynamics if is_chain(tree) else ScannedInverseDynamics)(tree, dtype)


FUNCTIONS: dict[str, Callable[[Tree, Any], Callable[..., None]]] = {"inverse_dynamics": _inverse}
