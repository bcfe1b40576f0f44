"""The arguments of the methods of `Model` in words: shape, unit and meaning."""

from __future__ import annotations

from featherlane.algorithms.integrators import INTEGRATORS

ARGUMENTS = {
    "q": "(..., nq), rad or m; quaternions are [x, y, z, w]. The configuration",
    "v": "(..., nv), rad/s or m/s. The velocity; for a free joint [linear; angular] in body axes",
    "a": "(..., nv), rad/s^2 or m/s^2. The acceleration",
    "tau": "(..., nv), N m or N. The joint forces",
    "q0": "(..., nq), rad or m. The first configuration",
    "q1": "(..., nq), rad or m. The second configuration",
    "v0": "(..., nv), rad/s or m/s. The velocity at the beginning",
    "dt": "(...), s, above 0. The length of a step: one for all states, or one for each",
    "f_ext": (
        "(..., nbodies, 6), N and N m: external [force; moment] on each body; or {frame: (..., 6)}"
    ),
    "f_ext_frame": '"body" or "world". The axes of f_ext',
    "frame": "name of a frame, one of `frame_names`",
    "reference": (
        '"body" (axes of the frame, at its origin), "world" (axes of the world, at the origin '
        'of the frame) or "spatial" (axes of the world, at its origin)'
    ),
    "params": (
        "{parameter: values}, in SI units, which replace the model's values; see `parameters`"
    ),
    "method": '"auto", or the name of an algorithm',
    "wrt": "name of a parameter, one of `parameters`",
    "integrator": ", ".join(f'"{name}"' for name in INTEGRATORS) + " (docs/time_steps.md)",
    "actuation": 'from `actuation`, or "file": tau are then controls (..., nu), not joint forces',
    "every": "whole number of steps between kept states, a divisor of all steps",
    "steps": "whole number of steps, 1 or more",
    "by_wrenches": "True: B also has six columns for each wrench of f_ext",
    "policy": "feedback law, from `policy`, evaluated once per step",
    "constraints": "from `constraints`. n constraints with their rows",
    "active": "(..., n), without units, 1 or 0. Which constraints hold in a state; None: all",
    "anchors": "(..., n, 7), m and quaternion [x, y, z, w]. Placements in the world",
    "restitution": (
        "number, or (..., n), without units. The fraction of J v that an impact reflects"
    ),
    "out": "array, or tuple of arrays, with the shapes and dtype of the results, to be filled",
    "threads": "largest number of threads; None: as many cores as save time",
    "dtype": "float64 or float32. The dtype of the result",
    "batch": "whole number, or tuple of them. Leading dimensions of the result",
    "seed": "whole number, or NumPy's Generator, to get the same result again",
    "weights": "(..., nv), 1/(units of the result). The factors of its entries",
    "direction": "(..., 3 nv), in units of q, v and tau. The vector that H multiplies",
    "minv": "(..., nv, nv), 1/(kg m^2) for angles. The inverse of M(q), if it is known",
    "gq": "(..., nv), per rad or m. The gradient with respect to q, in the tangent space",
    "gv": "(..., nv), per rad/s or m/s. The gradient with respect to v",
    "dq": "(..., nv), rad or m. The direction in q, in the tangent space",
    "dv": "(..., nv), rad/s or m/s. The direction in v",
    "dtau": "(..., nu), N m or N. The direction in tau",
    "fraction": "(...). The fraction of the way from q0 (at 0) to q1 (at 1)",
    "trajectory": "(q, v), the result of `rollout` with every state",
    "width": "lanes of a vector; None: as many as the processor has",
    "device": '"cpu", "cuda" or, if there are several, "cuda:1"',
    "mapping": '"lanes", "team:4" or "links:8": how states are mapped to threads of a GPU',
    "backend": '"cpu", or "fixed" for fixed point',
    "format": '"proved", "fitted", or uniform such as "q16.16": numbers of backend="fixed"',
    "ranges": '{input: (low, high)}, in units of the inputs, for backend="fixed"',
}
# Arguments that have another meaning in a method than in most others
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
    ("rollout", "tau"): "(..., T, nv), N m or N. The joint forces in each of T steps",
    ("rollout", "f_ext"): "(..., T, nbodies, 6), N and N m, or {frame: (..., T, 6)}, for each step",
    ("rollout_gradient", "tau"): "(..., T, nv), N m or N. The joint forces in each of T steps",
    (
        "rollout_gradient",
        "gq",
    ): "(..., T + 1, nv), per rad or m. The gradients with respect to q",
    (
        "rollout_gradient",
        "gv",
    ): "(..., T + 1, nv), per rad/s or m/s. The gradients with respect to v",
    ("rollout_with", "parameters"): "{name: array}, the parameters of the policy",
    (
        "inverse_kinematics",
        "targets",
    ): "poses (..., 4, 4) or positions (..., 3), m; or {frame: targets} for several frames",
    ("inverse_kinematics", "frame"): "name of a frame, unless targets are a dict",
    ("inverse_kinematics", "q0"): "(..., nq), rad or m. The start; None: the centres of the limits",
    (
        "inverse_kinematics",
        "posture",
    ): "(..., nq), rad or m. What q approaches as far as targets allow",
    ("inverse_kinematics", "posture_gain"): "fraction of the way to the posture in each step",
    ("inverse_kinematics", "limits"): "whether q stays within `position_limits`",
    ("inverse_kinematics", "tolerance"): "(m, rad). The largest errors that count as converged",
    ("inverse_kinematics", "iterations"): "largest number of steps from one start",
    ("inverse_kinematics", "restarts"): "largest number of further starts",
    ("inverse_kinematics", "seed"): "whole number, for the further starts",
    ("actuation", "joints"): "names of joints, one for each control",
    ("actuation", "gear"): "ratio of joint force to control, one or one for each joint",
    ("actuation", "clip"): "whether joint forces stay within `effort_limits`",
    (
        "policy",
        "function",
    ): "function (q, v, t, **parameters) that returns the controls (nu,)",
    ("policy", "parameters"): "{name: shape} of further arrays",
    ("clip", "q"): "(..., nq), rad or m. The configurations that are moved into the limits",
    (
        "constraints",
        "constraints",
    ): "list of `fl.Pin`, `fl.Weld`, ...; or Constraints from before an edit",
    ("constraints", "kp"): "number, or one for each, 1/s^2, 0 or more. Gain on position errors",
    ("constraints", "kd"): "number, or one for each, 1/s, 0 or more. Gain on velocity errors",
    ("function", "active"): "whether an input says which constraints hold",
    ("function", "anchors"): "whether placements of constraints in the world are an input",
    ("graph", "active"): "whether an input says which constraints hold",
    ("graph", "anchors"): "whether placements of constraints in the world are an input",
    (
        "constrained_inverse_dynamics",
        "weights",
    ): "(..., rows), 1/(units of force); None: 1 for all",
    ("constrained_inverse_dynamics", "actuation"): "from `actuation`; its joints have a motor",
    ("close", "q"): "(..., nq), rad or m. Where the search begins",
    ("close", "tolerance"): "the largest error that counts as converged, m or rad",
    ("close", "iterations"): "largest number of steps",
    ("compile", "functions"): 'names of functions, with options as in "jacobian:tool0", "step:rk4"',
    ("compile", "derivatives"): "whether derivatives of the functions are also compiled",
    ("compile", "single"): "whether kernels for a single state are also compiled",
    ("compile", "dtype"): "float64 or float32. The dtype of the arrays",
    ("parameters", "names"): "names of parameters; without names, all of them",
    ("reduced", "lock"): "{joint: position}, rad or m; None: the neutral position",
    ("rerooted", "body"): "name of a body, one of `body_names`",
    ("renamed", "joints"): "{old: new}, or a function from old to new names",
    ("renamed", "bodies"): "{old: new}, or a function from old to new names",
    ("renamed", "frames"): "{old: new}, or a function from old to new names",
    ("with_gravity", "gravity"): "(3,), m/s^2, in the axes of the world",
    ("with_physics", "armature"): "a number or (nv,), kg m^2 or kg; None: unchanged",
    ("with_physics", "damping"): "a number or (nv,), N m s/rad or N s/m; None: unchanged",
    ("with_physics", "friction"): "a number or (nv,), N m or N; None: unchanged",
    ("with_physics", "friction_velocity"): "a number, rad/s or m/s; None: unchanged",
    (
        "with_soft_limits",
        "stiffness",
    ): "a number or (nv,), N m/rad or N/m; None: proportional to inertia",
    (
        "with_soft_limits",
        "damping",
    ): "a number or (nv,), N m s/rad or N s/m; None: critical, without bouncing",
    ("with_soft_limits", "width"): "a number, rad or m; None: 0.01 rad and 0.001 m",
    ("with_physics", "stiffness"): "a number or (nv,), N m/rad or N/m; None: unchanged",
    ("with_physics", "spring_reference"): "a number or (nv,), rad or m; None: unchanged",
}


def argument_text(method: str, name: str) -> str:
    """An argument of a method in words. Raises KeyError for one that has none yet."""
    return OF_METHODS.get((method, name)) or ARGUMENTS[name]
