"""Do all joint types gain as much as the revolute and prismatic ones?

For each type a chain of six such joints about z in random places, against Pinocchio's C++ loop
with its own joint of the type, on the same states, alternating. Pinocchio has no cylindrical joint:
it gets a composite. Its derivatives leave out how the axes of universal joints move with q: they
are not timed.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pinocchio as pin
from against_pinocchio import Result, measure, verify
from options import parser, write_json
from robots import FUNCTIONS, SHORT, Robot, States, machine_lines, say, table
from suite.peers.loop import Loop, build
from suite.peers.loop import Robot as Peer

import featherlane as fl
from featherlane.robot.joints import JOINT_TYPES

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from peer_models import pinocchio_model

LINKS = 6
DERIVATIVES = ("inverse_dynamics_derivatives", "forward_dynamics_derivatives")
NOT_TIMED = {"universal": DERIVATIVES}


def run(kind: str, program: Path, batch: int, rounds: int, passes: int) -> list[Result]:
    model = fl.chain(LINKS, 1, (kind,))
    joints = [replace(joint, axis=(0.0, 0.0, 1.0)) for joint in model.joints]
    model = replace(model, joints=tuple(joints))
    functions = [name for name in FUNCTIONS if name not in NOT_TIMED.get(kind, ())]
    say(f"{kind}: compiling")
    for name in functions:
        for dtype in ("float64", "float32"):
            model.function(name).ufunc(dtype)
    states = States.random(model, batch)
    peer = Peer(model, pinocchio_model(model), *states)
    verify(model, peer, states, functions)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.txt")
        peer.model.saveToText(path)
        loop = Loop(program, model, path, peer)
        try:
            robot = Robot(kind, Path(path), "fixed")
            return list(measure(robot, model, loop, states, rounds, passes, functions))
        finally:
            loop.close()


def main() -> None:
    options = parser(__doc__, batch=4096, rounds=7, passes=3, json=None)
    options.add_argument("--types", nargs="+", choices=JOINT_TYPES, default=list(JOINT_TYPES))
    args = options.parse_args()
    program, rows = build(), []
    every: list[Result] = []
    for kind in args.types:
        results = run(kind, program, args.batch, args.rounds, args.passes)
        every += results
        cells = []
        for name in FUNCTIONS:
            both = [f"{r.ratio:.1f}" for r in results if r.function == name]
            cells.append(" / ".join(both) or "-")
        rows.append([f"{kind}, nv {LINKS * JOINT_TYPES[kind].nv}", *cells])
    print(table([f"chains of {LINKS}: times faster, f64 / f32", *map(SHORT.get, FUNCTIONS)], rows))
    print(f"\nBatch {args.batch}, one thread, medians of {args.rounds} rounds, `out=` given.")
    print(f"Pinocchio {pin.__version__} (C++). " + "\n".join(machine_lines()))
    facts = {"links": LINKS, "batch": args.batch, "rounds": args.rounds}
    write_json(args.json, (r._asdict() for r in every), **facts, pinocchio=pin.__version__)


if __name__ == "__main__":
    main()
