"""The ground of generated pages: which robots have one, and where they stand on it."""

import json

import numpy as np
import pytest
from ground_robots import ball, quadruped
from test_wasm import node, run

import featherlane as fl
from featherlane.api.page_ground import POINTS, step_on_page
from featherlane.api.stances import stance

LEGS = ("FL", "FR", "RL", "RR")


def ground_of(model, step=None, ground="auto", limit=None):
    step = step_on_page(model, step, ground, limit)
    return step.ground, step.facts(model)["ground"]


def test_robots_with_shapes_and_a_free_root_have_the_ground():
    assert ground_of(quadruped()) == (fl.Ground(), {"points": 4, "height": 0.0})
    for robot, why in (
        (fl.load("double_pendulum"), "its root is fixed"),
        (fl.load("double_pendulum", root="free"), "its file has no collision shapes"),
    ):
        assert ground_of(robot) == (None, {"points": 0, "why": why})
    assert ground_of(quadruped(), limit=1000)[1]["why"] == "its code would be too long"
    assert ground_of(quadruped(), ground=None)[0] is None
    lifted = fl.Ground(0.2, shapes=["FL_foot"])
    told = {"points": 1, "height": 0.2, "shapes": [1, 4]}
    assert ground_of(quadruped(), ground=lifted) == (lifted, told)


def with_spheres(n):
    """The quadruped with a box as its trunk, and n spheres along each shank besides its foot."""
    shapes = {"trunk": [fl.CollisionShape("body", "box", (0.2, 0.1, 0.05))]}
    for leg in LEGS:
        places = [fl.Placement.of(np.eye(3), (0, 0, -0.19 * (k + 1) / n)) for k in range(n)]
        shapes[f"{leg}_shank"] = [
            fl.CollisionShape(f"{leg}{k}", "sphere", (0.02,), placement=place)
            for k, place in enumerate(places)
        ]
    return quadruped().with_collision_shapes(shapes)


@pytest.mark.parametrize(("spheres", "points", "shapes"), [(2, 16, None), (3, 16, 16), (4, 4, 4)])
def test_of_many_shapes_the_last_ones_touch(spheres, points, shapes):
    """All, those on the last bodies of limbs, or the farthest one of each of these."""
    ground, told = ground_of(with_spheres(spheres))
    assert told["points"] == points <= POINTS
    assert told.get("shapes") == (shapes and [shapes, 4 * spheres + 5])
    if shapes == 4:
        assert sorted(ground.shapes) == [f"{leg}_foot" for leg in LEGS]


def test_more_points_than_a_page_takes_are_told():
    feet = "".join(
        f'<body pos="{x} 0 0"><joint axis="0 1 0"/>'
        f'<geom name="foot{x}" type="box" size=".1 .1 .1"/></body>'
        for x in range(5)
    )
    robot = fl.load(
        f'<mujoco><worldbody><body name="row"><freejoint/><inertial pos="0 0 0" mass="1" '
        f'diaginertia="1 1 1"/>{feet}</body></worldbody></mujoco>'
    )
    ground, told = ground_of(robot)
    assert ground is None
    assert told["why"].startswith("its shapes have 20 contact points with it, more than 16; name")


def test_a_step_of_ones_own_stays():
    robot = quadruped()
    assert ground_of(robot, step="step")[1]["why"] == "generate was asked for this step by name"
    own = robot.graph("step", ground=fl.Ground(0.1), ground_params=["impulse"])
    step = step_on_page(robot, own, fl.Ground(0.1), None)
    assert step.step is own
    assert step.facts(robot)["ground"] == {"points": 4, "height": 0.1}
    with pytest.raises(ValueError, match="ground is passed, and the step among functions has none"):
        step_on_page(robot, "step", fl.Ground(), None)


@pytest.mark.parametrize("ground", ["yes", True, 0.0])
def test_what_is_no_ground_is_refused(ground, tmp_path):
    with pytest.raises(TypeError, match=r"ground is .*: wanted fl.Ground\(...\), 'auto' or None"):
        fl.generate(quadruped(), tmp_path, ["mass_matrix"], target="wasm", ground=ground)


