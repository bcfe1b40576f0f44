"""Which mapping of a function's work to threads is expected to be the fastest.

"lanes": a thread computes a state, whose operations are one after the other. "team:W": W warps
share 32 states, which takes less time where there are too few states to fill the GPU, and more
where there are enough, since warps wait for each other. "links:S": a block computes S states of a
long robot, its threads lie over states and links.

Figures are from an H200 (2026-11-27, float32): of derivatives of robots with 12 to 29 joints, since
functions of fewer operations have no teams.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.cuda.ptx import WARP

# Cycles from one operation of a lone warp to the next: 2.4 where its code is short, but long code
# comes from memory, as do values of other kernels
ISSUE = 6.5
SHARE = 0.065  # of the instructions that a multiprocessor could issue: many warps wait for memory
SCHEDULERS = 4  # of a multiprocessor, each with an instruction in a cycle
LAUNCH = 3_200  # cycles from the begin of a kernel to that of the next in a CUDA graph
# The share of a team's time that is the work of one warp alone, divided by the warps: the rest is
# uneven lines, barriers, and traffic through shared memory
FILLED = {2: 0.68, 4: 0.44, 8: 0.245}
LONG = 4_000  # operations of a thread from which on barriers and shared memory pay
MULTIPROCESSORS = 132  # of an H100 or H200: where a device does not tell


class KernelWork(NamedTuple):
    """Work of kernels for a state. path: operations of one thread, over all launches; total:
    operations of all threads; launches: kernels one after the other.
    """

    path: int
    total: int
    launches: int


def cycles(work: KernelWork, states: int, warps: int, multiprocessors: int) -> float:
    """The expected time of a call, by teams of so many warps; 1: lanes."""
    filled = FILLED.get(warps, 1.0)
    alone = work.path / (warps * filled) * ISSUE
    tiles = -(-states // WARP)
    full = tiles * work.total / filled / (SCHEDULERS * SHARE * multiprocessors)
    return max(alone, full) + work.launches * LAUNCH


def warps_for(work: KernelWork, states: int, multiprocessors: int = MULTIPROCESSORS) -> int:
    """The warps of the fastest team, or 1 where lanes are faster."""
    if work.path < LONG:
        return 1
    return min((1, *FILLED), key=lambda warps: cycles(work, states, warps, multiprocessors))
