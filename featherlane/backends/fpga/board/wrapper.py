"""AXI around a module between two streams: beats to words, words to beats, ends of packets,
registers, and resets that leave nothing behind.

Every packet that comes in gives one packet of results, of as many tasks, whatever is wrong with it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from featherlane.backends.fpga.board import registers
from featherlane.backends.fpga.board.core import StreamCore, WordField, Words
from featherlane.backends.fpga.board.packets import (
    LAYOUTS,
    WIDTHS,
    PacketLayout,
    Rate,
    layout_of,
    rate_of,
)
from featherlane.errors import shown
from featherlane.program.passes.guards import LOST

RECEIVE = """\
// Beats of packets to words of tasks; see the documentation of the board for what is wrong with a
// packet and what follows from it.
module {name}_receive (
  input logic clock,
  input logic reset,
  input logic flush,     // begins to drop the packet that comes in
  input logic flushing,
  input logic [31:0] packet_tasks,
  input logic [{width}-1:0] tdata,
  input logic [{width}/8-1:0] tkeep,
  input logic tlast,
  input logic tvalid,
  output logic tready,
  output logic [{bits}-1:0] word,
  output logic word_last,  // of the packet
  output logic word_valid,
  input logic word_ready,
  output logic receiving,
  output logic raise_cut,
  output logic raise_early,
  output logic raise_late,
  output logic raise_keep
);
  localparam [{count}-1:0] FINAL = {beats} - 1;
  localparam [{width}/8-1:0] NEEDED = '1, NEEDED_LAST = {width_bytes}'h{last_keep:x};
  logic [{count}-1:0] beat;
  logic [31:0] tasks;  // of the packet, before this one
  logic padding;       // TLAST came inside a task: zeros in the place of what is missing
  logic dropping;      // what comes is dropped, up to TLAST
  logic final_beat, free, taken, step, complete, ended, wanted_end;
  logic [{width}-1:0] data;
  logic [{width}/8-1:0] missing;
{parts}
  assign final_beat = beat == FINAL;
  assign free = !final_beat || !word_valid || word_ready;
  assign tready = !reset && (dropping || (!flushing && !padding && free));
  assign taken = tvalid && tready && !dropping;
  assign step = taken || (padding && free);
  assign data = padding ? '0 : tdata;
  assign complete = step && final_beat;
  assign ended = padding || tlast;
  assign wanted_end = packet_tasks != 0 && tasks + 1'b1 == packet_tasks;
  assign missing = ~tkeep & (final_beat ? NEEDED_LAST : NEEDED);
  assign raise_cut = taken && tlast && !final_beat;
  assign raise_early = complete && ended && packet_tasks != 0 && !wanted_end;
  assign raise_late = complete && !ended && wanted_end;
  assign raise_keep = taken && missing != 0;

  always_ff @(posedge clock) begin
    if (reset) begin
      receiving <= 1'b0;
      dropping <= 1'b0;
    end else begin
      if (tvalid && tready) receiving <= !tlast;
      if (flush) dropping <= tvalid && tready ? !tlast : receiving;
      else if (dropping) dropping <= !(tvalid && tlast);
      else if (raise_late) dropping <= 1'b1;
    end
    if (reset || flush) begin
      word_valid <= 1'b0;
      padding <= 1'b0;
      beat <= '0;
      tasks <= '0;
    end else begin
      if (word_ready) word_valid <= 1'b0;
      if (step) beat <= final_beat ? '0 : beat + 1'b1;
      if (raise_cut) padding <= 1'b1;
      if (complete) begin
        padding <= 1'b0;
        word_valid <= 1'b1;
        tasks <= ended || wanted_end ? '0 : tasks + 1'b1;
      end
    end
    if (complete) begin
      word <= {whole};
      word_last <= ended || wanted_end;
    end
  end
endmodule
"""
PARTS = """\
  logic [{rest}-1:0] parts;  // the beats before the last one of a task
  always_ff @(posedge clock) if (step && !final_beat) parts <= {shifted};
