"""Gigabytes that went through a process, and the memory that it took

Writes docs/scale.svg from two tables of docs/scale.md.
"""

from __future__ import annotations

from bars import Bars, number, table
from drawing import main

CASES = {  # the head of a table, its column, and the name of the case
    "from disk to disk: inverse dynamics of iiwa14": ("| quantity | iiwa14", 1),
    "from disk to disk: derivatives of Atlas": ("| quantity | iiwa14", 2),
    "norms of Atlas's derivatives, in the kernel": ("| quantity | in the kernel", 1),
    "norms of Atlas's derivatives, in Dask": ("| quantity | in the kernel", 2),
}
PASSED = ("read and written", "size of the blocks, not stored")
MEMORY = "peak memory (RSS)"  # MB


def shown() -> Bars:
    passed, memory = [], []
    for head, column in CASES.values():
        rows = {row[0]: row[column] for row in table("scale.md", head)}
        passed.append(next(number(rows[name]) for name in PASSED if name in rows))
        memory.append(number(rows[MEMORY]) / 1000)
    series = {"data that passed through": passed, "peak memory": memory}
    return Bars([*CASES], series, "GB, logarithmic", "log")


if __name__ == "__main__":
    main(shown().wide, __file__, __doc__, shown().narrow)
