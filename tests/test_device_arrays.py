"""Arrays of several packages on an emulated GPU: DLPack, streams, several devices, mixtures."""

import ctypes

import numpy as np
import pytest
from emulated_gpu import STREAM, emulated, states
from test_backend import same_bits

import featherlane as fl
from featherlane.backends.cuda import dlpack
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant

new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


@pytest.fixture
def gpu(monkeypatch):
    return emulated(monkeypatch)


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


class Tensor:
    """An array of a package that has DLPack alone. options: what its capsules differ in."""

    __module__ = "tinygrad"

    def __init__(self, api, data, device=0, versioned=True, strides=None, offset=0, **options):
        padded = np.concatenate(
            [np.zeros(offset, np.uint8), np.ascontiguousarray(data).view(np.uint8).ravel()]
        )
        self.api, self.data, self.versioned, self.offset = api, data, versioned, offset
        self.address, self.number = api.place(padded, device), device
        self.strides, self.options, self.streams, self.keep = strides, options, [], []

    def __dlpack_device__(self):
        return (self.options.get("kind", 2), self.number)

    def __dlpack__(self, *, stream=None, **asked):
        if asked and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        shape = (ctypes.c_int64 * self.data.ndim)(*self.data.shape)
        strides = self.strides and (ctypes.c_int64 * self.data.ndim)(*self.strides)
        tensor = dlpack._Tensor(
            self.address,
            self.options.get("kind", 2),
            self.number,
            self.data.ndim,
            self.options.get("code", 2),
            self.options.get("bits", 8 * self.data.itemsize),
            1,
            shape,
            strides,
            self.offset,
        )
        major, flags = self.options.get("major", 1), self.options.get("flags", 0)
        if self.versioned:
            tensor = dlpack._Versioned(major, 1, None, None, flags, tensor)
        self.keep += [tensor, shape, strides]
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new_capsule(ctypes.addressof(tensor), name, None)

    def numbers(self):
        whole = self.api.memory.read(self.address + self.offset, self.data)
        return whole


@pytest.mark.parametrize("versioned", [True, False])
def test_arrays_with_dlpack_alone(gpu, arm, versioned):
    given = states(arm, 5)
    arrays = [Tensor(gpu, x, versioned=versioned, offset=16 * k) for k, x in enumerate(given)]
    out = Tensor(gpu, np.zeros((5, arm.nv)), versioned=versioned)
    assert arm.inverse_dynamics(*arrays, out=out) is out
    same_bits(out.numbers(), arm.inverse_dynamics(*given))
    assert [x.streams for x in (*arrays, out)] == [[1]] * 4  # the default stream, and each once
    assert gpu.launched == [(0, 1, "inverse_dynamics", 5)]


def test_strides_of_dlpack(gpu, arm):
    q, v, a = states(arm, 5)
    turned = Tensor(gpu, np.stack([v, v], 1), strides=(4, 1, 1))
    turned.data = v  # of which every second row is read
    turned.strides = (4, 1)
    out = Tensor(gpu, np.zeros((5, 2)), strides=(2, 1))
    arm.inverse_dynamics(Tensor(gpu, q), turned, Tensor(gpu, a), out=out)
    same_bits(out.numbers(), arm.inverse_dynamics(q, v, a))


def test_other_packages_wait_for_the_callers_stream(gpu, arm):
    """One array of a package with a current stream is enough; DLPack's make that stream wait."""
    q, v, a = states(arm, 3)
    other = Tensor(gpu, v)
    found = arm.inverse_dynamics(
        other_q := Tensor(gpu, q), other, gpu.Array(a), out=(out := gpu.Array(a))
    )
    assert found is out
    same_bits(found.get(), arm.inverse_dynamics(q, v, a))
    assert other.streams == other_q.streams == [STREAM]
    assert gpu.launched[0][1] == STREAM
    assert not gpu.order


class Numba:
    """An array with the CUDA array interface alone, which names the stream it is made on."""

    __module__ = "numba.cuda"

    def __init__(self, array, stream):
        self.array, self.stream = array, stream

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, "stream": self.stream}


def test_streams_that_arrays_name_are_waited_for(gpu, arm):
    q, v, a = states(arm, 3)
    on = gpu.Array
    found = arm.inverse_dynamics(Numba(on(q), 33), Numba(on(v), None), on(a), out=on(a))
    same_bits(found.get(), arm.inverse_dynamics(q, v, a))
    assert gpu.launched[0][1] == STREAM
    assert gpu.order == [(STREAM, 33), (33, STREAM)]  # before and after
    out = Numba(on(a), 33)
    arm.inverse_dynamics(Numba(on(q), 33), Numba(on(v), None), Numba(on(a), 44), out=out)
    same_bits(out.array.get(), arm.inverse_dynamics(q, v, a))
    assert gpu.launched[1][1] == 33
    assert gpu.order[2:] == [(33, 44), (44, 33)]


def test_several_devices(gpu):
    """Where the arrays live, whatever the current device is."""
    arm = fl.load("double_pendulum")  # whose kernels are on no device yet
    given = states(arm, 5)
    found = arm.step(*(gpu.Array(x, device=1) for x in given), 0.01)
    for x, y in zip(found, arm.step(*given, 0.01), strict=True):
        same_bits(x.get(), y)
        assert gpu.device[x.address] == 1
    same_bits(arm.inverse_dynamics(*map(gpu.Array, given)).get(), arm.inverse_dynamics(*given))
    assert [x[:2] for x in gpu.launched] == [(1, STREAM + 1), (0, STREAM)]
    assert gpu.loaded == [1, 0]
    assert gpu.current == 0


