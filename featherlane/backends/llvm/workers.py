"""LLVM IR compiled on all cores: by this process, and by workers, which are processes of their own
since llvmlite lets one thread of a process into LLVM at a time.

Nothing depends on workers. This process compiles beside them, and compiles what they could not:
where they cannot be started, are killed, have no memory, or do not answer. They start when there is
much to compile, wait for more for some seconds, and end with this process.
FEATHERLANE_WORKERS=N sets their number, by default one less than there are cores; 0 or off starts
none.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import IO, Any, cast

import llvmlite

from featherlane.backends import cache
from featherlane.backends.cores import physical_cores
from featherlane.backends.llvm import targets, worker
from featherlane.backends.progress import log
from featherlane.errors import shown

MOST = 15  # workers: each takes some 100 MB, and there are about 16 pieces
IDLE = 10.0  # seconds that a worker waits for more
PATIENCE = 30.0  # seconds without an answer after which this process compiles a piece itself
OFF = ("off", "none", "no", "false")

# A worker sees neither this program's main module nor its paths: only the standard library, and the
# two packages where this process has them. `featherlane` itself is not imported but for its path.
PROGRAM = """
import sys, types
package = sys.modules["featherlane"] = types.ModuleType("featherlane")
package.__path__ = {path!r}
sys.path.append({llvmlite!r})
from {module} import main
main()
"""


def python_of(module: str) -> list[str]:
    """The command that runs `main` of a module of this package, in a process that imports nothing
    but what that module does.
    """
    llvmlite_folder = os.path.dirname(os.path.dirname(os.path.abspath(llvmlite.__file__)))
    path = [*sys.modules["featherlane"].__path__]
    text = PROGRAM.format(path=path, llvmlite=llvmlite_folder, module=module)
    return [sys.executable, "-I", "-S", "-c", text]


def wanted() -> int:
    """The number of workers that this process may have."""
    asked = os.environ.get("FEATHERLANE_WORKERS", "").strip().lower()
    count = physical_cores() - 1
    if asked.isdecimal() or asked in OFF:
        count = int(asked) if asked.isdecimal() else 0
    elif asked:
        _complain(asked)
    return min(count, MOST) if count and _can_start() else 0


@lru_cache  # once for each value
def _complain(asked: str) -> None:
    """Says in the log that a value means nothing."""
    wanted = "wanted a whole number from 0 on, or off; the default is taken"
    log().warning("FEATHERLANE_WORKERS is %s: %s", shown(asked), wanted)


def _can_start() -> bool:
    """Whether sys.executable is a Python that can start workers with this package: not a frozen
    program, nor one that Python is a part of, which would start itself.
    """
    name = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return False
    # Processors without fused multiply-adds need more modules; another package's code is not ours
    return targets.host().fused and not cache.is_replaced()


class _Worker:
    """A worker process. Raises OSError or EOFError if it cannot be had."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            python_of(worker.__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )

    def meet(self) -> None:
        """Waits until it is there."""
        if worker.receive(cast(Any, self.process.stdout)) != worker.identity():
            raise OSError("a worker compiles with something else")

    def machine_code(self, ir: str) -> bytes:
        worker.send(cast(Any, self.process.stdin), ir.encode())
        return worker.receive(cast(Any, self.process.stdout))

    def end(self) -> None:
        self.process.kill()
        self.forget()
        self.process.wait()

    def forget(self) -> None:
        """Closes its pipes."""
        for stream in (self.process.stdin, self.process.stdout):
            cast("IO[bytes]", stream).close()


class _Job:
    """A text to compile, and the object file once it is there."""

    def __init__(self, ir: str) -> None:
        self.ir, self.image, self.failed = ir, b"", False


