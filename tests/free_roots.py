"""Semi-implicit steps of free roots: their velocities in the axes of the beginning, on which contacts
and constraints act.
"""

import numpy as np

from featherlane.robot.quaternions import conjugate, quaternion_turn


def in_axes_of_beginning(q, after):
    """v at the end of a step from q, with the linear velocity of the root in its axes at q."""
    in_world = quaternion_turn(after.q[..., 3:7], after.v[..., :3])
    linear = quaternion_turn(conjugate(q[..., 3:7]), in_world)
    return np.concatenate([linear, after.v[..., 3:]], -1)


def acceleration(q, v, after, dt):
    """The acceleration that a step held."""
    a = (in_axes_of_beginning(q, after) - v) / dt
    a[..., :3] -= np.cross(v[..., 3:6], v[..., :3])
    return a
