"""The slowest of ten million calls of a control loop, beside Pinocchio

Writes docs/slowest_calls.svg from the table of docs/real_time.md.
"""

from __future__ import annotations

from bars import Bars, number, table
from drawing import main


def shown() -> Bars:
    rows = table("real_time.md", "| us: median / p99.9 / largest")
    series = {
        who: [number(row[column].split("/")[2]) for row in rows]
        for column, who in enumerate(("featherlane", "Pinocchio"), start=1)
    }
    return Bars([row[0] for row in rows], series, "microseconds, logarithmic", scale="log")


if __name__ == "__main__":
    main(shown().wide, __file__, __doc__, shown().narrow)
