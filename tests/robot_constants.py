"""Constants, fingerprints and operation counts of robots: `python -m tests.robot_constants`.

`tests/test_same_constants.py` compares what processes print whose libraries use the code for
other processors.
"""

import hashlib
import json
from importlib.util import find_spec

import numpy as np

import featherlane as fl
from featherlane.api.random_robots import random_rotation
from featherlane.robot.tree_of import build_tree, tree_of

ANGLES = (0.1, 1.57079632679, -2.4, 4.0)
REVERSED = "revolute prismatic helical cylindrical universal translation spherical planar free"
INERTIAL = (
    '<inertial><origin xyz="0.1 {x} -0.2" rpy="{x} 0.2 {y}"/><mass value="1.{k}"/>'
    '<inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"/></inertial>'
)
MJCF = (
    '<mujoco><compiler angle="radian"/><worldbody><body quat="0.9 0.1 -0.3 0.2" pos="0.1 0.2 0.3">'
    '<joint axis="1 2 3" ref="0.3"/><inertial pos="0.1 0 0.2" mass="1.5" quat="0.8 0.3 0.1 0.4" '
    'diaginertia="0.1 0.2 0.25"/><body euler="0.3 0.1 0.2"><joint type="slide" axis="0 1 1" '
    'ref="0.1"/><geom size="0.1 0.3" type="capsule" euler="1 2 3"/></body></body></worldbody>'
    "</mujoco>"
)


def urdf():
    """A branch of links, some on fixed joints, at odd angles."""
    links = [
        f'<link name="l{k}">{INERTIAL.format(k=k, x=0.3 * k, y=ANGLES[k % 4])}</link>'
        for k in range(8)
    ]
    joints = [
        f'<joint name="j{k}" type="{"fixed" if k % 3 == 0 else "continuous"}">'
        f'<parent link="l{(k - 1) // 2}"/><child link="l{k}"/><axis xyz="1 {k} 0.3"/>'
        f'<origin xyz="0.1 {0.07 * k} 0.3" rpy="{ANGLES[k % 4]} {0.13 * k} -0.7"/></joint>'
        for k in range(1, 8)
    ]
    return f'<robot name="odd">{"".join(links + joints)}</robot>'


def built():
    builder = fl.ModelBuilder("built")
    builder.link("base")
    R = random_rotation(7)
    for k, name in enumerate("abc"):
        builder.link(name, mass=0.3 + k, com=(0.1, 0.2, k), inertia=(k + 1.0) * np.eye(3))
        axis, place = (1, 2, 3 + k), {"R": R} if k else {"rpy": (0.3, 1.1, -2)}
        builder.joint(f"to_{name}", "revolute", "base", name, axis=axis, **place)
    return builder.build()


def random_robots():
    for seed in range(12):
        branching = 1 + seed % 3
        yield fl.random_tree(8, branching, mimic=0.2 * (seed % 2), physics=True, seed=seed)
    for seed in range(3):
        types = ("revolute", "helical", "cylindrical", "spherical")
        yield fl.chain(5, seed=seed, joint_types=types)


def edited():
    free = fl.load("iiwa14", root="free")
    yield free.rerooted(free.body_names[-1])
    yield fl.load(urdf(), root="free").reduced({"j2": 0.83, "root_joint": None})
    yield fl.load("hyq").reduced(dict.fromkeys(fl.load("hyq").joint_names[:5], -0.77))
    tree = fl.random_tree(9, joint_types=REVERSED.split(), seed=2, physics=True)
    where = {
        joint.name: np.linspace(0.2, 0.9, joint.kind.nq)
        for joint in tree.joints
        if joint.type in ("spherical", "free", "universal", "planar", "helical")
    }
    yield tree.reduced(where)
    yield fl.load("mobile_arm").with_physics(armature=0.3, friction=0.1)


def robots():
    yield from (fl.load(name, loops="keep") for name in fl.bundled())
    yield fl.load("panda", root="free")
    yield from (fl.load(urdf()), built(), *random_robots(), *edited())
    if find_spec("mujoco"):
        yield fl.load(MJCF)


def constants(tree):
    """All numbers of a tree, with each bit."""
    places = [(X.E.rows, X.r) for X in tree.X_tree]
    return repr((places, tree.inertias, tree.ground, [turn.rows for turn in tree.turns]))


def told(model):
    plain = build_tree(model, regroup=False)
    text = constants(tree_of(model)) + constants(plain) + repr((model.frames, model.notes))
    text += repr((model.mass, model.ground_mass, model.parameters("inertial", "orientation")))
    return [model.fingerprint, hashlib.sha256(text.encode()).hexdigest()]


def counted():
    """Operation counts, and all constants of graphs, of some robots."""
    chain = fl.chain(5, seed=1, joint_types=("revolute", "helical", "spherical", "cylindrical"))
    tree = fl.random_tree(7, mimic=0.3, physics=True, seed=4)
    yield chain, "cfa"
    yield chain, "dca"
    yield tree, "aba"
    yield fl.load(urdf()), "aba"


def main():
    print(json.dumps({f"{i} {m.name}": told(m) for i, m in enumerate(robots())}))
    for model, method in counted():
        graph = model.graph("forward_dynamics", method=method)
        text = hashlib.sha256(graph.text().encode()).hexdigest()
        print(json.dumps([model.name, method, graph.cost().operations, text]))


if __name__ == "__main__":
    main()
