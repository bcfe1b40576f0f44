"""Golden numbers: operation counts of the bundled robots. `python tests/test_golden.py` writes
them anew, which takes a line in the change log."""

import json
from pathlib import Path

import pytest
from repetition import repeated

import featherlane as fl
from featherlane.functions.functions_of import functions_of

FILE = Path(__file__).with_name("golden.json")
GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}
FREE = ("iiwa14", "hyq", "g1")
QUICK = [("double_pendulum", "fixed"), ("iiwa14", "fixed"), ("hyq", "free")]
ROBOTS = [(name, "fixed") for name in fl.bundled()] + [(name, "free") for name in FREE]
ROBOTS.sort(key=lambda robot: robot not in QUICK)
LIMITS = {  # at most: inverse dynamics, its derivatives, those of forward dynamics
    "iiwa14": (800, 6100, 8550),
    "hyq": (1360, 8900, 11000),
    "atlas": (4700, 30300, 49100),
}


def counts(name, root):
    model = fl.load(name, root=root, loops="keep")
    return {function: model.graph(function).cost().operations for function in functions_of(model)}


@pytest.mark.parametrize(("name", "root"), repeated(ROBOTS, len(QUICK)))
def test_operations_are_as_many_as_they_were(name, root):
    assert counts(name, root) == GOLDEN[f"{name} {root}"]


@pytest.mark.parametrize("name", LIMITS)
def test_operations_are_no_more_than_they_may_be(name):
    golden = GOLDEN[f"{name} fixed"]
    functions = ("inverse_dynamics", "inverse_dynamics_derivatives", "forward_dynamics_derivatives")
    for function, limit in zip(functions, LIMITS[name], strict=True):
        assert golden[function] <= limit


if __name__ == "__main__":
    table = {f"{name} {root}": counts(name, root) for name, root in ROBOTS}
    FILE.write_text(json.dumps(table, indent=1) + "\n")
