"""Scans of arrays: each round is one compiled kernel over the lanes of (state, link) pairs, so that
code does not grow with the number of links.
"""

from featherlane.linkscan.arrays import ArrayScan, ArraySubtreeSum, array_scan
from featherlane.linkscan.inverse import FUNCTIONS, ScannedInverseDynamics

__all__ = ["FUNCTIONS", "ArrayScan", "ArraySubtreeSum", "ScannedInverseDynamics", "array_scan"]
