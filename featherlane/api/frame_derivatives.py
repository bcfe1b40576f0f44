"""The user's methods for derivatives of frames and momentum, and for frames as a task's space."""

from __future__ import annotations

import numpy as np

from featherlane.api.kinematics import Kinematics
from featherlane.functions.array_like import ArrayLike, Frames, Out, Params, Reference, Threads
from featherlane.functions.results import FrameAccelerationDerivatives, FrameVelocityDerivatives


class FrameDerivatives(Kinematics):
    """Derivatives of the motion of frames and of momentum of a `featherlane.Model`, and the inertia
    that a frame has; arguments as in `Kinematics`. Derivatives with respect to q are taken in the
    tangent space.
    """

    def frame_velocity_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> FrameVelocityDerivatives:
        """Returns the derivatives of the six numbers of `frame_velocity` with respect to q and v,
        each (..., 6, nv), m/s and rad/s per unit of q and v.

        Examples:
            >>> found = arm.frame_velocity_derivatives(q, v, "link2", "world")
            >>> np.allclose(found.dvelocity_dv, arm.jacobian(q, "link2", "world"))
            True
        """
        name, of_frame = "frame_velocity_derivatives", {"frame": frame, "reference": reference}
        return self._call(name, (q, v), params, out, threads, **of_frame)

    def frame_acceleration_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> FrameAccelerationDerivatives:
        """Returns the derivatives of the six numbers of `frame_acceleration` with respect to q, v
        and a, each (..., 6, nv), m/s^2 and rad/s^2 per unit of q, v and a.

        Examples:
            >>> found = arm.frame_acceleration_derivatives(q, v, a, "link2")
            >>> np.allclose(found.dacceleration_da, arm.jacobian(q, "link2"))
            True
        """
        name, of_frame = "frame_acceleration_derivatives", {"frame": frame, "reference": reference}
        return self._call(name, (q, v, a), params, out, threads, **of_frame)

    def body_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frame: Frames,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns Y (..., 6, 10): Y pi is the wrench [force; moment], N and N m, in the axes of the
        frame at its origin, that a rigid body needs to move with the frame under gravity, such as a
        payload on a force sensor. pi is [m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz] about this origin.

        Examples:
            >>> payload = np.array([2.0, 0, 0, 0, 0, 0, 0, 0, 0, 0])  # 2 kg
            >>> still = arm.body_regressor(q, 0 * v, 0 * a, "link2") @ payload
            >>> np.allclose(np.linalg.norm(still[:3]), 2 * 9.81)
            True
        """
        return self._call("body_regressor", (q, v, a), params, out, threads, frame=frame)

    def task_space_inertia(
        self,
        q: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        damping_factor: ArrayLike = 0.0,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns (J M^-1 J^T + damping_factor^2)^-1 (..., 6, 6), kg, kg m and kg m^2: the inertia
        with which the frame resists a wrench. Khatib 1987.

        damping_factor: one number or one for each state, kg^-1/2 or, for rotations, kg^-1/2 m^-1.
        Above 0, the inertia of singular states stays finite, below damping_factor^-2. Without it, a
        singular state gives numbers near infinity or NaN; other states of the batch keep theirs.

        Examples:
            >>> arm.task_space_inertia(q, "link2", "world", damping_factor=0.1).shape
            (6, 6)
        """
        of_frame = {"frame": frame, "reference": reference}
        return self._call(
            "task_space_inertia", (q, damping_factor), params, out, threads, **of_frame
        )

    def manipulability(
        self,
        q: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns Yoshikawa's manipulability sqrt(det(J J^T)) (...), in units of J: zero where the
        frame has lost a direction. If fewer than six freedoms move the frame, it is sqrt(det(J^T
        J)) of their columns: zero where two of them move the frame alike.

        Examples:
            >>> arm.manipulability(q, "link2") > 0
            np.True_
        """
        of_frame = {"frame": frame, "reference": reference}
        return self._call("manipulability", (q,), params, out, threads, **of_frame)

    # The robot as a whole

    def centroidal_momentum_rate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the time derivative (..., 6) of `centroidal_momentum`, A a + dA/dt v, in N and
        N m: the sum of all external wrenches about the centre of mass, gravity included.

        Examples:
            >>> rate = arm.centroidal_momentum_rate(q, v, a)
            >>> dA = arm.centroidal_momentum_matrix_time_derivative(q, v)
            >>> np.allclose(rate, arm.centroidal_momentum_matrix(q) @ a + dA @ v)
            True
        """
        return self._call("centroidal_momentum_rate", (q, v, a), params, out, threads)

    def centroidal_momentum_matrix_time_derivative(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns dA/dt (..., 6, nv), kg m/s and kg m^2/s: the time derivative of
        `centroidal_momentum_matrix` while the robot moves with v.

        Examples:
            >>> arm.centroidal_momentum_matrix_time_derivative(q, v).shape
            (6, 2)
        """
        name = "centroidal_momentum_matrix_time_derivative"
        return self._call(name, (q, v), params, out, threads)

    def gravity_torque_derivatives(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns the derivative (..., nv, nv) of `gravity_torque` with respect to q, in N m/rad or
        N/m: the stiffness of gravity and of the springs.

        Examples:
            >>> arm.gravity_torque_derivatives(q).shape
            (2, 2)
        """
        return self._call("gravity_torque_derivatives", (q,), params, out, threads)
