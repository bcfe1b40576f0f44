"""Instructions for a state of the iiwa14, from code for four kinds of processors

Writes docs/processors.svg from the table of docs/processors.md. SSE2 has no fused multiply-adds,
and computes them exactly from other instructions.
"""

from __future__ import annotations

from bars import Bars, number, table
from drawing import main

NAMES = {"ID": "inverse dynamics", "dFD": "derivatives of forward dynamics"}
TARGETS = ("AVX-512", "AVX2", "SSE2", "NEON")  # the columns of the table


def shown() -> Bars:
    rows = table("processors.md", "| instructions ")
    names = []
    for row in rows:
        function, dtype = row[0].removeprefix("iiwa14 ").split(", ")
        names.append(f"{NAMES[function]}, {dtype}")
    series = {
        target: [number(row[column].split("=")[1]) for row in rows]
        for column, target in enumerate(TARGETS, start=1)
    }
    return Bars(names, series, "instructions for a state, logarithmic", "log")


if __name__ == "__main__":
    main(shown().wide, __file__, __doc__, shown().narrow)
