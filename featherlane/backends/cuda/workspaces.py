"""Workspaces: memory on a device for what the kernels of a call share, one for each stream.

Work in a stream is done in its order, so that all functions can have the same workspace there. It
is allocated at the first call that needs it, or a larger one, and stays for later calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from featherlane.backends.cuda.driver import Driver, StreamState
from featherlane.errors import DeviceError

LARGEST = 256 << 20  # bytes of a workspace: larger batches go in chunks
STREAMS = 16  # of a device that have workspaces: those that were used last
Key = tuple[int, int]  # a device, and a stream's number for the whole process
CAPTURED = (
    "the stream is being captured, in which nothing can be allocated: call the function once for "
    "as many states on this stream before the capture"
)


@dataclass(eq=False)
class DeviceBlock:
    """Memory on a device. users: calls that are putting kernels into a stream now; recorded: a CUDA
    graph has its address, so that it is kept for good.
    """

    address: int
    size: int
    users: int = 0
    recorded: bool = False
    lock: Any = field(default_factory=Lock)  # of the call whose kernels go into the stream

    @property
    def is_free(self) -> bool:
        return not (self.users or self.recorded)


class DeviceWorkspaces:
    """The workspaces of all devices and streams."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: dict[
            Key, list[DeviceBlock]
        ] = {}  # the streams used last, and the largest, at end

    @contextmanager
    def borrowed(self, api: Driver, device: int, stream: StreamState, size: int) -> Iterator[int]:
        """The address of at least so many bytes, for kernels that are put into a stream meanwhile;
        0 for none. Raises DeviceError if they were to be allocated while the stream is captured,
        MemoryError if there are none.
        """
        if not size:
            yield 0
            return
        with self._lock:
            block = self._block(api, (device, stream.number), size, stream.capturing)
            block.users += 1
            block.recorded |= stream.capturing
        try:
            with block.lock:
                yield block.address
        finally:
            with self._lock:
                block.users -= 1

    def _block(self, api: Driver, key: Key, size: int, capturing: bool) -> DeviceBlock:
        """A block of at least so many bytes: sizes double, so that few are allocated. One that was
        too small is kept, since kernels that were put into the stream before may still need it.
        """
        blocks = self._blocks.pop(key, [])
        self._blocks[key] = blocks
        if blocks and blocks[-1].size >= size:
            return blocks[-1]
        if capturing:
            raise DeviceError(CAPTURED)
        keys = [other for other in self._blocks if other[0] == key[0]]
        self._free_blocks(api, keys[: max(len(keys) - STREAMS, 0)])
        size = min(max(size, 2 * blocks[-1].size if blocks else 0), max(size, LARGEST))
        try:
            address = api.allocate(key[0], size)
        except MemoryError:
            self._free_blocks(api, [x for x in keys if x != key and x in self._blocks])
            address = api.allocate(key[0], size)
        blocks.append(DeviceBlock(address, size))
        return blocks[-1]

    def _free_blocks(self, api: Driver, keys: Iterable[Key]) -> int:
        """Frees the blocks of some streams that no graph and no call has. Returns their bytes."""
        freed = 0
        for key in [*keys]:
            for block in [x for x in self._blocks[key] if x.is_free]:
                with suppress(DeviceError):  # some stream is captured, or the device is lost
                    api.free(key[0], block.address)
                    self._blocks[key].remove(block)
                    freed += block.size
            if not self._blocks[key]:
                del self._blocks[key]
        return freed

    def empty(self, api: Driver) -> int:
        """Frees all blocks that no CUDA graph has recorded. Returns their bytes."""
        with self._lock:
            return self._free_blocks(api, self._blocks)


workspaces = DeviceWorkspaces()
