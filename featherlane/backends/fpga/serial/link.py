"""The circuit between a UART and the streams of a design: frames of bytes to tasks, and results to
frames. It knows the bits of both words and the design's hash; a port tells it the length of a bit.

The line has eight bits, no parity and one stop bit. A result waits until the line is free, so a
host that sends faster than results leave must keep few tasks on the board: `OUTSTANDING` of them,
each of which has a place in the pipeline, so that none waits for another one's result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.part import MOST_ENABLED
from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.rate import BITS, ONE, PORT
from featherlane.backends.fpga.statements import filled
from featherlane.backends.fpga.text import indented

PAUSE_SECONDS = 0.01  # a line that is quiet for so long, or up to twice, ends half a frame
MOST_OUTSTANDING = 64  # as many frames as a USB adapter may gather before it answers


class LinkPlan(NamedTuple):
    """The numbers of a link. task_bits, result_bits: of the words; sixteenths: of a clock cycle in
    a bit of the line, which a port of the circuit has; pause: the link forgets half a frame
    after 2^pause cycles.
    """

    task_bits: int
    result_bits: int
    hash: int
    interval: int
    outstanding: int
    sixteenths: int
    pause: int

    @property
    def task_bytes(self) -> int:
        return -(-self.task_bits // 8)

    @property
    def payloads(self) -> dict[int, int]:
        """The bytes of the payload of each kind of frame."""
        return frames.payloads(self.task_bits, self.result_bits)

    @property
    def answers(self) -> dict[int, int]:
        """The payloads of the kinds that a board sends."""
        return frames.answers(self.task_bits, self.result_bits)


def pause_of(clock: float) -> int:
    """The pause of a link, as a power of two of clock cycles. clock: in Hz."""
    return int(clock * PAUSE_SECONDS).bit_length()


def link(name: str, plan: LinkPlan) -> Module:
    """The module of the link."""
    module = Module(name, (
        "A UART to the streams of a design, and back: see the documentation of the board for the "
        "frames, and for what is wrong with one and what follows from it."
    ))  # fmt: skip
    _add_ports(module, plan)
    _add_bits_in(module, plan)
    _add_frames_in(module, plan)
    _add_numbers(module, plan)
    _add_answers(module, plan)
    _add_bits_out(module, plan)
    return module


def _add_ports(module: Module, plan: LinkPlan) -> None:
    module.input("clock", "reset", "rx")
    module.input(PORT, bits=BITS, comment="of the line, in sixteenths of a clock cycle")
    module.output("tx")
    module.output("task_valid")
    module.input("task_ready")
    module.output("task_data", bits=plan.task_bits)
    module.input("result_valid")
    module.output("result_ready")
    module.input("result_data", bits=plan.result_bits)
    module.output("test_start", comment="begins a self-test")
    module.output("test_passes", bits=5, comment="runs all of its states 2^this times")
    module.input("test_running", "test_done")
    module.input("test_cycles", bits=32)
    module.input("test_signature", bits=8 * frames.SIGNATURE_BYTES)


# Bits in


TIMER = BITS + 1  # bits of a timer
# The upper bits of a timer are 0 in its last two cycles: a bit has four or more, so that a register
# knows the last one ahead
LAST = f"[{BITS}:{(2 * ONE - 1).bit_length()}] == '0"


def _add_bits_in(module: Module, plan: LinkPlan) -> None:
    """Bits of the line: each is taken in its middle, which a timer finds from the start bit's
    edge.
    """
    module.remark("Bits in: place 1 is the start bit, 2 to 9 are data, 10 is the stop bit")
    module.constant("ONE", ONE, bits=TIMER, comment="a clock cycle in units of the timers")
    module.wire("next_bit_in", TIMER, f"{{1'b0, {PORT}}} - ONE")
    module.wire("half_bit", TIMER, f"{{2'b00, {PORT}[{BITS - 1}:1]}} - ONE")
    module.declare("line", "earlier", comment="rx behind two registers")
    module.declare("place", bits=4)
    module.declare("timer", bits=TIMER)
    module.declare("quiet", bits=plan.pause + 1, comment="cycles since the last bit")
    module.declare("tick", comment="timer < ONE")
    module.wire("data_bit", None, "tick && place >= 4'd2 && place <= 4'd9")
    module.wire("whole", None, "tick && place == 4'd10 && line")
    module.wire("broken", None, "tick && place == 4'd10 && !line")
    module.wire("paused", None, f"quiet[{plan.pause}]")
    module.clocked(f"""
        earlier <= reset || rx;
        line <= reset || earlier;
        timer <= place == 4'd0 ? half_bit : tick ? timer + next_bit_in : timer - ONE;
        tick <= place != 4'd0 && !tick && timer{LAST};
        quiet <= reset || place != 4'd0 ? '0 : paused ? quiet : quiet + 1'b1;
        if (reset) place <= 4'd0;
        else if (place == 4'd0) place <= {{3'd0, !line}};
        else if (place == 4'd11) place <= line ? 4'd0 : 4'd11;
        else if (tick && place == 4'd10) place <= line ? 4'd0 : 4'd11;
        else if (tick) place <= place == 4'd1 && line ? 4'd0 : place + 1'b1;
    """)


# Frames in


def _add_frames_in(module: Module, plan: LinkPlan) -> None:
    """Frames: the payload is shifted in, and stays until the next one's payload begins."""
    kinds = (frames.TASK, frames.QUERY, frames.TEST)
    left = (max(plan.payloads[kind] for kind in kinds) + frames.CRC_BYTES).bit_length()
    payload = 8 * (1 + plan.task_bytes)
    module.remark("Frames in")
    for kind, value in zip(("TASK", "QUERY", "TEST"), kinds, strict=True):
        module.constant(kind, f"8'h{value:02x}", bits=8)
        module.constant(f"{kind}_LEFT", plan.payloads[value] + frames.CRC_BYTES, bits=left)
    module.constant("POLYNOMIAL", f"16'h{frames.POLYNOMIAL:04x}", bits=16)
    module.declare("left", bits=left, comment="bytes of the frame that are still to come")
    module.declare("payload", bits=payload)
    module.declare("kind", "latest", bits=8)
    module.declare("crc", bits=16)
    module.declare("asked_facts", "asked_test", comment="answers that are owed")
    module.declare(*frames.COUNTERS, bits=8, comment="see the answer to a query")
    module.declare("started", "taken", "room")
    module.wire("shifted", None, f"data_bit && left > {left}'d{frames.CRC_BYTES}")
    module.wire("ended", None, f"whole && left == {left}'d1")
    module.wire("good", None, "ended && crc == '0")
    module.wire("new_task", None, "good && kind == TASK")
    module.assign("task_data", f"payload[{7 + plan.task_bits}:8]")
    module.assign("taken", "task_valid && task_ready && !test_running")
    _add_payload(module, payload)
    module.clocked("if (data_bit) latest <= {line, latest[7:1]};")
    module.clocked("""
        if (place == 4'd1 && left == '0) crc <= '0;
        else if (data_bit) crc <= {1'b0, crc[15:1]} ^ (crc[0] ^ line ? POLYNOMIAL : '0);
    """)
    module.clocked(FRAMES_IN)
    module.clocked(COUNTERS_IN)


FRAMES_IN = """
    if (reset) begin
      left <= '0;
      task_valid <= 1'b0;
      asked_facts <= 1'b0;
      asked_test <= 1'b0;
    end else begin
      if (broken || paused) left <= '0;
      else if (whole && left != '0) left <= left - 1'b1;
      else if (whole) case (latest)
        TASK: left <= TASK_LEFT;
        QUERY: left <= QUERY_LEFT;
        TEST: left <= TEST_LEFT;
        default: left <= '0;
      endcase
      task_valid <= (new_task && room) || (task_valid && !taken && !shifted);
      asked_facts <= (good && kind == QUERY) || (asked_facts && !facts_sent);
      asked_test <= (good && kind == TEST) || (asked_test && !started);
    end
    if (whole && left == '0) kind <= latest;
"""
COUNTERS_IN = """
    if (reset) begin
      damaged <= '0;
      cut <= '0;
      unknown <= '0;
      refused <= '0;
    end else begin
      if (ended && !good) damaged <= damaged + 1'b1;
      if ((broken || paused) && left != '0) cut <= cut + 1'b1;
      if (left == '0 && (broken || (whole && latest != TASK && latest != QUERY && latest != TEST)))
        unknown <= unknown + 1'b1;
      if ((new_task && !room) || (task_valid && !taken && shifted)) refused <= refused + 1'b1;
    end
"""


# Numbers of tasks under way


def _add_payload(module: Module, bits: int) -> None:
    """The payload takes a bit a cycle after it came, in parts: wires from the one condition to all
    its registers would be long.
    """
    module.clocked("bit_in <= line;")
    module.declare("bit_in")
    for n, first in enumerate(range(0, bits, MOST_ENABLED)):
        end = min(first + MOST_ENABLED, bits)
        flag = module.declare(f"shifts_{n}", attribute="keep")
        module.clocked(f"{flag} <= shifted;")
        last = "bit_in" if end == bits else f"payload[{end}]"
        rest = f"{{{last}, payload[{end - 1}:{first + 1}]}}" if end - first > 1 else last
        module.clocked(f"payload[{end - 1}:{first}] <= {rest};", when=flag)


def _add_numbers(module: Module, plan: LinkPlan) -> None:
    """The numbers of tasks, in the order in which the pipeline has them."""
    place = max((plan.outstanding - 1).bit_length(), 1)
    module.remark("The numbers of tasks under way, in their order")
    module.constant("OUTSTANDING", plan.outstanding, bits=8)
    module.constant("LAST_PLACE", plan.outstanding - 1, bits=place)
    module.declare("numbers", bits=8, size=plan.outstanding)
    module.declare("newest", "oldest", bits=place)
    module.declare("under_way", bits=8)
    module.declare("leaving")
    module.assign("room", "!test_running && !test_start && !asked_test && under_way != OUTSTANDING")
    module.assign("started", "asked_test && under_way == '0 && !test_running && !task_valid")
    module.clocked("test_start <= started && !reset;")
    module.clocked("""
        if (reset) begin
          newest <= '0;
          oldest <= '0;
          under_way <= '0;
        end else begin
          if (taken) newest <= newest == LAST_PLACE ? '0 : newest + 1'b1;
          if (leaving) oldest <= oldest == LAST_PLACE ? '0 : oldest + 1'b1;
          if (taken != leaving) under_way <= taken ? under_way + 1'b1 : under_way - 1'b1;
        end
    """)
    module.clocked("numbers[newest] <= payload[7:0];", when="taken")
    module.clocked(f"test_passes <= payload[{8 * plan.task_bytes + 4}:{8 * plan.task_bytes}];",
                   when="good && kind == TEST")  # fmt: skip


# Answers


def _padded(expression: str, bits: int, room: int) -> str:
    """An expression with zeros above it."""
    return expression if bits == room else f"{{{room - bits}'d0, {expression}}}"


def _add_facts(module: Module, plan: LinkPlan) -> str:
    """Names for the numbers in the answer to a query. Returns its fields, the last one first, in
    lines.
    """
    known: Mapping[str, int] = {**plan._asdict(), "version": frames.VERSION}
    fields = list[str]()
    for name, size in frames.ANSWER.items():
        if name == "sixteenths":
            fields.append(PORT)
        elif name in known:
            if name.upper() not in module.declarations:
                value = f"{8 * size}'h{known[name]:x}" if name == "hash" else known[name]
                module.constant(name.upper(), value, bits=8 * size, comment=frames.MEANING[name])
            fields.append(name.upper())
        else:
            fields.append(name)
    return ",\n".join(indented(filled([*reversed(fields), "FACTS"])))


def _add_answers(module: Module, plan: LinkPlan) -> None:
    """The next frame out: the answer to a test, to a query, or a result."""
    room = 8 * (1 + max(plan.answers.values()))
    module.remark("The next frame out")
    for name, kind in (
        ("RESULT", frames.RESULT),
        ("FACTS", frames.FACTS),
        ("TESTED", frames.TESTED),
    ):
        module.constant(name, f"8'h{kind:02x}", bits=8)
    facts = _add_facts(module, plan)
    result = "result_data, numbers[oldest], RESULT"
    if missing := -plan.result_bits % 8:
        result = f"{missing}'d0, {result}"
    parts = {
        "result": (f"{{{result}}}", frames.RESULT),
        "facts": (f"{{\n{facts}\n}}", frames.FACTS),
        "tested": ("{test_signature, test_cycles, TESTED}", frames.TESTED),
    }
    for name, (value, kind) in parts.items():
        bits = 8 * (1 + plan.payloads[kind])
        module.wire(f"{name}_frame", room, _padded(value, bits, room))
    module.declare("owes_test", comment="a test has ended whose answer was not sent")
    module.declare("send_left", bits=(room // 8 + frames.CRC_BYTES).bit_length())
    module.declare("vacant", comment="send_left is 0")
    module.wire("idle", None, "!reset && vacant")
    module.wire("test_sent", None, "idle && !offers && owes_test")
    module.wire("facts_sent", None, "idle && !offers && asked_facts && !owes_test")
    module.declare("offers", comment="to send a result; else an answer that is owed")
    module.assign("result_ready", "offers")
    module.assign("leaving", "result_valid && result_ready")
    module.clocked("owes_test <= !reset && (test_done || (owes_test && !test_sent));")


# Bits out


def _add_bits_out(module: Module, plan: LinkPlan) -> None:
    """Bits of the line: the timer goes on between frames, so that a stop bit has its length."""
    room = 8 * (1 + max(plan.answers.values()))
    left = (room // 8 + frames.CRC_BYTES).bit_length()
    sizes = {name: f"{left}'d{1 + plan.payloads[kind] + frames.CRC_BYTES}" for name, kind in (
        ("result", frames.RESULT), ("facts", frames.FACTS), ("tested", frames.TESTED)
    )}  # fmt: skip
    module.remark("Bits out: place 0 is the start bit, 1 to 8 are data, 9 is the stop bit")
    module.declare("send_timer", bits=TIMER)
    module.declare("send_tick", comment="send_timer < ONE")
    module.declare("send_place", bits=4)
    module.declare("send_crc", bits=16)
    module.declare("vacates")
    data = f"send_left > {left}'d{frames.CRC_BYTES}"
    module.wire("next_bit", None, f"{data} ? sending[0] : send_crc[0]")
    module.wire("shifts_out", None, "send_tick && send_place != 4'd0 && send_place != 4'd9")
    module.assign("vacates", (
        "reset || (vacant ? !leaving && (offers || (!owes_test && !asked_facts)) : "
        f"send_tick && send_place == 4'd9 && send_left == {left}'d1)"
    ))  # fmt: skip
    _add_sending(module, room)
    module.clocked(f"""
        send_timer <= reset ? '0 : send_tick ? send_timer + next_bit_in : send_timer - ONE;
        send_tick <= reset || (!send_tick && send_timer{LAST});
        vacant <= vacates;
        offers <= vacates && !reset && !owes_test && !asked_facts;
        if (reset) begin
          tx <= 1'b1;
          send_left <= '0;
        end else if (vacant) begin
          send_place <= '0;
          send_crc <= '0;
          if (leaving) send_left <= {sizes["result"]};
          else if (offers) send_left <= '0;
          else if (owes_test) send_left <= {sizes["tested"]};
          else if (asked_facts) send_left <= {sizes["facts"]};
        end else if (send_tick) begin
          send_place <= send_place == 4'd9 ? 4'd0 : send_place + 1'b1;
          tx <= send_place == 4'd9 || (send_place != 4'd0 && next_bit);
          if (send_place == 4'd9) send_left <= send_left - 1'b1;
          if (shifts_out)
            send_crc <= {{1'b0, send_crc[15:1]}} ^ (send_crc[0] ^ next_bit ? POLYNOMIAL : '0);
        end
    """)


def _add_sending(module: Module, bits: int) -> None:
    """The frame that is sent, which shifts a cycle after its bit was taken, in parts as the payload
    does.
    """
    module.declare("sending", "next_frame", bits=bits)
    module.assign("next_frame", "offers ? result_frame : owes_test ? tested_frame : facts_frame")
    for n, first in enumerate(range(0, bits, MOST_ENABLED)):
        end = min(first + MOST_ENABLED, bits)
        part = f"[{end - 1}:{first}]"
        vacant, shifts = (module.declare(f"{x}_{n}", attribute="keep") for x in ("vacant", "shift"))
        above = "1'b0" if end == bits else f"sending[{end}]"
        rest = f"{{{above}, sending[{end - 1}:{first + 1}]}}" if end - first > 1 else above
        module.clocked(f"""
            {vacant} <= vacates;
            {shifts} <= shifts_out && !vacant;
            if ({vacant}) sending{part} <= next_frame{part};
            else if ({shifts}) sending{part} <= {rest};
        """)
