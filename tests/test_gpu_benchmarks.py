"""What benchmarks/ asks of a GPU: run in the emulator, and by NVIDIA's assembler where it is."""

import csv
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from documents import ROOT
from processes import finished

from featherlane.backends.cuda import calls, copies, free_memory
from featherlane.backends.cuda import driver as drivers
from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.mappings import KernelWork, cycles
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.errors import DeviceError
from featherlane.functions.table import Variant

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import gpu  # noqa: E402
import gpu_cells  # noqa: E402
import gpu_mappings  # noqa: E402
import gpu_pack  # noqa: E402
import gpu_packed  # noqa: E402
import gpu_peers  # noqa: E402
import gpu_processes  # noqa: E402
import gpu_questions  # noqa: E402
import gpu_rates  # noqa: E402
import gpu_results  # noqa: E402
import gpu_smoke  # noqa: E402
import gpu_tools  # noqa: E402
from gpu_card import Card, Emulated  # noqa: E402
from gpu_cells import DIFFERENT, LEFT_OUT, SAME, Bench, Cell  # noqa: E402
from robots import chosen  # noqa: E402

F32 = ("float32",)
PACKED = (
    gpu_pack.Wanted("iiwa14", ("forward_dynamics",), F32, form="lanes"),
    gpu_pack.Wanted("iiwa14", ("inverse_dynamics",), F32, form="pitch"),
    gpu_pack.Wanted("iiwa14", (Variant("rollout", integrator="rk4", steps=4),), F32, form="plans"),
    gpu_pack.Wanted("iiwa14", ("inverse_dynamics",), F32),
    gpu_pack.Wanted("iiwa14", ("inverse_dynamics_derivatives",), F32, ("lanes", "team:2")),
)


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """A folder with a few functions of one robot."""
    folder = tmp_path_factory.mktemp("pack")
    gpu_pack.write(folder, PACKED)
    return folder


@pytest.fixture
def emulated(monkeypatch):
    """The emulator as a GPU of the benchmarks, for one test."""
    for module in (drivers, calls, copies, free_memory):
        monkeypatch.setattr(module, "driver", module.driver)
    return Emulated()


@pytest.fixture
def bench(emulated, pack):
    return Bench(emulated, pack, ("iiwa14",), (), time.monotonic() + 600)


def measured(cells, bench, first=0):
    return [row for row in gpu_cells.rows(cells, bench, first) if "begun" not in row]


def fails():
    raise DeviceError("refused")


# Straight-line code


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("count", [8, 512])
def test_ptxas_takes_straight_line_code(count, tmp_path):
    path = tmp_path / "f.ptx"
    path.write_text(gpu_questions.straight_line(count))
    call = ["ptxas", "-arch=sm_90", str(path), "-o", str(tmp_path / "f.cubin")]
    assembled = subprocess.run(call, capture_output=True, text=True)
    assert assembled.returncode == 0, assembled.stderr


def test_straight_line_code_ends_where_the_assembler_would_take_minutes():
    """65,536 lines take ptxas 184 s, 16,384 take it 4."""
    assert gpu_questions.lengths(emulated=False) == [512, 1024, 2048, 4096, 8192, 16_384]


# Cells


def test_a_cell_that_fails_is_a_row_and_the_next_goes_on(bench):
    cells = [
        Cell({"batch": 1}, lambda: {"seconds": 1.0}),
        Cell({"batch": 2}, fails),
        Cell({"batch": 3}, lambda: [{"warps": 1}, {"warps": 2}]),
    ]
    assert measured(cells, bench) == [
        {"batch": 1, "seconds": 1.0},
        {"batch": 2, "value": "failed: DeviceError: refused"},
        {"batch": 3, "warps": 1},
        {"batch": 3, "warps": 2},
    ]


def test_no_cell_begins_after_the_deadline(bench):
    def late():
        bench.deadline = time.monotonic() - 1
        return {"seconds": 1.0}

    rows = measured([Cell({"batch": k}, late) for k in range(3)], bench)
    assert [row["batch"] for row in rows] == [0, 1]
    assert rows[1]["value"].startswith(LEFT_OUT)


