"""The derivatives of forward dynamics from tau, from a, and from a and M^-1: the same numbers."""

import numpy as np
import pytest
from repetition import full, repeated

import featherlane as fl

ROBOTS = [("iiwa14", "fixed"), ("hyq", "free"), ("panda", "fixed"), ("mobile_arm", "fixed")]


def assert_close(found, wanted, tolerance):
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.abs(y).max())


def ways(model, q, v, tau, **options):
    """From tau, from a, and from a and M^-1; a and M^-1 as the model gives them."""
    f_ext = {k: options[k] for k in ("f_ext", "f_ext_frame") if k in options}
    params = {"params": options.get("params")}
    a = model.forward_dynamics(q, v, tau, **f_ext, **params)
    minv = model.mass_matrix_inverse(q, **params)
    derivatives = model.forward_dynamics_derivatives
    return (
        derivatives(q, v, tau, **options),
        derivatives(q, v, a=a, **options),
        derivatives(q, v, a=a, minv=minv, **options),
    )


@pytest.mark.parametrize(("name", "root"), repeated(ROBOTS))
@pytest.mark.parametrize(
    ("dtype", "tolerance"), repeated([(np.float64, 1e-12), (np.float32, 2e-4)])
)
def test_three_ways_to_the_same(name, root, dtype, tolerance):
    model, rng = fl.load(name, root=root), np.random.default_rng(0)
    q = model.random_configuration(5, seed=rng, dtype=dtype)
    v, tau = rng.normal(size=(2, 5, model.nv)).astype(dtype)
    first, *others = ways(model, q, v, tau)
    for found in others:
        assert type(found) is fl.ForwardDynamicsDerivatives
        assert_close(found, first, tolerance)


@full
@pytest.mark.parametrize("which", repeated(["both", "body", "world", "parameters"]))
def test_wrenches_and_parameters(pendulum, which):
    rng = np.random.default_rng(0)
    q = pendulum.random_configuration(5, seed=rng)
    v, tau = rng.normal(size=(2, 5, pendulum.nv))
    f_ext = rng.normal(size=(5, pendulum.nbodies, 6))
    params = {"mass": 2 * pendulum.parameters("mass")["mass"], "damping": np.ones(pendulum.nv)}
    options = {
        "parameters": {"params": params},
        "both": {"f_ext": {"link2": f_ext[:, 0]}, "params": params},
        "body": {"f_ext": f_ext},
        "world": {"f_ext": f_ext, "f_ext_frame": "world"},
    }[which]
    plain = pendulum.forward_dynamics_derivatives(q, v, tau)
    first, *others = ways(pendulum, q, v, tau, **options)
    assert np.abs(first.da_dq - plain.da_dq).max() > 1e-3
    for found in others:
        assert_close(found, first, 1e-12)


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_a_state_has_the_same_bits_everywhere(pendulum, threads):
    rng = np.random.default_rng(0)
    q = pendulum.random_configuration(40, seed=rng)
    v, a = rng.normal(size=(2, 40, pendulum.nv))
    derivatives = pendulum.forward_dynamics_derivatives
    whole = derivatives(q, v, a=a, threads=threads)
    for n in (0, 17):
        for x, y in zip(derivatives(q[n], v[n], a=a[n]), whole, strict=True):
            assert np.array_equal(x, y[n])
    out = tuple(np.empty_like(x) for x in whole)
    found = derivatives(q, v, a=a, out=out, threads=threads)
    for x, y, z in zip(found, whole, out, strict=True):
        assert x is z
        assert np.array_equal(x, y)


@pytest.mark.parametrize(("name", "root"), repeated(ROBOTS, 2))
def test_a_known_acceleration_saves_operations(name, root):
    model = fl.load(name, root=root)
    end = "", "_at"
    full, known = (model.graph(f"forward_dynamics_derivatives{x}").cost().operations for x in end)
    bias = model.graph("bias_force").cost().operations
    assert full - 2 * bias < known < full


def test_results_where_the_inverse_is(pendulum):
    """`out` may be the arrays that are given."""
    rng = np.random.default_rng(0)
    q = pendulum.random_configuration(5, seed=rng)
    v, a = rng.normal(size=(2, 5, pendulum.nv))
    minv = pendulum.mass_matrix_inverse(q)
    wanted = pendulum.forward_dynamics_derivatives(q, v, a=a, minv=minv)
    for place in range(3):
        out = [np.empty_like(minv) for _ in range(3)]
        out[place][...] = minv
        found = pendulum.forward_dynamics_derivatives(q, v, a=a, minv=out[place], out=tuple(out))
        for x, y in zip(found, wanted, strict=True):
            assert np.array_equal(x, y)
