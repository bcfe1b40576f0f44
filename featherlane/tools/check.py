"""Compares functions with those of other libraries, the peers, at random states of a robot file.

A block is a result of a function, or one of its derivatives. The error of a block in a state is the
largest difference from the peer's block, relative to the largest entry of the block in that state.
A block that is zero but for rounding (below NOISE times the function's largest entry in any state,
and NOISE times the force of a unit acceleration) is divided by that bound instead. The error may be
BASE: 1e-10 in float64, 1e-5 in float32. Functions that divide by the mass matrix M lose cond(M)
digits in any library, so their error may be SLACK eps cond(M) if that is larger, with cond(M) of
that state and eps of the dtype. If eps cond(M) exceeds 1, no digit is left, and where M is not
positive definite, forward dynamics is NaN: such states are counted and excluded from these
functions.

Peers have no damping and no friction; their torques are added to the peer's. Where derivatives
differ by more than the limit, dual numbers decide (`exact_derivatives`): if ours agree with them,
the difference is the peer's rounding, and the report says so.

In float32 the inputs are rounded first, and the peer computes in float64 from the rounded inputs,
so that the error is that of the computation alone. For the same reason a right angle that the file
gives with eleven digits, which `load` makes exact, becomes exact in Pinocchio, too, if same_angles.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from featherlane.api.model import Model, load
from featherlane.errors import one_of
from featherlane.functions.array_like import WrenchFrame
from featherlane.functions.functions_of import functions_of, left_out
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.robot.loaders import xml_text
from featherlane.robot.loaders.roots import Root
from featherlane.tools.exact_derivatives import state_derivatives
from featherlane.tools.measures import conditioning, largest_entry
from featherlane.tools.peers import PEERS, Blocks, Projected, Resisted, States, independent
from featherlane.tools.timing import Progress

Case = tuple[str, WrenchFrame | None]  # a function and the axes of f_ext, None without
Evaluate = Callable[[Model, str, WrenchFrame | None, Sequence[np.ndarray]], Any]

BASE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
SLACK = 10.0
NOISE = 1e-4  # relative to a function's largest entry: a smaller block is zero but for rounding
SLOPES = ("dtau_dq", "dtau_dv", "da_dq", "da_dv")  # blocks that dual numbers give, too


@dataclass(frozen=True)
class ComparedBlock:
    """The largest error of one block of a function, and the state in which it occurs."""

    function: str
    block: str
    f_ext: WrenchFrame | None  # the frame of the external forces, None without
    error: float
    state: int  # which of the random states has that error
    limit: float  # what the rule allows there
    share: float  # the largest ratio of error and limit in any state
    exact: float | None = (
        None  # the ratio beside dual numbers, of derivatives whose share is above 1
    )

    @property
    def passed(self) -> bool:
        return self.share <= 1 or self.is_rounding_of_the_peer

    @property
    def is_rounding_of_the_peer(self) -> bool:
        return self.exact is not None and self.exact <= 1


@dataclass(frozen=True)
class CheckReport:
    """The result of `check`. `robot`, `states` and `seed` reproduce the random states."""

    robot: str
    root: str
    against: str
    version: str
    dtype: str
    states: int
    seed: int
    condition: float  # the largest cond(M) of the states
    singular: int  # states in which M is singular in this dtype, or not positive definite
    indefinite: int  # those in which M is not positive definite
    adjusted: int  # joints of the peer whose rounded right angles became exact
    rows: tuple[ComparedBlock, ...]
    unavailable: tuple[str, ...]  # functions that the peer does not have
    notes: tuple[str, ...] = ()  # differences of the compared robot from the file

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)

    @property
    def worst(self) -> dict[str, float]:
        """The largest error of each function, over its blocks and the frames of f_ext."""
        worst: dict[str, float] = {}
        for row in self.rows:
            worst[row.function] = float(np.fmax(worst.get(row.function, 0.0), row.error))
        return worst

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {
                **asdict(row),
                "is_rounding_of_the_peer": row.is_rounding_of_the_peer,
                "passed": row.passed,
            }
            for row in self.rows
        ]
        return {**asdict(self), "rows": rows, "passed": self.passed}

    def __str__(self) -> str:
        title = (
            f"{self.robot}, {self.root} root, {self.dtype}, against {self.against} {self.version}: "
            f"{self.states} states (seed {self.seed}), cond(M) up to {self.condition:.1e}"
        )
        head = f"  {'function':34} {'block':8} {'f_ext':6} {'error':>8} {'limit':>8} {'state':>6}"
        lines = [title, head]
        for row in self.rows:
            place = f"{row.function:34} {row.block:8} {row.f_ext or '-':6}"
            lines.append(
                f"  {place} {row.error:8.1e} {row.limit:8.1e} {row.state:6}{_verdict(row)}"
            )
        if any(row.is_rounding_of_the_peer for row in self.rows):
            lines.append(f"  *: {self.against} rounds; ours agree with dual numbers to the limit")
        if self.adjusted:
            angles = f"{self.adjusted} joints have right angles that the file rounds"
            lines.append(f"  {angles}: they are exact in both")
        if self.singular:
            singular = f"M is singular in {self.singular} of {self.states} states"
            lines.append(f"  {singular}: they are left out of what divides by M")
        if self.indefinite:
            lines.append(
                f"  M is not positive definite in {self.indefinite} of these: FD is NaN there"
            )
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {name:34} not available in {self.against}" for name in self.unavailable]
        failed = sum(not row.passed for row in self.rows)
        lines.append(f"{failed} of {len(self.rows)} comparisons failed" if failed else "all agree")
        return "\n".join(lines)


def _verdict(row: ComparedBlock) -> str:
    if row.is_rounding_of_the_peer:
        return " *"
    return "" if row.passed else "  TOO LARGE"


def check(
    source: str | os.PathLike[str],
    root: Root | None = None,
    *,
    against: str = "pinocchio",
    states: int = 100,
    seed: int = 0,
    dtype: Any = np.float64,
    functions: Sequence[str] | None = None,
    f_ext: Sequence[WrenchFrame | None] = (None, *WRENCH_FRAMES),
    same_angles: bool = True,
    progress: Progress = lambda step: None,
    evaluate: Evaluate | None = None,
    xacro_args: Mapping[str, Any] | None = None,
    packages: Sequence[str | os.PathLike[str]] = (),
) -> CheckReport:
    """Compares the seven functions, or some of them, with the results of a peer.

    source, root, xacro_args, packages: as in `load`; the peer reads the same text. functions:
    names, by default all that the robot has. f_ext: the frames in which external forces are
    expressed; None compares without forces. same_angles: see above. progress: a function of the
    next comparison's name. evaluate: computes a function from (model, name, frame of f_ext, inputs)
    in place of the compiled code.

    Raises RuntimeError where the peer is not installed or does not load the robot, ValueError for
    an unknown peer, dtype or function.
    """
    if against not in PEERS:
        raise ValueError(f"against is {against!r}: {one_of(against, PEERS)}")
    dtype = np.dtype(dtype)
    if dtype not in BASE:
        raise ValueError(f"dtype is {dtype}: wanted float64 or float32")
    if unknown := set(functions or ()) - set(FUNCTIONS):
        raise ValueError(f"functions has {min(unknown)!r}: {one_of(min(unknown), FUNCTIONS)}")
    model = load(source, root=root, xacro_args=xacro_args, packages=packages, loops="keep")
    notes: list[str] = []
    if not functions:
        functions = functions_of(model)
        notes += left_out(model)
    if model.armature.any():
        notes.append("armature is in both")
    peer = _peer(against, xml_text(source, xacro_args, packages), model, same_angles, notes)
    drawn = _without_unloaded(random_states(model, states, seed, dtype), peer, model, notes)
    compared = _Comparison(model, peer, drawn, dtype, evaluate or _compiled)
    cases = [
        (name, frame)
        for name, frame in product(functions, f_ext)
        if name in peer.functions and (frame is None or "f_ext" in FUNCTIONS[name].takes)
    ]
    return CheckReport(
        robot=model.name,
        root=str(model.root),
        against=against,
        version=peer.version,
        dtype=str(dtype),
        states=states,
        seed=seed,
        condition=float(compared.condition.max()),
        adjusted=peer.adjusted,
        singular=int(np.sum(compared.singular)),
        indefinite=int(np.sum(compared.indefinite)),
        rows=tuple(compared.rows(cases, progress)),
        unavailable=tuple(x for x in functions if x not in peer.functions),
        notes=tuple(notes),
    )


def _peer(
    against: str,
    document: tuple[bytes, str | None],
    model: Model,
    same_angles: bool,
    notes: list[str],
) -> Any:
    """The robot in another library, with results in the coordinates of the model."""
    every, (text, path) = independent(model), document
    peer = PEERS[against](text, every, same_angles, path)
    notes += getattr(peer, "warnings", [])
    if every.damping.any() or every.friction.any() or every.stiffness.any():
        peer = Resisted(peer, every)
    if every.damping.any() or every.friction.any():
        notes.append(f"{against} has no damping and no friction: their torques are added to it")
    if every.stiffness.any():
        notes.append(f"{against} has no joint springs: their torques are added to it")
    if every == model:
        return peer
    notes.append("joints that follow others are projected from the peer's independent ones")
    return Projected(peer, model)


def _without_unloaded(states: States, peer: Any, model: Model, notes: list[str]) -> States:
    """The states, without forces on bodies to which the peer cannot apply any."""
    states.f_ext[:, list(peer.unloaded)] = 0.0
    if peer.unloaded:
        names = ", ".join(model.body_names[i] for i in peer.unloaded)
        notes.append(f"no f_ext acts on bodies between joints in series: {names}")
    return states


class _Comparison:
    """A robot and a peer at the same states. condition: cond(M) in each state."""

    def __init__(
        self, model: Model, peer: Any, states: States, dtype: np.dtype, evaluate: Evaluate
    ) -> None:
        self.model, self.peer, self.dtype, self.evaluate = model, peer, dtype, evaluate
        M = peer.mass_matrix(states, None)["M"]
        self.force = float(np.abs(M).max())  # the largest force of a unit acceleration
        self.condition = np.linalg.cond(M)
        # in these states M leaves no digit to a quotient; a NaN counts as singular
        self.indefinite = np.isinf(conditioning(M))
        self.singular = ~(np.finfo(dtype).eps * self.condition <= 1) | self.indefinite
        with np.errstate(all="ignore"):
            minv = peer.mass_matrix_inverse(states, None)["Minv"]
        self.states = states._replace(minv=_rounded(minv, dtype))

    def rows(self, cases: Sequence[Case], progress: Progress) -> Iterator[ComparedBlock]:
        for n, (name, frame) in enumerate(cases, 1):
            progress(f"{name}{f', f_ext {frame}' if frame else ''} ({n} of {len(cases)})")
            with np.errstate(all="ignore"):  # states with a singular M, which are excluded
                expected = getattr(self.peer, name)(self.states, frame)
                rows = [*self._compare(name, frame, self._blocks(name, frame), expected)]
            yield from rows

    def _inputs(self, name: str, frame: WrenchFrame | None) -> dict[str, np.ndarray]:
        names = [*FUNCTIONS[name].inputs, *(["f_ext"] if frame else [])]
        return {x: getattr(self.states, x) for x in names}

    def _blocks(self, name: str, frame: WrenchFrame | None) -> Blocks:
        inputs = [x.astype(self.dtype) for x in self._inputs(name, frame).values()]
        results = self.evaluate(self.model, name, frame, inputs)
        results = results if isinstance(results, tuple) else (results,)
        return dict(zip(FUNCTIONS[name].outputs, results, strict=True))

    def _compare(
        self, name: str, frame: WrenchFrame | None, blocks: Blocks, expected: Blocks
    ) -> Iterator[ComparedBlock]:
        limits = np.full(len(self.condition), BASE[self.dtype])
        used, unit = np.full(len(self.condition), True), self.force
        if FUNCTIONS[name].divides:
            limits = np.maximum(limits, SLACK * np.finfo(self.dtype).eps * self.condition)
            used, unit = ~self.singular, 1.0
        if not used.any():
            return
        largest = {block: largest_entry(x) for block, x in expected.items()}
        floor = NOISE * max(unit, *(float(x[used].max()) for x in largest.values()))
        for block, x in blocks.items():
            difference = largest_entry(x.astype(np.float64) - expected[block])
            error = difference / np.maximum(largest[block], floor)
            error = np.where(np.isnan(error), np.inf, error)
            error[~used] = 0.0
            at, share = int(np.argmax(error)), float(np.max(error / limits))
            row = ComparedBlock(name, block, frame, float(error[at]), at, float(limits[at]), share)
            if share > 1 and block in SLOPES:
                size = np.maximum(largest[block], floor) * limits
                row = replace(row, exact=self._beside_dual_numbers(row, x, size, error > limits))
            yield row

    def _beside_dual_numbers(
        self, row: ComparedBlock, x: np.ndarray, size: np.ndarray, states: np.ndarray
    ) -> float:
        """Returns the largest ratio of error and limit of derivatives beside those of dual numbers,
        in some states. size: the errors that are allowed.
        """
        name = row.function.removesuffix("_derivatives")
        if name.endswith("_from"):
            name = "inverse_dynamics"  # whose derivatives are multiplied by minv
        inputs = self._inputs(row.function, row.f_ext)
        minv = inputs.pop("minv", None)
        inputs = {key: array[states] for key, array in inputs.items()}
        dq, dv = state_derivatives(
            self.model, Variant(name, row.f_ext), inputs, np.arange(self.model.nv)
        )
        exact = dq if row.block.endswith("dq") else dv
        if minv is not None:
            exact = -minv[states] @ exact
        error = largest_entry(x[states].astype(float) - exact) / size[states]
        return float(np.nan_to_num(error, nan=np.inf).max())


def comparable(model: Model) -> tuple[Model, list[str]]:
    """Returns the robot without damping, friction and springs, for measurements beside libraries
    that have none, and notes on what changed.
    """
    if not (model.damping.any() or model.friction.any() or model.stiffness.any()):
        return model, []
    joints = tuple(replace(joint, damping=(), friction=(), stiffness=()) for joint in model.joints)
    return replace(model, joints=joints), ["damping, friction and springs are switched off"]


def _rounded(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return x.astype(dtype).astype(np.float64)


def random_states(model: Model, count: int, seed: int, dtype: np.dtype) -> States:
    """Random states: q by `random_configuration`, the other inputs normally distributed."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(count, seed=rng)
    v, a, tau = rng.normal(size=(3, count, model.nv))
    f_ext = rng.normal(size=(count, model.nbodies, 6))
    q, v, a, tau, f_ext = (_rounded(x, dtype) for x in (q, v, a, tau, f_ext))
    return States(q, v, a, tau, f_ext, np.empty((count, 0, 0)))


def _compiled(
    model: Model, name: str, frame: WrenchFrame | None, inputs: Sequence[np.ndarray]
) -> Any:
    return model.function(name, frame)(*inputs)
