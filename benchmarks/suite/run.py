"""The benchmark suite: every function on many robots, batches and threads, beside its peers.

In a cell (robot, function, batch, dtype, threads) all who compute it take turns for some rounds;
figures are medians. Answers are compared with Pinocchio's before and after timing. Where there is
no figure, the cell says why: `unsupported`, `failed: why` or `skipped: why`. How long a function
takes until its first result, and how much memory, is measured in processes of their own. By default
a run takes about 25 minutes; --quick takes some seconds for each robot.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread means one, also for LAPACK's
sys.path.insert(0, str(Path(__file__).parents[1]))

from featherlane import cache
from featherlane.dynamics import Model
from featherlane.function import physical_cores
from suite.cells import (
    BATCHES,
    DTYPES,
    FAILED,
    FUNCTIONS,
    OURS,
    SKIPPED,
    Cell,
    Row,
    Writer,
    cells,
    facts,
)
from suite.limits import Limits
from suite.peers import PEERS
from suite.robots import DEFAULT, Robot, robot
from suite.start import CACHE, Start, apart, start
from suite.watch import environment, rows, without
from suite.worker import SEED, SILENT, Budget, Task

QUICK = {"batches": [1, 256], "robots": ["iiwa14", "hyq"], "minutes": 1.0}
QUICK_BUDGET = Budget(peer=5.0, heavy=5.0, step=60.0, cell=0.2, least=0.0005, rounds=3)
HEAVY = ("iiwa14", "hyq", "atlas")  # where peers are tried that take long to compile
HEAVY_SHARE = 0.25  # of the time
LIGHT_SHARE = 0.5  # of what is left; ours and first results need the rest
MEASURED = 3  # times, of what the machine does at most
COLD_LIMIT = 180.0  # seconds that compiling a function may take


Starts = dict[tuple[str, str], Start]  # by function and dtype
Hung = dict[str, str]  # peers that gave no answer about a robot, with what is said of them


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Run:
    """One run of the suite."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self._end = time.monotonic() + 60 * args.minutes
        self.robots = [robot(text, folder) for text in args.robots]
        self.threads = list(dict.fromkeys(physical_cores() if n == 0 else n for n in args.threads))
        self.known = _set_up(args.peers)
        say("measuring what the machine does at most")
        self.limits = _limits(self.threads, 1 if args.quick else MEASURED)

    def rows(self) -> Iterator[Row]:
        for k, which in enumerate(self.robots):
            begin = time.monotonic()
            late = "the time of the run was over" if begin > self._end else None
            why = f"{SKIPPED}{which.missing or late}"
            try:
                model = None if which.missing or late else which.model()
            except Exception as error:
                model, why = None, f"{FAILED}{type(error).__name__}: {error}"
            if model is None:
                for threads in self.threads:
                    yield from without(self.args.peers, self._cells(which, threads), why)
                continue
            say(f"{which.title}: compiling")
            yield from self._measured(which, k, self._starts(model))
            say(f"{which.title}: {time.monotonic() - begin:.0f} s")

    def _measured(self, which: Robot, done: int, starts: Starts) -> Iterator[Row]:
        """done: robots before this one."""
        hung: Hung = {}
        for n, threads in enumerate(self.threads):
            left = (len(self.robots) - done) * len(self.threads) - n
            for row in rows(self._task(which, threads, left, hung), say):
                if SILENT in str(row.ns_per_state):
                    hung[row.who] = str(row.ns_per_state)
                yield self._completed(row, starts)

    def _cells(self, which: Robot, threads: int) -> list[Cell]:
        functions = [FUNCTIONS[short] for short in self.args.functions]
        named = which.name, which.root
        return cells(*named, functions, self.args.batches, self.args.dtypes, threads)

    def _starts(self, model: Model) -> Starts:
        asked = [
            (FUNCTIONS[short], dtype) for dtype in self.args.dtypes for short in self.args.functions
        ]
        return {which: start(model, *which, self.folder, COLD_LIMIT) for which in asked}

    def _task(self, which: Robot, threads: int, left: int, hung: Hung) -> Task:
        asked = self._cells(which, threads)
        known = {(cell, who): why for cell in asked for who, why in self.known.items()}
        known |= {(cell, who): why for cell in asked for who, why in hung.items()}
        return Task(which, asked, self.args.peers, threads, self._budget(which, left), known)

    def _budget(self, which: Robot, left: int) -> Budget:
        """left: the workers that are still to come, this one included."""
        if self.args.quick:
            return QUICK_BUDGET
        seconds = max(20.0, (self._end - time.monotonic()) / left)
        heavy = [peer.name for peer in PEERS if peer.heavy and peer.name in self.args.peers]
        share = LIGHT_SHARE * seconds / max(1, len(self.args.peers) - len(heavy))
        if which.name not in self.args.heavy or not heavy:
            return Budget(share, 0.0)
        times = len(self.args.heavy) * len(self.threads) * len(heavy)
        more = HEAVY_SHARE * 60 * self.args.minutes / times
        return Budget(share, more)

    def _completed(self, row: Row, starts: Starts) -> Row:
        if row.who != OURS:
            return row
        begun = starts[row.function, row.dtype]
        row = row._replace(compile_s=begun.compile_s, warm_s=begun.warm_s, peak_mb=begun.peak_mb)
        return row if begun.counts is None else self.limits.completed(row, begun.counts)


