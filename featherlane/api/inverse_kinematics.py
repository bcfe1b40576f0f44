"""Inverse kinematics: the user's method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from featherlane.api.array_functions import array_function
from featherlane.api.avoidance import Avoidance, Clearances, placement_parameters
from featherlane.api.limits import rounded_into
from featherlane.errors import shown
from featherlane.functions.arguments import TRACED, alike, is_count, lead_of, threads_asked
from featherlane.functions.array_like import ArrayLike, Params, Threads
from featherlane.functions.clearance import shapes_of_placements
from featherlane.functions.initial_guesses import initial_guesses
from featherlane.functions.inverse_kinematics import POSE, POSITION, STEPS, Ends, Problem, Solver
from featherlane.functions.results import InverseKinematics
from featherlane.functions.shape_hints import shape_hint
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import cross, dot, transpose
from featherlane.robot.walk import path_to_root
from featherlane.scalar import maximum

SETTLED = 1e-3  # rad or m: a step below it ends the way to a posture
SKEW = 1e-3  # by which entries of a pose may differ from a rotation's
Targets = ArrayLike | Mapping[str, ArrayLike]
"""Poses (..., 4, 4) or positions (..., 3), m, of one frame; or {frame: targets} for several."""


class InverseKinematicsMethod(Clearances):
    """Inverse kinematics of a `featherlane.Model`."""

    def inverse_kinematics(
        self,
        targets: Targets,
        frame: str | None = None,
        *,
        q0: ArrayLike | None = None,
        posture: ArrayLike | None = None,
        posture_gain: float = 0.2,
        avoid: Avoidance | None = None,
        params: Params = None,
        limits: bool = True,
        tolerance: tuple[float, float] = (1e-4, 1e-3),
        iterations: int = 20,
        restarts: int = 16,
        seed: int = 0,
        threads: Threads = None,
    ) -> InverseKinematics:
        """Returns configurations that bring a frame to targets: poses (..., 4, 4), as
        `frame_placement` gives, or positions (..., 3); {frame: targets} for several frames at once.

        - q0 (..., nq): where the search begins, by default at the centres of the limits. Joints
          that move none of the frames stay there, unless there is a posture.
        - posture (..., nq): a configuration that q approaches as far as the targets allow, by the
          fraction posture_gain of the difference in each step. Quaternions in q0 and posture have
          length 1, as in `neutral`.
        - avoid: obstacles, and other spheres of the robot, from which it keeps clear by the margin
          (`featherlane.Avoidance`). A target is reached if q is clear, too. Joints that move none
          of the frames do not give way.
        - params: `position` and `orientation` of joints in place of the model's, see `parameters`.
        - limits: whether q stays within `position_limits`.
        - tolerance: the largest errors that count as converged, in m and rad.
        - iterations: the largest number of steps from one start, rounded up to a multiple of 4.
        - restarts: the number of further starts, drawn with `seed`, for targets that were not
          reached. They are the same for all targets, so a result does not depend on other targets.

        Without convergence, q is the best configuration from all starts: with `avoid`, of those
        with the least overlap the nearest to the target. For targets with a NaN it is q0.

        The search takes damped Gauss-Newton steps (Sugihara 2011), for many targets in the lanes of
        vectors. Raises ValueError or TypeError with the argument's name, its value and what was
        expected.

        Examples:
            >>> panda = fl.load("panda")
            >>> goal = panda.frame_placement(panda.clip(np.full(8, 0.3)), "panda_hand")
            >>> result = panda.inverse_kinematics(goal, "panda_hand")
            >>> bool(result.converged), bool(result.position_error < 1e-4)
            (True, True)
        """
        frames, goals = self._goals(targets, frame)
        around, obstacles = (None, {}) if avoid is None else self._surroundings(avoid)
        parameters, values = placement_parameters(params)
        options = {name: x for name, x in (("q0", q0), ("posture", posture)) if x is not None}
        others = dict(zip(parameters, values, strict=True))
        dtype, arrays = alike(goals | options | obstacles | others)
        if dtype == TRACED:
            raise TypeError(
                "inverse_kinematics in a trace: its steps end by value, call it outside"
            )
        shapes = {name: _shape(arrays[name]) for name in goals}
        cores = shapes | dict.fromkeys(options, (self.nq,))
        cores |= {} if around is None else around.inputs
        cores |= shapes_of_placements(self, parameters)
        lead = lead_of(arrays.values(), cores, self._explain_target)
        inside = rounded_into(self.position_limits, dtype)
        for name, shape in shapes.items():
            _check_poses(name, arrays[name], shape)
        rows = {name: _rows(x, cores[name], lead) for name, x in arrays.items()}
        for name in options:
            self._check_quaternions(name, rows[name])  # before limits change them
            rows[name] = np.clip(rows[name], *inside) if limits else rows[name]
        kinds = tuple(POSE if shape == (4, 4) else POSITION for shape in shapes.values())
        none = np.full(self.nq, np.inf)
        lower, upper = (tuple(map(float, x)) for x in (inside if limits else (-none, none)))
        problem = Problem(frames, kinds, lower, upper, posture is not None, around, parameters)
        margin = [] if avoid is None else [_rows(np.array(avoid.margin, dtype), (), lead)]
        starts = 1 + _count("restarts", restarts, 0)
        begin, seed = rows.pop("q0", None), _count("seed", seed, 0)
        first, further = initial_guesses(self, begin, seed, inside, self._moves(frames), starts)
        after = [rows.pop(name) for name in (*obstacles, *others)]
        calls = -(-_count("iterations", iterations) // STEPS)
        gain = 0.0 if posture is None else _share(posture_gain)
        ends = self._solver(problem)(
            np.broadcast_to(first, (prod(lead), self.nq)),
            further,
            _squares(tolerance, problem, dtype),
            (gain, SETTLED**2 if gain else np.inf, starts, calls),
            [*rows.values(), *margin, *after],
            threads_asked(threads),
        )
        results = _results(ends, POSE in kinds, starts, calls)
        if around is not None:
            distance = self._clearance_function(around, parameters, least=True)
            clearance = distance(ends.q, *after, threads=threads)
            clear = results.converged & (clearance >= margin[0])
            results = results._replace(converged=clear, clearance=clearance)
        return InverseKinematics(*[x.reshape(lead + x.shape[1:]) for x in results])

    def _explain_target(self, name: str, shape: tuple[int, ...]) -> str:
        if name in ("q0", "posture"):
            return shape_hint(self, None, "q", shape)
        return "poses (..., 4, 4), as frame_placement gives them, or positions (..., 3)"

    def _goals(self, targets: Any, frame: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Returns the frames, and the arrays of their targets by name."""
        if isinstance(targets, Mapping):
            if frame is not None or not targets:
                wanted = "wanted {frame: targets} without frame=, or targets and frame="
                raise TypeError(
                    f"targets is {shown(targets)} and frame is {shown(frame)}: {wanted}"
                )
            goals = {f"targets[{name!r}]": x for name, x in targets.items()}
            frames = tuple(targets)
        elif frame is None:
            names = ", ".join(self.frame_names[-5:])
            raise TypeError(f"frame is missing: wanted the frame that targets are for, of {names}")
        else:
            frames, goals = (frame,), {"targets": targets}
        for name in frames:
            if self.frame(name).body == WORLD:
                raise ValueError(f"frame {name!r} is fixed to the ground: it cannot be moved")
        return frames, goals

    def _check_quaternions(self, name: str, rows: np.ndarray) -> None:
        """Raises ValueError for configurations with a quaternion of length 0."""
        for first in self.first_of_quaternions:
            if np.any(np.all(rows[:, first : first + 4] == 0, axis=1)):
                expected = f"wanted length 1 in entries {first} to {first + 3}, as neutral() has"
                raise ValueError(f"{name} has a quaternion of length 0: {expected}")

    def _moves(self, frames: Sequence[str]) -> np.ndarray:
        """Returns whether the entries of q move one of the frames."""
        moves = np.zeros(self.nq, bool)
        for body in {n for x in frames for n in path_to_root(self.parent, self.frame(x).body)}:
            moves[self.first_q[body] :][: self.types[body].nq] = True
        return moves

    def _solver(self, problem: Problem) -> Solver:
        solvers = self.__dict__.setdefault("_solvers", {})
        if problem not in solvers:
            solvers[problem] = Solver(self, problem)
        return solvers[problem]


