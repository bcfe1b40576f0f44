"""Methods that add to compiled functions in NumPy: the same bits alone and in batches, as
docs/accuracy.md promises of those in its table.
"""

import re

import numpy as np
import pytest
from documents import ROOT
from numpy.testing import assert_array_equal

import featherlane as fl
from featherlane.functions.products import product_in_order

SECTION = "## Bit-identical results alone and in a batch"
BATCH = 37
WITHOUT_STATES = {"position_limits", "velocity_limits", "effort_limits", "parameters"}


@pytest.fixture(scope="module")
def model():
    return fl.random_tree(3, 2, ("revolute", "spherical", "prismatic"), seed=0)


def promised():
    """The names of the methods whose rows say yes."""
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    section = text.partition(SECTION)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| yes", section, flags=re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def calls(model, q, v, x, dtype):
    one = np.ones(model.nv, dtype)
    return {
        "inverse_dynamics_regressor": lambda: model.inverse_dynamics_regressor(q, v, x),
        "inverse_dynamics_hessian": lambda: model.inverse_dynamics_hessian(q, v, x, one),
        "forward_dynamics_hessian": lambda: model.forward_dynamics_hessian(q, v, x, one),
        "forward_dynamics_parameter_derivatives": lambda: (
            model.forward_dynamics_parameter_derivatives(q, v, x)
        ),
        "clip": lambda: model.clip(3 * q),
    }


def test_the_list_names_what_is_tried_here(model):
    tried = calls(model, np.zeros(model.nq), 0, 0, float)
    assert {*promised()} == tried.keys() | WITHOUT_STATES


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [name for name in promised() if name not in WITHOUT_STATES])
def test_a_state_has_the_same_bits_alone_and_in_a_batch(model, name, dtype):
    rng = np.random.default_rng(0)
    q = model.random_configuration(BATCH, seed=rng, dtype=dtype)
    v, x = rng.normal(size=(2, BATCH, model.nv)).astype(dtype)
    whole = calls(model, q, v, x, dtype)[name]()
    assert whole.dtype == dtype
    apart = [calls(model, *state, dtype)[name]() for state in zip(q, v, x, strict=True)]
    assert_array_equal(whole, apart)
    spread = [np.repeat(array, 2, axis=0)[::2] for array in (q, v, x)]
    assert_array_equal(whole, calls(model, *spread, dtype)[name]())


def test_products_are_summed_from_the_first_term_to_the_last():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(5, 3, 4)), rng.normal(size=(5, 4, 2))
    wanted = [
        [[sum((a[i, k] * b[k, j] for k in range(1, 4)), a[i, 0] * b[0, j]) for j in range(2)]
         for i in range(3)]
        for a, b in zip(A, B, strict=True)
    ]  # fmt: skip
    assert_array_equal(product_in_order(A, B), wanted)
