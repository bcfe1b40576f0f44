"""All-prefix sums under any associative operation, of lists and of trees. No physics in here."""

from featherlane.algorithms.scan.lists import SCANS, balanced, chosen, scan, stepwise
from featherlane.algorithms.scan.trees import PATHS, SUMS, path_scan, subtree_sum

__all__ = [
    "PATHS",
    "SCANS",
    "SUMS",
    "balanced",
    "chosen",
    "path_scan",
    "scan",
    "stepwise",
    "subtree_sum",
]