def _results(ends: Ends, has_rotations: bool, starts: int, calls: int) -> InverseKinematics:
    """Returns the results of targets (n) without obstacles."""
    converged, position = ends.score <= 1, np.sqrt(ends.error[:, 0])
    chord = np.sqrt(ends.error[:, 1]) if has_rotations else np.zeros_like(position)
    angle = 2 * np.arcsin(np.minimum(0.5 * chord, 1))
    taken = np.where(converged, ends.start * calls + ends.call + 1, starts * calls)
    nothing_near = np.full_like(position, np.inf)
    steps = STEPS * taken.astype(int)
    return InverseKinematics(ends.q, converged, position, angle, steps, nothing_near)


def _shape(x: np.ndarray) -> tuple[int, ...]:
    """Returns the shape of one target: that of poses, or of positions."""
    return (4, 4) if x.shape[-1:] == (4,) else POSITION


@array_function(T=(4, 4))
def _departure(T: Any) -> Any:
    """Returns the largest entry by which matrices (..., 4, 4) differ from poses."""
    R, below = transpose([row[:3] for row in T[:3]]), T[3]
    a, b, c = R
    away = [*(cross(a, b) - c), *below[:3], below[3] - 1.0, dot(a, b), dot(a, a) - 1.0]
    return reduce(maximum, map(abs, [*away, dot(b, b) - 1.0]))


