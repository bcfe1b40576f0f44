"""Pieces of SystemVerilog text: signals, literals, alignment, and the bits that a format keeps.

Only what Verilator, Icarus and Yosys all accept is written. Every product and sum is a signal of
its own with all its bits: where an expression stands inside another one, SystemVerilog computes it
in the width of the outer one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from featherlane.backends.fixed.formats import Format

RESERVED = """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
    before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
    checker class clocking cmos config const constraint context continue cover covergroup
    coverpoint cross deassign default defparam design disable dist do edge else end endcase
    endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface
    endmodule endpackage endprimitive endprogram endproperty endspecify endsequence endtable
    endtask enum event eventually expect export extends extern final first_match for force foreach
    forever fork forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins
    illegal_bins implements implies import incdir include initial inout input inside instance int
    integer interconnect interface intersect join join_any join_none large let liblist library
    local localparam logic longint macromodule matches medium modport module nand negedge nettype
    new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
    parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown
    pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real
    realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1
    s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0 strong1
    struct super supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout
    time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type
    typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual
    void wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""
KEYWORDS = frozenset(RESERVED.split())  # of IEEE 1800-2017


class Signal(NamedTuple):
    """A wire or register: a signed number, or one bit that is a condition. value: of a literal;
    constant: so many of its last bits never change; label: what it is, in a user's words.
    """

    name: str
    width: int
    number: bool = True
    value: int | None = None
    constant: int = 0
    label: str = ""


def identifier(text: str) -> str:
    """A text as a name in SystemVerilog, unless it is empty or a keyword."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return name if re.match(r"[A-Za-z]", name) else f"n{name}"


def literal(x: int, width: int) -> str:
    """A signed number of a width. The least one is written by its bits: -2'sd2 is 2 where more than
    two bits are wanted, since 2'sd2 is -2 already.
    """
    if x == -(1 << width - 1):
        return f"{width}'sh{1 << width - 1:x}"
    return f"-{width}'sd{-x}" if x < 0 else f"{width}'sd{x}"


def every(cycles: int) -> str:
    """The time between things that come one after the other, in words."""
    return "every cycle" if cycles == 1 else f"every {cycles} cycles"


def constant(x: int, width: int) -> Signal:
    """A literal in the place of a signal."""
    return Signal(literal(x, width), width, value=x)


def signed_width(x: int) -> int:
    """The fewest bits of a signed number that hold x."""
    return (x if x >= 0 else ~x).bit_length() + 1


def wrapped(x: int, width: int) -> int:
    """The last bits of an integer in two's complement."""
    half = 1 << width - 1
    return ((x + half) & (2 * half - 1)) - half


def zeros(count: int) -> str:
    """So many bits that are 0."""
    return f"{count}'b0"


def shifted_left(name: str, places: int) -> str:
    """A signal times 2^places, in as many bits more."""
    return f"$signed({{{name}, {zeros(places)}}})" if places else name


def fitted(of: Signal, fraction: int, to: Format) -> str:
    """The bits of a signal with a fraction that a format keeps: shifted, rounded down, of which the
    last ones stay.
    """
    shift = fraction - to.fraction
    if shift < 0:
        return _padded(of, -shift, to.width)
    return bits_of(of, shift, to.width)


def bits_of(of: Signal, first: int, count: int) -> str:
    """`count` bits from bit `first` upwards; beyond the highest one stands the sign."""
    sign = f"{of.name}[{of.width - 1}]"
    if first >= of.width:
        return f"{{{count}{{{sign}}}}}"
    last = min(first + count, of.width) - 1
    whole = first == 0 and last == of.width - 1
    kept = of.name if whole else f"{of.name}[{last}:{first}]"
    missing = count - (last - first + 1)
    return f"{{{{{missing}{{{sign}}}}}, {kept}}}" if missing else kept


def _padded(of: Signal, places: int, width: int) -> str:
    """The last bits of a signal that is shifted to the left."""
    if places >= width:
        return zeros(width)
    return f"{{{bits_of(of, 0, width - places)}, {zeros(places)}}}"


def moved(of: Signal, places: int, half: int) -> str:
    """A signal times 2^places, with a number that has fewer bits in the places behind it."""
    return f"$signed({{{of.name}, {places}'d{half}}})" if places else of.name


def indented(lines: list[str]) -> list[str]:
    """Lines, each two columns further to the right."""
    return [f"  {line}" if line else line for line in lines]
