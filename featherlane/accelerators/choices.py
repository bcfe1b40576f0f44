"""The choices of a design, checked: what one function and several have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.api.model import Model
from featherlane.backends.fpga import boards, devices
from featherlane.backends.fpga.simulation import simulate
from featherlane.errors import one_of, shown
from featherlane.functions.arguments import is_count, is_real
from featherlane.functions.table import Variant
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.program.analysis.modulo import by_call, by_class, whole

LINK = 32.0  # bytes a nanosecond between memory and the streams, as Dadu-RBD (2023) has
DEVICE, CLOCK, FORMAT, POOLS = "xcvu9p", 125.0, "q16.16", "module"  # MHz; what shares multipliers
BOARD_CLOCK = 60.0  # MHz that designs aim at on boards, most of whose devices are of grade 6
BOARD_FORMAT = "fitted18"  # a product takes one of the ECP5's multipliers
BOARD_POOLS = "whole"  # the fewest multipliers and flip-flops, which decide whether wires are found
SIMULATORS = {"verilator": simulate.verilator, "icarus": simulate.icarus}
LONGEST, SLOWEST = 256, 4096  # cycles of an interval: that are tried, that may be asked for
SHARING = {"module": by_call, "class": by_class, "whole": whole}
ARRAYS = LIMBS, COLUMNS = "limbs", "columns"  # what is time-multiplexed, of one function
DATAPATHS = SHARED, MEMORIES = "shared", "memories"  # what stands in front of multipliers
AUTO = "auto"  # what needs less: of datapaths, or of limbs and columns in several functions
NETWORK = "functions"  # of several functions, in names of modules
ALL_FUNCTIONS = "all functions"  # the name of a design of all of them


@dataclass(frozen=True, eq=False)
class DesignSpec:
    """The choices of a design, by the names of the arguments of `accelerator`.

    functions: one of a pipeline; several of a network, `is_network`, whose tasks come in any order.
    interval: the initiation interval, in cycles; clock: MHz. spare, tag_bits: of networks. board:
    the board that the device is on, if any, which says its speed grade.
    """

    functions: tuple[str, ...] = ()
    is_network: bool = False
    interval: int = 1
    format: str = "q16.16"
    device: str = "xcvu9p"
    delays: str | None = None
    clock: float = 125.0
    sharing: str = "module"
    algorithm: str | None = None
    arrays: str | None = None
    datapath: str = SHARED
    f_ext: str | None = None
    frames: tuple[str, ...] = ()
    spare: float = 0.0
    tag_bits: int = 16
    ranges: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    board: str | None = None

    @cached_property
    def target(self) -> devices.Device:
        """The device, at the clock."""
        period = 1e3 / self.clock
        if self.board is not None:
            return boards.board(self.board).target(self.delays, period)
        return devices.load(self.device, self.delays, period)

    def has_units_apart(self, interval: int) -> bool:
        """Whether all modules share units, which then lie apart from them."""
        return interval > 1 and self.sharing == "whole"

    @property
    def label(self) -> str:
        """The functions, in words."""
        every = self.is_network and self.functions == tuple(SHARES)
        return ALL_FUNCTIONS if every else ", ".join(self.functions)

    @property
    def short(self) -> str:
        """The functions, in names of modules."""
        return NETWORK if self.is_network else ", ".join(self.functions)

    @property
    def choices(self) -> dict[str, Any]:
        """The arguments that make the design again, but for the ranges, as JSON has them."""
        head: dict[str, Any] = {"function": ", ".join(self.functions)}
        if self.is_network:
            head = {"functions": [*self.functions], "spare": self.spare, "tag_bits": self.tag_bits}
        return {
            **head, "interval": self.interval, "format": self.format, "device": self.device,
            "delays": self.target.model, "clock": self.clock, "sharing": self.sharing,
            "algorithm": self.algorithm, "f_ext": self.f_ext, "frames": [*self.frames],
            "arrays": self.arrays, "datapath": self.datapath, "board": self.board,
        }  # fmt: skip


class TargetChoices(NamedTuple):
    """The choices that depend on whether a design is for a board, by their names in DesignSpec."""

    device: str
    clock: Any
    format: Any
    sharing: Any
    board: str | None
    datapath: Any


def target_choices(
    board: Any, device: Any, clock: Any, format: Any, sharing: Any, datapath: Any, arrays: Any
) -> TargetChoices:
    """Returns the choices of a design for a board, or for none, with defaults for None. Raises
    ValueError for an unknown board, and for a device that it has not.
    """
    usual = (CLOCK, FORMAT, POOLS) if board is None else (BOARD_CLOCK, BOARD_FORMAT, BOARD_POOLS)
    kind = SHARED if board is None or arrays else AUTO
    clock, format, sharing, datapath = (
        default if x is None else x
        for x, default in zip((clock, format, sharing, datapath), (*usual, kind), strict=True)
    )
    if board is None:
        device = DEVICE if device is None else device
        return TargetChoices(device, clock, format, sharing, None, datapath)
    table = boards.board(board)
    if device not in (None, table.device):
        raise ValueError(
            f"device is {shown(device)}: the {table.name} has an {table.device}; leave device out"
        )
    return TargetChoices(table.device, clock, format, sharing, table.key, datapath)


def checked_spec(
    model: Any,
    *,
    interval: Any,
    device: Any,
    clock: Any,
    format: Any,
    sharing: Any,
    ranges: Any,
    arrays: Any,
    board: Any,
    datapath: Any,
    **others: Any,
) -> DesignSpec:
    """Returns the choices of a design, of one function or of several, with defaults for None; an
    interval of "auto" is the first one that is tried. others: fields of DesignSpec as they are.
    Raises TypeError or ValueError for choices that no design has.
    """
    target = target_choices(board, device, clock, format, sharing, datapath, arrays)
    if is_auto(interval):
        interval = 1 + (target.datapath == MEMORIES)
    check_choices(model, interval, target.sharing, target.clock)
    check_datapath(target.datapath, interval, arrays)
    return DesignSpec(
        interval=int(interval),
        format=target.format,
        device=target.device,
        clock=float(target.clock),
        sharing="whole" if arrays else target.sharing,
        arrays=arrays,
        datapath=target.datapath,
        ranges={} if ranges is None else ranges,
        board=target.board,
        **others,
    )


def is_auto(choice: Any) -> bool:
    """Whether a choice is left to the search."""
    return isinstance(choice, str) and choice == AUTO


def check_choices(model: Any, interval: Any, sharing: Any, clock: Any) -> None:
    """Raises TypeError or ValueError for choices that no design has."""
    if not isinstance(model, Model):
        raise TypeError(f"model is {shown(model)}: wanted a Model, as fl.load gives it")
    if not is_count(interval) or interval > SLOWEST:
        raise ValueError(
            f"interval is {shown(interval)}: wanted a whole number of cycles, 1 to {SLOWEST}, or "
            f"{AUTO!r}"
        )
    if not isinstance(sharing, str) or sharing not in SHARING:
        raise ValueError(f"sharing is {shown(sharing)}: {one_of(sharing, SHARING)}")
    if not is_real(clock, 1, 2000):
        raise ValueError(f"clock is {shown(clock)}: wanted MHz, from 1 to 2000")


def check_datapath(datapath: Any, interval: Any, arrays: str | None) -> None:
    """Raises ValueError for a datapath that is none, or that the other choices exclude."""
    known = (*DATAPATHS, AUTO)
    if not isinstance(datapath, str) or datapath not in known:
        raise ValueError(f"datapath is {shown(datapath)}: {one_of(datapath, known)}")
    if datapath != SHARED and arrays:
        raise ValueError(
            f"datapath is {datapath!r} and arrays {arrays!r}: arrays share multipliers"
        )
    if datapath == MEMORIES and interval == 1:
        raise ValueError("datapath is 'memories' at interval 1: wanted an interval of 2 or more")


def with_wrenches(variant: Variant, f_ext: Any, frames: Any) -> Variant:
    """Returns a variant with wrenches in the axes `f_ext`, at `frames`. Raises ValueError or
    TypeError unless these are axes and names of frames.
    """
    several = isinstance(frames, Iterable) and not isinstance(frames, str)
    if not several or not all(isinstance(name, str) for name in frames):
        raise TypeError(f"frames is {shown(frames)}: wanted a list of names of frames")
    if f_ext not in (None, *WRENCH_FRAMES):
        raise ValueError(f"f_ext is {shown(f_ext)}: wanted None, 'body' or 'world'")
    if frames and f_ext is None:
        raise ValueError("frames without f_ext: wanted the axes of wrenches, such as f_ext='body'")
    if len({*frames}) < len(frames):
        raise ValueError(f"frames is {shown(frames)}: wanted each frame once")
    return variant._replace(wrenches=f_ext, at=tuple(frames))
