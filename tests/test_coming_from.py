"""The pages for users of other libraries: each row of their tables gives the same numbers twice."""

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest
from coming_from import PAGES, agree, pairs, prepared
from documents import blocks, run
from repetition import repeated

import featherlane as fl

NEEDED = {  # page: the packages that its code imports
    "pinocchio": ("pinocchio",),
    "mujoco": ("mujoco",),
    "casadi": ("casadi",),
    "drake": ("pydrake",),  # these and those below are not among the extras of the tests
    "jax": ("mujoco.mjx", "brax", "frax"),
    "jaxsim": ("jaxsim",),
    "grid": ("RBDReference", "URDFParser"),
    "crocoddyl": ("crocoddyl", "pinocchio"),
    "adam": ("adam",),
    "pybullet": ("pybullet",),
    "tsid": (),  # its code needs NumPy alone
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


# The recipe for programs of Drake, also where Drake is not installed


class Autodiff:
    """A number with derivatives, which stands for Drake's `AutoDiffXd`."""

    def __init__(self, value, derivatives):
        self.value, self.derivatives = value, derivatives


STAND_IN = {
    "ExtractValue": lambda x: np.array([[each.value] for each in x]),
    "ExtractGradient": lambda x: np.array([each.derivatives for each in x]),
    "InitializeAutoDiff": lambda value, gradient: np.array(
        [[Autodiff(*each)] for each in zip(value, gradient, strict=True)], object
    ),
}


def test_the_recipe_for_programs_of_drake_hands_derivatives_on(monkeypatch):
    module = ModuleType("pydrake.autodiffutils")
    vars(module).update(STAND_IN)
    monkeypatch.setitem(sys.modules, "pydrake", ModuleType("pydrake"))
    monkeypatch.setitem(sys.modules, "pydrake.autodiffutils", module)
    recipe = next(code for _, code, _ in blocks(PAGES / "drake.md") if "def of_drake" in code)
    names = {}
    exec(recipe, names)

    arm = fl.load("iiwa14")
    q, seeds = arm.random_configuration(seed=0), np.random.default_rng(0).normal(size=(7, 3))
    place = lambda q: arm.frame_placement(q, "iiwa_link_7")[:3, 3]
    J = arm.jacobian(q, "iiwa_link_7", "world")[:3]
    point = names["differentiable"](place, lambda q: arm.jacobian(q, "iiwa_link_7", "world")[:3])
    np.testing.assert_array_equal(point(q), place(q))
    result = point(np.array([Autodiff(*each) for each in zip(q, seeds, strict=True)], object))
    assert result.shape == (3,)
    np.testing.assert_array_equal([x.value for x in result], place(q))
    np.testing.assert_allclose([x.derivatives for x in result], J @ seeds, rtol=1e-12)
