"""One state in the lanes of vectors: which limbs are alike, what is packed, and the same bits."""

import ctypes

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from repetition import examples, repeated

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cpu.graphs import single
from featherlane.backends.cpu.linked import linked, machine_code
from featherlane.backends.llvm import jit
from featherlane.backends.llvm.lower import LONGEST_STORE
from featherlane.functions.lanes import cheapest, in_lanes
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower
from featherlane.program.op import OPS
from featherlane.program.passes.isomorphism import Terms, groups
from featherlane.program.passes.pack import MOVES, operations, pack
from featherlane.program.program import Program
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.robot import limbs

DTYPES = [np.float64, np.float32]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
TRUNK = 3  # inputs of random graphs that belong to no limb


def same_bits(x, y):
    """Equal with the signs of zeros; any NaN is like another."""
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    bits = np.dtype(f"i{x.dtype.itemsize}")
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    assert ((x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))).all()


def interpreted(packed, lanes, inputs, dtype):
    """The outputs of a packed graph for one state, by the definitions of its operations."""
    known = []
    graph = packed.graph
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        if op == "constant":
            each = value if isinstance(value, tuple) else (value,) * lanes
            known.append(np.array([float(x) for x in each], dtype))
        elif op == "input":
            at = list(value[1]) if isinstance(value[1], tuple) else [value[1]] * lanes
            known.append(inputs[value[0]].reshape(-1)[at])
        else:
            operands = [known[a] for a in args]
            with np.errstate(all="ignore"):
                moved = op in MOVES
                known.append(MOVES[op](*operands, value) if moved else OPS[op].evaluate(*operands))
    return {
        name: np.array(
            [known[k][lane] for k, lane in zip(out.nodes, packed.lanes[name], strict=True)], dtype
        ).reshape(out.shape)
        for name, out in graph.outputs.items()
    }


def run(packed, lanes, graph, rows, dtype):
    """The outputs of states by the machine code of a packed graph; arrays may have any strides."""
    image = machine_code(single.source(packed, lanes, np.dtype(dtype)))
    code = linked(image)
    count = len(rows[0])
    results = [np.full((count, *out.shape), 7, dtype) for out in graph.outputs.values()]
    arrays = [*rows, *results]
    steps = [x.strides[0] for x in arrays] + [s for x in arrays for s in x.strides[1:]]
    pointers = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.address)
    call(pointers, (ctypes.c_int64 * 1)(count), (ctypes.c_int64 * len(steps))(*steps), None)
    return dict(zip(graph.outputs, results, strict=True))


# Limbs


def test_limbs_are_subtrees_of_the_same_joints():
    hyq, atlas, arm = fl.load("hyq", root="free"), fl.load("atlas", root="free"), fl.load("iiwa14")
    for four in limbs.alike(hyq, 4):
        assert {hyq.joint_names[i][2:] for i in four} == {hyq.joint_names[four[0]][2:]}
    assert len(limbs.alike(hyq, 4)) == 3
    assert len(limbs.alike(hyq, 2)) == 6
    pairs = [(atlas.joint_names[i], atlas.joint_names[k]) for i, k in limbs.alike(atlas, 2)]
    assert len(pairs) == 13
    assert all(a.replace("l_", "r_", 1) == b for a, b in pairs)
    assert limbs.alike(atlas, 4) == limbs.alike(arm, 2) == []
    assert [limbs.count(model, 4) for model in (hyq, atlas, arm)] == [4, 2, 1]
    assert limbs.count(hyq, 2) == 2
    assert limbs.count(hyq, 1) == 1


def test_twins_are_the_entries_of_their_joints():
    model = fl.load("hyq", root="free")
    sizes = {"q": ("q",), "v": ("v",), "f_ext": ("bodies", 6), "minv": ("v", "v"), "g": (3,)}
    found = limbs.corresponding_entries(model, sizes, 4)
    assert len(found) == 3 * (1 + 1 + 6)
    assert {name for entries in found for name, _ in entries} == {"q", "v", "f_ext"}
    i, k, *_ = limbs.alike(model, 4)[1]
    assert [("q", model.first_q[i]), ("q", model.first_q[k])] in [list(e[:2]) for e in found]
    assert [("f_ext", 6 * i + 5), ("f_ext", 6 * k + 5)] in [list(e[:2]) for e in found]


