"""Feedback laws, traced from the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from featherlane.program.array import trace
from featherlane.program.graph import Graph, graph_key
from featherlane.program.rewrite import simplify


@dataclass(frozen=True)
class Policy:
    """A law u = f(q, v, t, **parameters) as a graph, whose text is what it is compared by.

    Examples:
        >>> arm.policy(lambda q, v, t, goal: goal - q - v, {"goal": 2}).shape
        (2,)
    """

    key: str
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    graph: Graph = field(compare=False, repr=False)

    @classmethod
    def traced(
        cls,
        function: Callable[..., Any],
        state: Mapping[str, Any],
        parameters: Mapping[str, int | Sequence[int]],
    ) -> Policy:
        """Traces the law; parameters: their shapes."""

        def run(q: Any, v: Any, t: Any, *more: Any) -> dict[str, Any]:
            named = dict(zip(parameters, more, strict=True))
            return {"tau": partial(function, q, v, t)(**named)}

        graph = simplify(trace(run, {**state, **parameters}))
        shapes = {name: graph.inputs[name] for name in parameters}
        return cls(graph_key(graph), tuple(shapes.items()), graph)

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the controls."""
        return self.graph.outputs["tau"].shape

    def in_order(self, values: Mapping[str, Any]) -> list[Any]:
        """Returns the arrays of its parameters in their order."""
        names = [name for name, _ in self.parameters]
        if set(values) != set(names):
            wanted = ", ".join(names) or "none"
            raise TypeError(
                f"parameters has {', '.join(map(str, values)) or 'none'}: wanted {wanted}"
            )
        return [values[name] for name in names]
