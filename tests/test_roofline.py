"""Measured peaks, counted work and the roofline of a robot."""

import json
import re
import sys

import numpy as np
import pytest
from repetition import full, repeated

import featherlane as fl
from featherlane.backends.cpu import peaks as limits
from featherlane.backends.cpu import probes
from featherlane.backends.cpu.graphs import kernel
from featherlane.backends.cpu.peaks import Bandwidth, Peaks, bandwidth, peaks
from featherlane.backends.cpu.strides import aligned
from featherlane.backends.llvm.jit import widest
from featherlane.functions import tracing
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower
from featherlane.tools import bench, cli, timing
from featherlane.tools.roofline import Roofline, RooflinePoint, point
from featherlane.tools.work import StateWork, bytes_moved, operations, work

DTYPES = ("float64", "float32")


# Probes and peaks


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chains", probes.CHAINS)
def test_the_multiply_adds_are_made(dtype, chains):
    vectors = aligned((2, widest(np.dtype(dtype))), np.dtype(dtype))
    vectors[0], vectors[1] = 1.0, 0.25
    probes.arithmetic(np.dtype(dtype))[chains](vectors.ctypes.data, 10)
    made = 10 * probes.UNROLLED
    assert (vectors[0] == 1.25 + chains * (1.0 + made * 0.25)).all()


SIZE, BEHIND = 4096, 64


def probed(name, times):
    """The array before and after, with some bytes behind it, and the vector after."""
    before = np.random.default_rng(0).integers(0, 256, SIZE + BEHIND, np.uint8)
    array, vector = aligned((SIZE + BEHIND,), before.dtype), aligned((64,), before.dtype)
    array[:], vector[:] = before, 7
    probes.memory()[name](array.ctypes.data, SIZE, times, vector.ctypes.data)
    return before, array, vector


@pytest.mark.parametrize("name", ["write", "stream"])
def test_writing_fills_the_array_and_no_more(name):
    before, array, _ = probed(name, 1)
    assert (array[:SIZE] == 7).all()
    assert (array[SIZE:] == before[SIZE:]).all()


@pytest.mark.parametrize("times", [1, 2])
def test_reading_reads_all_and_no_more(times):
    before, array, vector = probed("read", times)
    width = 8 * widest(np.dtype(np.float64))
    assert (array == before).all()
    assert (vector[:width] == 7 ^ np.bitwise_xor.reduce(before[:SIZE].reshape(-1, width))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_peaks_are_numbers_of_this_machine(dtype, threads):
    found = peaks(dtype, threads)
    assert (found.dtype, found.threads) == (dtype, threads)
    rates = [found.fma_per_second, *found.memory[2:5], *found.caches[2:5]]
    assert all(1e6 < rate < 1e15 for rate in rates)
    assert 0 <= found.memory.spread < 1
    assert found.memory.size > found.caches.size
    assert peaks(np.dtype(dtype), threads) == found  # kept


def test_a_small_array_has_a_bandwidth():
    assert bandwidth(1).size == 512
    assert bandwidth(1000, 2).size == 1024


# Work


def written(text, name):
    """The arithmetic instructions of a function of LLVM text, found by their words."""
    body = re.search(rf"define [^\n]* @{name}\(.*?\n}}", text, re.DOTALL).group()
    body = re.sub(r"\.m = fadd", "", body)  # of `quarter`, which moves bits
    words = r"= f(?:add|sub|mul|div) |@llvm\.sqrt|(@llvm\.fma)"
    found = list(re.finditer(words, body))
    return len(found), sum(match.group(1) is not None for match in found)


def in_blocks(text):
    """The same of all blocks of the steps that run once."""
    blocks = set(re.findall(r"define [^\n]* @(step\d+\.block\d+)\(", text))
    return tuple(map(sum, zip(*(written(text, name) for name in blocks), strict=True)))


@pytest.mark.parametrize("dtype", repeated(DTYPES))
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics_derivatives"])
def test_slots_are_the_instructions_of_the_code(name, dtype):
    model = fl.load("iiwa14")
    program = lower(dynamics_program(model, Variant(name)), "cpu", dtype)
    text = kernel.source(program, np.dtype(dtype), 4)
    found = work(model, name, dtype)
    assert (found.slots, found.fused) == in_blocks(text)


def test_functions_count_as_often_as_they_run(monkeypatch):
    monkeypatch.setattr(tracing, "LARGEST_FLAT", 0)
    model, name = fl.load("double_pendulum", root="free"), "forward_dynamics_derivatives"
    program = lower(dynamics_program(model, Variant(name)), "cpu", "float64")
    text = kernel.source(program, np.dtype("float64"), 4)
    slots, fused = in_blocks(text)
    repeated = [(k, times) for k, times in enumerate(program.times()) if times > 1]
    assert repeated
    for k, times in repeated:
        once = written(text, f"step{k + 1}.routine")
        slots, fused = slots + times * once[0], fused + times * once[1]
    found = work(model, name, "float64")
    assert (found.slots, found.fused) == (slots, fused)


def test_bytes_are_those_of_the_arrays():
    model = fl.load("iiwa14")
    assert work(model, "inverse_dynamics", "float64")[2:] == (3 * 7 * 8, 7 * 8)
    assert work(model, "mass_matrix", "float32")[2:] == (7 * 4, 49 * 4)
    assert bytes_moved(model, "mass_matrix", "float32") == 56 * 4


def test_long_robots_are_counted_without_a_graph():
    model, name = fl.chain(60, 0), "inverse_dynamics"
    counted = operations(model, name)
    assert counted == pytest.approx(model.graph(name).cost().operations, rel=0.2)
    slots, fused, *_ = work(model, name, "float64")
    assert slots + fused == pytest.approx(counted, rel=0.2)


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [("inverse_dynamics_derivatives", 3, 2), ("mass_matrix_inverse", 1, 1)],
)
def test_what_products_of_matrices_compute_is_not_counted(name, read, written):
    model = fl.chain(100, 0)
    assert operations(model, name) is None
    assert work(model, name, "float64") == StateWork(None, None, read * 800, written * 80_000)


