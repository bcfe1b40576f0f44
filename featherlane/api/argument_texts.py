"""The arguments of the methods of `Model` in words: shape, unit and meaning."""

from __future__ import annotations

ARGUMENTS = {
    "q": "(..., nq), rad or m; quaternions are [x, y, z, w]. The configuration",
    "v": "(..., nv), rad/s or m/s. The velocity; of a free joint [linear; angular] in body axes",
    "a": "(..., nv), rad/s^2 or m/s^2. The acceleration",
    "tau": "(..., nv), N m or N. The joint forces",
    "q0": "(..., nq), rad or m. The first configuration",
    "q1": "(..., nq), rad or m. The second configuration",
    "v0": "(..., nv), rad/s or m/s. The velocity at the beginning",
    "dt": "(...), s, above 0. The length of a step, one or one for each state",
    "f_ext": (
        "(..., nbodies, 6), N and N m: external [force; moment] on each body; or {frame: (..., 6)}"
    ),
    "f_ext_frame": '"body" or "world". The axes of f_ext',
    "frame": "name of a frame, one of `frame_names`",
    "reference": (
        '"body" (axes of the frame, at its origin), "world" (axes of the world, at the origin of '
        'the frame) or "spatial" (axes of the world, at its origin)'
    ),
    "params": "{parameter: values}, in SI units, in place of the model's own; see `parameters`",
    "method": '"auto", or an algorithm by name',
    "wrt": "name of a parameter, one of `parameters`",
    "integrator": (
        '"semi_implicit", "euler", "midpoint", "rk4" or "implicit_damping" (docs/time_steps.md)'
    ),
    "actuation": 'from `actuation`, or "file": tau are then controls (..., nu), no joint forces',
    "every": "whole number of steps, a divisor of their count: from one state kept to the next",
    "steps": "whole number of steps, 1 or more",
    "by_wrenches": "True: B has six more columns for each wrench of f_ext",
    "policy": "feedback law, from `policy`",
    "constraints": "from `constraints`. What holds, of n constraints with so many rows",
    "active": "(..., n), without units, 1 or 0. Which ones hold in a state; None: all",
    "anchors": "(..., n, 7), m and quaternion [x, y, z, w]. Placements in the world",
    "restitution": "number, or (..., n), without units. The share of J v that an impact reflects",
    "out": "array, or tuple of arrays, of the results' shapes and dtype, to be filled",
    "threads": "most threads; None: as many cores as pay",
    "dtype": "float64 or float32. The dtype of the result",
    "batch": "whole number, or tuple of them. Leading dimensions of the result",
    "seed": "whole number, or NumPy's Generator, where the result shall be the same again",
    "weights": "(..., nv), by units of the result. The factors of its entries",
    "direction": "(..., 3 nv), by units of q, v and tau. What H is multiplied with",
    "minv": "(..., nv, nv), 1/(kg m^2) for angles. The inverse of M(q), where it is known",
    "gq": "(..., nv), by rad or m. The gradient by q, in the tangent space",
    "gv": "(..., nv), by rad/s or m/s. The gradient by v",
    "dq": "(..., nv), rad or m. The direction in q, in the tangent space",
    "dv": "(..., nv), rad/s or m/s. The direction in v",
    "dtau": "(..., nu), N m or N. The direction in tau",
    "fraction": "(...), of the way from q0, at 0, to q1, at 1",
    "trajectory": "(q, v) that `rollout` gave, with every state",
    "width": "lanes of a vector; None: the widest of the processor",
    "device": '"cpu", "cuda" or, of several, "cuda:1"',
    "mapping": '"lanes", "team:4" or "links:8": of states to threads of a GPU',
    "backend": '"cpu", or "fixed" for fixed point',
    "format": '"q16.16" or alike, "proved" or "fitted": numbers of backend="fixed"',
    "ranges": '{input: (low, high)}, in units of the inputs, of backend="fixed"',
}
# Where an argument of a method is not what other methods call so
OF_METHODS = {
    ("frame", "name"): "name of a frame, one of `frame_names`",
    ("joint", "name"): "name of a joint, one of `joint_names`",
    ("function", "name"): "name of a function, a key of `featherlane.FUNCTIONS` or a method",
    ("graph", "name"): "name of a function, a key of `featherlane.FUNCTIONS` or a method",
    ("function", "f_ext"): '"body" or "world": the axes of an additional input f_ext (nbodies, 6)',
    ("graph", "f_ext"): '"body" or "world": the axes of an additional input f_ext (nbodies, 6)',
    ("function", "params"): "names of parameters that are further inputs, see `parameters`",
    ("graph", "params"): "names of parameters that are further inputs, see `parameters`",
    ("rollout", "q0"): "(..., nq), rad or m. The configuration at the beginning",
    ("rollout_with", "q0"): "(..., nq), rad or m. The configuration at the beginning",
    ("rollout", "tau"): "(..., T, nv), N m or N. The joint forces of each of T steps",
    ("rollout", "f_ext"): "(..., T, nbodies, 6), N and N m, or {frame: (..., T, 6)}, for each step",
    ("rollout_gradient", "tau"): "(..., T, nv), N m or N. The joint forces of each of T steps",
    ("rollout_gradient", "gq"): "(..., T + 1, nv), by rad or m. The gradients by all q",
    ("rollout_gradient", "gv"): "(..., T + 1, nv), by rad/s or m/s. The gradients by all v",
    ("rollout_with", "parameters"): "{name: array}, the parameters of the policy",
    ("inverse_kinematics", "targets"): (
        "poses (..., 4, 4) or positions (..., 3), m; or {frame: targets} for several frames"
    ),
    ("inverse_kinematics", "frame"): "name of a frame, unless targets are by frame",
    ("inverse_kinematics", "q0"): "(..., nq), rad or m. The start; None: the centres of the limits",
    ("inverse_kinematics", "posture"): "(..., nq), rad or m. What q approaches beside the targets",
    ("inverse_kinematics", "posture_gain"): "share of the way to the posture in a step",
    ("inverse_kinematics", "limits"): "whether q stays within `position_limits`",
    ("inverse_kinematics", "tolerance"): "(m, rad), the largest errors that count as converged",
    ("inverse_kinematics", "iterations"): "the most steps from one start",
    ("inverse_kinematics", "restarts"): "the most further starts",
    ("inverse_kinematics", "seed"): "whole number, of the further starts",
    ("actuation", "joints"): "names of joints, one for each control",
    ("actuation", "gear"): "ratio of joint force to control, one or one for each joint",
    ("actuation", "clip"): "whether joint forces stay within `effort_limits`",
    ("policy", "function"): "function (q, v, t, **parameters) to the controls (nu,), for tracing",
    ("policy", "parameters"): "{name: shape} of further arrays",
    ("clip", "q"): "(..., nq), rad or m. What is put within the limits",
    (
        "constraints",
        "constraints",
    ): "list of `fl.Pin`, `fl.Weld`, `fl.Hinge`, `fl.Rod`, `fl.Coupling`",
    (
        "constraints",
        "kp",
    ): "number, or one for each, 1/s^2, 0 or more. Pulls errors of position back",
    ("constraints", "kd"): "number, or one for each, 1/s, 0 or more. Pulls velocities back to 0",
    ("function", "active"): "whether which constraints hold is an input",
    ("function", "anchors"): "whether placements of constraints in the world are an input",
    ("graph", "active"): "whether which constraints hold is an input",
    ("graph", "anchors"): "whether placements of constraints in the world are an input",
    ("compile", "functions"): 'names of functions, with options as in "jacobian:tool0", "step:rk4"',
    ("compile", "derivatives"): "whether their derivatives are compiled too",
    ("compile", "single"): "whether kernels for a single state are compiled too",
    ("compile", "dtype"): "float64 or float32. The dtype of the arrays",
    ("parameters", "names"): "names of parameters; none: all of them",
    ("reduced", "lock"): "{joint: position}, rad or m; None: the neutral position",
    ("rerooted", "body"): "name of a body, one of `body_names`",
    ("renamed", "joints"): "{old: new}, or a function from old to new names",
    ("renamed", "bodies"): "{old: new}, or a function from old to new names",
    ("renamed", "frames"): "{old: new}, or a function from old to new names",
    ("with_gravity", "gravity"): "(3,), m/s^2, in the axes of the world",
    ("with_physics", "armature"): "a number or (nv,), kg m^2 or kg; None: as it is",
    ("with_physics", "damping"): "a number or (nv,), N m s/rad or N s/m; None: as it is",
    ("with_physics", "friction"): "a number or (nv,), N m or N; None: as it is",
    ("with_physics", "friction_velocity"): "a number, rad/s or m/s; None: as it is",
}


def argument_text(method: str, name: str) -> str:
    """An argument of a method in words. Raises KeyError for one that has none yet."""
    return OF_METHODS.get((method, name)) or ARGUMENTS[name]
