"""What a method costs, as a sum of few terms, fitted to the CSV of links_and_groups.py.

    ns of a call = a + b links + c links groups + ...        (TERMS; groups: of states in lanes)

For each function and method the best few terms with positive constants, least squares of relative
errors. What counts is the choice: where the method that is predicted to be the fastest takes too
long, the rivals of that cell get more weight, and the fit is repeated. Chains below and above half
of LONG links are compiled differently and have constants of their own.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from links_results import WITHIN, Cell, by_cell, ours, read
from robots import table

from featherlane.functions.kernels import LONG

MOST_TERMS = 4
PRICE = 1e-4  # mean square of the relative error that one more term has to be worth
REPEATS = 40
MORE_WEIGHT = 1.4
TERMS: dict[str, Callable[[int, int, float], float]] = {  # of links, states, groups of lanes
    "call": lambda n, s, g: 1.0,
    "several": lambda n, s, g: float(s > 1),  # single states take a shorter way
    "links": lambda n, s, g: n,
    "links states": lambda n, s, g: n * s,
    "links groups": lambda n, s, g: n * g,
    "links log links groups": lambda n, s, g: n * math.log2(n) * g,
    "links^2 groups": lambda n, s, g: n**2 * g,
    "links^3 groups": lambda n, s, g: n**3 * g,
}
Constants = dict[str, float]
Times = Mapping[Cell, Mapping[str, float]]  # ns of one call, by cell and method


class Method(NamedTuple):
    """What has constants of its own."""

    function: str
    method: str
    long: bool


def terms(cell: Cell, lanes: int) -> np.ndarray:
    groups = math.ceil(cell.states / lanes)
    return np.array([of(cell.links, cell.states, groups) for of in TERMS.values()])


def predicted(constants: Mapping[str, float], cell: Cell, lanes: int) -> float:
    """ns of one call."""
    known = dict(zip(TERMS, terms(cell, lanes), strict=True))
    return sum(constant * known[name] for name, constant in constants.items())


def fit(rows: np.ndarray, times: np.ndarray, weights: np.ndarray) -> Constants:
    """The few terms with positive constants that predict best. rows: (cells, terms)."""
    A, best, found = rows / times[:, None] * weights[:, None], np.inf, Constants()
    for count in range(1, min(MOST_TERMS, len(times)) + 1):
        for which in combinations(range(len(TERMS)), count):
            x = np.linalg.lstsq(A[:, which], weights, rcond=None)[0]
            error = float(np.square(A[:, which] @ x - weights).mean()) + count * PRICE
            if error < best and (x > 0).all():
                names = [list(TERMS)[k] for k in which]
                best, found = error, dict(zip(names, map(float, x), strict=True))
    return found


class Fit:
    """The constants of all methods, and how well they choose."""

    def __init__(self, times: Times, lanes: int) -> None:
        self.times, self.lanes = times, lanes
        self.constants: dict[Method, Constants] = {}
        weights = {cell: dict.fromkeys(of, 1.0) for cell, of in times.items()}
        best: tuple[float, dict[Method, Constants]] = (np.inf, {})
        for _ in range(REPEATS):
            self.constants = {method: self._fitted(method, weights) for method in self._methods()}
            losses = {cell: self.loss(cell) for cell in times}
            badness = sum(max(0.0, loss - WITHIN) + (loss > WITHIN) for loss in losses.values())
            best = min(best, (badness, self.constants), key=lambda pair: pair[0])
            if not badness:
                break
            for cell, loss in losses.items():
                if loss > WITHIN:
                    for name in (self.chosen(cell), min(times[cell], key=times[cell].__getitem__)):
                        weights[cell][name] *= MORE_WEIGHT
        self.constants = best[1]

    def _methods(self) -> list[Method]:
        found = (self._of(cell, name) for cell, of in self.times.items() for name in of)
        return sorted(dict.fromkeys(found))

    def _of(self, cell: Cell, name: str) -> Method:
        return Method(cell.function, name, 2 * cell.links >= LONG)

    def _fitted(self, which: Method, weights: Mapping[Cell, Mapping[str, float]]) -> Constants:
        name = which.method
        mine = [c for c, of in self.times.items() if name in of and self._of(c, name) == which]
        rows = np.array([terms(cell, self.lanes) for cell in mine])
        known = np.array([self.times[cell][name] for cell in mine])
        return fit(rows, known, np.array([weights[cell][name] for cell in mine]))

    def known(self, cell: Cell, name: str) -> bool:
        return self._of(cell, name) in self.constants

    def predicted(self, cell: Cell, name: str) -> float:
        return predicted(self.constants[self._of(cell, name)], cell, self.lanes)

    def chosen(self, cell: Cell) -> str:
        return min(self.times[cell], key=lambda name: self.predicted(cell, name))

    def loss(self, cell: Cell) -> float:
        """The time of the chosen method, in multiples of the fastest one's."""
        return self.times[cell][self.chosen(cell)] / min(self.times[cell].values())

    def errors(self, which: Method) -> list[float]:
        """predicted / measured - 1"""
        return [
            self.predicted(cell, which.method) / of[which.method] - 1
            for cell, of in self.times.items()
            if which.method in of and self._of(cell, which.method) == which
        ]


