"""The command line: `featherlane info | check | bench | list`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import featherlane
from featherlane.api.model import Model, load
from featherlane.robot.loaders import ROOTS, bundled

AGAINST = ("pinocchio", "mujoco")
EPILOG = "ROBOT: a bundled name (featherlane list), the path of a URDF file, or - for XML on stdin."


class Progress:
    """Says on a terminal what takes longer than a second; silent elsewhere."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._step, self._since, self._shown = stream, "", time.monotonic(), False
        self._end, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __call__(self, step: str) -> None:
        with self._lock:
            self._step, self._since = step, time.monotonic()
            self._clear()

    def __enter__(self) -> Progress:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def _watch(self) -> None:
        while not self._end.wait(0.25):
            with self._lock:
                passed = time.monotonic() - self._since
                if self._step and passed > 1 and not self._end.is_set():
                    self._stream.write(f"\r\x1b[K{self._step} ... {passed:.0f} s")
                    self._stream.flush()
                    self._shown = True


def _strict(value: Any) -> Any:
    """A value as JSON has it: no infinities, no NaN, no NumPy scalars."""
    if isinstance(value, dict):
        return {str(key): _strict(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(x) for x in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_json(value: Any) -> None:
    print(json.dumps(_strict(value), indent=2))


def _source(robot: str) -> str:
    """What `load` takes. On stdin comes XML, and nothing else."""
    if robot != "-":
        return robot
    text = sys.stdin.read()
    if not text.lstrip("\ufeff \t\r\n").startswith("<"):
        raise ValueError("stdin holds no XML: it starts with something else than '<'")
    return text


# The commands, each returning the exit status


def info(args: argparse.Namespace) -> int:
    model = load(_source(args.robot), root=args.root)
    if args.json:
        _print_json(_facts(model) | ({"cost": _costs(model)} if args.cost else {}))
        return 0
    print(model)
    if args.cost:
        print()
        print(_cost_table(model))
    return 0


def _facts(model: Model) -> dict[str, Any]:
    joints = [
        {
            "name": joint.name,
            "type": joint.type,
            "parent": joint.parent,
            "body": body.name,
            "q": [first_q, first_q + kind.nq],
            "v": [first_v, first_v + kind.nv],
            "axis": joint.axis,
            "lower": joint.lower,
            "upper": joint.upper,
            "mass": body.mass,
        }
        for joint, body, kind, first_q, first_v in zip(
            model.joints, model.bodies, model.types, model.first_q, model.first_v, strict=True
        )
    ]
    names = ("name", "source", "root", "nbodies", "nq", "nv", "mass", "ground_mass", "gravity")
    facts = {name: getattr(model, name) for name in names}
    frames = [{"name": frame.name, "body": frame.body} for frame in model.frames]
    return {**facts, "joints": joints, "frames": frames, "notes": model.notes}


def _costs(model: Model) -> dict[str, Any]:
    if not model.nv:
        return {}
    costs = {name: model.graph(name).cost() for name in featherlane.FUNCTIONS}
    return {
        name: {"operations": c.operations, **c.kinds, "depth": c.depth, "live": c.live}
        for name, c in costs.items()
    }


def _cost_table(model: Model) -> str:
    columns = ("operations", "add", "mul", "div", "sqrt", "trig", "depth", "live")
    lines = [f"{'one state':35}" + "".join(f"{c:>{max(len(c) + 2, 7)}}" for c in columns)]
    for name, cost in _costs(model).items():
        cells = [f"{cost.get(c, 0):>{max(len(c) + 2, 7)}}" for c in columns]
        lines.append(f"  {name:33}" + "".join(cells))
    lines.append("operations: additions and multiplications. depth: the longest chain of them.")
    lines.append("live: the most values that wait for a later use at one time.")
    return "\n".join(lines)


def check(args: argparse.Namespace) -> int:
    from featherlane.tools.check import check as compare

    if args.states < 1:
        raise ValueError(f"states is {args.states}: wanted 1 or more")
    with Progress(sys.stderr) as progress:
        report = compare(
            _source(args.robot),
            args.root,
            against=args.against,
            states=args.states,
            dtype=args.dtype,
            progress=lambda done, total, what: progress(f"{what} ({done + 1} of {total})"),
        )
    if args.json:
        _print_json(report.to_dict())
    else:
        print(report)
    return 0 if report.passed else 1


def bench(args: argparse.Namespace) -> int:
    from featherlane.tools.bench import DTYPES
    from featherlane.tools.bench import bench as measure

    model = load(_source(args.robot), root=args.root)
    draw = _drawing(args.plot) if args.plot else None
    if not args.json:
        print(model, end="\n\n", flush=True)
    dtypes = DTYPES if args.dtype == "both" else (args.dtype,)
    with Progress(sys.stderr) as progress:
        near = args.roofline or draw is not None
        report = measure(model, args.batch, dtypes, args.threads, progress, near, args.explain)
    if args.json:
        _print_json({"model": _facts(model), **report.to_dict()})
    else:
        print(report)
    if draw is not None:
        draw(report)
    return 0 if report.passed else 1


def _drawing(file: str) -> Callable[[Any], None]:
    """What draws the roofline of a report, refused before minutes of measuring if it cannot."""
    from featherlane.tools.roofline_plot import plot, writable

    path = writable(file)
    return lambda report: plot(report.roofline, report.title, path)


def list_robots(args: argparse.Namespace) -> int:
    models = {name: load(name) for name in bundled()}
    if args.json:
        facts = ("nbodies", "nq", "nv", "mass")
        _print_json([{"name": n, **{f: getattr(m, f) for f in facts}} for n, m in models.items()])
        return 0
    width = max(map(len, models))
    print(f"{'':{width}}  joints  nv  mass kg   root fixed")
    for name, model in models.items():
        print(f"{name:{width}}  {model.nbodies:6}  {model.nv:2}  {model.mass:7.4g}")
    return 0


# Arguments


def parser() -> argparse.ArgumentParser:
    version = f"featherlane {featherlane.__version__}"
    top = argparse.ArgumentParser(prog="featherlane", description=featherlane.__doc__)
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, robot: bool = True) -> argparse.ArgumentParser:
        epilog = EPILOG if robot else None
        sub = commands.add_parser(name, help=text, description=text, epilog=epilog)
        sub.set_defaults(run=run)
        if robot:
            sub.add_argument("robot", metavar="ROBOT", help="name, file, or - for stdin")
            sub.add_argument("--root", choices=ROOTS, help="how the root link moves (fixed)")
        sub.add_argument("--json", action="store_true", help="one JSON object instead of text")
        return sub

    sub = command("info", info, "the model card: joints, sizes, masses, frames, notes")
    sub.add_argument("--cost", action="store_true", help="the operations of each function, too")

    sub = command(
        "check", check, "the functions against another library; exit status 1 if one is off"
    )
    sub.add_argument("--against", choices=AGAINST, default="pinocchio", help="(pinocchio)")
    sub.add_argument("--states", type=int, default=100, help="random states (100)")
    dtypes: tuple[str, ...] = ("float64", "float32")
    sub.add_argument("--dtype", choices=dtypes, default="float64", help="(float64)")

    sub = command("bench", bench, "a self-check and a table of speeds on this machine")
    sub.add_argument("--batch", type=int, default=4096, help="states in a call (4096)")
    dtypes = ("both", "float64", "float32")
    sub.add_argument("--dtype", choices=dtypes, default="both", help="(both)")
    sub.add_argument("--threads", type=int, help="of the column with several (all physical cores)")
    told = "how near to the measured limits of this machine each function runs, too"
    sub.add_argument("--roofline", action="store_true", help=told)
    told = "what was chosen for each function and what of it was expected, too"
    sub.add_argument("--explain", action="store_true", help=told)
    sub.add_argument("--plot", metavar="FILE", help="draw the roofline: .svg, .png or .pdf")

    command("list", list_robots, "the robots that come with the package", robot=False)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 where a check fails, 2 where an argument is wrong."""
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except (ValueError, TypeError, RuntimeError) as error:  # ModelError, CompileError, no peer
        print(f"featherlane: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
