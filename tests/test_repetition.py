"""What a run leaves out: repetitions, unless they are asked for."""

from types import SimpleNamespace

import pytest
from left_out import Summary
from repetition import full, repeated


def is_full(case):
    return "full" in [mark.name for mark in getattr(case, "marks", ())]


def test_all_cases_but_the_first_are_repetitions():
    cases = repeated([1, (2, 3), pytest.param(4, marks=pytest.mark.xfail, id="x"), (5, 6)], 2)
    assert list(map(is_full, cases)) == [False, False, True, True]
    assert cases[2].id == "x"
    assert len(cases[2].marks) == 2
    assert cases[3].values == (5, 6)
    assert repeated([1, (2, 3)], spread=False)[1].values == ((2, 3),)


@pytest.mark.parametrize(
    ("given", "markers", "names", "kept"),
    [
        (False, "", ["tests"], 1),
        (True, "", ["tests"], 2),
        (False, "full", ["tests"], 2),
        (False, "", ["tests/a.py::test"], 2),
    ],
)
def test_repetitions_run_when_asked_for(given, markers, names, kept):
    item = lambda mark: SimpleNamespace(get_closest_marker=lambda name: mark)
    option = SimpleNamespace(full=given, markexpr=markers)
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    items, summary = [item(None), item(full.mark)], Summary()
    summary.pytest_collection_modifyitems(
        SimpleNamespace(args=names, option=option, hook=hook), items
    )
    assert (len(items), summary.left_out) == (kept, 2 - kept)


def report(reason):
    return SimpleNamespace(longrepr=("tests/a.py", 1, f"Skipped: {reason}"))


def test_the_end_of_a_run_speaks_to_its_reader():
    summary = Summary()
    summary.left_out = 1200
    skipped = [report("no GPU here"), report("no qemu"), report("no GPU here")]
    assert [*summary._told({"passed": [0], "skipped": skipped})] == [
        "tests: 1 passed, 0 failed, 3 skipped",
        "  2 skipped: no GPU here",
        "  1 skipped: no qemu",
        "1,200 repetitions, the same with more robots, seeds and dtypes, are run by --full",
    ]
    *_, place, what = summary._told({"passed": [0] * 9, "failed": [0]})
    assert "https://github.com/" in place
    assert "featherlane info --system" in what
    assert [*summary._costs(wanted=False)] == []


def test_costs_are_for_those_who_ask():
    summary = Summary()
    summary.left_out = 1
    summary.costs.update({"tests/a.py": 600.0, "tests/b.py": 3.0})
    costs, budget = summary._costs(wanted=True)
    assert costs == "603 s of processor time; the dearest files: tests/a.py 600, tests/b.py 3"
    assert "540 s" in budget
