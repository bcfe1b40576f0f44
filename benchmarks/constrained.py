"""How fast is dynamics with constraints, with forces and all derivatives, beside Pinocchio's and
crocoddyl's?

One thread, all on the same states in alternating passes, medians of processor time: a loop in C++
over Pinocchio that stores its results, compiled here, and featherlane's kernels in float64 and
float32. The results are compared first. HyQ and the G1 are bundled; Go2 and Talos are read from
the folder --robots, which has unitree_go2.xml and talos.urdf. crocoddyl (`pip install
crocoddyl==3.2.1 libpinocchio==4.0.0 pin==4.0.0`) runs in an environment of its own, whose
interpreter --crocoddyl names.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from suite.peers.native import shared_library
from suite.peers.with_pinocchio import DEFINITIONS, EIGEN, LIBRARIES, NATIVE, prefix

import featherlane as fl
from featherlane.robot.parts import Frame, Placement

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from peer_models import pinocchio_model

PEERS = Path(__file__).parent / "suite" / "peers"
FORWARD = "constrained_forward_dynamics"
ALONE = 200  # calls of one state in a pass


class Robot(NamedTuple):
    """A robot on its feet. file: the name of a bundled robot, or a file; link: the ending of the
    names of its lowest links; foot: a point on each; None for flat feet.
    """

    file: str
    link: str
    foot: tuple[float, float, float] | None = None


ROBOTS = {
    "HyQ, 4 points": Robot("hyq", "_lowerleg", (0.35, 0.0, 0.0)),
    "Go2, 4 points": Robot("unitree_go2.xml", "_calf", (0.0, 0.0, -0.213)),
    "G1, 2 welds": Robot("g1", "ankle_roll_link"),
    "Talos, 2 welds": Robot("talos.urdf", "_6_link"),
}


class Case(NamedTuple):
    model: fl.Model
    constraints: fl.Constraints
    rows: int  # of each contact


def bare(name: str) -> fl.Model:
    """A robot on a free root without damping, friction and armature, of which Pinocchio does not
    count all here.
    """
    model = fl.load(name, root="free")
    none: dict[str, Any] = {"damping": (), "friction": (), "armature": (), "mimic": None}
    return replace(model, joints=tuple(replace(j, **none) for j in model.joints))


def case_of(robot: Robot, folder: Path | None) -> Case | None:
    """A robot with its constraints; None if its file is not there."""
    if robot.file in fl.bundled():
        model = bare(robot.file)
    elif folder is not None and (folder / robot.file).exists():
        model = bare(str(folder / robot.file))
    else:
        return None
    links = [x for x in model.frame_names if x.endswith(robot.link) and "arm" not in x]
    if robot.foot is None:
        return Case(model, model.constraints([fl.Weld(link) for link in links]), 6)
    place = Placement.of(np.eye(3), list(robot.foot))
    feet = [Frame(f"{link}_foot", model.frame(link).body, place) for link in links]
    model = replace(model, frames=(*model.frames, *feet))
    return Case(model, model.constraints([fl.Pin(foot.name) for foot in feet]), 3)


def library(eigen: str | None) -> ctypes.CDLL:
    """The loop over Pinocchio."""
    at = prefix()
    if at is None:
        raise SystemExit("pinocchio is not installed: pip install pin")
    folders = [Path(eigen)] if eigen else [at / "include/eigen3", *EIGEN]
    if not eigen and (casadi := find_spec("casadi")) and casadi.origin:
        folders.append(Path(casadi.origin).parent / "include/eigen3")
    headers = next((x for x in folders if (x / "Eigen/Core").exists()), None)
    if headers is None:
        raise SystemExit("Eigen's headers are not here: name their folder by --eigen")
    flags = ["-std=c++17", "-O3", "-DNDEBUG", *NATIVE, *DEFINITIONS]
    flags += [f"-I{at}/include", f"-I{headers}"]
    link = [f"-L{at}/lib", *LIBRARIES, f"-Wl,-rpath,{at}/lib"]
    made, _ = shared_library((PEERS / "constrained_loop.cpp").read_text(), flags, link)
    return ctypes.CDLL(str(made))


class Contacts(NamedTuple):
    """A case as the peers read it."""

    text: str  # the file of Pinocchio's model
    joints: np.ndarray
    placements: np.ndarray  # p and R

    @staticmethod
    def of(case: Case) -> Contacts:
        frames = [place.frame for place in case.constraints.places]
        at = np.array([[*f.placement.p, *np.ravel(f.placement.R)] for f in frames], float)
        text = str(Path(tempfile.mkdtemp()) / "robot.txt")
        pinocchio_model(case.model).saveToText(text)
        return Contacts(text, np.array([f.body + 1 for f in frames], np.int64), at)


def in_cpp(
    loop: ctypes.CDLL, case: Case, states: list[np.ndarray], derivatives: bool, impact: bool
) -> tuple[Callable[[], None], list[np.ndarray]]:
    """A pass of Pinocchio over the states, and its results."""
    n, m, batch, contacts = case.model.nv, case.constraints.rows, len(states[0]), Contacts.of(case)
    by = (2 if impact else 3) * derivatives
    shapes = [(n,), (m,), *[(n, n)] * by, *[(m, n)] * by]
    outputs = [np.zeros((batch, *shape)) for shape in shapes]
    pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    arrays = (ctypes.c_void_p * len(outputs))(*[x.ctypes.data for x in outputs])
    number = ctypes.c_long
    arguments = [ctypes.c_char_p(contacts.text.encode()), number(len(contacts.joints))]
    arguments += [number(case.rows), pointer(contacts.joints), pointer(contacts.placements)]
    arguments += [number(batch), *map(pointer, states), arrays]
    arguments += [number(derivatives), number(impact)]
    return lambda: loop.constrained(*arguments), outputs


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def medians(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median processor time of each run, of passes that alternate."""
    for run in runs.values():
        run()
    times = [[seconds(run) for run in runs.values()] for _ in range(rounds)]
    return dict(zip(runs, map(median, zip(*times, strict=True)), strict=True))


