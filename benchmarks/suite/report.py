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
This page gives the time of six functions of rigid-body dynamics on several robots, for featherlane
and for other libraries, its peers: inverse dynamics (ID), forward dynamics (FD), the mass matrix
(M) and its inverse (Minv), and the derivatives of both dynamics (dID, dFD).

Times are in ns per state, as medians of several rounds in which featherlane and its peers
alternate. The results of every cell were compared with Pinocchio's Python API before and after
timing (where the CSV says so, with featherlane's results in float64). A cell contains a number,
`unsupported`, `failed` or `skipped`. The reasons are listed with each robot in [robot by
robot]({robots}) and in the [CSV]({csv}), which also has the spread, errors and settings.
`python benchmarks/suite/run.py` repeats all measurements ([benchmarks](../benchmarks/README.md)).
"""
SHARES = """\
The first number is the arithmetic instructions per second (a multiply-add is one instruction) as a
share of the measured multiply-adds per second. The second is the time in which arrays of this size
can be read and written as a share of the function's time.
"""
STARTS = """\
The table gives the time to the first result with an empty cache / with compiled code in the cache
on disk / the peak memory of the process with the empty cache. Both processes have loaded the robot
beforehand, but no part of the compiler.
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
    yield READ.format(robots=f"{name}_robots.md", csv=f"{name}.csv").strip()
    yield f"{_measured_on(told)} {_count(results)}"
    yield from (f"![{what}]({file})" for file, what in figures.items())
    for threads in results.threads:
        yield f"## Batch {at}, {threads} thread{'s' * (threads > 1)}"
        yield (
            "The table gives ns per state with `out=`, and in brackets the time of the fastest "
            "peer in the same precision as a multiple of featherlane's."
        )
        yield speeds(results, threads)
    yield f"## Shares of the machine's limits, batch {at}, 1 thread"
    yield SHARES.strip()
    yield shares(results)
    yield "## One state"
    yield "The table gives us per call from Python, with `out=` / without it."
    yield latencies(results)
    yield "## The first result"
    yield STARTS.strip()
    yield starts(results)
    yield "## The machine and the versions"
    yield "\n".join(["| fact | value |", "|---|---|", *_facts(told)])


def _measured_on(told: Mapping[str, str]) -> str:
    cpu, cores, bits, system = (told.get(key, "?") for key in MACHINE)
    versions = ", ".join(f"{key} {told.get(key, '?')}" for key in VERSIONS)
    return f"Measured on {cpu}, {cores} cores, {bits}-bit vectors, {system}: {versions}."


def _facts(told: Mapping[str, str]) -> Iterator[str]:
    """Rows of a table: the versions of the peers, and what the machine can do at best."""
    rest = {k: v for k, v in told.items() if k not in (*MACHINE, *VERSIONS, "seed")}
    yield from (f"| {key.replace('_', ' ')} | {value} |" for key, value in rest.items())


def _count(results: Results) -> str:
    measured = sum(row.measured for row in results.rows)
    words = dict.fromkeys(("unsupported", "failed", "skipped"), 0)
    for row in results.rows:
        if not row.measured:
            words[str(row.ns_per_state).split(":")[0]] += 1
    ours = sum(row.measured for row in results.rows if row.who == OURS)
    rest = ", ".join(f"{count:,} {word}" for word, count in words.items())
    return f"{len(results.rows):,} cells: {measured:,} figures ({ours:,} from featherlane), {rest}."


def _robots(results: Results, name: str) -> Iterator[str]:
    yield "# The benchmark suite, robot by robot"
    yield (
        f"The tables show ns per state in batches of {results.at:,} states unless they say "
        f"otherwise. The summary is in [{name}.md]({name}.md)."
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