# Random graphs


@st.composite
def limbed(draw):
    """A random function of a trunk and limbs that do the same up to constants, signs and what they
    take of the trunk; now and then one limb does something else.
    """
    count, steps = draw(st.sampled_from([2, 4])), draw(st.integers(4, 25))
    picks = [draw(st.lists(st.integers(0, 1 << 20), min_size=4, max_size=4)) for _ in range(steps)]
    seed = draw(st.integers(0, 1 << 20))

    def function(x, y):
        rng = np.random.default_rng(seed)
        trunk = list(x[:TRUNK])
        each = [[x[TRUNK + 2 * n], y[n], x[TRUNK + 2 * n + 1]] for n in range(count)]
        for kind, a, b, odd in picks:
            for n, known in enumerate(each):
                sign, factor = rng.choice([-1.0, 1.0]), rng.choice([1.0, -1.0, 0.5, 0.0, 3.0])
                p, q = known[a % len(known)], known[b % len(known)]
                t = trunk[(a + n * (odd % 3 == 0)) % len(trunk)]
                known.append(STEPS[(kind + (odd == n)) % len(STEPS)](p, q, t, sign, factor))
            if kind % 5 == 0:
                rows = [list(known) for known in each]
                for n, known in enumerate(rows):
                    other = rows[(n + 1 + a) % count]
                    each[n].append(known[-1] / (other[b % len(other)] + 2.0))
            if kind % 7 == 0:
                for known in each:
                    trunk.append(known[-1] + trunk[-1])
                each[0].append(each[-1][-1] * each[0][-2])
        shown = [known[-1 - k % 3] for k, known in enumerate(each)] + [known[-1] for known in each]
        return {"limbs": [*shown, -shown[0], 0.0, 0.0, 0.0], "trunk": trunk[-1]}

    return simplify(trace(function, {"x": TRUNK + 2 * count, "y": count})), count


STEPS = [
    lambda p, q, t, sign, c: p * q + sign * t,
    lambda p, q, t, sign, c: sign * p - c * q,
    lambda p, q, t, sign, c: p * (c * t) - sign * q,
    lambda p, q, t, sign, c: (sign * p).sin() * q,
    lambda p, q, t, sign, c: p / (q * q + 1.0),
    lambda p, q, t, sign, c: fl.select(sign * p < t, q, -p),
    lambda p, q, t, sign, c: (abs(p) + c * c).sqrt() - t,
]


def twins_of(count):
    first = [tuple(("x", TRUNK + 2 * n + k) for n in range(count)) for k in range(2)]
    return [*first, tuple(("y", n) for n in range(count))]


def states(graph, dtype, count=3, seed=0):
    """Random ones; the first is 0, the last has a NaN."""
    rng = np.random.default_rng(seed)
    rows = {name: rng.normal(size=(count, *shape)) for name, shape in graph.inputs.items()}
    for x in rows.values():
        x[0] = 0
    next(iter(rows.values()))[-1, -1] = np.nan
    return {name: x.astype(dtype) for name, x in rows.items()}


@settings(max_examples=examples(60), deadline=None)
@given(limbed(), st.sampled_from([1, 2]), st.sampled_from(DTYPES))
def test_a_packed_graph_gives_the_bits_of_the_graph(made, times, dtype):
    graph, count = made
    graph = lower(Program(graph), "cpu", dtype).main
    packed = pack(graph, twins_of(count), count * times)
    rows = states(graph, dtype)
    wanted = reference.evaluate(graph, rows, dtype)
    for n in range(3):
        found = interpreted(packed, count * times, {k: x[n] for k, x in rows.items()}, dtype)
        for name, x in found.items():
            same_bits(x, wanted[name][n])


