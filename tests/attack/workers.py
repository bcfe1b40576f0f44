"""Checks in a child process with limits, which may crash, hang and be started again.

A child serves many checks, so that imports cost once. The kernel ends it when it has used more
memory or processor time than allowed; the parent ends it when it is blocked.
"""

import faulthandler
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PROCESSOR_S = 5  # of one check
MEMORY = 2 << 30  # bytes of addresses besides what imports take
BLOCKED_S = 60  # wall clock without an answer
START_S = 300  # wall clock of imports
NOTHING = r"(?!)"


class Death(NamedTuple):
    """How a child ended while it made a check."""

    reason: str
    output: str  # the end of what it had printed


class Worker:
    """A child process that makes checks: `check(item)` returns a complaint, or None.

    check: a function of a module; prepare: another one that is called once in the child, before
    its memory is limited.
    """

    def __init__(
        self, check, prepare=None, allowed=NOTHING, processor_s=PROCESSOR_S, blocked_s=BLOCKED_S
    ):
        """allowed: what may be printed, as libraries in C do, a regular expression."""
        self.job = check, prepare, allowed, processor_s
        self.blocked_s = blocked_s
        self.output = tempfile.NamedTemporaryFile(prefix="attack-", suffix=".txt")  # noqa: SIM115
        self.process = None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        arguments = (other, self.output.name, *self.job)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        other.close()
        if not self.pipe.poll(START_S) or self.pipe.recv() != "ready":
            raise RuntimeError(f"the child did not start: {self._printed()}")

    def results(self, items):
        """Yields (item, complaint or Death or None) for each item."""
        for item in items:
            if self.process is None:
                self.start()
            yield item, self._result(item)

    def _result(self, item):
        try:
            self.pipe.send(item)
            if self.pipe.poll(self.blocked_s):
                return self.pipe.recv()
            reason = "blocked"
            os.kill(self.process.pid, signal.SIGUSR1)  # it says where
            self.process.join(1)
        except (EOFError, OSError):
            self.process.join(BLOCKED_S)
            reason = None
        code = self.process.exitcode
        self.stop()
        return Death(reason or _ended(code), self._printed())

    def _printed(self):
        return Path(self.output.name).read_text(errors="replace")[-2000:]

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def _ended(code):
    if code is None or code >= 0:
        return f"exit {code}"
    name = signal.Signals(-code).name
    return "too much processor time" if name == "SIGXCPU" else name


def _serve(pipe, output, check, prepare, allowed, processor_s):
    file = os.open(output, os.O_RDWR | os.O_APPEND)
    os.ftruncate(file, 0)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
    faulthandler.enable(sys.stderr)
    faulthandler.register(signal.SIGXCPU, sys.stderr, chain=True)  # says where the time went
    faulthandler.register(signal.SIGUSR1, sys.stderr)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if prepare is not None:
        prepare()
    limit = _addresses() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe.send("ready")
    while True:
        item = pipe.recv()
        os.ftruncate(file, 0)
        complaint = _timed(check, item, processor_s)
        printed = os.pread(file, 300, 0).decode(errors="replace")
        if complaint is None and printed and not re.search(allowed, printed):
            complaint = f"it prints {printed}"
        pipe.send(complaint)


def _timed(check, item, processor_s):
    begin = time.process_time()
    limit = int(begin) + processor_s + 2
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    complaint = check(item)
    used = time.process_time() - begin
    if complaint is None and used > processor_s:
        return f"{used:.1f} s of processor time"
    return complaint


def _addresses():
    """Bytes of addresses of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
