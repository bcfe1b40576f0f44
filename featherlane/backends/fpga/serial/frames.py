"""Frames of bytes between a host and a design: one table for the circuit, the driver and the page.

A frame is a byte for its kind, a payload whose length the kind fixes, and a CRC-16 of both; each
number goes lowest byte first. A task carries a number, which its result brings back, so that the
host knows which one was lost.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

Array = Any
VERSION = 2  # of these frames

# CRC-16/KERMIT: x^16 + x^12 + x^5 + 1, each byte from its lowest bit on, as a UART sends it; it
# begins at 0, and a frame with its CRC behind it leaves 0. The CRC of "123456789" is 0x2189.
POLYNOMIAL = 0x8408
CRC_BYTES = 2

# To the board
TASK, QUERY, TEST = 0xA5, 0x3C, 0xC3
# From the board
RESULT, FACTS, TESTED = 0x5A, 0x96, 0x69

HEAD = 2  # bytes of a task or a result before its word: kind and number
TEST_BYTES = 1  # the payload of a test: the states run 2^this times
CYCLE_BYTES, SIGNATURE_BYTES = 4, 4  # of the answer to a test
COUNTERS = ("damaged", "cut", "unknown", "refused")  # modulo 256
ANSWER = {
    "version": 1,
    "hash": 8,
    "task_bits": 2,
    "result_bits": 2,
    "interval": 2,
    "sixteenths": 2,
    "outstanding": 1,
    "under_way": 1,
    **dict.fromkeys(COUNTERS, 1),
}  # the fields of the answer to a query, and their bytes
MEANING = {
    "version": f"of the frames: {VERSION}",
    "hash": "the design's, as in serial.json",
    "task_bits": "bits of a task's word",
    "result_bits": "bits of a result's word",
    "interval": "cycles of the pipeline from one task to the next",
    "sixteenths": "sixteenths of a clock cycle in a bit of the line",
    "outstanding": "tasks that may be on the board at once; one more is refused",
    "under_way": "tasks that are on the board now",
    "damaged": "frames dropped because their CRC was wrong",
    "cut": "frames dropped because the line paused in them, or a stop bit was missing",
    "unknown": "bytes between frames that begin none",
    "refused": "tasks dropped because no room was left, or a test ran",
}


def payloads(task_bits: int, result_bits: int) -> dict[int, int]:
    """The bytes of the payload of each kind. task_bits, result_bits: of the words."""
    return {
        TASK: 1 + -(-task_bits // 8),
        QUERY: 0,
        TEST: TEST_BYTES,
        RESULT: 1 + -(-result_bits // 8),
        FACTS: sum(ANSWER.values()),
        TESTED: CYCLE_BYTES + SIGNATURE_BYTES,
    }


def answers(task_bits: int, result_bits: int) -> dict[int, int]:
    """The payloads of the kinds that a board sends."""
    sizes = payloads(task_bits, result_bits)
    return {kind: sizes[kind] for kind in (RESULT, FACTS, TESTED)}


# Bytes from their other end
MIRRORED = bytes(int(f"{n:08b}"[::-1], 2) for n in range(256))


def crc(data: bytes) -> int:
    """The CRC-16 of bytes. `crc_hqx` has the polynomial, but takes bytes from their highest bit on,
    so that it gets them, and gives the sum, from the other end.
    """
    mirrored = np.frombuffer(MIRRORED, np.uint8)[np.frombuffer(data, np.uint8)]
    high, low = divmod(crc_hqx(mirrored.data, 0), 256)
    return MIRRORED[high] | MIRRORED[low] << 8


def with_crc(data: bytes) -> bytes:
    """Bytes with their CRC behind them."""
    return data + crc(data).to_bytes(CRC_BYTES, "little")


def frame(*parts: int | bytes) -> bytes:
    """One frame of a kind and its payload."""
    return with_crc(b"".join(part if isinstance(part, bytes) else bytes([part]) for part in parts))


def task_frames(numbers: Array, words: Array) -> list[bytes]:
    """The frames of tasks with these numbers and words (tasks, bytes)."""
    bodies = np.empty((len(words), HEAD + words.shape[1]), np.uint8)
    bodies[:, 0], bodies[:, 1], bodies[:, HEAD:] = TASK, numbers, words
    data, size = bodies.tobytes(), bodies.shape[1]
    return [with_crc(data[n : n + size]) for n in range(0, len(data), size)]


def answer_fields(payload: bytes) -> dict[str, int]:
    """The fields of the answer to a query."""
    fields, start = dict[str, int](), 0
    for name, size in ANSWER.items():
        fields[name] = int.from_bytes(payload[start : start + size], "little")
        start += size
    return fields


class SerialFrame(NamedTuple):
    """A frame that was received whole, without its CRC."""

    kind: int
    payload: bytes


class FrameReader:
    """Finds frames in bytes as they come. sizes: the bytes of each kind's payload.

    Bytes that begin no frame are skipped, and a frame whose CRC is wrong gives back all but its
    first byte, so that a whole one behind it is not lost. damaged: frames that were wrong;
    skipped: bytes that belong to no frame.
    """

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.damaged = self.skipped = 0
        self._bytes = bytearray()

    def frames(self, received: bytes) -> Iterator[SerialFrame]:
        """The frames that are whole with these bytes."""
        self._bytes += received
        while self._bytes:
            size = self.sizes.get(self._bytes[0])
            if size is None:
                self.skipped += 1
                del self._bytes[0]
                continue
            if len(self._bytes) < (end := 1 + size + CRC_BYTES):
                return
            if crc(whole := bytes(self._bytes[:end])):
                self.damaged += 1
                self.skipped += 1
                del self._bytes[0]
                continue
            del self._bytes[:end]
            yield SerialFrame(whole[0], whole[1:-CRC_BYTES])

    def clear(self) -> None:
        """Forgets the beginning of a frame."""
        self._bytes.clear()
