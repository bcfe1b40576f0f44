"""Sequential quadratic programming with multiple shooting: one iteration for each control step.

The quadratic program goes to PIQP, whose multistage solver finds the chain of knots in the pattern
of its matrices. Variables are u_0, f_0, x_1, u_1, f_1, ..., x_K as changes of the trajectory; the
first state is the measured one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import piqp
from formulation import Costs, Formulation, References
from scipy import sparse

PARTS = ("dynamics", "costs", "QP", "line search", "copies")
STEP_SIZES = (1.0, 0.5, 0.25, 0.1)


class Dynamics(Protocol):
    """What is exchanged."""

    name: str

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]: ...

    def step(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]: ...


@dataclass
class Plan:
    """A trajectory from a time on: states at knots, controls between them."""

    begin: float
    dt: float
    q: np.ndarray  # (K + 1, nq)
    v: np.ndarray  # (K + 1, nv)
    u: np.ndarray  # (K, nu)
    f: np.ndarray  # (K, 4, 3)

    def place(self, t: float) -> tuple[int, float]:
        """The knot before a time and the part of the interval that has passed."""
        s = np.clip((t - self.begin) / self.dt, 0.0, len(self.u) - 1e-9)
        return int(s), float(s - int(s))


class Program:
    """The quadratic program of a horizon, with one pattern for all times."""

    def __init__(self, formulation: Formulation, settings: dict[str, Any]) -> None:
        self.formulation, self.settings = formulation, settings
        self.K, self.nx = formulation.knots, 2 * formulation.robot.model.nv
        self.nu = len(formulation.control_weights)
        self.joints = self.nu - 12
        stage = np.arange(self.K) * (self.nx + self.nu)
        self.u_at = stage[:, None] + np.arange(self.nu)  # places in the vector of variables
        self.x_at = stage[:, None] + self.nu + np.arange(self.nx)
        self.size = self.K * (self.nx + self.nu)
        self.P, self.P_from = self._pattern(*self._cost_entries())
        self.A, self.A_from = self._pattern(*self._dynamics_entries())
        self.G = self._pyramid()
        self.solver: piqp.SparseSolver | None = None

    def _pattern(
        self, rows: np.ndarray, columns: np.ndarray, height: int
    ) -> tuple[sparse.csc_matrix, np.ndarray]:
        """A matrix of these entries, and where its numbers come from in a list of them."""
        number = np.arange(1.0, len(rows) + 1)
        matrix = sparse.csc_matrix((number, (rows, columns)), (height, self.size))
        return matrix, matrix.data.astype(int) - 1

    def _cost_entries(self) -> tuple[np.ndarray, np.ndarray, int]:
        self.upper = np.triu_indices(self.nx)
        rows = [self.u_at.ravel(), self.x_at[:, self.upper[0]].ravel()]
        columns = [self.u_at.ravel(), self.x_at[:, self.upper[1]].ravel()]
        return np.concatenate(rows), np.concatenate(columns), self.size

    def _dynamics_entries(self) -> tuple[np.ndarray, np.ndarray, int]:
        """A of each knot but the first, B, and -1 for the next state."""
        at = np.arange(self.K * self.nx).reshape(self.K, self.nx)

        def block(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            there = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
            return there[0].ravel(), there[1].ravel()

        blocks = [block(at[1:], self.x_at[:-1]), block(at, self.u_at)]
        blocks.append((at.ravel(), self.x_at.ravel()))
        rows, columns = (np.concatenate(each) for each in zip(*blocks, strict=True))
        return rows, columns, at.size

    def _pyramid(self) -> sparse.csc_matrix:
        """+-f_x - mu f_z and +-f_y - mu f_z of each foot at each knot."""
        mu = self.formulation.friction
        face = np.array([[1, 0, -mu], [-1, 0, -mu], [0, 1, -mu], [0, -1, -mu]])
        knot = sparse.kron(sparse.eye(4), face)
        knot = sparse.hstack([sparse.csc_matrix((16, self.joints)), knot])
        before = [sparse.hstack([knot, sparse.csc_matrix((16, self.nx))])] * self.K
        return sparse.csc_matrix(sparse.block_diag(before))

    def fill(self, costs: Costs, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Writes the numbers into the matrices; returns the cost's gradient."""
        upper = costs.Hx[:, self.upper[0], self.upper[1]]
        entries = np.concatenate([np.tile(costs.Hu, self.K), upper.ravel()])
        np.take(entries, self.P_from, out=self.P.data)
        ones = np.full(self.K * self.nx, -1.0)
        entries = np.concatenate([A[1:].ravel(), B.ravel(), ones])
        np.take(entries, self.A_from, out=self.A.data)
        c = np.empty(self.size)
        c[self.u_at], c[self.x_at] = costs.gu, costs.gx
        return c

    def bounds(self, plan: Plan, refs: References) -> dict[str, np.ndarray]:
        """Limits of torques and forces, as limits of their changes."""
        task, effort = self.formulation, self.formulation.effort
        low, high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        low[self.u_at[:, : self.joints]] = -effort - plan.u
        high[self.u_at[:, : self.joints]] = effort - plan.u
        vertical = self.u_at[:, self.joints + 2 :: 3]
        low[vertical] = np.where(refs.acts, 0.0, -1.0) - plan.f[..., 2]
        high[vertical] = task.most - plan.f[..., 2]
        changes = np.zeros(self.size)
        changes[self.u_at[:, self.joints :]] = plan.f.reshape(self.K, 12)
        most = 1e-2 + 10.0 * (1 - np.repeat(refs.acts.ravel(), 4)) - self.G @ changes
        return {"h_u": most, "x_l": low, "x_u": high}

    def solve(
        self, c: np.ndarray, gaps: np.ndarray, bounds: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Changes of states and of controls."""
        b = -gaps.ravel()
        numbers = {"P": self.P, "c": c, "A": self.A, "b": b, **bounds}
        if self.solver is None:
            self.solver = piqp.SparseSolver()
            for name, value in self.settings.items():
                setattr(self.solver.settings, name, value)
            self.solver.setup(G=self.G, **numbers)
        else:
            self.solver.update(**numbers)
        self.solver.solve()
        x = self.solver.result.x
        return x[self.x_at], x[self.u_at]


class Solver:
    """Model predictive control with one iteration a step, and the time of its parts."""

    def __init__(
        self, formulation: Formulation, dynamics: Dynamics, tolerance: float = 1e-3
    ) -> None:
        self.formulation, self.dynamics = formulation, dynamics
        self.model = formulation.robot.model
        settings = {
            "kkt_solver": piqp.sparse_multistage,
            "eps_abs": tolerance,
            "eps_rel": tolerance,
            "check_duality_gap": False,
            "max_iter": 30,
            "preconditioner_reuse_on_update": True,
        }
        self.program = Program(formulation, settings)
        self.times: list[dict[str, float]] = []
        self.iterations: list[int] = []
        self.sizes: list[float] = []

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.times[-1][part] += time.perf_counter() - begin

    def first_plan(self, t: float, q: np.ndarray, v: np.ndarray) -> Plan:
        """Standing still."""
        task, K = self.formulation, self.formulation.knots
        refs = task.references(t, q[:3], 0 * v[:3])
        return Plan(
            t, task.dt, np.tile(q, (K + 1, 1)), np.tile(v, (K + 1, 1)),
            np.tile(task.u_ref, (K, 1)), refs.f,
        )  # fmt: skip

    def shifted(self, plan: Plan, t: float, q: np.ndarray, v: np.ndarray) -> Plan:
        """The plan from a later time on, beginning in a measured state; its end stands still."""
        K = len(plan.u)
        s = np.clip((t - plan.begin) / plan.dt + np.arange(K + 1), 0.0, K)
        k = np.minimum(s.astype(int), K - 1)
        part = s - k
        new_q = self.model.interpolate(plan.q[k], plan.q[k + 1], part)
        new_v = plan.v[k] + part[:, None] * (plan.v[k + 1] - plan.v[k])
        new_q[0], new_v[0] = q, v
        return Plan(t, plan.dt, new_q, new_v, plan.u[k[:-1]], plan.f[k[:-1]])

    def iterate(self, plan: Plan, t: float, q: np.ndarray, v: np.ndarray) -> Plan:
        """One iteration from the measured state (q, v) at time t."""
        self.times.append(dict.fromkeys(PARTS, 0.0))
        task, model, K = self.formulation, self.model, self.formulation.knots
        with self._timed("costs"):
            w, xyz = q[6], q[3:6]  # the base's velocity in the world's axes
            turned = v[:3] + 2 * np.cross(xyz, np.cross(xyz, v[:3]) + w * v[:3])
            refs = task.references(t, q[:3], turned)
        with self._timed("copies"):
            plan = self.shifted(plan, t, q, v)
            plan.f = plan.f * refs.acts[..., None]
        with self._timed("dynamics"):
            given = plan.q[:-1], plan.v[:-1], plan.u, plan.f
            next_q, next_v, A, B = self.dynamics.linearise(*given, task.dt)
        with self._timed("costs"):
            costs = task.costs(plan.q[1:], plan.v[1:], plan.u, plan.f, refs)
        with self._timed("copies"):
            B[:, :, self.program.joints :] *= np.repeat(refs.acts, 3, 1)[:, None]
            gaps = np.concatenate([model.difference(plan.q[1:], next_q), next_v - plan.v[1:]], 1)
            c = self.program.fill(costs, A, B)
            bounds = self.program.bounds(plan, refs)
        with self._timed("QP"):
            dx, du = self.program.solve(c, gaps, bounds)
        with self._timed("line search"):
            found = self._search(plan, refs, costs.value, gaps, dx, du)
        assert self.program.solver is not None
        self.iterations.append(self.program.solver.result.info.iter)
        return found

    def _search(
        self, plan: Plan, refs: References, cost: float, gaps: np.ndarray, dx: np.ndarray,
        du: np.ndarray,
    ) -> Plan:  # fmt: skip
        """The largest step that lowers cost or gaps (Fletcher's filter of one entry)."""
        task, nv, joints = self.formulation, self.model.nv, self.program.joints
        gap = float(np.abs(gaps).sum())
        for size in STEP_SIZES:
            q, v = plan.q.copy(), plan.v.copy()
            q[1:] = self.model.integrate(plan.q[1:], size * dx[:, :nv])
            v[1:] += size * dx[:, nv:]
            u = plan.u + size * du[:, :joints]
            f = plan.f + size * du[:, joints:].reshape(plan.f.shape)
            f *= refs.acts[..., None]
            next_q, next_v = self.dynamics.step(q[:-1], v[:-1], u, f, task.dt)
            new_gap = float(
                np.abs(self.model.difference(q[1:], next_q)).sum() + np.abs(next_v - v[1:]).sum()
            )
            new_cost = task.cost(q[1:], v[1:], u, f, refs)
            if new_gap < 1e-3 + 0.99 * gap or new_cost < cost - 1e-4 * abs(cost):
                break
        self.sizes.append(size)
        return Plan(plan.begin, plan.dt, q, v, u, f)
