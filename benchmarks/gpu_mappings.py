"""For how many states are teams of warps faster than one thread a state, and which constants of the
cost model (`backends/cuda/mappings.py`) do the times of a GPU ask for?
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from gpu_cells import Bench, Cell, Row
from gpu_packed import Facts
from gpu_rates import launched

from featherlane.backends.cuda import mappings
from featherlane.backends.cuda.mappings import SCHEDULERS, KernelWork
from featherlane.backends.cuda.ptx import WARP

BATCHES = (65_536, 4096, 256, 16_384, 1024, 32)
Constants = Mapping[str, float]
NOW: Constants = {
    "ISSUE": mappings.ISSUE,
    "SHARE": mappings.SHARE,
    "LAUNCH": mappings.LAUNCH,
    **{f"FILLED[{warps}]": share for warps, share in mappings.FILLED.items()},
}
STEP, FINEST = 2.0, 1.001  # factors by which constants are changed while they are fitted


def times(bench: Bench) -> Iterator[Cell]:
    """Derivatives by each mapping that the pack has."""
    every = [x for x in bench.files(form="", dtypes=("float32",)) if "derivatives" in x.function]
    works = {(x.robot, x.function): x.work for x in every if x.mapping == "lanes"}
    teams = {x.robot for x in every if x.mapping.startswith("team")}
    for batch in bench.batches(*BATCHES):
        for facts in (x for x in every if x.robot in teams):
            work = works[facts.robot, facts.function]
            yield Cell({**facts.row, "batch": batch}, partial(_time, bench, facts, work, batch))


def _time(bench: Bench, facts: Facts, work: KernelWork, batch: int) -> Row:
    """The time of a mapping, and what the cost model predicts it from: the work of lanes."""
    seconds = launched(bench, facts, batch)
    clock = 1e9 if bench.gpu.emulated else 1e3 * bench.gpu.attribute("CLOCK_RATE")
    return {
        "seconds": seconds,
        "states_per_second": batch / seconds,
        **work._asdict(),
        "multiprocessors": bench.gpu.api.properties(0).multiprocessors,
        "cycles": seconds * clock,
    }


def predicted(row: Row, constants: Constants) -> float:
    """The cycles that the cost model expects of a row of `times`, with these constants."""
    mapping = row["mapping"]
    warps = int(mapping.removeprefix("team:")) if mapping.startswith("team") else 1
    filled = constants.get(f"FILLED[{warps}]", 1.0)
    alone = row["path"] / (warps * filled) * constants["ISSUE"]
    tiles = -(-row["batch"] // WARP)
    units = SCHEDULERS * constants["SHARE"] * row["multiprocessors"]
    return max(alone, tiles * row["total"] / filled / units) + row["launches"] * constants["LAUNCH"]


def error(rows: Sequence[Row], constants: Constants) -> float:
    """The root mean square of the logarithms of predicted / measured: 0.1 are 10 %."""
    ratios = [math.log(predicted(row, constants) / row["cycles"]) for row in rows]
    return math.sqrt(sum(x * x for x in ratios) / len(ratios))


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The constants of the least error: one after the other is made larger or smaller by a factor,
    which shrinks where that helps no more.
    """
    constants, factor = dict(NOW), STEP
    best = error(rows, constants)
    while factor > FINEST:
        improved = False
        for name in constants:
            for change in (factor, 1 / factor):
                tried = constants | {name: constants[name] * change}
                if (now := error(rows, tried)) < best * (1 - 1e-9):
                    constants, best, improved = tried, now, True
        factor = factor if improved else math.sqrt(factor)
    return constants


def conclusions(rows: Sequence[Row]) -> Iterator[Row]:
    """The fitted constants beside those of the package, as rows of results."""
    timed = [row for row in rows if row.get("part") == "mappings" and row.get("cycles", 0) > 0]
    if len(timed) <= len(NOW):
        return
    constants = fitted(timed)
    for name, value in constants.items():
        yield {"question": f"fitted {name}", "value": f"{value:.3g} (now {NOW[name]:g})"}
    told = f"{error(timed, constants):.2f} (now {error(timed, NOW):.2f})"
    yield {"question": "error of the fit", "value": told}
