"""The top module of the wrapper: the core between its two ends, resets, packets of results that are
owed, and which tasks end a packet.
"""

from __future__ import annotations

from featherlane.backends.fpga.board.core import StreamCore, WordField, Words
from featherlane.backends.fpga.board.packets import PacketLayout
from featherlane.backends.fpga.board.registers import AXI_PORTS, add_axi_ports
from featherlane.backends.fpga.module import Module, same
from featherlane.backends.fpga.statements import UNREAD
from featherlane.program.passes.guards import LOST


def owed_bits(under_way: int) -> int:
    """The bits of the count of packets: besides those of tasks in the core one comes in, one waits,
    and one goes out.
    """
    return (under_way + 3).bit_length()


def top(name: str, core: StreamCore, tasks: PacketLayout, results: PacketLayout) -> Module:
    """The top module."""
    comment = f"{core.name} between AXI4-Stream and AXI4-Lite: see board.md."
    module = Module(name, comment, unread=UNREAD)
    _add_ports(module, tasks.width)
    module.declare("packet_tasks", bits=32)
    module.declare("task_word", bits=tasks.beats * tasks.width)
    module.declare("result_word", bits=results.beats * results.width)
    module.declare("task_last", "task_valid", "task_ready")
    module.declare("result_last", "result_valid", "result_ready")
    module.declare("receiving", "raise_cut", "raise_early", "raise_late", "raise_keep")
    module.declare("in_data", bits=core.tasks.bits)
    module.declare("out_data", bits=core.results.bits)
    module.declare("in_ready")
    _add_resets(module)
    _add_owed(module, owed_bits(core.under_way))
    _add_ends(module, core.under_way)
    module.remark("Bits of the fields")
    _add_task_fields(module, tasks)
    _add_result_fields(module, results)
    module.wire("beyond", None, " || ".join(_beyond(tasks)) or "1'b0")
    module.wire("lost", None, " || ".join(_lost(core.results)) or "1'b0")
    module.remark("The core, both ends and the registers")
    _add_instances(module, core.name)
    module.remarks(core.comments)
    return module


