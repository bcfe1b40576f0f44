"""`featherlane bench`: checks the seven functions of a robot and times them on this machine."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cores import physical_cores
from featherlane.backends.llvm.jit import widest
from featherlane.functions.functions_of import left_out
from featherlane.tools.explain import Explanation
from featherlane.tools.explain import explain as explained
from featherlane.tools.origin import commit
from featherlane.tools.roofline import Roofline
from featherlane.tools.roofline import roofline as roofline_of
from featherlane.tools.selfcheck import STATES, Check, self_check
from featherlane.tools.timing import DTYPES, SHORT, Progress, Speed, compile_all, in_words, speed
from featherlane.version import __version__


def machine() -> dict[str, Any]:
    """The processor, the system, the versions and the commit that a measured time belongs to."""
    return {
        "cpu": _cpu_name(),
        "cores": physical_cores(),
        "vector_bits": 64 * widest(np.dtype(np.float64)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "featherlane": __version__,
        "commit": commit(),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


BUSY = 0.1  # the part of its time for which a thread waits for a core on a machine that is busy


@dataclass(frozen=True)
class BenchReport:
    """The self-check and the speeds of one robot, in calls with `batch` states."""

    model: Model
    machine: Mapping[str, Any]
    batch: int
    threads: int  # of the column with several threads
    checks: tuple[Check, ...]
    speeds: tuple[Speed, ...]
    roofline: Roofline | None = None
    choices: Explanation | None = None

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def title(self) -> str:
        root = self.model.root
        return f"{self.model.name}, {root} root, {self.batch:,} states, {self.machine['cpu']}"

    def to_dict(self) -> dict[str, Any]:
        report = {
            "machine": dict(self.machine),
            "batch": self.batch,
            "threads": self.threads,
            "passed": self.passed,
            "checks": [{**c._asdict(), "passed": c.passed} for c in self.checks],
            "speeds": [s._asdict() for s in self.speeds],
        }
        parts = {"roofline": self.roofline, "choices": self.choices}
        return report | {name: part.to_dict() for name, part in parts.items() if part}

    def __str__(self) -> str:
        return "\n\n".join("\n".join(lines) for lines in self.sections())

    def sections(self) -> Iterator[Iterable[str]]:
        """The lines of each part of the text."""
        yield self._check_lines()
        yield from map(self._speed_lines, self._dtypes())
        if self.roofline is not None:
            yield from self.roofline.sections()
        if self.choices is not None:
            yield from self.choices.sections()
        yield self._foot()

    def _dtypes(self) -> list[str]:
        return list(dict.fromkeys(s.dtype for s in self.speeds))

    def _check_lines(self) -> Iterator[str]:
        dtypes = self._dtypes()
        yield f"self-check   {STATES} random states, largest error and limit, in units of M_ii = 1"
        yield " " * 30 + "".join(f"{dtype:>30}" for dtype in dtypes)
        for name in dict.fromkeys(check.name for check in self.checks):
            checks = [check for check in self.checks if check.name == name]
            yield f"  {name:28}" + "".join(f"{_cell(check):>30}" for check in checks)
        for check in self.checks:
            if check.states < STATES:
                yield _left_out(check)
        yield from (f"  {line}" for line in left_out(self.model))

    def _speed_lines(self, dtype: str) -> Iterator[str]:
        lanes = self.machine["vector_bits"] // (8 * np.dtype(dtype).itemsize)
        yield f"{dtype}, {lanes} lanes, {self.batch} states"
        above = ("", "", "first", "1 thread,", f"{in_words(self.threads)},", "one state,")
        below = ("function", "operations", "call, s", "ns/state", "M states/s", "us")
        for head in (above, below):
            yield "  {:37}{:>12}{:>9}{:>12}{:>13}{:>11}".format(*head)
        speeds = [s for s in self.speeds if s.dtype == dtype]
        for s in speeds:
            operations = "-" if s.operations is None else s.operations
            yield (
                f"  {SHORT[s.function]:4} {s.function:32}{operations:>12}{s.first_call_s:9.3f}"
                f"{s.ns_per_state:12.1f}{s.states_per_us:13.2f}{s.one_state_us:11.2f}"
            )
        for s in speeds:
            if s.batch < self.batch:
                yield f"  {SHORT[s.function]:4} with {s.batch} states: more do not fit in memory"

    def _foot(self) -> Iterator[str]:
        m = self.machine
        yield f"{m['cpu']}, {m['cores']} cores, {m['vector_bits']}-bit vectors, {m['system']}"
        versions = ("featherlane", "python", "numpy", "llvmlite")
        parts = [f"{name} {m[name]}" for name in versions]
        yield ", ".join([*parts, f"commit {m['commit']}", str(datetime.date.today())])
        yield "medians; first call: until a function is compiled, or loaded from the cache"
        yield "ns/state and us: processor time; states/s and first call: by the clock on the wall"
        waited = max((s.waited for s in self.speeds), default=0.0)
        if waited > BUSY:
            yield f"this machine is busy: a thread waited for a core {waited:.0%} of its time;"
            yield "states/s and first calls are those beside other programs"


def _cell(check: Check) -> str:
    if not check.states:
        return "no digit left"
    return f"{check.error:.1e} of {check.bound:.1e} {'PASS' if check.passed else 'FAIL'}"


def _left_out(check: Check) -> str:
    left_out = f"{STATES - check.states} of {STATES} states left out"
    return f"  {check.name}, {check.dtype}: {left_out}, M is nearly singular or indefinite there"


def bench(
    model: Model,
    batch: int = 4096,
    dtypes: Sequence[str] = DTYPES,
    threads: int | None = None,
    progress: Progress = lambda step: None,
    roofline: bool = False,
    explain: bool = False,
) -> BenchReport:
    """Compiles, checks and times the seven functions of a model.

    batch: states in a call. threads: all physical cores by default. roofline: also measures the
    limits of this machine and how close to them each function runs. explain: also reports what was
    chosen for each function and at which expected cost. Raises ValueError for numbers below 1.
    """
    for name, number in {"batch": batch, "threads": threads}.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}: wanted 1 or more")
    count = threads or physical_cores()
    ready = compile_all(model, dtypes, progress)
    checks = tuple(self_check(model, dtypes, progress))
    speeds = []
    for (name, dtype), seconds in ready.items():
        progress(f"timing {SHORT[name]} in {dtype}")
        speeds.append(speed(model, name, dtype, batch, count, seconds))
    limits = None
    if roofline:
        progress("measuring this machine's limits")
        limits = roofline_of(model, speeds, count, progress)
    choices = explained(model, speeds, count, progress) if explain else None
    return BenchReport(model, machine(), batch, count, checks, tuple(speeds), limits, choices)
