"""The model that users hold: a robot with its dynamics functions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from featherlane import loaders, model
from featherlane.compiler import (
    WRENCH_FRAMES,
    Kernel,
    compile_program,
    dynamics_graph,
    dynamics_program,
    input_shapes,
    output_shapes,
)
from featherlane.editing import Editing
from featherlane.function import Function, common_dtype
from featherlane.functions import TABLE, Variant
from featherlane.graph.graph import Graph
from featherlane.joints import JointType
from featherlane.kinematics import REFERENCE_HINT, REFERENCES, Kinematics
from featherlane.model import Joint
from featherlane.sensitivities import Sensitivities, check_parameters, in_order
from featherlane.tree import PARAMETERS
from featherlane.wrenches import on_bodies, turning_arms


class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives of tau = ID(q, v, a), each (..., nv, nv), columns in the tangent space; dtau/da
    is M.
    """

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray


class ForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of a = FD(q, v, tau), each (..., nv, nv), columns in the tangent space; da/dtau
    is M^-1.
    """

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_dtau: np.ndarray


COLLECT = {
    "inverse_dynamics_derivatives": InverseDynamicsDerivatives,
    "forward_dynamics_derivatives": ForwardDynamicsDerivatives,
}
_kernels: WeakValueDictionary[tuple[Any, ...], Kernel] = WeakValueDictionary()
"""Shared by equal models, for as long as one of them lives."""


def _text_signature(method: Any) -> str:
    """The signature in the form that CPython reads from the documentation of built-in methods."""
    told = inspect.signature(method)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in told.parameters.values()]
    bare = inspect.Signature(plain)
    return str(bare).replace("(self", "($self", 1)


class Model(Kinematics, Sensitivities, Editing):
    """A robot: immutable, hashable, picklable, safe to share between threads.

    Every function takes arrays with any leading dimensions, which broadcast: q (..., nq); v, a, tau
    (..., nv); f_ext (..., nbodies, 6). The equation is M(q) a + C(q, v) v + g(q) = tau + sum_i
    J_i^T f_ext_i, in SI units and radians, gravity (0, 0, -9.81) unless loaded otherwise. 6-vectors
    are linear first: [v; w], [force; moment]. f_ext[i] acts on body i at the origin of its frame,
    in its axes, or with f_ext_frame="world" in the world's axes (at the same point). f_ext may also
    be {frame: wrench (..., 6)}: at the frame's origin, in its axes or the world's. float32 in gives
    float32 out, all else float64; `out=` fills the caller's arrays; `threads=` bounds the threads
    (default: all physical cores once the batch is large enough to pay).

    Raises ValueError or TypeError naming the argument, what came and what was wanted.
    """

    def function(
        self,
        name: str,
        f_ext: str | None = None,
        *,
        params: Iterable[str] = (),
        frame: str | None = None,
        reference: str | None = None,
        wrt: str | None = None,
        width: int | None = None,
    ) -> Function:
        """One of the functions (a key of `featherlane.FUNCTIONS`, or the name of a method of
        `Kinematics`) as a `Function` of plain arrays.

        f_ext: None, or the axes ("body" or "world") of an additional input of shape (nbodies, 6).
        params: parameters that are further inputs behind it, see `parameters`. frame, reference:
        for the functions of a frame. wrt: the parameter of a derivative. width: lanes of the
        vectors, by default the widest of the processor; results do not depend on it.
        """
        return self._function(Variant(name, f_ext, tuple(params), frame, reference, wrt), width)

    def _function(self, variant: Variant, width: int | None = None) -> Function:
        cache = self.__dict__.setdefault("_functions", {})
        key = variant, width
        if key not in cache:
            cache[key] = self._make(*key)
        return cache[key]

    def _checked(self, variant: Variant) -> None:
        name, wrenches, parameters, frame, reference, wrt = variant
        if name not in TABLE:
            raise ValueError(f"there is no function {name!r}: wanted one of {', '.join(TABLE)}")
        if wrenches not in (None, *WRENCH_FRAMES):
            raise ValueError(f"f_ext_frame is {wrenches!r}: wanted 'body' or 'world'")
        check_parameters(parameters, wrt)
        takes = TABLE[name].takes
        options = {"f_ext": wrenches, "frame": frame, "reference": reference, "wrt": wrt}
        for what, value in options.items():
            if value is not None and what not in takes:
                raise ValueError(f"{name} takes no {what}")
        if "wrt" in takes and wrt is None:
            raise ValueError(f"wrt is missing: wanted one of {', '.join(PARAMETERS)}")
        if "frame" in takes:
            self.frame(frame)  # type: ignore[arg-type]
        if "reference" in takes and reference not in REFERENCES:
            raise ValueError(f"reference is {reference!r}: wanted {REFERENCE_HINT}")
        if not self.nv:
            raise ValueError(f"{self.name!r} has no moving joint: it has no dynamics")

    def _make(self, variant: Variant, width: int | None) -> Function:
        self._checked(variant)

        def kernel(dtype: np.dtype) -> Kernel:
            place = self.frame(variant.frame)[1:] if variant.frame is not None else None
            key = self.fingerprint, variant._replace(frame=None), place, dtype, width
            made = _kernels.get(key)
            if made is None:  # two threads may both come here, and make the same
                text = repr(key[:3])
                program = lambda: dynamics_program(self, variant)
                made = _kernels[key] = compile_program(program, text, dtype, width)
            return made

        return Function(
            variant.name,
            input_shapes(self, variant),
            output_shapes(self, variant),
            kernel,
            COLLECT.get(variant.name),
            self._explain,
        )

    def graph(
        self,
        name: str,
        f_ext: str | None = None,
        *,
        params: Iterable[str] = (),
        frame: str | None = None,
        reference: str | None = None,
        wrt: str | None = None,
    ) -> Graph:
        """The dataflow graph of a function, as the algorithm gives it: `graph.cost()` counts it.
        Arguments as those of `function`.
        """
        variant = Variant(name, f_ext, tuple(params), frame, reference, wrt)
        self._checked(variant)
        return dynamics_graph(self, variant)

    def _explain(self, name: str, shape: tuple[int, ...]) -> str:
        """The likely confusion behind a wrong shape."""
        last = shape[-1] if shape else None
        if name == "f_ext":
            return f"one [force; moment] for each of the {self.nbodies} moving bodies"
        if name in PARAMETERS:
            return f"model.parameters({name!r}) has the model's own"
        if name not in ("q", "q0", "q1", "v", "a", "tau"):
            return ""
        wanted = "nq" if name in ("q", "q0", "q1") else "nv"
        size = f"the model has {wanted} = {getattr(self, wanted)}"
        if self.nq == self.nv:
            turned = len(shape) == 2 and shape[0] == self.nv
            return f"{size}; states go in rows, pass {name}.T" if turned else size
        free = "a free joint takes 7 entries of q (position, quaternion xyzw) and 6 of v"
        other = "v" if name == "q" else "q"
        if last == (self.nv if name == "q" else self.nq):
            return f"{size}; this is the size of {other}. {free[0].upper()}{free[1:]}"
        return f"{size}; {free}" if any(t.name == "free" for t in self.types) else size

    def _call(
        self,
        name: str,
        arrays: tuple[Any, ...],
        f_ext: Any = None,
        f_ext_frame: str = "body",
        params: Mapping[str, Any] | None = None,
        *,
        frame: str | None = None,
        reference: str | None = None,
        wrt: str | None = None,
        out: Any = None,
        threads: int | None = None,
    ) -> Any:
        if f_ext_frame not in WRENCH_FRAMES:
            raise ValueError(f"f_ext_frame is {f_ext_frame!r}: wanted 'body' or 'world'")
        if isinstance(f_ext, Mapping):
            f_ext = on_bodies(self, arrays[0], f_ext, f_ext_frame, params)
        if f_ext is not None:
            arrays = (*arrays, f_ext)
        names = in_order(params)
        if params:
            arrays = (*arrays, *(params[name] for name in names))
        axes = None if f_ext is None else f_ext_frame
        variant = Variant(name, axes, names, frame, reference, wrt)
        function = self._function(variant)
        if out is not None or threads is not None:
            return function(*arrays, out=out, threads=threads)
        known = self.__dict__.setdefault("_direct", {})
        count, call = known.get(variant, (0, function))
        result = call(*arrays)
        if count != len(function.compiled):
            known[variant] = len(function.compiled), function.direct(function.__call__)
            self._shorten(variant, function)
        return result

    def _shorten(self, variant: Variant, function: Function) -> None:
        """From now on single states go straight to the machine code: this instance's method is that
        code, unless a subclass has a method of its own.
        """
        name = variant.name
        method = getattr(type(self), name, None)
        if variant == Variant(name) and method is not None and method is getattr(Model, name):
            doc = f"{name}{_text_signature(method)}\n--\n\n{method.__doc__}"
            self.__dict__[name] = function.direct(method.__get__(self), doc)

    def inverse_dynamics(
        self,
        q: Any,
        v: Any,
        a: Any,
        f_ext: Any = None,
        *,
        f_ext_frame: str = "body",
        params: Mapping[str, Any] | None = None,
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """tau (..., nv): the joint forces (N, N m) that give the acceleration a. Featherstone 2008,
        chapter 5.
        """
        return self._call(
            "inverse_dynamics", (q, v, a), f_ext, f_ext_frame, params, out=out, threads=threads
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
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """a (..., nv): the acceleration under joint forces tau. Featherstone 2008, chapters 6 and
        7.
        """
        return self._call(
            "forward_dynamics", (q, v, tau), f_ext, f_ext_frame, params, out=out, threads=threads
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
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: int | None = None,
    ) -> InverseDynamicsDerivatives:
        """dtau/dq and dtau/dv, exact. f_ext stays as it is in its frame. Singh, Russell and Wensing
        2022.
        """
        d = self._call(
            "inverse_dynamics_derivatives",
            (q, v, a),
            f_ext,
            f_ext_frame,
            params,
            out=out,
            threads=threads,
        )
        if isinstance(f_ext, Mapping) and f_ext_frame == "world":
            d.dtau_dq[...] += turning_arms(self, q, f_ext, params)
        return d

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
        costs less.
        """
        if isinstance(f_ext, Mapping):
            dense = on_bodies(self, q, f_ext, f_ext_frame, params)
            d = self.forward_dynamics_derivatives(
                q,
                v,
                tau,
                dense,
                a=a,
                minv=minv,
                f_ext_frame=f_ext_frame,
                params=params,
                out=out,
                threads=threads,
            )
            if f_ext_frame == "world":
                d.da_dq[...] -= d.da_dtau @ turning_arms(self, q, f_ext, params)
            return d
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
        if tau is not None or a is None or minv is None:
            given = ", ".join(
                n for n, x in (("tau", tau), ("a", a), ("minv", minv)) if x is not None
            )
            raise TypeError(
                f"forward_dynamics_derivatives got {given or 'neither'}: wanted tau, or a and minv"
            )
        name = "forward_dynamics_derivatives_from"
        first = None
        if out is not None:
            axes, names = None if f_ext is None else f_ext_frame, tuple(params or ())
            function = self.function(name, axes, params=names)
            more = ([] if f_ext is None else [f_ext]) + list((params or {}).values())
            lead, dtype = function.batch_of(q, v, a, minv, *more)
            checked = self.function("forward_dynamics_derivatives").results(out, lead, dtype)
            first, minv = checked[:2], np.array(minv, dtype)  # which may be one of the results
        da_dq, da_dv = self._call(
            name, (q, v, a, minv), f_ext, f_ext_frame, params, out=first, threads=threads
        )
        da_dtau = np.empty_like(da_dq) if out is None else out[2]
        da_dtau[...] = minv
        return ForwardDynamicsDerivatives(da_dq, da_dv, da_dtau)

    # The space of configurations

    def _parts(self, q: Any, **others: Any) -> tuple[np.ndarray, ...]:
        sizes = {"q": self.nq, "q0": self.nq, "q1": self.nq, "v": self.nv}
        arrays = [np.asarray(q), *map(np.asarray, others.values())]
        for name, array in zip(["q", *others], arrays, strict=True):
            if not array.ndim or array.shape[-1] != sizes[name]:
                hint = self._explain("v" if name == "v" else "q", array.shape)
                raise ValueError(
                    f"{name} has shape {array.shape}, wanted (..., {sizes[name]}): {hint}"
                )
        dtype = common_dtype(dict(zip(["q", *others], [q, *others.values()], strict=True)))
        lead = np.broadcast_shapes(*[array.shape[:-1] for array in arrays])
        return tuple(
            np.broadcast_to(array, lead + array.shape[-1:]).astype(dtype) for array in arrays
        )

    def _own_coordinates(self) -> list[tuple[JointType, int, int]]:
        """Type, first entry of q and of v of each joint that does not follow another."""
        return [(self.types[i], self.first_q[i], self.first_v[i]) for i in self.independent]

    def integrate(self, q: Any, v: Any) -> np.ndarray:
        """The configuration (..., nq) after moving for one second with the constant velocity v
        (give v * dt).
        """
        q, v = self._parts(q, v=v)
        result = np.empty_like(q)
        for kind, i, k in self._own_coordinates():
            moved = kind.integrate(q[..., i : i + kind.nq], v[..., k : k + kind.nv])
            result[..., i : i + kind.nq] = moved
        return result

    def difference(self, q0: Any, q1: Any) -> np.ndarray:
        """The velocity (..., nv) that `integrate` needs to go from q0 to q1, by the shortest
        turn.
        """
        q0, q1 = self._parts(q0, q1=q1)
        result = np.empty((*q0.shape[:-1], self.nv), q0.dtype)
        for kind, i, k in self._own_coordinates():
            at = slice(i, i + kind.nq)
            result[..., k : k + kind.nv] = kind.difference(q0[..., at], q1[..., at])
        return result

    def neutral(self) -> np.ndarray:
        """The configuration (nq,) of the robot's file: zeros, and quaternions (0, 0, 0, 1)."""
        return np.array([x for kind, _, _ in self._own_coordinates() for x in kind.neutral])

    @cached_property
    def _followers(self) -> dict[str, list[Joint]]:
        """The mimic joints that have limits, by the name of their leader."""
        found: dict[str, list[Joint]] = {}
        for joint in self.joints:
            if joint.mimic and joint.mimic.multiplier and joint.lower:
                found.setdefault(joint.mimic.joint, []).append(joint)
        return found

    def _limits(self, joint: Joint, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of a joint, and of those that follow it as far as they leave it room."""
        lower, upper = np.array(joint.lower or -reach), np.array(joint.upper or reach)
        for follower in self._followers.get(joint.name, ()):
            _, ratio, offset = follower.mimic  # type: ignore[misc]
            ends = (np.array([follower.lower, follower.upper]) - offset) / ratio
            low, high = np.maximum(lower, ends.min(0)), np.minimum(upper, ends.max(0))
            if np.all(low < high):
                lower, upper = low, high
        return lower, upper

    @np.errstate(over="ignore")  # limits near the largest float count as none
    def random_configuration(
        self, batch: int | tuple[int, ...] = (), *, seed: int | np.random.Generator | None = None
    ) -> np.ndarray:
        """Configurations (*batch, nq): uniform between the limits, turns without limits over a full
        turn, slides and positions without limits over -1 to 1 m, orientations uniform.
        """
        rng = np.random.default_rng(seed)
        lead = (batch,) if isinstance(batch, int | np.integer) else tuple(batch)
        q = np.empty((*lead, self.nq))
        for n in self.independent:
            kind, i = self.types[n], self.first_q[n]
            reach = np.where(np.isin(np.arange(kind.nq), kind.angles), np.pi, 1.0)
            lower, upper = self._limits(self.joints[n], reach)
            span = np.where(np.isfinite(upper - lower), upper - lower, np.inf)
            bounded = (span > 0) & (span < 4 * np.pi) | (reach == 1.0) & np.isfinite(span) & (
                span > 0
            )
            lower, upper = np.where(bounded, lower, -reach), np.where(bounded, upper, reach)
            q[..., i : i + kind.nq] = rng.uniform(lower, upper, (*lead, kind.nq))
            for k in kind.quaternions:
                turn = rng.normal(size=(*lead, 4))
                q[..., i + k : i + k + 4] = turn / np.linalg.norm(turn, axis=-1, keepdims=True)
        return q


def held(base: model.Model) -> Model:
    """The same robot with its functions."""
    return Model(**{field.name: getattr(base, field.name) for field in dataclasses.fields(base)})


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
