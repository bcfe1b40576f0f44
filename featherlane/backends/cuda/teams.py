"""Teams: several warps for the same 32 states, for small batches of large functions.

With few states most of a GPU idles, and a call takes as long as the straight line of one warp. A
team cuts the line into several ones. This costs barriers and traffic through shared memory, so that
it loses where there are enough states to keep all processors busy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featherlane.backends.cuda import mappings, stages
from featherlane.backends.cuda.kernel import stage_kernel
from featherlane.backends.cuda.kernel_stage import KernelStage
from featherlane.backends.cuda.schedule import operations
from featherlane.backends.cuda.stages import GpuKernels, arrays_of
from featherlane.backends.cuda.team_kernel import ENTRY, TeamKernel, TeamWork
from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify

LONGEST = 6_000  # operations of a kernel at most: the time of the driver's compiler
MEMORY_BYTES = 96 << 10  # of shared memory that a block may ask for on compute capability 7.0
MOST_WARPS = 8  # of a team: more have less than 255 registers for each thread


def kernels(program: Program, name: str, dtype: np.dtype, warps: int) -> GpuKernels:
    """The kernels of a lowered program, with so many warps for 32 states. Columns, which are many
    blocks for the same states anyway, have kernels of one warp each.
    """
    dtype, arrays, program = np.dtype(dtype), arrays_of(program), program.map(_by_depth)
    parts, first = stages.stages_of(program, LONGEST)
    called = stages.names(name, len(parts))
    teams = _teams(program, called, parts, dtype, warps)
    slots = first + max((team.layout.scratch_slots for team in teams.values()), default=0)
    written = [
        teams[k].kernel(first, slots)
        if k in teams
        else stage_kernel(part, called[k], dtype, arrays, slots)
        for k, part in enumerate(parts)
    ]
    work = mappings.KernelWork(0, 0, len(written))
    return stages.together(program, written, slots, work)


def estimate(program: Program, dtype: np.dtype, warps: int) -> TeamWork:
    """The work of the kernels of a lowered program, one after the other. One warp: that of a thread
    for each state, as `stages.kernels` makes it.
    """
    if warps == 1:
        return _work_of_one(stages.stages_of(program, stages.longest(np.dtype(dtype)))[0])
    parts, _ = stages.stages_of(program.map(_by_depth), LONGEST)
    teams = _teams(program, [""] * len(parts), parts, np.dtype(dtype), warps)
    columns = [len(operations(x.graph, x.nodes)) for x in parts if x.columns]
    work = [*(x.work for x in teams.values()), *(TeamWork(n, n, n, 0) for n in columns)]
    return TeamWork(*map(sum, zip(*work, strict=True)))


def _work_of_one(parts: Sequence[KernelStage]) -> TeamWork:
    """The work of stages of one warp each."""
    count = sum(len(operations(x.graph, x.nodes)) for x in parts)
    entries = sum(len(to) for x in parts for to in x.outputs.values())
    return TeamWork(count, count, count + ENTRY * entries, 0, len(parts))


def _by_depth(graph: Graph) -> Graph:
    """A graph in an order in which kernels of LONGEST operations are bands of depths: a stretch of
    the order by columns would leave most warps without work.
    """
    end = graph.op.index("call") if "call" in graph.op else len(graph)
    parts = -(-end // LONGEST)
    if parts < 2:
        return graph
    depth, band = [0] * end, [0] * end
    for k in range(end):
        depth[k] = max((depth[a] + 1 for a in graph.args[k]), default=0)
    for n, k in enumerate(sorted(range(end), key=depth.__getitem__)):
        band[k] = n * parts // end
    return simplify(graph, [*sorted(range(end), key=band.__getitem__), *range(end, len(graph))])


def _teams(
    program: Program,
    called: Sequence[str],
    parts: Sequence[KernelStage],
    dtype: np.dtype,
    warps: int,
) -> dict[int, TeamKernel]:
    """The kernels of stages without columns, by their numbers, without text."""
    if not 1 < warps <= MOST_WARPS:
        raise CompileError(f"warps is {warps}: a team has 2 to {MOST_WARPS}")
    arrays = arrays_of(program)
    return {
        k: TeamKernel(part, called[k], dtype, arrays, warps, MEMORY_BYTES)
        for k, part in enumerate(parts)
        if part.columns is None
    }
