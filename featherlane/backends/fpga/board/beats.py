"""Beats of AXI4-Stream to words of tasks, and words of results to beats: both ends of the wrapper.

Every packet that comes in gives one packet of results, of as many tasks, whatever is wrong with
it.
"""

from __future__ import annotations

from featherlane.backends.fpga.board.packets import PacketLayout
from featherlane.backends.fpga.module import Module


def receiver(name: str, tasks: PacketLayout) -> Module:
    """The module that makes words of tasks. See the documentation of the board for what is wrong
    with a packet and what follows from it.
    """
    module = Module(name, (
        "Beats of packets to words of tasks; see the documentation of the board for what is wrong "
        "with a packet and what follows from it."
    ))  # fmt: skip
    _add_receiver_ports(module, tasks.width, tasks.beats * tasks.width)
    _add_receiver_signals(module, tasks)
    _add_receiver_conditions(module)
    module.clocked(_receive("data" if tasks.beats == 1 else "{data, parts}"))
    return module


def _add_receiver_ports(module: Module, width: int, bits: int) -> None:
    """The ports of a receiver. width: bits of a beat; bits: of a word."""
    module.input("clock", "reset")
    module.input("flush", comment="begins to drop the packet that comes in")
    module.input("flushing")
    module.input("packet_tasks", bits=32)
    module.input("tdata", bits=width)
    module.input("tkeep", bits=width // 8)
    module.input("tlast", "tvalid")
    module.output("tready")
    module.output("word", bits=bits)
    module.output("word_last", comment="of the packet")
    module.output("word_valid")
    module.input("word_ready")
    module.output("receiving", "raise_cut", "raise_early", "raise_late", "raise_keep")


def _add_receiver_signals(module: Module, tasks: PacketLayout) -> None:
    """The constants, registers and wires of a receiver."""
    width = tasks.width
    count = max((tasks.beats - 1).bit_length(), 1)
    module.constant("FINAL", tasks.beats - 1, bits=count)
    module.constant("NEEDED", "'1", bits=width // 8)
    last_keep = (1 << tasks.last_bytes) - 1
    module.constant("NEEDED_LAST", f"{width // 8}'h{last_keep:x}", bits=width // 8)
    module.declare("beat", bits=count)
    module.declare("tasks", bits=32, comment="of the packet, before this one")
    zeros = "TLAST came inside a task: zeros in the place of what is missing"
    module.declare("padding", comment=zeros)
    module.declare("dropping", comment="what comes is dropped, up to TLAST")
    module.declare("final_beat", "free", "taken", "step", "complete", "ended", "wanted_end")
    module.declare("data", bits=width)
    module.declare("missing", bits=width // 8)
    if tasks.beats > 1:
        _add_parts(module, width, (tasks.beats - 1) * width)


def _add_receiver_conditions(module: Module) -> None:
    """When a beat and a word are taken, and what is wrong with a packet."""
    module.assign("final_beat", "beat == FINAL")
    module.assign("free", "!final_beat || !word_valid || word_ready")
    module.assign("tready", "!reset && (dropping || (!flushing && !padding && free))")
    module.assign("taken", "tvalid && tready && !dropping")
    module.assign("step", "taken || (padding && free)")
    module.assign("data", "padding ? '0 : tdata")
    module.assign("complete", "step && final_beat")
    module.assign("ended", "padding || tlast")
    module.assign("wanted_end", "packet_tasks != 0 && tasks + 1'b1 == packet_tasks")
    module.assign("missing", "~tkeep & (final_beat ? NEEDED_LAST : NEEDED)")
    module.assign("raise_cut", "taken && tlast && !final_beat")
    module.assign("raise_early", "complete && ended && packet_tasks != 0 && !wanted_end")
    module.assign("raise_late", "complete && !ended && wanted_end")
    module.assign("raise_keep", "taken && missing != 0")


def _receive(word: str) -> str:
    """The statements that receive a beat. word: the expression of a complete word."""
    return f"""
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
          word <= {word};
          word_last <= ended || wanted_end;
        end
    """


def _add_parts(module: Module, width: int, bits: int) -> None:
    """The register of the beats before the last one of a task."""
    module.declare("parts", bits=bits, comment="the beats before the last one of a task")
    shifted = "data" if bits == width else f"{{data, parts[{bits - 1}:{width}]}}"
    module.clocked(f"parts <= {shifted};", when="step && !final_beat")


def sender(name: str, results: PacketLayout, owed_bits: int) -> Module:
    """The module that makes beats of words of results. owed_bits: of the count of packets."""
    width, bits = results.width, results.beats * results.width
    count = max((results.beats - 1).bit_length(), 1)
    module = Module(name, "Words of results to beats of packets.")
    _add_sender_ports(module, width, bits, owed_bits)
    module.constant("FINAL", results.beats - 1, bits=count)
    module.declare("rest", bits=bits)
    module.declare("left", bits=count, comment="beats after this one")
    module.declare("last", "free")
    module.assign("free", "!tvalid || (tready && left == 0)")
    module.assign("word_ready", "!reset && !flushing && free")
    module.assign("tdata", f"rest[{width - 1}:0]")
    module.assign("tkeep", "'1")
    module.assign("tlast", "last && left == 0")
    module.clocked(f"""
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
          tvalid <= tvalid && tlast ? owed != 1 : owed != 0;
        end
        if (reset) tvalid <= 1'b0;
    """)
    return module


def _add_sender_ports(module: Module, width: int, bits: int, owed_bits: int) -> None:
    """The ports of a sender. width: bits of a beat; bits: of a word."""
    module.input("clock", "reset")
    module.input("flushing", comment="a beat of zeros ends each packet that is owed")
    module.input("owed", bits=owed_bits)
    module.input("word", bits=bits)
    module.input("word_last", comment="of the packet")
    module.input("word_valid")
    module.output("word_ready")
    module.output("tdata", bits=width)
    module.output("tkeep", bits=width // 8)
    module.output("tlast", "tvalid")
    module.input("tready")
