"""benchmarks/suite: a run has no blank cell, wrong answers are no figures, crashes end one cell."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import featherlane as fl

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from suite import watch  # noqa: E402
from suite.cells import OURS, Cell, Row, Writer, cells, read  # noqa: E402
from suite.chains import urdf  # noqa: E402
from suite.clock import Clock, part  # noqa: E402
from suite.oracle import Oracle  # noqa: E402
from suite.peers.base import Case, Prepared, Unsupported  # noqa: E402
from suite.robots import robot  # noqa: E402
from suite.start import Apart, starts  # noqa: E402
from suite.tables import Results, peers, speeds  # noqa: E402
from suite.turn import Turn  # noqa: E402
from suite.worker import Bench, Budget, Task  # noqa: E402

ID = "inverse_dynamics"


def test_quick_run(tmp_path):
    pytest.importorskip("pinocchio")
    data = tmp_path / "quick.csv"
    given = ["--robots", "chain3", "/nowhere.urdf", "--functions", "ID", "--batch", "1", "40"]
    given += ["--threads", "1", "--peers", "pinocchio-python", "--csv", str(data)]
    script = [sys.executable, str(BENCHMARKS / "suite" / "run.py"), "--quick", *given]
    environment = {**os.environ, "FEATHERLANE_CACHE": "off"}
    done = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with data.open() as file:
        lines = [line for line in file if not line.startswith("# ")]
    assert all(field for line in csv.reader(lines) for field in line)  # nothing is blank
    told, rows = read(data)
    assert told["commit"]
    assert len(rows) == 2 * 2 * 2 * 2  # robots, batches, dtypes, who
    assert all("no nowhere.urdf" in r.ns_per_state for r in rows if r.robot == "nowhere")
    for row in rows[:8]:
        if row.who == OURS:
            assert row.measured
            assert row.bytes == 12 * int(row.dtype[-2:]) // 8
            assert row.slots > 100
            assert row.compile_s > 0
            assert row.peak_mb > 10
        elif row.dtype == "float32":
            assert row.ns_per_state == "unsupported: float64 only"
        else:
            assert row.times_ours > 0
        if row.measured:
            assert row.error_before <= row.allowed
            assert row.error_after <= row.allowed
    assert all(row.error_after < 1e-12 for row in rows if row.measured and row.dtype == "float64")


# Those who compute wrongly, not at all, or never


class _Peer:
    name, precisions, heavy = "peer", ("float64",), False

    def missing(self):
        return None


class Right(_Peer):
    """The algorithm itself, so many states at a time; `at` is what is added to its answers."""

    def __init__(self, at=lambda passes: 0.0):
        self.at = at

    def prepare(self, case):
        found = case.model.function(case.name)(*case.given())
        done = [0]

        def passes(count):
            done[0] += count

        return Prepared(passes, lambda rows: (found[rows] + self.at(done[0]),))


class Nothing(_Peer):
    def prepare(self, case):
        return Unsupported("it has no such function")


class Raising(_Peer):
    def prepare(self, case):
        raise KeyError("joint3")


def _row(peer):
    known = robot("double_pendulum", Path())
    model, rng = known.model(), np.random.default_rng(0)
    q, v, u = rng.normal(size=(3, 10, model.nv))
    case = Case(model, "", ID, "float64", q, v, u)
    expected = Oracle(known, model).expected(ID, q, v, u)
    made = Turn(peer, Cell("double_pendulum", "fixed", ID, 10, "float64", 1))
    made.prepare(case, expected, 1e-5, 1.0)
    for _ in range(3):
        made.take()
    made.finish(expected)
    row = made.row(None)
    made.close()
    return row


ASKED = count()  # answers of a peer that is right once


def test_right_answers_are_timed():
    row = _row(Right())
    assert row.measured
    assert row.error_before < 1e-12


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        (Right(lambda passes: 1e-3), "failed: differs by .* before timing"),
        (Right(lambda passes: np.nan), "failed: differs by inf before timing"),
        (
            Right(lambda passes: 1e-3 * next(ASKED)),
            "failed: differs by .* after timing",
        ),
        (Nothing(), "unsupported: it has no such function"),
        (Raising(), "failed: KeyError: 'joint3'"),
    ],
)
def test_what_has_no_figure_says_why(peer, told):
    row = _row(peer)
    assert not row.measured
    assert re.fullmatch(told, row.ns_per_state)


# Workers


def dying(task, tell):
    """A worker that dies wherever its peer has not been given up."""
    for cell in task.cells:
        tell.send(("begin", cell, "peer"))
        if (cell, "peer") not in task.known:
            os.kill(os.getpid(), signal.SIGKILL)
        tell.send(("rows", [Row(*cell, "peer", task.known[cell, "peer"])], {}))
    tell.send(("end",))


def test_a_crash_ends_one_function_of_one_peer(monkeypatch):
    monkeypatch.setattr(watch, "work", dying)
    asked = cells("robot", "fixed", [ID], [16, 1], ["float64"], 1)
    said = []
    budget = Budget(peer=1.0)
    task = Task(robot("double_pendulum", Path()), asked, ["peer"], 1, 16, budget)
    told = {row.cell: row.ns_per_state for row in watch.rows(task, said.append)}
    assert list(told) == asked
    assert [*told.values()] == ["failed: crashed (-9)", "skipped: crashed (-9), before"]
    assert len(said) == 1


def raising(task, tell):
    """A worker that ends before it begins anything."""


def test_a_worker_that_never_begins_leaves_no_cell_blank(monkeypatch):
    monkeypatch.setattr(watch, "work", raising)
    asked = cells("robot", "fixed", [ID], [16, 1], ["float64"], 1)
    budget = Budget(peer=1.0)
    task = Task(robot("double_pendulum", Path()), asked, ["peer"], 1, 16, budget)
    found = list(watch.rows(task, lambda said: None))
    assert [(row.cell, row.who) for row in found] == [(c, w) for c in asked for w in (OURS, "peer")]
    assert {row.ns_per_state for row in found} == {"failed: crashed (0)"}


# Time


def benched(budget, peer=None, batches=(16, 1)):
    """All rows of two cells, by those who are asked."""
    asked = cells("double_pendulum", "fixed", [ID], batches, ["float64"], 1)
    task = Task(robot("double_pendulum", Path()), asked, [], 1, 16, budget)
    bench = Bench(task, lambda cell, who: None)
    if peer is not None:
        bench._who.append(peer)
        bench._missing[peer.name], bench.spent[peer.name] = None, 0.0
    return [row for cell in asked for row in bench.rows(cell)]


def test_behind_the_time_of_the_robot_ours_alone_is_measured():
    late = benched(Budget(peer=1.0, until=0.0, least=1e-5), Right())
    assert all(row.measured for row in late if row.who == OURS)
    told = {row.ns_per_state for row in late if row.who != OURS}
    assert told == {"skipped: over the time of the robot"}
    spent = benched(Budget(peer=-1.0, least=1e-5), Right())
    assert {row.ns_per_state for row in spent if row.who != OURS} == {"skipped: over budget"}


class Slow(Right):
    """Right, and moves a clock by a tenth of a second for each state."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def prepare(self, case):
        ready = super().prepare(case)
        run = ready.passes

        def passes(count):
            run(count)
            self.clock[0] += 0.1 * count * case.batch

        ready.passes = passes
        return ready


