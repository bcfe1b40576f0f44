"""SystemVerilog of kernels whose members take turns: the modules that scatter a task over slots,
give each slot its constants, and gather or add up what the slots give.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.fpga.text import indented, literal

SCATTER = """\
// Holds a task and gives it slot by slot: what all members read, and what those of a slot do.
module {name}_scatter #(
  parameter SLOTS = 1,
  parameter SLOT_BITS = 1,
  parameter SHARED = 1,  // bits that all slots read
  parameter OWN = 1      // bits of a slot
) (
  input logic clock,
  input logic reset,
  input logic in_valid,
  output logic in_ready,
  input logic [SHARED+SLOTS*OWN-1:0] in_data,
  output logic out_valid,
  input logic out_ready,
  output logic [SLOT_BITS-1:0] slot,
  output logic [SHARED+OWN-1:0] out_data
);
  localparam [SLOT_BITS-1:0] LAST = SLOTS - 1;
  logic [SHARED-1:0] shared;
  logic [SLOTS*OWN-1:0] own;
  logic taken, given;

  assign in_ready = !reset && (!out_valid || (out_ready && slot == LAST));
  assign taken = in_valid && in_ready;
  assign given = out_valid && out_ready;
  assign out_data = {{own[OWN-1:0], shared}};

  always_ff @(posedge clock) begin
    if (reset) out_valid <= 1'b0;
    else if (taken) out_valid <= 1'b1;
    else if (given && slot == LAST) out_valid <= 1'b0;
    if (taken) begin
      shared <= in_data[SHARED-1:0];
      own <= in_data[SHARED+SLOTS*OWN-1:SHARED];
      slot <= '0;
    end else if (given) begin
      own <= own >> OWN;
      slot <= slot + 1'b1;
    end
  end
endmodule
"""
GATHER = """\
// Collects what the slots of a task give into one word, and adds up over the slots what is reduced.
module {name}_gather #(
  parameter SLOTS = 1,
  parameter SLOT_BITS = 1,
  parameter OWN = 1,  // bits of a slot that are kept
  parameter SUMS = 1  // bits of what is added up
) (
  input logic clock,
  input logic reset,
  input logic in_valid,
  output logic in_ready,
  input logic [OWN+{terms}*SUMS-1:0] in_data,
  output logic out_valid,
  input logic out_ready,
  output logic [SUMS+SLOTS*OWN-1:0] out_data
);
  localparam [SLOT_BITS-1:0] LAST = SLOTS - 1;
  logic [SLOTS*OWN-1:0] own;
  logic [SUMS-1:0] sums;
  logic [SLOT_BITS-1:0] slot;
  logic taken;

  assign in_ready = !reset && (!out_valid || out_ready);
  assign taken = in_valid && in_ready;
  assign out_data = {{own, sums}};

  always_ff @(posedge clock) begin
    if (reset) begin
      out_valid <= 1'b0;
      slot <= '0;
    end else begin
      if (taken) slot <= slot == LAST ? '0 : slot + 1'b1;
      if (taken && slot == LAST) out_valid <= 1'b1;
      else if (out_ready) out_valid <= 1'b0;
    end
    if (taken) begin
      own <= {shifted};
{added}
    end
  end
endmodule
"""
TOP = """\
// {members} members on {lanes} lanes of a kernel: a task every {interval} cycles, in {slots} slots.
module {name} (
  input logic clock,
  input logic reset,
  input logic in_valid,
  output logic in_ready,
  input logic [{given}:0] in_data,
  output logic out_valid,
  input logic out_ready,
  output logic [{results}:0] out_data
);
{body}
endmodule
"""


class Slice(NamedTuple):
    """Bits of a vector."""

    name: str
    width: int
    offset: int

    def __str__(self) -> str:
        return f"{self.name}[{self.offset + self.width - 1}:{self.offset}]"

    def extended(self, width: int) -> str:
        """The bits with their sign repeated, or the last ones, as many as `width`."""
        if width <= self.width:
            return str(self._replace(width=width))
        sign = f"{self.name}[{self.offset + self.width - 1}]"
        return f"{{{{{width - self.width}{{{sign}}}}}, {self}}}"


def joined(parts: list[str]) -> str:
    """A concatenation whose first part has the lowest bits; a bit that is 0, of none."""
    return f"{{{', '.join(reversed(parts))}}}" if parts else "1'b0"


def table(name: str, slot_bits: int, rows: list[list[tuple[int, int]]]) -> str:
    """The module that gives each slot its constants. rows: of each slot the integers and their
    widths.
    """
    width = sum(w for _, w in rows[0])
    lines = [
        "// The constants of the members, by the slot in which they take their turn",
        f"module {name}_table (",
        f"  input logic [{slot_bits - 1}:0] slot,",
        f"  output logic [{width - 1}:0] constants",
        ");",
        "  always_comb",
        "    case (slot)",
    ]
    for slot, row in enumerate(rows):
        label = "default" if slot == len(rows) - 1 else f"{slot_bits}'d{slot}"
        lines.append(f"      {label}: constants = {joined([literal(*x) for x in row])};")
    return "\n".join([*lines, "    endcase", "endmodule", ""])


def gather(name: str, slots: int, own: int, sums: list[tuple[int, list[Slice], list[bool]]]) -> str:
    """The module that collects what slots give. sums: width of each, its terms in a slot, and which
    of them the last slot has.
    """
    lines, offset = [], 0
    for width, terms, there in sums:
        total = Slice("sums", width, offset)
        added = [
            str(x) if last else f"(slot == LAST ? {width}'b0 : {x})"
            for x, last in zip(terms, there, strict=True)
        ]
        before = f"(slot == '0 ? {width}'b0 : {total})" if slots > 1 else None
        lines.append(f"{total} <= {' + '.join([*([before] if before else []), *added])};")
        offset += width
    shifted = "{in_data[OWN-1:0], own[SLOTS*OWN-1:OWN]}" if slots > 1 else "in_data[OWN-1:0]"
    lanes = max((len(terms) for _, terms, _ in sums), default=1)
    text = "\n".join(indented(lines or ["sums <= '0;"], "      "))
    return GATHER.format(name=name, terms=lanes, shifted=shifted, added=text)
