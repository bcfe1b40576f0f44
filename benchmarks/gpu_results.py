"""Results of a GPU: a CSV that grows row by row, and a page of text that says what they come to."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from gpu_cells import DIFFERENT, FAILED, LEFT_OUT, SAME, Row
from robots import SHORT
from suite.tables import table

COLUMNS = (
    "part",
    "robot",
    "function",
    "dtype",
    "mapping",
    "batch",
    "who",
    "question",
    "value",
    "seconds",
    "plain_seconds",
    "states_per_second",
    "share_of_arithmetic",
    "share_of_memory",
    "bytes_a_state",
    "compiled_seconds",
    "kernels",
    "registers",
    "local_bytes",
    "code_kB",
    "warps",
    "bytes_per_second",
    "operations_per_second",
    "path",
    "total",
    "launches",
    "multiprocessors",
    "cycles",
)
MOST_LINES = 8  # of failures of a part on the page
# States a second that were expected of an H100, float32, arrays that stay there, 65,536 states, of
# derivatives of forward dynamics (docs/dev/gpu_first_run.md)
EXPECTED = {"iiwa14": 2000e6, "hyq:free": 135e6, "atlas:free": 29e6, "g1:free": 31e6}
NUMBERS = COLUMNS[COLUMNS.index("seconds") :]


class Results:
    """The rows of a run, each in the CSV as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self.rows = list[Row]()
        self._file: IO[str] = path.open("w", newline="")
        self._writer = csv.DictWriter(self._file, COLUMNS)
        self._writer.writeheader()

    def add(self, row: Row) -> None:
        """Writes a row. Figures without a column of their own go into `value`."""
        others = [f"{x} {row[x]}" for x in row if x not in COLUMNS]
        value = "; ".join(filter(None, (str(row.get("value", "")), *others)))
        row = {x: row[x] for x in COLUMNS if x in row} | ({"value": value} if value else {})
        self.rows.append(row)
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(paths: Iterable[Path]) -> list[Row]:
    """The rows of CSV files; numbers as such."""
    rows = []
    for path in paths:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                told = {x: y for x, y in row.items() if y}
                for x in (*NUMBERS, "batch"):
                    if x in told:
                        told[x] = float(told[x]) if x != "batch" else int(told[x])
                rows.append(told)
    return rows


def text(row: Row) -> str:
    """A row as a line; figures have the names of their columns."""
    words = {x: f"{x} " if x in NUMBERS else "" for x in row}
    return "  ".join(words[x] + _shown(row[x]) for x in COLUMNS if x in row)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def page(title: str, rows: Sequence[Row]) -> str:
    """What the rows come to: each part in a line, then what failed, then the main figures."""
    parts = list(dict.fromkeys(row["part"] for row in rows))
    lines = [title, "", *_summary(parts, rows)]
    for lines_of in (_devices, _rates, _latencies, _others):
        if found := lines_of(rows):
            lines += ["", *found]
    return "\n".join(lines) + "\n"


def _summary(parts: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """How many rows of each part are the same, differ, failed, were left out; and the worst."""
    kinds = (SAME, DIFFERENT, FAILED, LEFT_OUT)
    counted = []
    for part in parts:
        values = [str(row.get("value", "")) for row in rows if row["part"] == part]
        counts = [sum(x.startswith(kind) for x in values) for kind in kinds]
        counted.append([part, *map(str, (len(values), *counts))])
    yield table(["part", "rows", *kinds], counted)
    for part in parts:
        bad = [x for x in rows if x["part"] == part and is_bad(x)]
        first = {x["value"]: x for x in reversed(bad)}  # of each kind
        for row in [*reversed(first.values())][:MOST_LINES]:
            yield "! " + text(row)[:240]
        if len(bad) > min(len(first), MOST_LINES):
            yield f"! {part}: {len(bad) - min(len(first), MOST_LINES)} more"


def is_bad(row: Row) -> bool:
    """Whether a row says that something differs or failed."""
    return str(row.get("value", "")).startswith((DIFFERENT, FAILED))


def _devices(rows: Sequence[Row]) -> list[str]:
    facts = [x for x in rows if str(x.get("question", "")).startswith(("device: ", "version of "))]
    told = [f"{x['question'].split(' ')[-1]} {x.get('value', '')}" for x in facts]
    return [", ".join(told)] if told else []


def _rates(rows: Sequence[Row]) -> list[str]:
    """Millions of states a second of the largest batch of the most robots, by dtype."""
    rates = [x for x in rows if x["part"] == "rates" and "states_per_second" in x]
    if not rates:
        return []
    batch = rates[0]["batch"]  # the first one is the one that goals are stated for
    lines = []
    for dtype in dict.fromkeys(x["dtype"] for x in rates):
        own = [x for x in rates if (x["batch"], x["dtype"]) == (batch, dtype)]
        lines += [f"M states/s, {batch:,} states, {dtype}, resident", _by_robot(own, _millions), ""]
    lines.append("dFD as a multiple of what was expected of an H100: " + _beside_expected(rates))
    return lines


def _millions(row: Row) -> str:
    return f"{row['states_per_second'] / 1e6:.4g}"


def _beside_expected(rates: Sequence[Row]) -> str:
    found = {
        x["robot"]: x["states_per_second"]
        for x in rates
        if x["function"] == "forward_dynamics_derivatives"
        if (x["batch"], x["dtype"]) == (65_536, "float32")
    }
    return ", ".join(f"{x} {y / EXPECTED[x]:.2f}" for x, y in found.items() if x in EXPECTED)


def _by_robot(rows: Sequence[Row], shown: Any) -> str:
    """A table with a line for each robot and a column for each function."""
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        cells[row["robot"]].setdefault(SHORT.get(row["function"], row["function"]), shown(row))
    columns = list(dict.fromkeys(x for each in cells.values() for x in each))
    return table(
        ["robot", *columns], [[x, *(y.get(c, "") for c in columns)] for x, y in cells.items()]
    )


def _latencies(rows: Sequence[Row]) -> list[str]:
    """Microseconds of one state, by the fastest mapping."""
    own = [x for x in rows if x["part"] == "latency" and x.get("batch") == 1 and "seconds" in x]
    own.sort(key=lambda row: row["seconds"])
    shown = lambda row: f"{row['seconds'] * 1e6:.3g} {row['mapping']}"
    return ["us of one state in a CUDA graph", _by_robot(own, shown)] if own else []


def _others(rows: Sequence[Row]) -> list[str]:
    """Answers to questions, and peers, as they are."""
    parts = ("questions", "fit", "grid-rbd", "mjx", "torch-loop", "partitions", "memory")
    return [text(x)[:160] for x in rows if x["part"] in parts and not is_bad(x)][:60]
