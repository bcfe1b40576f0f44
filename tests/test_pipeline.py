"""Schedules of pipelines: what `verify` finds, and what the scheduler finds."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repetition import examples, repeated

import featherlane as fl
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.analysis.modulo import by_call, by_class, pipelined, whole
from featherlane.program.analysis.pipeline import Operator, Pipeline
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.balance import balanced
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace

CLOCK = 8.0
MULTIPLY = Operator("multiply", 3, shared=True)
ADD = Operator("add", after=4.0)
SINE = Operator("sine_cosine", 8, shared=True)
RECIPROCAL = Operator("reciprocal", 10, shared=True)
OPERATORS = {
    **dict.fromkeys(("add", "sub", "neg", "less", "select"), ADD),
    **dict.fromkeys(("sin", "cos"), SINE),
    "mul": MULTIPLY,
    "div": RECIPROCAL,
}
DELAYS = {"mul": 3, "add": 0.5, "sub": 0.5, "neg": 0.5, "sin": 8, "cos": 8, "div": 10}


def operators(graph):
    return tuple(OPERATORS.get(op) for op in graph.op)


def traced(function, inputs):
    return simplify(trace(lambda x: {"y": function(x)}, {"x": inputs}))


def schedule(graph, interval, **options):
    found = pipelined(graph, operators(graph), CLOCK, interval, **options)
    found.verify()
    return found


def node(pipeline, op, n=0):
    return pipeline.graph.nodes_of(op)[n]


def changed(pipeline, column, k, value):
    """The pipeline with another entry in a column."""
    entries = list(getattr(pipeline, column))
    entries[k] = value
    return replace(pipeline, **{column: tuple(entries)})


# What verify finds


@pytest.fixture
def pair():
    """x0 x1 + x2 x3 + x4 at interval 2: the products are on one multiplier."""
    return schedule(traced(lambda x: [x[0] * x[1] + x[2] * x[3] + x[4]], 5), 2)


def test_a_pipeline_and_its_figures(pair):
    assert (pair.latency, pair.units) == (4, {(0, "multiply"): 1, (0, "add"): 2})
    assert pair.throughput == pytest.approx(62.5e6)
    assert pair.time == pytest.approx(0.032)
    assert str(pair).splitlines()[0] == (
        "interval 2, latency 4 cycles of 8 ns = 0.032 us, 62.5 million states a second"
    )
    first, second = sorted(pair.graph.nodes_of("mul"), key=lambda k: pair.start[k])
    assert pair.ready(first) == 3
    assert pair.register(second, 4) == -1
    assert [pair.register(first, cycle) for cycle in (3, 4, 5, 6, 7)] == [-1, 0, 0, 1, 1]


def test_registers_hold_what_is_read_later(pair):
    """An input read in cycles 1 and 2 needs one register at interval 2, in cycle 3 a second one."""
    x4 = next(k for k in pair.graph.nodes_of("input") if pair.graph.value[k] == ("x", 4))
    reader = next(k for k, args in enumerate(pair.graph.args) if x4 in args)
    assert pair.registers[x4] == pair.register(x4, pair.start[reader]) + 1 == 2
    ends = {k for out in pair.graph.outputs.values() for k in out.nodes}
    assert pair.registers[ends.pop()] == 0


def test_wires_have_the_registers_of_their_operand():
    graph = traced(lambda x: [(x[0] * x[1]) * 2.0 + x[0] * x[1] * x[2] * x[3]], 4)
    (twice,) = (k for k in graph.nodes_of("mul") if any(map(graph.number, graph.args[k])))
    own = [None if k == twice else operator for k, operator in enumerate(operators(graph))]
    found = pipelined(graph, own, CLOCK, 1)
    found.verify()
    (operand,) = (a for a in graph.args[twice] if graph.op[a] != "constant")
    assert found.start[twice] == found.ready(operand) == 3
    assert (found.registers[twice], found.registers[operand]) == (0, 6)
    with pytest.raises(ValueError, match=rf"node {twice} \(mul\) is only wires and starts in cy"):
        changed(found, "start", twice, 4).verify()


def test_an_operand_that_is_not_there_yet(pair):
    first = node(pair, "add")
    with pytest.raises(ValueError, match=rf"node {first} \(add\) starts in cycle 1, but its op"):
        changed(pair, "start", first, 1).verify()


def test_a_chain_longer_than_the_clock():
    graph = traced(lambda x: [x[0] + x[1] + x[2] + x[3]], 4)
    chain = Pipeline(graph, operators(graph), CLOCK, 1, (0,) * 7, (0,) * 7, (-1,) * 7, 0)
    last = node(chain, "add", 2)
    with pytest.raises(ValueError, match=rf"node {last} \(add\) takes until 12.000 ns of cycle 0"):
        chain.verify()
    replace(changed(chain, "start", last, 1), latency=1).verify()
    replace(chain, clock=12.0).verify()


def test_what_stands_before_and_behind_registers_is_chained_too():
    graph = traced(lambda x: [(x[0] + x[1]) * x[2] + x[3]], 4)
    last, (times,) = graph.nodes_of("add")[1], graph.nodes_of("mul")

    def found(before, after, start, end):
        own = list(operators(graph))
        own[times] = Operator("multiply", 3, before, after, True)
        starts, unit = [0] * len(graph), [-1] * len(graph)
        starts[times], starts[last], unit[times] = start, end, 0
        pool = (0,) * len(graph)
        return Pipeline(graph, tuple(own), CLOCK, 1, tuple(starts), pool, tuple(unit), end)

    found(4.0, 4.0, 0, 3).verify()
    with pytest.raises(ValueError, match=rf"node {times} \(mul\) takes until 9.000 ns of cycle 0"):
        found(5.0, 4.0, 0, 3).verify()
    with pytest.raises(ValueError, match=rf"node {last} \(add\) takes until 9.000 ns of cycle 3"):
        found(4.0, 5.0, 0, 3).verify()
    found(5.0, 5.0, 1, 5).verify()
    with pytest.raises(ValueError, match=rf"node {times} \(mul\) takes until 8.500 ns of cycle 3"):
        found(0.0, 8.5, 0, 4).verify()


def test_two_operations_on_one_unit(pair):
    _, second = sorted(pair.graph.nodes_of("mul"), key=lambda k: pair.start[k])
    late = replace(changed(pair, "start", second, 2), latency=6)
    last = [k for k in pair.graph.nodes_of("add") if second in pair.graph.args[k]]
    for k in pair.graph.nodes_of("add"):
        late = changed(late, "start", k, 5)
    assert last
    with pytest.raises(ValueError, match=r"want unit 0 of multiply in pool 0 in one phase"):
        late.verify()
    changed(late, "start", second, 1).verify()
    changed(late, "pool", second, "other").verify()


def test_numbers_of_units(pair):
    k = node(pair, "mul")
    with pytest.raises(ValueError, match="no operation is on unit 1 of multiply in pool 0"):
        changed(pair, "unit", k, 2).verify()
    with pytest.raises(ValueError, match=r"has unit -1: wanted 0 or more"):
        changed(pair, "unit", k, -1).verify()
    with pytest.raises(ValueError, match=r"\(add\) has unit 0: wanted .* -1 else"):
        changed(pair, "unit", node(pair, "add"), 0).verify()


def test_an_output_that_is_late(pair):
    with pytest.raises(ValueError, match=r"output 'y' is read in cycle 3, but node \d+ \(add\)"):
        replace(pair, latency=3).verify()


def test_columns_that_do_not_fit_the_graph(pair):
    with pytest.raises(ValueError, match=r"start has 2 entries: the graph has \d+ nodes"):
        replace(pair, start=(0, 0)).verify()
    with pytest.raises(ValueError, match="interval is 0"):
        replace(pair, interval=0).verify()
    with pytest.raises(ValueError, match=r"\(input\) starts in cycle -1"):
        changed(pair, "start", node(pair, "input"), -1).verify()
    with pytest.raises(ValueError, match=r"\(input\) has an operator, add"):
        changed(pair, "operators", node(pair, "input"), ADD).verify()


def test_sine_and_cosine_of_an_angle_share_a_unit():
    graph = traced(lambda x: [fl.sin(x[0]) * fl.cos(x[0]), fl.sin(x[1])], 2)
    found = schedule(graph, 1)
    assert found.kinds["sine_cosine"] == 2
    (sine, other), (cosine,) = graph.nodes_of("sin"), graph.nodes_of("cos")
    assert (found.start[sine], found.unit[sine]) == (found.start[cosine], found.unit[cosine])
    both = changed(changed(changed(found, "unit", sine, 0), "unit", cosine, 0), "unit", other, 0)
    with pytest.raises(ValueError, match=r"want unit 0 of sine_cosine"):
        both.verify()
    assert schedule(graph, 2).kinds["sine_cosine"] == 1


# What the scheduler finds


def random_graph(rng, size, inputs=4):
    graph = Graph()
    nodes = graph.declare("x", (inputs,))
    for _ in range(size):
        op = str(rng.choice(["add", "sub", "mul", "mul", "neg", "sin", "cos", "div"]))
        arity = 1 if op in ("neg", "sin", "cos") else 2
        nodes.append(graph.node(op, *(nodes[k] for k in rng.integers(len(nodes), size=arity))))
    users = graph.uses()
    ends = [k for k in range(len(graph)) if not users[k]]
    graph.outputs["y"] = Output((len(ends),), tuple(ends))
    return graph


@settings(deadline=None, max_examples=examples(80))
@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 7), st.booleans())
def test_schedules_of_random_graphs(seed, size, interval, slow):
    """They are right at each interval, with inputs that come late, and pools of any kind."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, size)
    own = [
        operator and operator._replace(before=rng.uniform(0, 6), after=rng.uniform(0, 8))
        for operator in operators(graph)
    ]
    own = own if slow else operators(graph)
    pool = rng.integers(3, size=len(graph)).tolist()
    found = pipelined(graph, own, 14.0, interval, pool, {"x": 3})
    found.verify()
    assert all(found.start[k] == 3 for k in graph.nodes_of("input"))
    operations = Counter(
        (pool[k], own[k].kind) for k, op in enumerate(graph.op) if op in ("mul", "div")
    )
    for key, n in operations.items():
        assert found.units[key] <= -(-n // interval)


def best_latency(graph, interval):
    """The lowest latency of all schedules on the fewest multipliers, by trying all of them, for
    additions of a cycle and products of three.
    """
    work = [k for k in range(len(graph)) if graph.args[k]]
    multipliers = -(-graph.op.count("mul") // interval)
    takes = {"mul": 3, "add": 1}
    for latency in range(3, 20):
        for starts in product(range(latency), repeat=graph.op.count("mul")):
            given = iter(starts)
            ready, right = {}, True
            phases = Counter(cycle % interval for cycle in starts)
            if max(phases.values()) > multipliers:
                continue
            for k in work:
                begin = max(ready.get(a, 0) for a in graph.args[k])
                if graph.op[k] == "mul":
                    begin, first = next(given), begin
                    right &= begin >= first
                ready[k] = begin + takes[graph.op[k]]
            if right and max(ready.values()) <= latency:
                return latency
    raise AssertionError


@pytest.mark.parametrize("interval", [1, 2, 3, 4])
def test_tiny_graphs_have_the_lowest_latency(interval):
    """Every schedule of four products is tried."""
    slow = {**OPERATORS, "add": Operator("add", 1, after=4.0)}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        graph = Graph()
        nodes = graph.declare("x", (3,))
        for op in rng.permutation(["mul"] * 4 + ["add"] * 2):
            nodes.append(graph.node(str(op), *(nodes[k] for k in rng.integers(len(nodes), size=2))))
        ends = [k for k, users in enumerate(graph.uses()) if not users]
        graph.outputs["y"] = Output((len(ends),), tuple(ends))
        found = pipelined(graph, [slow.get(op) for op in graph.op], CLOCK, interval)
        found.verify()
        assert found.latency == best_latency(graph, interval)


def test_spare_units_shorten_a_pipeline():
    graph = traced(lambda x: [x[k] * x[k + 1] for k in range(8)], 9)
    few, many = schedule(graph, 4), schedule(graph, 4, spare=(0, 1.0, 3.0))
    assert (few.latency, few.kinds["multiply"]) == (6, 2)
    assert (many.latency, many.kinds["multiply"]) == (3, 8)
    limited = schedule(graph, 4, spare=(0, 1.0, 3.0), limited=("multiply",))
    assert (limited.latency, limited.kinds["multiply"]) == (6, 2)


def test_arguments_of_the_scheduler():
    graph = traced(lambda x: [x[0] + x[1]], 2)
    with pytest.raises(ValueError, match="operator add takes 4 ns between registers: a cycle has"):
        pipelined(graph, operators(graph), 3.0, 1)
    with pytest.raises(ValueError, match="interval is 0: wanted 1 or more"):
        pipelined(graph, operators(graph), CLOCK, 0)
    with pytest.raises(ValueError, match="arrival has input 'q': the graph has x"):
        pipelined(graph, operators(graph), CLOCK, 1, arrival={"q": 1})
    with pytest.raises(ValueError, match=r"node 2 \(add\) of several operands has no operator"):
        pipelined(graph, [None] * 3, CLOCK, 1)


@pytest.mark.parametrize(
    ("name", "root", "function", "most"),
    repeated(
        [
            ("iiwa14", "fixed", "forward_dynamics_derivatives_from", {1: 83, 4: 85, 12: 90}),
            ("iiwa14", "fixed", "mass_matrix_inverse", {1: 138, 6: 145}),
            ("hyq", "free", "inverse_dynamics", {3: 60}),
        ],
        2,
    ),
)
def test_functions_of_robots(name, root, function, most):
    """With sine and cosine, on the fewest multipliers, in so many cycles at each interval."""
    graph = balanced(dynamics_graph(fl.load(name, root=root), Variant(function)), DELAYS)
    for interval, cycles in most.items():
        found = schedule(graph, interval)
        assert found.latency <= cycles
        assert found.kinds["multiply"] == -(-graph.op.count("mul") // interval)


def test_pools_of_calls_and_classes():
    """A pool for each module has at least as many units as one for each class of modules."""
    graph = dynamics_graph(fl.load("hyq"), Variant("inverse_dynamics"))
    counts = [schedule(graph, 8, pool=pool(graph)) for pool in (whole, by_class, by_call)]
    fewest, middle, most = (found.kinds["multiply"] for found in counts)
    assert fewest == -(-graph.op.count("mul") // 8)
    assert fewest < middle < most
    assert len(set(by_class(graph))) < len(set(by_call(graph)))
