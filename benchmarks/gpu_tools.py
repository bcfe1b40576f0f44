"""What do NVIDIA's tools say of a function of a pack: races (compute-sanitizer), memory (ncu)?

The parts of `gpu.py` call this script below such a tool. It computes so many states once, or twice
where the first call is not looked at.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import gpu_packed
from gpu_card import card
from gpu_cells import LEFT_OUT, SAME, Bench, Cell, Row
from gpu_packed import Facts, Resident

FEW, MANY = 64, 65_536  # states
LIMIT = 90.0  # seconds of a tool
FORMS = ("lanes", "teams", "scratch", "columns", "plans", "links")
PROFILED = ("hyq:free", "atlas:free", "iiwa14", "g1:free")
MATRICES = PROFILED[:2]  # robots of which all functions with matrices are profiled
METRICS = {  # the name of ncu, and ours
    "dram__bytes.sum": "dram_bytes",
    "lts__t_bytes.sum": "l2_bytes",
    "gpu__time_duration.sum": "nanoseconds",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy, %",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots, %",
    "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio": "no instruction",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "memory awaited",
}
FACTORS = {"K": 1e3, "M": 1e6, "G": 1e9, "u": 1e3, "m": 1e6, "s": 1e9}  # of bytes, nanoseconds


def races(bench: Bench) -> Iterator[Cell]:
    """Threads that use shared memory at once, and addresses outside of arrays."""
    for tool in ("racecheck", "memcheck"):
        for facts in (x for name in FORMS for x in bench.files(name)):
            told = {**facts.row, "batch": FEW, "question": tool}
            yield Cell(told, partial(_checked, bench, facts, tool))


def _checked(bench: Bench, facts: Facts, tool: str) -> Row:
    call = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
    return {"value": _below(call, bench, facts, FEW, 1)[0] or SAME}


def memory(bench: Bench) -> Iterator[Cell]:
    """Bytes from memory and from the L2 cache, and what warps wait for, of each kernel of functions
    with matrices: of derivatives of forward dynamics first.
    """
    files = bench.files(form="", dtypes=("float32",))
    for facts in sorted(files, key=lambda x: x.function != "forward_dynamics_derivatives"):
        derivatives = facts.function == "forward_dynamics_derivatives"
        matrices = "mass" in facts.function or "derivatives" in facts.function
        profiled = PROFILED if derivatives else MATRICES if matrices else ()
        if facts.mapping == "lanes" and facts.robot in profiled:
            told = {**facts.row, "batch": MANY}
            yield Cell(told, partial(_profiled, bench, facts))


def _profiled(bench: Bench, facts: Facts) -> Iterator[Row]:
    launches = facts.work.launches
    call = ["ncu", "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS)]
    call += ["--launch-skip", str(launches), "--launch-count", str(launches)]
    failed, printed = _below(call, bench, facts, MANY, 2)
    if failed:
        yield {"value": failed}
        return
    for kernel, figures in profile(printed.splitlines()).items():
        told = {x: y for x, y in figures.items() if x not in ("dram_bytes", "nanoseconds")}
        yield {
            "question": f"kernel {kernel}",
            "seconds": figures["nanoseconds"] / 1e9,
            "bytes_a_state": figures["dram_bytes"] / MANY,
            "value": ", ".join(f"{x} {y:.3g}" for x, y in told.items()),
        }


def profile(lines: Sequence[str]) -> dict[str, dict[str, float]]:
    """The metrics of each kernel, from what ncu prints: lines of its own, then a row as CSV for
    each metric.
    """
    start = next(k for k, line in enumerate(lines) if line.startswith('"ID"'))
    kernels: dict[str, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(lines[start:]):
        if (name := METRICS.get(row["Metric Name"])) is None:
            continue
        value, unit = float(row["Metric Value"].replace(",", "")), row["Metric Unit"]
        scaled = "byte" in unit or unit.endswith(("second", "s"))
        factor = FACTORS.get(unit[0], 1.0) if scaled and unit not in ("byte", "ns") else 1.0
        kernels[row["Kernel Name"]][name] = value * factor
    return dict(kernels)


def _below(
    tool: Sequence[str], bench: Bench, facts: Facts, batch: int, calls: int
) -> tuple[str, str]:
    """Runs a function below a tool: what failed, and what was printed."""
    if shutil.which(tool[0]) is None:
        return f"{LEFT_OUT}, {tool[0]} is not found", ""
    if bench.gpu.emulated:
        return f"{LEFT_OUT}, {tool[0]} needs a GPU", ""
    own = [sys.executable, __file__, str(bench.pack), facts.file, str(batch), str(calls)]
    limit = max(min(LIMIT, bench.left), 1.0)
    try:
        done = subprocess.run([*tool, *own], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"failed: more than {limit:.0f} s", ""
    if done.returncode:
        lines = [x for x in (done.stdout + done.stderr).splitlines() if x.strip()]
        return f"failed with status {done.returncode}: {' / '.join(lines[-4:])}"[:400], ""
    return "", done.stdout


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("pack", type=Path, help="the folder of gpu_pack.py")
    options.add_argument("file", help="of the pack")
    options.add_argument("batch", type=int, help="states")
    options.add_argument("calls", type=int, help="of the function")
    args = options.parse_args()
    (facts,) = (x for x in gpu_packed.index(args.pack) if x.file == args.file)
    packed = gpu_packed.read(args.pack, facts)
    with Resident(card(False), packed, packed.function(facts.mapping), args.batch) as resident:
        for _ in range(args.calls):
            resident.run()
        told = resident.difference()
    if told:
        sys.exit(f"results differ from the CPU's: {told}")


if __name__ == "__main__":
    main()
