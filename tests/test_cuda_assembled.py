"""All kernels that benchmarks/gpu.py runs on a GPU are text that ptxas takes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from assembler import needs_ptxas, refusals
from repetition import full, repeated

import featherlane as fl
from featherlane.functions.long.on_gpu import LongOnGPU
from featherlane.functions.table import Variant

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import gpu_links
import gpu_pack
import gpu_questions

pytestmark = needs_ptxas
QUICK = [gpu_pack.FORMS[k] for k in gpu_pack.FEW_FORMS] + [*gpu_pack.FEW]
SUITE = [*dict.fromkeys(gpu_pack.every((*gpu_pack.FORMS, *gpu_pack.SUITE)))]
FROM_INVERSE = "forward_dynamics_derivatives_from"  # of the partitions


def check(texts):
    for text in texts:
        assert not refusals(text)


def check_function(*told):
    """Of the robots, functions and mappings as the benchmark names them."""
    one = gpu_pack.One(*told, form="")
    check(gpu_pack.kernels(gpu_pack.model_of(one), one).texts)


def is_heavy(one):
    """Derivatives of humanoids in float64, of which the assembler takes long."""
    large = one.robot.startswith(("atlas", "g1"))
    return large and one.function in gpu_pack.DERIVATIVES and one.dtype == "float64"


def test_the_assembler_refuses_what_it_should():
    text = gpu_questions.straight_line(16)
    wrong = text.replace("mov.u32 %r1, %tid.x", "add.u32 %r1, %r0, %tid.x")
    assert "Special register argument not allowed" in refusals(wrong)[0]


@pytest.mark.parametrize("count", repeated([512, 4096]))
def test_straight_line_code(count):
    check([gpu_questions.straight_line(count)])


@pytest.mark.parametrize("one", [*gpu_pack.every(QUICK)], ids=str)
def test_functions_of_a_short_run(one):
    check_function(*one[:4])


@full
@pytest.mark.parametrize("one", [x for x in SUITE if not is_heavy(x)], ids=str)
def test_functions_of_the_whole_run(one):
    check_function(*one[:4])


def test_the_rest_of_a_partition():
    check_function("iiwa14", FROM_INVERSE, "float32", "lanes")


@pytest.mark.parametrize("mapping", repeated(["links:1", "links:32"]))
@pytest.mark.parametrize("count", repeated([16, 64]))
@pytest.mark.parametrize(("function", "methods"), gpu_links.METHODS.items())
def test_links_by_groups(function, methods, count, mapping):
    model, dtype = fl.chain(count, seed=1), np.dtype(np.float32)
    for method in methods:
        variant = Variant(function, method=method)
        made = LongOnGPU(f"test {function} {method} {count}", model, variant, mapping)
        check(made.function(function, dtype).kernels(mapping).texts)
