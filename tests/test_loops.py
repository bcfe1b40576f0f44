"""Loops of files become constraints of the model; functions need them, edits carry them."""

import json
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import featherlane as fl
from featherlane.robot.loaders import xml_text
from featherlane.tools.cli import main
from featherlane.tools.selfcheck import self_check

LINK = (
    '<link name="{}"><inertial><origin xyz="0 .01 .1"/><mass value="{}"/><inertia ixx=".02" '
    'iyy=".03" izz=".01" ixy=".001" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="j{1}" type="continuous"><parent link="{0}"/><child link="{1}"/>'
    '<axis xyz="{3}"/><origin xyz="{2}" rpy="0 .1 0"/></joint>'
)
TREE = [  # parent, child, place, axis
    ("base", "crank", "0 0 0", "0 1 0"),
    ("crank", "coupler", "0 0 .3", "0 1 0"),
    ("base", "rocker", ".4 0 0", "0 1 0"),
    ("rocker", "tip", "0 0 .3", "1 0 0"),
    ("tip", "end", "0 0 .1", "0 1 0"),
]
BALL = "drake:ball_constraint"
LOOPS = {
    "loop_joint": '<loop_joint name="loop" type="{type}"><link1 link="coupler" xyz=".4 0 .1"/>'
    '<link2 link="rocker" xyz="0 0 .3" rpy="0 .2 0"/><axis xyz="0 2 0"/></loop_joint>',
    "drake": f'<{BALL}><{BALL}_body_A name="coupler"/><{BALL}_body_B name="rocker"/>'
    f'<{BALL}_p_AP value=".4 0 .1"/><{BALL}_p_BQ value="0 0 .3"/></{BALL}>',
    "gazebo": '<gazebo><joint name="loop" type="{type}"><parent>rocker</parent>'
    "<child>coupler</child><pose>.4 0 .1 0 .2 0</pose><axis><xyz>0 1 0</xyz></axis></joint>"
    "</gazebo>",
}
WELDED = '<loop_joint name="glue" type="fixed"><link1 link="tip"/><link2 link="end"/></loop_joint>'


def urdf(*loops, kind="revolute"):
    links = [LINK.format(name, mass) for mass, (_, name, *_) in enumerate(TREE, 1)]
    joints = [JOINT.format(*row) for row in TREE]
    parts = ['<link name="base"/>', *links, *joints, *(x.replace("{type}", kind) for x in loops)]
    return f"<robot name='linkage'>{''.join(parts)}</robot>"


def four_bar(*more, **options):
    return fl.load(urdf(LOOPS["loop_joint"], *more), loops="keep", **options)


