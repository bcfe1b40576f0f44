"""The model that users hold: a robot with its dynamics functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.api.compiled import in_order
from featherlane.api.configurations import Configurations
from featherlane.api.editing import Editing
from featherlane.api.kinematics import Kinematics
from featherlane.api.sensitivities import Sensitivities
from featherlane.functions.results import ForwardDynamicsDerivatives, InverseDynamicsDerivatives
from featherlane.functions.table import Variant
from featherlane.functions.wrenches import stacked
from featherlane.robot import loaders, model


class Model(Kinematics, Sensitivities, Configurations, Editing):
    """A robot: immutable, hashable, picklable, safe to share between threads.

    Every function takes arrays with any leading dimensions, which broadcast: q (..., nq); v, a, tau
    (..., nv); f_ext (..., nbodies, 6). The equation is M(q) a + C(q, v) v + g(q) + damping v +
    friction = tau + sum_i J_i^T f_ext_i, armature being part of M; SI units, radians, gravity (0,
    0, -9.81) unless loaded otherwise. 6-vectors are linear first: [v; w], [force; moment]. f_ext[i]
    acts on body i at the origin of its frame, in its axes, or with f_ext_frame="world" in the
    world's axes (at the same point). f_ext may also be {frame: wrench (..., 6)}: at the frame's
    origin, in its axes or the world's. params: {parameter: values}, see `parameters`. float32 in
    gives float32 out, all else float64; `out=` fills the caller's arrays; `threads=` bounds the
    threads (default: all physical cores once the batch is large enough to pay).

    Raises ValueError or TypeError naming the argument, what came and what was wanted.
    """

    def inverse_dynamics(
        self,
        q: Any,
        v: Any,
        a: Any,
        f_ext: Any = None,
        *,
        f_ext_frame: str = "body",
        params: Mapping[str, Any] | None = None,
        method: str = "auto",
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """tau (..., nv): the joint forces (N, N m) that give the acceleration a. Featherstone 2008,
        chapter 5.

        method: "auto" (the cheapest), "serial", or "scan": depth grows with the logarithm of the
        number of links (Yang, Wu and Pan 2016); all give the same up to rounding.
        """
        return self._call(
            "inverse_dynamics",
            (q, v, a),
            f_ext,
            f_ext_frame,
            params,
            method=method,
            out=out,
            threads=threads,
        )

    def forward_dynamics(
        self,
        q: Any,
        v: Any,
        tau: Any,
        f_ext: Any = None,
        *,
        f_ext_frame: str = "body",
        params: Mapping[str, Any] | None = None,
        method: str = "auto",
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """a (..., nv): the acceleration under joint forces tau. Featherstone 2008, chapters 6 and
        7.

        method: "auto" (the cheapest), "aba", or one that is parallel in the links: "jsiia", "abia",
        "cfa" (chains) or "dca", see docs/links.md. Raises ValueError where a method does not take
        the robot.
        """
        return self._call(
            "forward_dynamics",
            (q, v, tau),
            f_ext,
            f_ext_frame,
            params,
            method=method,
            out=out,
            threads=threads,
        )

    def mass_matrix(
        self,
        q: Any,
        *,
        params: Mapping[str, Any] | None = None,
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """M(q) (..., nv, nv), symmetric and full. Dadu-RBD, Algorithm 2."""
        return self._call("mass_matrix", (q,), params=params, out=out, threads=threads)

    def mass_matrix_inverse(
        self,
        q: Any,
        *,
        params: Mapping[str, Any] | None = None,
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """M(q)^-1 (..., nv, nv), symmetric and full. Dadu-RBD, Algorithm 2; Featherstone 2008,
        section 6.5.
        """
        return self._call("mass_matrix_inverse", (q,), params=params, out=out, threads=threads)

    def inverse_dynamics_derivatives(
        self,
        q: Any,
        v: Any,
        a: Any,
        f_ext: Any = None,
        *,
        f_ext_frame: str = "body",
        params: Mapping[str, Any] | None = None,
        method: str = "auto",
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: int | None = None,
    ) -> InverseDynamicsDerivatives:
        """dtau/dq and dtau/dv, exact. f_ext stays as it is in its frame. Singh, Russell and Wensing
        2022. method: "auto", "serial" or "scan".
        """
        return self._call(
            "inverse_dynamics_derivatives",
            (q, v, a),
            f_ext,
            f_ext_frame,
            params,
            method=method,
            out=out,
            threads=threads,
        )

    def forward_dynamics_derivatives(
        self,
        q: Any,
        v: Any,
        tau: Any = None,
        f_ext: Any = None,
        *,
        a: Any = None,
        minv: Any = None,
        f_ext_frame: str = "body",
        params: Mapping[str, Any] | None = None,
        out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        threads: int | None = None,
    ) -> ForwardDynamicsDerivatives:
        """da/dq, da/dv and da/dtau, exact: -M^-1 times the derivatives of inverse dynamics, and
        M^-1.

        Give tau; or a and minv where both are known already (diFD of Dadu-RBD, table I), which
        costs less but for robots of many links.
        """
        if tau is not None and a is None and minv is None:
            return self._call(
                "forward_dynamics_derivatives",
                (q, v, tau),
                f_ext,
                f_ext_frame,
                params,
                out=out,
                threads=threads,
            )
        if tau is None and a is not None and minv is not None:
            return self._from_known(q, v, a, minv, f_ext, f_ext_frame, params, out, threads)
        given = [n for n, x in (("tau", tau), ("a", a), ("minv", minv)) if x is not None]
        raise TypeError(
            f"forward_dynamics_derivatives got {', '.join(given) or 'neither'}: "
            f"wanted tau, or a and minv"
        )

    def _from_known(
        self,
        q: Any,
        v: Any,
        a: Any,
        minv: Any,
        f_ext: Any,
        frame: str,
        params: Mapping[str, Any] | None,
        out: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
        threads: int | None,
    ) -> ForwardDynamicsDerivatives:
        """diFD: the inverse mass matrix goes through unchanged."""
        name, first = "forward_dynamics_derivatives_from", None
        if out is None and f_ext is None and params is None and frame == "body":
            function = self.__dict__.get("_plain_from") or self._function(Variant(name))
            self.__dict__["_plain_from"] = function  # without the search, a third of the call
            da_dq, da_dv = function(q, v, a, minv, threads=threads)
            return _with_inverse(da_dq, da_dv, minv)
        if out is not None:
            names = in_order(params)
            at, dense = stacked(f_ext) if isinstance(f_ext, Mapping) else ((), f_ext)
            more = [] if dense is None else [dense]
            more += [(params or {})[k] for k in names]
            axes = frame if f_ext is not None else None
            function = self._function(Variant(name, axes, names, at=at))
            lead, dtype = function.batch_of(q, v, a, minv, *more)
            checked = self.function("forward_dynamics_derivatives").results(out, lead, dtype)
            first, minv = checked[:2], np.array(minv, dtype)  # which may be one of the results
        given = (q, v, a, minv)
        da_dq, da_dv = self._call(name, given, f_ext, frame, params, out=first, threads=threads)
        return _with_inverse(da_dq, da_dv, minv, None if out is None else out[2])


def _with_inverse(
    da_dq: np.ndarray, da_dv: np.ndarray, minv: Any, da_dtau: np.ndarray | None = None
) -> ForwardDynamicsDerivatives:
    """All three derivatives, the last of which is known: a copy of it."""
    if da_dtau is None:
        da_dtau = np.empty_like(da_dq)
    da_dtau[...] = minv
    return ForwardDynamicsDerivatives(da_dq, da_dv, da_dtau)


def held(base: model.Model) -> Model:
    """The same robot with its functions."""
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
