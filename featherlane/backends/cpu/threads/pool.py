"""The threads of this process that share the states of a call, see `backends.team`."""

from __future__ import annotations

import atexit
import ctypes
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from featherlane.backends import cache as disk
from featherlane.backends.cpu.linked import linked
from featherlane.backends.cpu.threads import pool_ir
from featherlane.backends.cpu.threads.pool_ir import Task, Word, Worker
from featherlane.backends.llvm import jit

MOST = 64  # threads of a call, or the cores if there are more
WATCHED = (
    200e-6  # s that a worker watches for the next call before it sleeps: about what waking costs
)
PATIENCE = 50e-6  # s that a caller waits for the last worker before it sleeps
COUNTED = 1000  # pauses whose time is taken
LINE = 64  # bytes
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # microseconds of processor time in so many
GOODBYE = 1.0  # s for a worker to end in
_NAMES = ("share", "serve", "dismiss", "pauses")
Run = Callable[[int, int], None]  # (first, count)


@cache
def physical_cores() -> int:
    """The cores that this process may use, two threads of one core counting once, as far as the
    time of its control group goes.
    """
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    siblings = set()
    for core in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        siblings.add(path.read_text().strip() if path.exists() else str(core))
    return max(min(len(siblings), _granted(QUOTA)), 1)


def _granted(quota: Path) -> int:
    """The whole cores whose time a container has."""
    try:
        time_of_period = quota.read_text().split()
        return int(time_of_period[0]) // int(time_of_period[1])
    except (OSError, ValueError, IndexError):  # none, or "max"
        return sys.maxsize


def _lock() -> int:
    """A lock of the interpreter's for machine code, taken: a process keeps few, and for ever."""
    make, take = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    make.restype, take.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
    lock = make()
    if not lock:
        raise MemoryError("no memory for a lock")
    take(lock, 1)
    return lock


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


class Team:
    """The calling thread and up to `most` - 1 workers, which start when a call first wants them and
    end with the process. `place` is the address of its memory.
    """

    def __init__(self) -> None:
        self.most = max(physical_cores(), MOST)
        make = lambda: jit.machine_code(pool_ir.source())
        self.code = linked(disk.fetch(f"team {jit.target()}", make), _NAMES)
        words = np.zeros(pool_ir.memory(self.most - 1) + LINE // 8, np.int64)
        first = -words.ctypes.data % LINE // 8
        self._words = words[first:]
        self.place = self._words.ctypes.data
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        of = lambda name, *kinds: ctypes.CFUNCTYPE(None, *kinds)(self.code.place(name))
        self._share, self._serve = of("share", *[pointer] * 4), of("serve", pointer, number)
        self._dismiss, self._pauses = of("dismiss", pointer), of("pauses", number)
        self._workers: list[threading.Thread] = []
        self._growing = threading.Lock()
        self._words[Word.ACQUIRE] = _address(ctypes.pythonapi.PyThread_acquire_lock)
        self._words[Word.RELEASE] = _address(ctypes.pythonapi.PyThread_release_lock)
        self._words[Word.DONE] = _lock()

    def __len__(self) -> int:
        """The workers that are there."""
        return int(self._words[Word.SIZE])

    def grow(self, threads: int) -> None:
        """Starts workers until there are so many threads with the calling one, if it can."""
        wanted = min(threads, self.most) - 1
        if len(self) < wanted:
            with self._growing:
                while len(self) < wanted and self._one_more():
                    pass

    def _one_more(self) -> bool:
        """Whether another worker could be started."""
        if self._words[Word.STOP]:
            return False
        k, others = len(self), physical_cores() - 1
        if not k and others:
            self._words[Word.SPINS] = PATIENCE / self._pause()
        watched = self._words[Word.SPINS] * (WATCHED / PATIENCE) if k < others else 0
        mine = self._words[Word.WORKERS + pool_ir.WORDS_OF_LINE * k :]
        mine[[Worker.ASLEEP, Worker.LOCK, Worker.WATCH]] = 0, _lock(), watched
        name = f"featherlane {k + 1}"
        worker = threading.Thread(target=self._serve, args=(self.place, k), name=name, daemon=True)
        try:
            worker.start()
        except RuntimeError:  # none to be had, or the interpreter ends
            return False
        self._workers.append(worker)
        self._words[Word.SIZE] = k + 1
        return True

    def _pause(self) -> float:
        """Seconds of one: the least of some times."""
        times = []
        for _ in range(3):
            start = time.perf_counter()
            self._pauses(COUNTED)
            times.append((time.perf_counter() - start) / COUNTED)
        return min(times)

    def stop(self) -> None:
        """Sends the workers home, for good."""
        with self._growing:
            self._dismiss(self.place)
            self._words[Word.SIZE] = 0
            for worker in self._workers:
                worker.join(GOODBYE)

    def forget(self) -> None:
        """In a new process, which has none of the threads of the old."""
        self._workers, self._growing = [], threading.Lock()
        kept = {k: int(self._words[k]) for k in (Word.ACQUIRE, Word.RELEASE)}
        self._words[:] = 0
        for k, word in kept.items():
            self._words[k] = word
        self._words[Word.DONE] = _lock()

    def task(
        self,
        loop: int,
        arrays: int,
        part: int,
        threads: int,
        width: int = 1,
        each: int = 1,
        cold: int = 0,
    ) -> bytes:
        """What is shared, as `team.Task` says."""
        words = loop, arrays, self.place, width, part, each, cold, threads
        return struct.pack(f"{Task.SIZE}q", *words)

    def share(
        self, task: bytes, pointers: Sequence[int], states: int, steps: Sequence[int]
    ) -> None:
        """A loop over so many states. pointers, steps: as it takes them."""
        given = struct.pack(f"{len(pointers)}q", *pointers)
        self._share(given, struct.pack("q", states), struct.pack(f"{len(steps)}q", *steps), task)

    def share_calls(self, run: Run, count: int, part: int, threads: int) -> None:
        """run(first, number of them) for parts of `range(count)`; what it raises is raised here."""
        errors: list[BaseException] = []
        done: list[int] = []

        def loop(args: int, dims: int, steps: int, data: int | None) -> None:
            try:
                first = ctypes.c_int64.from_address(args).value
                size = ctypes.c_int64.from_address(dims).value
                if not errors:
                    run(first, size)
                done.append(size)
            except BaseException as error:
                errors.append(error)

        called = _Loop(loop)
        task = self.task(_address(called), 1, part, threads)
        self.share(task, [0], count, [1])
        if errors:
            raise errors[0]
        if sum(done) != count:  # interrupted before it could catch that
            raise KeyboardInterrupt


_Loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
_made: dict[str, Team] = {}


def the_team() -> Team:
    """That of this process: made when it is first asked for."""
    if not _made:
        made = Team()
        if _made.setdefault("team", made) is made:  # another thread may have been faster
            atexit.register(made.stop)
    return _made["team"]


def _after_fork() -> None:
    physical_cores.cache_clear()
    for team_of_parent in _made.values():
        team_of_parent.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
