"""Semi-implicit steps of free joints: their velocities in the axes of the beginning, on which
contacts and constraints act.
"""

import numpy as np

from featherlane.robot.quaternions import conjugate, quaternion_turn


def free_joints(model):
    """The entries of the quaternion in q and of the linear velocity in v, of each free joint."""
    for i, joint in enumerate(model.joints):
        if joint.type == "free":
            at, k = model.first_q[i] + 3, model.first_v[i]
            yield slice(at, at + 4), slice(k, k + 3)


def in_axes_of_beginning(model, q, after):
    """v at the end of a step from q, linear velocities in the axes at q."""
    v = after.v.copy()
    for turn, linear in free_joints(model):
        in_world = quaternion_turn(after.q[..., turn], v[..., linear])
        v[..., linear] = quaternion_turn(conjugate(q[..., turn]), in_world)
    return v


def acceleration(model, q, v, after, dt):
    """The acceleration that a step held."""
    a = (in_axes_of_beginning(model, q, after) - v) / dt
    for _, linear in free_joints(model):
        angular = slice(linear.stop, linear.stop + 3)
        a[..., linear] -= np.cross(v[..., angular], v[..., linear])
    return a
