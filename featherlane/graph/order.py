"""The order of evaluation: what is computed when decides how many values wait, and so what stays in registers."""

from __future__ import annotations

from collections.abc import Iterator

from featherlane.graph.graph import Graph, rewrite


def depth_first(graph: Graph, roots: list[int]) -> Iterator[int]:
    """Each root with all that it still needs before the next root."""
    done = [False] * len(graph)
    for root in roots:
        stack = [root]
        while stack:
            k = stack[-1]
            if done[k]:
                stack.pop()
                continue
            todo = [a for a in graph.args[k] if not done[a]]
            if todo:
                stack.extend(reversed(todo))
            else:
                done[k] = True
                stack.pop()
                yield k
