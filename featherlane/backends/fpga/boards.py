"""Boards: the device of each, its oscillator, and the pins of its serial port, as tables in the
folder `boards`. A new board is a new table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from featherlane.backends.fpga.devices import Device, load
from featherlane.errors import did_you_mean, nearest, shown

FOLDER = files("featherlane.backends.fpga") / "boards"
OSCILLATOR, RECEIVE, TRANSMIT, LED = "oscillator", "rx", "tx", "led"
PINS = OSCILLATOR, RECEIVE, TRANSMIT, LED
NONE: Mapping[str, str] = MappingProxyType({})


class CircuitBoard(NamedTuple):
    """A board with an ECP5.

    key: the name of its table. device: the name of its device's table; family: "" of the LFE5U, or
    "um" or "um5g"; package, grade: as nextpnr names them. oscillator: MHz. baud: of the serial
    port, 3,000,000 where its part is documented to do it, else 1,000,000. pins: the ports of PINS,
    as balls of the package; high: ports that are 1 all the time, as balls; io_types: the standards
    of both. loader: the words before a bitstream that load it.
    """

    key: str
    name: str
    device: str
    package: str
    grade: int
    oscillator: float
    baud: int
    pins: Mapping[str, str]
    io_types: Mapping[str, str]
    loader: tuple[str, ...]
    family: str = ""
    aliases: tuple[str, ...] = ()
    high: Mapping[str, str] = NONE

    def target(self, model: str | None, clock: float) -> Device:
        """The board's device at its grade. model: of delays; clock: nanoseconds a cycle."""
        return load(self.device, model, clock, self.grade)

    @property
    def usable(self) -> float:
        """The part of a clock that routing reached which the PLL is set to: its shortest cycle by
        the device's jitter is then as long as routing needs.
        """
        return 1 - load(self.device).jitter / 100


@cache
def tables() -> Mapping[str, CircuitBoard]:
    """All boards by the names of their tables."""
    names = sorted(f.name.removesuffix(".toml") for f in FOLDER.iterdir() if f.name[-5:] == ".toml")
    return {name: _board(name) for name in names}


def _board(key: str) -> CircuitBoard:
    data: dict[str, Any] = tomllib.loads((FOLDER / f"{key}.toml").read_text(encoding="utf-8"))
    standard, special = data.pop("io_type"), data.pop("io_types", {})
    io_types = {name: special.get(name, standard) for name in (*PINS, *data.get("high", {}))}
    for name in ("loader", "aliases"):
        data[name] = tuple(data.get(name, ()))
    return CircuitBoard(key, **data, io_types=io_types)


def board(name: Any) -> CircuitBoard:
    """Returns a board by the name of its table or an alias. Raises ValueError for others."""
    known = {alias: b for b in tables().values() for alias in (b.key, *b.aliases)}
    if not isinstance(name, str) or name not in known:
        # One name of each board that may be meant
        close = [near for b in tables().values() for near in nearest(name, (*b.aliases, b.key), 1)]
        listed = ", ".join(map(repr, known))
        wanted = f"wanted one of {listed}{did_you_mean(name, close)}"
        raise ValueError(f"board is {shown(name)}: {wanted}")
    return known[name]
