"""Plans on GPUs, run by the emulator: rollouts and long steps give the bits of the CPU."""

import gpu_emulator
import numpy as np
import pytest
import textbook
from repetition import repeated
from test_backend import dtypes, same_bits

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends.cuda import files, plans, stages
from featherlane.functions import sequences
from featherlane.functions.differentiated import function_of
from featherlane.functions.gpu import kernels_of, source_of
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant
from featherlane.functions.variants import with_defaults

BATCH = 35  # a whole warp, and three states of another


def compare(model, variant, dtype):
    """Emulated kernels against the CPU's; returns the kernels."""
    variant, rng = with_defaults(variant), np.random.default_rng(5)
    kernels = kernels_of(source_of(model, variant), "f", np.dtype(dtype))
    inputs = {x: 0.5 * rng.normal(size=(BATCH, *s)) for x, s in kernels.inputs.items()}
    if "q" in inputs:
        inputs["q"] = model.random_configuration((BATCH, *inputs["q"].shape[1:-1]))
    inputs = {x: y.astype(dtype) for x, y in (inputs | {"dt": np.full(BATCH, 0.01)}).items()}
    found = gpu_emulator.run(kernels, inputs, dtype)
    results = model._function(variant)(*(inputs[x] for x in kernels.inputs))
    for x, y in zip(found.values(), results, strict=True):
        same_bits(x, y)
    return kernels


@pytest.fixture(scope="module")
def small():
    return textbook.tree(("revolute", "spherical", "prismatic"), seed=1, physics=True)


@pytest.mark.parametrize("integrator", repeated(list(INTEGRATORS), 2))
@dtypes
def test_rollouts(small, integrator, dtype):
    compare(small, Variant("rollout", integrator=integrator, steps=3), dtype)


def test_only_some_states_are_kept(small):
    compare(small, Variant("rollout", integrator="semi_implicit", steps=6, every=3), np.float64)


def test_wrenches_of_each_step(small):
    compare(small, Variant("rollout", "world", integrator="semi_implicit", steps=2), np.float64)


def test_feedback_laws(small):
    def law(q, v, t, K):
        return -K * v

    policy = small.policy(law, {"K": small.nv})
    variant = Variant("rollout_with", integrator="semi_implicit", steps=3, policy=policy)
    compare(small, variant, np.float64)


def test_laws_that_remember_and_hold(small):
    """Branches at the steps of an evaluation, forwards and backwards."""

    def law(q, v, t, goal, sum):
        return sum + goal - v * t, {"sum": sum - v}

    sizes = {"references": {"goal": small.nv}, "memory": {"sum": small.nv}}
    policy = small.policy(law, **sizes, hold=3)
    rollout = Variant("rollout_with", integrator="semi_implicit", steps=8, every=4, policy=policy)
    compare(small, rollout, np.float64)
    compare_derivative(small, Operation(small, rollout).adjoints(("v", "goal", "sum", "dt")))


@dtypes
def test_gradients_of_rollouts(small, dtype):
    compare(small, Variant("rollout_gradient", integrator="semi_implicit", steps=3), dtype)


@pytest.mark.parametrize("integrator", repeated(["semi_implicit", "rk4", "euler", "midpoint"]))
@dtypes
def test_sensitivities_as_work_on_matrices(small, integrator, dtype, monkeypatch):
    """As for large robots, in several kernels."""
    monkeypatch.setattr(sequences, "FLAT", 0)
    monkeypatch.setattr(sequences, "IN_TILES", 0)
    monkeypatch.setattr(plans, "LONGEST_TEXT", 500)
    cut = compare(small, Variant("linearize_step", integrator=integrator), dtype)
    assert len(cut.launches) > 2


def test_sensitivities_in_one_kernel(monkeypatch):
    monkeypatch.setattr(sequences, "FLAT", 0)
    monkeypatch.setattr(sequences, "IN_TILES", 0)
    model = fl.load("double_pendulum")
    whole = compare(model, Variant("linearize_step", integrator="rk4"), np.float32)
    assert len(whole.launches) == 1


