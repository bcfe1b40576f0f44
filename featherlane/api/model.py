"""The model that users hold: a robot with its dynamics functions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from featherlane.api.compiled import Arrays
from featherlane.api.constrained import ConstrainedDynamics
from featherlane.api.editing import Editing
from featherlane.api.first_calls import FirstCalls
from featherlane.api.frame_derivatives import FrameDerivatives
from featherlane.api.functions_by_name import FunctionsByName
from featherlane.api.inverse_kinematics import InverseKinematicsMethod
from featherlane.api.presented import explained, present
from featherlane.api.sensing import Sensing
from featherlane.api.sensitivities import Sensitivities
from featherlane.backends.cpu.results import fresh
from featherlane.errors import cannot_be_set, no_attribute, one_of, shown
from featherlane.functions.array_like import ArrayLike, Out, Params, Threads, Wrenches, WrenchFrame
from featherlane.functions.foreign_arrays import any_foreign, call
from featherlane.functions.on_device import any_on_device
from featherlane.functions.results import ForwardDynamicsDerivatives, InverseDynamicsDerivatives
from featherlane.robot import loaders, model

IGNORED, SOFT = "ignored", "soft"  # the limits of positions


class Model(
    FrameDerivatives,
    Sensitivities,
    InverseKinematicsMethod,
    ConstrainedDynamics,
    Sensing,
    FunctionsByName,
    FirstCalls,
    Editing,
):
    """A robot: immutable, hashable, picklable, safe to share between threads.

    Every function takes arrays with any leading dimensions, which broadcast: q (..., nq); v, a, tau
    (..., nv); f_ext (..., nbodies, 6). The equation is M(q) a + C(q, v) v + g(q) + stiffness (q -
    spring_reference) + damping v + friction = tau + sum_i J_i^T f_ext_i, where M includes the
    armature; SI units, radians, gravity (0, 0, -9.81) by default. 6-vectors are linear first: [v;
    w], [force; moment]. f_ext[i] acts on body i at the origin of the body's frame, in the axes of
    the body, or with f_ext_frame="world" in the world's axes (at the same point). f_ext may also be
    {frame: wrench (..., 6)}, at the origin of the frame, in the axes of the frame or of the world.
    params: {parameter: values}, see `parameters`. float32 inputs give float32 results, all others
    float64; `out=` takes arrays for the results; `threads=` limits the threads (default: all
    physical cores if the batch is large enough). In functions that are being traced
    (`featherlane.compile`), arrays and results are traced arrays.

    Data: `name`; `joints`, `bodies` and `frames`, tuples of `Joint`, `Body` and `Frame`; `gravity`
    (3,), m/s^2; `root`, the type of its root joint; `source`, the file; `notes`, what the loader
    merged or ignored; `ground`, the `Body` of what is fixed to the ground; `friction_velocity`,
    rad/s or m/s; `actuators`, a tuple of `JointActuator`; `named_configurations`, which
    `configurations` returns as arrays; `fixed_joints`, their names with the frames they carry;
    `loop_closures`, which `loops` returns as constraints; `collision_shapes`, `CollisionShape`s of
    bodies and of the ground; `collision_pairs`, `CollisionPair`s of the file, which touch whatever
    their groups are; `collision_exclusions`, pairs of links that do not touch.

    Raises ValueError or TypeError with the argument's name, its value and what was expected.

    Examples:
        >>> arm = fl.load("double_pendulum")
        >>> arm, arm.joint_names, arm.nq, arm.nv
        (<Model 'double_pendulum': fixed root, 2 bodies, nq 2, nv 2>, ('joint1', 'joint2'), 2, 2)
        >>> states = arm.random_configuration(1000, seed=0)
        >>> arm.gravity_torque(states).shape
        (1000, 2)
    """

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed: its own error
                return object.__getattribute__(self, name)
            owner = f"{type(self).__name__!r} object"
            known = [x for x in dir(type(self)) if not x.startswith("_")]
            raise no_attribute(name, owner, known, "model.")

        def __setattr__(self, name: str, value: Any) -> None:
            if not name.startswith("_"):
                raise cannot_be_set(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            raise cannot_be_set(name, "deleted")

    def inverse_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        method: str = "auto",
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the joint forces tau (..., nv), N m or N, that cause the acceleration a.
        Featherstone 2008, chapter 5.

        method: "auto" (the cheapest), "serial", or "scan", whose depth grows with the logarithm of
        the number of links (Yang, Wu and Pan 2016). Results are equal up to rounding.

        Examples:
            >>> arm.inverse_dynamics(q, v, a).round(3)
            array([-0.039,  0.083])
            >>> arm.inverse_dynamics(np.zeros((100, 2)), v, a).shape
            (100, 2)
        """
        name, wrenches = "inverse_dynamics", (f_ext, f_ext_frame)
        return self._call(name, (q, v, a), params, out, threads, *wrenches, method=method)

    def forward_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        method: str = "auto",
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the acceleration a (..., nv), rad/s^2 or m/s^2, under joint forces tau.
        Featherstone 2008, chapters 6, 7.

        method: "auto" (the cheapest), "aba", or an algorithm that is parallel over the links:
        "jsiia", "abia", "cfa" (chains only), "dca" (docs/links.md). Raises ValueError if the method
        cannot handle the robot.

        Examples:
            >>> tau = arm.inverse_dynamics(q, v, a)
            >>> np.allclose(arm.forward_dynamics(q, v, tau), a)
            True
        """
        name, wrenches = "forward_dynamics", (f_ext, f_ext_frame)
        return self._call(name, (q, v, tau), params, out, threads, *wrenches, method=method)

    def mass_matrix(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns M(q) (..., nv, nv), kg m^2 for angles, as a full symmetric matrix. Dadu-RBD,
        Algorithm 2.

        Examples:
            >>> M = arm.mass_matrix(q)
            >>> M.shape, bool((M == M.T).all())
            ((2, 2), True)
        """
        return self._call("mass_matrix", (q,), params, out, threads)

    def mass_matrix_inverse(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """Returns M(q)^-1 (..., nv, nv), 1/(kg m^2) for angles, as a full matrix. Dadu-RBD,
        Algorithm 2; Featherstone 2008, section 6.5.

        Examples:
            >>> np.allclose(arm.mass_matrix(q) @ arm.mass_matrix_inverse(q), np.eye(2))
            True
        """
        return self._call("mass_matrix_inverse", (q,), params, out, threads)

    def inverse_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        method: str = "auto",
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> InverseDynamicsDerivatives:
        """Returns the exact derivatives dtau/dq and dtau/dv, each (..., nv, nv), in N m or N per
        unit of q and v. f_ext is held constant in its frame. Singh, Russell and Wensing 2022.
        method: "auto", "serial" or "scan".

        Examples:
            >>> d = arm.inverse_dynamics_derivatives(q, v, a)
            >>> h = 1e-6 * np.eye(2)
            >>> slope = arm.inverse_dynamics(q + h, v, a) - arm.inverse_dynamics(q - h, v, a)
            >>> np.allclose(d.dtau_dq, slope.T / 2e-6)  # column k is the derivative by q[k]
            True
        """
        name, wrenches = "inverse_dynamics_derivatives", (f_ext, f_ext_frame)
        return self._call(name, (q, v, a), params, out, threads, *wrenches, method=method)

    def forward_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike | None = None,
        f_ext: Wrenches = None,
        *,
        a: ArrayLike | None = None,
        minv: ArrayLike | None = None,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> ForwardDynamicsDerivatives:
        """Returns the exact derivatives da/dq, da/dv and da/dtau, each (..., nv, nv): -M^-1
        dtau/dq, -M^-1 dtau/dv, M^-1, in rad/s^2 or m/s^2 per unit of q, v and tau.

        Pass tau; or a, if the acceleration is known, which saves its computation; or a and minv =
        M(q)^-1, if both are known (diFD in table I of Dadu-RBD). minv saves time only for arms: for
        robots with branches, solving with the factor of M is cheaper (docs/performance.md,
        "Derivatives of forward dynamics at a known acceleration"). With minv, da_dtau is a copy of
        minv, or minv itself if that is out[2]. Raises TypeError for any other combination of these
        arguments.

        Examples:
            >>> d = arm.forward_dynamics_derivatives(q, v, tau)
            >>> np.allclose(d.da_dtau, arm.mass_matrix_inverse(q))
            True
            >>> known = arm.forward_dynamics(q, v, tau)
            >>> np.allclose(arm.forward_dynamics_derivatives(q, v, a=known).da_dq, d.da_dq)
            True
        """
        if (tau is None) == (a is None) or (a is None and minv is not None):
            got = [n for n, x in (("tau", tau), ("a", a), ("minv", minv)) if x is not None]
            raise TypeError(
                f"forward_dynamics_derivatives got {', '.join(got) or 'neither'}: "
                f"wanted tau, or a, or a and minv"
            )
        plain = f_ext is None and params is None and f_ext_frame == "body"
        if minv is not None:
            if any_on_device((q, v, a, minv)):
                return self._from_known_on_gpu((q, v, a, minv), (params, f_ext, f_ext_frame), out)
            if any_foreign((q, v, a, minv)):
                more: dict[str, Any] = {"f_ext_frame": f_ext_frame, "params": params}
                run = lambda q, v, a, minv, **rest: self.forward_dynamics_derivatives(
                    q, v, None, f_ext, a=a, minv=minv, **more, **rest
                )
                return call(run, {"q": q, "v": v, "a": a, "minv": minv}, out, threads=threads)
            if plain and out is None:
                first = self._forward_dynamics_derivatives_from(q, v, a, minv, threads=threads)
                return _with_inverse(*first, minv, fresh(first[0].shape, first[0].dtype))
            return self._from_known((q, v, a, minv), (params, f_ext, f_ext_frame), out, threads)
        if plain and a is not None:
            return self._forward_dynamics_derivatives_at(q, v, a, out=out, threads=threads)
        name = "forward_dynamics_derivatives" + ("" if a is None else "_at")
        arrays = q, v, tau if a is None else a
        return self._call(name, arrays, params, out, threads, f_ext, f_ext_frame)

    def _forward_dynamics_derivatives_at(
        self, q: Any, v: Any, a: Any, *, out: Any = None, threads: Threads = None
    ) -> ForwardDynamicsDerivatives:
        """`forward_dynamics_derivatives` at a known acceleration, for plain calls."""
        return self._call("forward_dynamics_derivatives_at", (q, v, a), None, out, threads)

    def _forward_dynamics_derivatives_from(
        self,
        q: Any,
        v: Any,
        a: Any,
        minv: Any,
        *,
        out: Any = None,
        threads: Threads = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """da/dq and da/dv from known a and M^-1, for plain calls."""
        return self._call(FROM_INVERSE, (q, v, a, minv), None, out, threads)

    def _from_known(
        self, known: Arrays, more: Arrays, out: Any, threads: Threads
    ) -> ForwardDynamicsDerivatives:
        """The derivatives from q, v, a and M^-1, which goes through unchanged."""
        function, arrays = self._bound(FROM_INVERSE, known, *more)
        minv = known[3]
        if out is None:
            da_dq, da_dv = function(*arrays, threads=threads)
            return _with_inverse(da_dq, da_dv, minv, fresh(da_dq.shape, da_dq.dtype))
        shapes = self.function("forward_dynamics_derivatives")
        da_dq, da_dv, da_dtau = shapes.results(out, *function.batch_of(*arrays))
        if any(np.may_share_memory(minv, x) for x in (da_dq, da_dv)):
            minv = np.array(minv)
        function(*arrays, out=(da_dq, da_dv), threads=threads)
        return _with_inverse(da_dq, da_dv, minv, da_dtau)

    def _from_known_on_gpu(
        self, known: Arrays, more: Arrays, out: Any
    ) -> ForwardDynamicsDerivatives:
        """`_from_known` with arrays on a GPU, of which none is copied: da_dtau is minv itself."""
        if out is not None:
            raise TypeError(
                "out= and minv= together on a GPU: use model.function("
                f"{FROM_INVERSE!r}), whose out= takes da_dq and da_dv"
            )
        function, arrays = self._bound(FROM_INVERSE, known, *more)
        da_dq, da_dv = function(*arrays)
        return ForwardDynamicsDerivatives(da_dq, da_dv, known[3])


present(Model)
FROM_INVERSE = "forward_dynamics_derivatives_from"


def _with_inverse(
    da_dq: np.ndarray, da_dv: np.ndarray, minv: Any, da_dtau: np.ndarray
) -> ForwardDynamicsDerivatives:
    """Returns the three derivatives; da_dtau becomes a copy of minv if it is not minv itself."""
    if da_dtau is not minv:
        da_dtau[...] = minv
    return ForwardDynamicsDerivatives(da_dq, da_dv, da_dtau)


def held(base: model.Robot) -> Model:
    """Returns a robot with the functions of a `Model`."""
    return Model(**base._fields())


@explained
def load(
    source: loaders.Source,
    *,
    root: loaders.Root | None = None,
    gravity: Sequence[float] | None = None,
    mimic: Literal["project", "keep"] = "project",
    joint_order: loaders.JointOrder = "depth-first",
    loops: Literal["refuse", "keep", "drop"] = "refuse",
    lock: Mapping[str, Any] | None = None,
    xacro_args: Mapping[str, Any] | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
    srdf: loaders.Source | None = None,
    limits: Literal["ignored", "soft"] = "ignored",
) -> Model:
    """Loads a robot from a bundled name ("iiwa14"), a path to a URDF or MJCF file, XML text (str or
    bytes), or a name of robot_descriptions ("go2_description"), if that package is installed.

    print(model) shows what was read, merged and ignored. A xacro file is expanded by xacrodoc, if
    that is installed. xacro evaluates code, so the file must be trusted.

    MJCF is read by MuJoCo's compiler (pip install 'featherlane[mjcf]'). By default the root and
    gravity are then those of the file, siblings are in the order of the file, and `root` replaces
    the free joint of the robot's base. Joints that an equality constraint fixes are fixed at that
    position, and assets on which no inertia depends may be missing. `actuators` and
    `configurations` are the actuators and keyframes of the file.

    Raises ModelError, with file, line and element, for a robot that cannot be used, and for
    anything but a regular file of at most 32 MB; ValueError or TypeError for a wrong argument.

    Arguments:
        source: a bundled name, a path, XML text, or a name of robot_descriptions
        root: the joint between the ground and the root link. With "fixed", the root link is the
            ground. Other root joints carry body 0: "free", "planar", "free-split" (a translation,
            then a spherical joint), another joint type, or a `Joint` (required for helical and
            universal roots, which need a pitch or two axes); None: that of an MJCF file, "fixed"
            for URDF
        gravity: (3,), m/s^2, in the ground's axes; None: that of an MJCF file, else (0, 0, -9.81)
        mimic: "project" (joints that follow another have no entries in q and v) or "keep" (they
            are independent)
        joint_order: "depth-first", "breadth-first" (both with siblings by name, or in the order of
            an MJCF file), "file" (as in the file, parents first), or the names of all moving joints
        loops: "refuse" files that close loops; "keep" them as constraints in `model.loops`, without
            which forward dynamics, steps and rollouts then raise ValueError; or "drop" them and
            soft bodies. Loops are MJCF's equalities connect, weld and joint, and in URDF
            `<loop_joint>`, `<drake:ball_constraint>` and joints in `<gazebo>` (docs/constraints.md)
        lock: {joint: position}, rad or m. Joints that are locked, as by `Model.reduced`; None: no
            joints. The model card warns of joints that move no mass and no inertia: kinematics,
            inverse dynamics and M work, while functions that divide by M raise ModelError with the
            name of the joint until it is locked
        xacro_args: values of a xacro file's arguments by name, as in {"prefix": "left_"}; None: its
            defaults
        packages: folders in which $(find name) looks for packages first; then it looks around the
            file, in ROS_PACKAGE_PATH and in AMENT_PREFIX_PATH
        srdf: an SRDF file, or its text, whose group states are added to `configurations`; None: no
            file
        limits: "ignored" (motions pass through position limits) or "soft" (joints have the stops of
            `Model.with_soft_limits`)

    Examples:
        >>> fl.load("iiwa14")
        <Model 'iiwa14': fixed root, 7 bodies, nq 7, nv 7>
        >>> fl.load("double_pendulum", root="free", gravity=(0, 0, -1.62))
        <Model 'double_pendulum': free root, 3 bodies, nq 9, nv 8>
    """
    if limits not in (IGNORED, SOFT):
        raise ValueError(f"limits is {shown(limits)}: {one_of(limits, (IGNORED, SOFT))}")
    robot = loaders.load(
        source,
        root=root,
        gravity=gravity,
        mimic=mimic,
        joint_order=joint_order,
        loops=loops,
        xacro_args=xacro_args,
        packages=packages,
        srdf=srdf,
    )
    model = held(robot).reduced({} if lock is None else lock)
    return model.with_soft_limits() if limits == SOFT else model
