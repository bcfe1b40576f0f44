"""Peers on the GPU, each checked against the CPU's results before it is timed: parts of `gpu.py`.

grid-rbd compiles CUDA C++ for each robot, which takes minutes: `build` is started in the background
while other parts run, and `grid` waits for its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from gpu_cells import FAILED, LEFT_OUT, Bench, Cell, Row, asked
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
# Beside the pack: what the build printed, what it ended with, what it installs, and where
LOG, BUILT, WHEELS, SITE = "grid.log", "grid.built", "wheels", "site"
PATIENCE = 60.0  # seconds of a cell that waits for the build


def grid(bench: Bench) -> Iterator[Cell]:
    """grid-rbd, once its kernels are built."""
    folder = bench.pack.parent
    if missing(GPU_PEERS["grid-rbd"], bench) is None:
        while not (folder / BUILT).exists() and bench.left > PATIENCE:
            told = {"who": "grid-rbd", "question": "its build"}
            yield Cell(told, partial(_awaited, folder))
        if not (folder / BUILT).exists():
            yield Cell({"who": "grid-rbd"}, partial(dict, value=f"{LEFT_OUT}, it is not built yet"))
            return
    yield from peer("grid-rbd", bench, ROBOTS)


def _awaited(folder: Path) -> Row:
    """What the build has printed last, when it has ended or after some time."""
    begin = time.monotonic()
    while not (folder / BUILT).exists() and time.monotonic() - begin < PATIENCE:
        time.sleep(0.2)
    printed = (
        (folder / LOG).read_text(errors="replace").split("\n") if (folder / LOG).exists() else []
    )
    ended = "ended" if (folder / BUILT).exists() else "runs"
    last = next((x for x in reversed(printed) if x.strip()), "nothing printed")
    return {"seconds": time.monotonic() - begin, "value": f"it {ended}: {last}"[:200]}


def peer(name: str, bench: Bench, robots: Sequence[str] = ()) -> Iterator[Cell]:
    """A peer on every function of robots, or of those that are asked for."""
    os.environ[PLATFORM] = "cuda"
    found = GPU_PEERS[name]
    if (why := missing(found, bench)) is not None:
        yield Cell({"who": name}, partial(dict, value=f"{LEFT_OUT}, {why}"))
        return
    batches = bench.batches(*BATCHES)
    functions = bench.functions or NAMES
    for robot, batch, function in product(chosen(list(robots or bench.robots)), batches, functions):
        told = {"who": name, "robot": asked(robot), "function": function, "dtype": "float32"}
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
    (folder / BUILT).unlink(missing_ok=True)
    with (folder / LOG).open("w") as log:
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
    try:
        _install(folder)
        with_wheels(folder)
        for robot in chosen(list(ROBOTS)):
            grid_kernels(robot.model())
            print(robot.title, "built", flush=True)
    finally:
        (folder / BUILT).touch()


if __name__ == "__main__":
    main()
