"""The registers of a wrapped design: one table, from which come the circuit, the documentation and
the names that the host uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from featherlane.backends.fpga.module import Module

MAGIC = 0x46544852  # "FTHR"
VERSION = 0x00010000  # of this table: 1.0
ADDRESS_BITS = 8


class RegisterBit(NamedTuple):
    """One bit of a register."""

    name: str
    meaning: str


class BoardRegister(NamedTuple):
    """A register of 32 bits.

    kind: "constant", known when the circuit is made; "counter", one more for each cycle in which
    something happens, modulo 2^32; "status", what holds now; "flags", which stay 1 until a 1 is
    written there; "command", where a 1 does something and reads as 0; or "value", written and read.
    """

    address: int
    name: str
    kind: str
    meaning: str
    bits: tuple[RegisterBit, ...] = ()


COMMANDS = (
    RegisterBit(
        "reset",
        "Forgets all tasks and both packets under way at once. TVALID of the results may drop: "
        "reset the DMA of both streams, too, before the next packet.",
    ),
    RegisterBit(
        "flush",
        "Forgets all tasks within the rules of AXI: the rest of a packet that is coming in is "
        "dropped up to its TLAST, and each packet of results that is owed ends with a beat of "
        "zeros. Status `resetting` is 1 until both have happened.",
    ),
    RegisterBit("clear", "Sets all counters and errors to 0."),
)
STATUS = (
    RegisterBit("busy", "A packet has begun to come in whose results have not ended."),
    RegisterBit("resetting", "A reset or a flush goes on."),
    RegisterBit("receiving", "A packet has begun to come in and has not ended."),
)
ERRORS = (
    RegisterBit(
        "cut", "TLAST came inside a task: zeros were taken for the beats that were missing."
    ),
    RegisterBit("early", "TLAST came before the number of tasks in `packet_tasks`."),
    RegisterBit(
        "late", "TLAST did not come with the last task: what followed up to it was dropped."
    ),
    RegisterBit("keep", "TKEEP was 0 for a byte that a task needs: it was taken as it was."),
    RegisterBit(
        "range", "An entry did not fit its field: its last bits were taken. Not seen if packed."
    ),
)
REGISTERS = (
    BoardRegister(0x00, "magic", "constant", f"0x{MAGIC:08x}, the letters FTHR"),
    BoardRegister(0x04, "version", "constant", "of this table, major x 65536 + minor"),
    BoardRegister(0x08, "hash_low", "constant", "the design's hash, as in board.json"),
    BoardRegister(0x0C, "hash_high", "constant", "its upper 32 bits"),
    BoardRegister(0x10, "stream_bits", "constant", "bits of TDATA"),
    BoardRegister(0x14, "interval", "constant", "cycles of the pipeline from one task to the next"),
    BoardRegister(0x18, "clock_khz", "constant", "the clock that the design was made for"),
    BoardRegister(0x20, "task_beats", "constant", "beats of a task"),
    BoardRegister(0x24, "task_entries", "constant", "entries of a task"),
    BoardRegister(0x28, "task_lane", "constant", "bits of memory for each of them; 0: packed"),
    BoardRegister(0x30, "result_beats", "constant", "beats of a result"),
    BoardRegister(0x34, "result_entries", "constant", "entries of a result"),
    BoardRegister(0x38, "result_lane", "constant", "bits of memory for each of them; 0: packed"),
    BoardRegister(0x40, "control", "command", "", COMMANDS),
    BoardRegister(0x44, "status", "status", "", STATUS),
    BoardRegister(0x48, "errors", "flags", "A 1 that is written sets the flag to 0.", ERRORS),
    BoardRegister(
        0x4C,
        "packet_tasks",
        "value",
        "tasks that each packet shall have; 0: any number. To be written between packets.",
    ),
    BoardRegister(0x80, "cycles", "counter", "of the clock"),
    BoardRegister(0x84, "packets_in", "counter", "TLAST taken"),
    BoardRegister(0x88, "packets_out", "counter", "TLAST given"),
    BoardRegister(0x8C, "tasks_in", "counter", "tasks that the pipeline took"),
    BoardRegister(0x90, "tasks_out", "counter", "results that the pipeline gave"),
    BoardRegister(0x94, "input_stalled", "counter", "cycles in which a beat came and waited"),
    BoardRegister(0x98, "input_idle", "counter", "cycles in which a beat was wanted, none came"),
    BoardRegister(0x9C, "output_stalled", "counter", "cycles in which a beat of results waited"),
    BoardRegister(0xA0, "lost", "counter", "results with `lost`: a pivot was lost to rounding"),
    BoardRegister(0xA4, "beyond", "counter", "tasks with an entry that did not fit its field"),
)
REGISTER = {register.name: register for register in REGISTERS}


def mask(register: str, *bits: str) -> int:
    """The word in which these bits of a register are 1."""
    names = [bit.name for bit in REGISTER[register].bits]
    return sum(1 << names.index(bit) for bit in bits)


def set_bits(register: str, value: int) -> list[str]:
    """The names of the bits that are 1."""
    return [bit.name for n, bit in enumerate(REGISTER[register].bits) if value >> n & 1]


def _of_kind(*kinds: str) -> list[BoardRegister]:
    return [register for register in REGISTERS if register.kind in kinds]


# Documentation


def table() -> str:
    """The registers as a table in Markdown, and one for the bits of each that has some."""
    lines = ["| address | register | access | meaning |", "|---|---|---|---|"]
    access = {"command": "write", "value": "read, write", "flags": "read, write 1 to clear"}
    for register in REGISTERS:
        meaning = register.meaning or "see below"
        how = access.get(register.kind, "read")
        lines.append(f"| 0x{register.address:02x} | {register.name} | {how} | {meaning} |")
    for register in REGISTERS:
        if register.bits:
            lines += ["", f"| {register.name}, bit | name | meaning |", "|---|---|---|"]
            lines += [f"| {n} | {b.name} | {b.meaning} |" for n, b in enumerate(register.bits)]
    return "\n".join(lines)


# The circuit

AXI_PORTS = (
    ("input logic", "s_axi_awaddr", ADDRESS_BITS),
    ("input logic", "s_axi_awvalid", None),
    ("output logic", "s_axi_awready", None),
    ("input logic", "s_axi_wdata", 32),
    ("input logic", "s_axi_wstrb", 4),
    ("input logic", "s_axi_wvalid", None),
    ("output logic", "s_axi_wready", None),
    ("output logic", "s_axi_bresp", 2),
    ("output logic", "s_axi_bvalid", None),
    ("input logic", "s_axi_bready", None),
    ("input logic", "s_axi_araddr", ADDRESS_BITS),
    ("input logic", "s_axi_arvalid", None),
    ("output logic", "s_axi_arready", None),
    ("output logic", "s_axi_rdata", 32),
    ("output logic", "s_axi_rresp", 2),
    ("output logic", "s_axi_rvalid", None),
    ("input logic", "s_axi_rready", None),
)  # of AXI4-Lite, but for the protection that nothing reads


def add_axi_ports(module: Module) -> None:
    """The ports of AXI4-Lite."""
    for kind, name, bits in AXI_PORTS:
        module.declare(name, bits=bits, kind=kind)


def module(name: str, constants: Mapping[str, int]) -> Module:
    """The module of the registers. constants: the values of those of this kind, by name.

    Its further ports are `count_NAME` of each counter, `is_NAME` of each bit of the status,
    `raise_NAME` of each flag, `do_NAME` of each command, and each value by its name.
    """
    module = Module(name, ABOUT, unread="Bytes of an address: registers are words.")
    module.input("clock", "reset")
    add_axi_ports(module)
    _add_ports(module)
    module.constant("OKAY", "2'b00", bits=2)
    module.constant("SLVERR", "2'b10", bits=2)
    for register in _of_kind("counter"):
        module.declare(register.name, bits=32)
    for register in _of_kind("flags"):
        module.declare(register.name, bits=len(register.bits))
    module.declare("value", bits=32)
    module.declare("read_at", "write_at", bits=ADDRESS_BITS - 2, comment="words")
    module.declare("written", "changed", "readable", "writable")
    module.assign("written", "s_axi_awvalid && s_axi_wvalid && !s_axi_bvalid && !reset")
    module.assign("s_axi_awready", "written")
    module.assign("s_axi_wready", "written")
    module.assign("s_axi_arready", "!s_axi_rvalid && !reset")
    module.assign("read_at", f"s_axi_araddr[{ADDRESS_BITS - 1}:2]")
    module.assign("write_at", f"s_axi_awaddr[{ADDRESS_BITS - 1}:2]")
    module.assign("changed", "written && writable")
    _add_commands(module)
    _add_read(module, constants)
    _add_write(module)
    module.clocked(ANSWERS, *_kept())
    return module


ABOUT = (
    "Registers on AXI4-Lite, of 32 bits each: one write and one read at a time. What is no "
    "register, a register that is only read, or a write of single bytes, is answered by SLVERR."
)
ANSWERS = """
    if (s_axi_bready) s_axi_bvalid <= 1'b0;
    if (written) begin
      s_axi_bvalid <= 1'b1;
      s_axi_bresp <= writable ? OKAY : SLVERR;
    end
    if (s_axi_rready) s_axi_rvalid <= 1'b0;
    if (s_axi_arvalid && s_axi_arready) begin
      s_axi_rvalid <= 1'b1;
      s_axi_rdata <= value;
      s_axi_rresp <= readable ? OKAY : SLVERR;
    end
    if (reset) begin
      s_axi_bvalid <= 1'b0;
      s_axi_rvalid <= 1'b0;
    end
