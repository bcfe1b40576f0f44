"""Graphs that repeat themselves, as loops in kernels for GPUs."""

import gpu_emulator
import numpy as np
import pytest
from ground_cases import arrays
from ground_robots import biped
from test_backend import same_bits

import featherlane as fl
from featherlane.backends.cuda import plans, rolled
from featherlane.functions.gpu import kernels_of, source_of
from featherlane.functions.variants import variant_of_graph
from featherlane.program.analysis.repetition import repetition
from featherlane.program.lower import lower
from featherlane.program.plan import Composite
from featherlane.program.program import Program

F32 = np.dtype(np.float32)
LAWS = {"rigid": fl.Coulomb(sweeps=15), "soft": fl.SoftContacts(cone="elliptic", steps=4)}


def iterated(times, more=0.0):
    """Sums and products of a vector that turns, whose squares all iterations share."""

    def turn(x, y):
        for _ in range(times):
            for k, count in enumerate([0, 1, 0, 0, 2, 1, 0, 2, 2, 0, 1, 1]):
                last = x[0] * y[k] + (y[k] * y[k] + 1.0) * x[1]
                for part in x[2 : 2 + count]:
                    last = last - y[0] / (part * part + 2.0)
                x = [*x[1:], np.sqrt(last * last + 1.0)]
        return [x[0] + more * x[1], *x[1:]]

    return fl.trace(lambda x, y: np.array(turn([*x], [*y])), {"x": 5, "y": 12})


def as_plan(graph, monkeypatch):
    monkeypatch.setattr(rolled, "longest", lambda dtype: 100)
    return rolled.rolled(lower(Program(graph), "cuda in order", F32), F32)


@pytest.mark.parametrize("times", [6, 7])
def test_iterations_are_a_loop(times, monkeypatch):
    graph = iterated(times, more=0.5)
    loop = repetition(lower(Program(graph), "cuda in order", F32).main)
    assert len(loop.nodes) >= times - 1
    plan = as_plan(graph, monkeypatch)
    assert isinstance(plan, Composite)
    assert sum(len(piece.main) for piece in plan.pieces) < 0.6 * len(graph)
    rows = {"x": np.random.default_rng(0).normal(size=(40, 5)).astype(F32)}
    rows["y"] = np.random.default_rng(1).normal(size=(40, 12)).astype(F32)
    kernels = plans.kernels(plan, "f", F32)
    (results,) = gpu_emulator.run(kernels, rows, F32).values()
    same_bits(results, fl.compile(graph)(*rows.values()))


def test_other_graphs_have_no_loop(monkeypatch):
    graph = fl.trace(lambda x: np.array([*np.cumprod(x), *np.cumsum(x * x)]), {"x": 200})
    assert isinstance(as_plan(graph, monkeypatch), Program)


@pytest.mark.parametrize("name", LAWS)
def test_rollouts_on_the_ground_have_the_bits_of_the_cpu(name, monkeypatch):
    monkeypatch.setattr(rolled, "longest", lambda dtype: 500)
    options = {"ground": fl.Ground(), "law": LAWS[name], "steps": 3}
    function = biped().function("rollout", **options)
    source = source_of(biped(), variant_of_graph(biped(), "rollout", **options))
    lines = lambda: len(kernels_of(source, "f", F32).text.split("\n"))
    kernels = function.gpu.kernels("lanes", "f", F32)
    inputs = arrays(kernels.inputs, 35, F32)
    expected = function(*inputs.values())
    assert expected.contact_force.any()
    for x, y in zip(gpu_emulator.run(kernels, inputs, F32).values(), expected, strict=True):
        same_bits(x, y)
    looped = lines()
    monkeypatch.setattr(rolled, "repetition", lambda graph: None)
    assert looped < 0.8 * lines()
