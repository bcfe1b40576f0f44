"""The page that goes with a wrapped design: its packets, its registers, and how it is driven."""

from __future__ import annotations

from featherlane.backends.fpga.board import registers
from featherlane.backends.fpga.board.core import TAG, StreamCore
from featherlane.backends.fpga.board.packets import PacketLayout, Rate
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.text import every

PAGE = """\
# {name}

{core} between AXI4-Stream and AXI4-Lite. Hash {hash}, clock {clock:g} ns.

{rate}

## Packets

A packet is a batch: tasks one after the other, TLAST in the last beat of the last one. Each packet
in gives one packet out, with as many results in the same order{order}. A task begins at
a beat; bit 0 of TDATA is the lowest bit of the first byte in memory. Bits that no field has are 0
in results and ignored in tasks. An entry is the signed integer of its bits times 2^-fraction.{lane}

### A task: {task_beats} beats of {width} bits, {task_bytes} bytes

{tasks}

### A result: {result_beats} beats, {result_bytes} bytes

{results}

## What is wrong with a packet

- **TLAST inside a task** (`cut`): zeros are taken for the beats that are missing. The last result
  of the packet means nothing.
- **TLAST before the last task** that `packet_tasks` announced (`early`), or, if that is 0, never:
  the packet of results ends after the tasks that came.
- **No TLAST at the last task** that was announced (`late`): what follows is dropped, up to TLAST.
- **TKEEP** must be 1 for each byte that has bits of a task (`keep`).

After each of these the next packet is right.

## Registers

AXI4-Lite, 32 bits, byte addresses. What is no register, a register that is only read, and a write
of single bytes are answered by SLVERR.

{registers}

A **reset** and a **flush** keep counters and errors. `aresetn`, active low and synchronous to
`aclk`, sets everything to its first state.

## Files

`{name}.sv` is the top module. `iverilog -g2012 *.sv && vvp a.out` simulates it against vectors.
`build.tcl` and `package.tcl`, if the device is one of AMD's, are for Vivado and were **not run**.
`board.json` is what the driver reads:

    from featherlane.backends.fpga.board.host import BoardDriver
    from featherlane.backends.fpga.board.transport import PynqTransport

    driver = BoardDriver("board.json", PynqTransport(overlay.{name}_0, overlay.axi_dma_0))
    results = driver({arguments})
"""


def page(board: WrappedCore) -> str:
    """The page in Markdown."""
    tagged = any(f.entries[0][0] == "tag" for f in board.core.results.fields)
    lane = board.tasks.lane
    above = (
        f" Above its bits stands its sign (zeros, if unsigned), up to {lane} bits." if lane else ""
    )
    return PAGE.format(
        name=board.name,
        core=board.core.name,
        hash=f"0x{board.hash:016x}",
        clock=board.core.clock,
        rate=summary(board.rate),
        order=", unless the design gives them in another one, which their tags tell" * tagged,
        lane=above,
        width=board.width,
        task_beats=board.tasks.beats,
        result_beats=board.results.beats,
        task_bytes=board.tasks.size,
        result_bytes=board.results.size,
        tasks=_fields(board.tasks),
        results=_fields(board.results) + _constants(board.results),
        registers=registers.table(),
        arguments=_arguments(board.core),
    )


def summary(rate: Rate) -> str:
    """The rate in a sentence."""
    moved = rate.per_second * 1e-9
    return (
        f"A task {every(rate.cycles)}, limited by {rate.limit}: "
        f"{rate.per_second / 1e6:.4g} million a second, {rate.bytes_in * moved:.3g} GB/s in "
        f"({100 * rate.used_in:.0f} % of it bits of entries) and {rate.bytes_out * moved:.3g} GB/s "
        f"out ({100 * rate.used_out:.0f} %)."
    )


def _fields(layout: PacketLayout) -> str:
    lines = ["| entry | first bit | bits | fraction |", "|---|---|---|---|"]
    for field, (first, _) in zip(layout.words.fields, layout.places, strict=True):
        entries = ", ".join(f"{name}[{n}]" for name, n in field.entries)
        kind = "" if field.signed else ", unsigned"
        where = _where(layout, field.when)
        lines.append(f"| {entries}{where} | {first} | {field.width}{kind} | {field.fraction} |")
    return "\n".join(lines)


def _arguments(core: StreamCore) -> str:
    """The arguments of a call of the driver: of several functions, for tasks of the first one."""
    inputs, more = [name for name in core.tasks.shapes if name != TAG], ""
    if core.tasks.selector is not None and core.functions:
        name, function = next(iter(core.functions.items()))
        inputs, more = [*function.inputs], f', "{name}"'
    listed = ", ".join(f'"{name}": {name}' for name in inputs)
    return f"{{{listed}}}{more}"


def _constants(layout: PacketLayout) -> str:
    entries = [
        f"{c.name}[{c.position}] = {c.value:g}{_where(layout, c.when)}"
        for c in layout.words.constants
    ]
    return f"\n\nEntries that are constants, and not sent: {', '.join(entries)}." if entries else ""


def _where(layout: PacketLayout, when: int | None) -> str:
    return "" if when is None else f" where {layout.words.selector} is {when}"
