"""Designs behind a serial line: frames through simulated pins, to the bit, and the self-test."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache

import documents
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_model import LinkModel, ModelledLine
from repetition import examples, repeated
from small_core import overtaking_core, small_core, tasks_of, without_tags
from small_serial import check_batch, serial, tiny

import featherlane as fl
from featherlane.accelerators.pins import check_at_pins
from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.harness import harness
from featherlane.backends.fpga.serial.host import SerialDriver, SerialFacts
from featherlane.backends.fpga.serial.rate import sixteenths
from featherlane.backends.fpga.serial.simulated import SimulatedBoards, patience_of, simulated_line
from featherlane.backends.fpga.simulation.simulate import compiled
from featherlane.errors import CompileError, DeviceError

needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)


def driver(**choices):
    design = serial(**choices)
    return SerialDriver(design.facts, simulated_line(design))


@needs_verilator
@pytest.mark.parametrize("bit", repeated([67, 64, 133]))
def test_a_batch_passes_at_clocks_that_are_no_multiple_of_the_bit(bit):
    device = driver(bit=bit)
    assert not any(check_batch(device).counters.values())
    answer = device.query()
    assert answer["sixteenths"] == bit
    assert answer["outstanding"] == 3
    assert answer["under_way"] == 0


def skewed(bit, other):
    """A driver whose end of the line has bits of another length than the board's."""
    design = serial(bit=bit, pause=13)
    library = compiled(design.name, design.sources, harness())
    patience = patience_of(design.plan.answers, bit)
    (line,) = SimulatedBoards(library, other, 13, patience).lines
    return SerialDriver(design.facts, line)


@needs_verilator
@pytest.mark.parametrize("skew", [-0.04, -0.02, 0.02, 0.04])
@pytest.mark.parametrize("bit", repeated([305, 571]))  # 3 Mbaud at 57.1 and 107 MHz
def test_both_ends_of_the_line_may_have_other_clocks(bit, skew):
    """Tasks and results back to back; adapters promise 3 %."""
    assert not any(check_batch(skewed(bit, round(bit * (1 + skew)))).counters.values())


@needs_verilator
@pytest.mark.parametrize("skew", [-0.07, 0.07])
def test_a_line_of_another_rate_is_told(skew):
    """More than half a bit in the ten of a byte."""
    with pytest.raises(DeviceError, match=r"does not answer: .* baud rate .a simulation of its"):
        check_batch(skewed(305, round(305 * (1 + skew))))


@needs_verilator
def test_the_line_carries_as_many_states_as_the_report_says():
    """Ten bits for each byte of the longer frame, each way at once."""
    device = driver(bit=133)
    boards = device.transport.boards
    began = boards.cycles
    check_batch(device, 300)
    promised = 300 * 10 * device.facts.longest_frame * 133 / 16
    assert promised <= boards.cycles - began < 1.1 * promised


@needs_verilator
def test_results_that_overtake_others_are_put_in_order():
    check_batch(driver(core=overtaking_core))


@needs_verilator
@pytest.mark.parametrize("passes", repeated([3, 0, 8], 2))
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


# The line


def task_frame(number, word):
    return frames.frame(frames.TASK, number, word)


TASK_FRAMES = st.builds(task_frame, st.integers(0, 255), st.binary(min_size=3, max_size=3))
WHOLE = TASK_FRAMES | st.just(frames.frame(frames.QUERY))


@st.composite
def damaged(draw):
    """A frame with some bits of neighbours changed."""
    data = bytearray(draw(WHOLE))
    place = draw(st.integers(0, len(data) - 1))
    data[place] ^= draw(st.integers(1, 255))
    return bytes(data)


@st.composite
def cut(draw):
    data = draw(WHOLE)
    return data[: draw(st.integers(0, len(data) - 1))]


EVENTS = st.lists(
    TASK_FRAMES | damaged() | cut() | st.binary(max_size=4) | st.sampled_from(["pause", "broken"]),
    max_size=12,
)