def test_who_is_slow_with_few_states_is_not_asked_with_many(monkeypatch):
    clock, used = [0.0], time.process_time
    monkeypatch.setattr(time, "process_time", lambda: used() + clock[0])
    budget = Budget(peer=1e9, least=1e-5, cell=0.0)
    few, many = (row for row in benched(budget, Slow(clock), (16, 1)) if row.who == "peer")
    assert few.ns_per_state == pytest.approx(1e8, rel=0.5)
    assert re.fullmatch("skipped: a pass takes 1.[6-9] s", many.ns_per_state)


def test_a_robot_leaves_time_to_the_others(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock(100.0, [10.0, 30.0, 60.0])
    assert clock.until(0) == pytest.approx(10.0)
    assert clock.told(0) == "robot 1 of 3, 0 s gone, about 100 s to go"
    now[0] = 4.0
    assert clock.until(1) == pytest.approx(4.0 + 96.0 / 3)
    assert clock.told(1) == "robot 2 of 3, 4 s gone, about 36 s to go"
    now[0] = 120.0
    assert clock.until(2) == 120.0
    assert part(140.0, 0.5) == 130.0


def answer():
    return 42


def never():
    time.sleep(1e6)


def test_what_runs_apart_ends_in_time():
    soon = time.monotonic() + 600.0
    assert Apart(answer, ()).result(soon, "late") == 42
    assert Apart(never, ()).result(time.monotonic() + 0.1, "late") == "late"
    assert Apart(os._exit, (3,)).result(soon, "late") == "failed: the process ended with 3"


def test_starts_behind_the_time_are_skipped(tmp_path):
    told = starts(fl.load("double_pendulum"), [ID], ["float64"], tmp_path, until=0.0)
    assert told[ID, "float64"].compile_s == "skipped: over the time of the robot"


# Chains, files and tables


def test_chain_urdf_is_the_chain():
    model, made = fl.chain(5, 3), fl.load(urdf(fl.chain(5, 3)))
    q, v, a = np.random.default_rng(0).normal(size=(3, 20, 5))
    expected = model.inverse_dynamics(q, v, a)
    assert np.abs(made.inverse_dynamics(q, v, a) - expected).max() < 1e-12 * np.abs(expected).max()


def _results(path):
    """Two robots, ours and two peers, one of which is faster."""
    writer = Writer(path, {"date": "today"})
    for name, times in (("a", {OURS: 2.0, "slow": 50.0, "fast": 1.0}), ("b", {OURS: 3.0})):
        cell = Cell(name, "fixed", ID, 4096, "float64", 1)
        for who in (OURS, "slow", "fast"):
            ns = times.get(who, "unsupported: a\nfixed root only")
            writer.write(Row(*cell, who, ns, settings="x, y"))
    writer.close()
    return read(path)


def test_rows_come_back(tmp_path):
    told, rows = _results(tmp_path / "x.csv")
    assert told == {"date": "today"}
    assert [row.ns_per_state for row in rows[:3]] == [2.0, 50.0, 1.0]
    assert rows[-1].ns_per_state == "unsupported: a fixed root only"
    assert rows[0].batch == 4096
    assert rows[0].settings == "x, y"
    assert rows[0].slots == "-"


def test_tables_compare_with_the_fastest_peer_and_tell_reasons(tmp_path):
    results = Results(_results(tmp_path / "x.csv")[1])
    assert "2 (0.5x)" in speeds(results, 1)
    assert " 3 |" in speeds(results, 1)
    told = peers(results, ("b", "fixed"), 1)
    assert "- unsupported: a fixed root only: slow (float64), fast (float64)" in told