def _add_ports(module: Module, width: int) -> None:
    module.input("aclk", "aresetn")
    module.input("s_axis_tdata", bits=width)
    module.input("s_axis_tkeep", bits=width // 8)
    module.input("s_axis_tlast", "s_axis_tvalid")
    module.output("s_axis_tready")
    module.output("m_axis_tdata", bits=width)
    module.output("m_axis_tkeep", bits=width // 8)
    module.output("m_axis_tlast", "m_axis_tvalid")
    module.input("m_axis_tready")
    add_axi_ports(module)
    module.input("s_axi_awprot", "s_axi_arprot", bits=3)


def _add_resets(module: Module) -> None:
    """The resets, which hold until all parts have seen them."""
    module.remark("Resets")
    module.constant("HOLD", 7, bits=3, comment="cycles that the pipeline is reset, at least")
    module.declare("do_reset", "do_flush", "do_clear", "aborting", "flushing")
    module.declare("hold", bits=3)
    module.wire("stopped", None, "!aresetn || aborting")
    module.wire("core_reset", None, "stopped || flushing")
    module.clocked(
        """
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
        """,
        clock="aclk",
    )


def _add_owed(module: Module, bits: int) -> None:
    """The count of packets of results that are owed."""
    module.remark("Packets of results that are owed: one for each packet that has begun to come in")
    module.declare("owed", bits=bits, comment="packets of results")
    module.wire("begun", None, "s_axis_tvalid && s_axis_tready && !receiving")
    module.wire("ended", None, "m_axis_tvalid && m_axis_tready && m_axis_tlast")
    module.clocked(
        """
        if (stopped) owed <= '0;
        else if (begun != ended) owed <= begun ? owed + 1'b1 : owed - 1'b1;
        """,
        clock="aclk",
    )


def _add_ends(module: Module, depth: int) -> None:
    """The FIFO that says which tasks end a packet. depth: tasks that may be under way."""
    place = max((depth - 1).bit_length(), 1)
    module.remark("The last task of each packet, in the order of tasks")
    module.constant("LAST_PLACE", depth - 1, bits=place)
    module.declare("last_of", size=depth)
    module.declare("newest", "oldest", bits=place)
    module.declare("under_way", bits=depth.bit_length())
    module.wire("room", None, f"under_way != {depth}")
    module.assign("task_ready", "in_ready && room && !core_reset")
    module.wire("entered", None, "task_valid && task_ready")
    module.wire("left", None, "result_valid && result_ready")
    ends = "under_way == 0 ? task_last : last_of[oldest]"
    module.assign("result_last", ends, "0: in the task's cycle")
    module.clocked(
        """
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
        """,
        clock="aclk",
    )


CORE = "core"  # the instance of what the wrapper is around


def _add_instances(module: Module, core: str) -> None:
    """Adds the core between the receiver of tasks and the sender of results."""
    module.instance(core, CORE, {
        "clock": "aclk", "reset": "core_reset", "in_valid": "task_valid && room",
        "in_ready": "in_ready", "in_data": "in_data", "out_valid": "result_valid",
        "out_ready": "result_ready", "out_data": "out_data",
    })  # fmt: skip
    stopped = {"clock": "aclk", "reset": "stopped"}
    beats = ("tdata", "tkeep", "tlast", "tvalid", "tready")
    raised = ("receiving", "raise_cut", "raise_early", "raise_late", "raise_keep")
    module.instance(f"{module.name}_receive", "receive", {
        **stopped, "flush": "do_flush", **same(("flushing", "packet_tasks")),
        **{name: f"s_axis_{name}" for name in beats}, **_word("task"), **same(raised),
    })  # fmt: skip
    module.instance(f"{module.name}_send", "send", {
        **stopped, **same(("flushing", "owed")), **_word("result"),
        **{name: f"m_axis_{name}" for name in beats},
    })  # fmt: skip
    module.instance(f"{module.name}_registers", "registers", {
        "clock": "aclk", "reset": "!aresetn", **same(name for _, name, _ in AXI_PORTS),
        "is_busy": "owed != 0", "is_resetting": "aborting || flushing",
        "is_receiving": "receiving", **same(raised[1:]), "raise_range": "entered && beyond",
        "count_packets_in": "s_axis_tvalid && s_axis_tready && s_axis_tlast",
        "count_packets_out": "ended", "count_tasks_in": "entered", "count_tasks_out": "left",
        "count_input_stalled": "s_axis_tvalid && !s_axis_tready",
        "count_input_idle": "!s_axis_tvalid && s_axis_tready",
        "count_output_stalled": "m_axis_tvalid && !m_axis_tready",
        "count_lost": "left && lost", "count_beyond": "entered && beyond",
        **same(("do_reset", "do_flush", "do_clear", "packet_tasks")),
    })  # fmt: skip


def _word(kind: str) -> dict[str, str]:
    """The ports of a word between the core and an end, at the signals of a task or a result."""
    return {
        "word": f"{kind}_word",
        "word_last": f"{kind}_last",
        "word_valid": f"{kind}_valid",
        "word_ready": f"{kind}_ready",
    }


def _add_task_fields(module: Module, tasks: PacketLayout) -> None:
    """The core's bits from those of a task's beats."""
    if not tasks.lane:
        module.assign("in_data", f"task_word[{tasks.bits - 1}:0]")
        return
    for f, (first, _) in zip(tasks.words.fields, tasks.places, strict=True):
        bits = f"in_data[{f.offset + f.width - 1}:{f.offset}]"
        module.assign(bits, f"task_word[{first + f.width - 1}:{first}]", _told(f))


def _add_result_fields(module: Module, results: PacketLayout) -> None:
    """The bits of a result's beats; those that no field has are 0."""
    end = results.bits
    if not results.lane:
        module.assign(f"result_word[{end - 1}:0]", "out_data")
    for f, (first, count) in zip(results.words.fields, results.places, strict=True):
        if results.lane:
            top, above = f.offset + f.width - 1, count - f.width
            sign = f"out_data[{top}]" if f.signed else "1'b0"
            text = f"{{{{{above}{{{sign}}}}}, out_data[{top}:{f.offset}]}}"
            text = text if above else f"out_data[{top}:{f.offset}]"
            module.assign(f"result_word[{first + count - 1}:{first}]", text, _told(f))
    if end < results.beats * results.width:
        module.assign(f"result_word[{results.beats * results.width - 1}:{end}]", "'0")


def _beyond(tasks: PacketLayout) -> list[str]:
    """Conditions: the bits above a field are not its sign, or zeros."""
    conditions = []
    for f, (first, count) in zip(tasks.words.fields, tasks.places, strict=True):
        top = first + f.width
        if count > f.width:
            wanted = f"{{{count - f.width}{{task_word[{top - 1}]}}}}" if f.signed else "0"
            conditions.append(f"task_word[{first + count - 1}:{top}] != {wanted}")
    return conditions


def _lost(results: Words) -> list[str]:
    """Conditions: a field that counts lost pivots is not 0."""

    def bits(field: WordField) -> str:
        return f"out_data[{field.offset + field.width - 1}:{field.offset}]"

    chooser, conditions = results.selected, []
    for field in results.fields:
        if any(name == LOST for name, _ in field.entries):
            chosen = (
                f"{bits(chooser)} == {field.when} && " if chooser and field.when is not None else ""
            )
            conditions.append(f"({chosen}{bits(field)} != 0)")
    return conditions


def _told(field: WordField) -> str:
    return ", ".join(f"{name}[{position}]" for name, position in field.entries)
