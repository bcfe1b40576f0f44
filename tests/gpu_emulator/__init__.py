"""Runs PTX text without a GPU: all threads of a launch as NumPy arrays, instruction by instruction.

The emulator takes the PTX that `grammar` describes, which is what the package writes. It is
stricter than a GPU. It refuses addresses outside of all arrays, registers that are read before they
are set, branches at which threads of a warp part, barriers that some warps of a block do not reach,
and reads of memory that another thread wrote without a barrier in between, or the other way round.
Tests use it, and the dry runs of benchmarks/gpu.py.
"""

from gpu_emulator.driver import EmulatedDriver
from gpu_emulator.kernels import run
from gpu_emulator.launch import Launched
from gpu_emulator.memory import EmulationError, Memory, Shared

__all__ = ["EmulatedDriver", "EmulationError", "Launched", "Memory", "Shared", "run"]
