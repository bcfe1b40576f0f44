"""A graph for one state in the lanes of vectors: limbs of a robot that are alike share them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from featherlane.backends.cpu.graphs import kernel, single
from featherlane.backends.llvm import jit
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_sizes
from featherlane.program.graph import Graph
from featherlane.program.passes.pack import Packed, operations, pack
from featherlane.program.program import Program
from featherlane.robot import limbs
from featherlane.robot.model import Robot

NARROW = 16  # bytes of the narrowest vectors


def single_text(model: Robot, variant: Variant, program: Program, dtype: np.dtype) -> str:
    """LLVM IR of a lowered program for one state: equal limbs or columns of matrices fill the lanes
    of vectors.
    """
    if program.functions:
        return kernel.source(program, dtype, 1, jit.widest(dtype))
    packed = in_lanes(model, variant, program.main, dtype)
    lanes = cheapest(packed)
    return single.source(packed[lanes], lanes, dtype)


def in_lanes(model: Robot, variant: Variant, graph: Graph, dtype: np.dtype) -> dict[int, Packed]:
    """A lowered graph for one state, packed in the lanes of limbs that are alike; also in one lane,
    which keeps the number of operations, if limbs save none.
    """
    packed = dict[int, Packed]()
    together = limbs.count(model, jit.widest(dtype))
    if together > 1:
        lanes = max(together, NARROW // dtype.itemsize)
        twins = limbs.corresponding_entries(model, input_sizes(variant), together)
        packed[lanes] = pack(graph, twins, lanes)
    if all(operations(graph) <= code.operations for code in packed.values()):
        packed[1] = pack(graph, [], 1)
    return packed


def cheapest(packed: Mapping[int, Packed]) -> int:
    """The lanes with the fewest operations: one is packed only if limbs save none."""
    return min(packed)
