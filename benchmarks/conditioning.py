"""How large are errors in float32, and does the conditioning of the mass matrix tell?

The model of docs/accuracy.md: an error is at most ERROR eps kappa of the block's largest entry,
where kappa is max_i M_ii (M^-1)_ii for functions that divide by the mass matrix M, 1 for others.
This script shows the largest quotients of errors and eps kappa over random states of bundled robots
and random trees, to which ERROR (featherlane/robot/conditioning.py) is fitted: twice the largest,
rounded up to a multiple of ten. tests/test_exact.py confirms it on other robots. Errors are those
of the reference interpreter, which gives the bits of compiled code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import ceil

import options
from float32_errors import float32_errors

import featherlane as fl
from featherlane.functions.table import FUNCTIONS
from featherlane.robot.conditioning import ERROR
from featherlane.tools.check import comparable

BUNDLED = ("double_pendulum", "hyq", "iiwa14", "mobile_arm", "panda", "quadruped_arm")
SINGULAR = ("mobile_arm", "free")  # its own planar base on a free root
TREES = 6


def robots(names: list[str] | None, quick: bool) -> Iterator[tuple[str, fl.Model]]:
    """The robots to which the model is fitted; tests take others."""
    for name in names or BUNDLED[: 1 if quick else None]:
        plain, _, root = name.partition(":")
        for each in [root] if root else ["fixed", "free"]:
            if (plain, each) != SINGULAR:
                yield f"{plain}, {each}", comparable(fl.load(plain, root=each))[0]
    for seed in range(0 if names else 1 if quick else TREES):
        yield f"random tree {seed}", fl.random_tree(5 + seed % 4, 1 + seed % 3 / 2, seed=seed)


def main() -> int:
    args = options.parser(__doc__, robots=(), quick=False, json=None).parse_args()
    rows = []
    print(f"| robot | {' | '.join(FUNCTIONS)} |\n|---|{'---|' * len(FUNCTIONS)}")
    for name, model in robots(args.robots, args.quick):
        print(name, file=sys.stderr, flush=True)
        found = float32_errors(model)
        rows.append({"robot": name, **found})
        print(f"| {name} | {' | '.join(f'{x:.1f}' for x in found.values())} |", flush=True)
    largest = max(x for row in rows for x in row.values() if not isinstance(x, str))
    fitted = 10.0 * ceil(2 * largest / 10)
    print(
        f"\nThe largest quotient is {largest:.1f}; ERROR = {fitted:g} fits, and {ERROR:g} is taken."
    )
    options.write_json(args.json, rows, largest=largest, fitted=fitted)
    return int(fitted > ERROR)


if __name__ == "__main__":
    sys.exit(main())
