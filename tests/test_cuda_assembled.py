"""All kernels that benchmarks/gpu.py runs on a GPU are text that ptxas takes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from assembler import needs_ptxas, refusals
from repetition import full, repeated

import featherlane as fl
from featherlane.functions.gpu import MAPPINGS
from featherlane.functions.long.on_gpu import LongOnGPU
from featherlane.functions.table import Variant

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import gpu
import gpu_questions
from robots import chosen

pytestmark = needs_ptxas
NAMES = [*gpu.NAMES, "forward_dynamics_derivatives_from"]
SMALL = [x for x in gpu.ROBOTS if not x.startswith(("go2", "atlas", "g1"))]
LARGE = [x for x in gpu.ROBOTS if x.startswith(("atlas", "g1"))]


def check(texts):
    for text in texts:
        assert not refusals(text)


def texts_of(name, function, mapping, dtype):
    """The texts of a robot's function, of the benchmark's robots."""
    (robot,) = chosen([name])
    model = fl.load(str(robot.urdf), root=robot.root)
    return model.function(function).on_gpu(np.dtype(dtype)).kernels(mapping).texts


def test_the_assembler_refuses_what_it_should():
    text = gpu_questions.straight_line(16)
    wrong = text.replace("mov.u32 %r1, %tid.x", "add.u32 %r1, %r0, %tid.x")
    assert "Special register argument not allowed" in refusals(wrong)[0]


@pytest.mark.parametrize("count", repeated([512, 4096]))
def test_straight_line_code(count):
    check([gpu_questions.straight_line(count)])


@pytest.mark.parametrize("mapping", repeated(MAPPINGS, 2))
@pytest.mark.parametrize("dtype", repeated(["float32", "float64"]))
@pytest.mark.parametrize("function", repeated(NAMES, 3))
@pytest.mark.parametrize("robot", repeated(SMALL))
def test_functions_of_small_robots(robot, function, dtype, mapping):
    check(texts_of(robot, function, mapping, dtype))


@full
@pytest.mark.parametrize("mapping", ["lanes", "team:8"])
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics_derivatives"])
@pytest.mark.parametrize("robot", LARGE)
def test_functions_of_large_robots(robot, function, mapping):
    check(texts_of(robot, function, mapping, "float32"))


@pytest.mark.parametrize("dtype", repeated(["float64", "float32"]))
def test_rollouts(dtype):
    variant = Variant("rollout", integrator="rk4", steps=4)
    made = fl.load("iiwa14")._function(variant).on_gpu(np.dtype(dtype))
    check(made.kernels("lanes").texts)


@pytest.mark.parametrize("mapping", repeated(["links:1", "links:32"]))
@pytest.mark.parametrize("count", repeated([16, 64]))
@pytest.mark.parametrize(("function", "methods"), gpu.METHODS.items())
def test_links_by_groups(function, methods, count, mapping):
    model, dtype = fl.chain(count, seed=1), np.dtype(np.float32)
    for method in methods:
        variant = Variant(function, method=method)
        made = LongOnGPU(f"test {function} {method} {count}", model, variant, mapping)
        check(made.function(function, dtype).kernels(mapping).texts)
