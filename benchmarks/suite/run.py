"""The benchmark suite: every function on many robots, batches and threads, beside its peers.

In a cell (robot, function, batch, dtype, threads) all who compute it take turns for some rounds;
figures are medians. Answers are compared with Pinocchio's before and after timing. Where there is
no figure, the cell says why: `unsupported`, `failed: why` or `skipped: why`. How long a function
takes until its first result, and how much memory, is measured in processes of their own. By default
a run takes at most about 25 minutes, behind some that build the loops of peers for the first time;
--quick takes some seconds for each robot and builds nothing. What is measured is in the file at
once; `python -m suite.report CSV FOLDER` draws it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread means one, also for LAPACK's
sys.path.insert(0, str(Path(__file__).parents[1]))

from options import parser

from featherlane.api.model import Model
from featherlane.backends import cache
from featherlane.backends.cores import physical_cores
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
    in_summary,
)
from suite.clock import Clock, part, weight
from suite.limits import Limits
from suite.peers import PEERS, Peer
from suite.robots import DEFAULT, Robot, robot
from suite.start import CACHE, Apart, Starts, starts
from suite.watch import environment, rows, without
from suite.worker import SEED, SILENT, Budget, Task

HEAVY = ("iiwa14", "hyq", "atlas")  # where peers are tried that take long to compile
FULL = {
    "batch": list(BATCHES),
    "robots": list(DEFAULT),
    "heavy": list(HEAVY),
    "minutes": 23.0,
}
QUICK = {"batch": [1, 256], "robots": ["iiwa14", "hyq"], "heavy": [], "minutes": 1.0}
QUICK_BUDGET = Budget(peer=5.0, cell=0.2, least=0.0005, rounds=3)
STARTS_SHARE = 0.4  # of a robot's time at most
FIRST_SHARE = 0.6  # of a part of it, for the first number of threads; the others take the rest
LIGHT_SHARE = 0.6  # of what first results leave, for peers that need not compile
PEER_SHARE = 1.5  # of an equal share for each peer: some need less
LIMITS_LIMIT = 120.0  # seconds that measuring the machine may take
QUICKLY = f"{SKIPPED}not built yet: a run without --quick builds it"

FOR_EACH = f"{SKIPPED}compiles for each batch, tried at that of the summary only"
UNASKED = f"{SKIPPED}takes long to compile, see --heavy"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Run:
    """One run of the suite."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.robots = [robot(text, folder) for text in args.robots]
        self.threads = list(dict.fromkeys(physical_cores() if n == 0 else n for n in args.threads))
        self.light, self.heavy = (_named(args.peers, heavy) for heavy in (False, True))
        self.at = in_summary(args.batch)
        self.hung: dict[tuple[str, str], str] = {}  # by robot and who: no answer
        self.known = _not_built(args.peers) if args.quick else _set_up(args.peers)
        say("measuring what the machine does at most")
        self.limits = _limits(self.threads)

    def rows(self) -> Iterator[Row]:
        models = [_loaded(which) for which in self.robots]
        sizes = list(map(self._weight, self.robots, models))
        clock = Clock(60 * self.args.minutes, sizes)
        for k, (which, model) in enumerate(zip(self.robots, models, strict=True)):
            say(f"{clock.told(k)}: {which.title}")
            if isinstance(model, str):
                for threads in self.threads:
                    yield from without(self.args.peers, self._cells(which, threads), model)
            else:
                yield from self._measured(which, model, clock.until(k))

    def _weight(self, which: Robot, model: Model | str) -> float:
        return 0.0 if isinstance(model, str) else weight(model, self._compiling(which))

    def _compiling(self, which: Robot) -> bool:
        """Whether peers are tried that compile for long."""
        return which.name in self.args.heavy and bool(self.heavy)

    def _measured(self, which: Robot, model: Model, until: float) -> Iterator[Row]:
        """until: when its time is over, but for what has begun, and for ours."""
        end = float("inf") if self.args.quick else until
        names = [FUNCTIONS[short] for short in self.args.functions]
        begun = starts(model, names, self.args.dtype, self.folder, part(end, STARTS_SHARE))
        for row in self._light_rows(which, end):
            yield self._completed(row, begun)
        yield from self._heavy_rows(which, end)

    def _light_rows(self, which: Robot, end: float) -> Iterator[Row]:
        """Ours, and peers that need not compile for long."""
        share = LIGHT_SHARE if self._compiling(which) else 1.0
        for threads, mine in self._in_turn():
            yield from self._rows(which, self._cells(which, threads), self.light, end, share * mine)

    def _heavy_rows(self, which: Robot, end: float) -> Iterator[Row]:
        """The others, at the batch of the summary and in what time is left."""
        for threads, mine in self._in_turn():
            asked = self._cells(which, threads)
            tried = [cell for cell in asked if cell.batch == self.at]
            others = [cell for cell in asked if cell.batch != self.at]
            yield from without(self.heavy, others, FOR_EACH, ours=False)
            if not self._compiling(which):
                yield from without(self.heavy, tried, UNASKED, ours=False)
                continue
            for row in self._rows(which, tried, self.heavy, end, mine):
                if row.who != OURS:  # which was there for the ratio
                    yield row

    def _in_turn(self) -> Iterator[tuple[int, float]]:
        """Numbers of threads, and what each may take of the time that those before have left."""
        for n, threads in enumerate(self.threads):
            yield threads, 1.0 if n == len(self.threads) - 1 else FIRST_SHARE

    def _cells(self, which: Robot, threads: int) -> list[Cell]:
        functions = [FUNCTIONS[short] for short in self.args.functions]
        named = which.name, which.root
        return cells(*named, functions, self.args.batch, self.args.dtype, threads)

    def _rows(
        self, which: Robot, asked: list[Cell], peers: list[str], end: float, share: float
    ) -> Iterator[Row]:
        """Of ours and these peers, which may take a share of the time up to the end."""
        silent = {who: why for (title, who), why in self.hung.items() if title == which.title}
        told = {**self.known, **silent}
        known = {(cell, who): why for cell in asked for who, why in told.items()}
        budget = QUICK_BUDGET if self.args.quick else _budget(part(end, share), len(peers))
        task = Task(which, asked, peers, asked[0].threads, self.at, budget, known)
        for row in rows(task, say):
            if SILENT in str(row.ns_per_state):
                self.hung[which.title, row.who] = str(row.ns_per_state)
            yield row

    def _completed(self, row: Row, starts: Starts) -> Row:
        if row.who != OURS:
            return row
        begun = starts[row.function, row.dtype]
        row = row._replace(compile_s=begun.compile_s, warm_s=begun.warm_s, peak_mb=begun.peak_mb)
        return row if begun.counts is None else self.limits.completed(row, begun.counts)