def states(model, seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(20, seed=seed)
    return q, rng.normal(size=(20, model.nv)), rng.normal(size=(20, model.nv))


# Files


@pytest.mark.parametrize("dialect", LOOPS)
def test_loops_are_refused_dropped_or_kept(dialect):
    text = urdf(LOOPS[dialect])
    with pytest.raises(fl.ModelError, match=r'closed into loops.*loops="keep".*loops="drop"'):
        fl.load(text)
    dropped = fl.load(text, loops="drop")
    assert dropped.loops is None
    assert any("warning: loop closures are dropped" in note for note in dropped.notes)
    assert (dropped.joints, dropped.frames) == (fl.load(urdf()).joints, fl.load(urdf()).frames)
    kept = fl.load(text, loops="keep")
    assert kept.loops.count == 1
    assert not any("gazebo" in note or "loop" in note for note in kept.notes)


@pytest.mark.parametrize(
    ("kind", "item"), [("spherical", fl.Pin), ("revolute", fl.Hinge), ("fixed", fl.Weld)]
)
def test_a_loop_joint_is_a_constraint_between_frames_on_its_links(kind, item):
    model = fl.load(urdf(LOOPS["loop_joint"], kind=kind), loops="keep")
    (loop,) = model.loops.items
    assert type(loop) is item
    assert (loop.frame, loop.to) == ("loop/coupler", "loop/rocker")
    assert model.frame("loop/coupler").placement.p == (0.4, 0, 0.1)
    assert kind != "revolute" or loop.axis == (0, 1, 0)


def test_drake_and_gazebo_say_the_same_as_a_loop_joint():
    ball = fl.load(urdf(LOOPS["loop_joint"], kind="ball"), loops="keep")
    drake = fl.load(urdf(LOOPS["drake"]), loops="keep")
    q, v, tau = states(ball)
    expected = ball.constrained_forward_dynamics(q, v, tau, ball.loops).a
    assert_allclose(drake.constrained_forward_dynamics(q, v, tau, drake.loops).a, expected)


def test_a_joint_of_gazebo_is_closed_at_zero():
    model = fl.load(urdf(LOOPS["gazebo"]), loops="keep")
    assert_allclose(model.constraint_error(np.zeros(model.nq), model.loops), 0, atol=1e-15)
    assert model.frame(model.loops.items[0].frame).placement.p == (0.4, 0, 0.1)


def test_gazebo_fixes_bases_as_root_does():
    ends = "<parent>world</parent><child>base</child>"
    fixed = f'<gazebo><joint name="fix" type="fixed">{ends}</joint></gazebo>'
    assert fl.load(urdf(fixed)).loops is None


BAD = {
    "unknown link": (LOOPS["loop_joint"].replace("rocker", "roker"), "'roker' does not exist"),
    "type": (LOOPS["loop_joint"].replace("{type}", "screw"), "type 'screw'"),
    "axis": (LOOPS["loop_joint"].replace("0 2 0", "0 0 0"), "axis is zero"),
    "two links": ('<loop_joint name="x" type="ball"><link1 link="tip"/></loop_joint>', "<link2>"),
    "frame": (LOOPS["gazebo"].replace("<pose>", '<pose relative_to="base">'), "relative_to"),
    "pose": (LOOPS["gazebo"].replace(".4 0 .1 0 .2 0", "1 2"), "6 finite numbers"),
    "parent": (LOOPS["gazebo"].replace("<parent>rocker", "<parent>rock"), "'rock'"),
}


@pytest.mark.parametrize("name", BAD)
def test_loops_that_cannot_be_read_are_named(name):
    loop, told = BAD[name]
    with pytest.raises(fl.ModelError, match=r"line 1") as caught:
        fl.load(urdf(loop), loops="keep")
    assert told in str(caught.value)


def test_mjcf_couplings_of_followers_and_of_held_joints():
    pytest.importorskip("mujoco")
    bodies = "".join(
        f'<body><joint name="{n}" type="slide" ref="{ref}"/><geom size=".1"/></body>'
        for n, ref in zip("uvwxyz", (0.1, 0.2, 0, 0.3, 0, 0), strict=True)
    )
    law = '<joint joint1="{}" joint2="{}" polycoef="{}"/>'
    laws = [law.format(*x) for x in (("v", "u", "1 2 0 0 0"), ("w", "v", "0 1 3 0 0"))]
    laws += ['<joint joint1="x" polycoef=".5"/>', law.format("y", "x", "1 1 1 0 0")]
    text = f"<mujoco><worldbody>{bodies}</worldbody><equality>{''.join(laws)}</equality></mujoco>"
    model = fl.load(text, loops="keep")
    assert model.joint_names == ("u", "v", "w", "y", "z")
    on_leader, alone = model.loops.items
    assert (on_leader.joint, on_leader.leader, alone.joint, alone.leader) == ("w", "u", "y", None)
    # v - 0.2 = 1 + 2 (u - 0.1) is t; w = t + 3 t^2. x = 0.8; y = 1 + 0.5 + 0.25
    u = 0.7
    t = 1 + 2 * (u - 0.1)
    assert_allclose(np.polynomial.Polynomial(on_leader.polynomial)(u), t + 3 * t**2)
    assert_allclose(alone.polynomial, 1.75)
    circular = text.replace("</equality>", law.format("u", "v", "0 1 3 0 0") + "</equality>")
    with pytest.raises(fl.ModelError, match=r"joint equality4 \(u, v\): both of its joints move"):
        fl.load(circular, loops="keep")


# Functions


def test_functions_whose_results_need_the_loops_say_so(tmp_path):
    model = four_bar()
    q, v, tau = (x[0] for x in states(model))
    call = r"call model\.constrained_forward_dynamics\(q, v, tau, model\.loops\).*without_loops"
    with pytest.raises(ValueError, match=call):
        model.forward_dynamics(q, v, tau)
    with pytest.raises(ValueError, match="constrained_forward_dynamics_derivatives"):
        model.forward_dynamics_derivatives(q, v, a=tau)
    for step in (model.step, model.linearize_step, model.linearize_step_reduced):
        with pytest.raises(ValueError, match=r"pass constraints=model\.loops"):
            step(q, v, tau, 0.001)
        assert all(np.isfinite(x).all() for x in step(q, v, tau, 0.001, constraints=model.loops))
    with pytest.raises(ValueError, match=r"pass constraints=model\.loops"):
        model.rollout(q, v, np.zeros((3, model.nv)), 0.001)
    with pytest.raises(ValueError, match=r"pass constraints=model\.loops"):
        fl.trace(lambda q: model.step(q, v, tau, 0.001).q, {"q": 5})
    for name in ("forward_dynamics", "step", "forward_dynamics_hessian_product"):
        with pytest.raises(ValueError, match="would not keep its 1 loop"):
            model.function(name)
    with pytest.raises(ValueError, match=r"pass constraints=model\.loops"):
        fl.ilqr(model, q, v, np.zeros((4, model.nv)), 0.01, lambda q, v, tau: tau @ tau)
    with pytest.raises(ValueError, match="would not keep its 1 loop"):
        fl.generate(model, tmp_path, ["forward_dynamics"])
    with pytest.raises(ValueError, match=r"without 'Hinge loop/coupler to loop/rocker'"):
        model.constrained_forward_dynamics(q, v, tau, model.constraints([fl.Pin("end")]))
    both = model.constraints([*model.loops.items, fl.Pin("end", axes="y")])
    assert model.constrained_forward_dynamics(q, v, tau, both).force.shape == (6,)


def test_all_functions_are_those_that_a_robot_with_loops_has(tmp_path):
    model = four_bar()
    others = "forward_dynamics, forward_dynamics_derivatives"
    with pytest.warns(UserWarning, match=f"needs the robot's loops as constraints: {others}"):
        compiled = model.compile(dtype="f4")
    assert [*compiled] == [x for x in fl.FUNCTIONS if not x.startswith("forward_dynamics")]
    with pytest.warns(UserWarning, match="left out"):
        files = fl.generate(model, tmp_path)
    header = files[0].read_text()
    assert all((f"_{name}(" in header) == (name in compiled) for name in fl.FUNCTIONS)


def test_functions_of_the_tree_stay_and_without_loops_moves_it():
    model, tree = four_bar(), fl.load(urdf())
    q, v, tau = states(model)
    assert_allclose(model.mass_matrix(q), tree.mass_matrix(q))
    assert_allclose(model.inverse_dynamics(q, v, tau), tree.inverse_dynamics(q, v, tau))
    free = model.without_loops()
    assert free.loops is None
    assert_allclose(free.forward_dynamics(q, v, tau), tree.forward_dynamics(q, v, tau))


def test_the_card_and_the_command_line_show_loops(capsys, tmp_path):
    model = four_bar(WELDED).with_loops(four_bar().loops, kp=100, kd=20)
    assert "loops, 5 rows, which hold with constraints=model.loops" in str(model)
    assert "Hinge loop/coupler to loop/rocker, kp 100, kd 20" in str(model)
    path = tmp_path / "linkage.urdf"
    path.write_text(urdf(LOOPS["loop_joint"]))
    assert main(["info", str(path), "--loops", "keep", "--cost"]) == 0
    out = capsys.readouterr().out
    assert "Hinge loop/coupler to loop/rocker" in out
    assert "forward_dynamics " not in out
    assert main(["info", str(path), "--loops", "keep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["loops"] == ["Hinge loop/coupler to loop/rocker"]


def test_commands_that_measure_and_compare_keep_loops(tmp_path, capsys):
    """They leave out the functions that need the loops, and say so."""
    path = tmp_path / "closed.urdf"
    path.write_text(urdf(LOOPS["loop_joint"]))
    checks = self_check(fl.load(path, loops="keep"), ["float64"], lambda text: None)
    assert {check.name for check in checks if check.passed} >= {"ID(a) - ID(0) = M a"}
    pytest.importorskip("pinocchio")
    assert main(["check", str(path), "--states", "5"]) == 0
    assert "left out what needs the robot's loops" in capsys.readouterr().out


# Edits


def test_other_names():
    model = four_bar(WELDED).with_loops(four_bar(WELDED).loops, kp=[5, 6], kd=7)
    other = model.renamed(joints=str.upper, bodies=str.upper, frames=str.upper)
    assert other.loops.items[0].frame == "LOOP/COUPLER"
    assert other.loops.kp == (5, 6)
    q, v, tau = states(model)
    before = model.constrained_forward_dynamics(q, v, tau, model.loops)
    after = other.constrained_forward_dynamics(q, v, tau, other.loops)
    assert_allclose(after.a, before.a)
    assert_allclose(after.force, before.force)
    assert pickle.loads(pickle.dumps(other)) == other != model
    coupled = model.with_loops([fl.Coupling("jend", "jcrank", (0, 2))]).renamed(joints=str.upper)
    assert coupled.loops.items == (fl.Coupling("JEND", "JCRANK", (0, 2)),)


def test_another_order():
    model, other = four_bar(), four_bar(joint_order="breadth-first")
    order = [model.joint_names.index(name) for name in other.joint_names]
    assert order != sorted(order)
    q, v, tau = states(model)
    before = model.constrained_forward_dynamics(q, v, tau, model.loops)
    after = other.constrained_forward_dynamics(*(x[:, order] for x in (q, v, tau)), other.loops)
    assert_allclose(after.a, before.a[:, order])
    assert_allclose(after.force, before.force, atol=1e-9)


def test_another_root():
    model = four_bar(WELDED, root="free")
    model = model.with_loops([*model.loops.items, fl.Coupling("jtip", "jcrank", (0, 1, 2))], kp=3)
    change = fl.editing.rerooting(model, "end")
    q, v, tau = states(model)
    there = change.to(q, v=v, tau=tau)
    a, force = change.model.constrained_forward_dynamics(*there[:2], there.tau, change.model.loops)
    before = model.constrained_forward_dynamics(q, v, tau, model.loops)
    back = change.back(there.q, v=there.v, a=a)
    assert_allclose(back.a, before.a, rtol=1e-7, atol=1e-7)
    assert_allclose(force, before.force, rtol=1e-7, atol=1e-7)


def test_a_frame_named_by_its_joint_stays_where_it_is():
    free = fl.load(urdf(), root="free").with_loops([fl.Pin("jcoupler", "jend")])
    assert free.loops.items == (fl.Pin("coupler", "end"),)
    change = fl.editing.rerooting(free, "end")
    q, _, _ = states(free)
    there = change.model.constraint_error(change.to(q).q, change.model.loops)
    assert_allclose(there, free.constraint_error(q, free.loops), atol=1e-12)


def test_robots_that_are_attached_bring_their_loops():
    whole = fl.attach(four_bar(), four_bar(), "end", prefix="second_")
    assert whole.loops.names == (
        "Hinge loop/coupler to loop/rocker",
        "Hinge second_loop/coupler to second_loop/rocker",
    )


def test_locked_joints():
    """The same as the whole robot with the joint held by a coupling; a loop made rigid goes."""
    model = four_bar(WELDED)
    more = fl.Coupling("jrocker", "jend", (0.1, 2.0, 1.0))
    model = model.with_loops([*model.loops.items, more], kp=[1, 2, 3], kd=[4, 5, 6])
    locked = model.reduced({"jend": 0.3})
    assert locked.loops.names[1:] == ("Coupling jrocker = 0.79",)
    assert (locked.loops.kp, locked.loops.kd) == ((1, 3), (4, 6))
    assert any("loops within one body are dropped: Weld tip to end" in n for n in locked.notes)
    assert any("not closed: Weld tip to end (0.1 m)" in n for n in locked.notes)
    whole = model.without_loops()
    items = [model.loops.items[0], more, fl.Coupling("jend", None, (0.3,))]
    held = whole.constraints(items, kp=[1, 3, 0], kd=[4, 6, 0])
    k = model.joint_names.index("jend")
    q, v, tau = states(model)
    q[:, k], v[:, k] = 0.3, 0
    a, force = whole.constrained_forward_dynamics(q, v, tau, held)
    state = (np.delete(x, k, -1) for x in (q, v, tau))
    ours = locked.constrained_forward_dynamics(*state, locked.loops)
    assert_allclose(ours.a, np.delete(a, k, -1), rtol=1e-7, atol=1e-7)
    assert_allclose(ours.force, force[:, :6], rtol=1e-7, atol=1e-7)


def test_a_follower_that_is_locked_holds_the_leader_of_a_line():
    model = four_bar().with_loops([fl.Coupling("jend", "jcrank", (0.1, 2.0))])
    assert model.reduced({"jend": 0.5}).loops.items == (fl.Coupling("jcrank", None, (0.2,)),)
    assert model.reduced({"jend": 0.5, "jcrank": 0.2}).loops is None
    curved = four_bar().with_loops([fl.Coupling("jend", "jcrank", (0.1, 2.0, 1.0))])
    with pytest.raises(ValueError, match="lock both of its joints, or neither"):
        curved.reduced({"jend": 0.5})


def test_gains_and_level_of_loops_are_those_given_or_those_they_have():
    model = four_bar()
    loops = model.constraints(model.loops, kp=np.array([9.0]), kd=6, level="acceleration")
    assert (loops.kp, loops.kd, loops.level) == ((9,), (6,), "acceleration")
    assert model.constraints(loops) == loops
    q, v, tau = (x[0] for x in states(model))
    held = [model.step(q, v, tau, 0.01, constraints=c).v for c in (model.loops, loops)]
    assert not np.allclose(*held)


def test_loops_stay_closed_over_steps():
    model = four_bar()
    closed = model.close(np.zeros(model.nq), model.loops)
    assert closed.converged
    tau = np.zeros((2000, model.nv))
    path = model.rollout(closed.q, np.zeros(model.nv), tau, 0.001, constraints=model.loops)
    errors = np.abs(model.constraint_error(path.q, model.loops)).max()
    assert np.abs(path.v).max() > 1
    assert errors < 1e-3


def test_the_bundled_gripper_moves_as_with_mimic_joints():
    """Its fingers are parallelograms, so that all its joints turn by the same angle."""
    model = fl.load("robotiq_2f_85", loops="keep")
    text = xml_text("robotiq_2f_85")[0].decode()
    text = re.sub("<loop_joint.*?</loop_joint>", "", text, flags=re.DOTALL)
    signs = {"left_finger_tip": -1, "left_inner_knuckle": 1}
    signs |= {"right_finger_tip": 1, "right_inner_knuckle": -1}
    for joint, sign in signs.items():
        law = f'<mimic joint="robotiq_85_left_knuckle_joint" multiplier="{sign}"/></joint>'
        text = re.sub(
            f'(?s)(robotiq_85_{joint}_joint" type.*?)</joint>', rf"\1{law}", text, count=1
        )
    mimic = fl.load(text)
    assert (model.nv, mimic.nv) == (5, 1)
    knuckle = model.first_v[model.joint_names.index("robotiq_85_left_knuckle_joint")]
    turns = np.array(
        [signs.get(n[11:-6], 1) for n in np.array(model.joint_names)[[*model.independent]]]
    )
    angles, speeds, torques = np.random.default_rng(0).normal(size=(3, 10, 1)) * [
        [[0.3]],
        [[2]],
        [[0.1]],
    ]
    tau = np.zeros((10, 5))
    tau[:, [knuckle]] = torques
    a, _ = model.constrained_forward_dynamics(angles * turns, speeds * turns, tau, model.loops)
    expected = mimic.forward_dynamics(angles, speeds, torques)
    assert_allclose(a, expected * turns, rtol=1e-6)
    assert_allclose(model.constraint_error(angles * turns, model.loops), 0, atol=1e-15)
