"""Inverse dynamics of a chain in two parallel forms, operation by operation as Lathrop counts them.

R. H. Lathrop, Parallelism in manipulator dynamics, Int. J. Robotics Research 4(2), 1985. What they
cost in time and processors is in docs/lathrop.md.
"""

from featherlane.algorithms.lathrop.arms import arm_of, general_arm, general_node, inverse_dynamics
from featherlane.algorithms.lathrop.linear import Load, Motion, inward, linear, load, outward
from featherlane.algorithms.lathrop.logarithmic import (
    Subchain,
    Tail,
    join,
    join_tails,
    logarithmic,
    tail,
)
from featherlane.algorithms.lathrop.operations import (
    Arm,
    Form,
    Link,
    Node,
    Reaction,
    Step,
    Tip,
)

__all__ = [
    "Arm",
    "Form",
    "Link",
    "Load",
    "Motion",
    "Node",
    "Reaction",
    "Step",
    "Subchain",
    "Tail",
    "Tip",
    "arm_of",
    "general_arm",
    "general_node",
    "inverse_dynamics",
    "inward",
    "join",
    "join_tails",
    "linear",
    "load",
    "logarithmic",
    "outward",
    "tail",
]
