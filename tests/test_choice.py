"""The cost model and what is chosen by it; `bench --explain`."""

import json

import numpy as np
import pytest
from processes import several_cores

import featherlane as fl
from featherlane.api.random_robots import chain
from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.cost_model import PART, SLOT, WAKE, WORTH_WAKING, CallCost
from featherlane.functions import fast_path, function
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.tracing import candidates, dynamics_graph
from featherlane.tools import cli, timing
from featherlane.tools.explain import explain
from featherlane.tools.work import work

LOADS = [
    CallCost(slots, moved, width)
    for slots, moved, width in ((40, 64, 4), (40, 32, 8), (715, 224, 4), (56_000, 32_000, 4))
]
BATCHES = (1, 2, 7, 64, 1000, 4096, 100_000, 3_000_000)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("cores", [1, 2, 3, 16, 64])
def test_no_other_number_of_threads_is_expected_to_be_faster(load, cores):
    for states in BATCHES:
        chosen = load.threads(states, cores)
        assert 1 <= chosen <= cores
        best = min(load.seconds(states, n) for n in range(1, cores + 1))
        assert load.seconds(states, chosen) <= 1.1 * best + 1e-12


@pytest.mark.parametrize("load", LOADS)
def test_alone_is_where_threads_begin_to_pay(load):
    most = load.alone()
    assert load.threads(most, 64) == 1
    assert most == load.width or load.work(most) < WORTH_WAKING * WAKE
    assert load.work(most + 1) >= WORTH_WAKING * WAKE
    assert load.threads(most + load.width, 64) > 1


@pytest.mark.parametrize("load", LOADS)
def test_parts_are_short_and_whole(load):
    vectors, rest = divmod(load.part(), load.width)
    assert rest == 0
    assert vectors == 1 or (vectors % 4 == 0 and load.work(load.part()) < PART + 4 * load.vector)
    assert load.each() <= load.part()


def test_a_vector_is_not_shared_among_threads():
    long = CallCost(int(1 / SLOT), 8, 4)  # a second for each vector
    assert [long.threads(states, 64) for states in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics_derivatives"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_kernels_know_their_instructions(name, dtype):
    model = fl.load("double_pendulum")
    kernel = model.function(name).kernel(dtype)
    assert kernel.slots == work(model, name, dtype).slots > 0


def test_the_cache_keeps_instructions(monkeypatch, tmp_path):
    monkeypatch.setenv("FEATHERLANE_CACHE", str(tmp_path))
    graph = fl.load("double_pendulum").graph("inverse_dynamics")
    first = fl.compile(graph).kernel(float)
    monkeypatch.setattr("featherlane.backends.cpu.compile.lower", None)  # not compiled
    assert fl.compile(graph).kernel(float).slots == first.slots


@pytest.fixture
def spread(monkeypatch):
    """The numbers of threads of calls that took several."""
    counts = []
    spread = function.Function._spread

    def told(self, *args):
        counts.append(args[-2])
        return spread(self, *args)

    monkeypatch.setattr(function.Function, "_spread", told)
    return counts


@several_cores
def test_calls_take_the_threads_that_pay(spread, monkeypatch):
    monkeypatch.setattr(function, "physical_cores", lambda: 3)
    f = fl.compile(lambda x: [sum(x[i] * x[j] for i in range(9) for j in range(9))], {"x": 9})
    load = f.load(f.kernel(float))
    most = load.alone()
    x = np.random.default_rng(0).normal(size=(40 * most, 9))
    f(x[:most])
    f(x[: most + 1], threads=1)
    assert spread == []
    whole = f(x[: most + 1])
    assert spread == [3]
    assert np.array_equal(whole, f(x[: most + 1], threads=1))
    assert np.array_equal(f(x)[: most + 1], whole)
    f(x[:2], threads=2)
    assert spread == ([3] if cpython.available() else [3, 3, 2])  # then by machine code
    f(list(x[:2]), threads=2)
    assert spread[-1] == 2


def test_one_core_never_hands_on(monkeypatch):
    for module in (function, fast_path):
        monkeypatch.setattr(module, "physical_cores", lambda: 1)
    f = fl.compile(lambda x: [x[0] * x[1]], {"x": 2})
    assert f._threads(None, 10**7, f._batch_form(np.dtype(float))) == 1
    assert fast_path._most(f, f.kernel(float)) == fast_path.ALWAYS


@pytest.mark.parametrize("name", ["forward_dynamics", "mass_matrix_inverse"])
def test_the_algorithm_with_the_fewest_operations(name):
    model = fl.load("double_pendulum")
    graphs = candidates(model, Variant(name))
    assert len(graphs) == len(TABLE[name].algorithms) == 2
    counts = [graph.cost().operations for graph in graphs.values()]
    assert dynamics_graph(model, Variant(name)).cost().operations == min(counts) < max(counts)


QUICK = ("bench", "double_pendulum", "--batch", "32", "--threads", "2", "--explain")


@pytest.fixture
def _short(monkeypatch):
    monkeypatch.setattr(timing, "SECONDS", 0.0)


@pytest.mark.usefixtures("_short")
def test_bench_explains(capsys):
    assert cli.main([*QUICK, "--dtype", "float64"]) == 0
    out = capsys.readouterr().out
    for what in ("threads   1", "lanes     ", "tiles     ", "algorithm factored"):
        assert what in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.usefixtures("_short")
def test_bench_explains_as_json(capsys):
    assert cli.main([*QUICK, "--dtype", "float32", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["choices"]
    assert found["batch"] == 32
    for choice in found["choices"]:
        assert choice["taken"] in choice["expected"]
        assert set(choice["measured"]) <= set(choice["expected"])
        if choice["what"] == "threads":
            assert set(choice["expected"]) == set(choice["measured"]) == {"1", "2"}


def test_explains_recorded_steps():
    model = chain(60)
    s = timing.Speed("inverse_dynamics", "float64", None, 0.0, 1.0, 1.0, 1.0, 8)
    (choice,) = explain(model, [s], 2, lambda step: None).choices
    assert (choice.what, choice.taken, choice.expected) == ("code", "recorded", {"links": 60})
