"""Other libraries on the cases of the suite, each at its best setting: the list PEERS.

Every adapter is optional: nothing of a peer is imported before `prepare` is called.
"""

from __future__ import annotations

from .base import FLOAT32, FLOAT64, Case, Peer, Prepared, Unsupported
from .with_adam import Adam
from .with_casadi import CasADi
from .with_dynibo import Dynibo
from .with_frax import Frax
from .with_generated import Generated
from .with_jaxsim import JaxSim
from .with_mjx import MJX
from .with_mujoco import MuJoCoBatch, MuJoCoLoop, MuJoCoPython
from .with_pinocchio import NATIVE, CompiledLoop, InParallel, PythonAPI

PEERS: tuple[Peer, ...] = (
    CompiledLoop("pinocchio-cpp", (FLOAT64,)),
    CompiledLoop("pinocchio-cpp-native", (FLOAT64, FLOAT32), NATIVE),
    InParallel(),
    PythonAPI(),
    MuJoCoLoop(),
    MuJoCoBatch(),
    MuJoCoPython(),
    Dynibo(),
    Frax(),
    Adam(),
    JaxSim(),
    MJX(),
    CasADi(),
    Generated(),
)

__all__ = ["PEERS", "Case", "Peer", "Prepared", "Unsupported"]
