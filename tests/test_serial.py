"""Designs behind a serial line: frames through simulated pins, to the bit, and the self-test."""

import json
import shutil
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from small_core import overtaking_core, results_of, small_core, tasks_of, without_tags

from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.host import SerialDriver, SerialFacts
from featherlane.backends.fpga.serial.link import sixteenths
from featherlane.backends.fpga.serial.self_test import plan_of
from featherlane.backends.fpga.serial.simulated import simulated_line
from featherlane.backends.fpga.serial.wrapper import SerialCore
from featherlane.errors import CompileError, DeviceError

needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)


@cache
def serial(core=small_core, bit=64, pause=9):
    tasks = tasks_of(16, 3)
    return SerialCore(core(), plan_of(core(), without_tags(tasks), results_of(tasks)), bit, pause)


def driver(**choices):
    design = serial(**choices)
    return SerialDriver(design.facts, simulated_line(design))


def check_batch(device, count=300):
    """A batch is right to the bit."""
    tasks = tasks_of(count, 1)
    run = device.run(without_tags(tasks))
    for name, x in results_of(tasks).items():
        assert np.array_equal(run.results[name], x), name
    assert run.lost == np.count_nonzero(tasks["x"] == -64)
    return run


@needs_verilator
@pytest.mark.parametrize("bit", [64, 67, 133])
def test_a_batch_passes_at_clocks_that_are_no_multiple_of_the_bit(bit):
    device = driver(bit=bit)
    assert not any(check_batch(device).counters.values())
    answer = device.query()
    assert answer["sixteenths"] == bit
    assert answer["outstanding"] == 3
    assert answer["under_way"] == 0


@needs_verilator
def test_results_that_overtake_others_are_put_in_order():
    check_batch(driver(core=overtaking_core))


@needs_verilator
@pytest.mark.parametrize("passes", [0, 3, 8])
def test_the_self_test_runs_at_full_rate(passes):
    device = driver()
    test = device.self_test(passes)
    assert test.passed
    assert test.states == 16 << passes
    assert test.cycles == test.states + 3  # of three registers
    check_batch(device, 20)


@needs_verilator
def test_the_self_test_finds_results_in_another_order():
    assert not driver(core=overtaking_core).self_test(2).passed


@needs_verilator
def test_another_design_is_refused():
    design = serial()
    facts = design.facts._replace(hash=design.hash ^ 1)
    with pytest.raises(DeviceError, match=r"its hash is .* serial.json says .* another bitstream"):
        SerialDriver(facts, simulated_line(design))


@needs_verilator
def test_the_link_has_no_warnings(tmp_path):
    design = serial()
    for name, text in design.sources.items():
        if name != "tiny.sv":
            (tmp_path / name).write_text(text)
    for part in ("link", "test"):
        top = f"tiny_serial_{part}"
        command = ["verilator", "--lint-only", "-Wall", "--top-module", top, f"{top}.sv"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_crc_is_kermits():
    """Its check value, and frames leave 0."""
    assert frames.crc(np.frombuffer(b"123456789", np.uint8)) == 0x2189
    assert frames.crc(frames.with_crc(np.arange(60, dtype=np.uint8).reshape(3, 20))).tolist() == [
        0, 0, 0
    ]  # fmt: skip


def test_facts_survive_their_file(tmp_path):
    facts = serial().facts
    (tmp_path / "serial.json").write_text(json.dumps(facts.to_json()))
    again = SerialFacts.read(tmp_path)
    assert again._replace(test=0) == facts._replace(test=0)
    assert np.array_equal(again.test, facts.test)
    with pytest.raises(ValueError, match=r"is no serial\.json of a design"):
        SerialFacts.read(tmp_path / "other.json")


def test_rates_that_do_not_go():
    assert sixteenths(25e6, 3e6) == 133
    with pytest.raises(ValueError, match=r"baud is 20000000\.0: wanted 14652 to 15000000"):
        sixteenths(60e6, 20e6)
    slow = small_core()._replace(interval=41)
    with pytest.raises(CompileError, match="takes a task every 41 cycles, the line a byte in 40"):
        replace(serial(), core=slow)
