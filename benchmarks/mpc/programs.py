"""The quadratic programs of one iteration: with hard limits by PIQP, or without by a Riccati pass.

PIQP's multistage solver finds the chain of knots in the pattern of its matrices. Variables are u_0,
f_0, x_1, u_1, f_1, ..., x_K as changes of the trajectory; the first state is the measured one.
"""

from __future__ import annotations

import numpy as np
import piqp
from formulation import Costs, Formulation, References
from plan import Plan
from scipy import sparse
from scipy.linalg.lapack import dposv


class Piqp:
    """The quadratic program of a horizon, with one pattern of its matrices for all times."""

    def __init__(self, formulation: Formulation, tolerance: float = 1e-3) -> None:
        self.formulation = formulation
        self.settings = {
            "kkt_solver": piqp.sparse_multistage,
            "eps_abs": tolerance,
            "eps_rel": tolerance,
            "check_duality_gap": False,
            "max_iter": 30,
            "preconditioner_reuse_on_update": True,
        }
        self.K, self.nx = formulation.knots, 2 * formulation.robot.model.nv
        self.nu = formulation.controls
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
        # Of the controls' Hessian, the diagonal of torques and a block for each foot
        feet = np.kron(np.eye(4), np.ones((3, 3)))
        block = np.eye(self.nu)
        block[self.joints :, self.joints :] = feet
        self.within = np.nonzero(np.triu(block))
        rows = [self.u_at[:, self.within[0]].ravel(), self.x_at[:, self.upper[0]].ravel()]
        columns = [self.u_at[:, self.within[1]].ravel(), self.x_at[:, self.upper[1]].ravel()]
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
        """+-f_x - mu f_z and +-f_y - mu f_z of each foot at each knot, which are to be negative."""
        knot = sparse.kron(sparse.eye(4), -self.formulation.faces[:4])
        knot = sparse.hstack([sparse.csc_matrix((16, self.joints)), knot])
        before = [sparse.hstack([knot, sparse.csc_matrix((16, self.nx))])] * self.K
        return sparse.csc_matrix(sparse.block_diag(before))

    def prepare(
        self, costs: Costs, A: np.ndarray, B: np.ndarray, gaps: np.ndarray, plan: Plan,
        refs: References,
    ) -> None:  # fmt: skip
        """Writes the numbers of an iteration into the matrices."""
        upper = costs.Hx[:, self.upper[0], self.upper[1]]
        entries = np.concatenate([costs.Hu[:, *self.within].ravel(), upper.ravel()])
        np.take(entries, self.P_from, out=self.P.data)
        ones = np.full(self.K * self.nx, -1.0)
        entries = np.concatenate([A[1:].ravel(), B.ravel(), ones])
        np.take(entries, self.A_from, out=self.A.data)
        c = np.empty(self.size)
        c[self.u_at], c[self.x_at] = costs.gu, costs.gx
        self.numbers = {"P": self.P, "c": c, "A": self.A, "b": -gaps.ravel()}
        if not self.formulation.barrier:
            self.numbers |= {"G": self.G, **self._bounds(plan, refs)}

    def _bounds(self, plan: Plan, refs: References) -> dict[str, np.ndarray]:
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

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Changes of states and of controls."""
        if self.solver is None:
            self.solver = piqp.SparseSolver()
            for name, value in self.settings.items():
                setattr(self.solver.settings, name, value)
            self.solver.setup(**self.numbers)
        else:
            self.solver.update(**{k: x for k, x in self.numbers.items() if k != "G"})
        self.solver.solve()
        x = self.solver.result.x
        return x[self.x_at], x[self.u_at]

    @property
    def iterations(self) -> int:
        """Of the interior-point method."""
        return int(self.solver.result.info.iter) if self.solver else 0


class Riccati:
    """The same without limits, as a linear-quadratic regulator: one pass back and one forth."""

    def __init__(self, formulation: Formulation) -> None:
        if not formulation.barrier:
            raise ValueError("a Riccati pass has no hard limits: give barrier=True")
        self.iterations = 1

    def prepare(
        self, costs: Costs, A: np.ndarray, B: np.ndarray, gaps: np.ndarray, plan: Plan,
        refs: References,
    ) -> None:  # fmt: skip
        """Takes the numbers of an iteration."""
        self.costs, self.gaps = costs, gaps
        self.AB = np.concatenate([A, B], 2)

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Changes of states and of controls."""
        costs, nx = self.costs, self.gaps.shape[1]
        K, nu = costs.gu.shape
        gains, P, p = np.empty((K, nu, nx + 1)), costs.Hx[-1], costs.gx[-1]
        for k in range(K - 1, -1, -1):
            M = self.AB[k]
            Q = M.T @ (P @ M)
            q = M.T @ (p + P @ self.gaps[k])
            right = np.concatenate([Q[nx:, :nx], (q[nx:] + costs.gu[k])[:, None]], 1)
            gains[k] = -dposv(Q[nx:, nx:] + costs.Hu[k], right)[1]
            if k:
                P = costs.Hx[k - 1] + Q[:nx, :nx] + Q[:nx, nx:] @ gains[k, :, :nx]
                P = (P + P.T) / 2  # else rounding grows from knot to knot
                p = costs.gx[k - 1] + q[:nx] + Q[:nx, nx:] @ gains[k, :, nx]
        dx, du = np.zeros((K + 1, nx)), np.empty((K, nu))
        for k in range(K):
            du[k] = gains[k, :, :nx] @ dx[k] + gains[k, :, nx]
            dx[k + 1] = self.AB[k] @ np.concatenate([dx[k], du[k]]) + self.gaps[k]
        return dx[1:], du
