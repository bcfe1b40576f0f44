"""Kernels for GPUs in the cache on disk."""

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends import cache
from featherlane.backends.cuda.cached import cached_kernels
from featherlane.backends.cuda.stages import kernels
from featherlane.program.array import trace
from featherlane.program.lower import lower
from featherlane.program.program import Program


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATHERLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make():
    """What makes kernels, and how often it did."""
    graph = trace(lambda x, A: {"y": A @ x, "n": x @ x}, {"x": 3, "A": (3, 3)})

    def run():
        run.times += 1
        dtype = np.dtype(np.float32)
        return kernels(lower(Program(graph), "cuda", dtype), "product", dtype)

    run.times = 0
    return run


def test_a_warm_call_makes_nothing(folder, make):
    cold = cached_kernels("a product float32", make)
    warm = cached_kernels("a product float32", make)
    assert make.times == 1
    assert warm == cold
    assert type(warm.launches[0]) is type(cold.launches[0])
    assert [*warm.inputs.items()] == [("x", (3,)), ("A", (3, 3))]
    assert warm.outputs == {"y": (3,), "n": ()}
    cached_kernels("another product float32", make)
    assert make.times == 2


@pytest.mark.parametrize(
    "damage", [lambda code: b"", lambda code: code[:-1], lambda code: code[:-9] + b"x" + code[-8:]]
)
def test_damaged_entries_are_made_anew(folder, make, damage):
    cold = cached_kernels("a product", make)
    (entry,) = folder.glob("*.code")
    entry.write_bytes(damage(entry.read_bytes()))
    assert cached_kernels("a product", make) == cold
    assert make.times == 2
    assert cached_kernels("a product", make) == cold
    assert make.times == 2


def test_another_package_has_other_entries(folder, make, monkeypatch):
    cached_kernels("a product", make)
    facts = cache.facts()
    monkeypatch.setattr(cache, "facts", lambda: {**facts, "package": "another"})
    cached_kernels("a product", make)
    assert make.times == 2
    monkeypatch.setattr(cache, "facts", lambda: facts)
    cached_kernels("a product", make)
    assert make.times == 2


def test_without_a_cache_they_are_made_each_time(monkeypatch, make):
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    assert cached_kernels("a product", make) == cached_kernels("a product", make)
    assert make.times == 2


def test_a_function_is_traced_once_for_all_processes(folder, monkeypatch):
    """Mappings and dtypes have entries of their own, and warm ones need no program."""
    arm = fl.load("double_pendulum")
    gpu = arm.function("inverse_dynamics").gpu
    cold = gpu.function("f", np.dtype(np.float32)).kernels("lanes")
    other = gpu.function("f", np.dtype(np.float64)).kernels("team:2")
    monkeypatch.setattr(gpu, "source", None)
    assert gpu.function("f", np.dtype(np.float32)).kernels("lanes") == cold
    assert gpu.function("f", np.dtype(np.float64)).kernels("team:2") == other
    assert len({*folder.glob("*.code")}) == 2
