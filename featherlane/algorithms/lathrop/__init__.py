"""Inverse dynamics of a chain in two parallel forms, operation by operation as Lathrop counts them.

R. H. Lathrop, Parallelism in manipulator dynamics, Int. J. Robotics Research 4(2), 1985. Their cost
in time and processors is in docs/lathrop.md. The steps of one node are in `linear` and
`logarithmic`, the records that they read and return in `operations`.
"""

from featherlane.algorithms.lathrop.arms import arm_of, general_arm, general_node, inverse_dynamics
from featherlane.algorithms.lathrop.linear import linear
from featherlane.algorithms.lathrop.logarithmic import logarithmic

__all__ = ["arm_of", "general_arm", "general_node", "inverse_dynamics", "linear", "logarithmic"]
