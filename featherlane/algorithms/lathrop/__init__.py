"""Inverse dynamics of a chain in two parallel forms, operation by operation as Lathrop counts them.

R. H. Lathrop, Parallelism in manipulator dynamics, Int. J. Robotics Research 4(2), 1985.
examples/lathrop counts their cost in time and processors (docs/lathrop.md). The steps of one node
are in `linear` and `logarithmic`, the records that they read and return in `operations`.
"""

from featherlane.algorithms.lathrop.linear import linear
from featherlane.algorithms.lathrop.logarithmic import logarithmic
from featherlane.algorithms.lathrop.robots import arm_of, inverse_dynamics

__all__ = ["arm_of", "inverse_dynamics", "linear", "logarithmic"]
