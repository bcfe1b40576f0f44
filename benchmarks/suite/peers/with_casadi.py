"""CasADi: adam's formulas as expressions, generated as C, compiled here and called in a loop."""

from __future__ import annotations

import ctypes
import time
from importlib import metadata
from typing import Any

import numpy as np

from featherlane.functions.table import FUNCTIONS

from . import reduced
from .base import FLOAT32, FLOAT64, Arrays, Case, Peer, Prepared, Unsupported, lacks
from .native import Loop, compiler, made, shared_library, single
from .with_adam import slides
from .with_jax import COORDINATES

LIMIT = 150.0  # seconds that a compiler may take for one function
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast")
ROUNDING = 1e-15

LOOP = """
#include "batch.h"
extern "C" void* make(int threads, char*, int) {{
  auto batch = std::make_unique<Batch<{real}>>();
  for (int k = 0; k < threads; ++k) {{
    auto arg = std::make_shared<std::vector<const {real}*>>({sz_arg} + 1);
    auto res = std::make_shared<std::vector<{real}*>>({sz_res} + 1);
    auto w = std::make_shared<std::vector<{real}>>({sz_w} + 1);
    auto iw = std::make_shared<std::vector<casadi_int>>({sz_iw} + 1);
    batch->workers.push_back({{{{"{name}", [=](const States<{real}>& s, long i) {{
      (*arg)[0] = s.q + i * {nq};
      if ({inputs} > 1) (*arg)[1] = s.v + i * {nv}, (*arg)[2] = s.u + i * {nv};
      for (int k = 0; k < {outputs}; ++k) (*res)[k] = s.out[k] + i * {size};
      {name}(arg->data(), res->data(), iw->data(), w->data(), 0);
    }}}}}});
  }}
  return batch.release();
}}
EXPORT_BATCH({real})
"""


class Expressions:
    """A robot's functions as expressions of q, v and u in our conventions and order."""

    def __init__(self, case: Case) -> None:
        import casadi as cs
        from adam import Representations
        from adam.casadi import KinDynComputations

        model = case.model
        self.cs, self.free = cs, model.root == "free"
        names = [model.joints[i].name for i in reduced.moving(model)]
        gravity = np.array([*model.gravity, 0.0, 0.0, 0.0])
        self.robot = KinDynComputations(reduced.urdf(model), names, gravity=gravity)
        self.robot.set_frame_velocity_representation(Representations.BODY_FIXED_REPRESENTATION)
        self._exact_right_angles(self.robot.rbdalgos.math)
        self.q, self.v = cs.SX.sym("q", model.nq), cs.SX.sym("v", model.nv)
        self.u = cs.SX.sym("u", model.nv)

    def _exact_right_angles(self, math: Any) -> None:
        """Entries of constant rotations that differ from 0 by rounding, since a URDF gives angles
        in radians, would stay in the code: for iiwa14 they double it.
        """
        rotation = math.R_from_RPY

        def rounded(rpy: Any) -> Any:
            R = rotation(rpy)
            entries = np.array(self.cs.DM(R.array))
            entries[np.abs(entries) < ROUNDING] = 0.0
            R.array = self.cs.sparsify(self.cs.SX(entries))
            return R

        math.R_from_RPY = rounded

    def function(self, name: str) -> Any:
        inputs = [self.q, self.v, self.u][: len(FUNCTIONS[name].inputs)]
        results = [self.cs.densify(x) for x in getattr(self, name)()]
        return self.cs.Function(name, inputs, results, {"cse": True})

    def _placement(self) -> Any:
        if not self.free:
            return self.cs.SX.eye(4)
        x, y, z, w = (self.q[k] for k in range(3, 7))
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), self.q[0]],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), self.q[1]],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), self.q[2]],
            [0, 0, 0, 1],
        ]
        return self.cs.vertcat(*(self.cs.horzcat(*row) for row in rows))

    def _position(self) -> tuple[Any, Any]:
        return self._placement(), self.q[7:] if self.free else self.q

    def _velocity(self) -> tuple[Any, Any]:
        return (self.v[:6], self.v[6:]) if self.free else (self.cs.SX.zeros(6), self.v)

    def _own(self, x: Any) -> Any:
        """The part of the joints, where the root is fixed."""
        if self.free:
            return x
        return x[6:] if x.shape[1] == 1 else x[6:, 6:]

    def _M(self) -> Any:
        return self._own(self.robot.mass_matrix(*self._position()))

    def _bias(self) -> Any:
        return self._own(self.robot.bias_force(*self._position(), *self._velocity()))

    def _solve(self, M: Any, x: Any) -> Any:
        return self.cs.ldl_solve(x, *self.cs.ldl(M))

    def inverse_dynamics(self) -> list[Any]:
        return [self._M() @ self.u + self._bias()]

    def forward_dynamics(self) -> list[Any]:
        if not self.free:
            return [self._solve(self._M(), self.u - self._bias())]
        root, state = self.robot.rbdalgos.root_link, (*self._position(), *self._velocity())
        return [self.robot.aba(*state, self.u[6:], {root: self.u[:6]})]

    def mass_matrix(self) -> list[Any]:
        return [self._M()]

    def mass_matrix_inverse(self) -> list[Any]:
        M = self._M()
        return [self._solve(M, self.cs.SX.eye(M.shape[0]))]

    def inverse_dynamics_derivatives(self) -> list[Any]:
        (tau,) = self.inverse_dynamics()
        return [self.cs.jacobian(tau, self.q), self.cs.jacobian(tau, self.v)]

    def forward_dynamics_derivatives(self) -> list[Any]:
        """-M^-1 times the derivatives of inverse dynamics, at the accelerations found."""
        (a,), (minv,) = self.forward_dynamics(), self.mass_matrix_inverse()
        blocks = self.cs.substitute(self.inverse_dynamics_derivatives(), [self.u], [a])
        return [*(-minv @ x for x in blocks), minv]