def test_steps_of_pieces(monkeypatch):
    monkeypatch.setattr(sequences, "FLAT", 0)
    model = fl.load("double_pendulum")
    kernels = compare(model, Variant("step", integrator="rk4"), np.float32)
    assert len(kernels.launches) == 1
    compare(model, Variant("rollout", integrator="rk4", steps=2), np.float32)


@pytest.fixture
def apart(monkeypatch):
    """Iterations of loops over time are launches, as those of humanoids on the ground."""
    monkeypatch.setattr(plans, "LONGEST_LOOP", 0)


def test_iterations_of_long_loops_are_launches(small, apart):
    kernels = compare(small, Variant("rollout", integrator="semi_implicit", steps=4), np.float32)
    iterations = [x.arguments for x in kernels.launches if x.kernel == "f_1"]
    assert iterations == [(k,) for k in range(4)]
    names = files.launches(kernels, np.dtype(np.float32), files.names_of("f", "ptx", kernels))
    assert names["parameters"][-1] == "iteration of its loop"


def test_bodies_of_long_loops_are_several_kernels(small, apart, monkeypatch):
    """A loop within a loop stays; a gradient has one loop after another."""
    monkeypatch.setattr(plans, "LONGEST_TEXT", 500)
    kept = Variant("rollout", "world", integrator="semi_implicit", steps=6, every=3)
    compare(small, kept, np.float32)
    gradient = Variant("rollout_gradient", integrator="semi_implicit", steps=3)
    kernels = compare(small, gradient, np.float64)
    assert len(kernels.launches) > len(kernels.texts)


def test_long_loops_of_soft_contacts(apart, monkeypatch):
    """A loop of Newton's steps lies within the loop over time."""
    monkeypatch.setattr(stages, "LONGEST", 800)
    ball = fl.load('<mujoco><worldbody><body><freejoint/><geom size=".1" mass="2"/></body>'
                   "</worldbody></mujoco>")  # fmt: skip
    rollout = ball.function("rollout", ground=fl.Ground(), law=fl.SoftContacts(), steps=3)
    kernels = compare_function(ball, rollout)
    assert any("bra $L" in text for text in kernels.texts)
    assert len(kernels.launches) > len(kernels.texts)


def test_functions_without_their_barriers_are_found_out(small):
    variant = with_defaults(Variant("rollout", integrator="semi_implicit", steps=2))
    kernels = kernels_of(source_of(small, variant), "f", np.dtype(np.float32))
    inputs = {x: np.full((BATCH, *s), 0.1) for x, s in kernels.inputs.items()}
    texts = [kernels.texts[0].replace("bar.warp.sync 0xffffffff;\n", "")]
    with pytest.raises(gpu_emulator.EmulationError, match="without a barrier"):
        gpu_emulator.run(kernels._replace(texts=texts), inputs, np.float32)


def compare_derivative(model, op):
    """The emulated kernels of a derivative against the CPU's."""
    compare_function(model, function_of(op))


def compare_function(model, function):
    """The emulated kernels of a function against the CPU's; returns the kernels."""
    kernels = function.gpu.kernels("lanes", "f", np.dtype(np.float64))
    rng = np.random.default_rng(7)
    inputs = {x: rng.normal(size=(BATCH, *s)) for x, s in kernels.inputs.items()}
    inputs |= {"q": model.random_configuration(BATCH), "dt": np.full(BATCH, 0.01)}
    found = gpu_emulator.run(kernels, inputs, np.float64)
    wanted = function(*(inputs[x] for x in function.inputs))
    for x, y in zip(found.values(), wanted, strict=True):
        same_bits(x, y)
    return kernels


@pytest.mark.parametrize("mode", ["tangents", "adjoints"])
def test_derivatives_of_rollouts_by_all_arrays(small, mode):
    """What frameworks call: plans with rows of temporaries, backwards through time."""
    rollout = Operation(small, Variant("rollout", integrator="euler", steps=4, every=2))
    compare_derivative(small, getattr(rollout, mode)(("q", "v", "tau")))
