"""The pages for users of other libraries: each row of their tables gives the same numbers twice."""

import importlib

import pytest
from coming_from import PAGES, agree, pairs, prepared
from documents import run
from repetition import repeated

NEEDED = {  # page: the packages that its code imports
    "pinocchio": ("pinocchio",),
    "mujoco": ("mujoco",),
    "casadi": ("casadi",),
    "drake": ("pydrake",),  # these and those below are not among the extras of the tests
    "jax": ("mujoco.mjx", "brax", "frax"),
    "jaxsim": ("jaxsim",),
    "grid": ("RBDReference", "URDFParser"),
}


def needs(page):
    for package in NEEDED[page]:
        try:
            importlib.import_module(package)
        except ImportError:
            pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("page", repeated([*NEEDED], 3))
def test_the_rows_of_a_page_agree(page):
    needs(page)
    names = prepared(page)
    wrong = [str(pair) for pair in pairs(page) if not agree(pair, names)]
    assert not wrong


@pytest.mark.parametrize("page", ["pinocchio", "mujoco"])
def test_a_row_that_differs_is_found(page):
    needs(page)
    names, pair = prepared(page), next(pairs(page))
    assert agree(pair, names)
    assert not agree(pair._replace(ours=(*pair.ours[:-1], f"1.001 * {pair.ours[-1]}")), names)


@pytest.mark.parametrize("page", repeated([*NEEDED], 3))
def test_the_code_of_a_page_runs(page):
    needs(page)
    run(PAGES / f"{page}.md")
