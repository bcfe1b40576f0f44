"""A proof that the wrapper loses and repeats no beat, whatever pauses its streams and the module
inside make.

Beats are numbered, two of 8 bits to a task. The module inside is any that gives tasks in their
order: it holds two and takes and gives one when two free inputs say so. Which tasks end a packet is
a free pattern of eight. Yosys turns the sources into formulas, and z3 proves by induction over
cycles that the beats that come out are numbered in the same order without gaps, with TLAST where it
came in, and that a beat on offer stays until it is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from circuit_proofs.changed import with_inputs_of
from circuit_proofs.formal import formulas, prove_by_induction
from featherlane.backends.fpga.board.core import StreamCore, WordField, Words
from featherlane.backends.fpga.board.registers import AXI_PORTS
from featherlane.backends.fpga.board.top import CORE
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.module import Module, named, same, sources
from featherlane.backends.fpga.stream import add_stream_ports


def core_module() -> Module:
    """The module inside: tasks in their order, two at most, each of which goes on when free inputs
    say so.
    """
    module = Module("numbered")
    add_stream_ports(module, 16, 16)
    module.input(*FREE)
    module.declare("place", bits=16, size=2)
    module.declare("first", "last")
    module.declare("count", bits=2)
    module.assign("in_ready", "takes && count != 2")
    module.assign("out_valid", "gives && count != 0")
    module.assign("out_data", "place[first]")
    module.clocked("""
        if (in_valid && in_ready) begin place[last] <= in_data; last <= !last; end
        if (out_valid && out_ready) first <= !first;
        count <= count + (in_valid && in_ready) - (out_valid && out_ready);
        if (reset) begin first <= 0; last <= 0; count <= 0; end
    """)
    return module


FREE = ("takes", "gives")  # inputs


def harness(name: str) -> Module:
    """The module around the wrapper that counts the beats at both ends of its streams."""
    module = Module("proof")
    module.input("clock", "offered", "out_ready", *FREE)
    module.output("started", "held", "out_valid", "out_last")
    module.output("accepted", "emitted", "out_data", "pattern", bits=8)
    module.process("initial", "started = 0;")
    module.declare("in_valid", "in_ready", "in_last", "keep")
    module.assign("in_last", "accepted[0] && pattern[accepted[3:1]]")
    inputs = {name: bits or 1 for kind, name, bits in AXI_PORTS if kind == "input logic"}
    module.instance(name, "device", {
        "aclk": "clock", "aresetn": "started", **same(FREE), "s_axis_tdata": "accepted",
        "s_axis_tkeep": "1'b1", "s_axis_tlast": "in_last", "s_axis_tvalid": "offered",
        "s_axis_tready": "in_ready", "m_axis_tdata": "out_data", "m_axis_tkeep": "keep",
        "m_axis_tlast": "out_last", "m_axis_tvalid": "out_valid", "m_axis_tready": "out_ready",
        **{name: f"{bits}'b0" for name, bits in inputs.items()},
        "s_axi_awprot": "3'b0", "s_axi_arprot": "3'b0", "s_axi_bready": "1'b1",
        "s_axi_rready": "1'b1",
    })  # fmt: skip
    module.clocked("""
        started <= 1;
        pattern <= pattern;
        held <= started && out_valid && !out_ready;
        accepted <= started ? accepted + (offered && in_ready) : '0;
        emitted <= started ? emitted + (out_valid && out_ready) : '0;
    """)
    return module


def numbered() -> WrappedCore:
    """The wrapper of the module inside."""
    words = Words((WordField((("x", 0),), 0, 16),), {"x": ()})
    core = StreamCore("numbered", sources(named(core_module())), words, words, 1, 2, 8.0)
    return WrappedCore(core, 8, "packed")


def prove(wrapper: Mapping[str, Module] | None = None) -> None:
    """Proves the wrapper. wrapper: its modules, by default as `WrappedCore` makes them.

    Raises CompileError if Yosys or z3 is missing, and for a cycle in which a beat is lost, repeated
    or taken back.
    """
    board = numbered()
    modules = {**(board.modules if wrapper is None else wrapper)}
    modules[board.name] = with_inputs_of(modules[board.name], CORE, *FREE)
    text = formulas([core_module(), *modules.values(), harness(board.name)])
    prove_by_induction(board.name, text, _invariants, 1)


def _invariants(s: str) -> Iterator[str]:
    """The invariants of each cycle after the reset."""
    started = f"(|proof_n started| {s})"
    for claim in _claims(s):
        yield f"(=> {started} {claim})"


def _claims(s: str) -> Iterator[str]:
    def read(name: str) -> str:
        return f"(|proof_n {name}| {s})"

    def wide(name: str, bits: int) -> str:
        return f"((_ zero_extend {8 - bits}) {read(name)})"

    def number(x: int, bits: int = 8) -> str:
        return f"(_ bv{x} {bits})"

    def flag(name: str) -> str:
        return f"(ite {read(name)} {number(1)} {number(0)})"

    def beats(task: str) -> str:
        """The two beats of a task, the second one above."""
        low = f"(bvshl {task} {number(1)})"
        return f"(concat (bvadd {low} {number(1)}) {low})"

    def ends(task: str) -> str:
        """Whether a task ends a packet."""
        place = f"(bvand {task} {number(7)})"
        return f"(= ((_ extract 0 0) (bvlshr {read('pattern')} {place})) #b1)"

    accepted, emitted = read("accepted"), read("emitted")
    formed, sent = (f"(bvlshr {x} {number(1)})" for x in (accepted, emitted))
    second_in, second_out = (f"(= ((_ extract 0 0) {x}) #b1)" for x in (accepted, emitted))
    # Nothing resets, nothing is wrong
    for name in ("aborting", "flushing", "receive.padding", "receive.dropping"):
        yield f"(not {read(f'device.{name}')})"
    yield f"(= {read('device.packet_tasks')} {number(0, 32)})"
    yield f"(= {read('device.hold')} {number(0, 3)})"
    # Beats that come in
    yield f"(= {read('device.receive.beat')} {second_in})"
    yield f"(=> {second_in} (= {read('device.receive.parts')} (bvsub {accepted} {number(1)})))"
    waiting, newest = read("device.task_valid"), f"(bvsub {formed} {number(1)})"
    yield f"(=> {waiting} (= {read('device.task_word')} {beats(newest)}))"
    yield f"(=> {waiting} (= {read('device.task_last')} {ends(newest)}))"
    # Tasks inside: counted, and in their order
    count = wide("device.core.count", 2)
    yield f"(bvule {count} {number(2)})"
    yield f"(= {read('device.under_way')} {read('device.core.count')})"
    left = f"(bvadd {sent} {flag('device.m_axis_tvalid')})"
    inside = f"(bvadd {count} {flag('device.task_valid')})"
    seven = number(127)
    yield f"(= (bvand {formed} {seven}) (bvand (bvadd {left} {inside}) {seven}))"
    for first, last, place in (
        ("core.first", "core.last", "core.place"),
        ("oldest", "newest", "last_of"),
    ):
        one = f"(= {count} {number(1)})"
        yield f"(= {read(f'device.{last}')} (xor {read(f'device.{first}')} {one}))"
        for n in (0, 1):
            here = read(f"device.{first}") if n else f"(not {read(f'device.{first}')})"
            order = f"(ite {here} {number(0)} {number(1)})"
            task = f"(bvadd {left} {order})"
            wanted = beats(task) if place == "core.place" else ends(task)
            same = f"(= {read(f'device.{place}[{n}]')} {wanted})"
            yield f"(=> (bvult {order} {count}) {same})"
    # Beats that go out
    valid, rest = read("out_valid"), read("device.send.rest")
    yield f"(=> (not {valid}) (not {second_out}))"
    yield f"(=> {valid} (= {read('device.send.left')} (not {second_out})))"
    yield f"(=> {valid} (= {read('device.send.last')} {ends(sent)}))"
    yield f"(=> {valid} (= {read('out_data')} {emitted}))"
    above = f"((_ extract 15 8) {rest})"
    yield f"(=> (and {valid} (not {second_out})) (= {above} (bvadd {emitted} {number(1)})))"
    yield f"(=> {valid} (= {read('out_last')} (and {second_out} {ends(sent)})))"
    yield f"(=> {read('held')} {valid})"
