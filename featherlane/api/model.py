"""The model that users hold: a robot with its dynamics functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.api.compiled import Arrays
from featherlane.api.editing import Editing
from featherlane.api.first_calls import FirstCalls
from featherlane.api.inverse_kinematics import InverseKinematicsMethod
from featherlane.api.kinematics import Kinematics
from featherlane.api.sensitivities import Sensitivities
from featherlane.api.time_steps import TimeSteps
from featherlane.backends.cpu.results import fresh
from featherlane.functions.array_like import ArrayLike, Out, Params, Threads, Wrenches
from featherlane.functions.foreign import any_foreign, call
from featherlane.functions.on_device import any_on_device
from featherlane.functions.results import ForwardDynamicsDerivatives, InverseDynamicsDerivatives
from featherlane.robot import loaders, model


class Model(Kinematics, Sensitivities, InverseKinematicsMethod, TimeSteps, FirstCalls, Editing):
    """A robot: immutable, hashable, picklable, safe to share between threads.

    Every function takes arrays with any leading dimensions, which broadcast: q (..., nq); v, a, tau
    (..., nv); f_ext (..., nbodies, 6). The equation is M(q) a + C(q, v) v + g(q) + damping v +
    friction = tau + sum_i J_i^T f_ext_i, where M includes the armature; SI units, radians, gravity
    (0, 0, -9.81) by default. 6-vectors are linear first: [v; w], [force; moment]. f_ext[i] acts on
    body i at the origin of its frame, in its axes, or with f_ext_frame="world" in the world's axes
    (at the same point). f_ext may also be {frame: wrench (..., 6)}, at the frame's origin, in its
    axes or the world's. params: {parameter: values}, see `parameters`. float32 inputs give float32
    results, all others float64; `out=` takes arrays for the results; `threads=` limits the threads
    (default: all physical cores if the batch is large enough). In functions that are traced
    (`featherlane.compile`), the arrays and results are traced arrays.

    Raises ValueError or TypeError with the argument's name, its value and what was expected.
    """

    def inverse_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: str = "body",
        params: Params = None,
        method: str = "auto",
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """tau (..., nv): the joint forces (N, N m) at acceleration a. Featherstone 2008, chapter 5.

        method: "auto" (the cheapest), "serial", or "scan", whose depth grows with the logarithm of
        the number of links (Yang, Wu and Pan 2016). Results are the same up to rounding.
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
        f_ext_frame: str = "body",
        params: Params = None,
        method: str = "auto",
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """a (..., nv): the acceleration under joint forces tau. Featherstone 2008, chapters 6, 7.

        method: "auto" (the cheapest), "aba", or parallel over the links: "jsiia", "abia", "cfa"
        (chains only), "dca", see docs/links.md. Raises ValueError if it cannot handle the robot.
        """
        name, wrenches = "forward_dynamics", (f_ext, f_ext_frame)
        return self._call(name, (q, v, tau), params, out, threads, *wrenches, method=method)

    def mass_matrix(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """M(q) (..., nv, nv), symmetric and full. Dadu-RBD, Algorithm 2."""
        return self._call("mass_matrix", (q,), params, out, threads)

    def mass_matrix_inverse(
        self, q: ArrayLike, *, params: Params = None, out: Out = None, threads: Threads = None
    ) -> np.ndarray:
        """M(q)^-1 (..., nv, nv), in full. Dadu-RBD, Algorithm 2; Featherstone 2008, section 6.5."""
        return self._call("mass_matrix_inverse", (q,), params, out, threads)

    def inverse_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: str = "body",
        params: Params = None,
        method: str = "auto",
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> InverseDynamicsDerivatives:
        """dtau/dq and dtau/dv, exact. f_ext is held constant in its frame. Singh, Russell and
        Wensing 2022. method: "auto", "serial" or "scan".
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
        f_ext_frame: str = "body",
        params: Params = None,
        out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        threads: Threads = None,
    ) -> ForwardDynamicsDerivatives:
        """da/dq, da/dv and da/dtau, exact: -M^-1 dtau/dq, -M^-1 dtau/dv and M^-1.

        Give tau; or a, if the acceleration is known, which saves computing it; or a and minv =
        M(q)^-1, if both are known (diFD in table I of Dadu-RBD). minv pays off only for arms: with
        branches, solving with the factor of M is cheaper (docs/performance.md, "Derivatives of
        forward dynamics at a known acceleration"). With minv, da_dtau is a copy of it, or minv
        itself if that is out[2].
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
        given = q, v, tau if a is None else a
        return self._call(name, given, params, out, threads, f_ext, f_ext_frame)

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
        function, given = self._bound(FROM_INVERSE, known, *more)
        minv = known[3]
        if out is None:
            da_dq, da_dv = function(*given, threads=threads)
            return _with_inverse(da_dq, da_dv, minv, fresh(da_dq.shape, da_dq.dtype))
        shapes = self.function("forward_dynamics_derivatives")
        da_dq, da_dv, da_dtau = shapes.results(out, *function.batch_of(*given))
        if any(np.may_share_memory(minv, x) for x in (da_dq, da_dv)):
            minv = np.array(minv)
        function(*given, out=(da_dq, da_dv), threads=threads)
        return _with_inverse(da_dq, da_dv, minv, da_dtau)

    def _from_known_on_gpu(
        self, known: Arrays, more: Arrays, out: Any
    ) -> ForwardDynamicsDerivatives:
        """The same with arrays on a GPU, of which none is copied: da_dtau is minv itself."""
        if out is not None:
            raise TypeError(
                "out= and minv= together on a GPU: use model.function("
                f"{FROM_INVERSE!r}), whose out= takes da_dq and da_dv"
            )
        function, given = self._bound(FROM_INVERSE, known, *more)
        da_dq, da_dv = function(*given)
        return ForwardDynamicsDerivatives(da_dq, da_dv, known[3])


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


def load(
    source: loaders.Source,
    *,
    root: loaders.Root | None = None,
    gravity: Sequence[float] | None = None,
    mimic: str = "project",
    joint_order: loaders.JointOrder = "depth-first",
    loops: str = "refuse",
) -> Model:
    return held(
        loaders.load(
            source, root=root, gravity=gravity, mimic=mimic, joint_order=joint_order, loops=loops
        )
    )


load.__doc__ = loaders.load.__doc__