def of_jax(value):
    value.__class__ = type("ArrayImpl", (type(value),), {"__module__": "jaxlib._jax"})
    return value


def test_jax_arrays(gpu, arm):
    """They cannot be written to: results are those of jit, or another package's arrays."""
    given = states(arm, 3)
    arrays = [of_jax(Tensor(gpu, x)) for x in given]
    with pytest.raises(TypeError, match=r"q is a JAX array on a GPU.*featherlane\.interop\.jax"):
        arm.inverse_dynamics(*arrays)
    with pytest.raises(TypeError, match="out for tau is a JAX array on a GPU, and JAX arrays do"):
        arm.inverse_dynamics(*arrays, out=of_jax(Tensor(gpu, given[2])))
    out = arm.inverse_dynamics(*arrays, out=gpu.Array(given[2]))
    same_bits(out.get(), arm.inverse_dynamics(*given))
    assert all(x.streams[-1] == STREAM for x in arrays)


def test_wrenches_and_parameters(gpu, arm):
    q, v, a = states(arm, 3)
    rng = np.random.default_rng(1)
    f, mass = rng.normal(size=(3, arm.nbodies, 6)), rng.uniform(1, 2, size=(3, arm.nbodies))
    on = [*map(gpu.Array, (q, v, a))]
    found = arm.inverse_dynamics(*on, f_ext=gpu.Array(f), params={"mass": gpu.Array(mass)})
    same_bits(found.get(), arm.inverse_dynamics(q, v, a, f_ext=f, params={"mass": mass}))
    for options, message in (
        ({"f_ext": f}, "q is on a GPU but f_ext is a ndarray on the CPU"),
        ({"params": {"mass": mass}}, "q is on a GPU but mass is a ndarray on the CPU"),
        ({"f_ext": gpu.Array(f, device=1)}, "q is on GPU 0 but f_ext is on GPU 1"),
        ({"params": {"mass": gpu.Array(mass, device=1)}}, "q is on GPU 0 but mass is on GPU 1"),
        ({"out": np.zeros((3, 2))}, "q is on a GPU but out for tau is a ndarray on the CPU"),
        ({"out": gpu.Array(a, device=1)}, "q is on GPU 0 but out for tau is on GPU 1"),
    ):
        with pytest.raises(TypeError, match=message):
            arm.inverse_dynamics(*on, **options)
    for options, message in (
        ({"f_ext": gpu.Array(f)}, "f_ext is on a GPU but q is a ndarray on the CPU"),
        ({"params": {"mass": gpu.Array(mass)}}, "mass is on a GPU but q is a ndarray on the CPU"),
        ({"out": gpu.Array(a)}, "out is on a GPU but q is a ndarray on the CPU"),
    ):
        with pytest.raises(TypeError, match=message):
            arm.inverse_dynamics(q, v, a, **options)
    with pytest.raises(TypeError, match="q is on a GPU but v is a list on the CPU"):
        arm.inverse_dynamics(on[0], [1.0, 2.0], on[2])
    with pytest.raises(TypeError, match="q is on a GPU but v is a NoneType on the CPU"):
        arm.inverse_dynamics(on[0], None, on[2])


def test_capsules_that_are_refused(gpu, arm):
    q, v, a = (Tensor(gpu, x) for x in states(arm, 3))
    out = Tensor(gpu, np.zeros((3, 2)))
    for options, error, message in (
        (
            {"code": 4, "bits": 16},
            TypeError,
            "v is a tinygrad.Tensor that cannot be read: .*code 4",
        ),
        ({"bits": 16}, TypeError, "q is float64 but v is float16: wanted one dtype"),
        ({"major": 2}, TypeError, r"cannot be read: its DLPack version is 2\.1, wanted 1"),
    ):
        with pytest.raises(error, match=message):
            arm.inverse_dynamics(q, Tensor(gpu, v.data, **options), a, out=out)
    with pytest.raises(ValueError, match="out for tau is read-only"):
        arm.inverse_dynamics(q, v, a, out=Tensor(gpu, np.zeros((3, 2)), flags=1))
    with pytest.raises(TypeError, match="pass arrays for the results as out="):
        arm.inverse_dynamics(q, v, a)
    read_only = gpu.Array(np.zeros((3, 2)))
    read_only.read_only = True
    with pytest.raises(ValueError, match="out for tau is read-only"):
        arm.inverse_dynamics(q, v, a, out=read_only)
    managed = Tensor(gpu, v.data, kind=13)
    arm.inverse_dynamics(q, managed, a, out=out)
    same_bits(out.numbers(), arm.inverse_dynamics(q.data, v.data, a.data))


def test_no_states_need_no_device(gpu, arm):
    empty = [Tensor(gpu, np.zeros((0, 2))) for _ in range(4)]
    arm.inverse_dynamics(*empty[:3], out=empty[3])
    assert not gpu.launched


def test_products_with_jacobians(gpu, arm):
    """What derivatives in frameworks call: kernels of their own, to any order."""
    q, v, a, w = (*states(arm, 3), states(arm, 3, seed=1)[0])
    first = Operation(arm, Variant("forward_dynamics")).adjoints(("q", "v"))
    second = first.tangents(("q",))
    for op, given in ((first, (q, v, a, w)), (second, (q, v, a, w, q))):
        function = function_of(op)
        found, wanted = function(*map(gpu.Array, given)), function(*given)
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for x, y in pairs:
            same_bits(x.get(), y)
    assert [x[2] for x in gpu.launched] == [
        "forward_dynamics_adjoints",
        "forward_dynamics_adjoints_tangents",
    ]
