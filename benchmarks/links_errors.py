"""How the errors of each method grow with the number of links: the table of docs/links.md.

Random revolute chains and states; every method in float64 against the serial one in the widest
floating-point numbers that NumPy has; the largest error of a state relative to its largest entry.
In the last rows masses spread over six orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from options import parser, write_json
from robots import table

import featherlane as fl
from featherlane import algorithms
from featherlane.algorithms import parallel
from featherlane.api.model import Model
from featherlane.robot.tree_of import build_tree

INVERSE: dict[str, Callable[..., Any]] = {
    "rnea": algorithms.rnea,
    "scan": parallel.scanned_inverse_dynamics,
    "scan, one": partial(parallel.scanned_inverse_dynamics, together=True),
}
FORWARD: dict[str, Callable[..., Any]] = {
    "aba": algorithms.aba,
    **{name: method.algorithm for name, method in parallel.FORWARD_DYNAMICS.items()},
}
STATES = 4
MOST = {"jsiia": 200}  # links: its list of columns grows with their square


def chain(n: int, seed: int, orders: int) -> Model:
    """orders: of magnitude, over which masses spread."""
    model = fl.chain(n, seed)
    spread = 10.0 ** np.random.default_rng(seed).uniform(-orders / 2, orders / 2, n)
    bodies = [
        fl.Body(b.name, b.mass * s, b.com, tuple(tuple(x * s for x in row) for row in b.inertia))
        for b, s in zip(model.bodies, spread, strict=True)
    ]
    return fl.Model(**{**model._fields(), "bodies": tuple(bodies)})


def evaluated(algorithm: Callable[..., Any], model: Model, state: Any, dtype: Any) -> np.ndarray:
    """The algorithm on arrays of states, in numbers of a dtype."""
    regroup = algorithm not in (FORWARD["cfa"], FORWARD["dca"])
    scalars = [list(x.astype(dtype).T) for x in state]
    return np.array(algorithm(build_tree(model, regroup=regroup), *scalars)).T


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float((np.abs(found - exact).max(1) / np.abs(exact).max(1)).max())


def row(n: int, seeds: int, orders: int) -> list[str]:
    worst: dict[str, float] = {}
    for seed in range(seeds):
        model = chain(n, seed, orders)
        state = np.random.default_rng(seed).normal(size=(3, STATES, n))
        for methods in (INVERSE, FORWARD):
            exact = evaluated(next(iter(methods.values())), model, state, np.longdouble)
            for name, algorithm in methods.items():
                if n <= MOST.get(name, n):
                    own = error(evaluated(algorithm, model, state, np.float64), exact)
                    worst[name] = max(worst.get(name, 0.0), own)
    figures = [f"{worst[name]:.0e}" if name in worst else "" for name in (*INVERSE, *FORWARD)]
    return [f"{n}, {orders} orders" if orders else str(n), *figures]


def main() -> None:
    options = parser(__doc__, links=(10, 100, 200, 400), json=None)
    options.add_argument("--seeds", type=int, default=2, help="random chains of each length")
    args = options.parse_args()
    rows = [row(n, args.seeds, 0) for n in args.links]
    rows += [row(n, args.seeds, 6) for n in args.links if n in (10, 200)]
    names = ["links", *INVERSE, *FORWARD]
    print(table(names, rows))
    write_json(args.json, (dict(zip(names, cells, strict=True)) for cells in rows))


if __name__ == "__main__":
    main()
