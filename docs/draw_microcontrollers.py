"""Microseconds of an arm's dynamics on microcontrollers, at one instruction per cycle

Writes docs/microcontrollers.svg from the table of docs/c.md: instructions that an emulator counted,
at the clocks of usual parts.
"""

from __future__ import annotations

from bars import Bars, number, table
from drawing import main

MHZ = {"Cortex-M4": 168, "Cortex-M7": 480}
NAMES = {"ID": "inverse dynamics", "FD": "forward dynamics", "M": "mass matrix",
         "dID": "derivatives of\ninverse dynamics"}  # fmt: skip


def shown() -> Bars:
    series: dict[str, list[float]] = {}
    for case, _, _, instructions, _ in table("c.md", "| iiwa14 "):
        core, unit, dtype, _ = case.split(", ")
        if (unit, dtype) == ("hard", "float32"):
            label = f"{core}, {MHZ[core]} MHz"
            series.setdefault(label, []).append(number(instructions) / MHZ[core])
    return Bars([*NAMES.values()], series, "microseconds per call, iiwa14, float32")


if __name__ == "__main__":
    main(shown().wide, __file__, __doc__, shown().narrow)
