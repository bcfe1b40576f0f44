"""The thread pool of this process, whose threads share the states of a call; see `pool_ir`."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import native
from featherlane.backends.cpu.linked import function_address, loaded_text, python_function
from featherlane.backends.cpu.strides import aligned
from featherlane.backends.cpu.threads import pool_ir
from featherlane.backends.cpu.threads.pool_ir import WORKERS, SharedTask, WorkerWords, pool_word
from featherlane.backends.cpu.threads.standard import StandardPool
from featherlane.backends.llvm.records import packed, words

MOST = 64  # threads of a call, or the cores if there are more
# s that a worker watches for the next call before it sleeps: about the 130 us that waking it costs
# (docs/choices.md, "How threads share a call")
WATCHED = 200e-6
PATIENCE = 50e-6  # s that a caller spins for the last worker before it sleeps
COUNTED = 1000  # pauses that are timed as one
STACK = 1 << 20  # bytes of a worker's stack at least: it may run Python, see `share_calls`
GOODBYE = 1.0  # s within which a worker must end
RunPart = Callable[[int, int], None]  # (first, count)


def _new_lock() -> int:
    """The address of a new lock of CPython, held. It is never freed: a process has few."""
    pointer, number = ctypes.c_void_p, ctypes.c_int
    lock = python_function("PyThread_allocate_lock", pointer)()
    if not lock:
        raise MemoryError("no memory for a lock of the thread pool")
    python_function("PyThread_acquire_lock", number, pointer, number)(lock, 1)
    return lock


@contextmanager
def _stack_of_workers() -> Iterator[None]:
    """Threads that start within the context have a stack of at least STACK bytes."""
    asked = threading.stack_size()
    if (asked or _system_stack()) >= STACK:  # 0: the system's default
        yield
        return
    threading.stack_size(STACK)
    try:
        yield
    finally:
        threading.stack_size(asked)


def _system_stack() -> int:
    """The bytes of a thread's stack by default."""
    try:
        import resource
    except ImportError:  # Windows: 1 MiB
        return STACK
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return STACK if limit == resource.RLIM_INFINITY else limit


