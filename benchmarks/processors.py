"""Do kernels for all processors give the same bits, and how many instructions does a state take?

Every function of every robot is made for each processor of `featherlane.backends.targets`, run in
this process or under an emulator where that can be, and compared with the interpreter to the bit;
long robots with their recorded calls on this processor. Needs a C compiler, a cross compiler for
Arm and qemu's user mode for what this processor cannot run; what is missing is said.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from object_file import assembly
from processors_cases import LONG, ROBOTS, Case, all_cases, case, filled, jobs, long_case
from processors_run import EMULATED, Emulated, InProcess, Job, Kernel
from robots import DTYPES, SHORT, machine_lines, table

from featherlane.backends.llvm.targets import TARGETS, Processor

Maker = Callable[[Sequence[Kernel]], InProcess | Emulated]
COUNTED = (("iiwa14", "inverse_dynamics"), ("iiwa14", "forward_dynamics_derivatives"))
INSTRUCTION = re.compile(r"^\t[a-z]", re.MULTILINE)


def runners() -> Iterator[tuple[str, Processor, Maker | None, str | None]]:
    """A processor for kernels: a title, the target, and how it runs them, or why not."""
    for name, target in TARGETS.items():
        if target.x86 or not InProcess.missing(target):
            missing = InProcess.missing(target)
            yield f"{name}, here", target, None if missing else partial(InProcess, target), missing
        if name in EMULATED:
            made_for, missing = EMULATED[name], EMULATED[name].missing()
            make = None if missing else partial(Emulated, made_for)
            yield f"{name}, {made_for.emulator[-1]} emulated", target, make, missing


def outcome(make: Maker, target: Processor, cases: Sequence[Case]) -> str:
    """The number of cases that have the bits wanted in each of their jobs."""
    runner = make([each.kernel(target.widest(each.dtype)) for each in cases])
    asked = list(jobs(cases))
    runner.run([job for _, job in asked])
    wrong = {id(each) for each, job in asked if each.wrong(job)}
    return f"{len(cases) - len(wrong)} of {len(cases)}"


def matrix(titles: Sequence[str], long: bool) -> str:
    """The table of robots and processors."""
    columns = list(runners())
    rows = []
    for title in titles:
        for dtype in DTYPES:
            rows.append((f"{title}, {dtype}", list(all_cases([title], [dtype]))))
    if long:
        rows += [(f"long chains, {d}", [long_case(n, np.dtype(d)) for n in LONG]) for d in DTYPES]
    lines = []
    for title, cases in rows:
        cells = []
        for column, target, make, _ in columns:
            start = time.monotonic()
            cells.append("made" if make is None else outcome(make, target, cases))
            if make is None:
                made = [assembly(c.kernel(target.widest(c.dtype)).text, target) for c in cases]
                assert all(made)
            print(f"{title}: {column}: {cells[-1]} ({time.monotonic() - start:.0f} s)", flush=True)
        lines.append([title, *cells])
    told = [f"{column}: {missing}" for column, _, _, missing in columns if missing]
    return "\n".join([table(["", *[column[0] for column in columns]], lines), *told])


# Instructions


def _function(text: str, name: str) -> str:
    start = text.index(f"\n{name}:")
    return text[start : text.index(f".size\t{name}", start)]


def instructions(text: str) -> int:
    """Those that one tile runs: blocks of straight-line code, and, where the processor has no fused
    multiply-add, what stands for one.
    """
    blocks = sorted(set(re.findall(r"^(step\d+\.block\d+):", text, re.MULTILINE)))
    body = "".join(_function(text, name) for name in blocks)
    count = len(INSTRUCTION.findall(body))
    for name in set(re.findall(r"call\w*\s+(fused_\w+)", body)):
        fused = _function(text, name)
        plain = fused[: fused.index("\tretq")]  # the rare way out stands behind
        count += len(re.findall(rf"call\w*\s+{name}\b", body)) * len(INSTRUCTION.findall(plain))
    return count


def counts() -> str:
    rows = []
    for title, name in COUNTED:
        for dtype in DTYPES:
            each = case(title, name, np.dtype(dtype))
            cells = []
            for target in TARGETS.values():
                width = target.widest(each.dtype)
                count = instructions(assembly(each.kernel(width).text, target))
                cells.append(f"{count:,} / {width} = {count / width:,.0f}")
            rows.append([f"{title} {SHORT[name]}, {dtype}", *cells])
    return table(["instructions", *TARGETS], rows)


# Time


def ns_per_state(each: Case, target: Processor, states: int = 4096) -> float:
    """The best of some calls of the kernel in this process."""
    runner = InProcess(target, [each.kernel(target.widest(each.dtype))])
    plain = [np.repeat(x[:1], states, 0) for x in each.given]
    outputs = each._replace(wanted=[np.repeat(x[:1], states, 0) for x in each.wanted], given=plain)
    job = Job(0, states, tuple(filled(x, "dense") for x in plain), outputs.job(0, states).outputs)
    return min(_seconds(runner, job) for _ in range(15)) / states * 1e9


def _seconds(runner: InProcess, job: Job) -> float:
    start = time.perf_counter()
    runner.run([job])
    return time.perf_counter() - start


def times() -> str:
    here = [target for target in TARGETS.values() if not InProcess.missing(target)]
    rows = []
    for title, name in COUNTED:
        for dtype in DTYPES:
            each = case(title, name, np.dtype(dtype))
            cells = [f"{ns_per_state(each, target):,.0f}" for target in here]
            rows.append([f"{title} {SHORT[name]}, {dtype}", *cells])
    return table(["ns per state", *[target.name for target in here]], rows)


def versions() -> list[str]:
    found = []
    for program in ("gcc", *dict.fromkeys(x for m in EMULATED.values() for x in m.programs)):
        if shutil.which(program):
            told = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            found.append(told.splitlines()[0])
    return [*machine_lines(), *found]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    told = f"of {', '.join(ROBOTS)}; none: no comparison of them"
    arguments.add_argument(
        "--robots", nargs="*", choices=ROBOTS, default=list(ROBOTS)[:4], help=told
    )
    arguments.add_argument("--no-long", action="store_true", help="leave recorded calls out")
    asked = arguments.parse_args()
    parts = ["\n".join(versions())]
    if asked.robots or not asked.no_long:
        parts.append(matrix(asked.robots, not asked.no_long))
    print("\n\n".join(["", *parts, counts(), times()]))


if __name__ == "__main__":
    main()
