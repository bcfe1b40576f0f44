"""Other libraries' results for the same robot file, in our conventions, for `check`.

A peer has a method for each of its `functions`, with the function's name. It takes the states and
the axes of f_ext (None: no f_ext) and returns the function's blocks by name. `Resisted` gives peers
damping and friction, `Projected` mimic joints.
"""

from featherlane.tools.peers.common import Blocks, States, module
from featherlane.tools.peers.mimic import Projected, independent
from featherlane.tools.peers.mujoco import MuJoCo
from featherlane.tools.peers.pinocchio import Pinocchio
from featherlane.tools.peers.resistance import Resisted

PEERS: dict[str, type] = {"pinocchio": Pinocchio, "mujoco": MuJoCo}

__all__ = [
    "PEERS",
    "Blocks",
    "MuJoCo",
    "Pinocchio",
    "Projected",
    "Resisted",
    "States",
    "independent",
    "module",
]
