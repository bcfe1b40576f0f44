"""How fast is constrained forward dynamics, with forces and all derivatives, beside Pinocchio's?

One thread, both on the same states in alternating passes, by processor time: a loop in C++ over
constraintDynamics and computeConstraintDynamicsDerivatives that stores its results, compiled here,
and featherlane's kernels in float64 and float32. The results are compared first.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from suite.peers.native import shared_library
from suite.peers.with_pinocchio import EIGEN, LIBRARIES, NATIVE, prefix

import featherlane as fl
from featherlane.robot.parts import Frame, Placement

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from peer_models import pinocchio_model

SOURCE = Path(__file__).parent / "suite" / "peers" / "constrained_loop.cpp"
LEGS = ("lf_lowerleg", "rf_lowerleg", "lh_lowerleg", "rh_lowerleg")


class Case(NamedTuple):
    model: fl.Model
    constraints: fl.Constraints
    rows: int  # of each contact


def bare(name: str) -> fl.Model:
    """A robot on a free root without damping and friction, which Pinocchio does not count here."""
    model = fl.load(name, root="free")
    joints = tuple(replace(j, damping=(), friction=(), mimic=None) for j in model.joints)
    return replace(model, joints=joints)


def quadruped() -> Case:
    """HyQ on four points."""
    model = bare("hyq")
    feet = [
        Frame(f"{leg}_foot", model.frame(leg).body, Placement.of(np.eye(3), [0.35, 0, 0]))
        for leg in LEGS
    ]
    model = replace(model, frames=(*model.frames, *feet))
    return Case(model, model.constraints([fl.Pin(foot.name) for foot in feet]), 3)


def humanoid() -> Case:
    """The G1 on two flat feet."""
    model = bare("g1")
    feet = [f for f in model.frame_names if f.endswith("ankle_roll_link")]
    return Case(model, model.constraints([fl.Weld(foot) for foot in feet]), 6)


CASES = {"HyQ, 4 points": quadruped, "G1, 2 welds": humanoid}


def library(eigen: str | None) -> ctypes.CDLL:
    """The loop over Pinocchio."""
    at = prefix()
    if at is None:
        raise SystemExit("pinocchio is not installed: pip install pin")
    folders = [Path(eigen)] if eigen else [at / "include/eigen3", *EIGEN]
    found = next((x for x in folders if (x / "Eigen/Core").exists()), None)
    if found is None:
        raise SystemExit("Eigen's headers are not here: name their folder by --eigen")
    flags = ["-std=c++17", "-O3", "-DNDEBUG", *NATIVE, f"-I{at}/include", f"-I{found}"]
    flags += ["-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS", "-DBOOST_MPL_LIMIT_LIST_SIZE=30"]
    flags += ["-DBOOST_MPL_LIMIT_VECTOR_SIZE=30", "-DBOOST_FUSION_INVOKE_MAX_ARITY=12"]
    link = [f"-L{at}/lib", *LIBRARIES, f"-Wl,-rpath,{at}/lib"]
    made, _ = shared_library(SOURCE.read_text(), flags, link)
    return ctypes.CDLL(str(made))


def peer(
    loop: ctypes.CDLL, case: Case, states: list[np.ndarray], outputs: list[np.ndarray]
) -> Callable[[], None]:
    """A pass of Pinocchio over the states."""
    places = [place.frame for place in case.constraints.places]
    joints = np.array([frame.body + 1 for frame in places], np.int64)
    at = [[*f.placement.p, *np.ravel(f.placement.R)] for f in places]
    placements = np.array(at, float)
    file = Path(tempfile.mkdtemp()) / "robot.txt"
    pinocchio_model(case.model).saveToText(str(file))
    pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    arrays = (ctypes.c_void_p * len(outputs))(*[x.ctypes.data for x in outputs])
    given = [ctypes.c_char_p(str(file).encode()), ctypes.c_long(len(joints))]
    given += [ctypes.c_long(case.rows), pointer(joints), pointer(placements)]
    given += [ctypes.c_long(len(states[0])), *map(pointer, states), arrays]
    given.append(ctypes.c_long(len(outputs)))
    return lambda: loop.constrained(*given)


def empty(case: Case, batch: int, derivatives: bool, dtype: str) -> list[np.ndarray]:
    n, m = case.model.nv, case.constraints.rows
    shapes = [(n,), (m,)] + derivatives * [(n, n)] * 3 + derivatives * [(m, n)] * 3
    return [np.empty((batch, *shape), dtype) for shape in shapes]


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def measured(case: Case, loop: ctypes.CDLL, batch: int, rounds: int, derivatives: bool) -> list:
    """The shortest processor times of a state, us: Pinocchio, ours in float64 and float32."""
    model, rng = case.model, np.random.default_rng(0)
    q = model.random_configuration(batch, seed=0)
    states = [q, *(rng.normal(size=(batch, model.nv)) for _ in range(2))]
    name = "constrained_forward_dynamics" + "_derivatives" * derivatives
    active = np.ones((batch, case.constraints.count))
    theirs = empty(case, batch, derivatives, "f8")
    runs, ours = [peer(loop, case, states, theirs)], {}
    for dtype in ("f8", "f4"):
        given = [x.astype(dtype) for x in (*states, active)]
        outputs = ours[dtype] = tuple(empty(case, batch, derivatives, dtype))
        call = model.function(name, constraints=case.constraints, active=True)
        runs.append(lambda given=given, out=outputs, call=call: call(*given, out=out, threads=1))
    for run in runs:
        run()
    scale = np.abs(theirs[0]).max(1)
    if case.rows == 3:  # welds differ where the feet turn, see docs/constraints.md
        error = (np.abs(ours["f8"][0] - theirs[0]).max(1) / scale).max()
        print(f"    largest difference of a: {error:.0e}")
    best = [
        min(times)
        for times in zip(*[[seconds(r) for r in runs] for _ in range(rounds)], strict=True)
    ]
    return [1e6 * x / batch for x in best]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batch", type=int, default=1024)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--eigen", help="the folder of Eigen's headers")
    options.add_argument("--case", choices=[*CASES], action="append")
    args = options.parse_args()
    loop = library(args.eigen)
    for name in args.case or CASES:
        for derivatives in (False, True):
            case = CASES[name]()
            print(f"{name}, {'with all derivatives' if derivatives else 'values'}", flush=True)
            first, *own = measured(case, loop, args.batch, args.rounds, derivatives)
            ratios = [f"{x:.3f} us ({first / x:.1f}x)" for x in own]
            print(f"    Pinocchio {first:.2f} us, f64 {ratios[0]}, f32 {ratios[1]}", flush=True)


if __name__ == "__main__":
    main()
