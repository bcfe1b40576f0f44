"""Algorithms that are traced with all calls kept, and inlined, are what a flat trace gives: as many
operations, as deep, fused alike, and with the same bits. So are flat traces cut into modules.
"""

from itertools import count, islice

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from repetition import repeated
from textbook import tree

import featherlane as fl
from featherlane.backends.reference import evaluate
from featherlane.functions.table import REFERENCES, TABLE, Variant
from featherlane.functions.tracing import _runs
from featherlane.functions.variants import input_shapes
from featherlane.program.cost import kinds_of, slots
from featherlane.program.op import ARITHMETIC
from featherlane.program.passes.fma import fuse
from featherlane.program.passes.inline import flat
from featherlane.program.passes.outline import outline
from featherlane.program.rewrite import simplify
from featherlane.program.trace import COLUMNS, STEPS, program_of, trace
from featherlane.program.verify import verify_program
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parameters import parameter_value
from featherlane.robot.tree_of import build_tree

COMPUTED = [name for name, function in TABLE.items() if function.algorithms]
PARAMETERS = [
    (),
    ("gravity", "armature", "damping", "friction"),
    ("mass", "com", "inertia", "base_velocity", "base_acceleration"),
    ("inertial", "position", "orientation"),
]


def robots(seed):
    """Small robots without end, in which joints of all types meet, with and without mimic joints
    and physics.
    """
    rng = np.random.default_rng(seed)
    single = [name for name, kind in JOINT_TYPES.items() if kind.nv == 1]
    for n in count():
        types, mimic = rng.choice([*JOINT_TYPES], 3).tolist(), {}
        if n % 3 == 2:
            types[1], types[2], mimic = str(rng.choice(single)), "revolute", {2: 1}
        parents = (-1, 0, int(rng.integers(-1, 2)))
        yield tree(types, parents, seed=n, physics=n % 2 == 1, mimic=mimic)


def form(name, model, rng):
    """A form of a function: with wrenches, a frame or parameters at run time, as it takes them."""
    takes, options = TABLE[name].takes, {}
    if "f_ext" in takes:
        options["wrenches"] = rng.choice(["", "body", "world"]).item() or None
        if options["wrenches"] and rng.random() < 0.5:
            options["at"] = (model.frames[0].name, model.frames[-1].name)
    if "frame" in takes:
        options["frame"] = model.frames[int(rng.integers(len(model.frames)))].name
    if "reference" in takes:
        options["reference"] = str(rng.choice(REFERENCES))
    return Variant(name, parameters=PARAMETERS[int(rng.integers(4))], **options)


def cases(rounds=8, seed=0):
    rng, models = np.random.default_rng(seed), robots(seed)
    for n in range(rounds):
        for name in COMPUTED:
            model = next(models)
            yield pytest.param(model, form(name, model, rng), id=f"{name}-{n}")


CASES = [*cases()]


def test_there_are_cases_of_everything():
    models, variants = zip(*(case.values for case in CASES), strict=True)
    assert len(CASES) >= 150
    for name in JOINT_TYPES:
        having = [model for model in models if any(j.type == name for j in model.joints)]
        assert {any(j.mimic for j in model.joints) for model in having} == {False, True}
        assert {bool(model.armature.any()) for model in having} == {False, True}
    assert {(v.wrenches, bool(v.at)) for v in variants} == {
        (None, False),
        ("body", False),
        ("body", True),
        ("world", False),
        ("world", True),
    }
    assert {v.reference for v in variants} == {None, *REFERENCES}
    assert {v.parameters for v in variants} == {*PARAMETERS}


def inputs(model, variant, batch=3):
    """Random states, and parameters near those of the robot."""
    rng, values = np.random.default_rng(1), {}
    for name, shape in input_shapes(model, variant).items():
        if name == "q":
            values[name] = model.random_configuration(batch, seed=rng)
        elif name in variant.parameters:
            values[name] = parameter_value(model, name) + 0.01 * rng.normal(size=(batch, *shape))
        else:
            values[name] = rng.normal(size=(batch, *shape))
    return values


def same(graph, wanted, values):
    """As many operations, as deep, as many instructions when fused, and the same bits, but for the
    sign of zero: a function that folds -a - b to -(a + b) gives -(a - c), where it is called with
    b = -c, and a flat trace c - a.
    """
    assert graph.cost().kinds == wanted.cost().kinds
    assert graph.cost().depth == wanted.cost().depth
    assert slots(kinds_of(fuse(graph))) == slots(kinds_of(fuse(wanted)))
    found, wanted = evaluate(graph, values), evaluate(wanted, values)
    for name, x in wanted.items():
        assert_array_equal(found[name], x)


@pytest.mark.parametrize(("model", "variant"), repeated(CASES, len(COMPUTED)))
def test_recorded_and_inlined_equals_flat(model, variant):
    shapes, values = input_shapes(model, variant), inputs(model, variant)
    for run in _runs(model, variant):
        wanted = simplify(trace(run, shapes))
        program = program_of(run, shapes, STEPS)
        verify_program(program)
        assert not ARITHMETIC & set(program.main.op), "all arithmetic is in calls"
        same(simplify(flat(program)), wanted, values)
        same(simplify(flat(outline(wanted))), wanted, values)


WITH_COLUMNS = [case for case in CASES if "derivatives" in case.values[1].name]


@pytest.mark.parametrize(("model", "variant"), repeated(WITH_COLUMNS, 8))
def test_inlined_columns_are_the_nodes_of_a_flat_trace(model, variant):
    """Node for node: kernels that are inlined have the code of kernels that were traced flat."""
    shapes = input_shapes(model, variant)
    for run in _runs(model, variant):
        wanted = simplify(trace(run, shapes))
        program = program_of(run, shapes, COLUMNS)
        assert program.functions or "forward" not in variant.name
        graph = simplify(flat(program))
        for part in ("op", "args", "value", "inputs", "outputs"):
            assert getattr(graph, part) == getattr(wanted, part)
        assert [*map(str, graph.tag)] == [*map(str, wanted.tag)]


@pytest.mark.parametrize("model", repeated([fl.chain(4, seed=1), *islice(robots(1), 3)]))
@pytest.mark.parametrize(
    ("name", "method"), repeated([(n, m) for n in TABLE for m in TABLE[n].methods], 4)
)
def test_methods_by_name_are_recorded_alike(name, method, model):
    bodies = build_tree(model, regroup=TABLE[name].methods[method].regroup)
    if TABLE[name].methods[method].refusal(bodies) is None:
        test_recorded_and_inlined_equals_flat(model, Variant(name, "body", method=method))
