"""Programs with routines: the bits of the flat graph of their operations, and what is refused."""

from itertools import combinations

import numpy as np
import pytest
import textbook
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.api.random_robots import random_tree
from featherlane.backends.cpu.compile import compile_program
from featherlane.backends.cpu.graphs.areas import Area, allocate_areas
from featherlane.backends.cpu.graphs.layout import memory_layout
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.reference import evaluate
from featherlane.errors import CompileError
from featherlane.functions import tracing
from featherlane.functions.function import KernelsByDtype
from featherlane.functions.table import Variant
from featherlane.program.lower import lower
from featherlane.program.passes.inline import flat
from featherlane.program.passes.recompute import recompute
from featherlane.program.trace import COLUMNS, program_of
from featherlane.scalar import boundary, repeat


def recorded(function, inputs):
    return program_of(function, inputs, COLUMNS)


def columns_of_a_matrix(A, s):
    """Each column scaled and turned into two numbers, one of them known at trace time."""
    columns = [[A[i][j] for i in range(3)] for j in range(4)]
    made = repeat(lambda shared, c: [c[0] * shared[0] - c[1] * c[2], 7.0], [s * s], columns)
    return {"out": made, "scale": s * s}


INPUTS = {"A": (3, 4), "s": ()}


def test_a_repeated_function_is_kept_once():
    program = recorded(columns_of_a_matrix, INPUTS)
    assert len(program.functions) == 1
    assert program.functions[0].graph.cost().kinds == {"mul": 2, "add": 1}
    assert program.inputs == {"A": (3, 4), "s": ()}
    assert list(program.outputs) == ["out", "scale"]


def test_inlined_it_is_the_flat_graph():
    traced = fl.trace(columns_of_a_matrix, INPUTS)
    inlined = flat(recorded(columns_of_a_matrix, INPUTS))
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(5, 3, 4)), "s": rng.normal(size=5)}
    for name, value in evaluate(traced, given).items():
        assert np.array_equal(value, evaluate(inlined, given)[name])


def in_two_parts(x, y):
    """Columns of what depends on the inputs and on one number of the first part."""
    common = [fl.sin(x[0]) * y[0] + x[1], x[1] * y[1] + x[2]]
    (s,) = handed = [sum(common) * x[0]]
    boundary(handed)
    columns = [[common[0] * (s + k), common[1] + k * s, y[k]] for k in range(3)]
    made = repeat(lambda shared, c: [c[0] * shared[0] + c[1], c[2] - c[0]], [s * s], columns)
    return {"out": made, "common": common}


def test_what_columns_read_is_computed_apart():
    """From what is handed over, what is dear, and the inputs."""
    inputs = {"x": 3, "y": 3}
    program = recompute(recorded(in_two_parts, inputs))
    main, again = program.main, program.functions[0].graph
    assert program.times() == [1, 3]
    assert "sin" not in again.op
    row = [main.op[n] for n in main.args[main.op.index("call")]]
    assert sorted(row) == sorted(["sin", "mul", *["input"] * 4])  # others go to columns
    kinds = again.cost().kinds
    assert (kinds["mul"], kinds["add"]) == (6, 6)  # both of `common` again
    rng = np.random.default_rng(0)
    state = {name: rng.normal(size=(7, 3)) for name in inputs}
    wanted = evaluate(fl.trace(in_two_parts, inputs), state)
    for name, value in evaluate(flat(program), state).items():
        assert np.array_equal(value, wanted[name])


def test_a_program_hands_over_once_and_first():
    def too_late(x):
        made = repeat(lambda shared, c: [c[0] * shared[0]], [x[0]], [[x[1]], [x[2]]])
        boundary([x[0] * x[1]])
        return made

    with pytest.raises(CompileError, match="before all calls"):
        recompute(recorded(too_late, {"x": 3}))