@settings(max_examples=12, deadline=None)
@given(limbed(), st.sampled_from(DTYPES), st.booleans())
def test_its_machine_code_does(made, dtype, strided):
    graph, count = made
    graph = lower(Program(graph), "cpu", dtype).main
    rows = states(graph, dtype)
    given_rows = [np.repeat(x, 2, -1)[..., ::2] if strided else x for x in rows.values()]
    wanted = reference.evaluate(graph, rows, dtype)
    lanes = max(count, 16 // np.dtype(dtype).itemsize)
    for packed in (pack(graph, twins_of(count), lanes), pack(graph, [], lanes)):
        for name, x in run(packed, lanes, graph, given_rows, dtype).items():
            same_bits(x, wanted[name])


def test_twins_of_a_row_do_not_need_each_other():
    graph = Graph()
    a, b = graph.declare("x", (2,))
    chain = graph.mul(graph.mul(a, a), a)  # as long as two steps of the other limb
    graph.outputs["y"] = Output((3,), (chain, graph.mul(b, b), graph.sqrt(b)))
    found = groups(graph, Terms(graph), [(("x", 0), ("x", 1))])
    assert found[1:] == [(graph.mul(a, a), graph.mul(b, b))]


def test_limbs_that_are_mirrored_are_packed():
    """Signs cost at most a flip, and what has no limb stays."""

    def function(q, w):
        left = q[0].sin() * w[0] - q[0] * w[1]
        right = q[1].sin() * w[1] + q[1] * w[0]
        return {"out": [left, -right, w[0] * w[1]]}

    graph = lower(Program(simplify(trace(function, {"q": 2, "w": 2}))), "cpu", np.float64).main
    packed = pack(graph, [(("q", 0), ("q", 1))], 2)
    alone = pack(graph, [], 2)
    moved = sum(op in MOVES for op in packed.graph.op)
    assert moved <= 3
    assert packed.operations - moved == alone.operations // 2 + 1


def test_signs_of_both_factors_are_one():
    graph = Graph()
    a, b, c, d = graph.declare("x", (4,))
    minus = [graph.node("neg", k) for k in (a, b, c)]
    products = [graph.node("mul", minus[0], minus[2]), graph.node("mul", minus[1], d)]
    graph.outputs["y"] = Output((2,), tuple(products))
    packed = pack(graph, [(("x", 0), ("x", 1)), (("x", 2), ("x", 3))], 2)
    assert [packed.graph.op.count(op) for op in ("mul", "flip", "shuffle")] == [1, 1, 0]
    x = np.array([2.0, 3.0, 5.0, 7.0])
    same_bits(interpreted(packed, 2, {"x": x}, np.float64)["y"], np.array([10.0, -21.0]))


def test_limbs_that_meet_are_packed():
    """What each limb does with the next one takes its numbers from there."""
    graph = Graph()
    q = graph.declare("q", (4,))
    found = {}
    for n, way in enumerate([(1, 2), (2, 1), (1, 2), (2, 1)]):
        found |= {(k, n): graph.div(q[n], q[(n + k) % 4]) for k in way}
    graph.outputs["out"] = Output((2, 4), tuple(found[k, n] for k in (1, 2) for n in range(4)))
    packed = pack(graph, [tuple(("q", n) for n in range(4))], 4)
    assert [op for op in packed.graph.op if op != "input"] == ["shuffle", "div"] * 2
    x = np.array([1.0, 2.0, 4.0, 16.0])
    wanted = np.array([x / np.roll(x, -1), x / np.roll(x, -2)])
    same_bits(interpreted(packed, 4, {"q": x}, np.float64)["out"], wanted)


def test_conditions_are_made_again_where_limbs_differ():
    graph = Graph()
    (p0, p1), (_, q1), (r0, _), (t,) = (graph.declare(x, (2 - (x == "t"),)) for x in "pqrt")
    chosen = [
        graph.select(graph.less(q1, t), p0, graph.constant(0.0)),
        graph.select(graph.less(t, r0), p1, graph.constant(0.0)),
    ]
    graph.outputs["out"] = Output((2,), tuple(chosen))
    packed = pack(graph, [((x, 0), (x, 1)) for x in "pqr"], 2)
    assert packed.graph.op.count("select") == 1
    for seed in range(8):
        rows = states(graph, np.float64, seed=seed)
        given = {name: x[1] for name, x in rows.items()}
        wanted = reference.evaluate(graph, given)["out"]
        same_bits(interpreted(packed, 2, given, np.float64)["out"], wanted)


def test_zeros_of_a_large_matrix_are_stored_in_short_basic_blocks():
    """LLVM's time for a basic block grows with the square of its length."""
    graph = Graph()
    x, y = graph.declare("x", (2,))
    entries = [graph.mul(x, y), *[graph.constant(0.0)] * 8] * 200
    graph.outputs["out"] = Output((1800,), tuple(entries))
    packed = pack(graph, [], 2)
    blocks = single.source(packed, 2, np.dtype(float)).split("\nnext ")
    assert max(block.count("\nstore ") for block in blocks) <= LONGEST_STORE
    rows = np.array([[2.0, 3.0], [5.0, 7.0]])
    wanted = reference.evaluate(graph, {"x": rows})["out"]
    same_bits(run(packed, 2, graph, [rows], np.float64)["out"], wanted)


# Robots


@pytest.mark.parametrize("name", FUNCTIONS)
def test_legs_are_all_of_a_quadruped(name):
    """Its four legs are one, but for signs, where the trunk does not move."""
    model, dtype = fl.load("hyq"), np.dtype(np.float64)
    if jit.widest(dtype) < 4:
        pytest.skip("vectors do not hold four legs")
    graph = lower(Program(dynamics_graph(model, Variant(name))), "cpu", dtype).main
    found = in_lanes(model, Variant(name), graph, dtype)
    assert [*found] == [cheapest(found)] == [4]
    if name != "forward_dynamics_derivatives_from":  # which reads a matrix
        flips = found[4].graph.op.count("flip")
        assert found[4].operations - flips == operations(graph) / 4


@pytest.mark.parametrize(
    ("robot", "root", "names"),
    repeated(
        [
            ("hyq", "fixed", ("forward_dynamics_derivatives", "coriolis_matrix", "kinetic_energy")),
            ("iiwa14", "fixed", ("inverse_dynamics", "mass_matrix")),
            ("hyq", "free", ("inverse_dynamics_derivatives", "mass_matrix_inverse")),
            ("quadruped_arm", "free", ("forward_dynamics", "center_of_mass_jacobian")),
        ],
        2,
    ),
)
@pytest.mark.parametrize("dtype", repeated(DTYPES), ids=lambda d: d.__name__)
def test_single_states_have_the_bits_of_their_graphs(robot, root, names, dtype):
    model = fl.load(robot, root=root)
    rng = np.random.default_rng(0)
    q = model.random_configuration(3, seed=rng).astype(dtype)
    v, a = rng.normal(size=(2, 3, model.nv)).astype(dtype)
    q[0], v[0] = model.neutral(), 0
    v[2, -1] = q[2, -1] = np.nan
    for name in names:
        f = model.function(name)
        rows = dict(zip(f.inputs, (q, v, a), strict=False))
        graph = lower(Program(dynamics_graph(model, Variant(name))), "cpu", dtype).main
        wanted = reference.evaluate(graph, rows, dtype)
        for n in range(3):
            found = f(*[x[n] for x in rows.values()])
            several = found if isinstance(found, tuple) else (found,)
            for x, y in zip(wanted.values(), several, strict=True):
                same_bits(x[n], np.asarray(y))
        assert [loops.single.width for loops in f.loops()] == [1]


def test_wrenches_and_parameters_of_limbs():
    model, other = (fl.load("hyq", root="free") for _ in range(2))
    rng = np.random.default_rng(0)
    q, v, a = model.random_configuration(seed=rng), *rng.normal(size=(2, model.nv))
    f_ext, mass = rng.normal(size=(model.nbodies, 6)), rng.uniform(1, 2, model.nbodies)
    for options in ({"f_ext": f_ext}, {"f_ext": f_ext, "params": {"mass": mass}}):
        one = model.inverse_dynamics(q, v, a, **options)
        rows = [np.array([x, x]) for x in (q, v, a)]
        same_bits(other.inverse_dynamics(*rows, **options)[1], one)
