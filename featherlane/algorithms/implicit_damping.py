"""Forward dynamics of a step that counts damping, friction and soft stops at its end.

With the resistance R(q, v) v of joints and the stiffness K(q) of soft stops, velocities go from v
to v' = v + dt a by

    M (v' - v) = dt (tau - C v - g - F - R v' - K dt v')

where F is the stops' force at the beginning: M + dt R + dt^2 K takes the place of M, and tau - dt K
v that of tau.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars, resistance_secant, resistance_secant_slope
from featherlane.algorithms.forward_derivatives import forward_dynamics_and_derivatives
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.springs import ImplicitStop
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, is_zero


class ImplicitTerms(NamedTuple):
    """R, with the secant f / sqrt(v^2 + v0^2) of friction, and K, by entries of v, with their
    derivatives by the velocity and position of its freedom.
    """

    R: list[Scalar]
    K: list[Scalar]
    R_by_v: list[Scalar]
    R_by_q: list[Scalar]
    K_by_q: list[Scalar]

    @staticmethod
    def at(tree: Tree, q: Scalars, v: Scalars, servo_damping: Scalars) -> ImplicitTerms:
        """Returns the terms of the joints' resistance, that of servos, and the stops."""
        zero: list[Scalar] = [0.0] * tree.nv
        R, R_by_v = resistance_secant(tree, v), resistance_secant_slope(tree, v)
        if servo_damping:
            R = [x + y for x, y in zip(servo_damping, R, strict=True)]
        terms = ImplicitTerms(R, [*zero], R_by_v, [*zero], [*zero])
        for k, at, law in tree.stops:
            stop = ImplicitStop.of(law, q[at])
            of_stop = stop.damping, stop.stiffness, 0.0, stop.damping_slope, stop.stiffness_slope
            for entries, x in zip(terms, of_stop, strict=True):
                entries[k] = entries[k] + x
        return terms

    def resisting(self, tree: Tree, dt: Scalar) -> Tree:
        """Returns the tree with M + dt R + dt^2 K in place of M."""
        each = zip(tree.armature, self.R, self.K, strict=True)
        armature = [a if is_zero(r) and is_zero(k) else a + dt * _sum(r, dt, k) for a, r, k in each]
        return replace(tree, armature=armature)

    def left(self, tau: Scalars, v: Scalars, dt: Scalar) -> list[Scalar]:
        """Returns tau - dt K v."""
        each = zip(tau, self.K, v, strict=True)
        return [t if is_zero(k) else t - dt * (k * x) for t, k, x in each]

    def force(self, v: Scalars, a: Scalars, dt: Scalar) -> list[Scalar]:
        """Returns dt R a + dt K (v + dt a), by which a step resists beyond its beginning."""
        each = zip(self.R, self.K, v, a, strict=True)
        return [dt * _sum(r * y, x + dt * y, k) for r, k, x, y in each]

    def shifts(self, v: Scalars, a: Scalars, dt: Scalar) -> tuple[list[Scalar], list[Scalar]]:
        """Returns the derivatives by q and by v of dt R a + dt K (v + dt a) at fixed a."""
        by_q = [
            0.0 if is_zero(r) and is_zero(k) else dt * (r * x + k * (y + dt * x))
            for x, y, r, k in zip(a, v, self.R_by_q, self.K_by_q, strict=True)
        ]
        by_v = [
            0.0 if is_zero(r) and is_zero(k) else dt * _sum(k, x, r)
            for x, r, k in zip(a, self.R_by_v, self.K, strict=True)
        ]
        return by_q, by_v


def _sum(a: Scalar, s: Scalar, b: Scalar) -> Scalar:
    """Returns a + s b."""
    return a if is_zero(b) else a + s * b


def with_implicit_damping(algorithm: Callable[..., Any]) -> Callable[..., Any]:
    """Makes of an algorithm of forward dynamics one that takes dt too, with M + dt R + dt^2 K in
    place of M: neither damping nor friction ever turns a velocity around, however long the step is.
    servo_damping: what servos add to R.
    """

    def damped(
        tree: Tree,
        q: Scalars,
        v: Scalars,
        tau: Scalars,
        dt: Scalar,
        servo_damping: Scalars = (),
        **options: Any,
    ) -> Any:
        terms = ImplicitTerms.at(tree, q, v, servo_damping)
        return algorithm(terms.resisting(tree, dt), q, v, terms.left(tau, v, dt), **options)

    damped.__name__ = f"damped_{algorithm.__name__}"
    return damped


def damped_forward_dynamics_and_derivatives(
    tree: Tree,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    dt: Scalar,
    servo_damping: Scalars = (),
    **options: Any,
) -> tuple[list[Scalar], Rows, Rows, Rows]:
    """Returns the acceleration a of `with_implicit_damping`, and its derivatives by q, v and tau.

    Those by x = q, v see that R and K depend on them: (M + dt R + dt^2 K) da/dx = -dtau/dx -
    d/dx [dt R a + dt K (v + dt a)] at fixed a.
    """
    terms = ImplicitTerms.at(tree, q, v, servo_damping)
    shifts = lambda a: terms.shifts(v, a, dt)
    resisting, left = terms.resisting(tree, dt), terms.left(tau, v, dt)
    return forward_dynamics_and_derivatives(resisting, q, v, left, **options, shifts=shifts)
