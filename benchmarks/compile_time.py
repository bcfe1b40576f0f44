"""How long until a robot's functions can be called: compiled, loaded from the cache, imported?

Every figure comes from a process of its own. Cold: all seven functions in one dtype, the cache off,
with the peak memory of the process. Warm: one function from a cache that has it, the model
loaded before. The targets are those of the project, on its own machine.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from robots import DTYPES, SHORT, Robot, chosen, machine, machine_lines, parser, table

COLD = """
import resource, sys, time
import featherlane as fl
model = fl.load(sys.argv[1], root=sys.argv[2])
start = time.perf_counter()
for name in fl.FUNCTIONS:
    model.function(name).ufunc(sys.argv[3])
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
WARM = """
import sys, time
import featherlane as fl
model = fl.load(sys.argv[1], root=sys.argv[2])
start = time.perf_counter()
model.function(sys.argv[4]).ufunc(sys.argv[3])
print(time.perf_counter() - start)
"""
IMPORT = """
import sys, time
start = time.perf_counter()
import numpy
first = time.perf_counter()
import featherlane
print(time.perf_counter() - start, first - start)
"""
RSS_PER_MB = 1e6 if sys.platform == "darwin" else 1e3
TARGETS = {("iiwa14", "fixed"): (4, 2000), ("atlas", "free"): (60, 2000)}  # s, MB
WARM_TARGET = 60  # ms


def run(code: str, *arguments: str, cache: str = "off") -> list[float]:
    environment = {**os.environ, "FEATHERLANE_CACHE": cache}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def medians(code: str, *arguments: str, cache: str, rounds: int) -> list[float]:
    runs = [run(code, *arguments, cache=cache) for _ in range(rounds)]
    return [median(column) for column in zip(*runs, strict=True)]


def measure(robot: Robot, dtype: str, cold_rounds: int, rounds: int) -> dict[str, Any]:
    given = (str(robot.urdf), robot.root, dtype)
    cold, rss = medians(COLD, *given, cache="off", rounds=cold_rounds)
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        run(COLD, *given, cache=cache)
        warm = {
            name: medians(WARM, *given, name, cache=cache, rounds=rounds)[0] * 1e3 for name in SHORT
        }
    return {
        "robot": robot.name,
        "root": robot.root,
        "dtype": dtype,
        "cold_s": cold,
        "peak_mb": rss / RSS_PER_MB,
        "warm_ms": warm,
    }


def verdict(result: dict[str, Any]) -> str:
    seconds, mb = TARGETS.get((result["robot"], result["root"]), (float("inf"), float("inf")))
    met = result["cold_s"] < seconds and result["peak_mb"] < mb
    return "met" if met and max(result["warm_ms"].values()) < WARM_TARGET else "missed"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--cold-rounds", type=int, default=1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path, metavar="FILE")
    args = options.parse_args()
    results = [
        measure(robot, dtype, args.cold_rounds, args.rounds)
        for robot in chosen(args.robots)
        for dtype in DTYPES
    ]
    imported = medians(IMPORT, cache="off", rounds=2 * args.rounds)
    names = [f"{short} ms" for short in SHORT.values()]
    header = ["robot", "dtype", "cold s", "peak MB", *names, "slowest ms", "targets"]
    rows = [
        [
            f"{r['robot']}, {r['root']}",
            r["dtype"],
            f"{r['cold_s']:.1f}",
            f"{r['peak_mb']:.0f}",
            *(f"{ms:.0f}" for ms in r["warm_ms"].values()),
            f"{max(r['warm_ms'].values()):.0f}",
            verdict(r),
        ]
        for r in results
    ]
    print(table(header, rows))
    print(f"\nimport featherlane: {imported[0]:.3f} s, of which NumPy {imported[1]:.3f} s")
    date = datetime.date.today().isoformat()
    print(f"Cold: all seven functions; then each from the cache, fresh processes; {date}.")
    print("\n".join(machine_lines()))
    if args.json:
        facts = {"date": date, "machine": machine(), "import_s": imported[0], "results": results}
        args.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
