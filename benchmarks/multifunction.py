"""Do seven functions of a robot fit into one design for an FPGA, how long does each take, and is
the circuit right?

Three tables. Designs: DSPs counted, LUTs and flip-flops estimated as shares of an XCVU9P, and
cycles of 8 ns (an assumption, backends/fpga/devices/xcvu9p.toml) from a task to its result, where
no other one is under way, with the way through all FIFOs. Proofs: random tasks of all seven
functions, each a random state, in random order, and serial sub-tasks in batches of points, back to
back and with random stalls of both streams: every number is compared with the golden model, bit by
bit, and every stamp with the cycle model. Serial sub-tasks: points with four derivatives of forward
dynamics each, those of the stages of a step of RK4, of which one needs the results of the one
before (Dadu-RBD 2023, figure 13), by the cycle model. Simulated, they are at the states of these
stages, which the host computes, with accelerations of the golden model.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from options import loaded, parser, write_json

import featherlane as fl

FD, DFD = "forward_dynamics", "forward_dynamics_derivatives"
SHORT = {
    "inverse_dynamics": "ID", "forward_dynamics": "FD", "mass_matrix": "M",
    "mass_matrix_inverse": "Minv", "inverse_dynamics_derivatives": "dID",
    "forward_dynamics_derivatives_from": "diFD", DFD: "dFD",
}  # fmt: skip
STALLS = 64  # of 256 cycles
STAGES = 0.0, 0.5, 0.5, 1.0  # of a step of RK4: the part of it that leads to each from the start
STEP = 0.005  # s
BATCH = 64  # points of which they are simulated together
POINTS = 1, 2, 4, 8, 16, 32, 64, 128, 256
Row = dict[str, Any]


class Design(NamedTuple):
    """A design and what it should reach: percent of the DSPs, and microseconds of diFD."""

    robot: str
    format: str
    interval: int
    most_dsps: float
    sharing: str = "module"
    spare: float = 0.0
    most_us: float | None = None
    tasks: int = 0  # that are simulated
    arrays: str | None = None


DESIGNS = (
    Design("double_pendulum", "q16.16", 2, 100.0, tasks=10_000),
    Design("iiwa14", "q16.16", 4, 40.0, tasks=10_000),
    Design("iiwa14", "fitted", 2, 34.0, "class"),
    Design("iiwa14", "fitted", 1, 65.0),
    Design("hyq:free", "q16.16", 12, 56.0, "whole", most_us=0.5),
    Design("hyq:free", "fitted", 12, 25.0, "whole", most_us=0.5, tasks=2000),
    Design("hyq:free", "q16.16", 12, 56.0, "whole", most_us=0.5, arrays="auto"),
    Design("hyq:free", "fitted", 12, 25.0, "whole", most_us=0.5, tasks=600, arrays="auto"),
    Design("atlas:free", "fitted", 32, 56.0, "whole", most_us=1.7, arrays="auto"),
)


def main() -> int:
    made = parser(__doc__, robots=["double_pendulum", "iiwa14", "hyq:free"], quick=False, json=None)
    made.add_argument("--parts", nargs="+", default=["designs", "proofs", "serial"])
    made.add_argument("--sharing", help="of all designs, instead of their own")
    made.add_argument("--spare", type=float, help="of all designs, instead of their own")
    made.add_argument("--algorithm", help="of M^-1 (deferred; factor in arrays)")
    made.add_argument("--formats", nargs="+", default=["q16.16", "fitted"])
    made.add_argument("--organised", action="store_true", help="only designs of arrays")
    args = made.parse_args()
    rows: list[Row] = []
    wrong = 0
    for asked in DESIGNS[:1] if args.quick else DESIGNS:
        if asked.robot not in args.robots or asked.format not in args.formats:
            continue
        if args.organised and not asked.arrays:
            continue
        asked = asked._replace(
            sharing=args.sharing or asked.sharing,
            spare=asked.spare if args.spare is None else args.spare,
        )
        start = perf_counter()
        design = designed(asked, args.algorithm)
        row = figures(asked, design, perf_counter() - start)
        rows.append(row)
        shown(row)
        if "serial" in args.parts:
            for row in serial(asked, design):
                rows.append(row)
                shown(row)
        if "proofs" in args.parts and asked.tasks:
            for row in proofs(asked, design, 200 if args.quick else asked.tasks):
                rows.append(row)
                shown(row)
                wrong += row["wrong numbers"] + row["wrong stamps"]
    write_json(args.json, rows, device="xcvu9p")
    return int(wrong > 0)


def shown(row: Row) -> None:
    print(", ".join(f"{key}: {x}" for key, x in row.items()), flush=True)


def designed(asked: Design, algorithm: str | None) -> Any:
    return fl.multifunction(
        loaded(asked.robot), interval=asked.interval, format=asked.format, sharing=asked.sharing,
        spare=asked.spare, algorithm=algorithm, arrays=asked.arrays,
    )  # fmt: skip


def figures(asked: Design, design: Any, seconds: float) -> Row:
    shares, graph = design.cost.shares, design.datapath.graph
    latency = {SHORT[name]: n for name, n in design.latency.items()}
    time = latency["diFD"] * design.clock * 1e-3
    between = {"fifo", "control"}
    luts = sum(x.luts for (_, kind), x in design.cost.parts.items() if kind in between)
    return {
        "robot": asked.robot,
        "format": asked.format,
        "interval": asked.interval,
        "algorithm": design.choices["algorithm"],
        "sharing": f"{asked.sharing} + {asked.spare:g}",
        "arrays": asked.arrays,
        "products": graph.op.count("mul"),
        "DSP %": f"{shares.dsps:.1f} of {asked.most_dsps:g}",
        "LUT %": round(shares.luts, 1),
        "of these between stations %": round(100 * luts / design.device.luts, 1),
        "FF %": round(shares.ffs, 1),
        "cycles": " ".join(f"{name} {n}" for name, n in latency.items()),
        "diFD us": f"{time:.3f}" + (f" of {asked.most_us:g}" if asked.most_us else ""),
        "dFD M/s": round(500 / design.clock / design.interval, 2),
        "others M/s": round(1000 / design.clock / design.interval, 2),
        "under way": design.network.depth,
        "seconds": round(seconds, 1),
    }


def proofs(asked: Design, design: Any, count: int) -> Iterator[Row]:
    """Tasks of all functions, and serial sub-tasks, back to back and with stalls."""
    mixed = design.tasks(count)
    tasks, after = list[Any](), list[int | None]()
    for first in range(0, count // len(STAGES), BATCH):
        size = min(BATCH, count // len(STAGES) - first)
        begin = len(tasks)
        tasks += rk4(design, design.samples(DFD, size, seed=first))
        after += [None] * size + [begin + n for n in range((len(STAGES) - 1) * size)]
    for told, batch, before in (("mixed", mixed, None), ("serial", tasks, after)):
        wanted = design.expected(batch)
        for stalls in (0, STALLS):
            yield {
                "robot": asked.robot,
                "format": asked.format,
                "interval": asked.interval,
                "simulated tasks": len(batch),
                "of": told,
                "stalls": stalls,
                **_compared(design, batch, wanted, before, stalls),
            }


def rk4(design: Any, start: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The derivatives in all stages of a step of points, the first stages of all points first.
    start: states and torques (points, entries) by name.
    """
    state = start
    for n, part in enumerate(STAGES):
        if n:
            a = design.function(FD)(**state)
            q = design.model.integrate(start["q"], part * STEP * state["v"])
            state = {**start, "q": q, "v": start["v"] + part * STEP * a}
        for k in range(len(start["q"])):
            yield DFD, {key: x[k] for key, x in state.items()}