@needs_verilator
@settings(max_examples=examples(120), deadline=None)
@given(EVENTS)
def test_the_circuit_does_with_a_bad_line_what_the_model_does(events):
    """Frames that are cut, damaged, or between noise and pauses: the same answers and counters."""
    model, line = LinkModel(serial().plan, tiny), simulated_line(serial())
    for event in [*events, "pause", frames.frame(frames.QUERY)]:
        if event == "pause":
            model.pause()
            line.level(True, 200)
        elif event == "broken":
            model.broken()
            line.level(False, 10.5)
            line.level(True, 2)
        else:
            line.write(event)
            for value in event:
                model.byte(value)
    came = b""
    while received := line.read(1000):
        came += received
    assert sorted(answered(came)) == sorted(answered(model.answers))


def answered(data):
    """The frames in answers: one to a query overtakes results, and says how many are under way."""
    reader = frames.FrameReader(serial().plan.answers)
    for frame in reader.frames(data):
        if frame.kind == frames.FACTS:
            yield frame.kind, *{**frames.answer_fields(frame.payload), "under_way": 0}.values()
        else:
            yield frame.kind, *frame.payload
    assert not reader.damaged
    assert not reader.skipped


FAULTS = st.dictionaries(st.integers(30, 400), st.integers(1, 255) | st.none(), max_size=6)


@settings(max_examples=examples(120), deadline=None)
@given(FAULTS, FAULTS)
def test_no_result_is_wrong_whatever_the_line_does(to_board, to_host):
    """A task that is lost once is sent again; a second loss is told."""
    line = ModelledLine(LinkModel(serial().plan, tiny), to_board, to_host)
    device = SerialDriver(serial().facts, line)
    try:
        run = check_batch(device, 30)
    except DeviceError as error:
        assert re.search("lost twice|does not answer", str(error))  # noqa: PT017
    else:
        assert bool(run.counters["repeated"]) <= bool(to_board or to_host)


@pytest.mark.parametrize(("way", "counter"), [(0, "damaged"), (1, "damaged_results")])
def test_a_task_that_is_damaged_is_sent_again(way, counter):
    faults = [{}, {}]
    faults[way] = {60: 4}  # after the answer to the first query
    device = SerialDriver(serial().facts, ModelledLine(LinkModel(serial().plan, tiny), *faults))
    counters = check_batch(device, 30).counters
    assert (counters["repeated"], counters[counter]) == (1, 1)


def test_a_silent_board_is_told():
    line = ModelledLine(LinkModel(serial().plan, tiny), dict.fromkeys(range(100)), {})
    with pytest.raises(
        DeviceError, match="the board of tiny_serial does not answer: is it powered"
    ):
        SerialDriver(serial().facts, line)


def test_a_line_that_always_loses_a_task_is_told():
    device = SerialDriver(
        serial().facts, line := ModelledLine(LinkModel(serial().plan, tiny), {}, {})
    )
    first = line.count[0]  # three tasks of 7 bytes, a query, another one and a task come now
    line.faults[0].update({first + 3: 1, first + 21 + 3 + 3 + 3: 1})
    with pytest.raises(
        DeviceError, match=r"1 of 3 tasks were lost twice; frames that the board dropped: "
    ):
        device.run(without_tags(tasks_of(3)))


def test_the_crc_is_kermits():
    """Its check value, and frames leave 0."""
    assert frames.crc(b"123456789") == 0x2189
    assert not frames.crc(frames.with_crc(bytes(range(256))))


@cache
def two_functions():
    arm = fl.load("double_pendulum")
    names = ["inverse_dynamics", "mass_matrix"]
    return fl.multifunction(arm, names, interval=2, board="ulx3s")


