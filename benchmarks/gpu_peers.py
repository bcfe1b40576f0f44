"""Peers on the GPU, each checked against the CPU's results before it is timed: parts of `gpu.py`.

grid-rbd compiles CUDA C++ for each robot, which takes minutes: `build` is started in the background
while other parts run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from gpu_cells import FAILED, LEFT_OUT, Bench, Cell, Row
from gpu_pack import NAMES
from gpu_rates import by_the_clock
from robots import States, as_tuple, chosen
from suite.peers.base import Case, Peer, Unsupported
from suite.peers.on_gpu import GPU_PEERS, grid_kernels
from suite.peers.with_jax import PLATFORM
from suite.robots import Robot

BATCHES = (65_536, 256, 4096)
TOO_FAR = 1e-2  # relative: beyond it a peer computes something else
PASSES = 10
ROBOTS = ("iiwa14", "hyq:free")  # those of grid-rbd, whose build has to end in time
BUILT, WHEELS, SITE = "grid.log", "wheels", "site"  # beside the pack


def peer(name: str, bench: Bench) -> Iterator[Cell]:
    """A peer on every robot and function."""
    os.environ[PLATFORM] = "cuda"
    found = GPU_PEERS[name]
    if (why := missing(found, bench)) is not None:
        yield Cell({"who": name}, partial(dict, value=f"{LEFT_OUT}, {why}"))
        return
    robots = bench.robots if name != "grid-rbd" else ROBOTS
    batches = bench.batches(*BATCHES)
    functions = bench.functions or NAMES
    for robot, batch, function in product(chosen(list(robots)), batches, functions):
        told = {"who": name, "robot": robot.name, "function": function, "dtype": "float32"}
        yield Cell({**told, "batch": batch}, partial(_measured, found, robot, function, batch))


def missing(found: Peer, bench: Bench) -> str | None:
    """Why a peer cannot run here."""
    if found.name == "torch-loop":  # which runs on a CPU, too
        return found.missing()
    return "there is no GPU" if bench.gpu.emulated else found.missing()


def _measured(found: Peer, robot: Robot, function: str, batch: int) -> Row:
    """Seconds of a peer, and how far its results are from ours."""
    model = robot.model()
    case = Case(model, str(robot.urdf), function, "float32", *States.random(model, batch))
    prepared = found.prepare(case)
    if isinstance(prepared, Unsupported):
        return {"value": f"{LEFT_OUT}, {prepared.why}"}
    prepared.run()
    few = np.arange(min(batch, 64))
    wanted = as_tuple(model.function(function)(*[x[few] for x in case.given()]))
    pairs = zip(prepared.answers(few), wanted, strict=False)
    error = max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)
    if not error < TOO_FAR:
        return {"value": f"{FAILED}: another result, by {error:.0e}"}
    seconds = by_the_clock(lambda: prepared.run(PASSES)) / PASSES
    prepared.close()
    told = f"{prepared.settings}; differs by {error:.0e}"
    return {"seconds": seconds, "states_per_second": batch / seconds, "value": told}


def build(folder: Path) -> subprocess.Popen[bytes]:
    """Starts to install grid-rbd from the wheels of a folder and to compile its kernels."""
    with (folder / BUILT).open("w") as log:
        return subprocess.Popen(
            ["nice", sys.executable, __file__, str(folder)], stdout=log, stderr=log
        )


def with_wheels(folder: Path) -> None:
    """Lets this process and its children import what `build` has installed."""
    site = str(folder.resolve() / SITE)
    sys.path.append(site)
    before = os.environ.get("PYTHONPATH")
    if site not in (before or ""):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (before, site)))


def _install(folder: Path) -> None:
    wheels: Iterable[Path] = sorted((folder / WHEELS).glob("*.whl"))
    if not (names := [str(x) for x in wheels]):
        sys.exit(f"there are no wheels in {folder / WHEELS}")
    options = ["--no-index", "--no-deps", "--target", str(folder / SITE)]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, *names], check=True)


def main() -> None:
    folder = Path(sys.argv[1])
    _install(folder)
    with_wheels(folder)
    for robot in chosen(list(ROBOTS)):
        grid_kernels(robot.model())
        print(robot.title, "built", flush=True)


if __name__ == "__main__":
    main()
