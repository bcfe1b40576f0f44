"""Does this GPU work, does it give the CPU's bits, and how fast is it, beside its bounds and peers?

Before, where no GPU is needed: `gpu_pack.py .gpu/pack`. Then `--smoke` tells in 60 seconds whether
anything works, and the scripts a, b and c measure for less than ten minutes each: a) the smoke
test, all bits, compile times; b) questions on which the design rests, rates, latencies, copies;
c) peers, partitions, links by groups, rollouts, the cost model of mappings. `--parts` names single
parts. Each part is a process of its own (`gpu_processes.py`): what fails, hangs or loses the GPU is
a row, and the rest goes on. Rows are written as they come, into NAME.csv of the folder --out, at
the end NAME.txt, a page. docs/dev/gpu_first_run.md says what to do. `--emulated` is a dry run: on
few states, in the emulator, and times mean nothing.

The package need not be installed: PYTHONPATH=. finds it in the root of a clone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gpu_frameworks
import gpu_links
import gpu_mappings
import gpu_partitions
import gpu_peers
import gpu_processes
import gpu_questions
import gpu_rates
import gpu_results
import gpu_smoke
import gpu_tools
from gpu_card import card
from gpu_cells import LEFT_OUT, Bench, Cell, print_rows
from gpu_pack import NAMES, ROBOTS
from gpu_processes import Process
from gpu_results import Results
from options import parser
from robots import machine_lines, say

DRY = "A dry run in the emulator, on few states: bits count, times mean nothing."
MARGIN = 0.93  # of the minutes of a script that its parts may take


class Part(NamedTuple):
    """Cells of one kind, and their share of the time. variables: of the process's environment;
    on_gpu: whether it needs one; warm: whether its times ask for clocks that have risen.
    """

    name: str
    share: float
    cells: Callable[[Bench], Iterator[Cell]]
    variables: tuple[tuple[str, str], ...] = ()
    on_gpu: bool = True
    warm: bool = True


OF_JAX = (("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),)  # ours are in the memory, too


def _form(name: str, share: float) -> Part:
    return Part(name, share, partial(gpu_smoke.form, name), warm=False)


def _peer(name: str, share: float) -> Part:
    return Part(name, share, partial(gpu_peers.peer, name), OF_JAX)


# Shares are generous where the emulator needs it: what a GPU leaves comes to the later parts
SMOKE = (
    Part("versions", 2, gpu_smoke.versions, on_gpu=False, warm=False),
    Part("device", 4, gpu_smoke.device),
    _form("lanes", 5),
    Part("graph", 16, gpu_smoke.graph, warm=False),
    Part("one call", 4, gpu_smoke.one_call),
    _form("pitch", 4),
    _form("scratch", 12),
    _form("teams", 8),
    _form("columns", 30),
    _form("plans", 20),
    _form("links", 45),
    Part("torch", 14, gpu_frameworks.torch, warm=False),
    Part("cupy", 8, gpu_frameworks.cupy, warm=False),
    Part("jax", 14, gpu_frameworks.jax, OF_JAX, warm=False),
)
BITS = (
    Part("bits", 200, gpu_rates.bits),
    Part("compiling", 40, gpu_rates.compiling, (("CUDA_CACHE_DISABLE", "1"),)),
    Part("races", 50, gpu_tools.races),
)
RATES = (
    Part("questions", 60, gpu_questions.answers),
    Part("rates", 260, gpu_rates.rates),
    Part("latency", 60, gpu_rates.latency),
    Part("copies", 120, gpu_rates.copies),
)
OTHERS = (
    Part("mappings", 80, gpu_mappings.times),
    Part("rollouts", 25, gpu_rates.rollouts),
    Part("memory", 90, gpu_tools.memory),
    Part("group links", 90, gpu_links.links),
    _peer("torch-loop", 30),
    _peer("mjx", 60),
    Part("grid-rbd", 130, gpu_peers.grid, OF_JAX),
    Part("partitions", 30, gpu_partitions.cells),
    Part("cpu", 30, gpu_rates.on_cpu),
)
ABOUT = SMOKE[:2]  # which each script tells
SCRIPTS = {"a": (*SMOKE, *BITS), "b": (*ABOUT, *RATES), "c": (*ABOUT, *OTHERS)}
PARTS = {part.name: part for part in (*SMOKE, *BITS, *RATES, *OTHERS)}


def timed(parts: Sequence[Part], seconds: float) -> Iterator[tuple[Part, float]]:
    """Yields each part and the seconds that it may take: its share of what is left, so that later
    parts have what earlier ones do not need.
    """
    end = time.monotonic() + seconds
    for k, part in enumerate(parts):
        shares = sum(x.share for x in parts[k:])
        yield part, max(end - time.monotonic(), 0.0) * part.share / shares


def run(parts: Sequence[Part], args: argparse.Namespace, results: Results, log: Path) -> None:
    """Measures all parts, each in a process of its own, which the next one stands by."""
    grace = min(gpu_processes.GRACE, 60 * args.minutes * (1 - MARGIN))
    with ExitStack() as stack:
        waiting = _processes(parts, args, log, stack)
        following = next(waiting)
        for part, seconds in timed(parts, 60 * args.minutes * MARGIN):
            process, following = following, next(waiting, following)
            say(f"\n{part.name}: {seconds:.0f} s")
            count = len(results.rows)
            for row in gpu_processes.rows(process, seconds, grace):
                results.add({"part": part.name, **row})
                say(gpu_results.text(results.rows[-1]))
            if len(results.rows) == count:
                told = f"{LEFT_OUT}: it has no cell here, or no time"
                results.add({"part": part.name, "value": told})
    for row in gpu_mappings.conclusions(results.rows):
        results.add({"part": "fit", **row})


def _processes(
    parts: Sequence[Part], args: argparse.Namespace, log: Path, stack: ExitStack
) -> Iterator[Process]:
    """Yields a process of each part, made when it is asked for. The stack ends them."""
    for part in parts:
        process = Process(_command(part, args), log)
        stack.callback(process.end)
        yield process


def _command(part: Part, args: argparse.Namespace) -> list[str]:
    """The command of a part, which begins when a line of its input says from which cell on."""
    call = [sys.executable, __file__, "--part", part.name]
    call += ["--pack", str(args.pack), "--robots", *args.robots]
    call += ["--functions", *args.functions] if args.functions else []
    return call + (["--emulated"] if args.emulated else [])


def run_part(part: Part, args: argparse.Namespace) -> None:
    """Measures one part in this process, when its input says so (`gpu_processes.Process.begin`)."""
    if not (words := sys.stdin.readline().split()):
        return  # nobody waits for it any more
    first, seconds = int(words[0]), float(words[1])
    os.environ.update(part.variables)
    os.environ.setdefault("CUDA_CACHE_MAXSIZE", str(4 << 30))  # for what other parts compiled
    functions = tuple(args.functions or ())
    gpu_peers.with_wheels(args.pack.parent)
    gpu = card(args.emulated or not part.on_gpu)
    # From here on: a driver that nobody uses takes seconds to begin
    deadline = time.monotonic() + seconds
    bench = Bench(gpu, args.pack, tuple(args.robots), functions, deadline)
    if part.warm:
        bench.gpu.warm()
    print_rows(part.cells(bench), bench, first)


def _options() -> argparse.ArgumentParser:
    options = parser(__doc__, robots=ROBOTS, functions=NAMES, minutes=10.0)
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--smoke", action="store_true", help="the smoke test, by default one minute")
    what.add_argument("--script", choices=SCRIPTS, help="a, b or c")
    what.add_argument("--parts", nargs="+", choices=PARTS, help="only these parts")
    what.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)  # in this process
    options.add_argument(
        "--out", type=Path, default=Path("gpu_results"), help="a folder (default: %(default)s)"
    )
    options.add_argument(
        "--pack", type=Path, default=Path(".gpu/pack"), help="of gpu_pack.py (default: %(default)s)"
    )
    options.add_argument("--emulated", action="store_true", help="a dry run in the emulator")
    options.set_defaults(minutes=None, functions=None)
    return options


def main() -> None:
    args = _options().parse_args()
    args.minutes = args.minutes or (1.0 if args.smoke else 10.0)
    if args.part:
        return run_part(PARTS[args.part], args)
    name = "smoke" if args.smoke else args.script or "parts"
    parts = SMOKE if args.smoke else SCRIPTS.get(name) or [PARTS[x] for x in args.parts]
    args.out.mkdir(parents=True, exist_ok=True)
    results = Results(args.out / f"{name}.csv")
    builds = [gpu_peers.build(args.pack.parent)] if _builds(parts, args) else []
    try:
        run(parts, args, results, args.out / f"{name}.log")
    finally:
        for process in builds:
            process.kill()
        results.close()
        title = [*machine_lines(), *([DRY] if args.emulated else [])]
        told = gpu_results.page("\n".join(title), results.rows)
        (args.out / f"{name}.txt").write_text(told)
    print(told)
    if any(map(gpu_results.is_bad, results.rows)):
        sys.exit("something differs from the CPU, or failed: see the lines with !")


def _builds(parts: Iterable[Part], args: argparse.Namespace) -> bool:
    """Whether grid-rbd has to be compiled meanwhile."""
    wheels = args.pack.parent / gpu_peers.WHEELS
    return any(part.name == "grid-rbd" for part in parts) and wheels.exists() and not args.emulated


if __name__ == "__main__":
    main()
