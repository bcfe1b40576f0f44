"""The arguments of the methods of `Model` in words: shape, unit and meaning."""

from __future__ import annotations

from collections.abc import Mapping

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.functions.table import DEFAULT_INTEGRATOR

WIDTH = 96  # of the lines of a list of arguments
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
        "(..., nbodies, 6), N and N m: external [force; moment] on each body; or {frame: (..., "
        "6)}; None: no forces"
    ),
    "f_ext_frame": '"body" or "world". The axes of f_ext',
    "frame": "name of a frame, one of `frame_names`, or a list of them; None: no frame",
    "reference": (
        '"body" (axes of the frame, at its origin), "world" (axes of the world, at the origin '
        'of the frame) or "spatial" (axes of the world, at its origin); None: "body"'
    ),
    "params": (
        "{parameter: values}, in SI units, which replace the model's values, see `parameters`; "
        "None: the model's values"
    ),
    "method": '"auto", or the name of an algorithm; None: "auto"',
    "wrt": "name of a parameter, one of `parameters`; None: no parameter",
    "integrator": ", ".join(f'"{name}"' for name in INTEGRATORS)
    + f' (docs/time_steps.md); None: "{DEFAULT_INTEGRATOR}"',
    "actuation": (
        'from `actuation`, or "file": tau are then controls (..., nu); None: tau are joint forces'
    ),
    "every": "whole number of steps between kept states, a divisor of all steps",
    "steps": "whole number of steps, 1 or more",
    "by_wrenches": "True: B also has six columns for each wrench of f_ext",
    "policy": "feedback law, from `policy`, evaluated at the beginning of steps; None: no law",
    "constraints": "from `constraints`. n constraints with their rows; None: none",
    "active": "(..., n), without units, 1 or 0. Which constraints hold in a state; None: all",
    "anchors": (
        "(..., n, 7), m and quaternion [x, y, z, w]. Placements in the world; None: no "
        "errors of position"
    ),
    "ground": (
        "from `fl.Ground`. The surfaces that the robot touches (docs/ground.md); None: no ground"
    ),
    "law": "from `fl.Coulomb` or `fl.SoftContacts`. The law of contact; None: `fl.Coulomb()`",
    "ground_params": (
        '{name: values}: "friction", "restitution", "height" (m), each (...), "heights" (..., nx, '
        'ny) of a height field, and "impulse" of the step before; None: those of the ground'
    ),
    "sensors": "from `sensors`. Arrays of the result besides states; None: no arrays",
    "parameters": "{name: array}, the parameters of the sensors; None: no parameters",
    "kp": "number, or (..., n), 1/s^2. Gains on position errors; None: those of the constraints",
    "kd": "number, or (..., n), 1/s. Gains on velocity errors; None: those of the constraints",
    "restitution": (
        "number, or (..., n), without units. The fraction of J v that an impact reflects"
    ),
    "out": (
        "array, or tuple of arrays, with the shapes and dtype of the results, to be filled; None: "
        "new arrays"
    ),
    "threads": "largest number of threads; None: as many cores as save time",
    "dtype": "float64 or float32. The dtype of the result",
    "batch": "whole number, or tuple of them. Leading dimensions of the result",
    "seed": "whole number, or NumPy's Generator, to get the same result again; None: any",
    "weights": "(..., nv), 1/(units of the result). The factors of its entries",
    "direction": "(..., 3 nv), in units of q, v and tau. The vector that H multiplies",
    "minv": "(..., nv, nv), 1/(kg m^2) for angles. The inverse of M(q); None: computed",
    "gq": "(..., nv), per rad or m. The gradient with respect to q, in the tangent space",
    "gv": "(..., nv), per rad/s or m/s. The gradient with respect to v",
    "dq": "(..., nv), rad or m. The direction in q, in the tangent space",
    "dv": "(..., nv), rad/s or m/s. The direction in v",
    "dtau": "(..., nu), N m or N. The direction in tau",
    "damping_factor": "(...), kg^-1/2. Its square is added to J M^-1 J^T",
    "fraction": "(...). The fraction of the way from q0 (at 0) to q1 (at 1)",
    "trajectory": "(q, v), the result of `rollout` with every state",
    "width": "lanes of a vector; None: as many as the processor has",
    "device": '"cpu", "cuda" or, if there are several, "cuda:1"; None: where arrays are',
    "mapping": '"lanes", "team:4" or "links:8": how states are mapped to a GPU; None: the fastest',
    "fit": "largest ratio of the width of a sphere to that of a shape",
    "radius": "m, of bodies without collision shapes",
    "avoid": "fl.Avoidance: the spheres of the robot, and what they keep clear of; None: nothing",
    "backend": '"cpu", or "fixed" for fixed point; None: "cpu"',
    "format": (
        '"proved", "fitted", or uniform such as "q16.16": numbers of backend="fixed"; None: '
        '"q16.16"'
    ),
    "ranges": (
        '{input: (low, high)}, in units of the inputs, for backend="fixed"; None: the limits of '
        "the robot"
    ),
}
# Of functions by their name, and of their graphs
_INPUTS = {
    "name": "name of a function, a key of `featherlane.FUNCTIONS` or a method",
    "f_ext": '"body" or "world": the axes of a further input f_ext (nbodies, 6); None: none',
    "params": "names of parameters that are further inputs, see `parameters`",
    "active": "whether an input says which constraints hold",
    "anchors": "whether placements of constraints in the world are an input",
    "kp": "whether gains on position errors are an input",
    "kd": "whether gains on velocity errors are an input",
    "ground_params": 'names of arrays that are inputs: "friction", "height", ...',
}
# Of constraints, and of loops that a robot keeps
_GAINS = {
    "kp": "number, or one for each, 1/s^2, 0 or more. Gain on position errors",
    "kd": "number, or one for each, 1/s, 0 or more. Gain on velocity errors",
}
# Arguments that have another meaning in a method than in most others
_BY_METHOD: dict[str, dict[str, str]] = {
    "frame": {
        "name": "name of a frame, one of `frame_names`",
    },
    "joint": {
        "name": "name of a joint, one of `joint_names`",
    },
    "function": _INPUTS,
    "graph": _INPUTS,
    "forward_dynamics_derivatives": {
        "tau": "(..., nv), N m or N. The joint forces; None: `a` is passed",
        "a": "(..., nv), rad/s^2 or m/s^2. The acceleration, if it is known; None: from tau",
    },
    "rollout": {
        "q0": "(..., nq), rad or m. The configuration at the beginning",
        "tau": "(..., T, nv), N m or N. The joint forces in each of T steps",
        "f_ext": (
            "(..., T, nbodies, 6), N and N m, or {frame: (..., T, 6)}, for each step; None: no "
            "forces"
        ),
    },
    "rollout_with": {
        "q0": "(..., nq), rad or m. The configuration at the beginning",
        "parameters": "{name: array}, of the policy and the sensors; None: none",
        "references": "{name: (..., steps, ...)}, a row for each step; None: none",
        "memory": "{name: array}, at the first step; None: zeros",
    },
    "rollout_gradient": {
        "tau": "(..., T, nv), N m or N. The joint forces in each of T steps",
        "gq": "(..., T + 1, nv), per rad or m. The gradients with respect to q",
        "gv": "(..., T + 1, nv), per rad/s or m/s. The gradients with respect to v",
    },
    "inverse_kinematics": {
        "targets": (
            "poses (..., 4, 4) or positions (..., 3), m; or {frame: targets} for several frames"
        ),
        "frame": "name of a frame; None: targets are a dict",
        "q0": "(..., nq), rad or m. The start; None: the centres of the limits",
        "posture": (
            "(..., nq), rad or m. The q to approach as far as targets allow; None: no posture"
        ),
        "posture_gain": "fraction of the way to the posture in each step",
        "params": "{parameter: values} of position and orientation; None: the model's",
        "limits": "whether q stays within `position_limits`",
        "tolerance": "(m, rad). The largest errors that count as converged",
        "iterations": "largest number of steps from one start",
        "restarts": "largest number of further starts",
        "seed": "whole number, for the further starts",
    },
    "actuation": {
        "joints": 'names of joints, one for each control, or "file"; None: no joints',
        "matrix": (
            "(nv, nu), N m or N per unit of u: joint forces are matrix @ u; None: no such controls"
        ),
        "limits": "(least, largest) controls of the matrix, numbers or (nu,); None: no limits",
        "gear": "ratio of joint force to control, one or one for each joint",
        "clip": "whether joint forces stay within `effort_limits`",
    },
    "policy": {
        "function": (
            "function (q, v, t, **arrays) that returns the controls (nu,), or (controls, memory)"
        ),
        "parameters": "{name: shape} of arrays that are the same in all steps; None: none",
        "references": "{name: shape} of arrays with a row for each step; None: none",
        "memory": "{name: shape} of arrays that the law returns anew; None: none",
        "sensors": "{name: shape} of sensors of the step before that the law reads; None: none",
        "hold": "whole number of steps over which the controls hold",
    },
    "sensors": {
        "function": "function (step, **arrays) that returns {name: array} of a step",
        "parameters": "{name: shape} of further arrays that the function reads; None: none",
    },
    "clip": {
        "q": "(..., nq), rad or m. The configurations that are moved into the limits",
    },
    "constraints": {
        **_GAINS,
        "constraints": "list of `fl.Pin`, `fl.Weld`, ...; or Constraints from before an edit",
        "level": '"velocity" or "acceleration", held by semi-implicit steps; None: "velocity"',
    },
    "with_loops": {
        **_GAINS,
        "constraints": "list of `fl.Pin`, `fl.Weld`, ...; or Constraints",
    },
    "constrained_inverse_dynamics": {
        "weights": "(..., rows), 1/(units of force); None: 1 for all",
        "actuation": "from `actuation`; its joints have a motor; None: all joints have one",
    },
    "close": {
        "q": "(..., nq), rad or m. Where the search begins",
        "tolerance": "largest error that counts as converged, m or rad; None: 1e-9 (float32: 1e-5)",
        "iterations": "largest number of steps",
    },
    "compile": {
        "functions": (
            'names of functions, with options as in "jacobian:tool0"; None: the seven functions'
        ),
        "derivatives": "whether derivatives of the functions are also compiled",
        "single": "whether kernels for a single state are also compiled",
        "dtype": "float64 or float32. The dtype of the arrays",
    },
    "parameters": {
        "names": "names of parameters; without names, all of them",
    },
    "reduced": {
        "lock": "{joint: position}, rad or m; None: the neutral position",
    },
    "rerooted": {
        "body": "name of a body, one of `body_names`",
    },
    "renamed": {
        "joints": "{old: new}, or a function from old to new names; None: unchanged",
        "bodies": "{old: new}, or a function from old to new names; None: unchanged",
        "frames": "{old: new}, or a function from old to new names; None: unchanged",
    },
    "to_urdf": {
        "path": "the file to write",
    },
    "with_collision_shapes": {
        "shapes": "{frame: shape or shapes}, or shapes on their bodies",
    },
    "without_collision_shapes": {
        "names": "names of shapes; None: all of them",
    },
    "with_frame": {
        "name": "name of the new frame",
        "on": "name of the frame that carries it",
        "xyz": "(3,), m, in the axes of the frame that carries it",
        "rpy": "(3,), rad: roll, pitch and yaw about fixed axes; None: no rotation",
        "R": "(3, 3), without units: the rotation; None: that of rpy",
    },
    "with_inertial": {
        "body": "name of a body, one of `body_names`",
        "mass": "a number, kg; None: unchanged",
        "com": "(3,), m, in the axes of the body; None: unchanged",
        "inertia": "(3, 3) or (3,), kg m^2, about com; None: unchanged",
    },
    "with_payload": {
        "mass": "a number, kg",
        "com": "(3,), m, in the axes of the frame",
        "inertia": "(3, 3) or (3,), kg m^2, about com",
    },
    "with_parameters": {
        "params": "{parameter: value}, in SI units, one set; see `parameters`",
    },
    "with_joint_limits": {
        "lower": "a number, (nq,), or {joint: value}, rad or m; None: unchanged",
        "upper": "a number, (nq,), or {joint: value}, rad or m; None: unchanged",
        "velocity": "a number, (nv,), or {joint: value}, rad/s or m/s; None: unchanged",
        "effort": "a number, (nv,), or {joint: value}, N m or N; None: unchanged",
    },
    "with_gravity": {
        "gravity": "(3,), m/s^2, in the axes of the world",
    },
    "with_physics": {
        "armature": "a number or (nv,), kg m^2 or kg; None: unchanged",
        "damping": "a number or (nv,), N m s/rad or N s/m; None: unchanged",
        "friction": "a number or (nv,), N m or N; None: unchanged",
        "friction_velocity": "a number, rad/s or m/s; None: unchanged",
        "stiffness": "a number or (nv,), N m/rad or N/m; None: unchanged",
        "spring_reference": "a number or (nv,), rad or m; None: unchanged",
    },
    "with_soft_limits": {
        "stiffness": "a number or (nv,), N m/rad or N/m; None: proportional to inertia",
        "damping": "a number or (nv,), N m s/rad or N s/m; None: critical, without bouncing",
        "width": "a number, rad or m; None: 0.01 rad and 0.001 m",
    },
}
OF_METHODS = {
    (method, name): text for method, texts in _BY_METHOD.items() for name, text in texts.items()
}


def argument_text(method: str, name: str, default: object) -> str:
    """An argument of a method in words, with the meaning of None if that is the default. Raises
    KeyError for one that has no text yet.
    """
    text = OF_METHODS.get((method, name)) or ARGUMENTS[name]
    return text if default is None else text.partition("; None:")[0]


def with_arguments(documentation: str, texts: Mapping[str, str]) -> str:
    """A docstring with a list of arguments before its examples."""
    text, examples, rest = documentation.partition("Examples:\n")
    if not texts:
        return documentation
    margin = text[text.rfind("\n") + 1 :]
    lines = [_filled(f"{name}: {words}", margin) for name, words in texts.items()]
    listed = "\n".join(["Arguments:", *lines])
    return f"{text}{listed}\n\n{margin}{examples}{rest}"


def _filled(text: str, margin: str) -> str:
    """A text in lines of at most WIDTH characters, behind a margin. `textwrap` takes ten times as
    long, which imports would wait for.
    """
    lines, line = [], f"{margin}   "
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = f"{margin}       "
        line += f" {word}"
    return "\n".join([*lines, line])
