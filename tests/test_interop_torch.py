"""Functions of models on tensors of PyTorch, with derivatives of any order."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import finished, python
from test_call_values import python_calls

import featherlane as fl

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
from featherlane.functions.actuation import Actuation, Actuator, Gear  # noqa: E402
from featherlane.functions.table import TABLE, Variant  # noqa: E402
from featherlane.interop import texts  # noqa: E402
from featherlane.interop import torch as interop  # noqa: E402


@pytest.fixture(scope="module")
def model():
    return fl.random_tree(2, 1, ("revolute", "spherical"), seed=2)


@pytest.fixture(scope="module")
def wrapped(model):
    return interop.wrap(model)


def states(model, *lead, dtype=torch.float64, grad=False):
    rng = np.random.default_rng(0)
    arrays = [model.random_configuration(lead, seed=0), *rng.normal(size=(2, *lead, model.nv))]
    return [torch.tensor(x, dtype=dtype, requires_grad=grad) for x in arrays]


def test_every_function_is_there(wrapped):
    assert {*TABLE, "rollout"} <= vars(wrapped).keys()
    with pytest.raises(AttributeError, match="a wrapped model has no attribute 'dynamics'"):
        wrapped.dynamics  # noqa: B018


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_results_are_those_of_arrays(model, wrapped, dtype):
    q, v, a = states(model, 5, dtype=dtype)
    arrays = [x.numpy() for x in (q, v, a)]
    tau = wrapped.inverse_dynamics(q, v[0], a)
    assert tau.dtype == dtype
    assert np.array_equal(tau, model.inverse_dynamics(arrays[0], arrays[1][0], arrays[2]))
    made = wrapped.forward_dynamics_derivatives(q, v, tau=a)
    assert type(made) is fl.ForwardDynamicsDerivatives
    assert np.array_equal(made.da_dq, model.forward_dynamics_derivatives(*arrays).da_dq)
    frame = model.frame_names[-1]
    assert np.array_equal(wrapped.jacobian(q, frame), model.jacobian(arrays[0], frame))
    assert np.array_equal(wrapped.kinetic_energy(q, v), model.kinetic_energy(*arrays[:2]))


class Gravity(torch.nn.Module):
    """A user's module that holds a wrapped model and one of its functions."""

    def __init__(self, wrapped):
        super().__init__()
        self.wrapped, self.energy = wrapped, wrapped.potential_energy

    def forward(self, q):
        return self.wrapped.gravity_torque(q), self.energy(q)


def test_modules_that_hold_one_are_saved_and_copied(model, wrapped, tmp_path):
    """Another process has not wrapped the model before."""
    file, q = tmp_path / "module.pt", torch.from_numpy(model.random_configuration(3, seed=0))
    torch.save(Gravity(wrapped), file)
    code = """
    import sys, torch
    sys.path.insert(0, sys.argv[2])
    module = torch.load(sys.argv[1], weights_only=False)
    q = torch.tensor(eval(sys.argv[3]), dtype=torch.float64, requires_grad=True)
    torque, energy = module(q)
    energy.sum().backward()
    assert q.grad.abs().sum() > 0
    print(torque.tolist())
    """
    found = eval(finished(python(code, str(file), str(Path(__file__).parent), repr(q.tolist()))))
    assert found == model.gravity_torque(q.numpy()).tolist()
    copied = copy.deepcopy(Gravity(wrapped))
    assert torch.equal(copied(q)[0], torch.tensor(found, dtype=torch.float64))


def test_gradients(model, wrapped):
    q, v, a = states(model, 2, grad=True)
    longer = torch.ones_like(q, requires_grad=False)
    longer[:, :4] *= 1.4  # quaternions of any length
    scaled = (q * longer).detach().requires_grad_()
    assert torch.autograd.gradcheck(wrapped.inverse_dynamics, (scaled, v, a), check_forward_ad=True)
    assert torch.autograd.gradcheck(wrapped.forward_dynamics, (scaled, v[0], a))
    assert torch.autograd.gradgradcheck(wrapped.inverse_dynamics, (q, v[0], a))
    frame = model.frame_names[-1]
    assert torch.autograd.gradcheck(lambda q: wrapped.frame_placement(q, frame), (q,))


