"""Options of the benchmarks: each has one name and one meaning in all scripts that take it."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import featherlane as fl
from featherlane.tools.bench import machine

OPTIONS: dict[str, dict[str, Any]] = {
    "robots": {
        "metavar": "ROBOT[:ROOT]",
        "help": "NAME or PATH, with :free for a free root; in the suite chainN, too",
    },
    "functions": {"metavar": "NAME", "help": "only these functions"},
    "intervals": {"type": int, "metavar": "N", "help": "cycles from one state to the next"},
    "links": {"type": int, "metavar": "N", "help": "lengths of random chains"},
    "batch": {"type": int, "metavar": "N", "help": "states in a call"},
    "dtype": {"choices": ("float64", "float32"), "help": "of inputs and results"},
    "bits": {"type": int, "choices": (256, 512), "help": "of the widest vectors"},
    "count": {"type": int, "metavar": "N", "help": "calls of each"},
    "threads": {"type": int, "metavar": "N", "help": "of a call; 0: all cores"},
    "classes": {
        "type": int,
        "metavar": "N",
        "help": "the smallest classes of modules (default: all)",
    },
    "spread": {
        "type": int,
        "metavar": "N",
        "help": "so many classes of modules of all sizes (default: all)",
    },
    "rounds": {"type": int, "metavar": "N", "help": "in which all take turns"},
    "passes": {"type": int, "metavar": "N", "help": "over the batch, in each round"},
    "minutes": {"type": float, "metavar": "M", "help": "of the run; what these leave is skipped"},
    "quick": {"help": "few small cells, to try it out"},
    "json": {"type": Path, "metavar": "FILE", "help": "the figures and the machine, there too"},
    "folders": {"metavar": "FOLDER", "help": "with bitstreams that were built before"},
    "datapath": {"choices": ("shared", "memories"), "help": "the kind of datapath"},
    "csv": {"type": Path, "metavar": "FILE", "help": "a row for each figure, there too"},
}
ALWAYS_SEVERAL = {"robots", "functions", "links", "intervals", "folders"}


def parser(description: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """An option for each keyword, with its default. A tuple or list takes several values, an empty
    one leaves its default, None, to the script; a set of functions is also the choice.
    """
    result = argparse.ArgumentParser(description=description)
    for name, default in defaults.items():
        settings = dict(OPTIONS[name])
        if default is False:
            settings["action"] = "store_true"
        elif name in ALWAYS_SEVERAL or isinstance(default, tuple | list):
            settings["nargs"] = "+"
        if name == "functions" and default:
            settings["choices"] = default
        if default:
            told = " ".join(map(str, default)) if settings.get("nargs") else default
            settings["help"] += f" (default: {told})"
        result.add_argument(f"--{name}", default=default or None, **settings)
    return result


def loaded(robot: str) -> fl.Model:
    """A robot of `--robots`, by default on a fixed root."""
    source, _, root = robot.partition(":")
    return fl.load(source, root=root or "fixed")


def write_json(file: Path | None, rows: Iterable[Mapping[str, Any]], **facts: Any) -> None:
    """One object: the date, the machine, facts, and `results`, a row for each figure."""
    if file is not None:
        told = {"date": datetime.date.today().isoformat(), "machine": machine(), **facts}
        file.write_text(json.dumps({**told, "results": list(rows)}, indent=2, default=str) + "\n")
