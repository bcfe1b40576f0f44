"""Exact derivatives of graphs, as graphs: forward and reverse mode from one table of rules.

The derivative of a scalar operation by one operand is a linear map of scalars, a multiplication,
which is its own transpose: so the same rule pushes a tangent forward and pulls an adjoint back
(Griewank and Walther, Evaluating Derivatives, 2nd edition, 2008, chapter 3). Many tangents or
adjoints travel in one sweep, by their number, and those that are zero are not there. `round`,
exponents, signs, conditions and the k of `quarter` are piecewise constant: nothing passes them.
Solutions of linear systems have their derivatives as a whole (`implicit`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from featherlane.errors import did_you_mean, one_of
from featherlane.program.derivatives.implicit import LinearSystems
from featherlane.program.derivatives.rules import Linear, piecewise_constant
from featherlane.program.graph import Graph, Output
from featherlane.program.op import OPS
from featherlane.program.rewrite import simplify

Shape = tuple[int, ...]
Sweep = list[dict[int, int]]  # for each node its tangents or adjoints by number, without the zeros

FLAT = {op.name for op in OPS.values() if op.slopes is piecewise_constant}
SWITCHES = {"select", "quarter"}  # the first operand chooses which of the others counts

MODES = ("auto", "forward", "reverse")


def _accumulate(g: Graph, totals: dict[int, int], number: int, share: int) -> None:
    total = g.add(totals.pop(number), share) if number in totals else share
    if g.number(total) != 0.0:
        totals[number] = total


def _maps(g: Graph, k: int) -> tuple[Linear | None, ...]:
    """Returns the linear map of each operand of a node."""
    slopes = OPS[g.op[k]].slopes
    assert slopes is not None
    return slopes(g, k, *g.args[k])


def _tangent(g: Graph, k: int, tangents: Sweep) -> dict[int, int]:
    """The tangents of a node from those of its operands."""
    totals: dict[int, int] = {}
    op, args = g.op[k], g.args[k]
    if op in SWITCHES:
        (_, a, b), zero = args, g.constant(0.0)
        for number in sorted(tangents[a].keys() | tangents[b].keys()):
            shares = tangents[a].get(number, zero), tangents[b].get(number, zero)
            _accumulate(g, totals, number, getattr(g, op)(args[0], *shares))
    elif any(tangents[a] for a in args):
        for passes, a in zip(_maps(g, k), args, strict=True):
            if passes:
                for number, t in tangents[a].items():
                    _accumulate(g, totals, number, passes(t))
    return totals


def _forward(g: Graph, seeds: Sweep) -> Sweep:
    """The tangents of all nodes from the seeds of the inputs."""
    tangents, systems = seeds, LinearSystems(g)
    for k in range(len(seeds)):
        g.current_tag = g.tag[k]
        for a, number, t in systems.tangents(k, tangents):
            _accumulate(g, tangents[a], number, t)
        if g.args[k] and k not in systems.solutions:
            tangents[k] = _tangent(g, k, tangents)
    return tangents


def _reverse(g: Graph, seeds: Sweep, active: Sequence[int]) -> Sweep:
    """The adjoints of all active nodes from the seeds of the outputs."""
    adjoints, systems = seeds, LinearSystems(g)
    for k in range(len(seeds) - 1, -1, -1):
        g.current_tag = g.tag[k]
        for a, number, t in systems.adjoints(k, adjoints, active):
            _accumulate(g, adjoints[a], number, t)
        if not (adjoints[k] and active[k] and g.args[k]) or k in systems.solutions:
            continue
        for passes, a in zip(_maps(g, k), g.args[k], strict=True):
            if passes and active[a]:
                for number, t in adjoints[k].items():
                    _accumulate(g, adjoints[a], number, passes(t))
    return adjoints


def _prepare(graph: Graph, of: str, wrt: str) -> tuple[Graph, Output, list[int]]:
    """A copy that computes the output `of` alone, that output, and the nodes of the input `wrt`."""
    if of not in graph.outputs:
        known = ", ".join(graph.outputs) or "none"
        raise ValueError(f"no output {of!r} to differentiate: the graph has {known}")
    if wrt not in graph.inputs:
        known = ", ".join(graph.inputs) or "none"
        raise ValueError(f"no input {wrt!r} to differentiate by: the graph has {known}")
    g = simplify(graph.replaced(outputs={of: graph.outputs[of]}))
    entries = range(math.prod(g.inputs[wrt]))
    return g, g.outputs[of], [g.node("input", value=(wrt, i)) for i in entries]


def _seed(size: int, seeds: Sequence[tuple[int, int, int]]) -> Sweep:
    """A sweep of `size` nodes that starts with these (node, number, tangent or adjoint)."""
    start: Sweep = [{} for _ in range(size)]
    for k, number, seed in seeds:
        start[k][number] = seed
    return start


def _finish(g: Graph, name: str, shape: tuple[int, ...], nodes: Sequence[int | None]) -> Graph:
    """The graph with this output alone, None standing for zero."""
    g.current_tag = None
    g.outputs = {name: Output(shape, tuple(g.constant(0.0) if k is None else k for k in nodes))}
    return simplify(g)


def _depends(g: Graph, variables: Sequence[int]) -> list[int]:
    """For each node the variables that it has a derivative by, as the bits of an integer."""
    bit = {k: 1 << i for i, k in enumerate(variables)}
    sets: list[int] = []
    for k, (op, args) in enumerate(zip(g.op, g.args, strict=True)):
        passing = () if op in FLAT else args[1:] if op in SWITCHES else args
        sets.append(bit.get(k, 0))
        for a in passing:
            sets[k] |= sets[a]
    return sets


def derivative_inputs(graph: Graph, nodes: Sequence[int]) -> list[set[tuple[str, int]]]:
    """Returns for each of these nodes the entries of inputs that it has a derivative by."""
    entries = graph.nodes_of("input")
    depends = _depends(graph, entries)
    named = [graph.value[k] for k in entries]
    return [{x for i, x in enumerate(named) if depends[k] >> i & 1} for k in nodes]


def _reaches(g: Graph, results: Sequence[int]) -> list[int]:
    """For each node the results that need it, as the bits of an integer."""
    sets = [0] * len(g)
    for i, k in enumerate(results):
        sets[k] |= 1 << i
    for k in range(len(g) - 1, -1, -1):
        for a in g.args[k]:
            sets[a] |= sets[k]
    return sets


def _cheaper(g: Graph, results: Sequence[int], depends: Sequence[int]) -> str:
    """The mode with the fewer nonzero derivatives on the way."""
    reaches = _reaches(g, results)
    forward = sum(d.bit_count() for d, r in zip(depends, reaches, strict=True) if r)
    reverse = sum(r.bit_count() for d, r in zip(depends, reaches, strict=True) if d)
    return "forward" if forward <= reverse else "reverse"


def jacobian(graph: Graph, of: str, wrt: str, mode: str = "auto") -> Graph:
    """The graph of all derivatives of the output `of` by the input `wrt`.

    Its one output "d{of}_d{wrt}" has the shape of `of` followed by that of `wrt`. Forward mode
    carries one tangent for each entry of `wrt`, reverse mode one adjoint for each entry of `of`;
    "auto" takes the one with fewer nonzeros. Both give the same numbers up to rounding, except that
    reverse mode gives NaN where a `select` leaves out a branch whose derivative is infinite.
    Raises ValueError for unknown names or modes.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}: {one_of(mode, MODES)}")
    g, result, variables = _prepare(graph, of, wrt)
    one, size = g.constant(1.0), len(g)
    depends = _depends(g, variables)
    nodes: list[int | None]
    if (_cheaper(g, result.nodes, depends) if mode == "auto" else mode) == "forward":
        tangents = _forward(g, _seed(size, [(k, i, one) for i, k in enumerate(variables)]))
        nodes = [tangents[k].get(i) for k in result.nodes for i in range(len(variables))]
    else:
        seeds = _seed(size, [(k, i, one) for i, k in enumerate(result.nodes)])
        adjoints = _reverse(g, seeds, depends)
        nodes = [adjoints[k].get(i) for i in range(len(result.nodes)) for k in variables]
    return _finish(g, f"d{of}_d{wrt}", result.shape + g.inputs[wrt], nodes)


