"""The callable that takes single states without NumPy's ufunc machinery."""

import copy
import dataclasses
import gc
import inspect
import pickle
import sys

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.cpu.call import cpython

pytestmark = pytest.mark.skipif(
    not cpython.available(), reason="arrays are laid out in another way"
)


@pytest.fixture
def model():
    return fl.load("double_pendulum")


def warm(model):
    q, v, a = np.random.default_rng(0).normal(size=(3, model.nv))
    for name in fl.FUNCTIONS:
        if name == "forward_dynamics_derivatives_from":
            continue
        inputs = {"q": q, "v": v, "a": a, "tau": a}
        yield name, [inputs[k] for k in fl.FUNCTIONS[name].inputs]


def test_it_gives_the_bits_and_types_of_the_batched_function(model):
    for name, args in warm(model):
        slow = getattr(model, name)(*args)
        assert name in vars(model)
        fast = getattr(model, name)(*args)
        batched = getattr(model, name)(*[x[None] for x in args])
        assert type(slow) is type(fast)
        arrays = [r if isinstance(r, tuple) else (r,) for r in (slow, fast, batched)]
        for x, y, z in zip(*arrays, strict=True):
            assert np.array_equal(x, y)
            assert np.array_equal(x, z[0])


def test_everything_else_takes_the_other_way(model):
    q = np.array([0.3, -0.2])
    M = model.mass_matrix(q)
    for same in (
        [0.3, -0.2],
        (0.3, -0.2),
        np.array([0.3, 9, -0.2, 9])[::2],
        np.array(q, dtype=">f8"),
    ):
        assert np.array_equal(model.mass_matrix(same), M)
    assert np.array_equal(model.mass_matrix(q=q), M)
    out = np.empty((2, 2))
    assert model.mass_matrix(q, out=out) is out
    assert model.mass_matrix(np.stack([q, q])).shape == (2, 2, 2)
    assert model.mass_matrix(q.astype(np.float32)).dtype == np.float32
    assert model.mass_matrix(q.astype(np.float32)).dtype == np.float32  # now compiled as well
    assert np.array_equal(model.mass_matrix(q), M)


def test_wrong_calls_still_teach(model):
    model.mass_matrix(np.zeros(2))
    with pytest.raises(ValueError, match="q has shape"):
        model.mass_matrix(np.zeros(3))
    with pytest.raises(TypeError):
        model.mass_matrix()
    with pytest.raises(TypeError):
        model.mass_matrix(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    with pytest.raises(TypeError, match="complex"):
        model.mass_matrix(np.zeros(2, complex))
    with pytest.raises(TypeError):
        model.mass_matrix(np.zeros(2), wrong=1)


def test_unaligned_data_is_not_touched(model):
    q = np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float64)
    model.mass_matrix(np.zeros(2))
    assert not q.flags.aligned
    assert np.array_equal(model.mass_matrix(q), model.mass_matrix(np.zeros(2)))


def test_references_are_balanced(model):
    q = np.zeros(2)
    model.mass_matrix(q)
    model.inverse_dynamics_derivatives(q, q, q)
    before = sys.getrefcount(q), sys.getrefcount(np.dtype(np.float64))
    for _ in range(1000):
        M = model.mass_matrix(q)
        d = model.inverse_dynamics_derivatives(q, q, q)
    first, second = d
    del d
    control = np.zeros(2)
    assert len({sys.getrefcount(x) for x in (M, first, second, control)}) == 1
    assert sys.getrefcount(q) == before[0]
    assert abs(sys.getrefcount(np.dtype(np.float64)) - before[1]) < 20


def test_the_code_outlives_its_model(model):
    model.mass_matrix(np.zeros(2))
    function = model.mass_matrix
    expected = function(np.zeros(2))
    del model
    gc.collect()
    assert np.array_equal(function(np.zeros(2)), expected)


def test_a_used_model_is_still_copied_and_pickled(model):
    model.mass_matrix(np.zeros(2))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert other == model
        assert hash(other) == hash(model)
        assert np.array_equal(other.mass_matrix(np.zeros(2)), model.mass_matrix(np.zeros(2)))


@pytest.mark.parametrize("dtypes", [[np.float64], [np.float32, np.float64]])
def test_its_methods_are_pickled_as_those_of_the_model(model, dtypes):
    for dtype in dtypes:
        model.mass_matrix(np.zeros(2, dtype))
    other = pickle.loads(pickle.dumps(model.mass_matrix))
    assert np.array_equal(other(np.zeros(2)), model.mass_matrix(np.zeros(2)))


def test_a_subclass_keeps_its_own_method(model):
    class Doubled(fl.Model):
        def mass_matrix(self, q, **options):
            return 2 * super().mass_matrix(q, **options)

    fields = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    doubled = Doubled(**fields)
    expected = 2 * model.mass_matrix(np.zeros(2))
    for _ in range(3):
        assert np.array_equal(doubled.mass_matrix(np.zeros(2)), expected)


def test_its_signature_can_be_read(model):
    before = list(inspect.signature(model.inverse_dynamics).parameters)
    model.inverse_dynamics(*np.zeros((3, 2)))
    assert list(inspect.signature(model.inverse_dynamics).parameters) == before
    assert "Featherstone" in model.inverse_dynamics.__doc__


def test_external_forces_and_known_accelerations(model):
    """These go through Python, with the bits of the batched call."""
    q, v, a = np.random.default_rng(1).normal(size=(3, 2))
    f_ext = np.random.default_rng(2).normal(size=(2, 6))
    minv = model.mass_matrix_inverse(q)
    for frame in ("body", "world"):
        for _ in range(2):
            one = model.inverse_dynamics(q, v, a, f_ext, f_ext_frame=frame)
            many = model.inverse_dynamics(q[None], v, a, f_ext, f_ext_frame=frame)
            assert np.array_equal(one, many[0])
    for _ in range(2):
        one = model.forward_dynamics_derivatives(q, v, a=a, minv=minv)
        many = model.forward_dynamics_derivatives(q[None], v, a=a, minv=minv)
        assert all(np.array_equal(x, y[0]) for x, y in zip(one, many, strict=True))
        assert one.da_dtau is not minv
        assert np.array_equal(one.da_dtau, minv)
