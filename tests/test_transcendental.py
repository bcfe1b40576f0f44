"""Exponentials, logarithms and arcs in graphs: accuracy, special values, derivatives, code."""

import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from repetition import repeated
from test_backend import same_bits
from test_c import HOSTS, checked

import featherlane as fl
from featherlane.api.derivatives import jacobian
from featherlane.backends import reference
from featherlane.backends.c.library import CFunction, library
from featherlane.errors import CompileError
from featherlane.program import lower as lowering
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower
from featherlane.program.op import EXPANDED, OPS
from featherlane.program.program import Program

DOCUMENT = Path(__file__).parents[1] / "docs" / "traces.md"
DTYPES = [np.float64, np.float32]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
NEW = sorted(EXPANDED - {"sin", "cos"})
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan2": "arctan2"}
EXACT = {op: getattr(mpmath, op) for op in NEW}
PROMISED = {  # units in the last place: float64, float32
    "acos": (1.3, 1.3),
    "asin": (2.2, 2.2),
    "atan2": (2.4, 2.4),
    "exp": (1.1, 1.1),
    "expm1": (2.0, 1.7),
    "log": (0.9, 0.9),
    "log1p": (0.9, 0.9),
    "tanh": (2.7, 2.7),
}


def operation(op):
    """The graph of one function of one row of arguments."""
    graph = Graph()
    operands = graph.declare("x", (OPS[op].arity,))
    graph.outputs["y"] = Output((), (getattr(graph, op)(*operands),))
    return graph


def compute(op, x, dtype, target="cpu"):
    made = lower(Program(operation(op)), target, dtype)
    return reference.evaluate(made, {"x": x}, dtype)["y"]


def any_exponent(rng, low, high, count, dtype):
    """Positive floats between two of them, of which all are as likely."""
    integer = np.int64 if dtype == np.float64 else np.int32
    first, last = np.array([low, high], dtype).view(integer)
    return rng.integers(first, last, count, endpoint=True).astype(integer).view(dtype)


def arguments(op, dtype, count):
    """Rows of arguments from the whole domain, more of them where a function is sensitive."""
    rng, info = np.random.default_rng(11), np.finfo(dtype)
    least, most = info.smallest_subnormal, info.max
    spread = lambda low, high: any_exponent(rng, low, high, count, dtype)
    low, high = (-745.0, 709.7) if dtype == np.float64 else (-103.0, 88.7)
    parts = {
        "exp": lambda: [rng.uniform(low, high, count), rng.uniform(-1, 1, count), spread(1e-9, 1)],
        "expm1": lambda: [
            rng.uniform(-50, high, count),
            rng.uniform(-1, 1, count),
            -spread(least, 1),
            spread(least, 1),
        ],
        "log": lambda: [
            spread(least, most),
            rng.uniform(0.4, 2.2, count),
            1 + 1e-5 * rng.normal(size=count),
        ],
        "log1p": lambda: [
            spread(least, most),
            -spread(least, 0.999),
            rng.uniform(-0.99, 3, count),
        ],
        "tanh": lambda: [rng.uniform(-3, 3, count), spread(least, 25.0)],
        "atan2": lambda: [
            rng.normal(size=(count, 2)),
            np.stack([spread(least, most), -spread(least, most)], -1),
            rng.normal(size=(count, 2)) * np.exp(rng.uniform(-8, 8, (count, 2))),
        ],
    }
    ends = lambda: [rng.uniform(-1, 1, count), spread(least, 1), 1 - spread(1e-16, 0.1)]
    x = np.concatenate(parts.get(op, ends)()).astype(dtype)
    return x if x.ndim == 2 else x[:, None]


def errors(op, x, dtype, target="cpu"):
    """The errors in units in the last place of the exact result."""
    got, found = compute(op, x, dtype, target), []
    with mpmath.workprec(150):
        for row, y in zip(x.tolist(), got.tolist(), strict=True):
            exact = EXACT[op](*map(mpmath.mpf, row))
            unit = float(np.spacing(abs(dtype(float(exact)))))
            found.append(float(abs(mpmath.mpf(y) - exact)) / unit)
    return np.array(found)