"""
SEND = """\
// Words of results to beats of packets.
module {name}_send (
  input logic clock,
  input logic reset,
  input logic flushing,    // a beat of zeros ends each packet that is owed
  input logic [{owed}-1:0] owed,
  input logic [{bits}-1:0] word,
  input logic word_last,   // of the packet
  input logic word_valid,
  output logic word_ready,
  output logic [{width}-1:0] tdata,
  output logic [{width}/8-1:0] tkeep,
  output logic tlast,
  output logic tvalid,
  input logic tready
);
  localparam [{count}-1:0] FINAL = {beats} - 1;
  logic [{bits}-1:0] rest;
  logic [{count}-1:0] left;  // beats after this one
  logic last, free;

  assign free = !tvalid || (tready && left == 0);
  assign word_ready = !reset && !flushing && free;
  assign tdata = rest[{width}-1:0];
  assign tkeep = '1;
  assign tlast = last && left == 0;

  always_ff @(posedge clock) begin
    if (tvalid && tready) begin
      rest <= rest >> {width};
      left <= left - 1'b1;
      tvalid <= left != 0;
    end
    if (word_valid && word_ready) begin
      rest <= word;
      left <= FINAL;
      last <= word_last;
      tvalid <= 1'b1;
    end else if (flushing && (!tvalid || tready)) begin
      rest <= '0;
      left <= '0;
      last <= 1'b1;
      tvalid <= owed != (tvalid && tlast);
    end
    if (reset) tvalid <= 1'b0;
  end
endmodule
"""
TOP = """\
// {core} between AXI4-Stream and AXI4-Lite: see board.md.
module {name} (
  input logic aclk,
  input logic aresetn,
  input logic [{tasks}-1:0] s_axis_tdata,
  input logic [{tasks}/8-1:0] s_axis_tkeep,
  input logic s_axis_tlast,
  input logic s_axis_tvalid,
  output logic s_axis_tready,
  output logic [{tasks}-1:0] m_axis_tdata,
  output logic [{tasks}/8-1:0] m_axis_tkeep,
  output logic m_axis_tlast,
  output logic m_axis_tvalid,
  input logic m_axis_tready,
{registers},
  input logic [2:0] s_axi_awprot,
  input logic [2:0] s_axi_arprot
);
  localparam [2:0] HOLD = 7;  // cycles that the pipeline is reset, at least
  logic do_reset, do_flush, do_clear, aborting, flushing, stopped, core_reset;
  logic [2:0] hold;
  logic [31:0] packet_tasks;
  logic [{task_bits}-1:0] task_word;
  logic [{result_bits}-1:0] result_word;
  logic task_last, task_valid, task_ready, result_last, result_valid, result_ready;
  logic receiving, raise_cut, raise_early, raise_late, raise_keep, beyond, lost, begun, ended;
  logic [{given}-1:0] in_data;
  logic [{found}-1:0] out_data;
  logic [{owed}-1:0] owed;  // packets of results
  logic in_ready;

  // Resets

  assign stopped = !aresetn || aborting;
  assign core_reset = stopped || flushing;
  always_ff @(posedge aclk) begin
    if (!aresetn) begin
      aborting <= 1'b0;
      flushing <= 1'b0;
      hold <= '0;
    end else if (do_reset || do_flush) begin
      aborting <= do_reset || aborting;
      flushing <= do_flush || flushing;
      hold <= HOLD;
    end else begin
      if (hold != 0) hold <= hold - 1'b1;
      else aborting <= 1'b0;
      if (hold == 0 && !receiving && owed == 0) flushing <= 1'b0;
    end
  end

  // Packets of results that are owed: one for each packet that has begun to come in

  assign begun = s_axis_tvalid && s_axis_tready && !receiving;
  assign ended = m_axis_tvalid && m_axis_tready && m_axis_tlast;
  always_ff @(posedge aclk)
    if (stopped) owed <= '0;
    else if (begun != ended) owed <= begun ? owed + 1'b1 : owed - 1'b1;

  // The last task of each packet, in the order of tasks

  localparam [{place}-1:0] LAST_PLACE = {depth} - 1;
  logic last_of [0:{depth}-1];
  logic [{place}-1:0] newest, oldest;
  logic [{counted}-1:0] under_way;
  logic room, entered, left;
  assign room = under_way != {depth};
  assign task_ready = in_ready && room && !core_reset;
  assign entered = task_valid && task_ready;
  assign left = result_valid && result_ready;
  assign result_last = under_way == 0 ? task_last : last_of[oldest];  // 0: in the task's cycle
  always_ff @(posedge aclk) begin
    if (core_reset) begin
      newest <= '0;
      oldest <= '0;
      under_way <= '0;
    end else begin
      if (entered) newest <= newest == LAST_PLACE ? '0 : newest + 1'b1;
      if (left) oldest <= oldest == LAST_PLACE ? '0 : oldest + 1'b1;
      if (entered != left) under_way <= entered ? under_way + 1'b1 : under_way - 1'b1;
    end
    if (entered) last_of[newest] <= task_last;
  end

  // Bits of the fields