def controls(model, *lead, steps=4):
    tau = np.random.default_rng(1).normal(size=(*lead, steps, model.nv))
    return torch.tensor(tau, requires_grad=True)


def test_rollouts(model, wrapped):
    q, v, _ = states(model, 3, grad=True)
    tau, dt = controls(model, 3), torch.tensor([0.01, 0.02, 0.03], dtype=torch.float64)
    for given in ({}, {"integrator": "rk4", "every": 2}):
        kept = wrapped.rollout(q, v, tau, dt.requires_grad_(), **given)
        assert type(kept).__name__ == "Trajectory"
        arrays = [x.detach().numpy() for x in (q, v, tau, dt)]
        for x, y in zip(kept, model.rollout(*arrays, **given), strict=True):
            assert np.array_equal(x.detach(), y)
    run = lambda *x: wrapped.rollout(*x, every=2)
    assert torch.autograd.gradcheck(run, (q, v, tau, dt), check_forward_ad=True)
    mapped = torch.func.vmap(lambda v: wrapped.rollout(q[0], v, tau[0], 0.01).v)(v)
    assert torch.equal(mapped, wrapped.rollout(q[0], v, tau[0], 0.01).v)
    with pytest.raises(NotImplementedError, match=r"rollout has first derivatives only: .*step of"):
        torch.autograd.gradgradcheck(wrapped.rollout, (q, v, tau, dt))


def test_rollouts_of_laws_that_remember(model, wrapped):
    q, v, _ = states(model, 3, grad=True)

    def law(q, v, t, gain, goal, sum):
        return gain * (goal - v) + sum * t, {"sum": 0.9 * sum - v}

    shapes = {"references": {"goal": model.nv}, "memory": {"sum": model.nv}}
    policy = model.policy(law, {"gain": ()}, **shapes, hold=2)
    gain = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    goal, start = controls(model, 3), controls(model, 3)[:, 0].detach().requires_grad_()

    def run(q, v, gain, goal, start):
        given = {"parameters": {"gain": gain}, "references": {"goal": goal}}
        return wrapped.rollout_with(policy, q, v, 0.01, 4, **given, memory={"sum": start})

    moved = run(q, v, gain, goal, start)
    plain = [x.detach().numpy() for x in (q, v, gain, goal, start)]
    given = {"parameters": {"gain": plain[2]}, "references": {"goal": plain[3]}}
    wanted = model.rollout_with(policy, *plain[:2], 0.01, 4, **given, memory={"sum": plain[4]})
    assert moved._fields == wanted._fields
    for x, y in zip(moved, wanted, strict=True):
        assert np.array_equal(x.detach(), y)
    assert torch.autograd.gradcheck(run, (q, v, gain, goal, start), check_forward_ad=True)
    with pytest.raises(TypeError, match=r"references has none: wanted goal"):
        wrapped.rollout_with(policy, q, v, 0.01, 4, parameters={"gain": gain})


def test_actuators_in_rollouts(model, wrapped):
    q, v, _ = states(model)
    hinges = [model.joints[i].name for i in model.independent if model.types[i].nv == 1]
    actuation = model.actuation(hinges, 3.0)
    u = torch.ones(4, len(hinges), dtype=torch.float64)
    made = wrapped.rollout(q, v, u, 0.01, actuation=actuation)
    wanted = model.rollout(q.numpy(), v.numpy(), u.numpy(), 0.01, actuation=actuation)
    assert np.array_equal(made.q, wanted.q)


def test_texts_name_all_options(model):
    variants = [
        Variant("rollout", "world", ("mass",), steps=12, every=3, integrator="rk4"),
        Variant("step", actuation=Actuation((Actuator((Gear(0, -0.1),)),))),
        Variant("linearize_step", "body", by_wrenches=True),
        Variant("jacobian", frame=model.frame_names[-1], reference="world"),
    ]
    for variant in variants:
        text = texts.text_of(texts.text_of_model(model), variant)
        assert texts.operation(text).variant == variant


