"""The robots of the benchmarks, as data, and what the scripts share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from peers.loop import example_robot, say

import featherlane as fl
from featherlane.bench import SHORT, machine, outputs
from featherlane.check import comparable
from featherlane.dynamics import Model

FUNCTIONS = tuple(name for name in SHORT if SHORT[name] != "diFD")  # those that Pinocchio has too
DTYPES = ("float64", "float32")


class Robot(NamedTuple):
    name: str
    urdf: Path
    root: str

    @property
    def title(self) -> str:
        return f"{self.name}, {self.root} root"

    def model(self) -> Model:
        """As Pinocchio computes it: without damping and friction, and nothing follows another."""
        return comparable(fl.load(self.urdf, root=self.root, mimic="keep"))[0]


def _bundled(name: str) -> Path:
    return Path(str(resources.files("featherlane").joinpath("robots", f"{name}.urdf")))


DEFAULT = (
    Robot("iiwa14", _bundled("iiwa14"), "fixed"),
    Robot("hyq", _bundled("hyq"), "fixed"),
    Robot("atlas", _bundled("atlas"), "free"),
    Robot("g1", example_robot("g1_description/urdf/g1_29dof_rev_1_0.urdf"), "free"),
)


def parser(description: str | None) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=description)
    told = "NAME or PATH, with :free for a free root (default: iiwa14 hyq atlas:free g1:free)"
    result.add_argument("--robots", nargs="+", metavar="ROBOT[:ROOT]", help=told)
    return result


def chosen(given: list[str] | None) -> Iterator[Robot]:
    """The robots that were asked for; one whose file is not there is left out, saying so."""
    robots = DEFAULT if given is None else [_parse(text) for text in given]
    for robot in robots:
        if robot.urdf.exists():
            yield robot
        else:
            say(
                f"{robot.title}: skipped, there is no {robot.urdf} (pip install example-robot-data)"
            )


def _parse(text: str) -> Robot:
    source, _, root = text.partition(":")
    if root not in ("", "fixed", "free"):
        sys.exit(f"{text!r}: the root is fixed or free here")
    known = {robot.name: robot for robot in DEFAULT}
    if source in known:
        return known[source]._replace(root=root or "fixed")
    path = _bundled(source) if source in fl.bundled() else Path(source)
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
        f"featherlane {m['featherlane']}, Python {m['python']}, NumPy {m['numpy']}, "
        f"llvmlite {m['llvmlite']}",
    ]


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]

    def line(cells: list[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), line(rule), *map(line, rows)])


__all__ = [
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
    "parser",
    "say",
    "table",
]
