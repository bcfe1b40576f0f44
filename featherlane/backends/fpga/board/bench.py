"""The test bench of a wrapped design for simulators of SystemVerilog: packets from a file, results
compared with another file, and rules of AXI checked in each cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from featherlane.backends.fpga.board.registers import AXI_PORTS, REGISTER, mask
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.module import Module, same
from featherlane.backends.fpga.simulation.bench import DRAWN, TIMESCALE, add_counting

SLOWEST = 64  # cycles of the test bench to each one that a design without stalls takes


def bench(board: WrappedCore, tasks: int) -> Module:
    """The module of the test bench. tasks: how many stand in the files."""
    module = Module(f"{board.name}_bench", _about(board.name, tasks), TIMESCALE)
    _add_parameters(module, board, tasks)
    _add_signals(module, board.width)
    module.instance(board.name, "device", {
        **same(["aclk", "aresetn", *STREAM_PORTS, *(name for _, name, _ in AXI_PORTS)]),
        "s_axi_wstrb": "4'hf", "s_axi_awprot": "3'b000", "s_axi_arprot": "3'b000",
    })  # fmt: skip
    module.process(f"initial forever #{board.core.clock / 2:g}", "aclk = !aclk;")
    module.remark("Packets in: a beat stays on offer until it is taken")
    add_counting(module, "always @(posedge aclk) if (aresetn)", SEND)
    module.remark("Packets out: results, TLAST at the last task of each packet, TKEEP")
    ends = "taken % (PACKET * RESULT_BEATS) == PACKET * RESULT_BEATS - 1 || taken == WANTED - 1"
    module.wire("last", None, ends)
    taken = "aresetn && comparing && m_axis_tvalid && m_axis_tready"
    add_counting(module, f"always @(posedge aclk) if ({taken})", _compare(board.width))
    module.remark("What is on offer stays as it is until it is taken")
    add_counting(module, "always @(posedge aclk)", KEEP)
    module.process("task write(input [7:0] address, input [31:0] value);", WRITE, end="endtask")
    module.process("task read(input [7:0] address);", READ, end="endtask")
    head = "task expect_register(input [7:0] address, input [31:0] value);"
    module.process(head, EXPECT, end="endtask")
    module.process("initial", _run(board.constants))
    return module


STREAM_PORTS = tuple(
    f"{stream}_axis_{name}"
    for stream in "sm"
    for name in ("tdata", "tkeep", "tlast", "tvalid", "tready")
)


def _about(name: str, tasks: int) -> str:
    return (
        f"Simulates {name}: reads its identification, sends {tasks} tasks from inputs.hex in "
        "packets of PACKET, compares each beat of results with results.hex, flushes in the middle "
        "of a packet, and sends all again. STALLS: of 256 cycles, so many without a beat, and as "
        "many without a reader."
    )


def _add_parameters(module: Module, board: WrappedCore, tasks: int) -> None:
    cycles = 2 * tasks * board.rate.cycles + 8 * board.core.under_way * board.core.interval
    module.parameter("PACKET", max(-(-tasks // 3), 1))
    module.parameter("STALLS", 64)
    module.parameter("SEED", 1)
    module.parameter("LIMIT", SLOWEST * (cycles + 1000), "cycles")
    module.constant("TASKS", tasks)
    module.constant("TASK_BEATS", board.tasks.beats)
    module.constant("RESULT_BEATS", board.results.beats)
    module.constant("GIVEN", "TASKS * TASK_BEATS")
    module.constant("WANTED", "TASKS * RESULT_BEATS")


def _add_signals(module: Module, width: int) -> None:
    """The signals at the ports of the device, which are 0 or absent at the start, and counts."""
    module.declare("aclk", "aresetn", value=0)
    module.declare("s_axis_tdata", bits=width, value="'0")
    module.declare("m_axis_tdata", bits=width)
    module.declare("s_axis_tkeep", bits=width // 8, value="'1")
    module.declare("m_axis_tkeep", bits=width // 8)
    module.declare("s_axis_tlast", "s_axis_tvalid", "m_axis_tready", value=0)
    module.declare("s_axis_tready", "m_axis_tlast", "m_axis_tvalid")
    for kind, name, bits in AXI_PORTS:
        if name != "s_axi_wstrb":
            module.declare(name, bits=bits, value="'0" if kind == "input logic" else None)
    module.declare("inputs", bits=width, size="GIVEN")
    module.declare("wanted", bits=width, size="WANTED")
    counts = ("sent", "taken", "passed", "failed", "broken", "cycle")
    module.declare(*counts, kind="integer", value=0)
    module.declare("state", kind="integer", value="SEED", unread=DRAWN)
    module.declare("running", value=0)
    module.declare("stopping", value=0, comment="at the end of a packet")
    module.declare("comparing", value=1)
    module.declare("offered", "answered", "given", value=0)
    module.declare("beat", bits=width + 1)
    module.declare("data", bits=34)
    module.declare("response", bits=2)
    module.declare("found", bits=32)


SEND = """
    cycle = cycle + 1;
    if (s_axis_tvalid && s_axis_tready) sent = sent + 1;
    if (!s_axis_tvalid || s_axis_tready) begin
      s_axis_tvalid <= running && sent < GIVEN && !(stopping && sent % (PACKET * TASK_BEATS) == 0)
        && ($random(state) & 255) >= STALLS;
      s_axis_tdata <= inputs[sent % GIVEN];
      s_axis_tlast <= sent % (PACKET * TASK_BEATS) == PACKET * TASK_BEATS - 1 || sent == GIVEN - 1;
    end
    m_axis_tready <= ($random(state) & 255) >= STALLS;
    if (cycle == LIMIT) begin
      $display("%0d of %0d beats came within %0d cycles", taken, WANTED, LIMIT);
      $fatal(1, "the design is wrong");
    end
