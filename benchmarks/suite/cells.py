"""The cells of a run, and its results: a row for each cell and each who computes it."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.tools.bench import machine
from featherlane.tools.origin import UNKNOWN, of_checkout
from featherlane.tools.timing import SHORT

OURS = "featherlane"
NOTHING = "-"  # where a column has no meaning
UNSUPPORTED, FAILED, SKIPPED = "unsupported: ", "failed: ", "skipped: "
FUNCTIONS = {short: name for name, short in SHORT.items() if short != "diFD"}
BATCHES = (256, 4096, 1, 16, 32768, 262144)  # in the order in which they are measured
SUMMARY = 4096  # the batch of the summary
DTYPES = ("float64", "float32")


class Cell(NamedTuple):
    robot: str
    root: str
    function: str  # as `featherlane.FUNCTIONS` names it
    batch: int
    dtype: str
    threads: int

    @property
    def title(self) -> str:
        return f"{self.robot} {SHORT[self.function]} {self.dtype} x {self.batch}"


Figure = float | str


class Row(NamedTuple):
    """Where there is no figure, `ns_per_state` says why: `unsupported`, `failed` or `skipped`."""

    robot: str
    root: str
    function: str
    batch: int
    dtype: str
    threads: int
    who: str
    ns_per_state: Figure  # median of the rounds; a single state of ours: a call with `out=`
    spread: Figure = NOTHING  # (slowest - fastest round) / median
    times_ours: Figure = NOTHING  # of what ours takes in the same rounds
    error_before: Figure = NOTHING  # the largest of the checked states, relative to its state's
    error_after: Figure = NOTHING
    allowed: Figure = NOTHING  # the largest error of a right answer
    plain_call_ns: Figure = NOTHING  # a single state without `out=`
    compile_s: Figure = NOTHING  # until the first result, nothing compiled before
    warm_s: Figure = NOTHING  # until the first result, loaded from the disk
    peak_mb: Figure = NOTHING  # of the process that compiled it
    operations: Figure = NOTHING  # additions and multiplications of a state
    slots: Figure = NOTHING  # instructions of a state that could each be a multiply-add
    peak_share: Figure = NOTHING  # slots a second, of the measured multiply-adds a second
    bytes: Figure = NOTHING  # of a state's inputs and results
    bandwidth_share: Figure = NOTHING  # time that arrays as large take to read and write, of ours
    bound: str = NOTHING  # the nearer of the two
    settings: str = NOTHING
    note: str = NOTHING

    @property
    def cell(self) -> Cell:
        return Cell(*self[:6])

    @property
    def measured(self) -> bool:
        return not isinstance(self.ns_per_state, str)

    @property
    def seconds(self) -> float:
        """Of one call over the batch."""
        return float(self.ns_per_state) * self.batch * 1e-9


TEXT = {"robot", "root", "function", "dtype", "who", "bound", "settings", "note"}
WHOLE = {"batch", "threads"}


def cells(
    robot: str,
    root: str,
    functions: Iterable[str],
    batches: Iterable[int],
    dtypes: Iterable[str],
    threads: int,
) -> list[Cell]:
    """What matters most comes first: the rest is what a budget may leave out. Before the batch of
    the summary comes a small one, which tells who would take too long there.
    """
    order = {batch: k for k, batch in enumerate(BATCHES)}
    ordered = sorted(batches, key=lambda batch: order.get(batch, len(order)))
    return [
        Cell(robot, root, name, batch, dtype, threads)
        for batch in ordered
        for dtype in dtypes
        for name in functions
    ]


def in_summary(batches: Iterable[int]) -> int:
    """The batch that the summary shows, of those that are measured."""
    given = set(batches)
    return SUMMARY if SUMMARY in given else max(given)


# Files


def facts(**more: Any) -> dict[str, str]:
    """What the figures belong to."""
    here = machine()
    if here["commit"] == UNKNOWN:  # the package is installed, and this folder is a checkout
        here["commit"] = of_checkout(Path(__file__).parent)
    told = {"date": datetime.date.today().isoformat(), **here, **more}
    return {name: str(value) for name, value in told.items()}


class Writer:
    """A CSV file that is complete after each row."""

    fields: tuple[str, ...] = Row._fields

    def __init__(self, path: Path, told: Mapping[str, str]) -> None:
        self._file = path.open("w", newline="")
        self._file.writelines(f"# {name}: {value}\n" for name, value in told.items())
        self._rows = csv.writer(self._file)
        self._rows.writerow(self.fields)

    def write(self, row: Iterable[Any]) -> None:
        self._rows.writerow(_short(x) for x in row)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _short(x: Any) -> Any:
    return f"{x:.4g}" if isinstance(x, float) else " ".join(x.split()) if isinstance(x, str) else x


def _value(field: str, text: str) -> Any:
    if field in WHOLE:
        return int(text)
    try:
        return text if field in TEXT else float(text)
    except ValueError:
        return text


def _rows(lines: Iterable[str]) -> Iterator[Row]:
    for given in csv.DictReader(lines):
        yield Row(**{field: _value(field, text) for field, text in given.items()})


def read(path: Path) -> tuple[dict[str, str], list[Row]]:
    """The facts and the rows of a file."""
    lines = path.read_text().splitlines()
    told = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    return told, list(_rows(line for line in lines if not line.startswith("# ")))


def by_cell(rows: Iterable[Row]) -> dict[Cell, dict[str, Row]]:
    """{cell: {who: row}}, what was not measured included."""
    found: dict[Cell, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.cell, {})[row.who] = row
    return found
