"""What cocotb runs inside the simulator for `test_board_cocotb.py`: masters and monitors of AXI by
cocotbext-axi, which others wrote, on both streams and on the registers.
"""

import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamSink,
    AxiStreamSource,
)

CASE = json.loads(Path(os.environ["BOARD_CASE"]).read_text())
REGISTER = CASE["registers"]


class Board:
    """The design with a master on each of its ports."""

    def __init__(self, dut):
        self.dut, clock, reset = dut, dut.aclk, (dut.aclk, dut.aresetn, False)
        cocotb.start_soon(Clock(clock, 8, "ns").start())
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), *reset)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), *reset)
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), *reset)

    async def start(self):
        self.dut.aresetn.value = 0
        for _ in range(4):
            await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        await RisingEdge(self.dut.aclk)

    def pause(self, share):
        draw = random.Random(1)
        for stream in (self.source, self.sink):
            stream.set_pause_generator(iter(lambda: draw.random() < share, None))

    async def read(self, name):
        return int.from_bytes((await self.registers.read(REGISTER[name], 4)).data, "little")

    async def write(self, name, value):
        answer = await self.registers.write(REGISTER[name], value.to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY

    async def batch(self, packets):
        for given, _ in packets:
            await self.source.send(bytes.fromhex(given))
        for _, wanted in packets:
            found = await with_timeout(self.sink.recv(), 1, "ms")
            assert bytes(found.tdata).hex() == wanted


@cocotb.test()
async def packets_are_right_and_registers_answer(dut):
    board = Board(dut)
    await board.start()
    for name, value in CASE["constants"].items():
        assert await board.read(name) == value
    assert (await board.registers.read(0x3C, 4)).resp == AxiResp.SLVERR
    assert (await board.registers.write(REGISTER["magic"], bytes(4))).resp == AxiResp.SLVERR
    for share in (0.0, 0.4, 0.8):
        board.pause(share)
        await board.write("control", 1 << 2)  # clear
        await board.batch(CASE["packets"])
        assert await board.read("tasks_out") == CASE["tasks"]
        assert await board.read("packets_out") == len(CASE["packets"])
        assert await board.read("errors") == 0


@cocotb.test()
async def a_flush_in_a_packet_leaves_nothing_behind(dut):
    board = Board(dut)
    await board.start()
    board.pause(0.3)
    for cycles in (1, 5, 12, 30, 31, 32, 50):
        given = bytes.fromhex(CASE["packets"][0][0])
        await board.source.send(given)
        for _ in range(cycles):
            await RisingEdge(dut.aclk)
        await board.write("control", 1 << 1)  # flush
        await with_timeout(board.sink.recv(), 1, "ms")
        while await board.read("status"):
            pass
        assert board.sink.empty()
        await board.batch(CASE["packets"])


@cocotb.test()
async def a_packet_that_is_cut_ends(dut):
    board = Board(dut)
    await board.start()
    given, wanted = (bytes.fromhex(x) for x in CASE["packets"][0])
    beat = len(dut.s_axis_tdata) // 8
    await board.source.send(given[: len(given) - beat])
    found = await with_timeout(board.sink.recv(), 1, "ms")
    size = CASE["result_bytes"]
    assert bytes(found.tdata)[:-size] == wanted[:-size]
    assert len(found.tdata) == len(wanted)
    assert await board.read("errors") == 1
    await board.batch(CASE["packets"])
