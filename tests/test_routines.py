"""Programs with routines: the bits of the flat graph of their operations, and what is refused."""

import numpy as np
import pytest

import featherlane as fl
from featherlane import compiler
from featherlane.backends.reference import evaluate
from featherlane.errors import CompileError
from featherlane.functions import Variant
from featherlane.graph.routine import inline, record
from featherlane.trees import random_tree
from featherlane.walk import repeat


def recorded(function, inputs):
    return record(function, inputs, lambda r: compiler._following(r.enter, r.repeat))


def columns_of_a_matrix(A, s):
    """Each column scaled and turned into two numbers, one of them known at trace time."""
    columns = [[A[i][j] for i in range(3)] for j in range(4)]
    made = repeat(lambda shared, c: [c[0] * shared[0] - c[1] * c[2], 7.0], [s * s], columns)
    return {"out": made, "scale": s * s}


INPUTS = {"A": (3, 4), "s": ()}


def test_a_repeated_function_is_kept_once():
    program = recorded(columns_of_a_matrix, INPUTS)
    assert len(program.routines) == 1
    assert program.routines[0].cost().kinds == {"mul": 2, "add": 1}
    assert program.inputs == {"A": (3, 4), "s": ()}
    assert list(program.outputs) == ["out", "scale"]


def test_inlined_it_is_the_flat_graph():
    flat = fl.trace(columns_of_a_matrix, INPUTS)
    inlined = inline(recorded(columns_of_a_matrix, INPUTS))
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(5, 3, 4)), "s": rng.normal(size=5)}
    for name, value in evaluate(flat, given).items():
        assert np.array_equal(value, evaluate(inlined, given)[name])


def test_the_main_graph_cannot_work_on_results():
    def too_soon(x):
        return repeat(lambda shared, c: [c[0] * shared[0]], [x[0]], [[x[1]], [x[2]]])[0][0] + x[0]

    with pytest.raises(CompileError, match="routine's result"):
        recorded(too_soon, {"x": 3})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["forward_dynamics_derivatives"])
def test_compiled_routines_have_the_bits_of_the_reference(monkeypatch, tmp_path, name, dtype):
    """A robot whose graph is made large by lowering the bound; every width, a batch with a rest."""
    monkeypatch.setattr(compiler, "FLAT", 0)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    model = random_tree(5, 1.5, seed=3)
    program = compiler.lowered(compiler.dynamics_program(model, Variant(name)), dtype)
    assert program.routines
    rng = np.random.default_rng(1)
    q = model.random_configuration(19, seed=2).astype(dtype)
    v, tau = rng.normal(size=(2, 19, model.nv)).astype(dtype)
    wanted = evaluate(inline(program), {"q": q, "v": v, "tau": tau}, dtype)
    for width in (1, 4, 8, 16):
        kernel = compiler.compile_program(
            lambda: compiler.dynamics_program(model, Variant(name)),
            f"test {model.fingerprint}",
            dtype,
            width,
        )
        outputs = {k: out.shape for k, out in program.outputs.items()}
        function = fl.Function(name, program.inputs, outputs, lambda _, kernel=kernel: kernel)
        for got, expected in zip(function(q, v, tau), wanted.values(), strict=True):
            assert np.array_equal(got, expected)
