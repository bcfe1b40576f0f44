"""Multiplexers that serve the memories of several ports.

Operands that several units read come to each of them in the same phases, so that two ports may
choose the same taps, or one of them what the other one does and more. Synthesis merges
multiplexers of LUTs that are alike, but none of cells that join LUTs (`units.choices`), so that one
port gives another what it has chosen. What a port has chosen in a phase in which it takes no value
matters to nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.schedule import Tap

Chosen = Mapping[int, Tap]  # the tap of each phase in which a port takes a value


class SharedChoice(NamedTuple):
    """A multiplexer: the ports that it serves, the first of which has it; the tap of each phase;
    and its bits.
    """

    ports: tuple[Port, ...]
    chosen: Chosen
    width: int

    @property
    def taps(self) -> frozenset[Tap]:
        return frozenset(self.chosen.values())

    def agrees(self, other: SharedChoice) -> bool:
        """Whether no phase has different taps."""
        return all(other.chosen.get(phase, tap) == tap for phase, tap in self.chosen.items())

    def with_(self, other: SharedChoice) -> SharedChoice:
        """One for the ports of both."""
        chosen = {**self.chosen, **other.chosen}
        return SharedChoice(self.ports + other.ports, chosen, max(self.width, other.width))


def shared_choices(
    chosen: Mapping[Port, Chosen], widths: Mapping[Port, int], luts: Callable[[int], float]
) -> list[SharedChoice]:
    """Returns the multiplexers of ports. luts: those of a bit of one with so many inputs.

    The ports with the most taps come first, and each takes the multiplexer that it saves most with.
    """
    result, of_tap = list[SharedChoice](), defaultdict[Tap, set[int]](set)
    needs = lambda choice: choice.width * luts(len(choice.taps))
    single = [SharedChoice((port,), chosen[port], widths[port]) for port in chosen]
    for new in sorted(single, key=lambda new: (-len(new.taps), -len(new.chosen), new.ports)):
        best, most = None, 0.0
        for n in sorted({n for tap in new.taps for n in of_tap[tap]}):
            if new.agrees(result[n]):
                saved = needs(new) + needs(result[n]) - needs(result[n].with_(new))
                if saved > most:
                    best, most = n, saved
        if best is None:
            best = len(result)
            result.append(new)
        else:
            result[best] = result[best].with_(new)
        for tap in new.taps:
            of_tap[tap].add(best)
    return result
