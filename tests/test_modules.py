"""Flat graphs cut into modules by the calls that computed them, and modules that are alike.

`python tests/test_modules.py` writes the golden numbers anew, which takes a line in the change log.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from repetition import examples, repeated

import featherlane as fl
from featherlane.backends.reference import evaluate
from featherlane.errors import CompileError
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.analysis.modules import Submodule, classes, modules_of
from featherlane.program.cost import kinds_of
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower
from featherlane.program.passes.inline import flat
from featherlane.program.passes.outline import joints, outline
from featherlane.program.program import X, Y
from featherlane.program.rewrite import simplify
from featherlane.program.trace import FLAT, STEPS, program_of, trace
from featherlane.program.verify import verify_program
from featherlane.robot.tree_of import tree_of
from featherlane.scalar import Tag, at, call

FILE = Path(__file__).with_name("golden_modules.json")
GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}
PAGE = Path(__file__).parents[1] / "docs" / "dev" / "modules.md"
ROBOTS = [("iiwa14", "fixed"), ("hyq", "fixed"), ("hyq", "free"), ("atlas", "free")]
every = pytest.mark.parametrize(
    ("name", "root", "function"),
    repeated([(*r, f) for r in ROBOTS for f in fl.FUNCTIONS], 2 * len(fl.FUNCTIONS)),
)


@cache
def model(name, root):
    return fl.load(name, root=root)


@cache
def outlined(name, root, function):
    graph = dynamics_graph(model(name, root), Variant(function))
    return graph, outline(graph)


def row(name, root, function):
    """Modules, classes, multiplications in all, of the largest module, and the most values that a
    module reads.
    """
    modules = modules_of(outlined(name, root, function)[1])
    multiplications = [module.multiplications for module in modules]
    most = max(len(module.operands) for module in modules)
    return [len(modules), len(classes(modules)), sum(multiplications), max(multiplications), most]


# Robots


def work(kinds):
    return {kind: count for kind, count in kinds.items() if kind not in ("data", "call")}


@every
def test_modules_do_what_the_flat_graph_does(name, root, function):
    """No operation is there twice, each module has its joint as tag, and none waits for itself."""
    graph, program = outlined(name, root, function)
    verify_program(program)
    assert work(program.kinds) == work(kinds_of(graph))
    assert set(program.main.op) <= {"input", "constant", "call", "result"}
    for module in modules_of(program):
        assert 0 <= module.tag.joint < tree_of(model(name, root)).nbodies
        assert max(module.operands, default=-1) < min(module.results)


@every
def test_modules_are_as_many_as_they_were(name, root, function):
    assert row(name, root, function) == GOLDEN[f"{name} {root}"][function]


@pytest.mark.parametrize(
    ("name", "root", "most"), [("hyq", "fixed", 28), ("hyq", "free", 54), ("atlas", "free", 129)]
)
def test_limbs_that_are_alike_share_classes(name, root, most):
    """Issue 12 allows so many classes for the derivatives of inverse dynamics."""
    assert GOLDEN[f"{name} {root}"]["inverse_dynamics_derivatives"][1] <= most


def test_the_page_shows_the_golden_numbers():
    text = PAGE.read_text(encoding="utf-8")
    assert [line for line in lines() if line not in text] == []


@pytest.mark.parametrize(
    "function",
    repeated(["mass_matrix_inverse", "inverse_dynamics", "forward_dynamics_derivatives_from"]),
)
def test_inlined_modules_are_the_graph_again(states, function):
    graph, program = outlined("hyq", "free", function)
    again = simplify(flat(program))
    assert again.cost() == graph.cost()
    given = {**states(model("hyq", "free"), function, 3)}
    for name, value in evaluate(graph, given).items():
        assert_array_equal(evaluate(again, given)[name], value)


# What is cut


def product(a, b):
    return a * b


def larger(a, b):
    return fl.select(a < b, b, a)


def two_calls(x):
    """The second call finds the first one's product and condition, and adds to what it has."""
    first = at(Tag("A", "f", 0), call, lambda: [product(x[0], x[1]), larger(x[0], x[1])])
    second = at(
        Tag("A", "f", 1),
        call,
        lambda: [product(x[1], x[0]) + x[2], fl.select(x[0] < x[1], x[2], first[1]) - 2.0],
    )
    return {"first": first, "second": second, "one": 1.0, "third": x[2]}


def test_a_node_belongs_to_the_call_that_computed_it_first():
    program = lower(program_of(two_calls, {"x": 4}, FLAT), "joints", float)
    verify_program(program)
    first, second = modules_of(program)
    assert (str(first.tag), str(second.tag)) == ("Af1", "Af2")
    assert work(kinds_of(first.graph)) == {"mul": 1, "select": 2}
    assert work(kinds_of(second.graph)) == {"add": 2, "select": 2}  # with its own condition
    assert set(first.results) < set(second.operands)
    graph = simplify(trace(two_calls, {"x": 4}))
    x = {"x": np.random.default_rng(0).normal(size=(5, 4))}
    assert_array_equal(evaluate(program, x)["second"], evaluate(graph, x)["second"])
    assert simplify(flat(program)).cost() == graph.cost()


def test_only_what_calls_computed_flat_is_cut():
    alone = lambda x: {"y": x[0] * x[1] + call(product, x[0], x[2])}
    with pytest.raises(CompileError, match="outside of all calls"):
        joints(program_of(alone, {"x": 3}, FLAT))
    kept = lambda x: {"y": call(product, x[0], x[1])}
    with pytest.raises(CompileError, match="is a call: only flat graphs"):
        joints(program_of(kept, {"x": 2}, STEPS))


