"""Derivatives of inverse dynamics in body frames are those in the common frame."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.algorithms import (
    forward_dynamics_derivatives_from,
    inverse_dynamics_derivatives,
)
from featherlane.algorithms.body_frames import (
    body_derivatives,
    body_forward_dynamics_derivatives_from,
)
from featherlane.robot.spatial import Vector
from featherlane.robot.tree_of import tree_of

TREES = [(9, 1.5, 0.3), (6, 1.0, 0.0), (8, 3.0, 0.0), (12, 1.5, 0.3)]


@pytest.mark.parametrize(("n", "branching", "mimic"), repeated(TREES, 2))
def test_derivatives_of_random_trees(n, branching, mimic):
    model = fl.random_tree(n, branching, mimic=mimic, physics=True, seed=n)
    tree, rng = tree_of(model), np.random.default_rng(n)
    q = model.random_configuration(5, seed=n)
    state = [[*x.T] for x in (q, *rng.standard_normal((2, 5, model.nv)))]
    f_ext = [Vector(rng.standard_normal((6, 5))) for _ in range(tree.nbodies)]
    same(body_derivatives(tree, *state, f_ext), inverse_dynamics_derivatives(tree, *state, f_ext))
    Minv = np.moveaxis(model.mass_matrix_inverse(q), 0, -1).tolist()
    Minv = [[np.array(x) for x in row] for row in Minv]
    same(
        body_forward_dynamics_derivatives_from(tree, *state, Minv, f_ext),
        forward_dynamics_derivatives_from(tree, *state, Minv, f_ext),
    )


def same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        x, y = (np.stack([entry + np.zeros(5) for row in rows for entry in row]) for rows in (x, y))
        assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())


def test_accelerators_take_them_by_name():
    model = fl.load("double_pendulum")
    made = fl.accelerator(
        model, "inverse_dynamics_derivatives", algorithm="body", format="fitted", interval=4
    )
    states = made.samples(100)
    wanted = model.inverse_dynamics_derivatives(**states)
    for x, y in zip(made.function(**states), wanted, strict=True):
        assert_allclose(x, y, rtol=0, atol=1e-4 * np.abs(y).max())
    with pytest.raises(ValueError, match="wanted one of 'common', 'body'"):
        fl.accelerator(model, "inverse_dynamics_derivatives", algorithm="papers")
