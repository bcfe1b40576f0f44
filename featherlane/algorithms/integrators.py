"""Integrators as Butcher tableaus, and the one text of a step that serves them all.

A step of dq/dt = v, dv/dt = a(q, v) with held controls goes through stages k = 1 ... s (Hairer,
Nørsett and Wanner 1993, section II.1). On joints whose configurations are Lie groups it works in
coordinates u of the tangent space at the q that it begins with, q(t) = q (+) u(t), so that a method
keeps its order there (Munthe-Kaas 1998):

    u_k = dt sum_j a_kj r_j,   v_k = v + dt sum_j a_kj f_j                              (1)
    q_k = q (+) u_k,   r_k = du/dt at (u_k, v_k),   f_k = a(q_k, v_k)                   (2)

with the rates r and the accelerations f of the stages. The first stage is the beginning itself,
where r_1 = v. The step ends by (1) and the first of (2) with the weights b in place of a row of a.
The abscissas c, the sums of the rows of a, are not needed: nothing depends on time within a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.configurations import integrate, integrate_straight
from featherlane.algorithms.lie_group_joints import SERIES, local_rate
from featherlane.algorithms.mean_accelerations import mean_acceleration
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


class Tableau(NamedTuple):
    """The Butcher tableau of an explicit method: its order, the rows of a from the second stage on,
    and b. Two flags make semi-implicit methods of one stage.
    """

    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    semi_implicit: bool = False  # at the velocity of the step's end: robot/straight_motion.py
    damped: bool = False  # M + dt R(v) takes the place of M, see implicit_damping.py

    @property
    def stages(self) -> int:
        return len(self.b)

    @property
    def series(self) -> tuple[float, ...]:
        """The coefficients of du/dt that the order, 8 at most, needs: brackets up to the power
        order - 2.
        """
        return SERIES[: max(self.order - 2, 0)]

    def combination(self, row: Sequence[float]) -> Tableau:
        """Returns the tableau that combines stages by the weights of a row other than 0."""
        return self._replace(a=(), b=tuple(filter(None, row)), damped=False)


# The names, which type checkers and editors know, and their tableaus: a Runge-Kutta method is added
# by one of each. docs/time_steps.md has the orders and stability.
Integrator = Literal["implicit_damping", "semi_implicit", "euler", "rk4", "midpoint"]
"""The name of an integrator (docs/time_steps.md)."""
INTEGRATORS: dict[str, Tableau] = {
    "implicit_damping": Tableau(1, (), (1.0,), semi_implicit=True, damped=True),
    "semi_implicit": Tableau(1, (), (1.0,), semi_implicit=True),
    "euler": Tableau(1, (), (1.0,)),
    "rk4": Tableau(4, ((1 / 2,), (0, 1 / 2), (0, 0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    "midpoint": Tableau(2, ((1 / 2,),), (0, 1.0)),
}


def combined(weights: Sequence[float], vectors: Sequence[Scalars]) -> tuple[float, Scalars]:
    """Returns a factor and a vector whose product is the sum of vectors by weights: one vector
    stays as it is; of several, those of equal weight are summed first.
    """
    if len(vectors) == 1:
        return weights[0], vectors[0]
    unit = min(weights, key=abs)
    ratios = [weight / unit for weight in weights]
    return 1.0, [_sum_by_ratio(ratios, entries) * unit for entries in zip(*vectors, strict=True)]


def _sum_by_ratio(ratios: Sequence[float], terms: Scalars) -> Scalar:
    total: Scalar = 0.0
    for ratio in sorted({*ratios}, key=abs):
        group, *others = [x for x, r in zip(terms, ratios, strict=True) if r == ratio]
        for term in others:
            group = group + term
        total = total + (group if ratio == 1.0 else ratio * group)
    return total


def plus_times(a: Scalars, s: Scalar, b: Scalars) -> list[Scalar]:
    """Returns a + s b."""
    return [x + s * y for x, y in zip(a, b, strict=True)]


def times(s: Scalar, a: Scalars) -> list[Scalar]:
    return [s * x for x in a]


def arrival(
    tree: Tree, row: Tableau, v: Scalars, *inputs: Any
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the motion u to a stage or to the end, and v there: equations (1).

    row: the `Tableau.combination` of the stage's weights. inputs: the rates and the accelerations
    of the stages that it combines, and dt.
    """
    *vectors, dt = inputs
    factor, rate = combined(row.b, vectors[: row.stages])
    _, a = combined(row.b, vectors[row.stages :])
    h = factor * dt
    if row.semi_implicit:
        v_next = plus_times(v, h, mean_acceleration(tree, v, a, h))
        return times(h, v_next), v_next
    return times(h, rate), plus_times(v, h, a)


def moved(tree: Tree, row: Tableau, q: Scalars, u: Scalars) -> list[Scalar]:
    """Returns the configuration at the end of a step."""
    return integrate_straight(tree, q, u) if row.semi_implicit else integrate(tree, q, u)


def to_stage(row: Tableau) -> Callable[..., Any]:
    """Makes the function that goes from a step's beginning to a stage: equations (1) and (2).

    The function takes q and what `arrival` does. It returns q_k, v_k and u_k, and r_k if the order
    needs more of it than v_k.
    """

    def stage(tree: Tree, q: Scalars, *inputs: Any) -> tuple[list[Scalar], ...]:
        u, v = arrival(tree, row, *inputs)
        state = integrate(tree, q, u), v, u
        return (*state, local_rate(tree, u, v, row.series)) if row.series else state

    return stage


def advance(row: Tableau) -> Callable[..., tuple[list[Scalar], ...]]:
    """Makes the function that ends a step: it takes q and what `arrival` does, and returns q and v
    after dt, and the motion u.
    """

    def end(tree: Tree, q: Scalars, *inputs: Any) -> tuple[list[Scalar], ...]:
        u, v = arrival(tree, row, *inputs)
        return moved(tree, row, q, u), v, u

    return end


def add_gradients(
    tree: Tree, gq: Scalars, gv: Scalars, more_q: Scalars, more_v: Scalars
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the sums of gradients by configuration and velocity."""
    return plus_times(gq, 1.0, more_q), plus_times(gv, 1.0, more_v)
