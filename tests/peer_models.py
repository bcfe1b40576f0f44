"""The same robot in other libraries, built joint by joint from a Model: no file, no loader."""

import numpy as np

from featherlane.robot.parts import WORLD

UNITS = [tuple(map(float, unit)) for unit in np.eye(3)]

# Pinocchio


def _pinocchio_joint(pin, joint):
    axis, axis2 = np.array(joint.axis), np.array(joint.axis2)
    if joint.type == "cylindrical":
        both = pin.JointModelComposite()
        both.addJoint(pin.JointModelRevoluteUnaligned(axis))
        both.addJoint(pin.JointModelPrismaticUnaligned(axis))
        return both
    if joint.axis in UNITS and joint.type in ("revolute", "prismatic", "helical"):
        kind = {"revolute": "R", "prismatic": "P", "helical": "H"}[joint.type]
        aligned = getattr(pin, f"JointModel{kind}{'XYZ'[UNITS.index(joint.axis)]}")
        return aligned(joint.pitch) if kind == "H" else aligned()
    return {
        "revolute": lambda: pin.JointModelRevoluteUnaligned(axis),
        "prismatic": lambda: pin.JointModelPrismaticUnaligned(axis),
        "helical": lambda: pin.JointModelHelicalUnaligned(axis, joint.pitch),
        "universal": lambda: pin.JointModelUniversal(axis, axis2),
        "spherical": pin.JointModelSpherical,
        "translation": pin.JointModelTranslation,
        "planar": pin.JointModelPlanar,
        "free": pin.JointModelFreeFlyer,
    }[joint.type]()


def pinocchio_model(model, split=()):
    """pinocchio.Model. split: joint types that are two joints there, with no mass between."""
    import pinocchio as pin

    peer, ids = pin.Model(), []
    peer.gravity.linear = np.array(model.gravity)
    for joint, body in zip(model.joints, model.bodies, strict=True):
        place = pin.SE3(np.array(joint.placement.R), np.array(joint.placement.p))
        at = 0 if joint.parent == WORLD else ids[joint.parent]
        if joint.type in split:
            turn = pin.JointModelRevoluteUnaligned(np.array(joint.axis))
            second = {
                "universal": pin.JointModelRevoluteUnaligned(np.array(joint.axis2)),
                "cylindrical": pin.JointModelPrismaticUnaligned(np.array(joint.axis)),
            }[joint.type]
            at = peer.addJoint(at, turn, place, f"{joint.name}/first")
            at = peer.addJoint(at, second, pin.SE3.Identity(), joint.name)
        else:
            at = peer.addJoint(at, _pinocchio_joint(pin, joint), place, joint.name)
        inertia = pin.Inertia(body.mass, np.array(body.com), np.array(body.inertia))
        peer.appendBodyToJoint(at, inertia, pin.SE3.Identity())
        ids.append(at)
    for joint, follower in zip(model.joints, ids, strict=True):
        if joint.mimic:
            leader = peer.getJointId(joint.mimic.joint)
            peer = pin.transformJointIntoMimic(peer, leader, follower, *joint.mimic[1:])
    peer.armature = np.array(model.armature)
    return peer


# MuJoCo


def _mjcf_joints(joint):
    """type and axis of the joints of one body; planar joints under the names MuJoCo gives them."""
    x, y, z = np.eye(3)
    return {
        "revolute": [("", "hinge", joint.axis)],
        "prismatic": [("", "slide", joint.axis)],
        "cylindrical": [("", "hinge", joint.axis), ("/slide", "slide", joint.axis)],
        "universal": [("", "hinge", joint.axis), ("/second", "hinge", joint.axis2)],
        "planar": [("_TX", "slide", x), ("_TY", "slide", y), ("_RZ", "hinge", z)],
        "translation": [("", "slide", x), ("/y", "slide", y), ("/z", "slide", z)],
        "spherical": [("", "ball", z)],
        "free": [("", "free", z)],
    }[joint.type]


