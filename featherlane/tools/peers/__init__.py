"""Other libraries' answers for the same robot file, in our conventions: what `check` compares with.

A peer has a method for each of its `functions`, of the function's name; each takes the states and
the axes of f_ext (None: there is none) and returns the function's blocks by name. Peers know
neither damping nor friction; joints that follow others are for `Projected`.
"""

from featherlane.tools.peers.common import Blocks, States, module
from featherlane.tools.peers.mimic import Projected, independent
from featherlane.tools.peers.mujoco import MuJoCo
from featherlane.tools.peers.pinocchio import Pinocchio

PEERS: dict[str, type] = {"pinocchio": Pinocchio, "mujoco": MuJoCo}

__all__ = [
    "PEERS",
    "Blocks",
    "MuJoCo",
    "Pinocchio",
    "Projected",
    "States",
    "independent",
    "module",
]
