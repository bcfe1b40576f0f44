"""The robots of the benchmarks, as data, and what the scripts share."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from suite.robots import FILES, Robot, bundled
from suite.tables import table

import featherlane as fl
from featherlane.api.model import Model
from featherlane.tools.bench import machine
from featherlane.tools.timing import SHORT, outputs

FUNCTIONS = tuple(name for name in SHORT if SHORT[name] != "diFD")  # those that Pinocchio has too
DTYPES = ("float64", "float32")
KNOWN = {robot.name: robot for robot in FILES}
DEFAULT = ("iiwa14", "hyq", "atlas:free", "g1:free")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def chosen(given: list[str] | None) -> Iterator[Robot]:
    """The robots that were asked for; one whose file is not there is left out, saying so."""
    for robot in map(_parse, given or DEFAULT):
        if robot.missing:
            say(f"{robot.title}: skipped, {robot.missing}")
        else:
            yield robot


def _parse(text: str) -> Robot:
    source, _, root = text.partition(":")
    if root not in ("", "fixed", "free"):
        sys.exit(f"{text!r}: the root is fixed or free here")
    if source in KNOWN:
        return KNOWN[source]._replace(root=root or "fixed")
    path = bundled(source) if source in fl.bundled() else Path(source)
    return Robot(path.stem, path, root or "fixed")


class States(NamedTuple):
    """Rows of states in float64, and their float32 images."""

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray  # a, or tau

    @staticmethod
    def random(model: Model, batch: int) -> States:
        rng = np.random.default_rng(0)
        q = model.random_configuration(batch, seed=rng)
        return States(
            q, rng.uniform(-1, 1, (batch, model.nv)), rng.uniform(-1, 1, (batch, model.nv))
        )

    def inputs(self, model: Model, name: str, dtype: str) -> list[np.ndarray]:
        count = len(model.function(name).inputs)
        return [x.astype(dtype) for x in self[:count]]


def as_tuple(result: object) -> tuple[np.ndarray, ...]:
    return result if isinstance(result, tuple) else (result,)  # type: ignore[return-value]


def machine_lines() -> list[str]:
    m = machine()
    return [
        f"{m['cpu']}, {m['cores']} cores, {m['vector_bits']}-bit vectors, {m['system']}",
        f"featherlane {m['featherlane']}, commit {m['commit']}, Python {m['python']}, "
        f"NumPy {m['numpy']}, llvmlite {m['llvmlite']}, {datetime.date.today()}",
    ]


__all__ = [
    "DEFAULT",
    "DTYPES",
    "FUNCTIONS",
    "SHORT",
    "Robot",
    "States",
    "as_tuple",
    "chosen",
    "machine",
    "machine_lines",
    "outputs",
    "say",
    "table",
]