def _loaded(which: Robot) -> Model | str:
    """Its model, or what its cells say instead."""
    if which.missing:
        return SKIPPED + which.missing
    try:
        return which.model()
    except Exception as error:
        return f"{FAILED}{type(error).__name__}: {error}"


def _named(names: Sequence[str], heavy: bool) -> list[str]:
    """The peers of these names that have to compile for long, or the others."""
    return [peer.name for peer in PEERS if peer.name in names and peer.heavy == heavy]


def _budget(until: float, peers: int) -> Budget:
    each = max(0.0, until - time.monotonic()) / max(1, peers)
    return Budget(PEER_SHARE * each, until)


def _limits(threads: Sequence[int]) -> Limits:
    """Measured in a process of its own, which keeps nothing of it."""
    why = f"not done in {LIMITS_LIMIT:.0f} s"
    found = Apart(Limits.measured, (threads,)).result(time.monotonic() + LIMITS_LIMIT, why)
    if not isinstance(found, Limits):
        raise RuntimeError(f"measuring what the machine does at most: {found}")
    return found


def _to_build(names: Sequence[str]) -> list[Peer]:
    there = [peer for peer in PEERS if peer.name in names and peer.missing() is None]
    return [peer for peer in there if not peer.built()]


def _not_built(names: Sequence[str]) -> dict[str, str]:
    return {peer.name: QUICKLY for peer in _to_build(names)}


def _set_up(names: Sequence[str]) -> dict[str, str]:
    """Builds what peers share, and says why those that it fails for are not tried."""

    def built(peer: Peer) -> str | None:
        say(f"building {peer.name}")
        try:
            peer.setup()
        except Exception as error:
            return f"{FAILED}{type(error).__name__}: {error}"
        return None

    peers = _to_build(names)
    with ThreadPoolExecutor(physical_cores()) as pool:
        told = zip(peers, pool.map(built, peers), strict=True)
        return {peer.name: why for peer, why in told if why is not None}


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
    which = {"robots": (), "functions": tuple(FUNCTIONS), "batch": (), "dtype": DTYPES}
    rest = {"threads": (1, 0), "minutes": None, "quick": False, "csv": Path("suite.csv")}
    options = parser(__doc__, **which, **rest)
    options.epilog = f"Without options: {FULL}. With --quick: {QUICK}."
    names = [peer.name for peer in PEERS]
    told = f"of {', '.join(names)} (default: all; none: `--peers none`)"
    options.add_argument("--peers", nargs="+", choices=[*names, "none"], default=names, help=told)
    told = f"where peers are tried that compile for long (default: {' '.join(HEAVY)}; quick: none)"
    options.add_argument("--heavy", nargs="*", metavar="ROBOT", help=told)
    told = "where Markdown and figures go; without it there are none"
    options.add_argument("--out", type=Path, metavar="FOLDER", help=told)
    return options


def parsed(given: Sequence[str] | None) -> argparse.Namespace:
    args = _parser().parse_args(given)
    for name, value in (QUICK if args.quick else FULL).items():
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
            try:
                for row in run.rows():
                    writer.write(row)
            except KeyboardInterrupt:
                say(f"interrupted: {args.csv} has what was measured")
            writer.close()
    if args.out:
        from suite.report import write

        write(args.csv, args.out)


if __name__ == "__main__":
    main()