class CasADi(Peer):
    name, precisions, heavy = "casadi-c", (FLOAT64, FLOAT32), True

    def missing(self) -> str | None:
        absent = lacks(("casadi", "casadi"), ("adam", "adam-robotics[casadi]"))
        if absent is None and compiler("clang++", "g++") is None:
            absent = "there is no clang++ or g++"
        return absent

    def version(self) -> str:
        return f"{metadata.version('casadi')} (adam {metadata.version('adam-robotics')})"

    def prepare(self, case: Case) -> Prepared | Unsupported:
        if "derivatives" in case.name and case.model.root != "fixed":
            return Unsupported(COORDINATES)
        if (why := reduced.refused(case) or slides(case)) is not None:
            return why
        start = time.perf_counter()
        function = Expressions(case).function(case.name)
        source = generated(function, case)
        seconds = time.perf_counter() - start
        library, building = shared_library(source, FLAGS, limit=LIMIT)
        loop = Loop(library, lambda x: made(x, [ctypes.c_int], case.threads))
        inputs = [np.ascontiguousarray(x, case.dtype) for x in case.exact()]
        outputs = case.empty()

        def answers(rows: Any) -> Arrays:
            return tuple(x[rows].swapaxes(1, -1) for x in outputs)

        settings = f"{function.n_instructions():,} operations in C, {' '.join(FLAGS[1:])}"
        passes = loop.passes(case.name, inputs, outputs)
        return Prepared(passes, answers, seconds + building, settings, loop.close)


def generated(function: Any, case: Case) -> str:
    """Its code in C, and a loop over states around it."""
    import casadi as cs

    real = "float" if case.dtype == FLOAT32 else "double"
    generator = cs.CodeGenerator("code", {"cpp": True, "casadi_real": real})
    generator.add(function)
    text = str(generator.dump())
    if real == "float":
        text = single(text)
    sizes = {name: getattr(function, name)() for name in ("sz_arg", "sz_res", "sz_w", "sz_iw")}
    nv = case.model.nv
    return text + LOOP.format(
        real=real,
        name=case.name,
        nq=case.model.nq,
        nv=nv,
        inputs=function.n_in(),
        outputs=function.n_out(),
        size=nv if function.size2_out(0) == 1 else nv * nv,
        **sizes,
    )