def test_a_part_ends_with_the_cell_that_loses_the_gpu(bench, monkeypatch):
    monkeypatch.setattr(bench.gpu, "works", lambda: False)
    cells = [Cell({}, dict), Cell({}, fails), Cell({}, dict)]
    assert [row for row in gpu_cells.rows(cells, bench) if "lost" in row] == [{"lost": 1}]
    assert len(measured(cells, bench, first=2)) == 1


def test_functions_of_robots_are_chosen_and_those_of_the_chain_stay(bench):
    names = {x.function for x in bench.files(form="")}
    assert names == {"inverse_dynamics", "inverse_dynamics_derivatives"}
    bench.functions = ("inverse_dynamics",)
    assert [x.mapping for x in bench.files(form="")] == ["lanes"]
    bench.robots = ("hyq:free",)
    assert bench.files(form="") == []
    assert len(bench.files("lanes")) == 1


# Processes

CHILD = """
import json, os, sys, time
def tell(**row): print("row: " + json.dumps(row), flush=True)
first, seconds = sys.stdin.readline().split()
for cell in range(int(first), 4):
    tell(begun=cell, batch=cell)
    if cell == 1: {fault}
    tell(batch=cell, seconds=1.0)
tell(ended=True)
"""


def child(program, folder):
    """A process of a program."""
    return gpu_processes.Process([sys.executable, "-c", program], folder / "log")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("os.kill(os.getpid(), 11)", "failed: the process ended with SIGSEGV"),
        ("time.sleep(60)", "failed: no row for 1 s"),
        ("raise ValueError('of our own')", "ValueError: of our own"),
        ("tell(batch=1, value='failed: lost'); tell(lost=1); sys.exit(3)", "failed: lost"),
    ],
)
def test_after_a_cell_that_ends_its_process_another_goes_on(fault, told, tmp_path):
    process = child(CHILD.replace("{fault}", fault), tmp_path)
    rows = list(gpu_processes.rows(process, 30, silence=1.0))
    assert [row["batch"] for row in rows] == [0, 1, 2, 3]
    assert told in rows[1]["value"]
    assert all(row["seconds"] == 1.0 for row in (rows[0], *rows[2:]))


def test_a_process_that_cannot_begin_is_one_row(tmp_path):
    (row,) = gpu_processes.rows(child("raise OSError('no driver')", tmp_path), 30)
    assert row == {"value": "failed: the process ended with status 1: OSError: no driver"}


def test_a_part_is_ended_when_its_time_is_over(tmp_path):
    process = child(CHILD.replace("{fault}", "time.sleep(60)"), tmp_path)
    begin = time.monotonic()
    rows = list(gpu_processes.rows(process, 1.0, grace=0.5))
    assert rows[-1] == {"batch": 1, "value": "failed: time is over"}
    assert time.monotonic() - begin < 20


def test_no_cell_is_measured_before_a_process_shall_begin(tmp_path):
    """It imports meanwhile, while the part before is measured."""
    process = child("print('row: {}', flush=True)\n" + CHILD.replace("{fault}", "pass"), tmp_path)
    assert process.lines.get(timeout=20) == "row: {}\n"
    assert process.lines.empty()
    assert list(gpu_processes.rows(process, 0.0)) == []
    assert process.process.poll() is not None


def test_the_process_of_the_next_part_stands_by(monkeypatch, tmp_path):
    """Imports would else take a quarter of the minute of the smoke test."""
    log = []

    class Started:
        def __init__(self, command, path):
            self.part = command[command.index("--part") + 1]
            log.append(f"made {self.part}")

        def end(self):
            log.append(f"ended {self.part}")

    def rows(process, seconds, grace):
        assert grace < 5
        log.append(f"measured {process.part}")
        return []

    monkeypatch.setattr(gpu, "Process", Started)
    monkeypatch.setattr(gpu_processes, "rows", rows)
    args = gpu._options().parse_args(["--smoke"])
    args.minutes = 1.0
    results = gpu_results.Results(tmp_path / "smoke.csv")
    gpu.run(gpu.SMOKE[:3], args, results, tmp_path / "log")
    results.close()
    names = [part.name for part in gpu.SMOKE[:3]]
    first, second, third = names
    assert log[:4] == [f"made {first}", f"made {second}", f"measured {first}", f"made {third}"]
    assert log[4:6] == [f"measured {second}", f"measured {third}"]
    assert {*log[6:]} == {f"ended {name}" for name in names}


