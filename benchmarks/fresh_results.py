"""How long does a call take whose results are new arrays, as a multiple of the same call with out=?

"dropped" is a loop that drops its results, "bound" one that binds them to a name, so that those of
the call before are still alive. "unkept" binds them while no memory of results is kept, as it is
for results above the limit (`featherlane.empty_cache`). Inputs and `out=` are the same arrays in
all passes. One thread, processor time; all take turns, figures are medians of the ratio within a
round. The target of "dropped" is 1.15.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from options import parser, write_json
from robots import DTYPES, FUNCTIONS, SHORT, States, chosen, machine_lines, outputs, say, table

from featherlane.backends.cpu import results

TARGET = 1.15
PASS_S = 2e-3  # s of a pass at least
KINDS = ("dropped", "bound", "unkept")
WARM = 2 * 3 * results.SKIPPED  # calls after which two sets of three small results are kept


def timed(call: Callable[[], Any], count: int, bind: bool) -> float:
    """Seconds per call of the process."""
    held = None
    start = time.process_time()
    for _ in range(count):
        if bind:
            held = call()
        else:
            call()
    taken = time.process_time() - start
    del held
    return taken / count


def ratios(call: Callable[..., Any], out: Any, rounds: int) -> dict[str, float]:
    """The time of a call with new arrays over that with out=, by kind; and the latter in us."""
    with_out = lambda: call(out=out)
    timed(with_out, 2, False)
    count = max(1, round(PASS_S / max(timed(with_out, 1, False), 1e-9)))
    found: dict[str, list[float]] = {kind: [] for kind in (*KINDS, "out_us")}

    def turns(kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            timed(call, WARM if count > 1 else 2, kind != "dropped")
        for _ in range(rounds):
            given = timed(with_out, count, False)
            found["out_us"].append(given * 1e6)
            for kind in kinds:
                found[kind].append(timed(call, count, kind != "dropped") / given)

    with results.limited(0):
        turns(KINDS[2:])
    turns(KINDS[:2])
    return {kind: median(values) for kind, values in found.items()}


def main() -> None:
    figures = {"batch": (64, 512, 4096), "rounds": 9, "json": None}
    args = parser(__doc__, robots=(), functions=(), **figures).parse_args()
    names, rows = [n for n in FUNCTIONS if n in (args.functions or FUNCTIONS)], []
    lines: dict[str, list[list[str]]] = {kind: [] for kind in KINDS}
    for robot in chosen(args.robots):
        model = robot.model()
        for batch in args.batch:
            states = States.random(model, batch)
            for dtype in DTYPES:
                say(f"{robot.title}, {batch} states, {dtype}")
                cells = []
                for name in names:
                    function, given = model.function(name), states.inputs(model, name, dtype)
                    out = outputs(model, name, batch, dtype)
                    call = lambda f=function, x=given, **o: f(*x, threads=1, **o)
                    cells.append(ratios(call, out, args.rounds))
                    told = {"robot": robot.title, "batch": batch, "dtype": dtype, "function": name}
                    rows.append({**told, **cells[-1]})
                for kind in KINDS:
                    shown = [f"{cell[kind]:.2f}" for cell in cells]
                    lines[kind].append([f"{robot.title}, {batch}, {dtype}", *shown])
    for kind in KINDS:
        print(f"\n{kind}\n")
        print(table(["", *map(SHORT.get, names)], lines[kind]))
        over = sum(row[kind] > TARGET for row in rows)
        print(f"\n{over} of {len(rows)} above {TARGET}, at most {max(r[kind] for r in rows):.2f}.")
    print("\n".join(["", *machine_lines()]))
    write_json(args.json, rows, target=TARGET, limit=results.limit())


if __name__ == "__main__":
    main()
