"""What do kernels for GPUs take for functions of robots of many links: rounds, operations in turn,
memory, registers?

Nothing is run: the figures are those of the schedule, for one state in a block, or 32. Registers
and spills are those of `ptxas`, which must be found, for the largest kernel.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from options import parser, write_json
from ptx_assembled import Case, alone, by_ptxas
from robots import machine_lines, say, table

import featherlane as fl
from featherlane.backends.cuda import rounds
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.functions.long.on_gpu import long_kernels, long_program
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.program.call_list import call_list
from featherlane.program.program import Program

ALONE, MANY = 1, 1_000_000  # states of a call
CASES = (
    ("inverse_dynamics", "serial", MANY),
    ("inverse_dynamics", "scan", ALONE),
    ("forward_dynamics", "aba", MANY),
    *(("forward_dynamics", method, ALONE) for method in ("aba", "abia", "cfa", "dca")),
    ("mass_matrix", None, ALONE),
    ("mass_matrix_inverse", None, ALONE),
    ("inverse_dynamics_derivatives", None, ALONE),
    ("forward_dynamics_derivatives", None, ALONE),
)


def row(links: int, variant: Variant, states: int, dtype: str, arch: str) -> dict[str, Any]:
    model = fl.chain(links, seed=1)
    start = time.process_time()
    made = long_kernels(model, variant, variant.name, dtype, states)
    seconds = time.process_time() - start
    program, shape = long_program(model, variant, np.dtype(dtype), states)
    return {
        "links": links,
        "function": variant.name,
        "method": variant.method or "",
        "dtype": dtype,
        "states, threads": f"{shape.states}, {shape.threads}",
        **predicted(program, dtype, shape),
        "shared, kB": made.launches[0].shared / 1024,
        "text, kB": len(made.text) // 1000,
        "made, s": seconds,
        **_assembled(made, variant.name, dtype, arch),
    }


def predicted(program: Program, dtype: str, shape: rounds.BlockShape) -> dict[str, int]:
    """Rounds, operations that a thread computes one after the other with the search for them,
    operations of all calls, and bytes of memory of a state.
    """
    calls = call_list(program)
    graphs = rounds.arithmetic(calls, dtype)
    scheduled = rounds.scheduled(calls, graphs, shape)
    costs = [*map(rounds.operations, graphs)]
    numbers = rounds.memory(calls, scheduled, shape.states).size // shape.states
    return {
        "rounds": len(scheduled),
        "in_turn": rounds.cost(scheduled, costs, shape.lanes),
        "operations": sum(
            len(f.results) * cost for f, cost in zip(calls.functions, costs, strict=True)
        ),
        "memory": numbers * np.dtype(dtype).itemsize,
    }


def _assembled(made: GpuKernels, name: str, dtype: str, arch: str) -> dict[str, Any]:
    """The largest figures of all kernels."""
    each = {
        one.texts[0]: Case("", name, "links", dtype, one, one.launches[0]) for one in alone(made)
    }
    found = [by_ptxas(case, arch, "ptxas") for case in each.values()]
    return {x: max(row[x] for row in found) for x in found[0]}


def rows(links: list[int], names: list[str], arch: str) -> Iterator[dict[str, Any]]:
    for n in links:
        for name, method, states in CASES:
            if name in names:
                for dtype in ("float32", "float64"):
                    say(f"{n} links, {name} {method or ''}, {dtype}")
                    try:
                        yield row(n, Variant(name, method=method), states, dtype, arch)
                    except fl.CompileError as error:
                        say(str(error))


def main() -> None:
    options = parser(__doc__, links=(100, 1000), functions=FUNCTIONS, json=None)
    options.add_argument("--arch", default="sm_90", help="the processor (%(default)s)")
    args = options.parse_args()
    if shutil.which("ptxas") is None:
        sys.exit("ptxas is not found: it is part of the CUDA toolkit")
    found = [*rows([*args.links], [*(args.functions or FUNCTIONS)], args.arch)]
    columns = [*found[0]]
    text = lambda x: f"{x:.3g}" if isinstance(x, float) else str(x)
    print(table(columns, [[text(own[c]) for c in columns] for own in found]))
    print("\n" + "\n".join(machine_lines()))
    write_json(args.json, found, arch=args.arch)


if __name__ == "__main__":
    main()
