"""The model that users hold: a robot with its dynamics functions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from featherlane import loaders, model
from featherlane.compiler import (
    FUNCTIONS,
    WRENCH_FRAMES,
    Kernel,
    compile_program,
    dynamics_graph,
    dynamics_program,
    input_shapes,
    shapes,
)
from featherlane.function import Function, common_dtype
from featherlane.graph.graph import Graph


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


class Model(model.Model):
    """A robot: immutable, hashable, picklable, safe to share between threads.

    Every function takes arrays with any leading dimensions, which broadcast: q (..., nq); v, a, tau
    (..., nv); f_ext (..., nbodies, 6). The equation is M(q) a + C(q, v) v + g(q) = tau + sum_i
    J_i^T f_ext_i, in SI units and radians, gravity (0, 0, -9.81) unless loaded otherwise. 6-vectors
    are linear first: [v; w], [force; moment]. f_ext[i] acts on body i at the origin of its frame,
    in its axes, or with f_ext_frame="world" in the world's axes (at the same point). float32 in
    gives float32 out, all else float64; `out=` fills the caller's arrays; `threads=` bounds the
    threads (default: all physical cores once the batch is large enough to pay).

    Raises ValueError or TypeError naming the argument, what came and what was wanted.
    """

    def function(
        self, name: str, f_ext: str | None = None, *, width: int | None = None
    ) -> Function:
        """One of the dynamics functions (a key of `featherlane.FUNCTIONS`) as a `Function` of plain
        arrays.

        f_ext: None, or the frame ("body" or "world") of an additional last input of shape (nbodies,
        6). width: lanes of the vectors, by default the widest of the processor; results do not
        depend on it.
        """
        cache = self.__dict__.setdefault("_functions", {})
        key = name, f_ext, width
        if key not in cache:
            cache[key] = self._make(*key)
        return cache[key]

    def _make(self, name: str, f_ext: str | None, width: int | None) -> Function:
        if name not in FUNCTIONS:
            raise ValueError(f"there is no function {name!r}: wanted one of {', '.join(FUNCTIONS)}")
        if f_ext not in (None, *WRENCH_FRAMES):
            raise ValueError(f"f_ext_frame is {f_ext!r}: wanted 'body' or 'world'")
        if not self.nv:
            raise ValueError(f"{self.name!r} has no moving joint: it has no dynamics")

        def kernel(dtype: np.dtype) -> Kernel:
            key = self.fingerprint, name, f_ext, dtype, width
            made = _kernels.get(key)
            if made is None:  # two threads may both come here, and make the same
                text = f"{self.fingerprint} {name} {f_ext}"
                program = lambda: dynamics_program(self, name, f_ext)
                made = _kernels[key] = compile_program(program, text, dtype, width)
            return made

        outputs = shapes(self, FUNCTIONS[name].outputs)
        return Function(
            name, input_shapes(self, name, f_ext), outputs, kernel, COLLECT.get(name), self._explain
        )

    def graph(self, name: str, f_ext: str | None = None) -> Graph:
        """The dataflow graph of a dynamics function, as the algorithm gives it: `graph.cost()`
        counts it.
        """
        if name not in FUNCTIONS:
            raise ValueError(f"there is no function {name!r}: wanted one of {', '.join(FUNCTIONS)}")
        return dynamics_graph(self, name, f_ext)

    def _explain(self, name: str, shape: tuple[int, ...]) -> str:
        """The likely confusion behind a wrong shape."""
        last = shape[-1] if shape else None
        if name == "f_ext":
            return f"one [force; moment] for each of the {self.nbodies} moving bodies"
        wanted = "nq" if name == "q" else "nv"
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
        f_ext: Any,
        frame: str,
        out: Any,
        threads: int | None,
    ) -> Any:
        if frame not in WRENCH_FRAMES:
            raise ValueError(f"f_ext_frame is {frame!r}: wanted 'body' or 'world'")
        variant = None if f_ext is None else frame
        given = arrays if f_ext is None else (*arrays, f_ext)
        function = self.function(name, variant)
        if out is not None or threads is not None:
            return function(*given, out=out, threads=threads)
        known = self.__dict__.setdefault("_direct", {})
        count, call = known.get((name, variant), (0, function))
        result = call(*given)
        if count != len(function.compiled):
            known[name, variant] = len(function.compiled), function.direct(function.__call__)
            self._shorten(name, variant, function)
        return result

    def _shorten(self, name: str, variant: str | None, function: Function) -> None:
        """From now on single states go straight to the machine code: this instance's method is that
        code, unless a subclass has a method of its own.
        """
        method = getattr(type(self), name, None)
        if variant is None and method is not None and method is getattr(Model, name):
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
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """tau (..., nv): the joint forces (N, N m) that give the acceleration a. Featherstone 2008,
        chapter 5.
        """
        return self._call("inverse_dynamics", (q, v, a), f_ext, f_ext_frame, out, threads)

    def forward_dynamics(
        self,
        q: Any,
        v: Any,
        tau: Any,
        f_ext: Any = None,
        *,
        f_ext_frame: str = "body",
        out: np.ndarray | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """a (..., nv): the acceleration under joint forces tau. Featherstone 2008, chapters 6 and
        7.
        """
        return self._call("forward_dynamics", (q, v, tau), f_ext, f_ext_frame, out, threads)

    def mass_matrix(
        self, q: Any, *, out: np.ndarray | None = None, threads: int | None = None
    ) -> np.ndarray:
        """M(q) (..., nv, nv), symmetric and full. Dadu-RBD, Algorithm 2."""
        return self._call("mass_matrix", (q,), None, "body", out, threads)

    def mass_matrix_inverse(
        self, q: Any, *, out: np.ndarray | None = None, threads: int | None = None
    ) -> np.ndarray:
        """M(q)^-1 (..., nv, nv), symmetric and full. Dadu-RBD, Algorithm 2; Featherstone 2008,
        section 6.5.
        """
        return self._call("mass_matrix_inverse", (q,), None, "body", out, threads)

    def inverse_dynamics_derivatives(
        self,
        q: Any,
        v: Any,
        a: Any,
        f_ext: Any = None,
        *,
        f_ext_frame: str = "body",
        out: tuple[np.ndarray, np.ndarray] | None = None,
        threads: int | None = None,
    ) -> InverseDynamicsDerivatives:
        """dtau/dq and dtau/dv, exact. f_ext stays as it is in its frame. Singh, Russell and Wensing
        2022.
        """
        return self._call(
            "inverse_dynamics_derivatives", (q, v, a), f_ext, f_ext_frame, out, threads
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
        out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        threads: int | None = None,
    ) -> ForwardDynamicsDerivatives:
        """da/dq, da/dv and da/dtau, exact: -M^-1 times the derivatives of inverse dynamics, and
        M^-1.

        Give tau; or a and minv where both are known already (diFD of Dadu-RBD, table I), which
        costs less.
        """
        if tau is not None and a is None and minv is None:
            return self._call(
                "forward_dynamics_derivatives", (q, v, tau), f_ext, f_ext_frame, out, threads
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
            function = self.function(name, None if f_ext is None else f_ext_frame)
            lead, dtype = function.batch_of(q, v, a, minv, *([] if f_ext is None else [f_ext]))
            checked = self.function("forward_dynamics_derivatives").results(out, lead, dtype)
            first, minv = checked[:2], np.array(minv, dtype)  # which may be one of the results
        da_dq, da_dv = self._call(name, (q, v, a, minv), f_ext, f_ext_frame, first, threads)
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

    def integrate(self, q: Any, v: Any) -> np.ndarray:
        """The configuration (..., nq) after moving for one second with the constant velocity v
        (give v * dt).
        """
        q, v = self._parts(q, v=v)
        result = np.empty_like(q)
        for kind, i, k in zip(self.types, self.first_q, self.first_v, strict=True):
            moved = kind.integrate(q[..., i : i + kind.nq], v[..., k : k + kind.nv])
            result[..., i : i + kind.nq] = moved
        return result

    def difference(self, q0: Any, q1: Any) -> np.ndarray:
        """The velocity (..., nv) that `integrate` needs to go from q0 to q1, by the shortest
        turn.
        """
        q0, q1 = self._parts(q0, q1=q1)
        result = np.empty((*q0.shape[:-1], self.nv), q0.dtype)
        for kind, i, k in zip(self.types, self.first_q, self.first_v, strict=True):
            at = slice(i, i + kind.nq)
            result[..., k : k + kind.nv] = kind.difference(q0[..., at], q1[..., at])
        return result

    def neutral(self) -> np.ndarray:
        """The configuration (nq,) of the robot's file: zeros, and quaternions (0, 0, 0, 1)."""
        return np.array([x for kind in self.types for x in kind.neutral])

    def random_configuration(
        self, batch: int | tuple[int, ...] = (), *, seed: int | np.random.Generator | None = None
    ) -> np.ndarray:
        """Configurations (*batch, nq): uniform between the limits, turns without limits over a full
        turn, slides and positions without limits over -1 to 1 m, orientations uniform.
        """
        rng = np.random.default_rng(seed)
        lead = (batch,) if isinstance(batch, int | np.integer) else tuple(batch)
        q = np.empty((*lead, self.nq))
        for joint, kind, i in zip(self.joints, self.types, self.first_q, strict=True):
            reach = np.where(np.isin(np.arange(kind.nq), kind.angles), np.pi, 1.0)
            lower, upper = np.array(joint.lower or -reach), np.array(joint.upper or reach)
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


def load(
    source: loaders.Source,
    *,
    root: str | None = None,
    gravity: Sequence[float] = loaders.EARTH_GRAVITY,
) -> Model:
    base = loaders.load(source, root=root, gravity=gravity)
    return Model(**{field.name: getattr(base, field.name) for field in dataclasses.fields(base)})


load.__doc__ = loaders.load.__doc__
