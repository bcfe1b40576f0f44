"""Configurations with a name: keyframes of MJCF, group states of SRDF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Floats = tuple[float, ...]


class NamedConfiguration(NamedTuple):
    """A configuration with a name: the entries of q of the joints that it places, in rad or m."""

    name: str
    joints: tuple[tuple[str, Floats], ...]

    def of_joints(self, names: Mapping[str, str]) -> NamedConfiguration:
        """Returns the part that places these joints, under their new names."""
        return self._replace(joints=tuple((names[j], q) for j, q in self.joints if j in names))
