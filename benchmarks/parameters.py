"""What do parameters at run time cost, against the kernel with the robot's constants in it?

The same function of the same robot: baked, with parameters shared by all states, and with one set
for each state. All alternate; figures are medians.
"""

from __future__ import annotations

from statistics import median

import numpy as np
from against_pinocchio import ns_per_state
from options import parser, write_json
from robots import FUNCTIONS, SHORT, States, chosen, machine_lines, outputs, table

SETS = {
    "gravity": ("gravity",),
    "mass": ("mass",),
    "mass, com, inertia": ("mass", "com", "inertia"),
    "inertial": ("inertial",),
    "position": ("position",),
    "orientation": ("orientation",),
    "armature, damping, friction": ("armature", "damping", "friction"),
    "inertial, gravity, position, armature, damping": (
        "inertial",
        "gravity",
        "position",
        "armature",
        "damping",
    ),
    "all": (
        "inertial",
        "gravity",
        "position",
        "orientation",
        "armature",
        "damping",
        "friction",
    ),
}


def main() -> None:
    figures = {"batch": 4096, "dtype": "float64", "rounds": 9, "json": None}
    args, results = parser(__doc__, robots=("iiwa14",), **figures).parse_args(), []
    for robot in chosen(args.robots):
        model = robot.model()
        states, rows = States.random(model, args.batch), []
        for title, names in {"baked": (), **SETS}.items():
            row = [title]
            for name in FUNCTIONS:
                given = states.inputs(model, name, args.dtype)
                out = outputs(model, name, args.batch, args.dtype)
                calls = []
                for chosen_names, shared in (((), True), (names, True), (names, False)):
                    function = model.function(name, params=chosen_names)
                    values = [
                        _value(model, p, args.batch, shared, args.dtype) for p in chosen_names
                    ]
                    calls.append(
                        lambda f=function, g=(*given, *values), o=out: f(*g, out=o, threads=1)
                    )
                times: list[list[float]] = [[] for _ in calls]
                for _ in range(args.rounds):
                    for taken, call in zip(times, calls, strict=True):
                        taken.append(ns_per_state(call, args.batch, 3))
                baked, together, each = map(median, times)
                told = {"baked_ns": baked, "shared_ns": together, "each_ns": each}
                results.append({"robot": robot.title, "set": title, "function": name, **told})
                cell = f"{together / baked:.2f} / {each / baked:.2f}"
                row.append(cell if names else f"{baked:.1f} ns")
            rows.append(row)
        print(f"{robot.title}, {args.dtype}: times the baked kernel, one set / a set each")
        print(table(["", *map(SHORT.get, FUNCTIONS)], rows))
    print(f"\nBatch {args.batch}, one thread, medians of {args.rounds} rounds.")
    print("\n".join(machine_lines()))
    write_json(args.json, results, batch=args.batch, dtype=args.dtype, rounds=args.rounds)


def _value(model, name: str, batch: int, shared: bool, dtype: str) -> np.ndarray:
    """The model's own values, so that all kernels compute the same."""
    value = model.parameters()[name].astype(dtype)
    return value if shared else np.broadcast_to(value, (batch, *value.shape)).copy()


if __name__ == "__main__":
    main()