# Several outputs by several inputs, in one sweep

Names = Sequence[str]


def _checked(graph: Graph, of: Names, wrt: Names) -> None:
    for kind, names, known in (("output", of, graph.outputs), ("input", wrt, graph.inputs)):
        if unknown := [name for name in names if name not in known]:
            choices = ", ".join(known) or "none"
            meant = did_you_mean(unknown[0], known)
            raise ValueError(f"there is no {kind} {unknown[0]!r}: the graph has {choices}{meant}")
        if len(set(names)) < len(names):
            raise ValueError(f"an {kind} is named twice: {', '.join(names)}")


def _of_all(graph: Graph, of: Names, wrt: Names) -> tuple[Graph, list[int], dict[str, list[int]]]:
    """A copy that computes these outputs alone, their nodes, and the nodes of the inputs."""
    _checked(graph, of, wrt)
    g = simplify(graph.replaced(outputs={name: graph.outputs[name] for name in of}))
    results = [k for out in g.outputs.values() for k in out.nodes]
    entries = {name: range(math.prod(g.inputs[name])) for name in wrt}
    return (
        g,
        results,
        {
            name: [g.node("input", value=(name, i)) for i in numbers]
            for name, numbers in entries.items()
        },
    )


def _with_outputs(g: Graph, new: dict[str, tuple[Shape, list[int | None]]], values: bool) -> Graph:
    """The graph with these outputs, None standing for zero, behind its present ones if `values`."""
    g.current_tag = None
    if not values:
        g.outputs = {}
    for name, (shape, nodes) in new.items():
        if name in g.outputs:
            raise ValueError(f"two outputs would be called {name!r}: rename one of the function's")
        known = tuple(g.constant(0.0) if k is None else k for k in nodes)
        g.outputs[name] = Output(shape, known)
    return simplify(g)


