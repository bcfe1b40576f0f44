"""How long does a first call take: cold, on one core and on all, and from the cache?

Each figure is that of a new process with the cache of compiled code in a folder of its own: empty
for cold calls, and filled by the call before for warm ones, after another function has loaded what
all share. Cold calls run without workers (FEATHERLANE_WORKERS=0) and with as many as there are
cores. Next to the seconds of the clock stands the processor time of all processes, which other
programs on the machine disturb less. The row "compile" is `model.compile()`, all functions at once.
With `--batch 1` a call has a single state, without a dimension of states; functions are then those
of `--batch 4` and some more that controllers call so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from options import parser, write_json
from robots import chosen, machine_lines, say
from suite.tables import table

from featherlane.functions.table import FUNCTIONS

CALL = """
import json, os, sys, time
import numpy as np
import featherlane as fl
from featherlane.api.named_variants import variant_named
from featherlane.backends.llvm import workers
source, root, name, batch, warm = json.loads(sys.argv[1])
model = fl.load(source, root=None if root == "fixed" else root)
states = () if batch == 1 else (batch,)
def first(function):
    function(*[np.ones((*states, *shape)) for shape in function.inputs.values()])
if warm:  # what all functions share
    first(fl.compile(lambda x: [x[0] + x[1]], {"x": 2}))
before, start = os.times(), time.perf_counter()
model.compile() if name == "compile" else first(model._function(variant_named(model, name)))
seconds = time.perf_counter() - start
workers._workers.end()
while workers._workers.threads:  # children count once they have ended
    time.sleep(0.01)
print(json.dumps([seconds, sum(os.times()[:4]) - sum(before[:4])]))
"""


SINGLE = (
    *(name for name in FUNCTIONS if name != "forward_dynamics_derivatives_from"),
    "coriolis_matrix",
    "inverse_dynamics_parameter_derivatives:inertial",  # the regressor
    "step",
)


def first_call(call: list[Any], folder: str, workers: str) -> list[float]:
    """The seconds of a first call in a new process, and the processor seconds of all processes.
    call: the file and root of a robot, the name of a function, and the number of states.
    """
    environment = {**os.environ, "FEATHERLANE_CACHE": folder}
    environment.pop("FEATHERLANE_WORKERS", None)
    if workers == "0":
        environment["FEATHERLANE_WORKERS"] = workers
    words = json.dumps([*call, workers == "warm"])
    done = subprocess.run(
        [sys.executable, "-c", CALL, words], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{call}: {done.stderr}")
    return json.loads(done.stdout)


def rows(robots: list[str] | None, names: list[str], batch: int) -> Iterator[dict[str, Any]]:
    """A row for each robot and function."""
    for robot in chosen(robots):
        for name in names:
            say(f"{robot.title}, {name}")
            row: dict[str, Any] = {"robot": robot.title, "function": name}
            call = [str(robot.urdf), robot.root, name, batch]
            for how, workers in (("one core", "0"), ("all cores", ""), ("warm", "warm")):
                with tempfile.TemporaryDirectory() as folder:
                    if how == "warm":
                        first_call(call, folder, "warm")
                    seconds = first_call(call, folder, workers)
                row[f"{how}, s"], row[f"{how}, processor s"] = seconds
            yield row


def main() -> None:
    options = parser(__doc__, robots=[], functions=[], batch=4, json=None)
    args = options.parse_args()
    names = [*SINGLE] if args.batch == 1 else [*FUNCTIONS, "compile"]
    found = list(rows(args.robots, args.functions or names, args.batch))
    columns = [*found[0]]
    print(table(columns, [[_text(row[c]) for c in columns] for row in found]))
    print("\n" + "\n".join(machine_lines()))
    write_json(args.json, found)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
