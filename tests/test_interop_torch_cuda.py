"""Wrapped functions on CUDA tensors: tensors of the CPU that are taken for such, whose numbers go
to an emulated GPU and back with each kernel.
"""

import numpy as np
import pytest
from emulated_gpu import emulated

import featherlane as fl
from featherlane.functions import on_device

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
from featherlane.interop import torch as interop  # noqa: E402

STREAM = 11


@pytest.fixture
def gpu(monkeypatch):
    made, mirrored = emulated(monkeypatch), []

    def view(name, value, stream):
        assert value.is_contiguous()
        assert stream == STREAM
        address = made.place(value.detach().numpy())
        mirrored.append((address, value))
        strides = tuple(x * value.itemsize for x in value.stride())
        dtype = np.dtype(str(value.dtype).removeprefix("torch."))
        return on_device.DeviceView(
            name, address, tuple(value.shape), strides, dtype, 0, True, STREAM
        )

    launch = made.launch

    def launched(*arguments):
        launch(*arguments)
        for address, value in mirrored:
            like = value.detach().numpy()
            like[...] = made.memory.read(address, like)

    monkeypatch.setattr(made, "launch", launched)
    monkeypatch.setattr(on_device, "is_on_device", lambda x: isinstance(x, torch.Tensor))
    monkeypatch.setattr(on_device, "_view", view)
    monkeypatch.setattr(on_device, "_own_stream", lambda value: STREAM)
    monkeypatch.setattr(interop, "_is_on_gpu", lambda x: True)
    monkeypatch.setattr(interop, "_is_eager", lambda arrays: False)  # which is of CPUs only
    return made


@pytest.fixture(scope="module")
def model():
    return fl.load("double_pendulum")


def tensors(model, *lead, dtype=torch.float64):
    rng = np.random.default_rng(0)
    return [
        torch.tensor(rng.normal(size=(*lead, 2)), dtype=dtype, requires_grad=True) for _ in "qva"
    ]


def same(x, y):
    assert torch.equal(x, y)


def on_cpu(monkeypatch, run):
    with monkeypatch.context() as changed:
        changed.setattr(interop, "_is_on_gpu", lambda x: False)
        changed.setattr(on_device, "is_on_device", lambda x: False)
        return run()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_forward_and_backward_run_on_the_device(gpu, model, monkeypatch, dtype):
    wrapped, arrays = interop.wrap(model), tensors(model, 5, dtype=dtype)

    def run():
        a = wrapped.forward_dynamics(*arrays)
        d = wrapped.inverse_dynamics_derivatives(*arrays)
        loss = (a**2).sum() + d.dtau_dq.sum()  # whose gradient is one number for all, expanded
        return [a, d.dtau_dq, d.dtau_dv, *torch.autograd.grad(loss, arrays)]

    found = run()
    kernels = [x[2] for x in gpu.launched]
    assert kernels[:2] == ["forward_dynamics", "inverse_dynamics_derivatives"]
    assert {*kernels[2:]} == {"forward_dynamics_adjoints", "inverse_dynamics_derivatives_adjoints"}
    assert {x[:2] for x in gpu.launched} == {(0, STREAM)}
    for x, y in zip(found, on_cpu(monkeypatch, run), strict=True):
        same(x, y)


def test_broadcast_states_have_gradients_of_their_shape(gpu, model, monkeypatch):
    q, v, a = tensors(model, 3, 2)
    wrapped, given = interop.wrap(model), [q, v[:1], a[0, 0]]

    def run():
        tau = wrapped.inverse_dynamics(*given)
        return [tau, *torch.autograd.grad((tau**2).sum(), given)]

    for x, y in zip(run(), on_cpu(monkeypatch, run), strict=True):
        same(x, y)


def test_second_derivatives_directions_and_maps(gpu, model, monkeypatch):
    q, v, a = tensors(model, 2)
    wrapped = interop.wrap(model)

    def run():
        tau = wrapped.inverse_dynamics(q, v, a)
        (first,) = torch.autograd.grad((tau**2).sum(), v, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), v)
        plain = [x.detach() for x in (q, v, a)]
        _, moved = torch.func.jvp(wrapped.inverse_dynamics, tuple(plain), tuple(plain))
        mapped = torch.func.vmap(wrapped.inverse_dynamics, (0, None, 0))(
            plain[0], plain[1][0], plain[2]
        )
        return [first, second, moved, mapped]

    found, launched = run(), len(gpu.launched)
    assert launched >= 6
    for x, y in zip(found, on_cpu(monkeypatch, run), strict=True):
        same(x, y)
    assert len(gpu.launched) == launched


def test_tensors_of_the_cpu_go_over_and_back_too(monkeypatch, model):
    """Only if asked, and the results are tensors of the CPU."""
    made = emulated(monkeypatch)
    q, v, a = (x.detach() for x in tensors(model, 5))
    found = model.function("inverse_dynamics", device="cuda")(q, v, a)
    assert isinstance(found, torch.Tensor)
    assert len(made.launched) == 1
    same(found, model.inverse_dynamics(q, v, a))
    assert len(made.launched) == 1


def test_devices_of_tensors():
    on = lambda device: torch.zeros(2, device=device)
    with pytest.raises(TypeError, match="tensors are on the devices cpu, meta: wanted one for all"):
        interop._tensors([on("cpu"), on("meta")])
    made = interop._tensors([on("meta"), 0.5, [1.0, 2.0]])
    assert [x.device.type for x in made] == ["meta"] * 3  # numbers and lists go there
    wrong = type("Elsewhere", (), {"type": "mps", "__str__": lambda self: "mps:0"})()
    with pytest.raises(TypeError, match=r"on mps:0: wanted the CPU or CUDA, pass \.cpu\(\)"):
        interop._tensors([Placed(wrong)])


class Placed(torch.Tensor):
    """A tensor that says it is on some device."""

    @staticmethod
    def __new__(cls, device):
        made = torch.Tensor._make_subclass(cls, torch.zeros(2))
        made.place = device
        return made

    @property
    def device(self):
        return self.place
