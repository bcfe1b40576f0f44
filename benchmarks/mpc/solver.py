"""Sequential quadratic programming with multiple shooting: one iteration for each control step."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from formulation import Formulation, References
from plan import Plan
from programs import Piqp, Riccati

# The steps that the line search tries count as dynamics
PARTS = ("dynamics", "costs", "QP", "line search", "copies")
STEP_SIZES = (1.0, 0.5, 0.25, 0.1)


class Dynamics(Protocol):
    """The exchangeable parts. clock: tells seconds, with those of modelled hardware."""

    name: str
    clock: Callable[[], float]

    def linearise(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]: ...

    def step(
        self, q: np.ndarray, v: np.ndarray, u: np.ndarray, f: np.ndarray, dt: float
    ) -> tuple[np.ndarray, ...]: ...


class Request(NamedTuple):
    """A call of the dynamics for all knots: its name, and q, v, u, f."""

    name: str
    given: tuple[np.ndarray, ...]

    def asked_of(self, dynamics: Dynamics, dt: float) -> tuple[np.ndarray, ...]:
        """The results."""
        return getattr(dynamics, self.name)(*self.given, dt)  # type: ignore[no-any-return]


def iterate_together(
    solvers: Sequence[Solver], dynamics: Dynamics, plans: Sequence[Plan], t: float,
    states: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[Plan]:  # fmt: skip
    """One iteration of each of many robots, whose calls of the dynamics are one call."""
    each = zip(solvers, plans, states, strict=True)
    work = {i: solver.iteration(plan, t, *state) for i, (solver, plan, state) in enumerate(each)}
    asked = {i: next(iteration) for i, iteration in work.items()}
    found = list(plans)
    while asked:
        columns = zip(*(request.given for request in asked.values()), strict=True)
        name = next(iter(asked.values())).name
        together = Request(name, tuple(np.concatenate(column) for column in columns))
        results = together.asked_of(dynamics, solvers[0].formulation.dt)
        knots = solvers[0].formulation.knots
        answers = [[x[k : k + knots] for x in results] for k in range(0, len(results[0]), knots)]
        for i, answer in zip([*asked], answers, strict=True):
            try:
                asked[i] = work[i].send(tuple(answer))
            except StopIteration as end:
                found[i] = end.value
                del asked[i]
    return found


class Solver:
    """Model predictive control with one iteration a step, and the time of its parts."""

    def __init__(
        self,
        formulation: Formulation,
        dynamics: Dynamics,
        program: Piqp | Riccati,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.formulation, self.dynamics, self.program = formulation, dynamics, program
        self.model, self.clock = formulation.robot.model, clock
        self.times: list[dict[str, float]] = []
        self.iterations: list[int] = []
        self.sizes: list[float] = []

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begin = self.clock()
        yield
        self.times[-1][part] += self.clock() - begin

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
        held = np.minimum((s[:-1] + 0.5).astype(int), K - 1)  # in the middle of an interval
        return Plan(t, plan.dt, new_q, new_v, plan.u[held], plan.f[held])

    def iterate(self, plan: Plan, t: float, q: np.ndarray, v: np.ndarray) -> Plan:
        """One iteration from the measured state (q, v) at time t."""
        work = self.iteration(plan, t, q, v)
        request = next(work)
        while True:
            with self._timed("dynamics"):
                found = request.asked_of(self.dynamics, self.formulation.dt)
            try:
                request = work.send(found)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    def iteration(
        self, plan: Plan, t: float, q: np.ndarray, v: np.ndarray
    ) -> Generator[Request, tuple[np.ndarray, ...], Plan]:
        """The same, with the dynamics asked of the caller, who may ask for many robots at once."""
        self.times.append(dict.fromkeys(PARTS, 0.0))
        task, model = self.formulation, self.model
        with self._timed("costs"):
            w, xyz = q[6], q[3:6]  # the base's velocity in the world's axes
            turned = v[:3] + 2 * np.cross(xyz, np.cross(xyz, v[:3]) + w * v[:3])
            refs = task.references(t, q[:3], turned)
        with self._timed("copies"):
            plan = self.shifted(plan, t, q, v)
            plan.f = plan.f * refs.acts[..., None]
        given = plan.q[:-1], plan.v[:-1], plan.u, plan.f
        next_q, next_v, A, B = yield Request("linearise", given)
        with self._timed("costs"):
            costs = task.costs(plan.q[1:], plan.v[1:], plan.u, plan.f, refs)
        with self._timed("copies"):
            joints = plan.u.shape[1]
            B[:, :, joints:] *= np.repeat(refs.acts, 3, 1)[:, None]
            gaps = np.concatenate([model.difference(plan.q[1:], next_q), next_v - plan.v[1:]], 1)
            self.program.prepare(costs, A, B, gaps, plan, refs)
        with self._timed("QP"):
            dx, du = self.program.solve()
        self.iterations.append(self.program.iterations)
        return (yield from self._search(plan, refs, costs.value, gaps, dx, du))

    def _search(
        self, plan: Plan, refs: References, cost: float, gaps: np.ndarray, dx: np.ndarray,
        du: np.ndarray,
    ) -> Generator[Request, tuple[np.ndarray, ...], Plan]:  # fmt: skip
        """The plan after the largest step that lowers cost or gaps, or the plan as it is."""
        task, nv, joints = self.formulation, self.model.nv, plan.u.shape[1]
        gap = float(np.abs(gaps).sum())
        for size in STEP_SIZES:
            with self._timed("line search"):
                q, v = plan.q.copy(), plan.v.copy()
                q[1:] = self.model.integrate(plan.q[1:], size * dx[:, :nv])
                v[1:] += size * dx[:, nv:]
                u = plan.u + size * du[:, :joints]
                f = plan.f + size * du[:, joints:].reshape(plan.f.shape)
                f *= refs.acts[..., None]
            next_q, next_v = yield Request("step", (q[:-1], v[:-1], u, f))
            with self._timed("line search"):
                missed = self.model.difference(q[1:], next_q), next_v - v[1:]
                new_gap = float(np.abs(missed).sum())
                new_cost = task.cost(q[1:], v[1:], u, f, refs)
            if new_gap < 1e-3 + 0.99 * gap or new_cost < cost - 1e-4 * abs(cost):
                self.sizes.append(size)
                return Plan(plan.begin, plan.dt, q, v, u, f)
        self.sizes.append(0.0)
        return plan
