"""Feedback laws, traced from the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from featherlane.errors import did_you_mean, shown
from featherlane.program.array import trace
from featherlane.program.graph import Graph, graph_key
from featherlane.program.rewrite import simplify

Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # of arrays by name, in their order


@dataclass(frozen=True)
class Policy:
    """A law u = f(q, v, t, **arrays) as a graph, whose text is what it is compared by. The arrays
    are parameters, references of which each step has a row, memory that the law renews, and
    sensors of the step before. hold: the steps from one evaluation to the next.

    Examples:
        >>> arm.policy(lambda q, v, t, goal: goal - q - v, {"goal": 2}).shape
        (2,)
    """

    key: str
    parameters: Shapes
    references: Shapes
    memory: Shapes
    sensors: Shapes
    hold: int
    graph: Graph = field(compare=False, repr=False)

    @classmethod
    def traced(
        cls,
        function: Callable[..., Any],
        state: Mapping[str, Any],
        arrays: Sequence[Mapping[str, int | Sequence[int]]],
        hold: int,
    ) -> Policy:
        """Traces the law. arrays: the shapes of its parameters, references, memory and sensors.
        Raises TypeError or ValueError for a law with memory that does not return controls and
        memory.
        """
        *_, memory, _ = arrays
        named = {name: shape for shapes in arrays for name, shape in shapes.items()}

        def run(q: Any, v: Any, t: Any, *more: Any) -> dict[str, Any]:
            result = function(q, v, t, **dict(zip(named, more, strict=True)))
            if not memory:
                return {"tau": result}
            controls, renewed = result_and_memory("law", "controls", result, [*memory])
            return {"tau": controls, **{f"{name}_next": renewed[name] for name in memory}}

        graph = simplify(trace(run, {**state, **named}))
        shapes = [tuple((name, graph.inputs[name]) for name in group) for group in arrays]
        check_memory("law", graph, shapes[2])
        of_arrays = shapes[0], shapes[1], shapes[2], shapes[3]
        return cls(graph_key(graph), *of_arrays, hold, graph)

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the controls."""
        return self.graph.outputs["tau"].shape

    @property
    def names(self) -> list[str]:
        """Returns the names of its arrays, in their order."""
        return [name for name, _ in (*self.parameters, *self.references, *self._renewed)]

    @property
    def _renewed(self) -> Shapes:
        """The arrays that differ from step to step: memory and sensors."""
        return (*self.memory, *self.sensors)

    @property
    def renewed_names(self) -> tuple[str, ...]:
        """Returns the names of its memory and of the sensors that it reads."""
        return tuple(name for name, _ in self._renewed)

    @property
    def memory_names(self) -> tuple[str, ...]:
        """Returns the names of its memory."""
        return tuple(name for name, _ in self.memory)

    def sizes(self, steps: bool) -> dict[str, tuple[Any, ...]]:
        """Returns the sizes of its arrays. steps: whether references have a row for each step."""
        rows = ("steps",) if steps else ()
        references = {name: (*rows, *shape) for name, shape in self.references}
        return {**dict(self.parameters), **references, **dict(self._renewed)}

    def in_order(
        self,
        parameters: Mapping[str, Any] | None,
        references: Mapping[str, Any] | None,
        memory: Mapping[str, Any] | None,
    ) -> list[Any]:
        """Returns the values of its arrays in their order. memory: of sensors, too; what is not
        in it is zero.
        """
        zeros = {name: _zeros(shape) for name, shape in self._renewed}
        values = {
            **_checked("parameters", parameters, self.parameters),
            **_checked("references", references, self.references),
            **_checked("memory", {**zeros, **(memory or {})}, self._renewed),
        }
        return [values[name] for name in self.names]


def checked_policy(policy: Any) -> Policy:
    """Returns the policy of a rollout. Raises TypeError for anything else."""
    if not isinstance(policy, Policy):
        raise TypeError(f"policy is {type(policy).__name__}: wanted one from model.policy(...)")
    return policy


def result_and_memory(
    what: str, returns: str, result: Any, memory: list[str]
) -> tuple[Any, Mapping[str, Any]]:
    """Returns what a law or a cost with memory returned, and the new memory, checked."""
    wanted = f"wanted ({returns}, {{{', '.join(f'{name!r}: ...' for name in memory)}}})"
    pair = isinstance(result, tuple) and len(result) == 2
    if not pair or not isinstance(result[1], Mapping):
        raise TypeError(f"the {what} has memory and returns {shown(result)}: {wanted}")
    if set(result[1]) != set(memory):
        names = ", ".join(map(str, result[1])) or "without names"
        raise ValueError(f"the {what} returns memory {names}: {wanted}")
    return result


def check_memory(what: str, graph: Graph, memory: Shapes) -> None:
    """Raises ValueError for memory that comes back in another shape."""
    for name, shape in memory:
        if (renewed := graph.outputs[f"{name}_next"].shape) != shape:
            raise ValueError(
                f"the {what} returns {name!r} of shape {renewed}: wanted {shape}, as its memory is "
                "given (a whole number or a tuple of them is a shape, anything else its values)"
            )


def _zeros(shape: Sequence[int]) -> Any:
    """Returns nested lists of zeros, which take the dtype of the arrays beside them."""
    return [_zeros(shape[1:]) for _ in range(shape[0])] if shape else 0.0


def _checked(what: str, values: Mapping[str, Any] | None, wanted: Shapes) -> Mapping[str, Any]:
    """Returns arrays by name. Raises TypeError unless they are those that the policy has."""
    names, values = [name for name, _ in wanted], values or {}
    if set(values) != set(names):
        unknown = next((name for name in values if name not in names), None)
        hint = did_you_mean(unknown, names)
        listed = ", ".join(map(str, values)) or "none"
        raise TypeError(f"{what} has {listed}: wanted {', '.join(names) or 'none'}{hint}")
    return values
