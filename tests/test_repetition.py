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
