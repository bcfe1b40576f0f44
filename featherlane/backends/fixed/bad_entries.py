"""Errors about one entry of a user's batch of inputs: which state it is of, what came, and what a
format holds, or was assigned for.
"""

from __future__ import annotations

from math import pi, prod
from typing import Any, NamedTuple

import numpy as np

ANGULAR = ("q", "v")  # inputs whose entries may be angles, or their velocities
WIDENED = "ranges= of fl.accelerator, fl.multifunction or model.function widens it"


class EntryPlace(NamedTuple):
    """An entry of an input in a batch. shape: of the array as it was passed, (..., *core); core: of
    one state; lead: the leading dimensions of all inputs, broadcast; state: in C order of these;
    position: in a state, in C order.
    """

    name: str
    shape: tuple[int, ...]
    core: tuple[int, ...]
    lead: tuple[int, ...]
    state: int
    position: int

    def __str__(self) -> str:
        """As "q[17, 0] (state 17)": the index in the user's array, and the state if not all states
        have this entry.
        """
        lead = self.shape[: len(self.shape) - len(self.core)]  # of this array alone
        state = np.unravel_index(self.state, self.lead)
        there = state[len(state) - len(lead) :]
        index = [0 if size == 1 else at for size, at in zip(lead, there, strict=True)]
        entry = _listed([*index, *np.unravel_index(self.position, self.core)])
        text = f"{self.name}[{entry}]" if entry else self.name
        return f"{text} (state {_listed(state)})" if prod(lead) > 1 else text


def _listed(index: Any) -> str:
    return ", ".join(str(int(at)) for at in index)


class BeyondFormat(NamedTuple):
    """An entry that its format does not hold, or was not assigned for: of an input, in a state of a
    batch, at a position in it. least, most: the numbers that it does. is_range: formats were
    assigned for these, though they hold more.
    """

    name: str
    state: int
    position: int
    value: float
    least: float
    most: float
    is_range: bool = False

    def error(self, place: EntryPlace, instead: str = "") -> ValueError:
        """The error that says so. instead: what a caller may do, as the end of the message."""
        radians = self.value * pi / 180
        is_angle = self.name in ANGULAR and self.least <= radians <= self.most
        confused = f"; angles are in radians, {self.value:g} degrees are {radians:.4g}"
        ends = f"{self.least:.10g} to {self.most:.10g}"  # "512" would be none of 511.99998
        what = "that formats were assigned for" if self.is_range else "of its format"
        widened = f"{',' if instead else ';'} {WIDENED}" if self.is_range else ""
        return ValueError(
            f"{place} is {self.value:.10g}: wanted {ends}, the range {what}"
            f"{confused if is_angle else ''}{instead}{widened}"
        )


def not_a_number(place: EntryPlace) -> ValueError:
    """The error for a NaN in what a circuit shall compute."""
    return ValueError(f"{place} is NaN: a circuit has numbers alone")
