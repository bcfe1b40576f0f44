"""The user's methods in discrete time: steps and their derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Literal

import numpy as np

from featherlane.algorithms.integrators import Integrator
from featherlane.api.limits import Limits
from featherlane.errors import shown
from featherlane.functions.actuation import (
    FILE,
    Actuated,
    Actuation,
    Actuator,
    Gear,
    file_actuation,
    matrix_actuators,
)
from featherlane.functions.arguments import F32, F64
from featherlane.functions.array_like import (
    ArrayLike,
    Params,
    Threads,
    Wrenches,
    WrenchFrame,
)
from featherlane.functions.constraint_inputs import with_constraints
from featherlane.functions.foreign_arrays import is_foreign
from featherlane.functions.ground_inputs import with_ground
from featherlane.functions.on_device import is_on_device
from featherlane.functions.results import (
    Direction,
    Gradients,
    LinearStep,
    ReducedStep,
    Step,
)
from featherlane.functions.sensors import Sensing, Sensors, with_sensors
from featherlane.functions.table import DEFAULT_INTEGRATOR
from featherlane.program.array import is_traced
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import ContactLaw
from featherlane.robot.ground import Ground

RANGE = {  # the least and the largest positive number of a dtype
    dtype: (float(np.finfo(dtype).smallest_subnormal), float(np.finfo(dtype).max))
    for dtype in (F32, F64)
}


def checked_time_steps(dt: Any, *others: Any) -> Any:
    """Returns dt in the dtype of the others, checked; what is traced or another package's as it
    is.
    """
    dtype = F32 if any(map(_is_single, others)) else F64
    least, most = RANGE[dtype]
    if type(dt) is float and least <= dt <= most:  # the usual case, in a microsecond
        return np.array(dt, dtype)
    if is_traced(dt) or is_on_device(dt):  # a look at what is on a GPU would wait for it
        return dt
    foreign = is_foreign(dt)
    try:
        array = np.asarray(dt)
        foreign = foreign or (array.dtype.kind == "f" and hasattr(dt, "dtype"))
        if not foreign and array.dtype.kind in "fiu":
            with np.errstate(over="ignore"):  # infinite, or 0, in the dtype: refused below
                array = array.astype(dtype, copy=False)
        # A least one that is positive is no NaN
        ends = (array.min(), array.max()) if array.size else (1.0, 1.0)
        good = array.dtype.kind in "fiu" and bool(ends[0] > 0 and ends[1] < inf)
    except (TypeError, ValueError):
        good = False
    except RuntimeError:  # a tensor that needs its gradient
        return dt
    if not good:
        finite = "finite seconds" if foreign else f"finite seconds in {dtype}"
        wanted = f"wanted positive, {finite}, one or one for each state"
        exchanged = np.ndim(dt) and not np.ndim(others[-1])
        hint = "; dt and the number before it seem to be exchanged" if exchanged else ""
        raise ValueError(f"dt is {shown(dt)}: {wanted}{hint}")
    return dt if foreign else array


def _is_single(x: Any) -> bool:
    """Whether an array, or a tensor, is of float32."""
    dtype = getattr(x, "dtype", None)
    return dtype == F32 if isinstance(dtype, np.dtype) else str(dtype).endswith("float32")


def _gears(gear: Any, count: int) -> list[float]:
    """Returns the gear ratio of each of so many joints."""
    try:
        return np.broadcast_to(np.asarray(gear, float), (count,)).tolist()
    except (TypeError, ValueError):
        raise ValueError(
            f"gear is {shown(gear)}: wanted one number, or one for each of the {count} joints"
        ) from None


def _names(joints: Any) -> list[str]:
    """Returns the joints' names, checked."""
    names = [joints] if isinstance(joints, str) or not isinstance(joints, Iterable) else [*joints]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"joints has {shown(name)}: wanted names of joints")
    return names