def test_columns_cannot_read_the_results_of_columns():
    def chained(x):
        double = lambda shared, c: [c[0] + c[0]]
        return repeat(double, [], repeat(double, [], [[x[0]], [x[1]]]))

    program = lower(recorded(chained, {"x": 2}), "cpu", float)
    t = Lanes(np.dtype(float), 2)
    with pytest.raises(CompileError, match="only outputs may"):
        memory_layout(program, t, t)


@settings(deadline=None)
@given(st.lists(st.builds(Area, st.integers(0, 9), st.integers(0, 4), st.integers(4, 9))))
def test_areas_needed_at_once_lie_apart(areas):
    start, size = allocate_areas(areas)
    for (a, x), (b, y) in combinations(zip(areas, start, strict=True), 2):
        assert x + a.size <= size
        overlap = x < y + b.size and y < x + a.size
        assert not (a.overlaps(b) and a.size and b.size and overlap)
    busiest = max(sum(a.size for a in areas if a.first <= t <= a.last) for t in range(10))
    assert busiest <= size <= sum(a.size for a in areas)


def test_the_main_graph_cannot_work_on_results():
    def too_soon(x):
        return repeat(lambda shared, c: [c[0] * shared[0]], [x[0]], [[x[1]], [x[2]]])[0][0] + x[0]

    program = lower(recorded(too_soon, {"x": 3}), "cpu", float)
    t = Lanes(np.dtype(float), 2)
    with pytest.raises(CompileError, match="works on a result"):
        memory_layout(program, t, t)


@pytest.mark.parametrize("dtype", repeated([np.float64, np.float32]))
@pytest.mark.parametrize("name", ["forward_dynamics_derivatives"])
def test_compiled_routines_have_the_bits_of_the_reference(monkeypatch, tmp_path, name, dtype):
    """A robot whose graph is made large by lowering the bound; every width, a batch with a rest."""
    monkeypatch.setattr(tracing, "LARGEST_FLAT", 0)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    model = random_tree(5, 1.5, seed=3)
    program = lower(tracing.dynamics_program(model, Variant(name)), "cpu", dtype)
    assert program.functions
    rng = np.random.default_rng(1)
    q = model.random_configuration(19, seed=2).astype(dtype)
    v, tau = rng.normal(size=(2, 19, model.nv)).astype(dtype)
    wanted = evaluate(program, {"q": q, "v": v, "tau": tau}, dtype)
    for width in (1, 4, 8, 16):
        kernel = compile_program(
            lambda: tracing.dynamics_program(model, Variant(name)),
            f"test {model.fingerprint}",
            dtype,
            width,
        )
        outputs = {k: out.shape for k, out in program.outputs.items()}
        function = fl.Function(
            name, program.inputs, outputs, KernelsByDtype(lambda _, kernel=kernel: kernel)
        )
        for got, expected in zip(function(q, v, tau), wanted.values(), strict=True):
            assert np.array_equal(got, expected)


def test_shifts_by_damping_enter_the_columns(monkeypatch):
    """The main graph of a large damped robot must not add them to the columns' results."""
    monkeypatch.setattr(tracing, "LARGEST_FLAT", 0)
    model = textbook.tree(("revolute", "prismatic"), seed=1, physics=True)
    name = "damped_forward_dynamics_and_derivatives"
    program = lower(tracing.dynamics_program(model, Variant(name)), "cpu", float)
    assert program.functions
    t = Lanes(np.dtype(float), 2)
    assert len(memory_layout(program, t, t).steps) > 1
    q, v, tau = np.random.default_rng(0).normal(size=(3, model.nv))
    inputs = {"q": q, "v": v, "tau": tau, "dt": np.array(0.01)}
    a = lambda v: evaluate(program, {**inputs, "v": v}, float)["a"]
    steps = 1e-6 * np.eye(model.nv)
    slopes = np.transpose([(a(v + step) - a(v - step)) / 2e-6 for step in steps])
    by_v = [x for x in evaluate(program, inputs, float).values() if x.shape == (model.nv,) * 2][1]
    assert_allclose(by_v, slopes, rtol=1e-6, atol=1e-7 * abs(slopes).max())
