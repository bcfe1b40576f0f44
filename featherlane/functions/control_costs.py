"""Costs of optimal control: a user's functions, or graphs, as checked graphs."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, NamedTuple

from featherlane.errors import shown
from featherlane.functions.policy import check_memory, result_and_memory
from featherlane.program.array import trace
from featherlane.program.graph import Graph
from featherlane.program.rewrite import simplify

POSITIONAL = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
Shapes = Mapping[str, tuple[int, ...]]


class Wanted(NamedTuple):
    """The arrays that the costs of a problem may read, and the kind of its costs."""

    state: dict[str, int]  # q, v, tau and their sizes
    parameters: Shapes
    computed: Shapes  # by name, too: forces of constraints
    memory: Shapes  # by name, too; the cost of a knot renews it
    exact: bool  # Hessians, of numbers too
    many: bool  # whether the problems have leading dimensions


def cost_graphs(cost: Any, terminal_cost: Any, wanted: Wanted) -> list[Graph]:
    """Traces both costs: a problem is known by what they compute, not by the functions, whose
    surroundings may change from call to call.
    """
    at_end = {x: n for x, n in wanted.state.items() if x != "tau"}
    of_end = wanted._replace(state=at_end, computed=wanted.memory, memory={})
    wanted = wanted._replace(computed={**wanted.computed, **wanted.memory})
    graphs = [_graph("cost", cost, wanted), _graph("terminal_cost", terminal_cost, of_end)]
    read = graphs[0].inputs.keys() | graphs[1].inputs.keys()
    if unread := wanted.parameters.keys() - read:
        raise ValueError(f"parameter {min(unread)!r} is no argument of a cost")
    return graphs


def zero(q: Any, v: Any) -> Any:
    """Returns the cost of the end, if there is none."""
    return [0.0]


def _graph(name: str, function: Any, wanted: Wanted) -> Graph:
    """Traces a cost with the parameters that it names. Raises ValueError for other than a number,
    or an array of residuals.
    """
    state = wanted.state
    if isinstance(function, Graph):
        return _traced_before(name, function, wanted)
    if not callable(function):
        raise TypeError(f"{name} is {shown(function)}: wanted a function of {', '.join(state)}")
    parameters = _named(name, function, wanted)

    def run(*arrays: Any) -> dict[str, Any]:
        named = dict(zip(parameters, arrays[len(state) :], strict=True))
        result = function(*arrays[: len(state)], **named)
        if not wanted.memory:
            _check_single(name, result)
            return {"out": result}
        out, renewed = result_and_memory("cost", "residuals", result, [*wanted.memory])
        return {"out": out, **{f"{x}_next": renewed[x] for x in wanted.memory}}

    return _checked(name, simplify(trace(run, {**state, **parameters})), wanted)


def _check_single(name: str, result: Any) -> None:
    """Raises TypeError for a pair of residuals and memory from a cost that renews none."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
        reason = "the cost of the end reads memory only" if name != "cost" else "memory= names none"
        raise TypeError(f"{name} returns residuals and memory: wanted the residuals, {reason}")


def _named(name: str, function: Any, wanted: Wanted) -> Shapes:
    """Returns the parameters that a function names. Raises TypeError if it cannot be called with
    them.
    """
    takes = signature(function)
    everything = any(p.kind is Parameter.VAR_KEYWORD for p in takes.parameters.values())
    arrays = {**wanted.parameters, **wanted.computed}
    parameters = {x: n for x, n in arrays.items() if everything or x in takes.parameters}
    try:
        takes.bind(*wanted.state, **parameters)
    except TypeError:
        first = f"{name} takes {takes}"
    else:
        return parameters
    positional = [x for x, p in takes.parameters.items() if p.kind in POSITIONAL]
    by_name = [x for x in takes.parameters if x not in positional[: len(wanted.state)]]
    needed = [x for x in by_name if takes.parameters[x].default is Parameter.empty]
    missing = [x for x in needed if x not in parameters]
    if missing and len(positional) >= len(wanted.state):
        names = ", ".join(arrays)
        there = f"there are {names}" if names else "there are none"
        if missing[0] == "force":
            there += "; force is that of constraints=, at knots with controls"
        raise TypeError(
            f"{first}: no parameter, reference or memory is called {missing[0]!r}; {there}"
        )
    by_position = ", ".join(wanted.state)
    raise TypeError(f"{first}: wanted ({by_position}) by position, then parameters by their names")


def _traced_before(name: str, graph: Graph, wanted: Wanted) -> Graph:
    """Returns a cost that was traced before. Raises ValueError for other inputs or outputs than
    wanted.
    """
    state = {x: (n,) for x, n in wanted.state.items()}
    inputs = {**state, **wanted.parameters, **wanted.computed}
    known = all(inputs.get(x) == shape for x, shape in graph.inputs.items())
    if not known or wanted.state.keys() - graph.inputs.keys():
        has, expected = (
            ", ".join(f"{x} {s}" for x, s in y.items()) for y in (graph.inputs, inputs)
        )
        raise ValueError(f"{name} has the inputs {has}: wanted {expected}, parameters as needed")
    outputs = ["out", *[f"{x}_next" for x in wanted.memory]]
    if {*graph.outputs} != {*outputs}:
        has, expected = ", ".join(graph.outputs), ", ".join(outputs)
        alone = "" if wanted.memory else " alone, as of fl.trace"
        raise ValueError(f"{name} has the outputs {has}: wanted {expected}{alone}")
    return _checked(name, graph, wanted)


def _checked(name: str, graph: Graph, wanted: Wanted) -> Graph:
    check_memory("cost", graph, tuple(wanted.memory.items()))
    shape = graph.outputs["out"].shape
    if len(shape) > 1 or shape == (0,):
        reason = "wanted a number, or an array (m,) of residuals"
        raise ValueError(f"{name} gives an array of shape {shape}: {reason}{_batch(graph, wanted)}")
    if not (shape or wanted.exact):
        raise ValueError(
            f"{name} gives a number: hessian='gauss_newton' wants an array of residuals r, whose "
            "cost is |r|^2 / 2; hessian='exact' takes a number"
        )
    return graph


def _batch(graph: Graph, wanted: Wanted) -> str:
    """Returns the likely confusion of a cost that gives a matrix: a parameter for many problems,
    where q0, v0, tau and dt say that there is one.
    """
    large = [x for x, shape in wanted.parameters.items() if len(shape) > 1 and x in graph.inputs]
    if wanted.many or not large:
        return ""
    x, shape = large[0], wanted.parameters[large[0]]
    return (
        f"; parameter {x!r} is a matrix {shape} of the one problem: for {shape[0]} problems q0 "
        f"needs their dimension too, ({shape[0]}, nq)"
    )