def test_only_what_is_timed_waits_for_the_clocks():
    """A process takes 0.3 s for that, and the smoke test has fourteen of them."""
    assert [part.name for part in gpu.SMOKE if part.warm] == ["device", "one call"]
    assert all(part.warm for part in (*gpu.RATES, *gpu.OTHERS))


# The time of parts


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [0.0]
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])
    return now


def parts(*shares):
    return [gpu.Part(f"part {k}", share, lambda bench: []) for k, share in enumerate(shares)]


def test_a_part_that_is_asked_for_alone_has_all_the_time(clock):
    assert [seconds for _, seconds in gpu.timed(parts(0.05), 60)] == [60]


def test_later_parts_have_the_time_that_earlier_ones_leave(clock):
    taken = []
    for _, seconds in gpu.timed(parts(1, 1, 2), 80):
        taken.append(seconds)
        clock[0] += 8 if len(taken) == 1 else seconds
    assert taken == [20, 24, 48]
    assert clock[0] == 80


def test_every_part_has_a_name_of_its_own():
    assert len(gpu.PARTS) == len(gpu.SMOKE) + len(gpu.BITS) + len(gpu.RATES) + len(gpu.OTHERS)


def test_the_largest_goals_come_first():
    """What the time cuts off is what matters least."""
    from gpu_rates import BATCHES

    assert BATCHES == (65_536, 4096, 1_048_576, 256, 16, 1)


# Arrays, and what is compared


def test_results_are_full_of_nan_before_a_call_and_differ_then(bench):
    (facts,) = bench.files("lanes")
    with bench.resident(facts, 33) as resident:
        assert all(np.isnan(x.numpy()).all() for x in resident.results)
        assert resident.difference().startswith("result 0: 231 numbers differ, by inf")
        resident.run()
        assert resident.difference() == ""


def test_no_results_are_made_on_the_host(bench, monkeypatch):
    """As many gigabytes as they have would be copied over."""
    (facts,) = bench.files("lanes")
    copied = []
    monkeypatch.setattr(bench.gpu, "copy_in", lambda address, data: copied.append(data.shape))
    monkeypatch.setattr(bench.gpu, "fill", lambda *_: None)
    with bench.resident(facts, 33):
        assert copied == [(33, 7)] * 3


def test_one_bit_is_a_difference(bench):
    (facts,) = bench.files("lanes")
    with bench.resident(facts, 65) as resident:
        resident.run()
        numbers = resident.results[0].numpy()
        numbers.view(np.uint32)[64, 3] ^= 1
        bench.gpu.copy_in(resident.results[0].address, numbers)
        assert "1 numbers differ" in resident.difference()
        assert "from state 64 on" in resident.difference()


def test_what_is_written_between_rows_is_a_difference(bench):
    (facts,) = bench.files("pitch")
    with bench.resident(facts, 5, pitch=3) as resident:
        resident.run()
        assert resident.difference() == ""
        numbers = resident.results[0].numpy()
        numbers[2, 8] = 0.0
        bench.gpu.copy_in(resident.results[0].address, numbers)
        assert "from state 2 on" in resident.difference()


def test_the_file_of_a_pack_has_all_that_was_packed(pack, iiwa):
    facts = gpu_packed.index(pack)
    assert [x.form for x in facts] == ["lanes", "pitch", "plans", "", "", ""]
    assert facts[2].function == "rollout, rk4, 4 steps"
    packed = gpu_packed.read(pack, facts[-1])
    assert facts[-1].mapping == "team:2"
    assert packed.kernels == gpu_pack.kernels(iiwa, gpu_pack.One(*facts[-1][1:6]))
    assert facts[3].work == gpu_packed.read(pack, facts[3]).kernels.work != KernelWork(0, 0, 1)
    assert [x.shape for x in packed.results] == [(37, 7, 7)] * 2
    with pytest.raises(FileNotFoundError, match=r"gpu_pack\.py"):
        gpu_packed.index(pack / "nothing")


