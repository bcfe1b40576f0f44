"""All-prefix sums under any associative operation, of lists and of trees; no robots are in here."""

from featherlane.algorithms.scan.lists import SCANS, scan
from featherlane.algorithms.scan.trees import PATHS, SUMS, path_scan, subtree_sum

__all__ = ["PATHS", "SCANS", "SUMS", "path_scan", "scan", "subtree_sum"]
