"""Time of calls through JAX and PyTorch as a multiple of the direct call

Writes docs/in_frameworks.svg from the table of docs/frameworks.md.
"""

from __future__ import annotations

from bars import Bars, number, table
from drawing import main


def shown() -> Bars:
    rows = table("frameworks.md", "| time relative to the direct call |")
    names = [row[0].replace("`", "") for row in rows]
    columns = {"inverse dynamics": 1, "forward dynamics": 2}
    series = {label: [number(row[k]) for row in rows] for label, k in columns.items()}
    return Bars(names, series, "time as a multiple of that of the direct call")


if __name__ == "__main__":
    main(shown().wide, __file__, __doc__, shown().narrow)