@needs_verilator
def test_functions_of_one_design_are_called_by_name():
    """More tasks than numbers of frames; results have the entries of their function."""
    design = two_functions()
    serial = design.board_design.serial
    device = SerialDriver(serial.facts, simulated_line(serial))
    found = check_at_pins(device, design.cases(700))
    assert found[:3] == (700, 700, True)
    states = design.samples("mass_matrix", 3)
    assert device(states, "mass_matrix").keys() == {"M"}
    with pytest.raises(ValueError, match=r"^q\[1, 1\] \(state 1\) is inf: wanted -\d"):
        device({"q": [[0.0, 0.0], [0.0, np.inf]]}, "mass_matrix")
    last = device({"q": [0.0, np.inf]}, "mass_matrix", saturate=True)["M"]
    assert np.array_equal(last, device({"q": [0.0, 1e6]}, "mass_matrix", saturate=True)["M"])
    turned = r"^q\[0\] is 90: wanted .*; angles are in radians, 90 degrees are 1\.571; saturate"
    with pytest.raises(ValueError, match=turned):
        device({"q": [90.0, 0.0]}, "mass_matrix")
    mixed = {**design.samples("inverse_dynamics", 3), "function": [0, 2, 0]}
    for code in (1, 0.5, 9):
        told = rf"^function\[1\] \(state 1\) is {code}: wanted the code of a function, one of 0, 2"
        with pytest.raises(ValueError, match=told):
            device.run({**mixed, "function": [0, code, 2]}, saturate=True)
    results = device(mixed)
    names = [name for name in results if not np.isnan(results[name]).all()]
    assert {*names} >= {"tau", "M"}
    assert np.isnan(results["tau"]).all(axis=-1).tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"function is 'M': wanted .*mean 'mass_matrix'"):
        device.run(states, "M")
    with pytest.raises(
        ValueError, match=r"^q has shape \(2, 3\), wanted \(\.\.\., 2\): states .*q\.T"
    ):
        device.run({"q": np.zeros((2, 3))}, "mass_matrix")
    with pytest.raises(ValueError, match=r"inputs has q: wanted q, v, a of inverse_dynamics"):
        device.run(states, "inverse_dynamics")
    with pytest.raises(
        ValueError, match=r"^function is None: wanted 'inverse_dynamics' or 'mass_m"
    ):
        device.run(states)
    assert repr(device).startswith(f"<SerialDriver of {serial.name}: inverse_dynamics, mass_matrix")


@needs_verilator
def test_a_design_of_one_function_has_no_names():
    with pytest.raises(ValueError, match="function is 'x': the design has one function, leave"):
        driver().run(without_tags(tasks_of(2, 1)), "x")


@pytest.mark.parametrize("design", [serial, lambda: two_functions().board_design.serial])
def test_facts_survive_their_file(tmp_path, design):
    facts = design().facts
    (tmp_path / "serial.json").write_text(json.dumps(facts.to_json()))
    again = SerialFacts.read(tmp_path)
    assert again._replace(test=0) == facts._replace(test=0)
    assert np.array_equal(again.test, facts.test)
    with pytest.raises(
        ValueError, match=r"cannot be read \(No such file .*wanted the serial\.json"
    ):
        SerialFacts.read(tmp_path / "other.json")
    (tmp_path / "serial.json").write_text("{}")
    with pytest.raises(ValueError, match=r"is no serial\.json of a design"):
        SerialFacts.read(tmp_path)


def test_rates_that_do_not_go():
    assert sixteenths(25e6, 3e6) == 133
    with pytest.raises(ValueError, match=r"baud is 20000000\.0: wanted 14652 to 15000000"):
        sixteenths(60e6, 20e6)
    slow = small_core()._replace(interval=41)
    with pytest.raises(CompileError, match="takes a task every 41 cycles, the line a byte in 40"):
        replace(serial(), core=slow)


def test_the_page_has_the_frames():
    page = (documents.ROOT / "docs" / "board.md").read_text(encoding="utf-8")
    for name, size in frames.ANSWER.items():
        assert f"| {name} | {size} | {frames.MEANING[name]} |" in page
    for kind, who in (("TASK", "host"), ("QUERY", "host"), ("TEST", "host"), ("RESULT", "board"),
                      ("FACTS", "board"), ("TESTED", "board")):  # fmt: skip
        assert f"| {getattr(frames, kind):#04x} {kind.lower()} | {who} |" in page


def test_a_design_opens_the_port_of_its_board():
    pytest.importorskip("serial", reason="pyserial is not installed")
    arm = fl.load("double_pendulum")
    with pytest.raises(DeviceError, match="the port '/dev/ttyNONE' does not open at 3000000 baud"):
        fl.accelerator(arm, "mass_matrix", board="ulx3s", interval=1).serial("/dev/ttyNONE")
    with pytest.raises(ValueError, match="is for no board: wanted board="):
        fl.accelerator(arm, "mass_matrix", interval=1).serial("/dev/ttyNONE")