# Points


def at(slots, read, written, seconds, threads=1):
    """On a machine of 1e9 multiply-adds/s that reads 1e10 B/s and writes at 5e9 B/s."""
    far = Bandwidth(1 << 40, threads, 1e10, 1e9, 5e9, 0.1)
    limits = Peaks("float64", threads, 1e9, far, far._replace(size=1))
    return RooflinePoint(
        "mass_matrix", 10, threads, seconds, StateWork(slots, slots, read, written), limits, far
    )


def test_a_point_under_the_roof_of_arithmetic():
    p = at(slots=100, read=100, written=50, seconds=400e-9)
    assert p.of_peak == pytest.approx(0.25)
    assert p.of_bandwidth == pytest.approx(0.05)
    assert (p.bound, p.roof) == ("compute", 1e9)
    assert (p.rate, p.intensity) == (pytest.approx(0.25e9), pytest.approx(2 / 3))


def test_a_point_under_the_roof_of_memory():
    p = at(slots=10, read=100, written=500, seconds=220e-9)
    assert p.of_bandwidth == pytest.approx(0.5)
    assert p.bound == "memory"
    assert p.roof == pytest.approx(10 / 110e-9)
    small = p._replace(bandwidth=p.bandwidth._replace(size=1))
    assert small.bound == "caches"


def test_a_point_without_slots_has_a_bandwidth():
    p = at(slots=10, read=100, written=500, seconds=220e-9)
    p = p._replace(work=StateWork(None, None, 100, 500))
    assert (p.of_peak, p.rate, p.roof, p.intensity) == (None, None, None, None)
    assert p.bound == "memory"
    text = "\n".join(line for lines in Roofline((p,)).sections() for line in lines)
    assert re.search(r"M +- +- +600 +220\.0 +- +50%  memory", text)


def test_a_point_of_a_measurement():
    model = fl.load("double_pendulum")
    p = point(model, "mass_matrix", "float32", 1000, 1, 1e-6)
    assert p.bandwidth.size == 24064  # 1000 states of 6 numbers, in whole chunks
    assert p.rate == pytest.approx(work(model, "mass_matrix", "float32").slots * 1e6)


# The command


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(timing, "SECONDS", 0.0)
    monkeypatch.setattr(limits, "PAUSE", 0.0)


QUICK = ("bench", "double_pendulum", "--batch", "32", "--threads", "2")


def test_bench_prints_the_roofline(capsys):
    assert cli.main([*QUICK, "--roofline"]) == 0
    out = capsys.readouterr().out
    assert "multiply-adds/s" in out
    for dtype in DTYPES:
        model = fl.load("double_pendulum")
        slots = work(model, "forward_dynamics_derivatives", dtype).slots
        assert re.search(rf"dFD +{slots:,} +\d+% ", out)
    assert max(map(len, out.splitlines())) <= 100


