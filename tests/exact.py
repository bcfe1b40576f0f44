"""The functions of a robot in 400 digits: its traced graphs, evaluated with mpmath's numbers.

A model's constants and the inputs are doubles, so that the exact result for them is well-defined.
"""

from functools import cache

import mpmath
import numpy as np

from featherlane.program.op import OPS

DIGITS = 400
NAN = mpmath.mpf("nan")


def _divide(a, b):
    return a / b if b else NAN


OPERATIONS = {
    "neg": lambda a: -a,
    "abs": abs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "sqrt": lambda a: mpmath.sqrt(a) if a >= 0 else NAN,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "less": lambda a, b: a < b,
    "select": lambda condition, a, b: a if condition else b,
}
assert set(OPERATIONS) <= set(OPS)


@cache
def _graph(model, function):
    return model.graph(function)


def evaluated(graph, inputs, digits=DIGITS):
    """The outputs of a graph, as flat lists of mpmath's numbers in C order."""
    with mpmath.workdps(digits):
        values = []
        for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
            if op == "input":
                name, position = value
                values.append(mpmath.mpf(float(np.ravel(inputs[name])[position])))
            elif op == "constant":
                values.append(mpmath.mpf(value))
            else:
                values.append(OPERATIONS[op](*(values[a] for a in args)))
        return {name: [values[k] for k in out.nodes] for name, out in graph.outputs.items()}


def exact(model, function, inputs, digits=DIGITS):
    """The results of a function of a model for one state, as arrays of mpmath's numbers."""
    graph = _graph(model, function)
    given = {name: inputs[name] for name in graph.inputs}
    found = evaluated(graph, given, digits)
    shapes = {name: out.shape for name, out in graph.outputs.items()}
    return {name: np.array(x, object).reshape(shapes[name]) for name, x in found.items()}


def condition_of(M, digits=100):
    """The conditioning max_i M_ii (M^-1)_ii of a mass matrix of mpmath's numbers; infinity where M
    has no inverse.
    """
    with mpmath.workdps(digits):
        try:
            inverse = mpmath.inverse(mpmath.matrix(M.tolist()))
        except ZeroDivisionError:
            return float("inf")
        return float(max(abs(M[i, i] * inverse[i, i]) for i in range(len(M))))
