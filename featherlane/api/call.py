"""`featherlane.call`: functions of models, and graphs, inside your own functions."""

from __future__ import annotations

from typing import Any

from featherlane.api.compiled import Compiled
from featherlane.errors import instead, keyword_instead
from featherlane.functions.arguments import steps_of
from featherlane.functions.constraint_inputs import constraints_in, with_usual
from featherlane.functions.ground_inputs import ground_in
from featherlane.functions.table import BY_NAME
from featherlane.program.array import call_graph
from featherlane.program.graph import Graph


def call(function: Graph | Compiled, /, *arguments: Any, **named: Any) -> Any:
    """Calls a graph, or a function of a model, with arrays of which some are traced.

    call(graph, **inputs) takes all inputs of the graph by name and returns its outputs by name.

    call(model, name, *inputs, **options) calls a function of a model (see `Model.function`) and
    returns an array, or the function's named tuple if it has several results. A rollout takes one
    step for each row of tau. If all arrays are NumPy's, results are numbers.

    Raises TypeError or ValueError that names the argument.

    Arguments:
        function: a graph, or a model
        arguments: the name of a function of the model, then its inputs, which also go by name
        named: inputs by name, and options of a model's function: f_ext, f_ext_frame, params,
            method, frame, reference, wrt, integrator, actuation, every, constraints with active,
            anchors, kp and kd, and ground with law and ground_params

    Examples:
        >>> square = fl.trace(lambda x: x * x, {"x": 2})
        >>> fl.compile(lambda y: fl.call(square, x=y + 1)["out"], {"y": 2})([1.0, 2.0])
        array([4., 9.])
    """
    if isinstance(function, Graph):
        if arguments:
            wanted = ", ".join(f"{name}=..." for name in function.inputs)
            raise TypeError(f"call(graph, ...) takes its inputs by name: wanted {wanted}")
        return call_graph(function, named)
    if isinstance(function, Compiled):
        return _of_model(function, *arguments, **named)
    raise TypeError(f"call got {type(function).__name__}: wanted a graph or a model first")


OPTIONS = ("frame", "reference", "wrt", "integrator", "actuation")  # of functions that take them


def _of_model(model: Compiled, name: Any = None, /, *arrays: Any, **named: Any) -> Any:
    if name not in BY_NAME:
        raise ValueError(f"there is no function {name!r}{instead(str(name), BY_NAME)}")
    takes, inputs = BY_NAME[name].takes, [*BY_NAME[name].inputs]
    positions = [*inputs, *(["f_ext"] if "f_ext" in takes else [])]
    if len(arrays) > len(positions):
        raise TypeError(f"{name} got {len(arrays)} arrays: wanted {', '.join(positions)}")
    arguments = dict(zip(positions, arrays, strict=False))
    if twice := arguments.keys() & named.keys():
        raise TypeError(f"{name} got a second {min(twice)}")
    arguments |= named
    arguments = with_usual(BY_NAME[name], arguments)
    if missing := [x for x in inputs if x not in arguments]:
        raise TypeError(f"{name} misses {', '.join(missing)}: wanted {', '.join(inputs)}")
    options = {x: arguments.pop(x) for x in OPTIONS if x in takes and x in arguments}
    if steps := steps_of(name, arguments):
        arguments.pop("every", None)
        options |= steps
    if "reference" in takes:
        options.setdefault("reference", "body")
    params, method = arguments.pop("params", None), arguments.pop("method", "auto")
    wrenches = arguments.pop("f_ext", None), arguments.pop("f_ext_frame", "body")
    values = tuple(arguments.pop(x) for x in inputs)
    if "constraints" in takes:
        held, more = constraints_in(arguments)
        options |= {"constraints": held} if held else {}
        values = *values, *more
    if "ground" in takes:
        ground, more = ground_in(arguments)
        options |= {"ground": ground} if ground else {}
        values = *values, *more
    if arguments:
        positions += ["constraints", "active"] if "constraints" in takes else []
        positions += ["anchors"] if "anchors" in takes else []
        raise TypeError(
            f"{name} takes no {min(arguments)}{keyword_instead(name, min(arguments), positions)}"
        )
    if method != "auto":
        options["method"] = method
    return model._call(name, values, params, None, None, *wrenches, **options)