def _limits(threads: Sequence[int], times: int) -> Limits:
    """The best of some measurements, each in a process of its own."""
    found = [apart(Limits.measured, (threads,), 60.0) for _ in range(times)]
    return reduce(Limits.best, [limits for limits in found if isinstance(limits, Limits)])


def _set_up(names: Sequence[str]) -> dict[str, str]:
    """Builds what peers share, and says why those that it fails for are not tried."""
    failed = {}
    for peer in PEERS:
        if peer.name in names and peer.missing() is None:
            say(f"setting up {peer.name}")
            try:
                peer.setup()
            except Exception as error:
                failed[peer.name] = f"{FAILED}{type(error).__name__}: {error}"
    return failed


def _versions(names: Sequence[str]) -> dict[str, str]:
    return {p.name: p.missing() or p.version() for p in PEERS if p.name in names}


def kernels(folder: Path) -> dict[str, str]:
    """The environment of a run: an empty cache, but for what peers have built before."""
    kept = cache.folder()
    if kept is not None:
        (kept / "peers").mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "peers").symlink_to((kept / "peers").resolve())
    return {CACHE: str(folder)}


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    told = f"of {' '.join(DEFAULT)} (default: all), chainN, or PATH; with :free or :fixed"
    options.add_argument("--robots", nargs="+", metavar="ROBOT[:ROOT]", help=told)
    options.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=list(FUNCTIONS))
    options.add_argument("--batches", type=int, nargs="+", help=f"default: {BATCHES}")
    options.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    told = "0: all cores (default: 1 0)"
    options.add_argument("--threads", type=int, nargs="+", default=[1, 0], help=told)
    names = [peer.name for peer in PEERS]
    told = f"of {', '.join(names)} (default: all; none: `--peers none`)"
    options.add_argument("--peers", nargs="+", choices=[*names, "none"], default=names, help=told)
    options.add_argument("--quick", action="store_true", help="few cells, to try it out")
    told = f"where peers are tried that compile for long (default: {' '.join(HEAVY)})"
    options.add_argument("--heavy", nargs="*", metavar="ROBOT", default=list(HEAVY), help=told)
    told = "of a run: peers get shares of it, and no robot begins after it (default: 25)"
    options.add_argument("--minutes", type=float, help=told)
    options.add_argument("--csv", type=Path, default=Path("suite.csv"))
    told = "where Markdown and figures go; without it there are none"
    options.add_argument("--out", type=Path, metavar="FOLDER", help=told)
    return options


def parsed(given: Sequence[str] | None) -> argparse.Namespace:
    args = _parser().parse_args(given)
    full = {"batches": list(BATCHES), "robots": list(DEFAULT), "minutes": 25.0}
    for name, value in (QUICK if args.quick else full).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    args.peers = [name for name in args.peers if name != "none"]
    return args


def main(given: Sequence[str] | None = None) -> None:
    args = parsed(given)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with environment(kernels(folder)):
            run = Run(args, folder)
            load = " ".join(f"{x:.1f}" for x in os.getloadavg())
            told = facts(seed=SEED, load_average=load, **_versions(args.peers), **run.limits.told())
            writer = Writer(args.csv, told)
            for row in run.rows():
                writer.write(row)
            writer.close()
    if args.out:
        from suite.report import write

        write(args.csv, args.out)


if __name__ == "__main__":
    main()
