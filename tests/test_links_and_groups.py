"""benchmarks/links_and_groups.py: cells have a figure or a reason; the fit finds what is there."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from repetition import full

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from fit_methods import Fit, measured, report  # noqa: E402
from links_columns import Featherlane  # noqa: E402
from links_results import OVER, UNSUPPORTED, Cell, Row, Writer, by_cell, read  # noqa: E402


@full
def test_quick_run(tmp_path):
    data = tmp_path / "quick.csv"
    sizes = ["--links", "3", "--batch", "1", "4", "--columns", "featherlane"]
    script = [sys.executable, str(BENCHMARKS / "links_and_groups.py"), "--quick"]
    done = subprocess.run([*script, *sizes, "--csv", str(data)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, rows = read(data)
    assert told["dtype"] == "float64"
    assert told["commit"] != ""
    wanted = {Cell(f, 3, s) for f in ("inverse_dynamics", "forward_dynamics") for s in (1, 4)}
    assert set(by_cell(rows)) == wanted
    for cell, methods in by_cell(rows).items():
        assert set(methods) == set(Featherlane().methods(cell.function))
        for row in methods.values():
            assert row.measured, row
            assert row.relative_error < 1e-10
            assert 0 < row.ns_per_state < 1e8
            assert row.first_call_s > 0


def test_budget_is_told(tmp_path):
    data = tmp_path / "none.csv"
    script = [sys.executable, str(BENCHMARKS / "links_and_groups.py"), "--quick", "--first", "1e-6"]
    sizes = ["--links", "3", "--batch", "1", "--columns", "featherlane"]
    subprocess.run([*script, *sizes, "--csv", str(data)], check=True, capture_output=True)
    assert {row.ns_per_state for row in read(data)[1]} == {OVER}


ABOUT = {"dtype": "float64", "vector_bits": "512"}
LINKS, STATES = (10, 20, 50, 200, 500, 1000), (1, 4, 16, 64, 256)


def _written(path, times):
    """A file in which methods take given times."""
    writer = Writer(path, ABOUT)
    for links in LINKS:
        for states in STATES:
            for method, time in times.items():
                ns = time(links, states, math.ceil(states / 8)) / states
                row = Row("inverse_dynamics", links, states, "float64", "featherlane", method, ns)
                writer.write(row)
    writer.write(row._replace(method="auto"))
    writer.write(row._replace(links=7, ns_per_state=UNSUPPORTED, note="too, short"))
    writer.close()


def test_rows_come_back(tmp_path):
    _written(tmp_path / "x.csv", {"serial": lambda n, s, g: 100 * n * g})
    told, rows = read(tmp_path / "x.csv")
    assert told == ABOUT
    assert rows[0].ns_per_state == pytest.approx(1000)
    assert rows[-1].note == "too, short"
    assert not rows[-1].measured


def test_fit_finds_the_terms_and_chooses(tmp_path):
    times = {
        "serial": lambda n, s, g: 2000 + 90 * n * g,
        "scan": lambda n, s, g: 9000 + 30 * n * s,
    }
    _written(tmp_path / "x.csv", times)
    known, lanes = measured(tmp_path / "x.csv")
    assert lanes == 8
    found = Fit(known, lanes)
    for method, constants in found.constants.items():
        expected = {"serial": {"call": 2000, "links groups": 90}}.get(
            method.method, {"call": 9000, "links states": 30}
        )
        assert constants == pytest.approx(expected, rel=0.05)
    assert max(found.loss(cell) for cell in known) < 1.01
    assert {found.chosen(cell) for cell in known} == {"serial", "scan"}


def test_wrong_choices_are_told(tmp_path):
    times = {"serial": lambda n, s, g: 100 * n * g, "scan": lambda n, s, g: 140 * n * g}
    _written(tmp_path / "x.csv", times)
    found = Fit(*measured(tmp_path / "x.csv"))
    assert "the worst: 1.00" in report(found)
    other = {"serial": "scan", "scan": "serial"}
    swapped = {m._replace(method=other[m.method]): c for m, c in found.constants.items()}
    found.constants = swapped
    assert found.loss(Cell("inverse_dynamics", 50, 16)) == pytest.approx(1.4, rel=1e-3)
    assert "in 0 of 30 cells; the worst: 1.40" in report(found)
