"""Arrays of the host that a device computes with: they are copied there, and the results back.

States go in chunks through memory of a fixed size, in two streams of this module: while the device
copies and computes one chunk, the host packs the next one and unpacks the one before. The host's
side is page-locked, so that the device copies without the processor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from featherlane.backends.cuda.calls import DeviceFunction, Rows
from featherlane.backends.cuda.driver import Driver, driver
from featherlane.backends.cuda.unloading import unloading
from featherlane.errors import DeviceError

CHUNK = 8 << 20  # bytes of a chunk: a few hundred microseconds of the bus
LANES = 2  # chunks at a time
ALIGNED = 256  # bytes: each array of a chunk begins at a multiple
States = list[np.ndarray]  # by array: the numbers of states, a row for each, or one for all


@dataclass
class Lane:
    """A stream with page-locked memory of the host and memory of the device, of one size.
    finish: unpacks the results of the chunk that is on its way.
    """

    stream: int
    host: int
    memory: int
    size: int
    finish: Callable[[], None] | None = None

    def on_host(self, start: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array in the memory of the host."""
        block: Any = (ctypes.c_uint8 * self.size).from_address(self.host)
        return np.ndarray(shape, dtype, block, start)


class Copies:
    """Streams and buffers for copies to and from one device, for one call at a time."""

    def __init__(self, device: int) -> None:
        self.device, self._lanes, self._lock = device, list[Lane](), Lock()

    def run(self, function: DeviceFunction, inputs: States, results: States) -> None:
        """Fills the results. Waits until they are there; if it raises, the inputs are untouched."""
        with self._lock:
            api, states = driver(), len(results[0])
            count = _states_of_a_chunk([*inputs, *results], states)
            lanes = self._lanes_of(api, _places([*inputs, *results], count)[-1])
            try:
                for n, first in enumerate(range(0, states, count)):
                    lane, chunk = lanes[n % LANES], slice(first, min(first + count, states))
                    self._end(api, lane)
                    parts = [x if len(x) == 1 else x[chunk] for x in inputs]
                    self._begin(api, lane, function, parts, [x[chunk] for x in results])
                for lane in (*lanes[(n + 1) % LANES :], *lanes[: (n + 1) % LANES]):
                    self._end(api, lane)
                    unloading.behind(api, self.device, lane.stream)
            except BaseException:
                self._abandon(api)
                raise

    def _begin(
        self, api: Driver, lane: Lane, function: DeviceFunction, inputs: States, results: States
    ) -> None:
        """Packs a chunk, and puts its copies and kernels into the lane's stream."""
        *places, end = _places([*inputs, *results], len(results[0]))
        packed = [
            lane.on_host(place, x.shape, x.dtype)
            for place, x in zip(places, (*inputs, *results), strict=True)
        ]
        for place, x in zip(packed, inputs, strict=False):
            place[...] = x
        start, size = places[len(inputs)], end - places[len(inputs)]
        rows = [
            Rows(lane.memory + place, 0 if len(x) == 1 else x.nbytes // len(x))
            for place, x in zip(places, packed, strict=True)
        ]
        device, stream = self.device, lane.stream
        api.to_device(device, stream, lane.memory, lane.host, start)
        function.call(device, stream, rows, len(results[0]))
        api.to_host(device, stream, lane.host + start, lane.memory + start, size)

        def finish() -> None:
            for result, place in zip(results, packed[len(inputs) :], strict=True):
                result[...] = place

        lane.finish = finish

    def _end(self, api: Driver, lane: Lane) -> None:
        """Waits for the chunk of a lane, if there is one, and unpacks its results."""
        if lane.finish is not None:
            api.wait(self.device, lane.stream)
            finish, lane.finish = lane.finish, None
            finish()

    def _abandon(self, api: Driver) -> None:
        """Waits after an error for what is still on its way, so that the memory can be used."""
        for lane in self._lanes:
            lane.finish = None
            with suppress(DeviceError):
                api.wait(self.device, lane.stream)

    def _lanes_of(self, api: Driver, size: int) -> list[Lane]:
        """The lanes, with memory of at least so many bytes."""
        if not self._lanes or self._lanes[0].size < size:
            self._free(api)
            for _ in range(LANES):
                self._lanes.append(self._new_lane(api, max(size, CHUNK)))
        return self._lanes

    def _new_lane(self, api: Driver, size: int) -> Lane:
        host = api.allocate_host(self.device, size)
        try:
            memory = api.allocate(self.device, size)
            try:
                return Lane(api.new_stream(self.device), host, memory, size)
            except DeviceError:
                api.free(self.device, memory)
                raise
        except (DeviceError, MemoryError):
            api.free_host(self.device, host)
            raise

    def _free(self, api: Driver) -> int:
        """Frees the memory of all lanes. Returns the bytes of the device's."""
        freed = 0
        while self._lanes:
            lane = self._lanes.pop()
            with suppress(DeviceError):
                api.free(self.device, lane.memory)
                api.free_host(self.device, lane.host)
                api.free_stream(self.device, lane.stream)
                freed += lane.size
        return freed

    def empty(self, api: Driver) -> int:
        """Frees what no call uses. Returns the bytes of the device's memory."""
        with self._lock:
            return self._free(api)


def _states_of_a_chunk(arrays: States, states: int) -> int:
    """As many states as fit into a chunk, one at least."""
    each = [(x.itemsize * x.shape[1], len(x) == 1) for x in arrays]
    shared = sum(size for size, one in each if one) + ALIGNED * len(arrays)
    return min(states, max((CHUNK - shared) // max(sum(s for s, one in each if not one), 1), 1))


def _places(arrays: States, states: int) -> list[int]:
    """The offset of each array in the memory of a chunk of so many states, and the end."""
    places = [0]
    for x in arrays:
        size = x.itemsize * x.shape[1] * min(len(x), states)
        places.append(places[-1] + -(-size // ALIGNED) * ALIGNED)
    return places


_copies: dict[int, Copies] = {}


def copies(device: int) -> Copies:
    """The streams and buffers of a device, which are made at the first call."""
    return _copies.setdefault(device, Copies(device))


def every() -> Iterator[Copies]:
    """The streams and buffers of all devices."""
    yield from [*_copies.values()]