def _numbers(x):
    return " ".join(repr(float(entry)) for entry in np.ravel(x))


def _mjcf_body(model, i):
    joint, body = model.joints[i], model.bodies[i]
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
    R = np.array(joint.placement.R)
    text = f'<body name="{body.name}" pos="{_numbers(joint.placement.p)}" '
    text += f'xyaxes="{_numbers(R[:, :2].T)}">'
    text += f'<inertial mass="{body.mass!r}" pos="{_numbers(body.com)}" '
    text += f'fullinertia="{_numbers([xx, yy, zz, xy, xz, yz])}"/>'
    physics = zip(joint.armature or (0.0,) * 6, joint.damping or (0.0,) * 6, strict=False)
    for (suffix, kind, axis), (armature, damping) in zip(
        _mjcf_joints(joint), physics, strict=False
    ):
        text += f'<joint name="{joint.name}{suffix}" type="{kind}" '
        text += f'armature="{_numbers(armature)}" damping="{_numbers(damping)}"'
        text += f' axis="{_numbers(axis)}"/>' if kind in ("hinge", "slide") else "/>"
    children = [k for k in range(model.nbodies) if model.parent[k] == i]
    return text + "".join(_mjcf_body(model, k) for k in children) + "</body>"


def mujoco_model(model):
    """mujoco.MjModel without constraints; its joints are in our order."""
    return mujoco_spec(model).compile()


def mujoco_spec(model):
    """mujoco.MjSpec without constraints; its joints are in our order."""
    import mujoco

    roots = [i for i in range(model.nbodies) if model.parent[i] == WORLD]
    return mujoco.MjSpec.from_string(
        f'<mujoco><option gravity="{_numbers(model.gravity)}"><flag constraint="disable"/></option>'
        '<compiler angle="radian"/><worldbody>'
        + "".join(_mjcf_body(model, i) for i in roots)
        + "</worldbody></mujoco>"
    )


# Drake


def _drake_joint(tree, joint, ends):
    axis = np.array(joint.axis)
    return {
        "revolute": lambda: tree.RevoluteJoint(*ends, axis),
        "prismatic": lambda: tree.PrismaticJoint(*ends, axis),
        "helical": lambda: tree.ScrewJoint(*ends, axis, 2 * np.pi * joint.pitch, 0.0),
        "universal": lambda: tree.UniversalJoint(*ends),
        "planar": lambda: tree.PlanarJoint(*ends),
        "spherical": lambda: tree.BallRpyJoint(*ends),
        "free": lambda: tree.QuaternionFloatingJoint(*ends),
    }[joint.type]()


def drake_plant(model):
    """A finalized pydrake MultibodyPlant; universal joints turn about x, then y."""
    from pydrake.math import RigidTransform, RotationMatrix
    from pydrake.multibody import tree
    from pydrake.multibody.plant import MultibodyPlant

    plant, bodies = MultibodyPlant(0.0), []
    for i, (joint, body) in enumerate(zip(model.joints, model.bodies, strict=True)):
        J = np.array(body.inertia)
        spatial = tree.SpatialInertia.MakeFromCentralInertia(
            body.mass,
            np.array(body.com),
            tree.RotationalInertia(*np.diag(J), J[0, 1], J[0, 2], J[1, 2]),
        )
        bodies.append(plant.AddRigidBody(body.name, spatial))
        parent = plant.world_frame() if joint.parent == WORLD else bodies[joint.parent].body_frame()
        place = RigidTransform(RotationMatrix(np.array(joint.placement.R)), joint.placement.p)
        frame = plant.AddFrame(tree.FixedOffsetFrame(f"place{i}", parent, place))
        plant.AddJoint(_drake_joint(tree, joint, (joint.name, frame, bodies[-1].body_frame())))
    plant.Finalize()
    return plant
