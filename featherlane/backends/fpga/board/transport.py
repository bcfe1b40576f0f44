"""Transports between a host and a board: the interface of all, and the one for hardware, which
nobody has run.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = Any


class BoardTransport(Protocol):
    """Registers and DMA of a board. All buffers are arrays of uint8 that `allocate` gave."""

    def read(self, address: int) -> int:
        """The register of 32 bits at a byte address."""

    def write(self, address: int, value: int) -> None:
        """Writes a register of 32 bits."""

    def allocate(self, size: int) -> Array:
        """A buffer of bytes that the DMA can read and write."""

    def transfer(self, given: Array, results: Array) -> int:
        """Sends a buffer as one packet, whose last beat has TLAST, while it receives one packet;
        returns the bytes received. Raises TimeoutError if either does not end.
        """

    def stop(self) -> None:
        """Stops the DMA of both directions, and forgets what they were doing."""


class PynqTransport:
    """A board under PYNQ, with Xilinx's AXI DMA in simple mode on both streams.

    **Not run**: no board was at hand. It follows the documented interface of the package pynq:
    `Overlay`, a driver of a core with `read` and `write` (MMIO), `allocate`, and the channels of
    `pynq.lib.dma.DMA`. Buffers are in memory that the DMA sees, so that nothing is copied.

        overlay = pynq.Overlay("board.bit")
        PynqTransport(overlay.iiwa14_inverse_dynamics_axi_0, overlay.axi_dma_0)
    """

    RESET, CONTROLS = 4, (0x00, 0x30)  # bit 2 of MM2S_DMACR and S2MM_DMACR (PG021)

    def __init__(self, core: Any, dma: Any, seconds: float = 10.0) -> None:
        self.core, self.dma, self.seconds = core, dma, seconds

    def __str__(self) -> str:
        return "an AXI DMA under PYNQ"

    def read(self, address: int) -> int:
        return int(self.core.read(address))

    def write(self, address: int, value: int) -> None:
        self.core.write(address, value)

    def allocate(self, size: int) -> Array:
        from pynq import allocate

        return allocate(shape=(size,), dtype=np.uint8)

    def transfer(self, given: Array, results: Array) -> int:
        from time import monotonic

        end = monotonic() + self.seconds
        self.dma.recvchannel.transfer(results)
        self.dma.sendchannel.transfer(given)
        while not (self.dma.sendchannel.idle and self.dma.recvchannel.idle):
            if monotonic() > end:
                raise TimeoutError(f"the DMA has not ended after {self.seconds:g} s")
        return int(self.dma.recvchannel.transferred)

    def stop(self) -> None:
        for control in self.CONTROLS:  # either resets the whole DMA
            self.dma.write(control, self.RESET)
            while self.dma.read(control) & self.RESET:
                pass
        self.dma.recvchannel.start()
        self.dma.sendchannel.start()
