"""The table of links_and_groups.py: a row for each cell and method, as CSV, with facts above."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from suite import cells

NOTHING = "-"
OVER = "skipped: over budget"
UNSUPPORTED = "unsupported"
FAILED = "failed: "
WITHIN = 1.15  # times the best method: what "auto" may take


class Cell(NamedTuple):
    function: str
    links: int
    states: int


class Row(NamedTuple):
    """One method in one cell. Where there is no figure, `ns_per_state` says why."""

    function: str
    links: int
    states: int
    dtype: str
    backend: str
    method: str
    ns_per_state: float | str  # median over the rounds
    relative_error: float | str = NOTHING  # against the serial method, of the worst state
    first_call_s: float | str = NOTHING  # of a process that has nothing of it compiled
    spread: float | str = NOTHING  # (slowest - fastest round) / median
    note: str = ""

    @property
    def cell(self) -> Cell:
        return Cell(self.function, self.links, self.states)

    @property
    def label(self) -> str:
        return self.method if self.backend == "featherlane" else self.backend

    @property
    def measured(self) -> bool:
        return not isinstance(self.ns_per_state, str)


class Writer(cells.Writer):
    fields = Row._fields


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def read(path: Path) -> tuple[dict[str, str], list[Row]]:
    """The facts and the rows of a file."""
    lines = path.read_text().splitlines()
    told = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    return told, list(_rows([line for line in lines if not line.startswith("# ")]))


def _rows(lines: Sequence[str]) -> Iterator[Row]:
    for given in csv.DictReader(lines):
        numbers = {k: _number(given[k]) for k in Row._fields[6:10]}
        sizes = {k: int(given[k]) for k in ("links", "states")}
        yield Row(**{**given, **sizes, **numbers})  # type: ignore[arg-type]


def by_cell(rows: Sequence[Row]) -> dict[Cell, dict[str, Row]]:
    """{cell: {label: row}}, what was not measured included."""
    cells: dict[Cell, dict[str, Row]] = {}
    for row in rows:
        cells.setdefault(row.cell, {})[row.label] = row
    return cells


def ours(rows: Mapping[str, Row]) -> dict[str, float]:
    """The measured times of featherlane's methods in one cell, "auto" not among them."""
    return {
        label: float(row.ns_per_state)
        for label, row in rows.items()
        if row.backend == "featherlane" and row.method != "auto" and row.measured
    }


def verdict(rows: Sequence[Row]) -> str:
    """How far "auto" is from the best measured method."""
    worst, within, count = (0.0, "-"), 0, 0
    for cell, row in by_cell(rows).items():
        auto, others = row.get("auto"), ours(row)
        if auto is None or not auto.measured or not others:
            continue
        ratio = float(auto.ns_per_state) / min(others.values())
        worst = max(worst, (ratio, f"{cell.function}, {cell.links} x {cell.states}"))
        within, count = within + (ratio <= WITHIN), count + 1
    if not count:
        return '"auto" was not measured beside other methods'
    return (
        f'"auto" is within {WITHIN - 1:.0%} of the best method in {within} of {count} cells; '
        f"the worst: {worst[0]:.2f} times the best ({worst[1]})"
    )