def test_other_targets_have_no_ground(tmp_path):
    with pytest.raises(ValueError, match="ground is for target 'wasm', and target is 'c'"):
        fl.generate(quadruped(), tmp_path, ["mass_matrix"], ground=fl.Ground())


# Where robots stand


def test_a_stance_has_its_centre_of_mass_over_its_feet():
    """Go2's knees have no neutral position within their limits: its thighs make up for it."""
    robot = fl.load("go2", root="free")
    lower, upper = robot.position_limits
    q = stance(robot, fl.Ground(0.3))
    assert (lower <= q).all()
    assert (q <= upper).all()
    assert q[9] == upper[9]  # a calf
    feet = [s for s in robot.collision_shapes if s.kind == "sphere" and s.name in names(robot)]
    places = np.array([place(robot, q, shape) for shape in feet])
    assert np.allclose(places[:, 2] - [s.size[0] for s in feet], 0.3, atol=2e-3)
    assert np.allclose(robot.center_of_mass(q)[:2], places[:, :2].mean(0), atol=2e-3)


def names(robot):
    return {each.shape for each in robot.contact_names(fl.Ground())}


def place(robot, q, shape):
    body = robot.frame_placement(q, robot.body_names[shape.body])
    return body[:3, :3] @ shape.placement.p + body[:3, 3]


def test_robots_that_stand_keep_their_neutral_joints():
    q = stance(quadruped(), fl.Ground())
    lower, upper = quadruped().position_limits
    assert np.array_equal(q[7:], np.clip(np.zeros(8), lower[7:], upper[7:]))


def test_a_keyframe_comes_first():
    text = """<mujoco><worldbody><body name="b"><freejoint/><geom type="box" size="1 1 1"/>
<body pos="0 0 1"><joint name="arm" axis="0 1 0"/><geom type="sphere" size=".1" pos="0 0 1"/></body>
</body></worldbody><keyframe><key name="home" qpos="0 0 5 1 0 0 0 0.3"/></keyframe></mujoco>"""
    assert stance(fl.load(text), fl.Ground()) == pytest.approx([0, 0, 1, 0, 0, 0, 1, 0.3])


def test_a_ball_rests_on_a_point():
    assert stance(ball(), fl.Ground(0.5)) == pytest.approx([0, 0, 0.6, 0, 0, 0, 1])


# The modules


STAND = """
import { readFileSync } from 'node:fs'
import { load } from './mine.mjs'
const made = await load(), { stance, ground, coordinates } = made.about
const { inputs, outputs, run } = made.batch('step')
inputs.q.set(stance)
inputs.dt[0] = 1e-3
for (let k = 0; k < 1000; k++) {
  for (const { q, v } of coordinates) inputs.tau[v] = 40 * (stance[q] - inputs.q[q]) - inputs.v[v]
  run()
  inputs.q.set(outputs.q_next)
  inputs.v.set(outputs.v_next)
  inputs.impulse.set(outputs.impulse_next)
}
const force = [...outputs.contact_force].filter((_, n) => n % 3 === 2)
console.log(JSON.stringify({ ground, q: [...inputs.q], stance, force }))
"""


@node
def test_the_step_of_a_module_bears_the_robot(tmp_path):
    robot = quadruped()
    fl.generate(robot, tmp_path, ["mass_matrix"], target="wasm", name="mine")
    stands = json.loads(run(tmp_path, STAND))
    assert stands["ground"] == {"points": 4, "height": 0}
    assert stands["q"][2] == pytest.approx(stands["stance"][2], abs=0.03)
    assert sum(stands["force"]) == pytest.approx(robot.mass * 9.81, rel=0.01)


def test_a_page_without_the_ground_is_smaller(tmp_path):
    sizes = []
    for ground in ("auto", None):
        files = fl.generate(quadruped(), tmp_path, ["mass_matrix"], target="wasm", ground=ground)
        sizes.append([file.stat().st_size for file in files if file.suffix in (".wasm", ".html")])
    assert all(small < 0.6 * large for large, small in zip(*sizes, strict=True))
