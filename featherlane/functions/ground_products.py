"""Derivatives of steps on the ground along directions and backwards, by the equations that a step
solves and not through the sweeps that solve them: see `algorithms/ground_slopes.py`.

The inputs x of a step move the equations at a fixed acceleration a and fixed impulses p; these
answer, and inputs, a and p together move the end of the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    from featherlane.algorithms.ground_slopes import GroundSystem, RowChanges, StepState

Arrays = dict[str, Any]
PREFIX = "change of "


class SolvedStep(ABC):
    """A step on the ground with its solution. inputs: arrays by name; solution: arrays by `names`;
    end: from the inputs, the solution and what contacts give to the outputs of the step.
    """

    names: tuple[str, ...]  # of what the equations are solved for

    def __init__(
        self,
        model: Robot,
        variant: Variant,
        inputs: Arrays,
        values: Arrays,
        damped: bool,
        end: Callable[[Arrays], Arrays],
    ) -> None:
        self.model, self.variant, self.damped = model, variant, damped
        self.inputs, self._run_end = inputs, end
        self.solution = {x: values[x] for x in self.names}

    @abstractmethod
    def contacts(self, equations: GroundEquations, arrays: Arrays) -> Arrays:
        """Returns the forces and impulses of contacts."""

    @abstractmethod
    def changes(self, equations: GroundEquations, arrays: Arrays) -> Arrays:
        """Returns what inputs change in the equations at a fixed solution."""

    @abstractmethod
    def answer(self, changes: Arrays) -> Arrays:
        """Returns how the solution answers changes of the equations."""

    @abstractmethod
    def weigh(self, gradients: Arrays) -> Arrays:
        """Returns gradients by changes of the equations from those by the solution: the transpose
        of `answer`.
        """

    @property
    def solved(self) -> Arrays:
        """The solution as the equations read it."""
        return self.solution

    def along(self, directions: Mapping[str, Any]) -> Arrays:
        """Returns the changes of the outputs from directions of some inputs, by their names."""
        values, moving = {**self.inputs, **self.solved}, [*directions]
        along = {PREFIX + x: d for x, d in directions.items()}
        moved = call(tangents(self._equations, moving, PREFIX), **values, **along)
        answer = self.answer({x: moved[PREFIX + x] for x in self._equations.outputs})
        along |= {PREFIX + x: d for x, d in answer.items()}
        end = tangents(self._end, [*moving, *self.names], PREFIX)
        changes = call(end, **self.inputs, **self.solution, **along)
        return {x: changes[PREFIX + x] for x in self._end.outputs}

    def backwards(self, weights: Mapping[str, Any], wrt: Sequence[str]) -> Arrays:
        """Returns the gradients by some inputs of the outputs times weights."""
        weighted = {PREFIX + x: w for x, w in weights.items()}
        end = adjoints(self._end_of([*weights]), [*wrt, *self.names], PREFIX)
        direct = call(end, **self.inputs, **self.solution, **weighted)
        of_changes = self.weigh({x: direct[PREFIX + x] for x in self.names})
        through = adjoints(self._equations, wrt, PREFIX)
        values = {**self.inputs, **self.solved, **{PREFIX + x: w for x, w in of_changes.items()}}
        indirect = call(through, **values)
        return {x: _sum(direct[PREFIX + x], indirect[PREFIX + x]) for x in wrt}

    @cached_property
    def ends(self) -> Arrays:
        """The outputs of the step."""
        return call(self._end, **self.inputs, **self.solution)

    @cached_property
    def at_solution(self) -> GroundEquations:
        """The equations with the inputs."""
        return self._equations_of(self.inputs)

    def _equations_of(self, arrays: Arrays) -> GroundEquations:
        return GroundEquations.of(self.model, self.variant, self._forced(arrays), self.damped)

    @cached_property
    def _equations(self) -> Graph:
        run = lambda named: self.changes(self._equations_of(named), named)
        return _traced(run, {**self.inputs, **self.solved})

    @cached_property
    def _end(self) -> Graph:
        def run(named: Arrays) -> Arrays:
            contacts = self.contacts(self._equations_of(named), named)
            return self._run_end({**named, **contacts, "residual": 0.0})

        return _traced(run, {**self.inputs, **self.solution})

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


class RigidStep(SolvedStep):
    """A step with rigid contacts at its solutions, one or two, of accelerations and impulses, see
    `ground_slopes.RowChanges`.
    """

    names = ("a_each", "impulse_each")

    def contacts(self, equations: GroundEquations, arrays: Arrays) -> Arrays:
        from featherlane.algorithms.contact_bounds import contact_geometry
        from featherlane.algorithms.ground_steps import contact_forces
        from featherlane.algorithms.restitution import shortened

        scene, frictions, _ = equations.around
        points, _ = contact_geometry(equations.tree, arrays["q"], scene, frictions)
        q, v, dt = (arrays[x] for x in ("q", "v", "dt"))
        a, impulse = (arrays[x][-1] for x in self.names)
        if scene.rebounds:
            share = equations.share(q, v, arrays["a_each"], dt)
            a, impulse = (
                shortened(last, [y - x for x, y in zip(first, last, strict=True)], share)
                for first, last in (arrays[x] for x in self.names)
            )
        forces = contact_forces(points, impulse, 1.0 / dt)
        return {"a": a, "contact_force": forces, "impulse_next": impulse}

    def changes(self, equations: GroundEquations, arrays: Arrays) -> Arrays:
        from featherlane.algorithms.ground_slopes import RowChanges, grips

        states = _states(arrays)
        each = [
            RowChanges(*one.left(x), grips(one.tree, x.q, x.dt, one.around))
            for one, x in zip(equations.each, states, strict=True)
        ]
        return _by_field(each)

    def answer(self, changes: Arrays) -> Arrays:
        from featherlane.algorithms.ground_slopes import RowChanges

        rate, count = 1.0 / self.inputs["dt"], len(self.solution["impulse_each"][0])
        each = zip(*(changes[x] for x in RowChanges._fields), strict=True)
        moved = [
            system.moved(RowChanges(*x)) for system, x in zip(self._systems, each, strict=True)
        ]
        return {
            "a_each": [[rate * x for x in motion] for motion, _ in moved],
            "impulse_each": [impulse[:count] for _, impulse in moved],
        }

    def weigh(self, gradients: Arrays) -> Arrays:
        rate = 1.0 / self.inputs["dt"]
        each: list[RowChanges] = []
        for k, system in enumerate(self._systems):
            motion, impulse = (gradients[x][k] for x in self.names)
            held = len(self._at_rest[k].p) - len(impulse)
            each.append(system.weighed([rate * x for x in motion], [*impulse, *[0.0] * held]))
        return _by_field(each)

    @property
    def solved(self) -> Arrays:
        """Accelerations, and the impulses with those of constraints behind the others."""
        impulses = [state.p for state in self._at_rest]
        return {"a_each": self.solution["a_each"], "impulse_each": impulses}

    @cached_property
    def _at_rest(self) -> list[StepState]:
        states = _states({**self.inputs, **self.solution})
        factored = self.at_solution.factor(states[0].q, states[0].dt)
        return [
            one.with_held(state, factored)
            for one, state in zip(self.at_solution.each, states, strict=True)
        ]

    @cached_property
    def _systems(self) -> list[GroundSystem]:
        """The rows of the step at each solution."""
        from featherlane.algorithms.ground_slopes import GroundSystem

        systems = []
        for one, state in zip(self.at_solution.each, self._at_rest, strict=True):
            factored = one.factor(state.q, state.dt)
            _, closing = one.left(state)
            systems.append(GroundSystem.of(one.tree, factored, state, one.around, closing))
        return systems


def _states(arrays: Arrays) -> list[StepState]:
    from featherlane.algorithms.ground_slopes import StepState

    q, v, dt = (arrays[x] for x in ("q", "v", "dt"))
    each = zip(*(arrays[x] for x in RigidStep.names), strict=True)
    return [StepState(q, v, a, p, dt) for a, p in each]


def _by_field(each: Sequence[RowChanges]) -> Arrays:
    """Returns the fields of all, by their names."""
    return {name: [getattr(one, name) for one in each] for name in each[0]._fields}


def _traced(run: Callable[[Arrays], Arrays], values: Arrays) -> Graph:
    """Returns the graph of a function of arrays by name."""
    shapes = {name: shape_of(x) for name, x in values.items()}
    return trace(lambda *inputs: run(dict(zip(values, inputs, strict=True))), shapes)


def _sum(a: Any, b: Any) -> Any:
    """Returns the sum of nested lists of scalars."""
    if isinstance(a, list | tuple):
        return [_sum(x, y) for x, y in zip(a, b, strict=True)]
    return a + b