{fields}
  assign beyond = {beyond};
  assign lost = {lost};

  {core} core (
    .clock(aclk), .reset(core_reset),
    .in_valid(task_valid && room), .in_ready(in_ready), .in_data(in_data),
    .out_valid(result_valid), .out_ready(result_ready), .out_data(out_data)
  );
  {name}_receive receive (
    .clock(aclk), .reset(stopped), .flush(do_flush), .flushing(flushing),
    .packet_tasks(packet_tasks),
    .tdata(s_axis_tdata), .tkeep(s_axis_tkeep), .tlast(s_axis_tlast), .tvalid(s_axis_tvalid),
    .tready(s_axis_tready),
    .word(task_word), .word_last(task_last), .word_valid(task_valid), .word_ready(task_ready),
    .receiving(receiving), .raise_cut(raise_cut), .raise_early(raise_early),
    .raise_late(raise_late), .raise_keep(raise_keep)
  );
  {name}_send send (
    .clock(aclk), .reset(stopped), .flushing(flushing), .owed(owed),
    .word(result_word), .word_last(result_last), .word_valid(result_valid),
    .word_ready(result_ready),
    .tdata(m_axis_tdata), .tkeep(m_axis_tkeep), .tlast(m_axis_tlast), .tvalid(m_axis_tvalid),
    .tready(m_axis_tready)
  );
  {name}_registers registers (
    .clock(aclk), .reset(!aresetn),
    .s_axi_awaddr(s_axi_awaddr), .s_axi_awvalid(s_axi_awvalid), .s_axi_awready(s_axi_awready),
    .s_axi_wdata(s_axi_wdata), .s_axi_wstrb(s_axi_wstrb), .s_axi_wvalid(s_axi_wvalid),
    .s_axi_wready(s_axi_wready), .s_axi_bresp(s_axi_bresp), .s_axi_bvalid(s_axi_bvalid),
    .s_axi_bready(s_axi_bready), .s_axi_araddr(s_axi_araddr), .s_axi_arvalid(s_axi_arvalid),
    .s_axi_arready(s_axi_arready), .s_axi_rdata(s_axi_rdata), .s_axi_rresp(s_axi_rresp),
    .s_axi_rvalid(s_axi_rvalid), .s_axi_rready(s_axi_rready),
    .is_busy(owed != 0), .is_resetting(aborting || flushing), .is_receiving(receiving),
    .raise_cut(raise_cut), .raise_early(raise_early), .raise_late(raise_late),
    .raise_keep(raise_keep), .raise_range(entered && beyond),
    .count_packets_in(s_axis_tvalid && s_axis_tready && s_axis_tlast),
    .count_packets_out(ended),
    .count_tasks_in(entered), .count_tasks_out(left),
    .count_input_stalled(s_axis_tvalid && !s_axis_tready),
    .count_input_idle(!s_axis_tvalid && s_axis_tready),
    .count_output_stalled(m_axis_tvalid && !m_axis_tready),
    .count_lost(left && lost), .count_beyond(entered && beyond),
    .do_reset(do_reset), .do_flush(do_flush), .do_clear(do_clear), .packet_tasks(packet_tasks)
  );
