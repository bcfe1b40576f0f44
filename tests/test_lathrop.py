"""Lathrop's two forms: that they are inverse dynamics, and that their graphs have his figures."""

from math import ceil, log2

import numpy as np
import pytest
from documents import ROOT, blocks
from lathrop.arms import general_arm, general_node
from lathrop.path import availability, critical_path
from lathrop.schedule import ProcessingUnit, asap
from lathrop.tasks import grouped, tasks

import featherlane as fl
from featherlane.algorithms import lathrop
from featherlane.algorithms.lathrop import linear, logarithmic
from featherlane.algorithms.lathrop.linear import FrameMotion, frame_motion
from featherlane.algorithms.lathrop.operations import ArmLink, PipelineNode
from featherlane.api.random_robots import random_rotation
from featherlane.robot.tree_of import build_tree

FORMS = pytest.mark.parametrize("form", [linear, logarithmic])


def graph(form, joints, **given):
    return fl.trace(*general_arm(form, joints, **given))


def numbers(inputs, seed):
    """Values for the inputs of a general arm, with matrices that turn."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=shape) for name, shape in inputs.items()}
    for A in (values["A"], values["tip_A"][None]):
        A[:] = [random_rotation(rng) for _ in A]
    values["J"] += values["J"].swapaxes(1, 2)
    values["s"] = values["p"] + values["r"]
    return values


def evaluate(form, joints, values):
    function, inputs = general_arm(form, joints)
    found = function(*[values[name].tolist() for name in inputs])
    return np.array(found["f"]), np.array(found["n"])


# That they are inverse dynamics


@FORMS
@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("types", [("revolute",), ("prismatic",), ("revolute", "prismatic")])
def test_both_forms_are_inverse_dynamics(form, n, types):
    model = fl.random_tree(n, 1, types, physics=True, seed=n)
    q, v, a = np.random.default_rng(n).normal(size=(3, n))
    tau = lathrop.inverse_dynamics(build_tree(model, regroup=False), q, v, a, form)
    np.testing.assert_allclose(tau, model.inverse_dynamics(q, v, a), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("joints", ["R", "T", "RT", "TRR", "RRTRTTR", "RRRRRRRR"])
def test_the_forms_agree_on_a_moving_base_with_a_loaded_tip(joints):
    values = numbers(general_arm(linear, joints)[1], len(joints))
    serial, joined = evaluate(linear, joints, values), evaluate(logarithmic, joints, values)
    np.testing.assert_allclose(joined, serial, rtol=1e-11, atol=1e-10)


@FORMS
def test_an_arm_can_be_cut_in_two(form):
    """What is beyond a joint moves on the first half as its base, and pulls at it as at its tip."""
    joints, k = "RRRTTR", 3
    values = numbers(general_arm(linear, joints)[1], 1)
    f, n = evaluate(linear, joints, values)
    outward = lambda link, before: frame_motion(PipelineNode(""), link, before)._asdict()
    function, inputs = general_node(outward, link=ArmLink, before=FrameMotion)
    per_link = [name.removeprefix("link.") for name in inputs if name.startswith("link.")]
    at = [values["w0"], values["dw0"], values["a0"]]
    for i in range(k):
        at = [*function(*[values[x][i].tolist() for x in per_link], *map(list, at)).values()]
    own = {name: values[name][k:] for name in per_link}
    base = dict(zip(("w0", "dw0", "a0"), map(np.array, at), strict=True))
    outer = evaluate(form, joints[k:], values | own | base)
    np.testing.assert_allclose(outer, (f[k:], n[k:]), rtol=1e-10, atol=1e-10)
    own = {name: values[name][:k] for name in per_link}
    tip = {"tip_A": values["A"][k], "tip_f": f[k], "tip_n": n[k]}
    inner = evaluate(form, joints[:k], values | own | tip)
    np.testing.assert_allclose(inner, (f[:k], n[:k]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("robot", "words"),
    [
        (fl.random_tree(4, 2, ("revolute",), seed=0), "chain"),
        (fl.chain(2, 0, ("helical",)), "helical"),
        (fl.chain(2, 0, ("spherical",)), "spherical"),
    ],
)
def test_other_robots_are_refused(robot, words):
    with pytest.raises(ValueError, match=words):
        lathrop.arm_of(build_tree(robot, regroup=False), robot.neutral(), [0.0] * 9, [0.0] * 9)


def test_a_body_whose_mass_is_regrouped_is_refused():
    slides = fl.chain(2, 0, ("prismatic", "revolute"))
    with pytest.raises(ValueError, match="regroup=False"):
        lathrop.arm_of(slides.tree, [0.0] * 2, [0.0] * 2, [0.0] * 2)


@pytest.mark.parametrize("joints", ["", "RX", "r"])
def test_joints_are_letters(joints):
    with pytest.raises(ValueError, match="'R' or 'T'"):
        general_arm(linear, joints)


# Table 1


def pairs(found, **options):
    """The longest chain, and the longest ones in multiplications and in additions alone."""
    mul = critical_path(found, {"mul": 1, "add": 0}, **options).length
    add = critical_path(found, {"mul": 0, "add": 1}, **options).length
    return critical_path(found, **options).pair, (mul, add)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 11])
def test_the_linear_form_is_as_deep_as_the_paper_says(n):
    assert pairs(tasks(graph(linear, "R" * n))) == ((2 * n + 3, 6 * n + 7),) * 2


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 9, 13])
def test_the_logarithmic_form_at_rest_is_as_deep_as_the_paper_says(n):
    L = ceil(log2(n))
    found = tasks(graph(logarithmic, "R" * n, spin=False, tip=False))
    assert pairs(found) == ((2 * L + 5, 6 * L + 10),) * 2


@pytest.mark.parametrize("n", [3, 4, 6, 7, 8, 12])
def test_the_logarithmic_form_with_base_and_tip_is_less_deep(n):
    L = ceil(log2(n + 1))
    assert pairs(tasks(graph(logarithmic, "R" * n))) == ((2 * L + 4, 6 * L + 8),) * 2


@pytest.mark.parametrize("joints", ["TTTTTT", "RTRTRT", "TRRRRR"])
def test_translational_joints_are_no_deeper(joints):
    assert critical_path(tasks(graph(linear, joints))).length <= 15 + 43
    assert critical_path(tasks(graph(logarithmic, joints))).length <= 11 + 28


# Table 4


@pytest.fixture(scope="module")
def table4():
    """What the document defines for its table."""
    names = {"fl": fl, "general_node": general_node, "tasks": tasks, "availability": availability}
    (code,) = [c for _, c, _ in blocks(ROOT / "docs" / "lathrop.md") if "OUTWARD = {" in c]
    exec(code, names)
    return names


@pytest.mark.parametrize("seed", range(5))
def test_each_step_is_done_when_table_4_says(table4, seed):
    mul, add, *times = np.random.default_rng(seed).integers(0, 30, 7).tolist()
    latency = {"mul": mul, "add": add}
    a, b, e, h, k = times
    come = {"before.w": a, "before.dw": b, "before.a": e}
    found = table4["measured"](table4["outward"], latency, come)
    paper = table4["formulas"](table4["OUTWARD"], latency, {"a": a, "b": b, "e": e})
    assert found == paper
    early = {"load.F": -1000, "load.N": -1000}
    found = table4["measured"](table4["inward"], latency, early | {"above.f": h, "above.n": k})
    paper = table4["formulas"](table4["INWARD"], latency, {"h": h, "k": k})
    assert {step: found[step] for step in paper} == paper


def test_variables_follow_each_other_at_fixed_distances():
    found = tasks(graph(linear, "RRRRRR"))
    times = dict(zip(map(str, found.names), availability(found), strict=True))
    for i in range(1, 7):
        w = 4 * i
        assert [times[f"out {i} {x}"] for x in ("w", "dw", "a")] == [w, w + 3, w + 7]
    assert [times[f"in {i} f"] for i in range(6, 0, -1)] == [34 + 4 * i for i in range(6)]


# Table 6


def processors(found):
    kinds = [found.kinds[k] for k in found.work()]
    assert set(kinds) <= {"MV", "VC", "VA", "SV"}
    return len(kinds)


def test_a_node_has_as_many_processors_as_the_paper_says(table4):
    assert processors(grouped(table4["outward"])) == 22
    assert processors(grouped(table4["inward"])) == 8
    assert processors(grouped(graph(linear, "RRRRRR"))) == 132 + 48


def test_six_joints_at_rest_join_seven_pairs_each_way():
    """The 13 nodes of table 6 are these and one for each link."""
    found = grouped(graph(logarithmic, "RRRRRR", spin=False, tip=False))
    nodes = {found.names[k].node for k in found.work()} - {"out 0,1"}  # the first on its base
    ends = [tuple(map(int, node.split()[1].split(","))) for node in nodes]
    outward = [end for node, end in zip(nodes, ends, strict=True) if node.startswith("out")]
    assert len([1 for a, b in outward if a != b]) == 7
    assert len([1 for a, b in ends if a != b]) == 14


@FORMS
def test_results_can_follow_each_other_every_four_flops(form):
    units = {
        "MV": ProcessingUnit(3, 3),
        "VC": ProcessingUnit(2, 2),
        "VA": ProcessingUnit(1),
        "SV": ProcessingUnit(1),
    }
    plan = asap(grouped(graph(form, "RRRRRR")), units)
    plan.verify()
    assert plan.length == critical_path(plan.tasks, {"MV": 3, "VC": 2, "VA": 1, "SV": 1}).length
    assert plan.fits(4)
    assert plan.period == 3