def test_a_call_cannot_read_what_a_later_call_computes():
    graph = program_of(two_calls, {"x": 4}, FLAT).main
    last = max(tag.call for tag in graph.tag if tag)
    tag = [t and t._replace(call=last + 1 - t.call) for t in graph.tag]
    with pytest.raises(CompileError, match=r"of call 1 reads node \d+ of call 2"):
        outline(graph.replaced(tag=tag))


# What is alike


def module(function, inputs):
    """The module of a function of scalars."""
    graph = trace(lambda x: {Y: function(x)}, {X: inputs})
    return Submodule(None, simplify(graph), (), ())


def alike(*functions, inputs=6):
    return len(classes([module(f, inputs) for f in functions])) == 1


def test_constants_signs_and_order_do_not_matter():
    assert alike(
        lambda x: [x[0] * x[1] + x[2] * 3.0, x[2]],
        lambda x: [2.0 * x[0] - x[1] * x[2], x[0]],
        lambda x: [-(x[5] * x[4]) - x[3] * 0.5, -x[3]],
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda x: [x[0] * x[1] + x[2] * x[0]],  # other operands
        lambda x: [x[0] * x[1] + x[2] * 2.0],  # a constant for a value
        lambda x: [x[0] * x[1] + x[2] * x[3], x[2] * x[3]],  # more is given
        lambda x: [x[0] * x[1] + x[2] / x[3]],  # another operation
        lambda x: [x[0] * x[1] * x[2] + x[3]],  # other users
    ],
)
def test_what_else_differs_does_matter(other):
    assert not alike(lambda x: [x[0] * x[1] + x[2] * x[3]], other)


def test_operands_of_a_division_stay_in_order():
    assert not alike(lambda x: [x[0] / (x[1] * x[1])], lambda x: [(x[1] * x[1]) / x[0]])


def rings(*lengths):
    """Sums of neighbours on rings: every node looks like every other."""
    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    pairs = [
        (s + i, s + (i + 1) % n) for s, n in zip(starts, lengths, strict=True) for i in range(n)
    ]
    return lambda x: [x[i] + x[j] for i, j in pairs]


def test_patterns_that_look_alike_everywhere_are_told_apart():
    assert not alike(rings(6), rings(3, 3))
    assert alike(rings(3, 3), lambda x: rings(3, 3)([x[i] for i in (4, 1, 3, 0, 5, 2)]))


def disguised(graph, rng):
    """The same pattern: other constants and signs, and nodes in another order."""
    new, place = Graph(), dict[int, int]()
    for k in rng.permutation(graph.inputs[X][0]):
        place[int(k)] = new.node("input", value=(X, int(k)))
    new.inputs = graph.inputs
    left = [k for k in range(len(graph)) if k not in place]
    while left:
        ready = [k for k in left if all(a in place for a in graph.args[k])]
        k = ready[rng.integers(len(ready))]
        left.remove(k)
        op, args = graph.op[k], [place[a] for a in graph.args[k]]
        if op == "constant":
            place[k] = new.constant(rng.uniform(2, 3))
            continue
        if op in ("add", "sub"):
            forms = rng.permutation([("add", 1), ("sub", 1), ("sub", -1)]).tolist()
            known = iter([(o, args[:: int(n)]) for o, n in forms])
            size = len(new)
            while len(new) == size:  # what was x + y beside x - y stays two nodes
                o, operands = next(known)
                place[k] = new.node(o, *operands)
        else:
            place[k] = new.node(op, *args)
        if rng.random() < 0.3:
            place[k] = new.node("neg", place[k])
    nodes = graph.outputs[Y].nodes
    new.outputs[Y] = Output(
        (len(nodes),), tuple(place[nodes[n]] for n in rng.permutation(len(nodes)))
    )
    return new


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 10**6), st.integers(1, 25))
def test_disguised_patterns_are_of_one_class(seed, size):
    rng = np.random.default_rng(seed)
    graph = Graph()
    nodes = [*graph.declare(X, (4,)), graph.constant(0.3), graph.constant(0.7)]
    for _ in range(size):
        op = str(rng.choice(["add", "sub", "mul", "div", "sqrt"]))
        operands = [nodes[k] for k in rng.integers(len(nodes), size=1 + (op != "sqrt"))]
        if len(set(operands)) == len(operands):
            nodes.append(graph.node(op, *operands))
    ends = [k for k, users in enumerate(graph.uses()) if graph.args[k] and not users]
    graph.outputs[Y] = Output((len(ends),), tuple(ends))
    forms = [
        Submodule(None, g, (), ()) for g in (graph, *(disguised(graph, rng) for _ in range(3)))
    ]
    assert len(classes(forms)) == 1


def lines():
    """A row of the page's table for each of the golden numbers."""
    for robot, functions in GOLDEN.items():
        for function, numbers in functions.items():
            yield f"| {robot} | {function} | {' | '.join(f'{n:,}' for n in numbers)} |"


if __name__ == "__main__":
    for robot in ROBOTS:
        GOLDEN[" ".join(robot)] = {function: row(*robot, function) for function in fl.FUNCTIONS}
    FILE.write_text(json.dumps(GOLDEN, indent=1) + "\n")
    print("\n".join(lines()))
