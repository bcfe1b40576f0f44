"""Derivatives of steps on the ground along directions and backwards, by the equations that a step
solves and not through the sweeps that solve them: see `algorithms/ground_slopes.py`.

The inputs x of a step move the equations at a fixed acceleration a and fixed impulses p; these
answer, and inputs, a and p together move the end of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from featherlane.functions.ground_derivatives import GroundEquations, shape_of
from featherlane.functions.table import Variant
from featherlane.program.derivatives.products import adjoints, tangents
from featherlane.program.graph import Graph
from featherlane.program.trace import call, trace
from featherlane.robot.model import Robot

if TYPE_CHECKING:
    from featherlane.algorithms.ground_slopes import GroundSystem, StepState

Arrays = dict[str, Any]
SOLUTION = ("a", "impulse_next")
PREFIX = "change of "


class SolvedStep:
    """A step on the ground with its solution. inputs: arrays by name; solution: a and the impulses
    of contacts and joints; end: from the inputs and a solution to the outputs of the step.
    """

    def __init__(
        self,
        model: Robot,
        variant: Variant,
        inputs: Arrays,
        solution: Arrays,
        damped: bool,
        end: Callable[[Arrays], Arrays],
    ) -> None:
        self.model, self.variant, self.damped = model, variant, damped
        self.inputs, self.solution, self._run_end = inputs, solution, end

    def along(self, directions: Mapping[str, Any]) -> Arrays:
        """Returns the changes of the outputs from directions of some inputs, by their names."""
        from featherlane.algorithms.ground_slopes import RowChanges

        values, moving = {**self.inputs, **self._solved}, [*directions]
        along = {PREFIX + x: d for x, d in directions.items()}
        moved = call(tangents(self._equations, moving, PREFIX), **values, **along)
        change = RowChanges(*(moved[PREFIX + x] for x in RowChanges._fields))
        motion, impulse = self._system.moved(change)
        rate, count = 1.0 / self.inputs["dt"], len(self.solution["impulse_next"])
        along[f"{PREFIX}a"] = [rate * x for x in motion]
        along[f"{PREFIX}impulse_next"] = impulse[:count]
        end = tangents(self._end, [*moving, *SOLUTION], PREFIX)
        changes = call(end, **self.inputs, **self.solution, **along)
        return {x: changes[PREFIX + x] for x in self._end.outputs}

    def backwards(self, weights: Mapping[str, Any], wrt: Sequence[str]) -> Arrays:
        """Returns the gradients by some inputs of the outputs times weights."""
        weighted = {PREFIX + x: w for x, w in weights.items()}
        end = adjoints(self._end_of([*weights]), [*wrt, *SOLUTION], PREFIX)
        direct = call(end, **self.inputs, **self.solution, **weighted)
        rate, impulse = 1.0 / self.inputs["dt"], direct[f"{PREFIX}impulse_next"]
        held = len(self._solved["impulse_next"]) - len(impulse)
        motion = [rate * x for x in direct[f"{PREFIX}a"]]
        of_rows = self._system.weighed(motion, [*impulse, *[0.0] * held])._asdict()
        through = adjoints(self._equations, wrt, PREFIX)
        values = {**self.inputs, **self._solved, **{PREFIX + x: w for x, w in of_rows.items()}}
        indirect = call(through, **values)
        return {x: _sum(direct[PREFIX + x], indirect[PREFIX + x]) for x in wrt}

    @cached_property
    def ends(self) -> Arrays:
        """The outputs of the step."""
        return call(self._end, **self.inputs, **self.solution)

    @cached_property
    def _solved(self) -> Arrays:
        """a, and the impulses with those of constraints behind the others."""
        return {"a": self.solution["a"], "impulse_next": self._step_at_rest.p}

    @cached_property
    def _at_solution(self) -> GroundEquations:
        return GroundEquations.of(self.model, self.variant, self._forced(self.inputs), self.damped)

    @cached_property
    def _step_at_rest(self) -> StepState:
        state = _state({**self.inputs, **self.solution})
        factored = self._at_solution.factor(state.q, state.dt)
        return self._at_solution.with_held(state, factored)

    @cached_property
    def _system(self) -> GroundSystem:
        """The rows of the step at the solution."""
        from featherlane.algorithms.ground_slopes import GroundSystem

        equations, state = self._at_solution, self._step_at_rest
        factored = equations.factor(state.q, state.dt)
        _, closing = equations.left(state)
        return GroundSystem.of(equations.tree, factored, state, equations.around, closing)

    @cached_property
    def _equations(self) -> Graph:
        """The equations that inputs move at a fixed solution, see `ground_slopes.RowChanges`."""
        from featherlane.algorithms.ground_slopes import RowChanges, grips

        def run(named: Arrays) -> Arrays:
            forced = self._forced(named)
            equations = GroundEquations.of(self.model, self.variant, forced, self.damped)
            state = _state(named)
            bounds = grips(equations.tree, state.q, state.dt, equations.around)
            return RowChanges(*equations.left(state), bounds)._asdict()

        return _traced(run, {**self.inputs, **self._solved})

    @cached_property
    def _end(self) -> Graph:
        return _traced(self._run_end, {**self.inputs, **self.solution})

    def _end_of(self, names: Sequence[str]) -> Graph:
        """Returns the graph of some outputs."""
        return self._end.replaced(outputs={x: self._end.outputs[x] for x in names})

    def _forced(self, arrays: Arrays) -> Arrays:
        """Returns arrays with the forces of joints in place of controls, and the damping of
        servos.
        """
        actuation, state = self.variant.actuation, (arrays["q"], arrays["v"])
        if actuation is None:
            return arrays
        u, nv = arrays["tau"], self.model.nv
        if not actuation.has_servos:
            return {**arrays, "tau": actuation.forces(nv, u)}
        damping = actuation.servo_damping(nv, u, *state)
        return {**arrays, "tau": actuation.forces(nv, u, *state), "servo_damping": damping}


def _state(arrays: Arrays) -> StepState:
    from featherlane.algorithms.ground_slopes import StepState

    return StepState(*(arrays[x] for x in ("q", "v", *SOLUTION, "dt")))


def _traced(run: Callable[[Arrays], Arrays], values: Arrays) -> Graph:
    """Returns the graph of a function of arrays by name."""
    shapes = {name: shape_of(x) for name, x in values.items()}
    return trace(lambda *inputs: run(dict(zip(values, inputs, strict=True))), shapes)


def _sum(a: Any, b: Any) -> Any:
    """Returns the sum of nested lists of scalars."""
    if isinstance(a, list | tuple):
        return [_sum(x, y) for x, y in zip(a, b, strict=True)]
    return a + b
