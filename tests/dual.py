"""Graphs evaluated on dual numbers: each value with its derivative along one direction, by rules of
their own.
"""

import numpy as np

from featherlane.program.op import OPS


def evaluate(graph, values, directions):
    """The outputs of a graph for inputs (batch, ...), and their derivatives along directions of the
    same shapes; inputs without one do not change.
    """
    found = []
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        if op == "input":
            name, entry = value
            flat = [np.reshape(x, (len(x), -1))[:, entry] if x is not None else 0.0
                    for x in (values[name], directions.get(name))]  # fmt: skip
            found.append(tuple(flat))
        elif op == "constant":
            number = graph.number(k)  # None for NaN
            found.append((np.nan if number is None else number, 0.0))
        else:
            xs, ds = zip(*[found[a] for a in args], strict=True)
            with np.errstate(all="ignore"):
                found.append((OPS[op].evaluate(*map(np.asarray, xs)), RULES[op](xs, ds)))

    def stacked(out, part):
        batch = len(next(iter(values.values())))
        flat = [np.broadcast_to(found[k][part], batch) for k in out.nodes]
        return np.stack(flat, -1).reshape(batch, *out.shape)

    return [{n: stacked(out, part) for n, out in graph.outputs.items()} for part in (0, 1)]


RULES = {
    "neg": lambda x, d: -d[0],
    "abs": lambda x, d: np.sign(x[0]) * d[0],
    "add": lambda x, d: d[0] + d[1],
    "sub": lambda x, d: d[0] - d[1],
    "mul": lambda x, d: x[0] * d[1] + d[0] * x[1],
    "fma": lambda x, d: x[0] * d[1] + d[0] * x[1] + d[2],
    "div": lambda x, d: (d[0] * x[1] - x[0] * d[1]) / (x[1] * x[1]),
    "sqrt": lambda x, d: d[0] / (2 * np.sqrt(x[0])),
    "sin": lambda x, d: np.cos(x[0]) * d[0],
    "cos": lambda x, d: -np.sin(x[0]) * d[0],
    "round": lambda x, d: 0.0,
    "less": lambda x, d: 0.0,
    "select": lambda x, d: np.where(x[0], d[1], d[2]),
}
