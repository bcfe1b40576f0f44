"""Derivatives of your own functions and of graphs, as graphs: one kernel for all that is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from featherlane.algorithms.tangent import tangent_gradient
from featherlane.program.array import trace
from featherlane.program.derivatives import graphs
from featherlane.program.graph import Graph
from featherlane.program.trace import call
from featherlane.program.trace import trace as program_trace
from featherlane.robot.model import Robot

Function = Callable[..., Any] | Graph
"""A function of arrays that `trace` accepts, or a graph."""
Inputs = Mapping[str, Any] | None
"""The shape of each input by its name; None for a graph, which has them."""
Names = str | Iterable[str] | None
"""The name of an input or output, or names of several; None: all."""
Tangent = Robot | Mapping[str, Robot] | None
"""The robot in whose tangent space derivatives are taken, or a robot by the name of an input."""


def _graph(function: Function, inputs: Inputs) -> Graph:
    if isinstance(function, Graph):
        return function
    if inputs is None:
        raise TypeError(
            "inputs is missing: name the shape of each argument, as in {'q': 7, 'A': (3, 3)}"
        )
    return trace(function, inputs)


def _listed(names: Names, everything: Iterable[str]) -> list[str]:
    if names is None:
        return [*everything]
    return [names] if isinstance(names, str) else [*names]


def _scalar(graph: Graph, of: str | None, what: str) -> str:
    """The one scalar output to differentiate. Raises ValueError."""
    names = [*graph.outputs]
    if of is None and len(names) != 1:
        raise ValueError(f"of is missing: the function has the outputs {', '.join(names)}")
    name = names[0] if of is None else of
    if name in graph.outputs and (shape := graph.outputs[name].shape):
        raise ValueError(f"output {name!r} has shape {shape}: a {what} wants a scalar")
    return name


def _columns(rows: Any, axes: int, model: Robot, q: Any) -> Any:
    """Returns derivatives by q, after other axes, in its tangent space."""
    if axes:
        return [_columns(row, axes - 1, model, q) for row in rows]
    return tangent_gradient(model, q, rows)


def _in_tangent_space(
    graph: Graph, of: list[str], wrt: list[str], models: Mapping[str, Robot]
) -> Graph:
    """Returns a graph of derivatives whose columns by some inputs, configurations of models, are in
    their tangent spaces. Raises ValueError for inputs that are no configurations.
    """
    for name, model in models.items():
        if name not in wrt:
            raise ValueError(f"tangent is of {name!r}: wanted one of wrt, {', '.join(wrt)}")
        if graph.inputs[name] != (model.nq,):
            shape = graph.inputs[name]
            raise ValueError(f"{name} has shape {shape}: wanted a configuration, ({model.nq},)")

    def run(*values: Any) -> dict[str, Any]:
        named = dict(zip(graph.inputs, values, strict=True))
        results = dict(call(graph, **named))
        for name, model in models.items():
            for key in (f"d{output}_d{name}" for output in of):
                axes = len(graph.outputs[key].shape) - 1
                results[key] = _columns(results[key], axes, model, named[name])
        return results

    return program_trace(run, graph.inputs)


def jacobian(
    function: Function,
    inputs: Inputs = None,
    *,
    of: Names = None,
    wrt: Names = None,
    mode: str = "auto",
    values: bool = False,
    tangent: Tangent = None,
) -> Graph:
    """Returns the graph of the derivatives of a function's outputs with respect to its inputs.

    Each pair of an output and an input has an output "d{of}_d{wrt}", whose shape is that of `of`
    followed by that of `wrt`. `featherlane.compile` compiles the graph, `featherlane.call` calls it
    in other traces, and it can be differentiated again. Raises ValueError for unknown names, and
    for inputs that are no configurations of the model.

    Arguments:
        function: a function of arrays, as in `trace`, or a graph
        inputs: {name: shape} of the function; None: those of the graph
        of: names of outputs; None: all
        wrt: names of inputs; None: all
        mode: "forward" carries one tangent for each input entry, "reverse" one adjoint for each
            output entry; "auto" takes the cheaper of the two
        values: whether the outputs themselves come first
        tangent: a model, whose configuration is the input "q", or {input: model}, in whose tangent
            space the derivatives are, with nv columns; None: entries of q

    Examples:
        >>> graph = fl.jacobian(lambda q: arm.center_of_mass(q), {"q": 2})
        >>> np.allclose(fl.compile(graph)(q), arm.center_of_mass_jacobian(q))
        True
        >>> free = fl.load("double_pendulum", root="free")
        >>> graph = fl.jacobian(free.center_of_mass, {"q": free.nq}, tangent=free)
        >>> fl.compile(graph)(free.neutral()).shape
        (3, 8)
    """
    graph = _graph(function, inputs)
    outputs, variables = _listed(of, graph.outputs), _listed(wrt, graph.inputs)
    derivatives = graphs.jacobians(graph, outputs, variables, mode, values)
    if tangent is None:
        return derivatives
    models = tangent if isinstance(tangent, Mapping) else {"q": tangent}
    return _in_tangent_space(derivatives, outputs, variables, models)


def gradient(
    function: Function,
    inputs: Inputs = None,
    *,
    of: str | None = None,
    wrt: Names = None,
    values: bool = False,
    tangent: Tangent = None,
) -> Graph:
    """Returns the graph of the gradients "d{of}_d{wrt}" of a scalar output, by reverse mode.

    Arguments:
        function: a function of arrays, as in `trace`, or a graph
        inputs: {name: shape} of the function; None: those of the graph
        of: name of the output; None: the only one
        wrt: names of inputs; None: all
        values: whether the output itself comes first
        tangent: a model, or {input: model}, as in `jacobian`; None: entries of q

    Examples:
        >>> fl.compile(fl.gradient(lambda x: x @ x, {"x": 3}))([1.0, 2.0, 3.0])
        array([2., 4., 6.])
    """
    graph = _graph(function, inputs)
    name = _scalar(graph, of, "gradient")
    return jacobian(graph, of=name, wrt=wrt, mode="reverse", values=values, tangent=tangent)


def hessian(
    function: Function,
    inputs: Inputs = None,
    *,
    of: str | None = None,
    wrt: Names = None,
    values: bool = False,
) -> Graph:
    """Returns the graph of a scalar output's second derivatives: "d2{of}_d{a}d{b}" for inputs a, b
    in the order of `wrt` (those with b before a are the transposes).

    Arguments:
        function: a function of arrays, as in `trace`, or a graph
        inputs: {name: shape} of the function; None: those of the graph
        of: name of the output; None: the only one
        wrt: names of inputs; None: all
        values: whether the output and its gradients come first

    Examples:
        >>> fl.compile(fl.hessian(lambda x: x @ x, {"x": 2}))([1.0, 2.0])
        array([[2., 0.],
               [0., 2.]])
    """
    graph = _graph(function, inputs)
    name = _scalar(graph, of, "Hessian")
    return graphs.hessian(graph, name, _listed(wrt, graph.inputs), values)


def jvp(function: Function, inputs: Inputs = None, *, of: Names = None, wrt: Names = None) -> Graph:
    """Returns the graph of a function and of its derivatives along a direction, with further inputs
    "{wrt}_direction" and further outputs "{of}_direction".

    Arguments:
        function: a function of arrays, as in `trace`, or a graph
        inputs: {name: shape} of the function; None: those of the graph
        of: names of outputs; None: all
        wrt: names of inputs; None: all

    Examples:
        >>> along = fl.compile(fl.jvp(lambda x: x * x, {"x": 2}))
        >>> along([1.0, 2.0], [1.0, 0.0])
        Results(out=array([1., 4.]), out_direction=array([2., 0.]))
    """
    graph = _graph(function, inputs)
    return graphs.jvp(graph, _listed(of, graph.outputs), _listed(wrt, graph.inputs))


def vjp(function: Function, inputs: Inputs = None, *, of: Names = None, wrt: Names = None) -> Graph:
    """Returns the graph of a function and of weighted sums of the derivatives of its outputs, with
    further inputs "{of}_weight" and further outputs "{wrt}_weight".

    Arguments:
        function: a function of arrays, as in `trace`, or a graph
        inputs: {name: shape} of the function; None: those of the graph
        of: names of outputs; None: all
        wrt: names of inputs; None: all

    Examples:
        >>> back = fl.compile(fl.vjp(lambda x: x * x, {"x": 2}))
        >>> back([1.0, 2.0], [1.0, 1.0])
        Results(out=array([1., 4.]), x_weight=array([2., 4.]))
    """
    graph = _graph(function, inputs)
    return graphs.vjp(graph, _listed(of, graph.outputs), _listed(wrt, graph.inputs))
