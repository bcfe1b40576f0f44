"""Derivatives of steps with soft contacts along directions and backwards, by the equation that the
acceleration solves and not through the steps of Newton's method: see `algorithms/soft/slopes.py`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import mass_matrix
from featherlane.functions.ground_derivatives import GroundEquations
from featherlane.functions.ground_products import Arrays, SolvedStep

if TYPE_CHECKING:
    from featherlane.algorithms.soft.sparse_factor import SparseFactor
    from featherlane.algorithms.soft.steps import SoftState

FORCES = "forces"  # ID(q, v, a) - tau - J^T f, which is 0 at the solution


class SoftStep(SolvedStep):
    """A step with soft contacts at its solution, of the acceleration a."""

    names = ("a",)

    def contacts(self, equations: GroundEquations, arrays: Arrays) -> Arrays:
        from featherlane.algorithms.soft.slopes import contact_results

        state, frictions = _state(equations, arrays)
        forces, impulse = contact_results(state, arrays["a"], frictions, **_held(equations))
        return {"contact_force": forces, "impulse_next": impulse}

    def changes(self, equations: GroundEquations, arrays: Arrays) -> Arrays:
        from featherlane.algorithms.soft.slopes import constraint_push

        state, frictions = _state(equations, arrays)
        push = constraint_push(state, arrays["a"], frictions, **_held(equations))
        missing = equations.missing_force(state.q, state.v, arrays["a"], state.dt)
        return {FORCES: [x - y for x, y in zip(missing, push, strict=True)]}

    def answer(self, changes: Arrays) -> Arrays:
        return {"a": [-x for x in self._stiffness.solve(changes[FORCES])]}

    def weigh(self, gradients: Arrays) -> Arrays:
        return {FORCES: [-x for x in self._stiffness.solve(gradients["a"])]}

    @cached_property
    def _stiffness(self) -> SparseFactor:
        """The factor of H, the derivative of the forces by a."""
        from featherlane.algorithms.soft.slopes import stiffened_factor

        equations, arrays = self.at_solution, self.inputs
        state, frictions = _state(equations, arrays)
        M = mass_matrix(equations.resisting(state.dt), state.q)
        return stiffened_factor(state, M, self.solution["a"], frictions, **_held(equations))


def _state(equations: GroundEquations, arrays: Arrays) -> tuple[SoftState, Scalars]:
    """Returns the state of a step, and the dry frictions of joints."""
    from featherlane.algorithms.soft.steps import SoftState

    scene, frictions, _ = equations.around
    state = SoftState(equations.tree, arrays["q"], arrays["v"], arrays["dt"], scene)
    return state, frictions


def _held(equations: GroundEquations) -> dict[str, Any]:
    """Returns constraints, and their arrays."""
    rows = equations.around.held
    return rows._asdict() if rows else {}
