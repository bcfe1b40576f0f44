"""Which files does a first call pass through, and how often does it climb?

A call of a method in a new process, cold (with an empty cache of compiled code) and warm (from a
cache that has it), while each call of a function of the package is noted. `files`: that have a
function which was called. `moves`: calls from one file to another. `climbs`: pairs of files of
which one calls the other, on a higher floor of the import contract in pyproject.toml; `rooms`: the
pairs of folders among them. Functions that a trace runs, and scalars that record, are climbs too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import featherlane as fl

ROOT = Path(fl.__file__).parent
CONTRACT = Path(__file__).parent.parent / "pyproject.toml"
ROBOT, FUNCTION = "double_pendulum", "forward_dynamics_derivatives"


def floors() -> dict[str, int]:
    """The floor of each room: the folder, or the file, below the package."""
    contracts = tomllib.loads(CONTRACT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"] == "data flows one way")
    return {
        name.strip().removeprefix("featherlane."): len(layers) - depth
        for depth, layer in enumerate(layers)
        for name in layer.split("|")
    }


def room(path: str) -> str:
    return Path(path).relative_to(ROOT).parts[0].removesuffix(".py")


class CallPath(Counter[tuple[str, str]]):
    """The calls between files of the package, by caller and callee."""

    def follow(self, frame: Any, event: str, argument: Any) -> None:
        """Counts a call: the function for `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not self._has(code.co_filename):
            return
        caller = frame.f_back
        while caller is not None and not self._has(caller.f_code.co_filename):
            caller = caller.f_back
        self["" if caller is None else caller.f_code.co_filename, code.co_filename] += 1

    @staticmethod
    def _has(path: str) -> bool:
        return path.startswith(f"{ROOT}{os.sep}")

    def figures(self) -> dict[str, Any]:
        floor = floors()
        moves = {pair: n for pair, n in self.items() if pair[0] and pair[0] != pair[1]}
        climbs = [(a, b) for a, b in moves if floor[room(a)] < floor[room(b)]]
        return {
            "files": len({callee for _, callee in self}),
            "moves": sum(moves.values()),
            "climbs": len(climbs),
            "rooms": sorted({f"{room(a)} -> {room(b)}" for a, b in climbs}),
        }


def first_call() -> dict[str, Any]:
    """The figures of a first call in this process."""
    model = fl.load(ROBOT)
    state = [0.5] * model.nv
    calls = CallPath()
    sys.setprofile(calls.follow)
    getattr(model, FUNCTION)(state, state, state)
    sys.setprofile(None)
    return calls.figures()


def main() -> None:
    if sys.argv[1:] == ["call"]:
        print(json.dumps(first_call()))
        return
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("cold", "warm"):
            environment = {**os.environ, "FEATHERLANE_CACHE": folder, "FEATHERLANE_WORKERS": "0"}
            command = [sys.executable, __file__, "call"]
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
            print(cache, FUNCTION, "of", ROBOT, json.loads(done.stdout))


if __name__ == "__main__":
    main()