@dtypes
@pytest.mark.parametrize("op", NEW)
def test_errors_in_the_whole_domain(op, dtype):
    x = arguments(op, dtype, 400)
    assert np.max(errors(op, x, dtype)) < PROMISED[op][DTYPES.index(dtype)]


@dtypes
@pytest.mark.parametrize("op", repeated(NEW, 3))
def test_errors_without_fused_multiply_adds(op, dtype):
    x = arguments(op, dtype, 400)
    assert np.max(errors(op, x, dtype, "wasm")) < PROMISED[op][DTYPES.index(dtype)]


@pytest.mark.parametrize("op", repeated(NEW, 3))
def test_many_floats_against_double(op):
    x = arguments(op, np.float32, 60_000)
    got = compute(op, x, np.float32)
    exact = getattr(np, NUMPY.get(op, op))(*x.astype(np.float64).T)
    with np.errstate(under="ignore"):
        units = np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert np.max(units) < PROMISED[op][1]


def test_the_document_says_these_errors():
    row = r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \| (\d+) \+ (\d) \+ (\d+) \|$"
    found = re.findall(row, DOCUMENT.read_text(), re.M)
    assert {op: (float(double), float(single)) for op, double, single, *_ in found} == PROMISED
    for op, _, _, *counts in found:
        kinds = lower(Program(operation(op)), "cpu", np.float64).main.cost().kinds
        groups = ("add", "mul", "fma"), ("div", "sqrt"), ("select",)
        assert [str(sum(kinds[kind] for kind in group)) for group in groups] == counts


def specials(dtype):
    info = np.finfo(dtype)
    sizes = [0.0, 0.5, 1.0, 2.0, 30.0, 1e3, np.inf, np.nan, info.smallest_subnormal, info.max]
    x = np.array([*sizes, info.tiny, 1 - info.epsneg, 1 + info.eps], dtype)
    return np.concatenate([x, -x])


@dtypes
@pytest.mark.parametrize("op", NEW)
def test_special_values_are_those_of_numpy(op, dtype):
    x = specials(dtype)[:, None]
    if op == "atan2":
        x = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    got = compute(op, x, dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY.get(op, op))(*x.T)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    number = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got)[number], np.signbit(wanted)[number])
    assert np.allclose(got[number], wanted[number], rtol=1e-6, atol=0)
    assert np.array_equal(np.isinf(got), np.isinf(wanted))


@dtypes
def test_powers_of_two_and_exponents(dtype):
    info = np.finfo(dtype)
    k = np.arange(info.minexp, info.maxexp).astype(dtype)
    graph = fl.trace(lambda x: {"y": x}, {"x": ()})
    x = graph.outputs["y"].nodes[0]
    graph.outputs = {
        "power": Output((), (graph.power_of_two(x),)),
        "exponent": Output((), (graph.exponent(x),)),
    }
    got = fl.compile(graph)(k)
    assert np.array_equal(got.power, np.ldexp(dtype(1), k.astype(int)))
    x = np.concatenate([got.power, -1.5 * got.power, np.nextafter(got.power, dtype(np.inf))])
    assert np.array_equal(fl.compile(graph)(x).exponent, np.tile(k, 3))
    limits = np.array([0.0, info.smallest_subnormal, np.inf, np.nan], dtype)
    wanted = [info.minexp - 1, info.minexp - 1, info.maxexp, info.maxexp]
    assert np.array_equal(fl.compile(graph)(limits).exponent, wanted)


def everything(x, y):
    """A function with every new operation."""
    inside = np.tanh(x)
    return {
        "arcs": np.stack([np.arcsin(inside), np.arccos(inside), np.arctan2(x, y)]),
        "powers": np.stack([np.exp(-x * x), np.expm1(x), np.log(y * y), np.log1p(x * x)]),
        "chosen": np.where((x <= y) & ~(y < 0) | (x == 2), np.copysign(x, y), np.floor(x)),
        "bounded": np.clip(x, -1, np.maximum(y, 0.5)) + np.mod(x, 2 * np.pi),
    }