# Counts


def test_a_multiply_add_is_one_operation_and_columns_count():
    """As it is one instruction in the most that a GPU executes a second."""
    text = gpu_questions.straight_line(24)
    kernels = GpuKernels((text,), (Launch("f", 32, 0, 32, 3),), {}, {}, slots=1)
    packed = gpu_packed.Packed(kernels, [], [np.zeros((1, 1), np.float32)])
    assert packed.operations() == 3 * (24 + gpu_questions.SUMS - 1)
    assert packed.scratch_bytes() == 3 * 2 * 4  # the line that loads, and the one that stores


class Replaying(Card):
    """A card that writes down what is called and what is replayed."""

    def __init__(self):
        self.log = []

    def seconds(self, work, times):
        work()
        return 0.25

    @contextmanager
    def graph(self, work):
        self.log.append("capture")
        work()
        yield lambda: self.log.append("replay")


def test_launches_are_timed_as_a_replayed_graph():
    """Python's part of a call takes longer than most kernels."""
    card = Replaying()
    works = [lambda k=k: card.log.append(k) for k in range(2)]
    assert card.launched(*works) == 0.25 / 8
    capture = card.log.index("capture")
    assert card.log[:capture] == [0, 1]  # loads kernels, and is not timed
    assert card.log[capture + 1 : capture + 9] == [0, 1] * 4
    assert {*card.log[capture + 9 :]} == {"replay"}


def test_kernels_are_timed_on_the_numbers_of_a_call(bench, monkeypatch):
    """NaN and huge numbers would take the slow path of every division."""
    (facts,) = bench.files("lanes")
    held, seen = [], []

    def resident(facts, batch):
        held.append(Bench.resident(bench, facts, batch))
        return held[0]

    def launched(work):
        seen.append(held[0].difference())
        return 1.0

    monkeypatch.setattr(bench, "resident", resident)
    monkeypatch.setattr(bench.gpu, "launched", launched)
    rows = list(gpu_questions._kernels(bench, facts, 33))
    assert [row["question"] for row in rows] == ["kernel FD, 1 columns"]
    assert seen == [""]


