"""A sample of the attack with mutated robot files; tests/attack/log.md says what else was run."""

import ctypes
import random
import sys
import time
from types import SimpleNamespace

import pytest
from repetition import repeated

pytest.importorskip("mujoco")
if sys.platform != "linux":
    pytest.skip("limits of processes are Linux's", allow_module_level=True)

from attack import files, workers
from attack.mutate import OF_BYTES, OF_ELEMENTS, mutated
from attack.robots import ROBOTS
from lxml import etree

import featherlane as fl

SAMPLE = 200  # files


@pytest.fixture(scope="module")
def worker():
    result = workers.Worker(files.check, files.prepare, files.PRINTED)
    yield result
    result.stop()


def found(worker, item):
    ((_, result),) = worker.results([item])
    return result


def test_a_sample_of_mutated_files(worker):
    wrong = {seed: result for seed, result in worker.results(range(SAMPLE)) if result}
    assert wrong == {}


def test_the_files_that_are_mutated_are_valid(worker):
    for robot in ROBOTS:
        data = {name: text.encode() for name, text in robot.items()}
        assert found(worker, files.Case(data, "path", {"loops": "drop"})) is None


def test_a_seed_makes_the_same_case_each_time():
    assert files.case(5) == files.case(5)
    assert len({str(files.case(seed)) for seed in range(50)}) > 45


@pytest.mark.parametrize("mutation", [*OF_BYTES, *OF_ELEMENTS])
def test_each_mutation_changes_files(mutation):
    text = ROBOTS[2]["arm.xml"]
    changed = []
    for seed in range(5):
        if mutation in OF_BYTES:
            changed.append(mutation(random.Random(seed), text.encode()) != text.encode())
        else:
            root = etree.fromstring(text)
            mutation(random.Random(seed), root)
            changed.append(etree.tostring(root, encoding="unicode") != text)
    assert any(changed)
    assert isinstance(mutated(random.Random(0), text), bytes)


# The attack must see what is wrong


def spins(item):
    while item:
        pass


def sleeps(item):
    time.sleep(1000)


def allocates(item):
    bytearray(3 << 30 if item else 0)


def dies(item):
    if item:
        ctypes.string_at(0)


def prints(item):
    print("text")


def ends(item):
    if item:
        raise SystemExit(item)


@pytest.mark.parametrize(
    ("check", "reason"),
    repeated(
        [(spins, "processor time"), (dies, "SIGSEGV"), (allocates, "exit 1"), (ends, "exit")], 2
    ),
)
def test_the_death_of_a_child_is_a_finding(check, reason):
    worker = workers.Worker(check, processor_s=1)
    died, again = (result for _, result in worker.results([1, None]))
    worker.stop()
    assert isinstance(died, workers.Death)
    assert reason in died.reason
    assert again is None


def test_a_blocked_child_says_where():
    worker = workers.Worker(sleeps, blocked_s=2)
    (died,) = (result for _, result in worker.results([1]))
    assert died.reason == "blocked"
    assert "in sleeps" in died.output


def test_what_is_printed_is_a_finding():
    for allowed, told in ((workers.NOTHING, "it prints text\n"), ("tex", None)):
        worker = workers.Worker(prints, allowed=allowed)
        assert [result for _, result in worker.results([1, 2])] == [told] * 2
        worker.stop()


def test_wrong_outcomes_are_findings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def loading(outcome):
        def load(source, **options):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(files.fl, "load", load)
        return files.check(0)

    long = fl.ModelError("a" * 4000)
    two_lines = fl.ModelError("a")
    two_lines.args = ("a\nb",)
    assert loading(fl.ModelError("no robot")) is None
    assert "ZeroDivisionError at test_attack_files.py" in loading(ZeroDivisionError("x"))
    assert "4000 characters" in loading(long)
    assert "not one printable line" in loading(two_lines)
    assert "load returns a NoneType" in loading(None)


def test_findings_are_saved_smaller(tmp_path, capsys):
    """A check that dislikes one element: the saved file holds little else."""
    worker = SimpleNamespace(results=lambda cases: [(c, disliked(c)) for c in cases].__iter__())
    findings = files.Findings(tmp_path)
    seed = next(s for s in range(100) if disliked(files.case(s)))
    findings.add(seed, disliked(files.case(seed)), worker)
    saved = b"".join(p.read_bytes() for p in (tmp_path / str(seed)).glob("*.urdf"))
    assert b"axis" in saved
    assert len(saved) < len(b"".join(files.case(seed).files.values())) / 4
    assert f"seed {seed}" in capsys.readouterr().out


def disliked(attack):
    data = b"".join(attack.files.values())
    return "axis" if b"axis" in data and "all.urdf" in attack.files else None
