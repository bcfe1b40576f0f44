"""The results of a run as Markdown, beside its figures: `python -m suite.report CSV FOLDER`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from .cells import OURS, read
from .figures import draw_all
from .tables import Results, batches, latencies, name_of, peers, shares, speeds, starts

MACHINE = ("cpu", "cores", "vector_bits", "system")
VERSIONS = ("python", "numpy", "llvmlite", "featherlane", "commit", "date")
READ = """\
Made by `python benchmarks/suite/run.py`, see [benchmarks](../benchmarks/README.md). Times are
medians of some rounds in which all take turns, in ns per state. Answers of every cell were compared
with Pinocchio's Python API before and after timing (with ours in float64 where the CSV says so). A
cell is a number, `unsupported`, `failed` or `skipped`; why is told with each robot in
[{robots}]({robots}), and in the [CSV]({csv}), which has all columns: spread, errors, settings.
"""
SHARES = """\
Arithmetic instructions per second (a multiply-add is one), of the multiply-adds per second that
were measured / the time that reading and writing arrays as large takes, of the function's.
"""
STARTS = """\
With nothing compiled / from the cache on disk, in a process that has loaded the robot and nothing
of a compiler; and the most memory that the first process had.
"""


def write(data: Path, folder: Path) -> None:
    """NAME.md, NAME_robots.md and the figures of NAME.csv."""
    told, rows = read(data)
    results, name = Results(rows), data.stem
    folder.mkdir(parents=True, exist_ok=True)
    figures = draw_all(results, told, folder, name)
    summary = "\n\n".join(_summary(results, told, name, figures))
    (folder / f"{name}.md").write_text(summary + "\n")
    (folder / f"{name}_robots.md").write_text("\n\n".join(_robots(results, name)) + "\n")


def _summary(
    results: Results, told: Mapping[str, str], name: str, figures: Mapping[str, str]
) -> Iterator[str]:
    at = f"{results.at:,}"
    yield "# The benchmark suite: results"
    yield "\n".join(_facts(told))
    yield READ.format(robots=f"{name}_robots.md", csv=f"{name}.csv").strip()
    yield _count(results)
    for threads in results.threads:
        yield f"## Batch {at}, {threads} thread{'s' * (threads > 1)}"
        yield (
            "ns per state, `out=` given; in brackets how many times longer the fastest peer takes "
            "that computes in the same precision."
        )
        yield speeds(results, threads)
        if threads == 1:
            yield from (f"![{what}]({file})" for file, what in figures.items())
    yield f"## Shares of the machine's limits, batch {at}, 1 thread"
    yield SHARES.strip()
    yield shares(results)
    yield "## One state"
    yield "us per call from Python, with `out=` / with fresh results."
    yield latencies(results)
    yield "## The first result"
    yield STARTS.strip()
    yield starts(results)


def _facts(told: Mapping[str, str]) -> Iterator[str]:
    cpu, cores, bits, system = (told.get(key, "?") for key in MACHINE)
    yield f"{cpu}, {cores} cores, {bits}-bit vectors, {system}  "
    yield ", ".join(f"{key} {told.get(key, '?')}" for key in VERSIONS) + "  "
    rest = {k: v for k, v in told.items() if k not in (*MACHINE, *VERSIONS, "seed")}
    yield "  \n".join(f"{key}: {value}" for key, value in rest.items())


def _count(results: Results) -> str:
    measured = sum(row.measured for row in results.rows)
    words = dict.fromkeys(("unsupported", "failed", "skipped"), 0)
    for row in results.rows:
        if not row.measured:
            words[str(row.ns_per_state).split(":")[0]] += 1
    ours = sum(row.measured for row in results.rows if row.who == OURS)
    rest = ", ".join(f"{count:,} {word}" for word, count in words.items())
    return f"{len(results.rows):,} cells: {measured:,} figures ({ours:,} of them ours), {rest}."


def _robots(results: Results, name: str) -> Iterator[str]:
    yield "# The benchmark suite, robot by robot"
    yield (
        f"ns per state, batch {results.at:,} where nothing else is said; "
        f"the summary is in [{name}.md]({name}.md)."
    )
    for robot in results.robots:
        yield f"## {name_of(robot)} root"
        for threads in results.threads:
            yield peers(results, robot, threads)
        yield batches(results, robot)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("csv", type=Path)
    options.add_argument("folder", type=Path)
    args = options.parse_args()
    write(args.csv, args.folder)


if __name__ == "__main__":
    main()