def test_large_batches_turn_among_arrays_beyond_the_cache(bench, monkeypatch):
    """Else the second-level cache would serve what memory is asked for."""
    (facts,) = bench.files("lanes")
    counts = []

    @contextmanager
    def resident(facts, batch):
        yield SimpleNamespace(run=lambda: None)

    def launched(*works):
        counts.append(len(works))
        return 1.0

    monkeypatch.setattr(bench, "resident", resident)
    monkeypatch.setattr(bench.gpu, "launched", launched)
    for batch in (4096, 65_536, 1 << 24):
        gpu_rates.launched(bench, facts, batch)
    beyond = -(-gpu_rates.BEYOND_CACHE // (65_536 * facts.row_bytes))
    assert counts == [1, min(beyond, gpu_rates.REPLAYED), 1]
    assert counts[1] > 1


def test_all_bits_of_large_batches_are_compared_on_a_card(bench, monkeypatch):
    monkeypatch.setattr(bench.gpu, "emulated", False, raising=False)
    batches = [cell.facts["batch"] for cell in gpu_smoke.form("lanes", bench)]
    assert batches == [1, 33, 37, 65_536]


# The cost model


def test_the_prediction_is_that_of_the_package():
    work = KernelWork(9_000, 12_000, 3)
    row = {**work._asdict(), "batch": 5000, "multiprocessors": 132}
    for warps in (1, 2, 4, 8):
        mapping = f"team:{warps}" if warps > 1 else "lanes"
        expected = gpu_mappings.predicted({**row, "mapping": mapping}, gpu_mappings.NOW)
        assert expected == pytest.approx(cycles(work, 5000, warps, 132))


def test_constants_are_found_again():
    true = {"ISSUE": 4.1, "SHARE": 0.4, "LAUNCH": 2500.0}
    true |= {"FILLED[2]": 0.8, "FILLED[4]": 0.6, "FILLED[8]": 0.45}
    rows = []
    works = (
        KernelWork(3_000, 3_000, 1),
        KernelWork(20_000, 30_000, 4),
        KernelWork(60_000, 110_000, 16),
    )
    for work, mapping in itertools.product(works, ("lanes", "team:2", "team:4", "team:8")):
        for batch in gpu_mappings.BATCHES:
            row = {**work._asdict(), "mapping": mapping, "batch": batch, "multiprocessors": 132}
            rows.append({**row, "part": "mappings", "cycles": gpu_mappings.predicted(row, true)})
    found = gpu_mappings.fitted(rows)
    assert found == pytest.approx(true, rel=0.05)
    assert gpu_mappings.error(rows, found) < 0.02 < gpu_mappings.error(rows, gpu_mappings.NOW)
    told = [row["question"] for row in gpu_mappings.conclusions(rows)]
    assert told == [*(f"fitted {name}" for name in true), "error of the fit"]


# NVIDIA's profiler

PRINTED = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","dFD_0","dram__bytes.sum","Mbyte","1,234.5"
"0","7","dFD_0","gpu__time_duration.sum","us","20.5"
"1","7","dFD_1","dram__bytes.sum","Kbyte","8"
"1","7","dFD_1","gpu__time_duration.sum","ns","900"
"1","7","dFD_1","another","%","5"
"""


def test_what_the_profiler_prints():
    assert gpu_tools.profile(PRINTED.splitlines()) == {
        "dFD_0": {"dram_bytes": 1234.5e6, "nanoseconds": 20.5e3},
        "dFD_1": {"dram_bytes": 8e3, "nanoseconds": 900.0},
    }


# Results


def test_rows_are_in_the_file_as_soon_as_they_come(tmp_path):
    results = gpu_results.Results(tmp_path / "a.csv")
    results.add({"part": "lanes", "batch": 33, "seconds": 1e-3, "value": SAME, "unknown": 5})
    results.add({"part": "lanes", "batch": 65_536, "value": f"{DIFFERENT}: 3 numbers"})
    first, second = gpu_results.read([tmp_path / "a.csv"])
    assert (first["batch"], first["seconds"]) == (33, 1e-3)
    assert first["value"] == "the same; unknown 5"
    assert [gpu_results.is_bad(x) for x in (first, second)] == [False, True]
    for value in ("failed: lost", "failed: lost", "failed: late"):
        results.add({"part": "plans", "value": value})
    page = gpu_results.page("title", results.rows)
    assert page.count("failed: lost") == page.count("failed: late") == 1
    assert "! plans: 1 more" in page
    assert "! lanes  65536  DIFFERENT: 3 numbers" in page
    results.close()


# Peers


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "mass_matrix"])
def test_a_loop_of_pytorch_computes_what_we_compute(name, bench):
    pytest.importorskip("torch")
    cells = gpu.PARTS["torch-loop"].cells(bench)
    cell = next(x for x in cells if x.facts["function"] == name)
    row = cell.measure()
    assert row["value"].startswith("loop over links, CPU; differs by ")
    assert float(row["value"].split()[-1]) < 1e-5


def test_grid_rbd_is_awaited_while_it_is_built(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_peers, "missing", lambda *_: None)
    monkeypatch.setattr(gpu_peers, "PATIENCE", 0.3)
    monkeypatch.setattr(gpu_peers, "peer", lambda *_: iter([Cell({}, lambda: {"value": "timed"})]))
    bench.pack, bench.deadline = tmp_path / "pack", time.monotonic() + 0.55
    (tmp_path / gpu_peers.LOG).write_text("iiwa14 built\n\n")
    first, second = measured(gpu_peers.grid(bench), bench)
    assert first["value"] == "it runs: iiwa14 built"
    assert second["value"] == f"{LEFT_OUT}, it is not built yet"
    (tmp_path / gpu_peers.BUILT).touch()
    bench.deadline = time.monotonic() + 60
    assert measured(gpu_peers.grid(bench), bench) == [{"value": "timed"}]


def test_peers_and_packs_name_robots_alike():
    """Or figures would not find what belongs together."""
    named = [gpu_cells.asked(robot) for robot in chosen(list(gpu_pack.ROBOTS))]
    assert named == [*gpu_pack.ROBOTS]


# The page


def commands(script):
    """The arguments of a script's commands on the page of the first run."""
    page = (ROOT / "docs" / "dev" / "gpu_first_run.md").read_text(encoding="utf-8")
    found = re.findall(rf"python benchmarks/{script} ([^#`\n]+)", page)
    assert found, script
    return [shlex.split(x) for x in found]


def test_the_commands_of_the_page_are_those_of_the_scripts(monkeypatch):
    parsed = [gpu._options().parse_args(x) for x in commands("gpu.py")]
    assert [x.script for x in parsed if x.script] == list(gpu.SCRIPTS)
    assert {x.minutes for x in parsed if x.script} == {None}  # the ten minutes of the page
    assert {x.functions for x in parsed} == {None}  # also rollouts, and those of the chain
    assert all(len(x) == 4 for x in commands("gpu_tools.py"))
    assert [x[-2] for x in commands("gpu_figure.py")] == ["--folder"]
    assert commands("gpu_pack.py") == [[str(parsed[0].pack)]]


# Dry runs


def test_all_parts_run_in_the_emulator(bench):
    """In this process; the next test has processes of their own."""
    for name in ("lanes", "plans", "graph", "pitch", "bits", "rates", "copies", "mappings"):
        rows = measured(gpu.PARTS[name].cells(bench), bench)
        assert rows, name
        assert not [row for row in rows if gpu_results.is_bad(row)]
    assert {row["mapping"] for row in rows} == {"lanes", "team:2"}
    assert len({row["path"] for row in rows}) == 1  # which is that of lanes


def test_a_dry_run_of_the_script(pack, tmp_path):
    call = [sys.executable, str(BENCHMARKS / "gpu.py"), "--parts", "versions", "lanes", "latency"]
    call += ["--emulated", "--pack", str(pack), "--out", str(tmp_path), "--minutes", "3"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*call, "--robots", "iiwa14"], **pipes)
    printed = finished(process)
    assert (tmp_path / "parts.txt").read_text() in printed
    assert "times mean nothing" in printed
    with (tmp_path / "parts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows if row["part"] == "lanes"] == [SAME] * 2
    assert {row["mapping"] for row in rows if row["part"] == "latency"} == {"lanes", "team:2"}


# Figures


def test_the_figures_of_a_run(tmp_path):
    pytest.importorskip("matplotlib")
    import gpu_figure

    results = gpu_results.Results(tmp_path / "b.csv")
    results.add({"part": "device", "question": "device: name", "value": "a card"})
    for batch, name in itertools.product((1, 65_536), ("mass_matrix", "inverse_dynamics")):
        facts = {"robot": "iiwa14", "function": name, "dtype": "float32", "batch": batch}
        facts |= {"mapping": "lanes", "states_per_second": 1e6, "seconds": batch / 1e6}
        shares = {"share_of_memory": 0.5, "share_of_arithmetic": 0.1}
        results.add({"part": "rates", **facts, **shares})
        results.add({"part": "latency", **facts})
        results.add({"part": "mjx", "who": "mjx", **facts})
    results.close()
    wanted = ["gpu_rates", "gpu_bounds"]
    assert gpu_figure.draw_all([tmp_path / "b.csv"], tmp_path) == wanted
    drawn = [(tmp_path / f"{name}.svg").read_text() for name in wanted]
    assert all((tmp_path / f"{name}_narrow.svg").exists() for name in wanted)
    assert all("Measured on a card" in text for text in drawn)
    assert "beside peers" in drawn[1]
    assert "one state, float32" in drawn[1]
    assert gpu_figure.draw_all([], tmp_path) == []