def measured(data: Path) -> tuple[dict[Cell, dict[str, float]], int]:
    """ns of one call by cell and method, and the lanes of the machine in this dtype."""
    facts, rows = read(data)
    bits = 8 * np.dtype(facts["dtype"]).itemsize
    cells = {cell: ours(of) for cell, of in by_cell(rows).items()}
    times = {c: {m: ns * c.states for m, ns in of.items()} for c, of in cells.items() if of}
    return times, int(facts["vector_bits"]) // bits


def unseen(times: Times, lanes: int) -> list[tuple[float, Cell]]:
    """What the choice costs for numbers of links that were left out of the fit, the shortest and
    the longest robots excepted.
    """
    losses = []
    for links in sorted({cell.links for cell in times})[1:-1]:
        found = Fit({cell: of for cell, of in times.items() if cell.links != links}, lanes)
        found.times = times
        for cell in times:
            known = all(found.known(cell, name) for name in times[cell])
            if cell.links == links and known:
                losses.append((found.loss(cell), cell))
    return sorted(losses, reverse=True)


def report(found: Fit) -> str:
    """The constants as a table, and what they choose."""
    names = [name for name in TERMS if any(name in c for c in found.constants.values())]
    rows = []
    for which, constants in found.constants.items():
        errors = np.abs(found.errors(which))
        cells = [f"{constants[name]:.3g}" if name in constants else "" for name in names]
        size = f"{which.method}, {'from' if which.long else 'below'} {LONG // 2} links"
        told = [f"{np.median(errors):.0%}", f"{errors.max():.0%}"]
        rows.append([f"{which.function}: {size}", *cells, *told])
    header = ["ns of a call", *names, "error, median", "largest"]
    losses = sorted(((found.loss(cell), cell) for cell in found.times), reverse=True)
    far = [(loss, cell) for loss, cell in losses if loss > WITHIN]
    lines = [table(header, rows), "", _summary(losses)]
    lines += [f"  {loss:.2f}  {cell}: {found.chosen(cell)}" for loss, cell in far]
    if left := unseen(found.times, found.lanes):
        lines.append(f"For numbers of links left out of the fit: {_summary(left)}")
    return "\n".join(lines)


def _summary(losses: Sequence[tuple[float, Cell]]) -> str:
    within = sum(loss <= WITHIN for loss, _ in losses)
    return (
        f"the choice takes at most {WITHIN:.2f} times as long as the fastest measured method in "
        f"{within} of {len(losses)} cells; the worst: {losses[0][0]:.2f}."
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path, help="the CSV of links_and_groups.py")
    options.add_argument("--python", action="store_true", help="the constants as a dict, too")
    args = options.parse_args()
    found = Fit(*measured(args.data))
    print(report(found))
    if args.python:
        for which, constants in found.constants.items():
            told = {name: float(f"{x:.3g}") for name, x in constants.items()}
            print(f"    {tuple(which)}: {told},")


if __name__ == "__main__":
    main()
