"""The organisation of an accelerator by the structure of a robot: its root, its arrays, and which
limbs share one (Dadu-RBD, 2023, section V-C and figure 11).

Every decision is made by what it costs: the root by the cycles of the critical path, shared or
separate arrays by the DSPs and LUTs that an estimate gives for them at the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Generic, TypeVar

from featherlane.accelerators.organise.array_choices import ArrayChoice, array_choices
from featherlane.accelerators.organise.array_stations import StationArrays, station_arrays
from featherlane.accelerators.organise.arrays import (
    COMPUTED,
    PRESCRIBED,
    Arrays,
    Assign,
    arrays,
    in_q16,
)
from featherlane.accelerators.organise.columns import are_columns_multiplexed, split_columns
from featherlane.accelerators.organise.limb_sharing import multiplexed_groups
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.accelerators.organise.roots import MODES, RootChoice, rooted
from featherlane.backends.fpga.devices import Device, load
from featherlane.backends.fpga.text import every
from featherlane.errors import one_of, shown
from featherlane.robot.chains import Alike
from featherlane.robot.editing.physics import with_physics
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.walk import children

Cut = TypeVar("Cut", bound=Arrays)


SWEEPS = "inverse_dynamics", "inverse_dynamics_derivatives", "mass_matrix"
"""The functions whose roots may be prescribed."""


@dataclass(frozen=True, eq=False)
class Organisation:
    """The arrays of a robot's function, and the reasons for them.

    model: the robot that they compute, at the root that was chosen; before: the robot as it came.
    roots: what was compared, the chosen one first. mode: of the root, "computed", "prescribed" or
    "ignored". design: the function cut into these arrays. reasons: of each decision, a sentence.
    """

    model: Robot
    before: Robot
    function: str
    interval: int
    mode: str
    roots: tuple[RootChoice, ...]
    arrays: tuple[ArrayChoice, ...]
    design: Arrays
    reasons: tuple[str, ...]

    @property
    def root(self) -> str:
        """The root body."""
        return self.model.bodies[0].name

    @cached_property
    def below(self) -> Mapping[int, list[int]]:
        """The arrays on each one; those of WORLD stand on the ground."""
        return children([array.parent for array in self.arrays])

    def __str__(self) -> str:
        lines = [f"{self.function} of {self.model.name}, a state {every(self.interval)}"]

        def enter(number: int, indent: str) -> None:
            x = self.arrays[number]
            often = f"one {every(x.interval)}"
            multiplexed = f", {x.slots} time-multiplexed, {often}" if x.is_shared else ""
            lanes = f" on {x.lanes} lanes" if x.lanes > 1 else ""
            described = f"{len(x.limbs[0])} joints, {x.products:,} products{multiplexed}{lanes}"
            lines.append(f"{indent}{x.name}: {described}")
            for child in self.below[number]:
                enter(child, indent + "  ")

        for first in self.below[WORLD]:
            enter(first, "  ")
        return "\n".join([*lines, *self.reasons])


def organise(
    model: Robot,
    function: str = "inverse_dynamics_derivatives",
    *,
    interval: int = 12,
    root: str | None = None,
    mode: str = COMPUTED,
    device: str = "xcvu9p",
    clock: float = 125.0,
    algorithm: str | None = None,
) -> Organisation:
    """Returns the organisation of a function of a robot.

    function: one of those of `fl.multifunction`. interval: cycles from one state to the next. root:
    the root body of a robot on a free joint, by name; by default the one with the shortest path of
    the present one and the middle of the tree, if it takes no more products. mode: "computed";
    "prescribed", with the motion of the root given and its forces not computed (of inverse
    dynamics, its derivatives and M); or "ignored", with the root fixed where it is at q = 0. clock:
    MHz. algorithm: as of `fl.accelerator`. Friction, which has no circuit, is left to the host.

    Where the root moves, the design takes and gives the coordinates of `model` of the result:
    `featherlane.editing.rerooting(before, root)` converts states, forces and M on the host. Raises
    ValueError for unknown arguments.
    """
    target = load(device, clock=1e3 / clock)
    return function_organiser(model, function, target, root, mode, algorithm).at(interval)


class KeptCuts(Generic[Cut]):
    """The cuts of a robot that organisations choose from, each made once.

    make: cuts; its option `shared` tells which groups of limbs have one circuit, by default all,
    and `multiplexed`, of several functions, whether columns have one, by default they do.
    """

    def __init__(self, make: Callable[..., Cut], has_columns: bool = False) -> None:
        self._make, self._has_columns = make, has_columns
        self._partly: dict[tuple[Hashable, ...], Cut] = {}  # partially shared

    @cached_property
    def unshared(self) -> Cut:
        """A circuit for each limb and each column."""
        options = {"multiplexed": False} if self._has_columns else {}
        return self._make(shared=lambda group: False, **options)

    @cached_property
    def fully_shared(self) -> Cut:
        """A circuit for all limbs that are alike, and for all such columns."""
        return self._make()

    def partly_shared(self, members: frozenset[Alike], **multiplexed: bool) -> Cut:
        """A circuit for all limbs of some groups, and one for each limb of others. multiplexed:
        whether columns that are alike have one circuit, where there are columns.
        """
        several = {group for group in self.fully_shared.groups if len(group.members) > 1}
        if members == several and all(multiplexed.values()):
            return self.fully_shared
        if not members and not any(multiplexed.values()):
            return self.unshared
        key = members, *multiplexed.values()
        if key not in self._partly:
            self._partly[key] = self._make(shared=members.__contains__, **multiplexed)
        return self._partly[key]


@dataclass(frozen=True, kw_only=True)
class Organiser(Generic[Cut]):
    """Makes the organisations of a design at several intervals, which share their cuts.

    model: the robot at the root of the circuits; before: as it came. label: of the functions. mode:
    of the root; roots: the bodies that were compared. reasons: of decisions that hold at all
    intervals.
    """

    model: Robot
    before: Robot
    label: str
    device: Device
    cuts: KeptCuts[Cut]
    mode: str = COMPUTED
    roots: tuple[RootChoice, ...] = ()
    reasons: Sequence[str] = ()

    def at(self, interval: int) -> Organisation:
        """Returns the organisation at an interval, cycles from one task to the next. The products
        of an array are those of both stations' sweeps together.
        """
        if not isinstance(interval, int) or interval < 1:
            raise ValueError(f"interval is {shown(interval)}: wanted a whole number of cycles")
        unshared, fully_shared = self.cuts.unshared, self.cuts.fully_shared
        reasons = [*self.reasons]
        options = interval, self.device, reasons
        kept = multiplexed_groups(fully_shared, unshared, *options)
        members = frozenset(fully_shared.groups[number] for number in kept)
        if not fully_shared.columns:
            cut = self.cuts.partly_shared(members)
        else:
            multiplexed = are_columns_multiplexed(fully_shared.columns, *options)
            cut = self.cuts.partly_shared(members, multiplexed=multiplexed)
            if multiplexed:
                cut = replace(cut, columns=split_columns(cut.columns, *options))
        choices = tuple(array_choices(cut, unshared, kept, interval))
        head = self.model, self.before, self.label, interval, self.mode, self.roots
        return Organisation(*head, choices, cut, tuple(reasons))


def function_organiser(
    model: Robot,
    function: str,
    device: Device,
    root: str | None = None,
    mode: str = COMPUTED,
    algorithm: str | None = None,
    assign: Assign = in_q16,
) -> Organiser[Arrays]:
    """Returns the organiser of one function. The arguments are those of `organise`."""
    if not isinstance(model, Robot):
        raise TypeError(f"model is {shown(model)}: wanted a Model, as fl.load gives it")
    if mode not in MODES:
        raise ValueError(f"mode is {shown(mode)}: {one_of(mode, MODES)}")
    wanted = SWEEPS if mode == PRESCRIBED else tuple(SHARES)
    if function not in wanted:
        raise ValueError(f"function is {shown(function)}: {one_of(function, wanted)}")
    reasons = list[str]()
    plain = _without_friction(model, reasons)
    rooted_model, roots = rooted(plain, root, mode, device, reasons)
    prescribed = PRESCRIBED if mode == PRESCRIBED else COMPUTED
    cut = partial(arrays, rooted_model, function, algorithm, prescribed, assign=assign)
    return Organiser(
        model=rooted_model,
        before=model,
        label=function,
        device=device,
        cuts=KeptCuts(cut),
        mode=mode,
        roots=roots,
        reasons=reasons,
    )


def functions_organiser(
    model: Robot, functions: Collection[str], device: Device, assign: Assign = in_q16
) -> Organiser[StationArrays]:
    """Returns the organiser of several functions in one design, some of those of
    `fl.multifunction`; M^-1 is by the factor of M. assign: gives the formats.
    """
    cuts = KeptCuts(partial(station_arrays, model, functions, assign=assign), has_columns=True)
    label = f"{len(functions)} functions"
    return Organiser(model=model, before=model, label=label, device=device, cuts=cuts)


def _without_friction(model: Robot, reasons: list[str]) -> Robot:
    """Returns the robot without friction, springs and stops, which the host adds, and says so."""
    if any(any(joint.friction) for joint in model.joints):
        reasons.append("Friction has no circuit: the host adds it, joint by joint.")
        model = with_physics(model, friction=0.0)
    if model.stiffness.any():
        reasons.append("Springs have no circuit: the host adds them, joint by joint.")
        model = with_physics(model, stiffness=0.0)
    if any(joint.limit_stiffness for joint in model.joints):
        reasons.append("Soft limits have no circuit: the host adds their forces, joint by joint.")
        joints = (replace(joint, limit_stiffness=0.0) for joint in model.joints)
        model = replace(model, joints=tuple(joints))
    return model