def test_wrenches_and_parameters_have_gradients(model, wrapped):
    q, v, a = states(model, 2)
    f = torch.ones(model.nbodies, 6, dtype=torch.float64, requires_grad=True)
    mass = torch.tensor(model.parameters("mass")["mass"], requires_grad=True)

    def run(f, mass):
        return wrapped.inverse_dynamics(q, v, a, f, f_ext_frame="world", params={"mass": mass})

    assert torch.autograd.gradcheck(run, (f, mass))


def test_the_operator_passes_torchs_own_checks(model, wrapped):
    text = texts.text_of(texts.text_of_model(model), Variant("inverse_dynamics"))
    torch.library.opcheck(interop.evaluate, (text, states(model, 2, grad=True)))
    text = texts.text_of(texts.text_of_model(model), Variant("rollout", steps=4))
    q, v, _ = states(model, 2, grad=True)
    dt = torch.tensor(0.01, dtype=torch.float64)
    torch.library.opcheck(interop.evaluate, (text, [q, v, controls(model, 2), dt]))


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiled_programs(model, wrapped, backend):
    q, v, a = states(model, 3, grad=True)
    frame = model.frame_names[-1]

    def loss(q, v, a):
        J = wrapped.jacobian(q, frame, reference="world")
        moved = wrapped.rollout(q, v, torch.stack([a, v], 1), 0.01)
        a = wrapped.forward_dynamics(q, torch.sin(v), a)
        return (a**2).sum() + J.sum() + (moved.q**3).sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    made = torch.autograd.grad(compiled(q, v, a), (q, v, a))
    for x, y in zip(made, torch.autograd.grad(loss(q, v, a), (q, v, a)), strict=True):
        assert torch.equal(x, y)


def test_transforms(model, wrapped):
    q, v, a = states(model, 3)
    mapped = torch.func.vmap(wrapped.inverse_dynamics, (0, None, 1))(q, v[0], a.T)
    assert torch.equal(mapped, wrapped.inverse_dynamics(q, v[0], a))
    twice = torch.func.vmap(
        torch.func.vmap(wrapped.inverse_dynamics, (0, None, None)), (None, 0, 0)
    )
    assert torch.equal(twice(q, v, a), wrapped.inverse_dynamics(q, v[:, None], a[:, None]))
    d = model.forward_dynamics_derivatives(q.numpy(), v.numpy(), a.numpy())
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        by_tau = torch.func.vmap(jacobian(wrapped.forward_dynamics, 2))(q, v, a)
        assert np.allclose(by_tau, d.da_dtau)
    assert torch.func.hessian(lambda v: wrapped.kinetic_energy(q[0], v))(v[0]).numpy() == (
        pytest.approx(model.mass_matrix(q[0].numpy()))
    )


def test_what_is_refused(model, wrapped):
    q, v, a = states(model)
    with pytest.raises(TypeError, match=r"dtypes torch.float64, torch.float32.*for all"):
        wrapped.inverse_dynamics(q, v.float(), a)
    with pytest.raises(ValueError, match="v has shape"):
        wrapped.inverse_dynamics(q, q, a)
    with pytest.raises(ValueError, match="reference is 'there'"):
        wrapped.jacobian(q, model.frame_names[-1], "there")
    with pytest.raises(TypeError, match="model is 'iiwa14': wanted a Model"):
        interop.wrap("iiwa14")
    with pytest.raises(ValueError, match=r"tau has shape \(4,\): wanted \(..., T, n\) for T steps"):
        wrapped.rollout(q, v, a, 0.01)
    with pytest.raises(ValueError, match="every is 3: wanted a whole number that divides 4 steps"):
        wrapped.rollout(q, v, controls(model), 0.01, every=3)
    with pytest.raises(TypeError, match=r"requires a gradient: use featherlane.interop.torch.wrap"):
        model.inverse_dynamics(q.requires_grad_(), v, a)


