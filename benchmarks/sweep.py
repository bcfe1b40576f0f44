"""Every robot of example-robot-data and every bundled one against Pinocchio, into docs/accuracy.md.

    python benchmarks/sweep.py                     all of it: about half an hour on two cores
    python benchmarks/sweep.py --robots ur5 --states 10 --no-write

Each URDF with a fixed and a free root, all seven functions: in float64 without and with external
forces (in world axes; tests/test_against_pinocchio.py takes both frames) up to MANY degrees of
freedom, in float32 without.
Functions of more than COMPILED operations are evaluated by the reference interpreter, which gives
the same bits as compiled code (tests/test_backend.py) and needs no minutes of compiling.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl
from featherlane import algorithms
from featherlane.backends import reference
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import input_shapes
from featherlane.program.lower import lower
from featherlane.robot.loaders import xml_text
from featherlane.tools.check import CheckReport, check, comparable, random_states
from featherlane.tools.peers import Pinocchio

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
BEGIN, END = "<!-- sweep: written by benchmarks/sweep.py -->", "<!-- end of sweep -->"
ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
ROOTS = ("fixed", "free")
FRAMES = {"float64": (None, "world"), "float32": (None,)}  # of f_ext, by dtype
MANY = 30  # degrees of freedom above which f_ext is left out: the graphs take minutes
COMPILED = 500
EXTENDED = (("double_pendulum", "free"), ("mobile_arm", "fixed"), ("panda", "free"))
SHORT = {
    "inverse_dynamics": "ID",
    "forward_dynamics": "FD",
    "mass_matrix": "M",
    "mass_matrix_inverse": "M⁻¹",
    "inverse_dynamics_derivatives": "dID",
    "forward_dynamics_derivatives": "dFD",
    "forward_dynamics_derivatives_from": "diFD",
}


class Job(NamedTuple):
    name: str
    source: str
    root: str
    states: int


class Result(NamedTuple):
    job: Job
    nv: int
    reports: dict[str, CheckReport]  # by dtype
    as_printed: CheckReport | None  # float64, where the file's rounding of right angles tells
    refusal: str  # why there are none
    seconds: float


def urdfs() -> Iterator[tuple[str, str]]:
    """Name and path of the URDF files of the installed example-robot-data, and bundled names."""
    for name in fl.bundled():
        yield f"(bundled) {name}", name
    try:
        folder = Path(str(distribution("example-robot-data").locate_file(ROBOTS)))
    except PackageNotFoundError:
        sys.exit("example-robot-data is not installed: pip install 'featherlane[test]'")
    for path in sorted(folder.rglob("*.urdf")):
        yield f"{path.relative_to(folder).parts[0].split('_description')[0]}/{path.stem}", str(path)


def evaluate(model: Any, name: str, frame: str | None, inputs: Sequence[np.ndarray]) -> Any:
    """A dynamics function, compiled if it is small and interpreted if it is large."""
    if model.graph(name, frame).cost().operations <= COMPILED:
        return model.function(name, frame)(*inputs)
    variant, dtype = Variant(name, frame), inputs[0].dtype
    named = dict(zip(input_shapes(model, variant), inputs, strict=True))
    return tuple(reference.evaluate(lowered(model, variant, dtype), named, dtype).values())


@lru_cache(maxsize=8)
def lowered(model: Any, variant: Variant, dtype: np.dtype) -> Any:
    return lower(program(model, variant), "cpu", dtype)


program = lru_cache(maxsize=16)(dynamics_program)


def measure(job: Job) -> Result:
    start = time.perf_counter()
    nv, reports, as_printed, refusal = 0, {}, None, ""
    try:
        nv = fl.load(job.source, root=job.root).nv
        if not nv:
            raise RuntimeError("no moving joint")
        for dtype, frames in FRAMES.items():
            reports[dtype] = check(
                job.source,
                job.root,
                states=job.states,
                dtype=dtype,
                f_ext=frames if nv <= MANY else (None,),
                evaluate=evaluate,
            )
        if reports["float64"].adjusted and nv <= MANY:
            as_printed = check(
                job.source,
                job.root,
                states=job.states,
                f_ext=(None,),
                same_angles=False,
                evaluate=evaluate,
            )
    except (fl.ModelError, RuntimeError) as error:
        refusal = " ".join(str(error).split()).replace(job.source, Path(job.source).name)
    return Result(job, nv, reports, as_printed, refusal, time.perf_counter() - start)


def number(x: float | None) -> str:
    return "–" if x is None else f"{x:.1e}".replace("e-0", "e-").replace("e+0", "e")


def table(rows: Iterable[tuple[Result, CheckReport | None]]) -> Iterator[str]:
    yield f"| robot | root | nv | cond(M) | {' | '.join(SHORT.values())} |"
    yield "|---|---|---|---|" + "---|" * len(SHORT)
    for result, report in rows:
        if not report:
            continue
        cells = [result.job.name, result.job.root, str(result.nv), number(report.condition)]
        for name in SHORT:
            mark = "" if all(r.passed for r in report.rows if r.function == name) else " **!**"
            cells.append(number(report.worst.get(name)) + mark)
        if report.singular:
            cells[3] += f" ({report.singular} singular)"
        yield f"| {' | '.join(cells)} |"


def summary(results: Sequence[Result]) -> Iterator[str]:
    """The largest error of each function over all robots, and the largest error / limit."""
    yield "| largest over all robots | " + " | ".join(SHORT.values()) + " |"
    yield "|---|" + "---|" * len(SHORT)
    for dtype in FRAMES:
        reports = [r.reports[dtype] for r in results if dtype in r.reports]
        rows = [row for report in reports for row in report.rows]
        for title, of in (("error", "error"), ("error / limit", "share")):
            worst = [
                max((getattr(row, of) for row in rows if row.function == name), default=None)
                for name in SHORT
            ]
            yield f"| {dtype}, {title} | " + " | ".join(map(number, worst)) + " |"


def largest(x: np.ndarray) -> np.ndarray:
    return np.abs(x.reshape(len(x), -1)).max(axis=1)


def nested(x: Any, states: int) -> np.ndarray:
    """Nested lists of arrays (states,) as one array (states, ...)."""
    if isinstance(x, list | tuple):
        return np.stack([nested(y, states) for y in x], axis=1)
    return np.broadcast_to(x, (states,))


def whose(states: int = 20) -> Iterator[str]:
    """Errors of both libraries in the derivatives of forward dynamics, against 80 bits."""
    yield "| robot | root | cond(M) | block | featherlane | Pinocchio |"
    yield "|---|---|---|---|---|---|"
    if np.finfo(np.longdouble).eps > 1e-18:
        return
    blocks = list(FUNCTIONS["forward_dynamics_derivatives"].outputs)
    for name, root in EXTENDED:
        model, _ = comparable(fl.load(name, root=root, mimic="keep"))
        peer = Pinocchio(xml_text(name)[0], model)
        given = random_states(model, states, 0, np.dtype(float))
        condition = np.linalg.cond(peer.mass_matrix(given, None)["M"]).max()
        scalars = [list(x.astype(np.longdouble).T) for x in (given.q, given.v, given.tau)]
        exact = algorithms.forward_dynamics_derivatives(model.tree, *scalars)
        ours = model.forward_dynamics_derivatives(given.q, given.v, given.tau)
        theirs = peer.forward_dynamics_derivatives(given, None)
        for k, block in enumerate(blocks):
            true = nested(exact[k], states)
            errors = [(largest(x - true) / largest(true)).max() for x in (ours[k], theirs[block])]
            cells = [name, root, number(condition), block, *map(number, map(float, errors))]
            yield f"| {' | '.join(cells)} |"


def machine() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc") else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions() -> str:
    names = ("numpy", "llvmlite", "pin", "example-robot-data")
    found = [f"{name} {distribution(name).version}" for name in names]
    return ", ".join([f"featherlane {fl.__version__}", *found])


def page(results: Sequence[Result], states: int) -> str:
    compared = [r for r in results if r.reports]
    failed = [
        f"{r.job.name} {r.job.root} {dtype}"
        for r in compared
        for dtype, report in r.reports.items()
        if not report.passed
    ]
    lines = [
        f"{len(compared)} robots and roots compared, {states} states each, on {machine()} with "
        f"Python {platform.python_version()}, {versions()}. "
        + (
            f"Above the limits: {', '.join(failed)}."
            if failed
            else "All errors are within the limits."
        ),
        "",
        *summary(results),
        "",
        "### Error of each library",
        "",
        *whose(),
        "",
        "### float64",
        "",
        *table((r, r.reports.get("float64")) for r in results),
        "",
        "### float32",
        "",
        *table((r, r.reports.get("float32")) for r in results),
        "",
        "### float64, right angles as the file prints them",
        "",
        *table((r, r.as_printed) for r in results),
        "",
        "### Not compared",
        "",
        *(f"- {r.job.name}, {r.job.root} root: {r.refusal}" for r in results if r.refusal),
    ]
    return "\n".join(lines)


def write(text: str) -> None:
    old = PAGE.read_text()
    head, tail = old.split(BEGIN)[0], old.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--robots", nargs="+", default=[""], help="those whose name contains one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-write", action="store_true", help="leave docs/accuracy.md as it is")
    args = parser.parse_args()
    robots = [(name, s) for name, s in urdfs() if any(part in name for part in args.robots)]
    jobs = [Job(name, source, root, args.states) for name, source in robots for root in ROOTS]
    results = []
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for result in pool.imap_unordered(measure, jobs):
            results.append(result)
            bad = [d for d, report in result.reports.items() if not report.passed]
            verdict = result.refusal or (f"TOO LARGE in {', '.join(bad)}" if bad else "agrees")
            at = f"[{len(results)}/{len(jobs)}]"
            print(f"{at} {result.job.name}, {result.job.root}: {verdict} ({result.seconds:.0f} s)",
                  file=sys.stderr, flush=True)  # fmt: skip
    results.sort(key=lambda r: (r.job.name.lower(), r.job.root))
    text = page(results, args.states)
    print(text)
    if not args.no_write:
        write(text)
    return int(any(not report.passed for r in results for report in r.reports.values()))


if __name__ == "__main__":
    sys.exit(main())