class TimeSteps(Limits):
    """Steps of a `featherlane.Model` in discrete time.

    integrator: "semi_implicit" (v' = v + dt a, then q' = q + dt v'), "euler" (q' = q + dt v),
    "midpoint" (order 2), "rk4" (order 4) or "implicit_damping", the default, which is semi-implicit
    with M + dt R(v) in place of M, where R(v) v is the joints' damping and friction: stable for all
    dt where these are stiff. docs/time_steps.md has their order, stability and cost. On joints with
    quaternions or headings, q' is `integrate` of the motion, but that semi-implicit steps keep the
    linear velocity of free and planar joints in space, as MuJoCo does, while the body turns.
    Derivatives are by motions in the tangent space. tau holds over the step; f_ext too, in its own
    axes.

    constraints: from `constraints`, with active (..., n), for rollouts (..., T, n). Semi-implicit
    steps, "implicit_damping" too, hold velocities of the step's end, and take a fifth of an error
    of position back; the others hold accelerations, with kp and kd. docs/constraints.md has more.

    dt: seconds, one or one for each state. actuation: controls take the place of joint forces, see
    `actuation`; "file" stands for the actuators of the robot's file. A step that is unstable gives
    what the floats give, in the end NaN: rollouts warn of it, and `Trajectory.diverged` says which.
    """

    def _in_time(
        self,
        name: str,
        arrays: tuple[Any, ...],
        integrator: Integrator,
        actuation: Actuated,
        held: tuple[Any, Any, Any],
        *others: Any,
        on_ground: tuple[Any, Any, Any] = (None, None, None),
        sensing: Sensing = (None, ()),
        **options: Any,
    ) -> Any:
        """Calls a function in time. held: constraints, active and anchors; others: params, out,
        threads, f_ext and f_ext_frame; on_ground: ground, law and ground_params.
        """
        built, more = with_constraints(*held)
        scene, of_ground = with_ground(*on_ground)
        sensors, of_sensors = sensing
        options = {"integrator": integrator, "actuation": actuation, **options}
        options |= {"constraints": built, "ground": scene, "sensors": sensors}
        return self._call(name, (*arrays, *more, *of_ground, *of_sensors), *others, **options)

    def step(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
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
        sensors: Sensors | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> Step:
        """Returns the state after dt seconds: q (..., nq), rad or m, and v (..., nv), rad/s or m/s;
        and the arrays of `sensors` by their names, whose parameters are an argument. Raises
        ValueError for a dt that is not positive.

        Examples:
            >>> after = arm.step(q, v, tau, dt, integrator="rk4")
            >>> after.q.shape, after.v.shape
            ((2,), (2,))
        """
        inputs = q, v, tau, checked_time_steps(dt, q, v, tau)
        on_ground = ground, law, ground_params
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        options: Any = {"on_ground": on_ground, "sensing": with_sensors(sensors, parameters)}
        return self._in_time("step", inputs, integrator, actuation, held, *others, **options)

    def linearize_step(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
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
        by_wrenches: bool = False,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> LinearStep:
        """Returns the state after dt seconds with the exact A (..., 2 nv, 2 nv) and B (..., 2 nv,
        nu): [dq; dv] after the step is A [dq; dv] + B dtau, in the tangent spaces. Units are rad
        and rad/s, or m and m/s, per unit of q, v and tau.

        by_wrenches: B has six more columns for each wrench of f_ext, in the order of f_ext (of a
        dict, in the order of the frames' names), so that ground reaction forces are controls.
        Raises ValueError for by_wrenches without f_ext.

        Examples:
            >>> linear = arm.linearize_step(q, v, tau, dt)
            >>> linear.A.shape, linear.B.shape
            ((4, 4), (4, 2))
        """
        if by_wrenches and (f_ext is None or (isinstance(f_ext, Mapping) and not f_ext)):
            raise ValueError(
                "by_wrenches is True without f_ext: give the wrenches, zeros if unknown"
            )
        inputs = q, v, tau, checked_time_steps(dt, q, v, tau)
        on_ground = ground, law, ground_params
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        options: Any = {"by_wrenches": bool(by_wrenches), "on_ground": on_ground}
        return self._in_time(
            "linearize_step", inputs, integrator, actuation, held, *others, **options
        )

    def linearize_step_reduced(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
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
    ) -> ReducedStep:
        """Returns the state after a step of an Euler method, and the blocks (..., nv, nv) of which
        A and B consist. They are a quarter of the numbers in A and B, and cost as much as
        `forward_dynamics_derivatives`.

        The blocks are derivatives of the acceleration, in rad/s^2 or m/s^2 per unit of q, v and
        controls. The lower half is [A | B] = [0 I 0] + dt [da_dq da_dv da_du]. If no joint has a
        quaternion or a heading, the upper half is [I 0 0] + dt times the lower half, or for "euler"
        [I 0 0] + dt [0 I 0]. Otherwise, dq_next_dq and dq_next_dv of `integrate_derivatives`
        replace I and dt in the upper half. Semi-implicit steps of robots with free or planar joints
        have blocks of the mean acceleration (v' - v) / dt, and there docs/time_steps.md has the
        blocks that replace I and dt.

        Examples:
            >>> lower = arm.linearize_step_reduced(q, v, tau, dt)
            >>> np.allclose(lower.da_dq * dt, arm.linearize_step(q, v, tau, dt).A[2:, :2])
            True
        """
        inputs = q, v, tau, checked_time_steps(dt, q, v, tau)
        on_ground = ground, law, ground_params
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        name, options = "linearize_step_reduced", (integrator, actuation, held, *others)
        return self._in_time(name, inputs, *options, on_ground=on_ground)

    def step_jvp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
        dq: ArrayLike,
        dv: ArrayLike,
        dtau: ArrayLike,
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
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> Direction:
        """Returns A [dq; dv] + B dtau, each half (..., nv), without forming A and B: dq in rad or
        m, dv in rad/s or m/s.

        Examples:
            >>> along = arm.step_jvp(q, v, tau, dt, dq=[1, 0], dv=[0, 0], dtau=[0, 0])
            >>> linear = arm.linearize_step(q, v, tau, dt)
            >>> np.allclose(along.dq, linear.A[:2, 0])
            True
        """
        inputs = q, v, tau, checked_time_steps(dt, q, v, tau), dq, dv, dtau
        on_ground = ground, law, ground_params
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        return self._in_time(
            "step_jvp", inputs, integrator, actuation, held, *others, on_ground=on_ground
        )

    def step_vjp(
        self,
        q: ArrayLike,
        v: ArrayLike,
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
    ) -> Gradients:
        """Returns A^T [gq; gv] (two halves, each (..., nv)) and B^T [gq; gv] (..., nu), without
        forming A and B. They are the gradients with respect to q, v and tau of a function of the
        state after the step, if gq and gv are its gradients with respect to that state, in the
        tangent space.

        Examples:
            >>> back = arm.step_vjp(q, v, tau, dt, gq=[1, 0], gv=[0, 0])
            >>> linear = arm.linearize_step(q, v, tau, dt)
            >>> np.allclose(back.tau, linear.B[0])
            True
        """
        inputs = q, v, tau, checked_time_steps(dt, q, v, tau), gq, gv
        on_ground = ground, law, ground_params
        others, held = (params, out, threads, f_ext, f_ext_frame), (constraints, active, anchors)
        return self._in_time(
            "step_vjp", inputs, integrator, actuation, held, *others, on_ground=on_ground
        )

    def actuation(
        self,
        joints: Sequence[str] | Literal["file"] | None = None,
        gear: ArrayLike = 1.0,
        *,
        clip: bool = True,
        matrix: ArrayLike | None = None,
        limits: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Actuation:
        """Returns the map from controls u (nu,) to joint forces. The controls of `joints` come
        first: u times gear, kept within the effort limit of the joint if `clip`. Those of a matrix
        B (nv, nu) follow, with the forces B u: thrusters, differentials, motors that drive several
        joints. Other joints have no force. joints="file" are the `actuators` of the file, including
        servos; without joints and matrix, it is the map of these, which actuation="file" stands
        for.

        gear: one ratio, or one for each joint. limits: the least and the largest controls of the
        matrix, numbers or (nu,); forces stay at those of the nearest control inside. Raises
        ValueError for unknown joints, joints with several degrees of freedom, gears that are zero
        or not finite, a matrix of another shape or with a column of zeros, and where the file has
        no actuators.

        Examples:
            >>> motor = arm.actuation(["joint1"], gear=10.0, clip=False)
            >>> arm.step(q, v, [0.1], dt, actuation=motor).q.shape
            (2,)
            >>> both = arm.actuation(matrix=[[1.0], [-1.0]], limits=(-2, 2))  # a differential
            >>> arm.linearize_step(q, v, [0.1], dt, actuation=both).B.shape
            (4, 1)
        """
        if limits is not None and matrix is None:
            raise TypeError("limits are those of a matrix: clip=True keeps effort limits of joints")
        coupled = [] if matrix is None else matrix_actuators(self.nv, matrix, limits)
        if joints == FILE or (joints is None and matrix is None):
            return Actuation((*file_actuation(self).actuators, *coupled))
        return Actuation((*self._motors(joints, gear, clip), *coupled))

    def _motors(
        self, joints: Sequence[str] | None, gear: ArrayLike, clip: bool
    ) -> Iterator[Actuator]:
        """Yields the actuators of joints by name; none without names."""
        if joints is None:
            return
        names = _names(joints)
        gears = _gears(gear, len(names))
        if not names:
            raise ValueError("joints is empty: wanted the name of a joint for each control")
        places = {self.joints[i].name: i for i in self.independent}
        for name, ratio in zip(names, gears, strict=True):
            if name not in places:
                leader = self.joint(name).mimic  # joints that the robot lacks are refused here
                raise ValueError(
                    f"joint {name!r} follows {leader}: wanted joints with a v of their own"
                )
            i = places[name]
            if self.types[i].nv != 1:
                raise ValueError(f"joint {name!r} is {self.types[i].name}: wanted joints of one v")
            if not (np.isfinite(ratio) and ratio):
                raise ValueError(f"the gear of {name!r} is {ratio}: wanted a number that is not 0")
            limit = float(self.effort_limits[self.first_v[i]]) / abs(ratio) if clip else inf
            yield Actuator((Gear(self.first_v[i], ratio),), (-limit, limit))