def ours(
    case: Case, name: str, arrays: list[np.ndarray], dtype: str, active: bool = True
) -> tuple[Callable[[], object], tuple[np.ndarray, ...]]:
    """A pass of featherlane over the states, and its results. arrays: with masks last."""
    call = case.model.function(name, constraints=case.constraints, active=active)
    inputs = [x.astype(dtype) for x in (arrays if active else arrays[:-1])]
    batch = len(inputs[0])
    out = tuple(np.zeros((batch, *shape), dtype) for shape in call.outputs.values())
    return lambda: call(*inputs, out=out, threads=1), out


def states_of(case: Case, batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    q = case.model.random_configuration(batch, seed=0)
    return [q, *(rng.normal(size=(batch, case.model.nv)) for _ in range(2))]


def against_cpp(case: Case, loop: ctypes.CDLL, batch: int, rounds: int) -> None:
    """Prints values, derivatives and impulses beside Pinocchio's."""
    states, active = states_of(case, batch), np.ones((batch, case.constraints.count))
    for name, impact in ((FORWARD, False), ("impulse", True)):
        arrays = [*states, active]
        if impact:
            arrays = [*states[:2], np.zeros_like(active), active]
        for derivatives in (False, True):
            theirs, wanted = in_cpp(loop, case, states, derivatives, impact)
            full = name + "_derivatives" * derivatives
            (f64, results), (f32, _) = (ours(case, full, arrays, x) for x in ("f8", "f4"))
            unmasked, _ = ours(case, full, arrays, "f8", active=False)
            runs = {"Pinocchio": theirs, "f64": f64, "f32": f32, "without masks": unmasked}
            times = medians(runs, rounds)
            if case.rows == 3:  # welds differ where the feet turn, see docs/constraints.md
                error = np.abs(results[0] - wanted[0]).max() / np.abs(wanted[0]).max()
                assert error < 1e-8, error
            row = {k: 1e6 * x / batch for k, x in times.items()}
            peer = row.pop("Pinocchio")
            shown = ", ".join(f"{k} {x:.3f} us ({peer / x:.1f}x)" for k, x in row.items())
            print(f"  {full}: Pinocchio {peer:.2f} us, {shown}", flush=True)


def linearisations(case: Case, batch: int, rounds: int) -> None:
    """Prints the times of a linearised step."""
    arrays = [
        *states_of(case, batch),
        np.full(batch, 1e-3),
        np.ones((batch, case.constraints.count)),
    ]
    for name in ("linearize_step_reduced", "linearize_step"):
        runs = {x: ours(case, name, arrays, x)[0] for x in ("f8", "f4")}
        f64, f32 = (1e6 * x / batch for x in medians(runs, rounds).values())
        print(f"  {name}: f64 {f64:.2f} us, f32 {f32:.2f} us", flush=True)


def alone(case: Case, rounds: int) -> None:
    """Prints the time of one state from Python, beside Pinocchio's Python function."""
    import pinocchio as pin

    model, constraints, contacts = case.model, case.constraints, Contacts.of(case)
    q, v, tau = (x[0] for x in states_of(case, 1))
    peer = pin.Model()
    peer.loadFromText(contacts.text)
    data = peer.createData()
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    kind = pin.ContactType.CONTACT_3D if case.rows == 3 else pin.ContactType.CONTACT_6D
    for joint, x in zip(contacts.joints, contacts.placements, strict=True):
        place = pin.SE3(x[3:].reshape(3, 3), x[:3])
        models.append(pin.RigidConstraintModel(kind, peer, int(joint), place, pin.LOCAL))
        datas.append(models[-1].createData())
    pin.initConstraintDynamics(peer, data, models, datas)
    settings, active = pin.ProximalSettings(1e-12, 0.0, 1), np.ones(constraints.count)
    calls = {
        "Pinocchio": lambda: pin.constraintDynamics(peer, data, q, v, tau, models, datas, settings),
        "method": lambda: model.constrained_forward_dynamics(q, v, tau, constraints),
        "with active": lambda: model.constrained_forward_dynamics(q, v, tau, constraints, active),
    }
    repeated = {k: lambda run=run: [run() for _ in range(ALONE)] for k, run in calls.items()}
    times = {k: 1e6 * x / ALONE for k, x in medians(repeated, 3 * rounds).items()}
    print("  one state from Python:", ", ".join(f"{k} {x:.1f} us" for k, x in times.items()))


def in_crocoddyl(case: Case, python: str, batch: int) -> None:
    """Prints the times of crocoddyl's contact dynamics from Python."""
    contacts, file = Contacts.of(case), Path(tempfile.mkdtemp()) / "states.npz"
    states = dict(zip(("q", "v", "tau"), states_of(case, batch), strict=True))
    arrays = {"joints": contacts.joints, "placements": contacts.placements, **states}
    np.savez(file, rows=case.rows, **arrays)
    robot = file.with_name("robot.pickle")
    robot.write_bytes(pickle.dumps(case.model))
    command = [python, str(PEERS / "crocoddyl_contacts.py"), str(robot), str(file)]
    here = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here / 'tests'}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print("  crocoddyl:", (done.stderr.splitlines() or ["?"])[-1])
        return
    calc, both = map(float, done.stdout.split())
    print(f"  crocoddyl from Python: calc {calc:.1f} us, calc and calcDiff {both:.1f} us")


