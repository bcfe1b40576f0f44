"""Products of whole Jacobians with tangents and adjoints: all outputs by several inputs, in one
graph, so that common subexpressions are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from featherlane.program.derivatives.graphs import (
    _accumulate,
    _depends,
    _forward,
    _reverse,
    _seed,
)
from featherlane.program.graph import Graph, Output
from featherlane.program.rewrite import simplify


def _variables(g: Graph, wrt: Sequence[str]) -> dict[str, list[int]]:
    """The nodes of these inputs."""
    return {x: [g.node("input", value=(x, i)) for i in range(math.prod(g.inputs[x]))] for x in wrt}


def tangents(graph: Graph, wrt: Sequence[str], prefix: str) -> Graph:
    """The derivatives of all outputs along directions of these inputs, which are new inputs. The
    names are the prefix and the name of the input or output.
    """
    g = simplify(graph)
    variables = _variables(g, wrt)
    size, seeds = len(g), []
    for x, nodes in variables.items():
        along = g.declare(prefix + x, g.inputs[x])
        seeds += [(k, 0, t) for k, t in zip(nodes, along, strict=True)]
    sweep, zero = _forward(g, _seed(size, seeds)), g.constant(0.0)
    g.current_tag = None
    g.outputs = {
        prefix + of: Output(out.shape, tuple(sweep[k].get(0, zero) for k in out.nodes))
        for of, out in g.outputs.items()
    }
    return simplify(g)


def adjoints(graph: Graph, wrt: Sequence[str], prefix: str) -> Graph:
    """The derivatives by these inputs of the outputs times weights, which are new inputs. The names
    are the prefix and the name of the input or output.
    """
    g = simplify(graph)
    variables = _variables(g, wrt)
    depends = _depends(g, [k for nodes in variables.values() for k in nodes])
    seeds = _seed(len(g), [])
    for of, out in g.outputs.items():
        for k, weight in zip(out.nodes, g.declare(prefix + of, out.shape), strict=True):
            _accumulate(g, seeds[k], 0, weight)  # one node may be several entries
    sweep, zero = _reverse(g, seeds, depends), g.constant(0.0)
    g.current_tag = None
    g.outputs = {
        prefix + x: Output(g.inputs[x], tuple(sweep[k].get(0, zero) for k in nodes))
        for x, nodes in variables.items()
    }
    return simplify(g)