class ThreadPool:
    """The calling thread and up to `most` - 1 workers, which start when a call first needs them and
    end with the process. `address` is that of the pool's memory.
    """

    def __init__(self) -> None:
        self.most = max(physical_cores(), MOST)
        self.code = loaded_text(pool_ir.source(), ("share", "serve", "dismiss", "pauses"))
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        of = lambda name, *kinds: ctypes.CFUNCTYPE(None, *kinds)(self.code.address_of(name))
        self._share, self._serve = of("share", *[pointer] * 4), of("serve", pointer, number)
        self._dismiss, self._pauses = of("dismiss", pointer), of("pauses", number)
        self._words = aligned((pool_ir.memory(self.most - 1),), np.dtype(np.int64))
        self.address = self._words.ctypes.data
        self._workers: list[threading.Thread] = []
        self.reset()

    def reset(self) -> None:
        """Starts without workers, as a new pool or in a forked process, which has one thread. The
        fork may be within a call, in its caller or in a worker: then no part remains to be claimed.
        """
        is_worker = threading.current_thread() in self._workers
        self._workers = []
        self._growing, self._is_growing = threading.RLock(), False
        self._words[:] = 0
        self.put("threads", 1)
        self.put("claimed", -1)  # more states than any call has
        if is_worker:  # it leaves through the gate, and ends
            self.put("gate", 1)
            self.put("stop", 1)
        python = ctypes.pythonapi
        self.put("acquire", function_address(python.PyThread_acquire_lock))
        self.put("release", function_address(python.PyThread_release_lock))
        self.put("done", _new_lock())

    def get(self, name: str) -> int:
        """A word of the pool's memory."""
        return int(self._words[pool_word(name)])

    def put(self, name: str, word: float) -> None:
        self._words[pool_word(name)] = word

    def __len__(self) -> int:
        """The workers that have started."""
        return self.get("size")

    def grow(self, threads: int) -> None:
        """Starts workers, if possible, until there are so many threads, the calling one
        included.
        """
        wanted = min(threads, self.most) - 1
        if len(self) < wanted:
            with self._growing:
                if self._is_growing:  # a signal handler's call within: it continues with fewer
                    return
                self._is_growing = True
                try:
                    while len(self) < wanted and self._start_worker():
                        pass
                finally:
                    self._is_growing = False

    def _start_worker(self) -> bool:
        """Starts a further worker if possible; workers beyond the cores do not watch for calls."""
        if self.get("stop"):
            return False
        k, others = len(self), physical_cores() - 1
        if not k and others:
            self.put("spins", PATIENCE / self._pause_seconds())
        watch = self.get("spins") * (WATCHED / PATIENCE) if k < others else 0
        at = WORKERS + pool_ir.LINE_WORDS * k
        self._words[at : at + words(WorkerWords)] = WorkerWords(0, _new_lock(), int(watch))
        name = f"featherlane {k + 1}"
        worker = threading.Thread(
            target=self._serve, args=(self.address, k), name=name, daemon=True
        )
        # Its words are reserved before it starts: no exception of a signal handler may start a
        # second worker on them
        self._workers.append(worker)
        self.put("size", k + 1)
        try:
            with _stack_of_workers():
                worker.start()
        except RuntimeError:  # the system has no further threads, or the interpreter ends
            self._workers.pop()
            self.put("size", k)
            return False
        return True

    def _pause_seconds(self) -> float:
        """Seconds of one pause instruction: the least of three measurements."""
        times = []
        for _ in range(3):
            start = time.perf_counter()
            self._pauses(COUNTED)
            times.append((time.perf_counter() - start) / COUNTED)
        return min(times)

    def stop(self) -> None:
        """Ends all workers, for good."""
        with self._growing:
            self._dismiss(self.address)
            self.put("size", 0)
            for worker in self._workers:
                if worker.ident is not None:
                    worker.join(GOODBYE)

    def share(
        self, task: bytes, pointers: Sequence[int], states: int, steps: Sequence[int]
    ) -> None:
        """Runs a packed SharedTask on so many states; pointers, steps: as for a ufunc's loop."""
        self._share(packed(pointers), packed([states]), packed(steps), task)

    def share_calls(self, run: RunPart, count: int, part: int, threads: int) -> None:
        """run(first, count) for parts of range(count); raises the first exception of any thread."""
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

        process = os.getpid()
        callback = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop)
        task = SharedTask(function_address(callback), 1, self.address, 1, part, 1, 0, threads)
        self.share(packed(task), [0], count, [1])
        if os.getpid() != process:
            raise RuntimeError(
                "this process was forked within a call: its results are its parent's"
            )
        if errors:
            raise errors[0]
        if sum(done) != count:  # KeyboardInterrupt came between the callback and its `try`
            raise KeyboardInterrupt


_pools: dict[str, ThreadPool | StandardPool] = {}
_all: list[ThreadPool | StandardPool] = []  # never freed: workers use the memory and code of theirs
_making = threading.RLock()


def thread_pool() -> ThreadPool | StandardPool:
    """The pool of this process, created at the first call: the pool in machine code if it has run a
    small task correctly, else a pool of Python's threads.
    """
    while (kind := _kind()) not in _pools:
        with _making:
            if kind not in _pools:
                _make(kind)
    return _pools[kind]


def _kind() -> str:
    return "standard" if native.refusal() else "native"


def _make(kind: str) -> None:
    """Creates a pool; refuses machine code if its pool fails a test. An exception of a signal
    handler, or a call from it, may come anywhere in between.
    """
    pool = StandardPool() if kind == "standard" else ThreadPool()
    _all.append(pool)
    atexit.register(pool.stop)
    if isinstance(pool, ThreadPool) and not _passes_test(pool):
        native.refuse("the thread pool did not run a small task rightly")
    else:
        _pools.setdefault(kind, pool)


def _passes_test(pool: ThreadPool) -> bool:
    """Whether two threads run each part of a small task once."""
    ran = np.zeros(64, int)

    def run(first: int, count: int) -> None:
        ran[first : first + count] += 1

    pool.grow(2)
    for _ in range(3):
        pool.share_calls(run, len(ran), 4, 2)
    return bool((ran == 3).all())


def _after_fork() -> None:
    global _making
    _making = threading.RLock()
    physical_cores.cache_clear()
    for pool in _all:
        pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
