"""The user's methods of many steps: rollouts, their gradients, and feedback laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from featherlane.algorithms.integrators import Integrator
from featherlane.api.diverged import warn_if_diverged
from featherlane.api.time_steps import TimeSteps, checked_time_steps
from featherlane.errors import shown
from featherlane.functions.actuation import Actuated
from featherlane.functions.arguments import check_every, counted, rows
from featherlane.functions.array_like import ArrayLike, Params, Threads, Wrenches, WrenchFrame
from featherlane.functions.policy import Policy, checked_policy
from featherlane.functions.results import PolicyTrajectory, RolloutGradient, Trajectory
from featherlane.functions.sensors import Sensors, split_parameters, with_sensors
from featherlane.functions.table import DEFAULT_INTEGRATOR
from featherlane.functions.variants import actuation_of
from featherlane.program.trace import check_function
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import ContactLaw
from featherlane.robot.ground import Ground

Shape = int | Sequence[int]
"""The shape of an array, or the length of a vector."""
TAKEN = (  # names of the inputs and outputs of rollouts, and of the law
    *("q", "v", "t", "dt", "tau", "f_ext", "active", "anchors"),
    *("count", "controls", "q_kept", "v_kept", "diverged"),
)


def _states(trajectory: Any, steps: int) -> tuple[Any, Any]:
    """Returns q and v of a trajectory of so many steps, with every state."""
    if not isinstance(trajectory, tuple | list) or len(trajectory) < 2:
        raise TypeError(
            f"trajectory is {shown(trajectory)}: wanted the (q, v) that model.rollout(...) gave"
        )
    q, v = trajectory[:2]
    if (kept := rows("trajectory.q", q)) != steps + 1:
        raise ValueError(
            f"trajectory has {kept} states for {steps} steps of tau: wanted {steps + 1}, every "
            "state, as rollout gives without every="
        )
    return q, v


def check_names(what: str, names: Iterable[str], taken: Iterable[str]) -> None:
    """Raises ValueError for names of arrays that are taken, or that Python does not take."""
    for name in names:
        if not name.isidentifier() or iskeyword(name) or name.startswith("_") or name in taken:
            listed = tuple(sorted(taken))
            raise ValueError(f"{what} has {name!r}: wanted a name other than {listed}")


def _names_of_arrays(groups: Mapping[str, Mapping[str, Shape]]) -> list[str]:
    """Returns the names of a policy's parameters, references, memory and sensors. Raises ValueError
    for names that are taken.
    """
    names = list[str]()
    taken = {f"{x}_{when}" for x in groups["memory"] for when in ("next", "end")}
    for what, shapes in groups.items():
        check_names(what, shapes, TAKEN)
        for name in shapes:
            if name in taken:
                raise ValueError(f"{what} has {name!r}, which has another meaning: rename it")
            names.append(name)
            taken.add(name)
    return names


class Rollouts(TimeSteps):
    """Rollouts of a `featherlane.Model`: many steps in one call, and their gradients."""

    def rollout(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
        f_ext: Wrenches = None,
        *,
        integrator: Integrator = DEFAULT_INTEGRATOR,
        every: int = 1,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        actuation: Actuated = None,
        constraints: Constraints | None = None,
        active: ArrayLike | None = None,
        anchors: ArrayLike | None = None,
        ground: Ground | None = None,
        law: ContactLaw | None = None,
        ground_params: Mapping[str, ArrayLike] | None = None,
        sensors: Sensors | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> Trajectory:
        """Returns the states q (..., T + 1, nq), rad or m, and v (..., T + 1, nv), rad/s or m/s, of
        T steps that start from (q0, v0), including this first state. tau (..., T, nv) has one row
        for each step.

        f_ext also has one row for each step: (..., T, nbodies, 6), or {frame: (..., T, 6)}. every:
        with every=n, each n-th state is kept, T / n + 1 in all. sensors: from `sensors`, whose
        arrays (..., T / n, ...) are those of the step to each state that is kept, with their
        parameters. The whole rollout is one call of machine code.

        Examples:
            >>> falling = arm.rollout(q, v, np.zeros((50, 2)), dt)
            >>> falling.q.shape, falling.v.shape
            ((51, 2), (51, 2))
        """
        steps = rows("tau", tau)
        inputs = q0, v0, tau, checked_time_steps(dt, q0, v0, tau)
        options: Any = {"on_ground": (ground, law, ground_params)}
        options |= {"sensing": with_sensors(sensors, parameters)}
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        options |= {"steps": steps, "every": check_every(every, steps)}
        moved = self._in_time("rollout", inputs, integrator, actuation, held, *others, **options)
        warn_if_diverged(self, moved, (q0, v0, tau, dt), integrator)
        return moved

    def rollout_with(
        self,
        policy: Policy,
        q0: ArrayLike,
        v0: ArrayLike,
        dt: ArrayLike,
        steps: int,
        f_ext: Wrenches = None,
        *,
        parameters: Mapping[str, ArrayLike] | None = None,
        references: Mapping[str, ArrayLike] | None = None,
        memory: Mapping[str, ArrayLike] | None = None,
        integrator: Integrator = DEFAULT_INTEGRATOR,
        every: int = 1,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        actuation: Actuated = None,
        constraints: Constraints | None = None,
        active: ArrayLike | None = None,
        anchors: ArrayLike | None = None,
        ground: Ground | None = None,
        law: ContactLaw | None = None,
        ground_params: Mapping[str, ArrayLike] | None = None,
        sensors: Sensors | None = None,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> PolicyTrajectory:
        """Returns the states of a rollout, as `rollout` does, whose controls a feedback law
        computes, and these controls, tau (..., steps, nu), in N m or N without `actuation`.

        policy: from `policy`. parameters, references, memory: its arrays by name, with leading
        dimensions that broadcast: one set for all rollouts, or one for each. References have a row
        for each step, (..., steps, n). Memory is what the law reads at the first step, of sensors
        too, by default zeros; the result also has each memory after the last step, by its name, and
        the arrays of `sensors`, see `rollout`. Raises TypeError for a policy that does not come
        from `policy`, ValueError for steps below 1.

        Examples:
            >>> law = arm.policy(lambda q, v, t, gain: -gain * q - 0.1 * v, {"gain": 2})
            >>> arm.rollout_with(law, q, v, dt, 50, parameters={"gain": [1.0, 0.5]}).tau.shape
            (50, 2)
            >>> law = arm.policy(lambda q, v, t, q_d: 0.1 * (q_d - q), references={"q_d": 2})
            >>> path = np.linspace(q, [0.5, 0.2], 50)
            >>> arm.rollout_with(law, q, v, dt, 50, references={"q_d": path}).q.shape
            (51, 2)
        """
        steps = counted("steps", steps)
        of_policy, sensing = split_parameters(sensors, parameters, checked_policy(policy))
        values = policy.in_order(of_policy, references, memory)
        inputs = q0, v0, checked_time_steps(dt, q0, v0), *values
        options: Any = {"on_ground": (ground, law, ground_params), "sensing": sensing}
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        options |= {"policy": policy, "steps": steps, "every": check_every(every, steps)}
        name, arguments = "rollout_with", (inputs, integrator, actuation, held, *others)
        moved = self._in_time(name, *arguments, **options)
        warn_if_diverged(self, moved, (q0, v0, dt), integrator)
        return moved

    def rollout_gradient(
        self,
        trajectory: Trajectory,
        tau: ArrayLike,
        dt: ArrayLike,
        gq: ArrayLike,
        gv: ArrayLike,
        f_ext: Wrenches = None,
        *,
        integrator: Integrator = DEFAULT_INTEGRATOR,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        actuation: Actuated = None,
        constraints: Constraints | None = None,
        active: ArrayLike | None = None,
        anchors: ArrayLike | None = None,
        ground: Ground | None = None,
        law: ContactLaw | None = None,
        ground_params: Mapping[str, ArrayLike] | None = None,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> RolloutGradient:
        """Returns the gradients with respect to q0 and v0, each (..., nv), and tau (..., T, nu) of
        a function of all states of a rollout. gq and gv (..., T + 1, nv) are the gradients of the
        function with respect to these states, in the tangent spaces for q. Units are those of the
        function per rad or m, per rad/s or m/s, and per N m or N.

        trajectory: the result of `rollout` for the same controls, with every state kept. All other
        arguments must be those of that rollout, its ground, law and constraints too. On the ground
        with `fl.Coulomb`, derivatives are those of the equations that steps solve, at the state of
        each contact (docs/ground.md, "Derivatives"). Raises TypeError for a rollout on the
        ground without ground=.

        Examples:
            >>> controls = np.zeros((50, 2))
            >>> falling = arm.rollout(q, v, controls, dt)
            >>> by_end = np.zeros((51, 2))
            >>> by_end[-1] = 1.0  # the gradient of the sum of the last q
            >>> arm.rollout_gradient(falling, controls, dt, by_end, np.zeros((51, 2))).tau.shape
            (50, 2)
        """
        steps = rows("tau", tau)
        q, v = _states(trajectory, steps)
        if ground is None and hasattr(trajectory, "contact_force"):
            raise TypeError(
                "trajectory is of a rollout on the ground: wanted the ground=, law= and "
                "ground_params= of that rollout"
            )
        inputs = q, v, tau, checked_time_steps(dt, q, v, tau), gq, gv
        options: Any = {"on_ground": (ground, law, ground_params), "steps": steps}
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        name, arguments = "rollout_gradient", (inputs, integrator, actuation, held, *others)
        return self._in_time(name, *arguments, **options)

    def policy(
        self,
        function: Callable[..., Any],
        parameters: Mapping[str, Shape] | None = None,
        *,
        references: Mapping[str, Shape] | None = None,
        memory: Mapping[str, Shape] | None = None,
        sensors: Mapping[str, Shape] | None = None,
        hold: int = 1,
        actuation: Actuated = None,
    ) -> Policy:
        """Traces a feedback law u = function(q, v, t, **arrays) for `rollout_with`; t is the time
        since the rollout began. The law is evaluated at the beginning of each step, or of each
        `hold`-th one, and u is constant until the next evaluation (zero-order hold), also over the
        stages of "rk4" and "midpoint".

        parameters, references, memory, sensors: the shapes of further arrays by name. Parameters
        are the same in all steps; of references, the law gets the row of its step. A law with
        memory returns (u, {name: new value}), and gets these values at its next evaluation. Of
        sensors of the rollout, it gets the values of the step before. Raises ValueError or
        TypeError if it does not, and ValueError if u is not nu scalars.

        Examples:
            >>> law = arm.policy(lambda q, v, t: -q - 0.1 * v)
            >>> law.shape
            (2,)
            >>> def integral(q, v, t, goal, sum):
            ...     return 0.1 * (goal - q + 0.1 * sum), {"sum": sum + goal - q}
            >>> law = arm.policy(integral, {"goal": 2}, memory={"sum": 2}, hold=5)
            >>> arm.rollout_with(law, q, v, dt, 50, parameters={"goal": q}).sum.shape
            (2,)
        """
        kinds = ("parameters", parameters), ("references", references), ("memory", memory)
        groups = {kind: dict(shapes or {}) for kind, shapes in (*kinds, ("sensors", sensors))}
        names = _names_of_arrays(groups)
        state = {"q": self.nq, "v": self.nv, "t": ()}
        check_function(function, [*state], names)
        policy = Policy.traced(function, state, [*groups.values()], counted("hold", hold))
        actuation = actuation_of(self, actuation)
        controls = actuation.controls if actuation else self.nv
        if policy.shape != (controls,):
            raise ValueError(
                f"the policy gives an array of shape {policy.shape}: wanted ({controls},) controls"
            )
        return policy
