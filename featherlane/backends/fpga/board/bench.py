"""The test bench of a wrapped design for simulators of SystemVerilog: packets from a file, results
compared with another file, and rules of AXI checked in each cycle.
"""

from __future__ import annotations

from featherlane.backends.fpga.board.registers import REGISTER, mask
from featherlane.backends.fpga.board.wrapper import WrappedCore

BENCH = """\
// Simulates {name}: reads its identification, sends {tasks} tasks from inputs.hex in packets of
// PACKET, compares each beat of results with results.hex, flushes in the middle of a packet, and
// sends all again. STALLS: of 256 cycles, so many without a beat, and as many without a reader.
`timescale 1ns/1ps
module {name}_bench;
  parameter PACKET = {packet};
  parameter STALLS = 64;
  parameter SEED = 1;
  parameter LIMIT = {limit};  // cycles
  localparam TASKS = {tasks}, TASK_BEATS = {task_beats}, RESULT_BEATS = {result_beats};
  localparam GIVEN = TASKS * TASK_BEATS, WANTED = TASKS * RESULT_BEATS;

  logic aclk = 0, aresetn = 0;
  logic [{width}-1:0] s_axis_tdata = '0, m_axis_tdata;
  logic [{width}/8-1:0] s_axis_tkeep = '1, m_axis_tkeep;
  logic s_axis_tlast = 0, s_axis_tvalid = 0, s_axis_tready;
  logic m_axis_tlast, m_axis_tvalid, m_axis_tready = 0;
  logic [7:0] s_axi_awaddr = '0, s_axi_araddr = '0;
  logic s_axi_awvalid = 0, s_axi_awready, s_axi_wvalid = 0, s_axi_wready;
  logic [31:0] s_axi_wdata = '0, s_axi_rdata;
  logic [1:0] s_axi_bresp, s_axi_rresp;
  logic s_axi_bvalid, s_axi_bready = 0, s_axi_arvalid = 0, s_axi_arready;
  logic s_axi_rvalid, s_axi_rready = 0;

  {name} device (
    .aclk(aclk), .aresetn(aresetn),
    .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep), .s_axis_tlast(s_axis_tlast),
    .s_axis_tvalid(s_axis_tvalid), .s_axis_tready(s_axis_tready),
    .m_axis_tdata(m_axis_tdata), .m_axis_tkeep(m_axis_tkeep), .m_axis_tlast(m_axis_tlast),
    .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready),
    .s_axi_awaddr(s_axi_awaddr), .s_axi_awprot(3'b000), .s_axi_awvalid(s_axi_awvalid),
    .s_axi_awready(s_axi_awready), .s_axi_wdata(s_axi_wdata), .s_axi_wstrb(4'hf),
    .s_axi_wvalid(s_axi_wvalid), .s_axi_wready(s_axi_wready), .s_axi_bresp(s_axi_bresp),
    .s_axi_bvalid(s_axi_bvalid), .s_axi_bready(s_axi_bready), .s_axi_araddr(s_axi_araddr),
    .s_axi_arprot(3'b000), .s_axi_arvalid(s_axi_arvalid), .s_axi_arready(s_axi_arready),
    .s_axi_rdata(s_axi_rdata), .s_axi_rresp(s_axi_rresp), .s_axi_rvalid(s_axi_rvalid),
    .s_axi_rready(s_axi_rready)
  );

  logic [{width}-1:0] inputs [0:GIVEN-1];
  logic [{width}-1:0] wanted [0:WANTED-1];
  integer sent = 0, taken = 0, passed = 0, failed = 0, broken = 0, cycle = 0, state = SEED;
  logic running = 0, stopping = 0, comparing = 1;  // stopping: at the end of a packet

  always #{half} aclk = !aclk;

  // Packets in: a beat stays on offer until it is taken
  always @(posedge aclk) if (aresetn) begin
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
  end

  // Packets out: results, TLAST at the last task of each packet, TKEEP
  wire last = taken % (PACKET * RESULT_BEATS) == PACKET * RESULT_BEATS - 1 || taken == WANTED - 1;
  always @(posedge aclk) if (aresetn && comparing && m_axis_tvalid && m_axis_tready) begin
    if (taken < WANTED && m_axis_tdata === wanted[taken] && m_axis_tlast === last
        && m_axis_tkeep === ~({width_bytes}'b0)) passed = passed + 1;
    else begin
      failed = failed + 1;
      if (failed <= 10) $display("beat %0d: %h, last %b", taken, m_axis_tdata, m_axis_tlast);
    end
    taken = taken + 1;
  end

  // What is on offer stays as it is until it is taken
  logic offered = 0, answered = 0, given = 0;
  logic [{width}:0] beat;
  logic [33:0] data;
  logic [1:0] response;
  always @(posedge aclk) begin
    if (offered && (!m_axis_tvalid || beat !== {{m_axis_tlast, m_axis_tdata}})) broken = broken + 1;
    if (answered && (!s_axi_bvalid || response !== s_axi_bresp)) broken = broken + 1;
    if (given && (!s_axi_rvalid || data !== {{s_axi_rresp, s_axi_rdata}})) broken = broken + 1;
    offered <= aresetn && m_axis_tvalid && !m_axis_tready;
    answered <= aresetn && s_axi_bvalid && !s_axi_bready;
    given <= aresetn && s_axi_rvalid && !s_axi_rready;
    beat <= {{m_axis_tlast, m_axis_tdata}};
    response <= s_axi_bresp;
    data <= {{s_axi_rresp, s_axi_rdata}};
  end

  task write(input [7:0] address, input [31:0] value);
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
  endtask

  logic [31:0] found;
  task read(input [7:0] address);
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
  endtask

  task expect_register(input [7:0] address, input [31:0] value);
    begin
      read(address);
      if (found !== value) begin
        $display("register %h: %h, wanted %h", address, found, value);
        failed = failed + 1;
      end
    end
  endtask

  initial begin
    $readmemh("inputs.hex", inputs);
    $readmemh("results.hex", wanted);
    repeat (4) @(negedge aclk);
    aresetn = 1;
    expect_register(8'h{magic:02x}, 32'h{magic_value:08x});
    expect_register(8'h{hash_low:02x}, 32'h{hash_low_value:08x});
    expect_register(8'h{hash_high:02x}, 32'h{hash_high_value:08x});
    write(8'h{packet_tasks:02x}, TASKS < PACKET ? TASKS : TASKS % PACKET ? 0 : PACKET);
    running = 1;
    wait (taken == WANTED);
    expect_register(8'h{tasks_out:02x}, TASKS);
    expect_register(8'h{errors:02x}, 0);
    // A flush while packets go on: what comes in is dropped up to TLAST
    @(negedge aclk);
    comparing = 0; sent = 0;
    wait (sent >= GIVEN / 2);
    stopping = 1;
    write(8'h{control:02x}, {flush});
    while (s_axis_tvalid || (sent % (PACKET * TASK_BEATS) != 0 && sent < GIVEN)) @(negedge aclk);
    found = 1;
    while (found != 0) read(8'h{status:02x});
    write(8'h{control:02x}, {clear});
    // After it the next batch is as the first one
    @(negedge aclk);
    sent = 0; taken = 0; comparing = 1; stopping = 0;
    wait (taken == WANTED);
    expect_register(8'h{tasks_out:02x}, TASKS);
    expect_register(8'h{errors:02x}, 0);
    repeat (100) @(negedge aclk);
    $display("%0d beats of results passed, %0d failed; rules of AXI broken: %0d", passed, failed,
             broken);
    if (failed > 0 || broken > 0 || passed != 2 * WANTED) $fatal(1, "the design is wrong");
    $finish;
  end
endmodule
"""
SLOWEST = 64  # cycles of the test bench to each one that a design without stalls takes


def bench(board: WrappedCore, tasks: int) -> str:
    """The text of the test bench. tasks: how many stand in the files."""
    addresses = {name: register.address for name, register in REGISTER.items()}
    cycles = 2 * tasks * board.rate.cycles + 8 * board.core.under_way * board.core.interval
    return BENCH.format(
        **{name: addresses[name] for name in ADDRESSES},
        name=board.name,
        tasks=tasks,
        packet=max(-(-tasks // 3), 1),
        limit=SLOWEST * (cycles + 1000),
        task_beats=board.tasks.beats,
        result_beats=board.results.beats,
        width=board.width,
        width_bytes=board.width // 8,
        half=f"{board.core.clock / 2:g}",
        magic_value=board.constants["magic"],
        hash_low_value=board.constants["hash_low"],
        hash_high_value=board.constants["hash_high"],
        flush=mask("control", "flush"),
        clear=mask("control", "clear"),
    )


ADDRESSES = (
    *("magic", "hash_low", "hash_high", "packet_tasks", "tasks_out", "errors", "control"),
    "status",
)