"""


def _add_ports(module: Module) -> None:
    for register in REGISTERS:
        bits = [bit.name for bit in register.bits]
        if register.kind == "counter" and register.name != "cycles":
            module.input(f"count_{register.name}")
        elif register.kind == "status":
            module.input(*(f"is_{bit}" for bit in bits))
        elif register.kind == "flags":
            module.input(*(f"raise_{bit}" for bit in bits))
        elif register.kind == "value":
            module.output(register.name, bits=32)
        elif register.kind == "command":
            module.output(*(f"do_{bit}" for bit in bits))


def _add_commands(module: Module) -> None:
    for register in _of_kind("command"):
        for n, bit in enumerate(register.bits):
            at = f"write_at == {_case(register)}"
            module.assign(f"do_{bit.name}", f"changed && {at} && s_axi_wdata[{n}]")


def _case(register: BoardRegister) -> str:
    return f"{ADDRESS_BITS - 2}'h{register.address >> 2:02x}"


def _add_read(module: Module, constants: Mapping[str, int]) -> None:
    """The value of the register that is read, and whether there is one."""
    rows = []
    for register in REGISTERS:
        text = register.name
        if register.kind == "constant":
            text = f"32'h{constants[register.name]:08x}"
        elif register.kind == "status":
            bits = ", ".join(f"is_{bit.name}" for bit in reversed(register.bits))
            text = f"{{{32 - len(register.bits)}'b0, {bits}}}"
        elif register.kind == "flags":
            text = f"{{{32 - len(register.bits)}'b0, {register.name}}}"
        elif register.kind == "command":
            text = "'0"
        rows.append(f"  {_case(register)}: value = {text};  // {register.name}")
    rows.append("  default: readable = 1'b0;")
    lines = ["value = '0;", "readable = 1'b1;", "case (read_at)", *rows, "endcase"]
    module.process("always_comb", "\n".join(lines))


def _add_write(module: Module) -> None:
    at = ", ".join(_case(register) for register in _of_kind("command", "flags", "value"))
    module.process("always_comb", f"""
        case (write_at)
          {at}: writable = s_axi_wstrb == 4'hf;
          default: writable = 1'b0;
        endcase
    """)  # fmt: skip


def _kept() -> Iterator[str]:
    """Statements for the registers that are written, raised or counted."""
    for register in _of_kind("value"):
        yield f"""
            if (reset) {register.name} <= '0;
            else if (changed && write_at == {_case(register)})
              {register.name} <= s_axi_wdata;
        """
    for register in _of_kind("flags"):
        raised = ", ".join(f"raise_{bit.name}" for bit in reversed(register.bits))
        written = f"{register.name} & ~s_axi_wdata[{len(register.bits) - 1}:0]"
        yield f"""
            if (reset || do_clear) {register.name} <= '0;
            else if (changed && write_at == {_case(register)})
              {register.name} <= {written} | {{{raised}}};
            else {register.name} <= {register.name} | {{{raised}}};
        """
    for register in _of_kind("counter"):
        event = "1'b1" if register.name == "cycles" else f"32'(count_{register.name})"
        yield f"""
            if (reset || do_clear) {register.name} <= '0;
            else {register.name} <= {register.name} + {event};
        """