"""
KEEP = """
    if (offered && (!m_axis_tvalid || beat !== {m_axis_tlast, m_axis_tdata})) broken = broken + 1;
    if (answered && (!s_axi_bvalid || response !== s_axi_bresp)) broken = broken + 1;
    if (given && (!s_axi_rvalid || data !== {s_axi_rresp, s_axi_rdata})) broken = broken + 1;
    offered <= aresetn && m_axis_tvalid && !m_axis_tready;
    answered <= aresetn && s_axi_bvalid && !s_axi_bready;
    given <= aresetn && s_axi_rvalid && !s_axi_rready;
    beat <= {m_axis_tlast, m_axis_tdata};
    response <= s_axi_bresp;
    data <= {s_axi_rresp, s_axi_rdata};
"""
WRITE = """
    begin
      @(negedge aclk);
      s_axi_awaddr = address; s_axi_wdata = value;
      s_axi_awvalid = 1; s_axi_wvalid = 1;
      do @(posedge aclk); while (!(s_axi_awready && s_axi_wready));
      @(negedge aclk);
      s_axi_awvalid = 0; s_axi_wvalid = 0;
      repeat (2) @(negedge aclk);
      s_axi_bready = 1;
      do @(posedge aclk); while (!s_axi_bvalid);
      if (s_axi_bresp !== 2'b00) broken = broken + 1;
      @(negedge aclk);
      s_axi_bready = 0;
    end
"""
READ = """
    begin
      @(negedge aclk);
      s_axi_araddr = address; s_axi_arvalid = 1;
      do @(posedge aclk); while (!s_axi_arready);
      @(negedge aclk);
      s_axi_arvalid = 0;
      repeat (2) @(negedge aclk);
      s_axi_rready = 1;
      do @(posedge aclk); while (!s_axi_rvalid);
      found = s_axi_rdata;
      if (s_axi_rresp !== 2'b00) broken = broken + 1;
      @(negedge aclk);
      s_axi_rready = 0;
    end
"""
EXPECT = """
    begin
      read(address);
      if (found !== value) begin
        $display("register %h: %h, wanted %h", address, found, value);
        failed = failed + 1;
      end
    end
"""


def _compare(width: int) -> str:
    """Statements that compare a beat of results with the file."""
    return f"""
        if (taken < WANTED && m_axis_tdata === wanted[taken] && m_axis_tlast === last
            && m_axis_tkeep === ~({width // 8}'b0)) passed = passed + 1;
        else begin
          failed = failed + 1;
          if (failed <= 10) $display("beat %0d: %h, last %b", taken, m_axis_tdata, m_axis_tlast);
        end
        taken = taken + 1;
    """


def _run(constants: Mapping[str, int]) -> str:
    """Statements that do what the test bench is for, one after the other."""
    at = lambda name: f"8'h{REGISTER[name].address:02x}"
    word = lambda name: f"32'h{constants[name]:08x}"
    return f"""
        $readmemh("inputs.hex", inputs);
        $readmemh("results.hex", wanted);
        repeat (4) @(negedge aclk);
        aresetn = 1;
        expect_register({at("magic")}, {word("magic")});
        expect_register({at("hash_low")}, {word("hash_low")});
        expect_register({at("hash_high")}, {word("hash_high")});
        write({at("packet_tasks")}, TASKS < PACKET ? TASKS : TASKS % PACKET != 0 ? 0 : PACKET);
        running = 1;
        wait (taken == WANTED);
        expect_register({at("tasks_out")}, TASKS);
        expect_register({at("errors")}, 0);
        // A flush while packets go on: what comes in is dropped up to TLAST
        @(negedge aclk);
        comparing = 0; sent = 0;
        wait (sent >= GIVEN / 2);
        stopping = 1;
        write({at("control")}, {mask("control", "flush")});
        while (s_axis_tvalid || (sent % (PACKET * TASK_BEATS) != 0 && sent < GIVEN))
          @(negedge aclk);
        found = 1;
        while (found != 0) read({at("status")});
        write({at("control")}, {mask("control", "clear")});
        // After it the next batch is as the first one
        @(negedge aclk);
        sent = 0; taken = 0; comparing = 1; stopping = 0;
        wait (taken == WANTED);
        expect_register({at("tasks_out")}, TASKS);
        expect_register({at("errors")}, 0);
        repeat (100) @(negedge aclk);
        $display("%0d beats of results passed, %0d failed; rules of AXI broken: %0d", passed,
                 failed, broken);
        if (failed > 0 || broken > 0 || passed != 2 * WANTED) $fatal(1, "the design is wrong");
        $finish;
    """