@full
def test_bench_json_has_the_roofline(capsys):
    assert cli.main([*QUICK, "--dtype", "float32", "--roofline", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["roofline"]
    assert [p["threads"] for p in found["peaks"]] == [1, 2]
    assert len(found["points"]) == 2 * len(fl.FUNCTIONS)
    for p in found["points"]:
        assert p["of_peak"] > 0
        assert p["of_bandwidth"] > 0
        assert p["bound"] in ("compute", "caches", "memory")


def test_without_the_option_there_is_no_roofline():
    report = bench.bench(fl.load("double_pendulum"), 8, ("float64",), 1)
    assert "roofline" not in report.to_dict()


@pytest.mark.parametrize("kind", repeated(["svg", "png"]))
def test_the_plot_is_written(kind, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"roofline.{kind}"
    assert cli.main([*QUICK, "--dtype", "float64", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith({"svg": b"<?xml", "png": b"\x89PNG"}[kind])
    assert "multiply-adds/s" in capsys.readouterr().out


def test_the_plot_names_functions_roofs_and_shares():
    pytest.importorskip("matplotlib")
    from featherlane.tools.roofline_plot import draw

    model = fl.load("double_pendulum")
    names = tuple(fl.FUNCTIONS)
    points = [point(model, n, d, 100, t, 1e-7) for d in DTYPES for n in names for t in (1, 2)]
    figure = draw(Roofline(tuple(points)), "a robot")
    for axes, dtype in zip(figure.axes, DTYPES, strict=True):
        texts = [text.get_text() for text in axes.texts]
        shown = [p for p in points if p.dtype == dtype and p.threads == 1]
        for p in shown:
            share = max(p.of_peak, p.of_bandwidth)
            assert f"{timing.SHORT[p.function]}\n{share:.0%}" in texts
        assert f"{shown[0].peaks.fma_per_second / 1e9:.3g} G multiply-adds/s, 1 thread" in texts
        assert sum("GB/s" in text for text in texts) == 2
        assert len([line for line in axes.lines if line.get_marker() == "o"]) == 2 * len(names)


@pytest.mark.parametrize("dtypes", [DTYPES, DTYPES[:1]])
def test_the_words_of_the_plot_are_inside_of_it(dtypes):
    pytest.importorskip("matplotlib")
    from featherlane.tools.roofline_plot import draw

    model = fl.load("double_pendulum")
    points = [point(model, "mass_matrix", d, 100, t, 1e-7) for d in dtypes for t in (1, 2)]
    figure = draw(Roofline(tuple(points)), "a_robot_of_a_long_name, fixed root, " * 2)
    figure.draw_without_rendering()
    for text in figure.texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


@pytest.mark.parametrize(
    ("file", "told"), [("x.txt", "ends in .svg"), ("no/such/folder/x.svg", "there is no folder")]
)
def test_a_plot_that_cannot_be_is_refused_before_measuring(file, told, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([*QUICK, "--plot", file])
    out, err = capsys.readouterr()
    assert (stop.value.code, out, told in err, err.count("\n")) == (2, "", True, 1)


def test_a_plot_without_matplotlib_names_the_extra(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as stop:
        cli.main([*QUICK, "--plot", str(tmp_path / "x.svg")])
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    assert "featherlane[plot]" in err


# Times


def test_short_calls_are_timed_several_at_once():
    calls = []
    seconds = timing.median_seconds(lambda: calls.append(None), 0.01)
    assert 0 < seconds < timing.SHORTEST
    assert len(calls) > 10 * timing.REPEATS[0]


def test_a_long_call_is_timed_by_itself(monkeypatch):
    monkeypatch.setattr(timing, "SHORTEST", 0.0)
    calls = []
    timing.median_seconds(lambda: calls.append(None), 0.0)
    assert len(calls) == 2 + timing.REPEATS[0]


# Batches beyond the caches and the memory


def test_large_batches_repeat_states():
    model = fl.load("double_pendulum")
    given = timing.inputs(model, timing.DISTINCT + 10, "float32", ("q", "minv"))
    assert list(given) == ["q", "minv"]
    for array in given.values():
        assert len(array) == timing.DISTINCT + 10
        assert (array[:10] == array[-10:]).all()
        assert len(np.unique(array, axis=0)) == timing.DISTINCT


def test_results_begin_on_a_cache_line():
    out = timing.outputs(fl.load("hyq"), "forward_dynamics_derivatives", 100, "float64")
    assert [array.shape for array in out] == [(100, 12, 12)] * 3
    assert not any(array.ctypes.data % 64 for array in out)


def test_a_batch_that_memory_does_not_hold_is_halved(monkeypatch, capsys):
    bytes_of_ten = 10 * (2 + 2 + 2 + 2) * 8
    monkeypatch.setattr(timing, "_memory", lambda: bytes_of_ten * timing.PART)
    model = fl.load("double_pendulum")
    assert timing.fitting(model, "inverse_dynamics", "float64", 64) == 8
    assert cli.main([*QUICK, "--dtype", "float64"]) == 0
    assert "  ID   with 8 states: more do not fit in memory" in capsys.readouterr().out
