"""Tables of a run in Markdown: the summary of all robots, and each robot by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .cells import DTYPES, FUNCTIONS, OURS, Row, in_summary


class Results:
    """The rows of a run by what they are asked for."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._by = {(*row.cell, row.who): row for row in self.rows}
        self.robots = _once((row.robot, row.root) for row in self.rows)
        self.functions = [f for f in FUNCTIONS.values() if any(r.function == f for r in self.rows)]
        self.batches = sorted({row.batch for row in self.rows})
        self.dtypes = [dtype for dtype in DTYPES if any(r.dtype == dtype for r in self.rows)]
        self.threads = sorted({row.threads for row in self.rows})
        self.peers = [who for who in _once(row.who for row in self.rows) if who != OURS]
        self.at = in_summary(self.batches)

    def row(
        self, robot: tuple[str, str], name: str, batch: int, dtype: str, threads: int, who: str
    ) -> Row | None:
        return self._by.get((*robot, name, batch, dtype, threads, who))

    def best_peer(
        self,
        robot: tuple[str, str],
        name: str,
        batch: int,
        dtype: str,
        threads: int,
        among: Sequence[str] | None = None,
    ) -> Row | None:
        """The fastest one that computes the same in the same precision."""
        peers = self.peers if among is None else among
        rows = (self.row(robot, name, batch, dtype, threads, who) for who in peers)
        return min((r for r in rows if r and r.measured), key=_ns, default=None)


def _once(items: Iterable) -> list:
    return list(dict.fromkeys(items))


def _ns(row: Row) -> float:
    return float(row.ns_per_state)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [
        [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [padded[0], rule, *padded[1:]])


# Words


def digits(x: float) -> str:
    """Three of them, or all before the point."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def ratio(longer: Row, row: Row) -> str:
    """How many times as long something takes."""
    times = _ns(longer) / _ns(row)
    return f"{times:.{1 if times < 10 else 0}f}"


def kind(row: Row) -> str:
    """What a row without a figure says, in a word."""
    return str(row.ns_per_state).split(":")[0]


def figure(row: Row | None, show: Callable[[Row], str] = lambda row: digits(_ns(row))) -> str:
    if row is None:
        return "not asked for"
    return show(row) if row.measured else kind(row)


def share(x: object) -> str:
    return f"{x:.0%}" if isinstance(x, float) else "-"


def name_of(robot: tuple[str, str]) -> str:
    return f"{robot[0]}, {robot[1]}"


def shorts(results: Results) -> list[str]:
    return [short for short, name in FUNCTIONS.items() if name in results.functions]


# The summary


def speeds(results: Results, threads: int) -> str:
    """Ours, and how many times longer the fastest peer takes that computes in the same dtype."""

    def cell(robot: tuple[str, str], name: str, dtype: str) -> str:
        key = robot, name, results.at, dtype, threads
        ours, best = results.row(*key, OURS), results.best_peer(*key)
        if ours is None or not ours.measured or best is None:
            return figure(ours)
        return f"{digits(_ns(ours))} ({ratio(best, ours)}x)"

    return _by_robot(results, cell)


def shares(results: Results) -> str:
    def cell(robot: tuple[str, str], name: str, dtype: str) -> str:
        ours = results.row(robot, name, results.at, dtype, 1, OURS)
        return figure(ours, lambda r: f"{share(r.peak_share)} / {share(r.bandwidth_share)}")

    return _by_robot(results, cell)


def starts(results: Results) -> str:
    def cell(robot: tuple[str, str], name: str, dtype: str) -> str:
        ours = results.row(robot, name, results.at, dtype, 1, OURS)
        if ours is None or isinstance(ours.compile_s, str):
            return figure(None) if ours is None else str(ours.compile_s).split(":")[0]
        warm = f"{float(ours.warm_s) * 1e3:.0f}" if not isinstance(ours.warm_s, str) else "-"
        return f"{ours.compile_s:.2g} s / {warm} ms / {float(ours.peak_mb):.0f} MB"

    return _by_robot(results, cell)


def latencies(results: Results) -> str:
    def cell(robot: tuple[str, str], name: str, dtype: str) -> str:
        def show(row: Row) -> str:
            plain = "-" if isinstance(row.plain_call_ns, str) else f"{row.plain_call_ns / 1e3:.2f}"
            return f"{_ns(row) / 1e3:.2f} / {plain}"

        return figure(results.row(robot, name, 1, dtype, 1, OURS), show)

    return _by_robot(results, cell)


def _by_robot(results: Results, cell: Callable[[tuple[str, str], str, str], str]) -> str:
    rows = [
        [f"{name_of(robot)}, {dtype}", *(cell(robot, name, dtype) for name in results.functions)]
        for robot in results.robots
        for dtype in results.dtypes
    ]
    return table(["robot, root, dtype", *shorts(results)], rows)


# One robot


def peers(results: Results, robot: tuple[str, str], threads: int) -> str:
    """Everyone at the batch of the summary who has a figure there, and why others have none."""
    reasons: dict[str, dict[str, None]] = {}
    lines = []
    for dtype in results.dtypes:
        for who in (OURS, *results.peers):
            key = (results.at, dtype, threads, who)
            found = [results.row(robot, name, *key) for name in results.functions]
            for row in found:
                if row is not None and not row.measured:
                    reasons.setdefault(str(row.ns_per_state), {})[f"{who} ({dtype})"] = None
            if any(row is not None and row.measured for row in found):
                lines.append([f"{who}, {dtype}", *map(figure, found)])
    words = "ns per state, 1 thread" if threads == 1 else f"ns per state, {threads} threads"
    told = "\n".join(f"- {why}: {', '.join(who)}" for why, who in reasons.items())
    return "\n\n".join([table([words, *shorts(results)], lines), told]).strip()


def batches(results: Results, robot: tuple[str, str]) -> str:
    """Ours over the batch, on one thread / on as many as pay."""

    def cell(name: str, batch: int, dtype: str) -> str:
        told = [figure(results.row(robot, name, batch, dtype, n, OURS)) for n in results.threads]
        return told[0] if len(set(told)) == 1 or batch == 1 else " / ".join(told)

    rows = [
        [f"{batch:,}, {dtype}", *(cell(name, batch, dtype) for name in results.functions)]
        for dtype in results.dtypes
        for batch in results.batches
    ]
    threads = " / ".join(map(str, results.threads))
    return table([f"featherlane, {threads} threads", *shorts(results)], rows)