FIRST = """
import sys, time
sys.path[:0] = {path!r}
import constrained
case = constrained.case_of(constrained.ROBOTS[{robot!r}], {folder!r})
start = time.perf_counter()
f = case.model.function({name!r}, constraints=case.constraints, active=True)
f.prepare("f8")
print(time.perf_counter() - start)
"""


def first_calls(robot: str, folder: Path | None) -> None:
    """Prints seconds until a function is compiled, in a new process with an empty cache."""
    for name in (FORWARD, f"{FORWARD}_derivatives"):
        path = [str(Path(__file__).parent)]
        code = "from pathlib import *\n" + FIRST.format(
            path=path, robot=robot, folder=folder, name=name
        )
        before = os.times()
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "FEATHERLANE_CACHE": cache}
            run = [sys.executable, "-c", code]
            done = subprocess.run(run, capture_output=True, text=True, env=environment, check=True)
        spent = sum(os.times()[2:4]) - sum(before[2:4])
        wall = float(done.stdout)
        print(f"  first call of {name}: {wall:.1f} s by the clock, {spent:.1f} s of the processor")


def counts(case: Case) -> None:
    """Prints operations with masks."""
    for name in (FORWARD, f"{FORWARD}_derivatives", "impulse", "impulse_derivatives"):
        with_masks, without = (
            case.model.graph(name, constraints=case.constraints, active=x).cost().operations
            for x in (True, False)
        )
        more = 100 * (with_masks / without - 1)
        print(f"  {name}: {with_masks:,} operations, masks {more:+.1f} %", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batch", type=int, default=1024)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--robots", type=Path, help="the folder of robots that are not bundled")
    options.add_argument("--eigen", help="the folder of Eigen's headers")
    options.add_argument("--crocoddyl", help="the interpreter of crocoddyl's environment")
    options.add_argument("--first", action="store_true", help="also first calls, a minute a robot")
    options.add_argument("--case", choices=[*ROBOTS], action="append")
    args = options.parse_args()
    loop = library(args.eigen)
    for name in args.case or ROBOTS:
        case = case_of(ROBOTS[name], args.robots)
        if case is None:
            print(f"{name}: {ROBOTS[name].file} is not in the folder --robots")
            continue
        print(name, flush=True)
        counts(case)
        against_cpp(case, loop, args.batch, args.rounds)
        linearisations(case, args.batch, args.rounds)
        alone(case, args.rounds)
        if args.crocoddyl:
            in_crocoddyl(case, args.crocoddyl, args.batch)
        if args.first:
            first_calls(name, args.robots)


if __name__ == "__main__":
    main()
