"""How many targets does inverse kinematics reach clear of obstacles, and in what time?

A panda that 20 spheres cover keeps clear of three spheres, two capsules and the floor, and of
itself: of 120 distances to obstacles and those of all pairs of distant spheres. Targets are
placements of the hand at random configurations that are clear by 1 cm, so that all can be reached.
Times are processor time of one thread, from and to the user's arrays, for batches of targets;
success is checked by placements and distances of the results. The clear share of solutions that
know no obstacles says how hard the scene is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from inverse_kinematics import TOLERANCE, median_seconds, reached
from options import parser, write_json
from robots import machine_lines, table

import featherlane as fl

ROBOT, HAND = "panda", "panda_hand"
COVER = [
    ("panda_link1", (0.0, -0.05, -0.05), 0.08),
    ("panda_link1", (0.0, 0.0, -0.15), 0.08),
    ("panda_link2", (0.0, 0.0, 0.0), 0.08),
    ("panda_link2", (0.0, -0.12, 0.0), 0.08),
    ("panda_link3", (0.0, 0.0, -0.08), 0.07),
    ("panda_link3", (0.07, 0.03, 0.0), 0.07),
    ("panda_link4", (0.0, 0.0, 0.03), 0.07),
    ("panda_link4", (-0.08, 0.05, 0.0), 0.07),
    ("panda_link5", (0.0, 0.05, 0.0), 0.06),
    ("panda_link5", (0.0, 0.08, -0.08), 0.06),
    ("panda_link5", (0.0, 0.05, -0.16), 0.06),
    ("panda_link5", (0.0, 0.0, -0.24), 0.07),
    ("panda_link6", (0.0, 0.0, 0.01), 0.07),
    ("panda_link6", (0.08, 0.0, 0.0), 0.06),
    ("panda_link7", (0.0, 0.0, 0.06), 0.06),
    ("panda_hand", (0.0, 0.0, 0.02), 0.05),
    ("panda_hand", (0.0, 0.06, 0.03), 0.04),
    ("panda_hand", (0.0, -0.06, 0.03), 0.04),
    ("panda_hand", (0.0, 0.04, 0.09), 0.025),
    ("panda_hand", (0.0, -0.04, 0.09), 0.025),
]
OBSTACLES = {
    "spheres": [[0.45, 0.25, 0.45, 0.1], [0.4, -0.35, 0.3, 0.12], [-0.4, 0.3, 0.6, 0.15]],
    "capsules": [[0.6, 0.0, 0.0, 0.6, 0.0, 0.35, 0.06], [0.0, -0.5, 0.5, 0.0, 0.5, 1.1, 0.05]],
    "planes": [[0.0, 0.0, 1.0, 0.0]],
}
SPARE = 0.01  # m by which targets' configurations are clear
RESTARTS = 0, 4, 16, 64
Row = dict[str, Any]


def clear_targets(model: fl.Model, avoid: fl.Avoidance, batch: int, dtype: str) -> np.ndarray:
    q = model.random_configuration(16 * batch, seed=1, dtype=dtype)
    q = q[model.clearances(q, avoid).min(axis=-1) > SPARE][:batch]
    assert len(q) == batch
    return model.frame_placement(q, HAND)


def measured(batch: int, dtype: str, rounds: int) -> Iterator[Row]:
    model = fl.load(ROBOT)
    avoid = fl.Avoidance(COVER, **OBSTACLES)
    targets = clear_targets(model, avoid, batch, dtype)
    solve = partial(model.inverse_kinematics, targets, HAND, tolerance=TOLERANCE, threads=1)
    cases: dict[str, dict[str, Any]] = {
        f"{n} restarts": {"avoid": avoid, "restarts": n} for n in RESTARTS
    }
    for case, options in {**cases, "without obstacles, 16 restarts": {}}.items():
        result = solve(**options)
        seconds = median_seconds(lambda options=options: solve(**options), rounds)
        good = reached(model, HAND, result.q, targets)
        good &= model.clearances(result.q, avoid).min(axis=-1) >= 0
        yield {
            "dtype": dtype,
            "case": case,
            "reached": float(np.mean(good)),
            "steps": float(np.mean(result.iterations)),
            "us": 1e6 * seconds / batch,
            "pairs": len(model.clearance_names(avoid)),
        }


def main() -> None:
    options = parser(__doc__, batch=8192, rounds=7, json=None).parse_args()
    rows = [
        row
        for dtype in ("float64", "float32")
        for row in measured(options.batch, dtype, options.rounds)
    ]
    print(*machine_lines(), f"{rows[0]['pairs']} distances", "", sep="\n")
    cells = [
        [
            row["dtype"],
            row["case"],
            f"{100 * row['reached']:.1f} %",
            f"{row['steps']:.1f}",
            f"{row['us']:.2f}",
            f"{1e3 / row['us']:,.0f}",
        ]
        for row in rows
    ]
    print(table(["dtype", "case", "clear", "steps", "us", "thousand a second"], cells))
    write_json(options.json, rows, batch=options.batch, tolerance=TOLERANCE)


if __name__ == "__main__":
    main()
