"""The user's methods for constraints: contacts, closed loops and couplings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from featherlane import algorithms
from featherlane.api.configurations import Configurations
from featherlane.functions.actuation import Actuated
from featherlane.functions.arguments import counted
from featherlane.functions.array_like import (
    ArrayLike,
    Out,
    Params,
    Threads,
    Wrenches,
    WrenchFrame,
)
from featherlane.functions.constraint_inputs import with_constraints, with_usual
from featherlane.functions.results import (
    ClosedConfiguration,
    ConstrainedForwardDynamics,
    ConstrainedForwardDynamicsDerivatives,
    ConstrainedInverseDynamics,
    Impulse,
    ImpulseDerivatives,
)
from featherlane.functions.table import CALLED
from featherlane.program.array import is_traced
from featherlane.robot.constraint_types import Constraint
from featherlane.robot.constraints import Constraints, StepLevel, constraints_on
from featherlane.robot.loops import loop_closures, loops_on

C = TypeVar("C", bound="ConstrainedDynamics")


class ConstrainedDynamics(Configurations):
    """Dynamics of a `featherlane.Model` with contacts, closed loops and couplings.

    constraints: from `constraints`, n of them with so many rows. The equations are
    M a + h = tau + J^T force and J a + dJ/dt v = 0. Forces act on the body of the constraint's
    `frame`, at its origin, in the axes of `to` (the world's if there is none); the opposite force
    acts on the body of `to`, at the same point. active (..., n): 1, or 0 for constraints that do
    not hold in a state, whose forces are 0; by default all hold. docs/constraints.md has the
    conventions of other packages.
    """

    def constraints(
        self,
        constraints: Sequence[Constraint] | Constraints,
        kp: ArrayLike = 0.0,
        kd: ArrayLike = 0.0,
        level: StepLevel | None = None,
    ) -> Constraints:
        """Returns constraints of this robot, from `fl.Pin`, `fl.Weld`, `fl.Hinge`, `fl.Rod` and
        `fl.Coupling`, for the functions that take them. Printing them shows their rows and rank.

        kp (1/s^2) and kd (1/s), one number or one for each constraint, correct errors: J a + dJ/dt
        v + kd J v + kp error = 0 (Baumgarte 1972); kd = 2 sqrt(kp) is critically damped. Position
        errors of constraints to the world are measured from `anchors`. level: what the steps
        "semi_implicit" and "implicit_damping" hold, the "velocity" at their end (default), or the
        "acceleration" with kp and kd, as all other functions do. Constraints of the robot before it
        was reduced or rerooted are accepted, and looked up by their names. Raises ValueError or
        TypeError that names the constraint.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2", axes="z")])
            >>> print(held)
            1 constraint of double_pendulum: 1 rows
              0: Pin link2 z, rows 0
            rank 1 of 1 rows at a random configuration, nv = 2
        """
        return self._ranked(constraints_on(self, constraints, kp, kd, level))

    def _ranked(self, checked: Constraints) -> Constraints:
        """Returns constraints with the rank of their rows at a random configuration."""
        q = self.random_configuration(seed=0).tolist()
        J = np.array(algorithms.constraint_jacobian(self.tree, q, checked), float)
        return replace(checked, rank=int(np.linalg.matrix_rank(J)))

    @cached_property
    def loops(self) -> Constraints | None:
        """The closed loops of the robot as constraints, which steps, rollouts and constrained
        functions take; None for a robot without loops. They come from its file (`load`,
        loops="keep"), or from `with_loops`. Editing keeps them.

        Examples:
            >>> arm.loops is None
            True
            >>> closed = arm.with_loops([fl.Coupling("joint2", "joint1", (0.0, -2.0))])
            >>> closed.loops.names
            ('Coupling joint2 = -2 joint1^1',)
        """
        loops = loops_on(self)
        return None if loops is None else self._ranked(loops)

    def with_loops(
        self: C,
        constraints: Sequence[Constraint] | Constraints,
        kp: ArrayLike = 0.0,
        kd: ArrayLike = 0.0,
    ) -> C:
        """Returns the robot with these constraints as its `loops`, in the place of those that it
        has. They hold in every state, and editing keeps them with their gains kp (1/s^2) and kd
        (1/s), each one number, or one for each constraint. Their level is "velocity"; for another,
        pass `constraints(model.loops, level=...)`. Arguments and errors are those of `constraints`.

        Examples:
            >>> closed = arm.with_loops([fl.Coupling("joint2", "joint1", (0.0, -2.0))])
            >>> closed.renamed(joints={"joint1": "shoulder"}).loops.names
            ('Coupling joint2 = -2 shoulder^1',)
        """
        checked = constraints_on(self, constraints, kp, kd)
        return replace(self, loop_closures=loop_closures(self, checked))

    def without_loops(self: C) -> C:
        """Returns the robot without its `loops`: the tree of its joints, which moves freely.

        Examples:
            >>> closed = arm.with_loops([fl.Coupling("joint2", "joint1", (0.0, -2.0))])
            >>> closed.without_loops() == arm
            True
        """
        return replace(self, loop_closures=())

    def _constrained(
        self,
        name: str,
        arrays: tuple[Any, ...],
        held: tuple[Any, ...],
        *others: Any,
    ) -> Any:
        """Calls a function with constraints. held: constraints, and arrays in the order of
        `INPUTS`; others: params, out, threads, f_ext, f_ext_frame.
        """
        built, more = with_constraints(*held)
        return self._call(name, (*arrays, *more), *others, constraints=built)

    def constrained_forward_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        f_ext: Wrenches = None,
        *,
        anchors: ArrayLike | None = None,
        kp: ArrayLike | None = None,
        kd: ArrayLike | None = None,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> ConstrainedForwardDynamics:
        """Returns a (..., nv), rad/s^2 or m/s^2, under joint forces tau, and the constraint forces
        (..., rows), N and N m. Carpentier, Budhiraja and Mansard 2021.

        anchors (..., n, 7): placements [x y z, qx qy qz qw] in the world, for constraints to the
        world that have kp. kp, kd: a number, or (..., n), in place of the gains of the constraints.
        Redundant rows are allowed: a is unique, and the forces with the smallest norm are returned.
        If rows contradict each other, a satisfies them as closely as possible.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2", axes="z")])
            >>> a, force = arm.constrained_forward_dynamics(q, v, tau, held)
            >>> J = arm.constraint_jacobian(q, held)
            >>> np.allclose(arm.inverse_dynamics(q, v, a), tau + J.T @ force)
            True
        """
        others = params, out, threads, f_ext, f_ext_frame
        name = "constrained_forward_dynamics"
        held = constraints, active, anchors, kp, kd
        return self._constrained(name, (q, v, tau), held, *others)

    def constrained_forward_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        f_ext: Wrenches = None,
        *,
        anchors: ArrayLike | None = None,
        kp: ArrayLike | None = None,
        kd: ArrayLike | None = None,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> ConstrainedForwardDynamicsDerivatives:
        """Returns a (..., nv) and force (..., rows) of `constrained_forward_dynamics`, and their
        exact derivatives with respect to q, v and tau: da_dq, da_dv, da_dtau (..., nv, nv) and
        dforce_dq, dforce_dv, dforce_dtau (..., rows, nv), in rad/s^2 or m/s^2, N and N m per unit
        of q, v and tau. They include the terms of kp, kd and anchors.

        Where rows contradict each other, or their rank changes, there are no derivatives; then the
        derivatives of the regularised equations are returned. Carpentier and Mansard 2018, with the
        derivatives of the constraints from Singh, Russell and Wensing 2022.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2", axes="z")])
            >>> d = arm.constrained_forward_dynamics_derivatives(q, v, tau, held)
            >>> h = np.array([1e-6, 0.0])
            >>> ahead = arm.constrained_forward_dynamics(q + h, v, tau, held)
            >>> behind = arm.constrained_forward_dynamics(q - h, v, tau, held)
            >>> np.allclose(d.dforce_dq[:, 0], (ahead.force - behind.force) / 2e-6)
            True
        """
        others = params, out, threads, f_ext, f_ext_frame
        name = "constrained_forward_dynamics_derivatives"
        held = constraints, active, anchors, kp, kd
        return self._constrained(name, (q, v, tau), held, *others)

    def impulse(
        self,
        q: ArrayLike,
        v: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        restitution: ArrayLike = 0.0,
        *,
        params: Params = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> Impulse:
        """Returns v' (..., nv) after an impact, rad/s or m/s, and the impulses (..., rows), N s and
        N m s: M (v' - v) = J^T impulse and J v' = -restitution J v.

        restitution: one number, or (..., n), one for each constraint: 0 stops the motion along its
        rows, 1 reflects it.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2", axes="z")])
            >>> after, _ = arm.impulse(q, v, held, restitution=0.5)
            >>> J = arm.constraint_jacobian(q, held)
            >>> np.allclose(J @ after, -0.5 * J @ v)
            True
        """
        arrays = (q, v, self._each("impulse", constraints, restitution=restitution))
        held = constraints, active
        return self._constrained("impulse", arrays, held, params, out, threads)

    def impulse_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        restitution: ArrayLike = 0.0,
        *,
        params: Params = None,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> ImpulseDerivatives:
        """Returns v (..., nv) and impulse (..., rows) of `impulse`, and their exact derivatives
        with respect to q and to v before the impact: dv_dq, dv_dv (..., nv, nv) and dimpulse_dq,
        dimpulse_dv (..., rows, nv), in rad/s or m/s, N s and N m s per unit of q and v.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2", axes="z")])
            >>> d = arm.impulse_derivatives(q, v, held)
            >>> np.allclose(d.dv_dv @ v, d.v)  # it is linear in v
            True
        """
        name = "impulse_derivatives"
        arrays = (q, v, self._each(name, constraints, restitution=restitution))
        return self._constrained(name, arrays, (constraints, active), params, out, threads)

    def constrained_inverse_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        f_ext: Wrenches = None,
        *,
        actuation: Actuated = None,
        weights: ArrayLike | None = None,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> ConstrainedInverseDynamics:
        """Returns tau (..., nv), N m or N, and the smallest constraint forces (..., rows) with
        tau + J^T force = ID(q, v, a), where tau is zero at joints without an actuator.

        actuation: the map from `actuation`, whose joints have an actuator; by default all joints
        of one degree of freedom have one. weights (..., rows), 1 by default: the forces minimise
        the sum of weights force^2; forces that carry the robot may differ by a factor of 100 in
        their weights (docs/constraints.md). The motion a must satisfy the constraints. If no
        forces can cause it, as for a body in the air, the missing force remains in the entries of
        tau at joints without an actuator. Raises ValueError for weights that are not positive, and
        for controls that drive several joints.

        Examples:
            >>> floating = fl.load("double_pendulum", root="free")
            >>> q, still = np.array([0.0, 0, 0, 0, 0, 0, 1, 0.3, -0.5]), np.zeros(8)
            >>> ground = floating.constraints([fl.Weld("base_link")])
            >>> tau, force = floating.constrained_inverse_dynamics(q, still, still, ground)
            >>> np.allclose(force[2], 9.81 * floating.mass), np.allclose(tau[:6], 0)
            (True, True)
        """
        name = "constrained_inverse_dynamics"
        built, more = with_constraints(constraints, active)
        arrays = (q, v, a, self._each(name, constraints, weights=weights), *more)
        others = params, out, threads, f_ext, f_ext_frame
        options: dict[str, Any] = {"constraints": built, "actuation": actuation}
        return self._call(name, arrays, *others, **options)

    def close(
        self,
        q: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        *,
        anchors: ArrayLike | None = None,
        tolerance: float | None = None,
        iterations: int = 20,
    ) -> ClosedConfiguration:
        """Returns q (..., nq), rad or m, near the initial q, at which the constraints hold;
        converged (...), whether all errors are within the tolerance, by default 1e-9 (float32:
        1e-5); and the largest error (...), m or rad. It takes Gauss-Newton steps of the smallest
        norm in the tangent space. Raises ValueError for iterations below 1, TypeError in a trace.

        Examples:
            >>> geared = arm.constraints([fl.Coupling("joint2", "joint1", (0.0, -2.0))])
            >>> closed = arm.close(q, geared)
            >>> bool(closed.converged), np.allclose(closed.q[1], -2 * closed.q[0])
            (True, True)
        """
        steps = counted("iterations", iterations)
        if is_traced(q):
            raise TypeError(
                "close in a trace: its steps end by value, call it outside; "
                "constraint_error(q, constraints) and its Jacobian are functions for traces"
            )
        for k in range(steps + 1):
            after, errors = self._constrained("closing_step", (q,), (constraints, active, anchors))
            error = np.abs(errors).max(-1)
            usual = 1e-5 if error.dtype == np.float32 else 1e-9
            converged = error <= (usual if tolerance is None else tolerance)
            if k == steps or converged.all():
                break
            q = after
        return ClosedConfiguration(np.asarray(q), converged, error)

    @staticmethod
    def _each(name: str, constraints: Any, **x: Any) -> Any:
        """Returns an input with an entry for each row or constraint, see `with_usual`."""
        (input_name,) = x
        return with_usual(CALLED[name], {**x, "constraints": constraints})[input_name]

    def constraint_jacobian(
        self,
        q: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns J (..., rows, nv), in the axes of `to`, in m/rad, m/m and so on: the constraints
        hold the velocities J v at 0, and J^T force are the joint forces of constraint forces. Rows
        of inactive constraints are 0.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2")])
            >>> J = arm.constraint_jacobian(q, held)
            >>> np.allclose(J, arm.jacobian(q, "link2", "world")[:3])
            True
        """
        return self._constrained(
            "constraint_jacobian", (q,), (constraints, active), params, out, threads
        )

    def constraint_error(
        self,
        q: ArrayLike,
        constraints: Constraints,
        *,
        anchors: ArrayLike | None = None,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the position errors (..., rows), m or rad, in the axes of `to`: of the origin of
        a frame; of its rotation, 2 sin(angle / 2) times the axis; of the axis of a hinge, the sine;
        of a rod, the present distance minus its length; of a coupling, q minus its polynomial.

        anchors (..., n, 7): the placements in the world at which a `Pin` or `Weld` without `to`
        holds its frame. Raises ValueError if such a constraint has no anchors.

        Examples:
            >>> geared = arm.constraints([fl.Coupling("joint2", "joint1", (0.0, -2.0))])
            >>> np.allclose(arm.constraint_error(q, geared), q[1] + 2 * q[0])
            True
        """
        name = "constraint_error"
        held = constraints, None, anchors
        return self._constrained(name, (q,), held, params, out, threads)

    def delassus_matrix(
        self,
        q: ArrayLike,
        constraints: Constraints,
        active: ArrayLike | None = None,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns J M^-1 J^T (..., rows, rows), 1/kg for forces: the accelerations along the rows
        caused by unit constraint forces. The matrix is symmetric, and singular if rows are
        redundant. Rows and columns of inactive constraints are 0.

        Examples:
            >>> held = arm.constraints([fl.Pin("link2", axes="yz")])
            >>> S = arm.delassus_matrix(q, held)
            >>> J = arm.constraint_jacobian(q, held)
            >>> np.allclose(S, J @ arm.mass_matrix_inverse(q) @ J.T)
            True
        """
        held = constraints, active
        return self._constrained("delassus_matrix", (q,), held, params, out, threads)
