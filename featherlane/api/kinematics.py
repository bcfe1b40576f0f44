"""The user's methods for kinematics, momentum, energies and terms of the equation of motion."""

from __future__ import annotations

import numpy as np

from featherlane.api.compiled import Compiled
from featherlane.functions.array_like import (
    ArrayLike,
    Frames,
    Out,
    Params,
    Reference,
    Threads,
    Wrenches,
    WrenchFrame,
)


class Kinematics(Compiled):
    """Kinematics, momentum, energies and terms of the equation of motion of a `featherlane.Model`.

    q (..., nq), v and a (..., nv) broadcast; lengths in m, masses in kg, angles in rad. Motions and
    momenta are [linear; angular]. A frame is one of `model.frame_names`, or the name of a joint;
    several, as in [hand, elbow], are computed together and give (..., frames, ...), in their order.
    `reference` says in which axes, and at which point, the motion of a frame is expressed:

    - "body": the frame's axes, at its origin (LOCAL in Pinocchio);
    - "world": the world's axes, at the frame's origin (LOCAL_WORLD_ALIGNED);
    - "spatial": the world's axes, at the world's origin (WORLD; Featherstone's).

    `params`, `out`, `threads` and errors are as described in `featherlane.Model`.
    """

    def frame_placement(
        self,
        q: ArrayLike,
        frame: Frames,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns T (..., 4, 4), m, which maps homogeneous coordinates [x; 1] in the frame to world
        coordinates. The columns of T[..., :3, :3] are the axes of the frame, and T[..., :3, 3] is
        its origin.

        Examples:
            >>> T = arm.frame_placement([0.0, 0.0], "link2")
            >>> T.shape, T[3]
            ((4, 4), array([0., 0., 0., 1.]))
            >>> arm.frame_placement([0.0, 0.0], arm.frame_names).shape  # all of them
            (3, 4, 4)
        """
        return self._call("frame_placement", (q,), params, out, threads, frame=frame)

    def frame_velocity(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the velocity (..., 6), [linear; angular] in m/s and rad/s, of the frame: J v.

        The linear part is the velocity of the origin of the frame; in "spatial", it is the velocity
        of the point of the frame's body that is currently at the world's origin.

        Examples:
            >>> arm.frame_velocity(q, v, "link2", "world").shape
            (6,)
            >>> np.allclose(arm.frame_velocity(q, v, "link2"), arm.jacobian(q, "link2") @ v)
            True
        """
        name = "frame_velocity"
        return self._call(name, (q, v), params, out, threads, frame=frame, reference=reference)

    def frame_acceleration(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the acceleration (..., 6), [linear; angular] in m/s^2 and rad/s^2, of the frame:
        J a + dJ/dt v, the time derivative of the six numbers of `frame_velocity` in the same
        reference.

        In "world", the linear part is the classical acceleration of the frame's origin. In "body",
        it is this acceleration minus w x v, because the axes of the frame rotate. "spatial" gives
        Featherstone's spatial acceleration. None includes gravity, which an accelerometer reads,
        see `imu`.

        Examples:
            >>> classical = arm.frame_acceleration(q, v, a, "link2", "world")
            >>> J = arm.jacobian(q, "link2", "world")
            >>> dJ = arm.jacobian_time_derivative(q, v, "link2", "world")
            >>> np.allclose(classical, J @ a + dJ @ v)
            True
        """
        name = "frame_acceleration"
        return self._call(name, (q, v, a), params, out, threads, frame=frame, reference=reference)

    def imu(
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
        """Returns the readings (..., 6) of an inertial measurement unit at a frame, in the axes of
        the frame: the proper acceleration of its origin, m/s^2, which is its classical acceleration
        less gravity, and its angular velocity, rad/s. MuJoCo's sensors accelerometer and gyro.

        Examples:
            >>> still = np.zeros(2)
            >>> arm.imu([0.0, 0.0], still, still, "link2").round(2) + 0.0  # 9.81 m/s^2 upwards
            array([0.  , 0.  , 9.81, 0.  , 0.  , 0.  ])
        """
        return self._call("imu", (q, v, a), params, out, threads, frame=frame)

    def jacobian(
        self,
        q: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns J (..., 6, nv), rows [linear; angular], m/rad or m/m and rad/rad or rad/m: the
        velocity of the frame is J v, and a wrench f = [force; moment] on the frame, in the same
        reference, acts as the joint force J^T f.

        Examples:
            >>> arm.jacobian(q, "link2").shape
            (6, 2)
            >>> force = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])  # 1 N along the world's z
            >>> holding = arm.jacobian(q, "link2", "world").T @ force
        """
        return self._call("jacobian", (q,), params, out, threads, frame=frame, reference=reference)

    def jacobian_time_derivative(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: Frames,
        reference: Reference = "body",
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns dJ/dt (..., 6, nv), in m/s and rad/s per unit of q: the time derivative of
        `jacobian` while the robot moves with v.

        Examples:
            >>> h = 1e-6
            >>> ahead, behind = arm.jacobian(q + h * v, "link2"), arm.jacobian(q - h * v, "link2")
            >>> np.allclose(arm.jacobian_time_derivative(q, v, "link2"), (ahead - behind) / 2e-6)
            True
        """
        name = "jacobian_time_derivative"
        return self._call(name, (q, v), params, out, threads, frame=frame, reference=reference)

    # The robot as a whole

    def center_of_mass(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns the centre c (..., 3) of the moving mass, in the world, in m. Mass fixed to the
        ground (`model.ground_mass`) is not counted. Raises ValueError for a robot without mass.

        Examples:
            >>> arm.center_of_mass([0.0, 0.0]).round(4)
            array([0.0199, 0.    , 0.1624])
        """
        return self._call("center_of_mass", (q,), params, out, threads)

    def center_of_mass_jacobian(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns J (..., 3, nv), m/rad or m/m: the centre of mass has the velocity = J v, in world
        axes.

        Examples:
            >>> (arm.center_of_mass_jacobian(q) @ v).round(4)
            array([ 0.    , -0.0233,  0.0012])
        """
        return self._call("center_of_mass_jacobian", (q,), params, out, threads)

    def centroidal_momentum(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the [linear; angular] momentum (..., 6) of all bodies about the centre of mass,
        in world axes, in kg m/s and kg m^2/s. Armature is not included. Orin, Goswami and Lee 2013.

        Examples:
            >>> momentum = arm.centroidal_momentum(q, v)
            >>> np.allclose(momentum[:3], arm.mass * arm.center_of_mass_jacobian(q) @ v)
            True
        """
        return self._call("centroidal_momentum", (q, v), params, out, threads)

    def centroidal_momentum_matrix(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns A (..., 6, nv), rows [linear; angular], kg m and kg m^2: the centroidal momentum
        is A v.

        Examples:
            >>> np.allclose(arm.centroidal_momentum_matrix(q) @ v, arm.centroidal_momentum(q, v))
            True
        """
        return self._call("centroidal_momentum_matrix", (q,), params, out, threads)

    # Energies and the terms of the equation of motion

    def kinetic_energy(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the kinetic energy T (...), in J: T = 1/2 v^T M(q) v, including the armatures.

        Examples:
            >>> np.allclose(arm.kinetic_energy(q, v), v @ arm.mass_matrix(q) @ v / 2)
            True
        """
        return self._call("kinetic_energy", (q, v), params, out, threads)

    def potential_energy(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns the potential energy (...), in J: -m g . c of the moving mass, which is zero if
        the centre of mass is at the world's origin, plus the energy of the joints' springs. Its
        gradient in the tangent space is `gravity_torque`.

        Examples:
            >>> lifted = fl.load("double_pendulum", gravity=(0, 0, -1.62))  # on the Moon
            >>> round(float(lifted.potential_energy(q) / arm.potential_energy(q)), 6)
            0.165138
        """
        return self._call("potential_energy", (q,), params, out, threads)

    def coriolis_matrix(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns C(q, v) (..., nv, nv), kg m^2/s for angles: C v is the Coriolis and centrifugal
        force, and dM/dt - 2 C is skew-symmetric. Damping and friction are not included. Echeandia
        and Wensing 2021.

        Examples:
            >>> C = arm.coriolis_matrix(q, v)
            >>> np.allclose(C @ v + arm.gravity_torque(q) + arm.damping * v, arm.bias_force(q, v))
            True
        """
        return self._call("coriolis_matrix", (q, v), params, out, threads)

    def gravity_torque(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns g(q) (..., nv), in N and N m: the joint forces that hold the robot at rest
        against gravity and its springs.

        Examples:
            >>> arm.gravity_torque(q).round(3)
            array([-0.059,  0.065])
        """
        return self._call("gravity_torque", (q,), params, out, threads)

    def bias_force(
        self,
        q: ArrayLike,
        v: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the bias force (..., nv), in N and N m: ID(q, v, a = 0) = C v + g + springs +
        damping + friction - J^T f_ext.

        Examples:
            >>> np.allclose(arm.bias_force(q, v), arm.inverse_dynamics(q, v, 0 * v))
            True
        """
        return self._call("bias_force", (q, v), params, out, threads, f_ext, f_ext_frame)
