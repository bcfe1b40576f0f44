"""States of constrained robots, and algorithms on arrays of states as scalars: no compiler."""

from dataclasses import replace
from functools import cache

import numpy as np
import textbook

import featherlane as fl
from featherlane.robot.parts import WORLD, Frame, Placement


def stacked(results, batch):
    """An array of nested lists of scalars that are arrays of states, or numbers."""
    if isinstance(results, list | tuple):
        return np.stack([stacked(x, batch) for x in results], axis=1)
    return np.broadcast_to(np.asarray(results, float), (batch,))


def run(algorithm, tree, *arrays, **options):
    """The results of an algorithm for states in rows."""
    batch = len(arrays[0])

    def scalars(x):
        x = np.asarray(x, float)
        return [scalars(x[:, k]) for k in range(x.shape[1])] if x.ndim > 1 else x

    named = {k: scalars(x) if isinstance(x, np.ndarray) else x for k, x in options.items()}
    with np.errstate(all="ignore"):
        results = algorithm(tree, *map(scalars, arrays), **named)
    return [stacked(x, batch) for x in results]


def states(model, batch, seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(batch, seed=seed)
    return q, rng.normal(size=(batch, model.nv)), rng.normal(size=(batch, model.nv))


def with_frames(model, *frames):
    """The robot with frames (name, body, R, p)."""
    more = tuple(Frame(name, body, Placement.of(R, p)) for name, body, R, p in frames)
    return replace(model, frames=model.frames + more)


def pendulum_with_points(damping=None):
    """A double pendulum on a free root with a point on each body, and a corner in the world."""
    base = fl.load("double_pendulum", root="free").with_physics(damping=damping)
    points = [(f"p{i}", body, np.eye(3), [0.1 * i, 0.05, 0.2]) for i, body in enumerate((0, 1, 2))]
    return with_frames(base, *points, ("corner", WORLD, np.eye(3), [0.1, 0.2, 0.3]))


@cache
def in_contact():
    """A robot on a free root with a point on the ground, and a rod between two of its bodies."""
    frames = [("foot", 2, np.eye(3), [0.1, 0.05, 0.2]), ("hand", 1, np.eye(3), [0.0, 0.2, 0.1])]
    model = with_frames(textbook.tree(("free", "revolute", "prismatic"), seed=4), *frames)
    rod = fl.Rod("hand", model.frame_names[0], 0.3)
    return model, model.constraints([fl.Pin("foot"), rod], kp=[0, 30], kd=9)


def random_placement(rng):
    q = rng.normal(size=4)
    x, y, z, w = q / np.linalg.norm(q)
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    return R, 0.3 * rng.normal(size=3)


def closed_loop(model, outer, inner, seed=0):
    """The robot with frames "outer" and "inner" on two bodies (or the ground), and a configuration
    in which they coincide.
    """
    rng = np.random.default_rng(seed)
    q = model.random_configuration(seed=seed)
    R, p = random_placement(rng)
    model = with_frames(model, ("outer", outer, R, p))
    T = model.frame_placement(q, "outer")
    if inner != WORLD:
        T = np.linalg.inv(body_placement(model, q, inner)) @ T
    return with_frames(model, ("inner", inner, T[:3, :3], T[:3, 3])), q


def body_placement(model, q, body):
    origin = with_frames(model, ("origin", body, np.eye(3), np.zeros(3)))
    return origin.frame_placement(q, "origin")


def feet(name="hyq", leg="lowerleg"):
    """A quadruped with points under its lower legs."""
    model = fl.load(name, root="free")
    legs = [f for f in model.frames if f.name.endswith(leg)]
    points = [(f"foot{i}", f.body, np.eye(3), [0.35, 0.0, -0.2]) for i, f in enumerate(legs)]
    return with_frames(model, *points), [fl.Pin(f"foot{i}") for i in range(len(legs))]
