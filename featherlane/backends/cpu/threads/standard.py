"""Python's threads, which share the states of a call where the pool in machine code is not used."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from featherlane.backends.cpu.threads.pool_ir import SharedTask
from featherlane.backends.llvm.records import packed, words

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

PARTS = 4  # parts of the states for each thread, so that a slow thread delays the others less


class _Gate:
    """Runs the parts of a call while the gate is open: they read and write the call's arrays."""

    def __init__(self) -> None:
        self._changed, self._open, self._inside = threading.Condition(), True, 0

    def run(self, part: Callable[[int, int], None], first: int, count: int) -> None:
        with self._changed:
            if not self._open:
                return
            self._inside += 1
        try:
            part(first, count)
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Waits for the parts that have begun, even if signal handlers raise exceptions."""
        interruption: BaseException | None = None
        while True:
            try:
                with self._changed:
                    self._open = False
                    self._changed.wait_for(lambda: not self._inside)
                break
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption


class StandardPool:
    """A thread pool with the interface of `ThreadPool`, without memory for machine code."""

    address = 0

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._size = 0
        self._here = threading.local()

    def __len__(self) -> int:
        """The most workers that may run."""
        return self._size

    def grow(self, threads: int) -> None:
        """Allows so many threads to take part."""
        if threads - 1 > self._size:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            self._size = threads - 1
            self._threads = ThreadPoolExecutor(self._size, "featherlane")

    def reset(self) -> None:
        """Starts without workers, as in a forked process."""
        self._threads, self._size = None, 0

    def stop(self) -> None:
        """Ends all workers."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        self.reset()

    def share(
        self, task: bytes, pointers: Sequence[int], states: int, steps: Sequence[int]
    ) -> None:
        """Runs a packed SharedTask on so many states; pointers, steps: as for a ufunc's loop."""
        kind = SharedTask(*(ctypes.c_int64 * words(SharedTask)).from_buffer_copy(task))
        pointer = ctypes.c_void_p
        loop = ctypes.CFUNCTYPE(None, *[pointer] * 4)(kind.loop)

        def run(first: int, count: int) -> None:
            here = [at + first * step for at, step in zip(pointers, steps, strict=False)]
            loop(packed(here), packed([count]), packed(steps), None)

        each = -(-states // (kind.threads * PARTS * kind.width)) * kind.width
        self.share_calls(run, states, each, kind.threads)

    def share_calls(
        self, run: Callable[[int, int], None], count: int, part: int, threads: int
    ) -> None:
        """run(first, count) for parts of range(count); raises the first exception of any thread."""
        parts = [(first, min(part, count - first)) for first in range(0, count, part)]
        if len(parts) < 2 or threads < 2 or getattr(self._here, "is_sharing", False):
            for first, size in parts:  # the last: a signal handler's call within another one
                run(first, size)
            return
        gate, self._here.is_sharing = _Gate(), True
        try:
            self.grow(threads)
            assert self._threads is not None
            for future in [self._threads.submit(gate.run, run, *each) for each in parts]:
                future.result()
        finally:
            gate.close()
            self._here.is_sharing = False