endmodule
"""


@dataclass(frozen=True)
class WrappedCore:
    """A module between AXI streams of `width` bits, with registers. layout: "packed" or "words"."""

    core: StreamCore
    width: int
    layout: str

    def __post_init__(self) -> None:
        if self.width not in WIDTHS:
            raise ValueError(
                f"width is {shown(self.width)}: wanted bits of TDATA, one of "
                f"{', '.join(map(str, WIDTHS))}"
            )
        if self.layout not in LAYOUTS:
            wanted = " or ".join(map(repr, LAYOUTS))
            raise ValueError(f"layout is {shown(self.layout)}: wanted {wanted}")
        self.core.verify()
        if self.layout == "words" and (self.core.tasks.selector or self.core.results.selector):
            told = "words of different fields, as those of several functions, are only packed"
            raise ValueError(f"layout is 'words': {told}")

    @property
    def name(self) -> str:
        """The top module."""
        return f"{self.core.name}_axi"

    @cached_property
    def tasks(self) -> PacketLayout:
        """How tasks lie in packets."""
        return layout_of(self.core.tasks, self.layout, self.width)

    @cached_property
    def results(self) -> PacketLayout:
        """How results lie in packets."""
        return layout_of(self.core.results, self.layout, self.width)

    @property
    def rate(self) -> Rate:
        """What limits it."""
        return rate_of(self.core, self.tasks, self.results)

    @cached_property
    def hash(self) -> int:
        """64 bits of the sources, the fields of both streams and the layout."""
        words = (self.core.tasks.to_json(), self.core.results.to_json())
        known = [dict(self.core.sources), words, self.width, self.layout, registers.VERSION]
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:8], "little")

    @property
    def constants(self) -> dict[str, int]:
        """The registers that never change."""
        return {
            "magic": registers.MAGIC,
            "version": registers.VERSION,
            "hash_low": self.hash & 0xFFFFFFFF,
            "hash_high": self.hash >> 32,
            "stream_bits": self.width,
            "interval": self.core.interval,
            "clock_khz": round(1e6 / self.core.clock),
            "task_beats": self.tasks.beats,
            "task_entries": len(self.core.tasks.fields),
            "task_lane": self.tasks.lane,
            "result_beats": self.results.beats,
            "result_entries": len(self.core.results.fields),
            "result_lane": self.results.lane,
        }

    @cached_property
    def wrapper(self) -> dict[str, str]:
        """The modules around the core, by the names of their files."""
        name = self.name
        return {
            f"{name}_receive.sv": _receive(name, self.tasks),
            f"{name}_send.sv": _send(self),
            f"{name}_registers.sv": registers.module(f"{name}_registers", self.constants),
            f"{name}.sv": _top(self),
        }

    @property
    def sources(self) -> dict[str, str]:
        """All modules."""
        return {**self.core.sources, **self.wrapper}


def _receive(name: str, tasks: PacketLayout) -> str:
    width, bits = tasks.width, tasks.beats * tasks.width
    one = tasks.beats == 1
    shifted = "data" if tasks.beats == 2 else f"{{data, parts[{bits - width - 1}:{width}]}}"
    return RECEIVE.format(
        name=name,
        width=width,
        width_bytes=width // 8,
        bits=bits,
        beats=tasks.beats,
        count=max((tasks.beats - 1).bit_length(), 1),
        last_keep=(1 << tasks.last_bytes) - 1,
        parts="" if one else PARTS.format(rest=bits - width, shifted=shifted),
        whole="data" if one else "{data, parts}",
    )


def _owed_bits(board: WrappedCore) -> int:
    """Of the count of packets: besides those of tasks in the core one comes in, one waits, and one
    goes out.
    """
    return (board.core.under_way + 3).bit_length()


def _send(board: WrappedCore) -> str:
    results = board.results
    return SEND.format(
        name=board.name,
        owed=_owed_bits(board),
        width=results.width,
        bits=results.beats * results.width,
        beats=results.beats,
        count=max((results.beats - 1).bit_length(), 1),
    )


def _top(board: WrappedCore) -> str:
    depth = board.core.under_way
    fields = [*_task_fields(board.tasks), *_result_fields(board.results)]
    return TOP.format(
        core=board.core.name,
        name=board.name,
        tasks=board.width,
        registers=registers.PINS,
        task_bits=board.tasks.beats * board.width,
        result_bits=board.results.beats * board.width,
        given=board.core.tasks.bits,
        found=board.core.results.bits,
        depth=depth,
        place=max((depth - 1).bit_length(), 1),
        counted=depth.bit_length(),
        owed=_owed_bits(board),
        fields="\n".join(f"  {line}" for line in fields),
        beyond=" || ".join(_beyond(board.tasks)) or "1'b0",
        lost=" || ".join(_lost(board.core.results)) or "1'b0",
    )


def _task_fields(tasks: PacketLayout) -> list[str]:
    """The core's bits from those of a task's beats."""
    if not tasks.lane:
        return [f"assign in_data = task_word[{tasks.bits - 1}:0];"]
    return [
        f"assign in_data[{f.offset + f.width - 1}:{f.offset}] = "
        f"task_word[{first + f.width - 1}:{first}];  // {_told(f)}"
        for f, (first, _) in zip(tasks.words.fields, tasks.places, strict=True)
    ]


def _result_fields(results: PacketLayout) -> list[str]:
    """The bits of a result's beats; those that no field has are 0."""
    lines, end = [], results.bits
    if not results.lane:
        lines.append(f"assign result_word[{end - 1}:0] = out_data;")
    for f, (first, count) in zip(results.words.fields, results.places, strict=True):
        if results.lane:
            top, above = f.offset + f.width - 1, count - f.width
            sign = f"out_data[{top}]" if f.signed else "1'b0"
            text = f"{{{{{above}{{{sign}}}}}, out_data[{top}:{f.offset}]}}"
            text = text if above else f"out_data[{top}:{f.offset}]"
            where = f"result_word[{first + count - 1}:{first}]"
            lines.append(f"assign {where} = {text};  // {_told(f)}")
    if end < results.beats * results.width:
        lines.append(f"assign result_word[{results.beats * results.width - 1}:{end}] = '0;")
    return lines


def _beyond(tasks: PacketLayout) -> list[str]:
    """Conditions: the bits above a field are not its sign, or zeros."""
    found = []
    for f, (first, count) in zip(tasks.words.fields, tasks.places, strict=True):
        top = first + f.width
        if count > f.width:
            wanted = f"{{{count - f.width}{{task_word[{top - 1}]}}}}" if f.signed else "0"
            found.append(f"task_word[{first + count - 1}:{top}] != {wanted}")
    return found


def _lost(results: Words) -> list[str]:
    """Conditions: a field that counts lost pivots is not 0."""

    def bits(field: WordField) -> str:
        return f"out_data[{field.offset + field.width - 1}:{field.offset}]"

    chooser, found = results.selected, []
    for field in results.fields:
        if any(name == LOST for name, _ in field.entries):
            chosen = (
                f"{bits(chooser)} == {field.when} && " if chooser and field.when is not None else ""
            )
            found.append(f"({chosen}{bits(field)} != 0)")
    return found


def _told(field: WordField) -> str:
    return ", ".join(f"{name}[{position}]" for name, position in field.entries)