class _Workers:
    """The workers of this process, each with a thread that gives it what waits to be compiled."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: deque[_Job] = deque()
        self.threads, self.alive = 0, list[_Worker]()
        self.own: _Job | None = None  # what this process compiles

    def start(self, count: int) -> None:
        """Starts workers until there are so many, without waiting for them."""
        with self.changed:
            missing = count - self.threads
            self.threads += max(missing, 0)
        for started in range(missing):
            try:
                threading.Thread(target=self._serve, daemon=True, name="featherlane").start()
            except RuntimeError:  # no more threads
                with self.changed:
                    self.threads -= missing - started
                return

    def _serve(self) -> None:
        """The thread of a worker."""
        one = None
        try:
            one = _Worker()
            self.alive.append(one)
            one.meet()
            while (job := self._next()) is not None:
                self._run(job, one)
        except (OSError, EOFError, ValueError) as error:
            log().debug("a worker ended: %r", error)  # it is not needed
        finally:
            with self.changed:
                self.threads -= 1
            if one is not None:
                self.alive.remove(one)
                one.end()

    def _next(self) -> _Job | None:
        """What waits, or None after some time with nothing to do."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting, IDLE)
            return self.waiting.popleft() if self.waiting else None

    def _run(self, job: _Job, one: _Worker) -> None:
        image = b""
        try:
            image = one.machine_code(job.ir)
        finally:
            with self.changed:
                job.image = job.image or image
                job.failed = not job.image
                self.changed.notify_all()

    def offer(self, jobs: Sequence[_Job]) -> None:
        with self.changed:
            self.waiting.extend(jobs)
            self.changed.notify_all()

    def withdraw(self, jobs: Sequence[_Job]) -> None:
        with self.changed:
            if self.own in jobs:
                self.own = None
            for job in jobs:
                if job in self.waiting:
                    self.waiting.remove(job)

    def left(self, jobs: Sequence[_Job], told: Callable[[int], None]) -> _Job | None:
        """One of some jobs for this thread: one that waits, that a worker failed at or does not
        answer to; None if all are done. One thread at a time has such a job, since llvmlite lets
        only one into LLVM: what others had taken would wait there. told: is told how many are done.
        """
        since = time.monotonic()
        while True:
            with self.changed:
                missing = [job for job in jobs if not job.image]
                mine = [job for job in missing if job.failed or job in self.waiting]
                if not mine and time.monotonic() - since > PATIENCE:
                    mine = missing
                own = mine[0] if mine and self.own is None else None
                if own is not None:
                    self.own = own
                    if own in self.waiting:
                        self.waiting.remove(own)
                elif missing:
                    self.changed.wait(1.0)
            told(len(jobs) - len(missing))
            if own is not None or not missing:
                return own

    def done(self, job: _Job, image: bytes) -> None:
        """Takes what this process has compiled: no bytes if it could not."""
        with self.changed:
            self.own, job.image = None, job.image or image
            self.changed.notify_all()

    def end(self) -> None:
        for one in [*self.alive]:
            one.process.kill()


_workers = _Workers()


def prepare() -> None:
    """Starts workers for what will soon be compiled: they need 0.2 s until they can."""
    _workers.start(wanted())


def object_files(irs: Sequence[str], told: Callable[[int], None]) -> list[bytes]:
    """Compiles LLVM IR to object files for the host. told: is told how many are done."""
    jobs = [_Job(ir) for ir in irs]
    if (len(jobs) > 1 or _workers.alive) and (count := wanted()):
        _workers.start(min(count, len(jobs) - 1))
        _workers.offer(jobs)
    else:
        for job in jobs:
            job.failed = True  # there are no workers
    try:
        while (own := _workers.left(jobs, told)) is not None:
            image = b""
            try:
                image = targets.machine_code(own.ir, targets.host())
            finally:
                _workers.done(own, image)
    finally:
        _workers.withdraw(jobs)
    return [job.image for job in jobs]


def _after_fork() -> None:
    """The workers are those of the parent: the forked process starts its own."""
    global _workers
    for one in _workers.alive:
        one.forget()
        one.process.returncode = 0  # not ours to wait for
    _workers = _Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _workers.end())
