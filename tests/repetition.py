"""Cases of tests that repeat what others prove: only a run with --full makes them."""

import pytest

full = pytest.mark.full
everything = False  # whether --full is given: conftest.py says so before tests are loaded


def examples(number):
    """How many random examples of a property a run tries: a quarter, and all with --full."""
    return number if everything else number // 4


def repeated(cases, quick=1, spread=True):
    """The cases of a parametrized test: the first `quick` of them are its representatives, which
    every run tries; the others are more of the same. spread: tuples have a value for each of
    several parameters.
    """

    def more(case):
        if hasattr(case, "marks"):
            return pytest.param(*case.values, marks=[*case.marks, full], id=case.id)
        values = case if spread and type(case) is tuple else (case,)
        return pytest.param(*values, marks=full)

    return [*cases[:quick], *map(more, cases[quick:])]