def jacobians(
    graph: Graph, of: Names, wrt: Names, mode: str = "auto", values: bool = False
) -> Graph:
    """The graph of all derivatives of several outputs by several inputs, by one sweep: an output
    "d{of}_d{wrt}" for each pair, as `jacobian` gives it; with `values` also the outputs themselves.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}: {one_of(mode, MODES)}")
    g, results, by_input = _of_all(graph, of, wrt)
    variables = [k for nodes in by_input.values() for k in nodes]
    one, size, depends = g.constant(1.0), len(g), _depends(g, variables)
    if (_cheaper(g, results, depends) if mode == "auto" else mode) == "forward":
        tangents = _forward(g, _seed(size, [(k, i, one) for i, k in enumerate(variables)]))
        rows = [[tangents[k].get(i) for i in range(len(variables))] for k in results]
    else:
        adjoints = _reverse(g, _seed(size, [(k, i, one) for i, k in enumerate(results)]), depends)
        rows = [[adjoints[k].get(i) for k in variables] for i in range(len(results))]
    new: dict[str, tuple[Shape, list[int | None]]] = {}
    row = 0
    for name, out in g.outputs.items():
        rows_of_output, column = rows[row : row + len(out.nodes)], 0
        for other, nodes in by_input.items():
            block = [k for line in rows_of_output for k in line[column : column + len(nodes)]]
            new[f"d{name}_d{other}"] = out.shape + g.inputs[other], block
            column += len(nodes)
        row += len(out.nodes)
    return _with_outputs(g, new, values)


def hessian(graph: Graph, of: str, wrt: Names, values: bool = False) -> Graph:
    """The graph of the second derivatives of a scalar output: "d2{of}_d{a}d{b}" for each input a
    and each b from a on, in the order of `wrt`; with `values` also the output and its gradients.
    """
    g = jacobians(graph, [of], wrt, "reverse", values=True)
    variables = [(w, i) for w in wrt for i in range(math.prod(g.inputs[w]))]
    nodes = [g.node("input", value=variable) for variable in variables]
    first = [k for w in wrt for k in g.outputs[f"d{of}_d{w}"].nodes]
    seeds = [(k, i, g.constant(1.0)) for i, k in enumerate(nodes)]
    tangents = _forward(g, _seed(len(g), seeds))
    new: dict[str, tuple[Shape, list[int | None]]] = {}
    for n, a in enumerate(wrt):
        for b in wrt[n:]:
            rows = [i for i, (w, _) in enumerate(variables) if w == a]
            columns = [j for j, (w, _) in enumerate(variables) if w == b]
            pairs = ((min(i, j), max(i, j)) for i in rows for j in columns)  # it is symmetric
            block = [tangents[first[i]].get(j) for i, j in pairs]
            new[f"d2{of}_d{a}d{b}"] = g.inputs[a] + g.inputs[b], block
    return _with_outputs(g, new, values)


def jvp(graph: Graph, of: Names, wrt: Names) -> Graph:
    """The Jacobians of several outputs times new inputs "{wrt}_direction": outputs "{of}" and
    "{of}_direction".
    """
    g, _, by_input = _of_all(graph, of, wrt)
    size = len(g)
    seeds = [
        (k, 0, t)
        for name, nodes in by_input.items()
        for k, t in zip(nodes, g.declare(f"{name}_direction", g.inputs[name]), strict=True)
    ]
    tangents = _forward(g, _seed(size, seeds))
    return _with_outputs(
        g,
        {
            f"{name}_direction": (out.shape, [tangents[k].get(0) for k in out.nodes])
            for name, out in g.outputs.items()
        },
        values=True,
    )


def vjp(graph: Graph, of: Names, wrt: Names) -> Graph:
    """New inputs "{of}_weight" times the Jacobians by several inputs: outputs "{of}" and
    "{wrt}_weight".
    """
    g, _, by_input = _of_all(graph, of, wrt)
    depends = _depends(g, [k for nodes in by_input.values() for k in nodes])
    seeds = _seed(len(g), [])
    for name, out in g.outputs.items():
        for k, weight in zip(out.nodes, g.declare(f"{name}_weight", out.shape), strict=True):
            _accumulate(g, seeds[k], 0, weight)  # one node may be several entries
    adjoints = _reverse(g, seeds, depends)
    return _with_outputs(
        g,
        {
            f"{name}_weight": (g.inputs[name], [adjoints[k].get(0) for k in nodes])
            for name, nodes in by_input.items()
        },
        values=True,
    )


def directional(graph: Graph, of: str, wrt: str) -> Graph:
    """The Jacobian times a new input "{wrt}_direction", as `wrt`: output "{of}_direction"."""
    g, result, variables = _prepare(graph, of, wrt)
    size = len(g)
    along = g.declare(f"{wrt}_direction", g.inputs[wrt])
    tangents = _forward(g, _seed(size, [(k, 0, t) for k, t in zip(variables, along, strict=True)]))
    return _finish(g, f"{of}_direction", result.shape, [tangents[k].get(0) for k in result.nodes])


def alongside(
    graph: Graph, of: str, wrt: str, moving: Sequence[int]
) -> tuple[Graph, list[tuple[str, int] | None]]:
    """A graph whose output `of` is followed by its derivatives along some entries of the input
    `wrt`, which is followed by the directions of these entries. Returned with it, for each entry
    of `of`: the entry of `of` or of an input that is its derivative, or None where that is zero.
    """
    g, result, variables = _prepare(graph, of, wrt)
    size, n = len(g), len(variables)
    g.inputs[wrt] = (n + len(moving),)
    along = [g.node("input", value=(wrt, n + i)) for i in range(len(moving))]
    seeds = [(variables[i], 0, t) for i, t in zip(moving, along, strict=True)]
    tangents = _forward(g, _seed(size, seeds))
    nodes, sources = list(result.nodes), list[tuple[str, int] | None]()
    for t in (tangents[k].get(0) for k in result.nodes):
        if t is not None and g.op[t] != "input":
            nodes.append(t)
        sources.append(None if t is None else g.value[t] or (of, len(nodes) - 1))
    g.outputs = {of: Output((len(nodes),), tuple(nodes))}
    return simplify(g), sources


def pullback(graph: Graph, of: str, wrt: str) -> Graph:
    """A new input "{of}_weight", as `of`, times the Jacobian: output "{wrt}_weight"."""
    g, result, variables = _prepare(graph, of, wrt)
    depends, seeds = _depends(g, variables), _seed(len(g), [])
    for k, weight in zip(result.nodes, g.declare(f"{of}_weight", result.shape), strict=True):
        _accumulate(g, seeds[k], 0, weight)  # one node may be several entries
    adjoints = _reverse(g, seeds, depends)
    return _finish(g, f"{wrt}_weight", g.inputs[wrt], [adjoints[k].get(0) for k in variables])