def _check_poses(name: str, x: np.ndarray, core: tuple[int, ...]) -> None:
    """Raises ValueError for matrices that are no poses. Those with a NaN pass."""
    if core != (4, 4):
        return
    wrong = np.asarray(_departure(x)) > SKEW
    if wrong.any():
        where = f"{name}[{', '.join(map(str, np.argwhere(wrong)[0]))}]" if wrong.ndim else name
        raise ValueError(
            f"{where} is no pose: wanted [R p; 0 1] with a rotation R, whose columns are the "
            "frame's axes (a transposed or mirrored matrix is none)"
        )


def _rows(x: np.ndarray, core: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    """Returns an array of one row for each target, without a copy where all have the same row; of a
    pose, its first three rows.
    """
    if core == (4, 4):
        x, core = x[..., :3, :], POSE
    if x.ndim == len(core):
        return np.broadcast_to(x, (prod(lead), *core))
    return np.broadcast_to(x, lead + core).reshape(-1, *core)


def _count(name: str, value: Any, least: int = 1) -> int:
    if is_count(value) or (least == 0 and value == 0):
        return int(value)
    raise ValueError(f"{name} is {shown(value)}: wanted a whole number, {least} or more")


def _share(gain: Any) -> float:
    if isinstance(gain, int | float | np.number) and 0 < gain <= 1:
        return float(gain)
    raise ValueError(f"posture_gain is {shown(gain)}: wanted a number above 0, at most 1")


def _squares(tolerance: Any, problem: Problem, dtype: np.dtype) -> np.ndarray:
    """Returns the squares of the tolerances, as the solver measures errors: of missing clearance,
    none is allowed.
    """
    try:
        position, angle = map(float, tolerance)
    except (TypeError, ValueError):
        position = angle = np.nan
    if not (position > 0 and angle > 0):
        wanted = "wanted two positive numbers, in m and rad, as in (1e-4, 1e-3)"
        raise ValueError(f"tolerance is {shown(tolerance)}: {wanted}")
    squares = [position**2]
    if POSE in problem.targets:
        squares.append((2 * np.sin(min(angle, np.pi) / 2)) ** 2)
    if problem.surroundings is not None:
        squares.append(0.0)
    return np.maximum(squares, np.finfo(dtype).tiny).astype(dtype)