def _compared(design: Any, tasks: Any, wanted: Any, after: Any, stalls: int) -> Row:
    """A simulation beside the golden model and the cycle model."""
    start, names = perf_counter(), [name for name, _ in tasks]
    run = design.simulate(tasks, stalls=stalls, after=after)
    model = design.schedule(names, stalls=stalls, after=after)
    wrong = sum(
        not np.array_equal(x, found[name])
        for own, found in zip(wanted, run.outputs, strict=True)
        for name, x in own.items()
    )
    stamps = np.count_nonzero(model.accepted != run.accepted)
    stamps += np.count_nonzero(model.emitted != run.emitted)
    passes = len(tasks) + Counter(names)[DFD]
    return {
        "wrong numbers": wrong,
        "wrong stamps": int(stamps),
        "passes a cycle, of 1 / interval": round(
            passes * design.interval / float(run.emitted.max()), 3
        ),
        "seconds": round(perf_counter() - start, 1),
    }


def serial(asked: Design, design: Any) -> Iterator[Row]:
    """Points, and the throughput of their sub-tasks as a share of what independent ones have."""
    for points in POINTS:
        tasks = [DFD] * (len(STAGES) * points)
        after = [None] * points + [*range((len(STAGES) - 1) * points)]
        found = design.schedule(tasks, after=after)
        free = design.schedule(tasks)
        yield {
            "robot": asked.robot,
            "format": asked.format,
            "points": points,
            "cycles": int(found.emitted.max()),
            "independent": int(free.emitted.max()),
            "share of the throughput": round(float(free.emitted.max() / found.emitted.max()), 3),
        }


if __name__ == "__main__":
    sys.exit(main())
