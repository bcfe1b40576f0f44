"""The shapes in which the page draws robots whose files have none: its JavaScript, in Node."""

import json
import shutil
import subprocess

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.wasm.files import page_text
from featherlane.functions.figure import figure

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not there, which runs JavaScript")

CALL = """
import { readFileSync } from 'node:fs'
const { about, points, rotations } = JSON.parse(readFileSync('given.json'))
const figure = { points: Float64Array.from(points), rotations: Float64Array.from(rotations) }
console.log(JSON.stringify(shapesOf(about, figure)))
"""


def drawn(folder, name, shapes=(), bent=0.0):
    """The shapes of a bundled robot, by its body; -1: what stands on the ground."""
    model = fl.load(name)
    made = figure(model)
    q = np.full(model.nq, bent)
    points, rotations = fl.compile(made.graph)(q)
    given = {"about": {"lines": made.lines, "shapes": list(shapes)}}
    given |= {"points": points.ravel().tolist(), "rotations": rotations.ravel().tolist()}
    (folder / "given.json").write_text(json.dumps(given))
    script = page_text("dynamics.mjs") + page_text("drawing.mjs") + CALL
    (folder / "run.mjs").write_text(script)
    done = subprocess.run([NODE, "run.mjs"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {shape["body"]: shape for shape in json.loads(done.stdout)}


@pytest.mark.parametrize("bent", [0.0, 0.7])
def test_capsules_lie_between_joints(tmp_path, bent):
    """At every configuration the same, as shapes lie in the frames of bodies; what is short, such
    as the flange, has none.
    """
    model, shapes = fl.load("iiwa14"), drawn(tmp_path, "iiwa14", bent=bent)
    assert set(shapes) == set(range(-1, model.nbodies - 1))
    for body in range(-1, model.nbodies - 1):
        joint = np.array(model.joints[body + 1].placement.p)
        assert shapes[body]["kind"] == "capsule"
        assert np.allclose(shapes[body]["p"], joint / 2, atol=1e-9)
        z = np.reshape(shapes[body]["R"], (3, 3))[:, 2]
        assert np.allclose(z, joint / np.linalg.norm(joint), atol=1e-9)
        radius, half = shapes[body]["size"]
        assert 0 < radius <= 0.31 * np.linalg.norm(joint)
        assert np.isclose(2 * half + radius, np.linalg.norm(joint))  # caps reach beyond joints


def test_a_body_that_carries_several_is_a_box_around_their_joints(tmp_path):
    model, shapes = fl.load("hyq"), drawn(tmp_path, "hyq")
    trunk = shapes[-1]
    assert trunk["kind"] == "box"
    hips = [np.array(joint.placement.p) for joint in model.joints if joint.parent == -1]
    assert len(hips) == 4
    assert all(np.all(np.abs(hip - trunk["p"]) <= np.array(trunk["size"]) + 1e-9) for hip in hips)


def test_bodies_with_shapes_of_the_file_get_no_others_but_for_feet(tmp_path):
    identity = np.eye(3).ravel().tolist()
    box = {"body": 2, "kind": "box", "size": [1, 1, 1], "R": identity, "p": [0, 0, 0]}
    with_box = drawn(tmp_path, "iiwa14", [box])
    assert with_box[2] == box
    assert {shape["kind"] for body, shape in with_box.items() if body != 2} == {"capsule"}
    foot = {**box, "kind": "sphere", "size": [0.02]}
    assert drawn(tmp_path, "iiwa14", [foot])[2]["kind"] == "capsule"  # listed after the foot
