"""Calls with tensors on a GPU that come again with the same layouts: they skip checks, and nothing
else.
"""

import sys

import numpy as np
import pytest
from emulated_gpu import states, with_tensors
from test_backend import same_bits

import featherlane as fl
from featherlane.functions import on_device, tensor_calls


@pytest.fixture
def gpu(monkeypatch):
    return with_tensors(monkeypatch)


@pytest.fixture
def arm():
    return fl.load("double_pendulum")


def test_layouts_are_checked_once(gpu, arm, monkeypatch):
    checked, check = [], on_device._check_results

    def counted(*given):
        checked.append(given)
        check(*given)

    monkeypatch.setattr(on_device, "_check_results", counted)
    for seed, count in enumerate((5, 5, 7, 5)):
        given = states(arm, count, seed=seed)
        found = arm.forward_dynamics_derivatives(*map(gpu.Tensor, given))
        for x, y in zip(found, arm.forward_dynamics_derivatives(*given), strict=True):
            same_bits(x.get(), y)
    assert len(checked) == 2  # of 5 states, and of 7
    assert {x[:2] for x in gpu.launched} == {(0, 7)}


def test_results_go_to_the_callers_tensors_that_may_not_share_memory(gpu, arm):
    for seed in range(3):
        given = states(arm, 5, seed=seed)
        tensors, out = [*map(gpu.Tensor, given)], gpu.Tensor(np.zeros((5, arm.nv)))
        assert arm.inverse_dynamics(*tensors, out=out) is out
        same_bits(out.get(), arm.inverse_dynamics(*given))
        with pytest.raises(ValueError, match="out for tau shares memory with v"):
            arm.inverse_dynamics(*tensors, out=tensors[1])


def test_one_state_for_all_and_rows_apart(gpu, arm):
    for seed in range(2):
        q, v, a = states(arm, 6, seed=seed)
        wide = gpu.Tensor(np.concatenate([v, v], 1))
        wide.shape, wide.strides = (6, arm.nv), (2 * arm.nv * 8, 8)
        found = arm.inverse_dynamics(gpu.Tensor(q[:1]), wide, gpu.Tensor(a))
        same_bits(found.get(), arm.inverse_dynamics(q[:1], v, a))


def test_addresses_and_gradients_are_looked_at_in_each_call(gpu, arm):
    tensors = [*map(gpu.Tensor, states(arm, 5))]
    arm.inverse_dynamics(*tensors)
    tensors[2].address += 4
    gpu.device[tensors[2].address] = 0
    with pytest.raises(ValueError, match="a has numbers at addresses that are no multiples of 8"):
        arm.inverse_dynamics(*tensors)
    tensors[2].address -= 4
    tensors[1].requires_grad = True
    with pytest.raises(TypeError, match=r"v is a torch.Tensor that requires a gradient: use"):
        arm.inverse_dynamics(*tensors)
    with pytest.raises(TypeError, match="q is on a GPU but a is a ndarray on the CPU"):
        arm.inverse_dynamics(tensors[0], tensors[2], states(arm, 5)[2])


def test_few_layouts_are_remembered(gpu, arm, monkeypatch):
    monkeypatch.setattr(tensor_calls, "MOST", 2)
    for count in (1, 2, 3, 1):
        given = states(arm, count)
        same_bits(arm.inverse_dynamics(*map(gpu.Tensor, given)).get(), arm.inverse_dynamics(*given))
    assert len(arm.function("inverse_dynamics")._tensor_calls._plans) == 2


def test_single_numbers_become_tensors_once(gpu, arm, monkeypatch):
    made, full = [], sys.modules["torch"].full

    def counted(shape, number, **options):
        made.append(number)
        return full(shape, number, **options)

    monkeypatch.setattr(sys.modules["torch"], "full", counted)
    for seed, dt in enumerate((1e-3, 1e-3, np.float64(1e-3), 2e-3, 2e-3)):
        given = states(arm, 5, seed=seed)
        found = arm.step(*map(gpu.Tensor, given), dt)
        for x, y in zip(found, arm.step(*given, dt), strict=True):
            same_bits(x.get(), y)
    assert made == [1e-3, 2e-3]
    arm.step(*map(gpu.Tensor, given), 2e-3)
    gpu.capturing = True  # a graph keeps a tensor of its own
    arm.step(*map(gpu.Tensor, given), 2e-3)
    assert made == [1e-3, 2e-3, 2e-3]