@dtypes
def test_every_kernel_and_batch_gives_the_bits_of_the_reference(dtype):
    graph = fl.trace(everything, {"x": 3, "y": 3})
    made = lower(Program(graph), "cpu", dtype)
    special = specials(dtype)
    x = np.random.default_rng(2).choice(special, (41, 2, 3))
    x[:20] = np.random.default_rng(3).normal(size=(20, 2, 3)) * 3
    wanted = reference.evaluate(made, {"x": x[:, 0], "y": x[:, 1]}, dtype)
    for width in (1, 4, None):
        f = fl.compile(graph, width=width)
        for y, name in zip(f(x[:, 0], x[:, 1]), graph.outputs, strict=True):
            same_bits(y, wanted[name])
        for n in (0, 7, 33):
            for y, name in zip(f(x[n, 0], x[n, 1]), graph.outputs, strict=True):
                same_bits(y, wanted[name][n])


@pytest.mark.parametrize("machine", repeated(HOSTS, spread=False), ids=lambda m: m.name)
@dtypes
def test_generated_c_gives_the_same_bits(machine, dtype, tmp_path):
    graph = fl.trace(everything, {"x": 3, "y": 3})
    files = fl.generate(None, tmp_path, {"f": graph}, name="mine", batch_struct=True, dtype=dtype)
    assert "all functions agree" in checked(machine, tmp_path, files)


@dtypes
def test_exponents_and_signs_in_generated_c(dtype, tmp_path):
    """Of negative numbers too, which no logarithm reads."""
    graph = Graph()
    x, y = graph.declare("x", (2,))
    power = graph.power_of_two(graph.round(y))
    nodes = (graph.exponent(x), graph.exponent(y), power, graph.copysign(x, y))
    graph.outputs["z"] = Output((4,), nodes)
    program, rng = lower(Program(graph), "c", np.dtype(dtype)), np.random.default_rng(1)
    values = rng.normal(size=(300, 2)) * np.exp(rng.uniform(-30, 3, (300, 2)))
    library_files = library("f", [CFunction("bits", program, "", {}, {"x": values.astype(dtype)})],
                            [], dtype, True)  # fmt: skip
    for file, text in library_files.items():
        (tmp_path / file).write_text(text)
    assert "all functions agree" in checked(HOSTS[0], tmp_path, list(tmp_path.iterdir()))


@pytest.mark.parametrize("op", NEW)
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives(op, mode):
    x = np.array([0.3, -0.6])[: OPS[op].arity] if op != "log" else np.array([0.7])
    got = reference.evaluate(jacobian(operation(op), mode=mode), {"x": x})["dy_dx"]
    with mpmath.workdps(40):
        for i in range(len(x)):
            along = lambda t, i=i: EXACT[op](*[t if j == i else a for j, a in enumerate(x)])
            assert abs(got[i] - mpmath.diff(along, x[i])) < 1e-15 * 10


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives_of_what_has_steps(mode):
    def function(x):
        return np.stack([
            np.copysign(x[0], x[1]) * 3, np.floor(x[0]) * x[1], np.minimum(*x), np.maximum(*x),
            np.where(x[0] <= x[1], x[0] ** 2, x[1] ** 2), np.mod(x[0], 0.4),
        ])  # fmt: skip

    x = np.array([0.7, -0.2])
    got = reference.evaluate(jacobian(function, {"x": 2}, mode=mode), {"x": x})["dout_dx"]
    assert np.allclose(got, [[-3, 0], [0, 0], [0, 1], [1, 0], [0, -0.4], [1, 0]], atol=1e-15)


def test_a_target_without_an_operation_names_it(monkeypatch):
    target = lowering.Target(lowering.FLAT, (), frozenset({"exp"}), "backends.none")
    monkeypatch.setitem(lowering.TARGETS, "without", target)
    with pytest.raises(CompileError, match=r"'without' has no exp \(node 1 of main\)"):
        lower(Program(operation("exp")), "without", np.float64)
    lower(Program(operation("log")), "without", np.float64)
