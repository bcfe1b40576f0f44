"""Throughput against batch size, drawn: featherlane on one thread and on all, Pinocchio's C++ loop.

Measures iiwa14, then writes docs/throughput.svg (and a PNG to look at, with --png). --data keeps
the measurements, or draws those that a file already holds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numpy as np
from robots import DEFAULT, DTYPES, States, machine, outputs, say
from suite.peers.loop import Loop, PythonLoop, build
from suite.peers.loop import Robot as Peer

from featherlane.bench import median_seconds
from featherlane.function import physical_cores

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PANELS = {
    "inverse_dynamics": "inverse dynamics",
    "forward_dynamics_derivatives": "derivatives of forward dynamics",
}
BATCHES = [2**k for k in range(19)]
# Grey and hues of middle lightness: they read on white and on a dark page alike
INK, FAINT, PEER = "#75808a", "#8b949e", "#9a7b5f"
COLOURS = {"float64": "#2f81c7", "float32": "#d9722e"}
ROUNDS = 3


def measure() -> dict[str, Any]:
    robot = DEFAULT[0]
    model, cores = robot.model(), physical_cores()
    states = States.random(model, BATCHES[-1])
    small = States(*(x[:4096] for x in states))
    peer = Peer(model, str(robot.urdf), *small)
    try:
        loop: Loop | PythonLoop = Loop(build(), model, str(robot.urdf), peer)
    except RuntimeError as error:
        say(f"{error}: Pinocchio's Python API is drawn")
        loop = PythonLoop(peer)
    curves: dict[str, Any] = {}
    for name in PANELS:
        curves[name] = {}
        for dtype in DTYPES:
            given, function = states.inputs(model, name, dtype), model.function(name)
            out = outputs(model, name, BATCHES[-1], dtype)
            for threads in (1, None):  # None: as many as pay, up to the cores
                rates = []
                for batch in BATCHES:
                    part = [x[:batch] for x in given]
                    to = tuple(x[:batch] for x in out) if isinstance(out, tuple) else out[:batch]
                    call = lambda p=part, t=to, n=threads, f=function: f(*p, out=t, threads=n)
                    rates.append(batch / median(median_seconds(call) for _ in range(ROUNDS)))
                    say(f"{name} {dtype} threads={threads}, {batch}: {rates[-1] / 1e6:.2f} M/s")
                curves[name][f"{dtype} {threads or cores}"] = rates
        curves[name]["peer"] = 1e9 / median(loop.ns_per_state(name, 3) for _ in range(9))
    loop.close()
    return {"machine": machine(), "peer": loop.kind, "batches": BATCHES, "curves": curves}


def _label(rate: float) -> str:
    return f"{rate / 1e6:g} M" if rate >= 1e6 else f"{rate / 1e3:g} k"


def draw(data: dict[str, Any]) -> Any:
    plt.rcParams.update({"font.family": "sans-serif", "font.size": 10, "svg.fonttype": "path"})
    plt.rcParams.update({"text.color": INK, "axes.edgecolor": FAINT, "svg.hashsalt": "featherlane"})
    plt.rcParams["axes.facecolor"] = "none"
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True)
    batches = np.array(data["batches"])
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        curves = dict(data["curves"][name])
        peer = curves.pop("peer")
        axes.axhline(peer, color=PEER, linewidth=2, dashes=(4, 2))
        axes.text(
            batches[-1], peer * 1.12, f"Pinocchio {data['peer']}, 1 thread", color=PEER, ha="right"
        )
        for key, rates in curves.items():
            dtype, threads = key.split()
            several, counted = threads != "1", "1 thread"
            if several:
                counted = f"up to {threads} threads"
            axes.plot(
                batches,
                rates,
                color=COLOURS[dtype],
                linewidth=2.2 if several else 1.8,
                linestyle="-" if several else (0, (1.2, 1.2)),
                label=f"{dtype}, {counted}",
                solid_capstyle="round",
            )
        axes.set_title(f"iiwa14, {title}", fontsize=11, loc="left", pad=10)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlim(batches[0], batches[-1])
        axes.set_xticks([1, 16, 256, 4096, 65536], ["1", "16", "256", "4096", "65 536"])
        axes.set_xlabel("states in a call", color=INK)
        axes.yaxis.set_major_formatter(lambda rate, _: _label(rate))
        axes.grid(True, which="major", color=FAINT, alpha=0.25, linewidth=0.8)
        axes.tick_params(which="both", colors=INK, length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("states per second", color=INK)
    panels[1].legend(frameon=False, labelcolor=INK, loc="upper left", handlelength=2.4)
    figure.tight_layout(w_pad=3)
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--svg", type=Path, default=HERE.parent / "docs" / "throughput.svg")
    options.add_argument("--png", type=Path, help="a picture on white, and one on black beside it")
    options.add_argument("--data", type=Path, help="JSON: drawn if it is there, else written")
    args = options.parse_args()
    if args.data and args.data.exists():
        data = json.loads(args.data.read_text())
    else:
        data = measure()
        if args.data:
            args.data.write_text(json.dumps(data) + "\n")
    figure = draw(data)
    figure.savefig(args.svg, transparent=True, metadata={"Date": None})
    if args.png:
        figure.savefig(args.png, dpi=110, facecolor="white")
        figure.savefig(args.png.with_stem(args.png.stem + "_dark"), dpi=110, facecolor="#0d1117")


if __name__ == "__main__":
    main()
