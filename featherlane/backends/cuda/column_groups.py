"""Several columns in a thread: what they share is loaded, and computed, once.

Columns of derivatives of forward dynamics of Atlas do 324 to 702 operations and load 233 to 382
numbers, all but 10 to 36 of which are those of other columns. With six in a thread, 57 loads and
330 operations a column are left of 233 and 360 (ptxas, sm_90, f32), and fewer spills, since values
that wait for long are loaded again: docs/gpu_kernels.md.
"""

from __future__ import annotations

from featherlane.backends.cuda.kernel_stage import ColumnSlots, KernelStage
from featherlane.program.graph import Graph

# Columns of a thread: more save less than 5 % of a column's instructions, and leave fewer warps
MOST = 7


def columns_of_a_thread(stage: KernelStage, longest: int) -> int:
    """The most columns whose operations are not more than a kernel may have: a divisor of all."""
    calls = stage.columns.calls if stage.columns else 1
    operations = sum(1 for k in stage.nodes if stage.graph.args[k])
    fitting = (n for n in range(MOST, 1, -1) if n * operations <= longest)
    return next((n for n in fitting if calls % n == 0), 1)


def grouped(stage: KernelStage, each: int) -> KernelStage:
    """The stage of columns in which a thread computes so many that follow each other, a divisor of
    their number: operation by operation, each for all of them.
    """
    area = stage.columns
    if each == 1 or area is None:
        return stage
    columns = ColumnSlots(
        area.calls // each, area.each, area.size * each, area.result, area.results * each
    )
    old, graph, of = stage.graph, Graph(), dict[int, list[int]]()  # nodes, by column
    for k in stage.nodes:
        if k in stage.operands:
            of[k] = [graph.node("input", value=(k, j)) for j in range(each)]
        elif old.args[k]:
            rows = [tuple(of[a][j] for a in old.args[k]) for j in range(each)]
            of[k] = [graph.node(old.op[k], *row, value=old.value[k]) for row in rows]
        else:
            of[k] = [graph.node(old.op[k], value=old.value[k])] * each
    operands = {of[k][j]: i + j * area.size for k, i in stage.operands.items() for j in range(each)}
    stores: dict[int, list[int]] = {}
    for k, places in stage.stores.items():
        for j, node in enumerate(of[k]):
            stores.setdefault(node, []).extend(i + j * area.results for i in places)
    return stage._replace(
        graph=graph,
        nodes=range(len(graph)),
        numbers={of[k][0]: x for k, x in stage.numbers.items()},
        inputs={of[k][0]: x for k, x in stage.inputs.items()},
        slots={of[k][0]: x for k, x in stage.slots.items()},
        operands=operands,
        stores=stores,
        columns=columns,
    )
