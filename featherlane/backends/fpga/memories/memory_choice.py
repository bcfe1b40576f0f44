"""The choice of what operand memories consist of: blocks of RAM, larger memories or LUTs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.turning import Wait, cells

FULL = 0.85  # of the blocks of a device; a board has memories beside the design
LARGE, BESIDE = 0.9, 32  # of the blocks of a device to which so many beside the design are little
ULTRA = 0.8  # of the memories of a device that are larger than blocks of RAM

Waits = Mapping[Port, Mapping[int, Wait]]  # of the values of ports


class MemoryChoice(NamedTuple):
    """Decides between blocks of RAM and LUTs: by the blocks that a design may take, the words that
    memories of LUTs have, and the words of micro-code from which on it takes a block.

    large: the memories larger than blocks that it may take, with words and bits of each. shallow:
    the words that a ring of LUTs has at most. joins: as of a `Tile`, whether memories have slots
    and ports share multiplexers.
    """

    blocks: int
    words: Sequence[int]
    microcode: int
    large: int
    large_block: tuple[int, int] | None
    shallow: int
    joins: bool

    @classmethod
    def of(cls, device: Device) -> MemoryChoice:
        """The choice on a device."""
        words = sorted(words for words, _, _ in device.memories)
        large = min(LARGE * device.blocks, device.blocks - BESIDE)
        return cls(
            int(max(FULL * device.blocks, large)),
            words,
            1 << device.inputs,
            int(ULTRA * device.large),
            device.large_block,
            max(2 * device.memories[0][0], device.memories[-1][0]),
            device.joins,
        )

    def in_slots(
        self, memories: Mapping[Port, OperandMemory], waits: Waits, interval: int
    ) -> dict[Port, OperandMemory]:
        """Returns memories in slots where these take no more than rings, if the device has them."""
        return {
            port: memory.with_slots(longest(waits[port]), interval)
            if self.joins and memory.taps
            else memory
            for port, memory in memories.items()
        }

    def in_large(
        self, memories: Mapping[Port, OperandMemory], microcode: int
    ) -> dict[Port, OperandMemory]:
        """Returns memories of which enough are larger (UltraRAMs) to leave blocks for the others
        and for micro-code; those that take most blocks come first. Memories with constants stay in
        blocks, whose words can be initialised.
        """
        result, left = dict(memories), self.large if self.large_block else 0
        count = microcode + sum(memory.blocks for memory in memories.values())
        order = sorted(
            memories, key=lambda port: (-memories[port].blocks, -memories[port].words, port)
        )
        for port in order:
            memory = memories[port]
            if count <= self.blocks or not left:
                break
            words, bits = self.large_block or (0, 0)
            fits = memory.words <= words and memory.width <= bits
            if memory.blocks and fits and not memory.constants:
                result[port] = memory._replace(large=True)
                count, left = count - memory.blocks, left - 1
        return result

    def turned(
        self, memories: dict[Port, OperandMemory], waits: Waits, interval: int, microcode: int
    ) -> dict[Port, OperandMemory]:
        """Returns memories of which enough are of LUTs, and turn (`turning`), to leave blocks for
        micro-code, as far as values fit into them; those of fewer words come first.
        """
        result = dict(memories)
        count = microcode + sum(memory.blocks for memory in memories.values())
        for words in self.words:
            for port, memory in result.items():
                if count <= self.blocks:
                    return result
                if memory.blocks and not memory.constants:
                    turning = cells(waits[port], interval, words)
                    if turning is not None:
                        result[port] = memory._replace(ring=words, cells=turning, turns=0)
                        count -= memory.blocks
        return result


def longest(waits: Mapping[int, Wait]) -> int:
    """The cycles that one of the values of a port waits at most."""
    return max((wait.read - wait.written for wait in waits.values()), default=0)