def test_models_take_tensors_without_gradients(model):
    q, v, a = states(model, 3, grad=True)
    with torch.no_grad():
        tau = model.inverse_dynamics(q, v, a)
    assert type(tau) is torch.Tensor
    wanted = model.inverse_dynamics(*[x.detach().numpy() for x in (q, v, a)])
    assert np.array_equal(tau, wanted)


def test_without_torch_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "featherlane.interop.torch")
    with pytest.raises(ImportError, match=r"needs torch: pip install 'featherlane\[torch\]'"):
        import featherlane.interop.torch  # noqa: F401


def test_an_eager_call_passes_no_dispatcher(model, wrapped, monkeypatch):
    """Neither the operator nor a transform sees it, with gradients or without; few functions of
    Python run.
    """
    q, v, tau = states(model)
    frame, dt = model.frame_names[-1], torch.tensor(0.1, dtype=torch.float64)
    again = states(model, grad=True)
    monkeypatch.setattr(interop, "evaluate", None)
    monkeypatch.setattr(interop, "_Evaluate", None)
    step = wrapped.step(q, v, tau, dt)
    assert type(step).__name__ == "Step"
    assert np.array_equal(step.q, model.step(q.numpy(), v.numpy(), tau.numpy(), 0.1).q)
    assert np.array_equal(wrapped.step(*again, 0.1).v.detach(), step.v)
    for call, most in (
        (lambda: wrapped.step(q, v, tau, dt), 60),
        (lambda: wrapped.step(q, v, tau, 0.1, integrator="euler"), 60),
        (lambda: wrapped.jacobian(q, frame, reference="world"), 50),
        (lambda: wrapped.step(*again, dt), 100),
    ):
        call()
        assert python_calls(call)[1] < most


def test_options_of_equal_calls_are_told_apart(model, wrapped):
    """Variants are kept by texts: neither frames, references, integrators nor arrays mix."""
    q, v, tau = states(model)
    for _ in range(2):
        for frame in model.frame_names[-2:]:
            for reference in ("body", "world"):
                wanted = model.jacobian(q.numpy(), frame, reference)
                for J in (
                    wrapped.jacobian(q, frame, reference),
                    wrapped.jacobian(q, frame, reference=reference),
                    wrapped.jacobian(q, reference=reference, frame=frame),
                    wrapped.jacobian(q=q, reference=reference, frame=frame),
                ):
                    assert np.array_equal(J, wanted)
        f_ext = torch.ones(model.nbodies, 6, dtype=torch.float64)
        arrays = [x.numpy() for x in (q, v, tau)]
        for more in ((), (f_ext,), (None,)):
            given = [x if x is None else x.numpy() for x in more]
            a = wrapped.forward_dynamics(q, v, tau, *more)
            assert np.array_equal(a, model.forward_dynamics(*arrays, *given))
        for integrator in ("euler", "rk4"):
            after = wrapped.step(q, v, tau, 0.1, integrator=integrator)
            assert np.array_equal(after.q, model.step(*arrays, 0.1, integrator=integrator).q)
    for wrong in ((), ("nowhere",), ("world", "body")):
        with pytest.raises(ValueError, match="frame"):
            wrapped.jacobian(q, *wrong)


def test_whatever_else_sees_a_call_is_served(model, wrapped):
    """Dual numbers, modes that trace, and tensors of transforms that ended."""
    q, v, _ = states(model)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(v, torch.ones_like(v))
        rate = torch.autograd.forward_ad.unpack_dual(wrapped.kinetic_energy(q, dual)).tangent
    M = torch.from_numpy(model.mass_matrix(q.numpy()))
    assert torch.allclose(rate, (M @ v).sum())
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert type(wrapped.kinetic_energy(q, v)) is not torch.Tensor
    kept = []
    torch.func.grad(lambda v: kept.append(v) or wrapped.kinetic_energy(q, v))(v)
    assert torch.allclose(wrapped.kinetic_energy(q, kept[0]), wrapped.kinetic_energy(q, v))
