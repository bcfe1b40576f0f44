"""Robots on a plane in MuJoCo, whose feet are spheres, with random states and MuJoCo's
accelerations; `solved` has those of featherlane.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import peer_models

import featherlane as fl
from featherlane.algorithms.frames import frame_transform, jacobian
from featherlane.algorithms.soft.contacts import ConeModel, Touch, soft_contact
from featherlane.algorithms.soft.dynamics import soft_forward_dynamics
from featherlane.algorithms.soft.inverse_weights import inverse_weights
from featherlane.algorithms.soft.softness import Softness
from featherlane.algorithms.sparse_rows import combined, sparse
from featherlane.robot.parts import Frame
from featherlane.robot.tree_of import tree_of

FRICTION = 0.8, 0.02, 0.01


class Robot(NamedTuple):
    model: fl.Model
    feet: tuple  # body, place and radius of each
    stance: np.ndarray  # of the joints

    def frame(self, foot):
        """The frame of a foot on its body of the tree."""
        placement = fl.Placement.of(np.eye(3), self.feet[foot][1])
        return tree_of(self.model).point(Frame("", self.body(foot), placement))

    def body(self, foot):
        return self.model.body_names.index(self.feet[foot][0])


def hyq():
    feet = tuple((f"{leg}_lowerleg", (0.341, 0, 0), 0.021) for leg in ("lf", "rf", "lh", "rh"))
    return Robot(fl.load("hyq", root="free"), feet, [-0.2, 0.75, -1.5, -0.2, -0.75, 1.5] * 2)


def g1():
    corners = ((-0.05, 0.025), (-0.05, -0.025), (0.12, 0.03), (0.12, -0.03))
    feet = tuple(
        (f"{side}_ankle_roll_link", (x, y, -0.03), 0.005)
        for side in ("left", "right")
        for x, y in corners
    )
    leg = [-0.3, 0, 0, 0.6, -0.3, 0]
    return Robot(fl.load("g1", root="free"), feet, [*leg, *leg, *[0] * 17])


class Scene(NamedTuple):
    robot: Robot
    peer: object
    cone: str
    condim: int
    softness: Softness


def scene(robot, cone="elliptic", condim=3, impratio=1.0, softness=None, margin=0.0):
    """The robot on a plane in MuJoCo, whose solver goes on until it stands still."""
    import mujoco

    softness = softness or Softness()
    spec = peer_models.mujoco_spec(robot.model)
    spec.option.disableflags = 0
    spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone.upper()}")
    spec.option.impratio, spec.option.tolerance, spec.option.iterations = impratio, 0, 200
    spec.option.ls_iterations, spec.option.ls_tolerance = 200, 1e-10
    numbers = {"friction": FRICTION, "solref": softness.solref, "solimp": softness.solimp}
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 1), condim=1, contype=0, **numbers
    )
    for body, place, radius in robot.feet:
        spec.body(body).add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(radius, 0, 0), pos=place, mass=0,
            condim=condim, conaffinity=0, margin=margin, **numbers,
        )  # fmt: skip
    return Scene(robot, spec.compile(), cone, condim, softness)


def states(s, n, seed=0):
    """Random q, v and tau near the stance, with some feet up to 1 cm in the ground."""
    rng, model = np.random.default_rng(seed), s.robot.model
    spread = np.resize([0.02, 0.1, 0.4], n)[:, None]
    q = np.tile(model.neutral(), (n, 1))
    turn = rng.normal(size=(n, 3)) * spread
    q = model.integrate(q, np.hstack([np.zeros((n, 3)), turn, np.zeros((n, model.nv - 6))]))
    q[:, 7:] = s.robot.stance + rng.normal(size=(n, model.nv - 6)) * spread
    heights = [gap(s.robot, foot, q) for foot in range(len(s.robot.feet))]
    order = np.sort(np.transpose(heights), axis=1)
    q[:, 2] -= order[np.arange(n), rng.integers(0, order.shape[1], n)] + rng.uniform(0, 0.01, n)
    v = rng.normal(size=(n, model.nv)) * rng.choice([0.1, 1, 3], (n, 1))
    tau = rng.normal(size=(n, model.nv)) * rng.choice([0, 10, 30], (n, 1))
    tau[:, :6] = 0
    return q, v, tau


def gap(robot, foot, q):
    """The distance of a foot from the plane."""
    X = frame_transform(tree_of(robot.model), [*q.T], robot.frame(foot))
    return X.r[2] - robot.feet[foot][2]


def accelerations(s, q, v, tau):
    """MuJoCo's, in featherlane's coordinates."""
    import mujoco

    there = fl.convert.to_mujoco(s.robot.model, q, v=v, tau=tau)
    d, result = mujoco.MjData(s.peer), np.empty_like(v)
    for i, (qpos, qvel, force) in enumerate(zip(there.q, there.v, there.tau, strict=True)):
        d.qpos[:], d.qvel[:], d.qfrc_applied[:], d.qacc_warmstart[:] = qpos, qvel, force, 0
        mujoco.mj_forward(s.peer, d)
        result[i] = d.qacc
    return fl.convert.from_mujoco(s.robot.model, there.q, v=there.v, a=result).a


def touch(s, foot, q, weights):
    """A foot's contact, for arrays of states, with MuJoCo's tangents y and -x."""
    robot, distance = s.robot, gap(s.robot, foot, q)
    J = jacobian(tree_of(robot.model), [*q.T], robot.frame(foot), "world")
    down = -(robot.feet[foot][2] + 0.5 * distance)  # from the centre to the point
    (x, y, z), (wx, wy, wz) = ([sparse(row) for row in half] for half in (J[:3], J[3:]))
    normal, along_y, along_x = (
        z,
        combined({0: 1.0, 1: -down}, [y, wx]),
        combined({0: 1.0, 1: down}, [x, wy]),
    )
    rows = [normal, along_y, negative(along_x), wz, wy, negative(wx)][: s.condim]
    slide, torsion, roll = FRICTION
    friction = [slide, slide, torsion, roll, roll][: s.condim - 1]
    return Touch(rows, distance, friction, weights.between(robot.body(foot)).linear)


def negative(row):
    return {k: -x for k, x in row.items()}


def solved(s, q, v, tau, steps, margin=0.0):
    """Accelerations and residuals of featherlane, for arrays of states."""
    tree = smooth(s.robot.model)
    cones = ConeModel(s.cone, float(s.peer.opt.impratio), s.peer.opt.timestep)
    weights = inverse_weights(s.robot.model)
    touches = (touch(s, foot, q, weights) for foot in range(len(s.robot.feet)))
    constraints = [
        soft_contact(x._replace(gap=x.gap - margin), [*v.T], s.softness, cones).constraint
        for x in touches
    ]
    a, _, residual = soft_forward_dynamics(tree, [*q.T], [*v.T], [*tau.T], constraints, steps)
    return np.transpose(np.broadcast_arrays(*a)), residual


def smooth(model):
    """The tree of a robot without the friction of its joints."""
    return replace(tree_of(model), frictions=((),) * model.nv)


def relative_errors(a, expected):
    return np.linalg.norm(a - expected, axis=1) / np.linalg.norm(expected, axis=1)
