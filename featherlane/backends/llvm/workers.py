"""LLVM IR compiled on all cores: by this process, and by worker processes, since llvmlite lets one
thread of a process into LLVM at a time.

Nothing depends on workers. This process compiles at the same time, and compiles what they did not:
where they cannot be started, are killed, have no memory, or do not answer. They start when there is
much to compile, stay idle for some seconds, and end with this process. FEATHERLANE_WORKERS=N sets
their number, by default one less than there are cores; 0 or off starts none.
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
IDLE = 10.0  # seconds that a worker waits for a further text
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
    """The command that runs `main` of a module of this package, in a process that imports only what
    that module imports.
    """
    llvmlite_folder = os.path.dirname(os.path.dirname(os.path.abspath(llvmlite.__file__)))
    path = [*sys.modules["featherlane"].__path__]
    text = PROGRAM.format(path=path, llvmlite=llvmlite_folder, module=module)
    return [sys.executable, "-I", "-S", "-c", text]


def wanted() -> int:
    """The number of workers that this process may start."""
    asked = os.environ.get("FEATHERLANE_WORKERS", "").strip().lower()
    count = physical_cores() - 1
    if asked.isdecimal() or asked in OFF:
        count = int(asked) if asked.isdecimal() else 0
    elif asked:
        _complain(asked)
    return min(count, MOST) if count and _can_start() else 0


@lru_cache  # once for each value
def _complain(asked: str) -> None:
    """Logs that a value of FEATHERLANE_WORKERS has no meaning."""
    wanted = "wanted a whole number from 0 on, or off; the default is taken"
    log().warning("FEATHERLANE_WORKERS is %s: %s", shown(asked), wanted)


def _can_start() -> bool:
    """Whether sys.executable is a Python that can start workers with this package. A frozen
    program, or one that embeds Python, would start itself instead.
    """
    name = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return False
    # Processors without fused multiply-adds need more modules than a worker imports. Workers would
    # import the package on disk, which must be the one that this process has imported
    return targets.host().fused and not cache.is_replaced()


class _Worker:
    """A worker process. Raises OSError or EOFError if it cannot be started."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            python_of(worker.__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )

    def await_identity(self) -> None:
        """Waits until it has started. Raises OSError if it would compile other code."""
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
    """A text to compile, and its object file once it is compiled."""

    def __init__(self, ir: str) -> None:
        self.ir, self.image, self.failed = ir, b"", False


class _Workers:
    """The workers of this process, each with a thread that sends it the next waiting job."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: deque[_Job] = deque()
        self.threads, self.alive = 0, list[_Worker]()
        self.compiling: _Job | None = None  # the job of this process

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
            one.await_identity()
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
        """The next waiting job, or None after some idle time."""
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
            if self.compiling in jobs:
                self.compiling = None
            for job in jobs:
                if job in self.waiting:
                    self.waiting.remove(job)

    def next_here(self, jobs: Sequence[_Job], report: Callable[[int], None]) -> _Job | None:
        """The next of some jobs for this thread: one that waits, that a worker failed at or does
        not answer to; None if all are done. One thread at a time takes a job, since llvmlite lets
        only one into LLVM: jobs of other threads would wait there. report: gets the number of jobs
        done.
        """
        since = time.monotonic()
        while True:
            with self.changed:
                missing = [job for job in jobs if not job.image]
                mine = [job for job in missing if job.failed or job in self.waiting]
                if not mine and time.monotonic() - since > PATIENCE:
                    mine = missing
                job_here = mine[0] if mine and self.compiling is None else None
                if job_here is not None:
                    self.compiling = job_here
                    if job_here in self.waiting:
                        self.waiting.remove(job_here)
                elif missing:
                    self.changed.wait(1.0)
            report(len(jobs) - len(missing))
            if job_here is not None or not missing:
                return job_here

    def done(self, job: _Job, image: bytes) -> None:
        """Stores what this process has compiled: no bytes if it could not."""
        with self.changed:
            self.compiling, job.image = None, job.image or image
            self.changed.notify_all()

    def end(self) -> None:
        for one in [*self.alive]:
            one.process.kill()


_workers = _Workers()


def prepare() -> None:
    """Starts workers ahead of a compilation: they need 0.2 s to start."""
    _workers.start(wanted())


def object_files(irs: Sequence[str], report: Callable[[int], None]) -> list[bytes]:
    """Compiles LLVM IR to object files for the host. report: gets the number of files done."""
    jobs = [_Job(ir) for ir in irs]
    if (len(jobs) > 1 or _workers.alive) and (count := wanted()):
        _workers.start(min(count, len(jobs) - 1))
        _workers.offer(jobs)
    else:
        for job in jobs:
            job.failed = True  # there are no workers
    try:
        while (job_here := _workers.next_here(jobs, report)) is not None:
            image = b""
            try:
                image = targets.machine_code(job_here.ir, targets.host())
            finally:
                _workers.done(job_here, image)
    finally:
        _workers.withdraw(jobs)
    return [job.image for job in jobs]


def _after_fork() -> None:
    """Forgets the workers of the parent process: the forked process starts others."""
    global _workers
    for one in _workers.alive:
        one.forget()
        one.process.returncode = 0  # not ours to wait for
    _workers = _Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _workers.end())
