"""The text of an array that pauses: of a module and what is in it, with an enable of all registers.

Where turns do not fill the interval, an array stands still for the cycles that are left: its own
time has no such cycles, so that its schedule is that of its turns alone.
"""

from __future__ import annotations

import re

CLOCK = "input logic clock"
REGISTERS = "always_ff @(posedge clock)"
OF_DSP = re.compile(r"\.CE(A1|A2|B1|B2|M|P)\(([^)]*)\)")  # of a DSP48E2, whose others are not used


def paused(text: str) -> str:
    """Returns modules whose registers keep their values in cycles without `enable`, a new port."""
    text = text.replace(CLOCK, f"{CLOCK},\n  input logic enable")
    text = text.replace(REGISTERS, f"{REGISTERS} if (enable)")
    text = text.replace(".clock(clock)", ".clock(clock), .enable(enable)")
    return OF_DSP.sub(r".CE\1(enable && (\2))", text)
