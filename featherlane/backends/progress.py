"""Progress of compilations, for the log, the terminal and the command line.

A compilation that takes more than a second writes its subject and its present step to the logger
"featherlane", at level INFO, every few seconds and when it is done. On a terminal, a line of stderr
says the same meanwhile and is then cleared: at Python's prompt after one second, in scripts after
five.
FEATHERLANE_PROGRESS=off, or a level above WARNING for that logger, switches the line off.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    """The logger "featherlane"."""
    from logging import Logger

SLOW = 1.0  # seconds after which a compilation is reported
AGAIN = 5.0  # seconds between two lines of the log
IN_SCRIPTS = 5.0  # seconds after which a script shows a line, too
CLEAR = "\r\x1b[K"  # empties the line of the terminal
OFF = ("off", "no", "none", "false", "0")

_current: ContextVar[Any] = ContextVar("compilation", default=None)
_listeners: list[Callable[[str], None]] = []


class _Compilation:
    """A compilation in progress: its subject, its start, and the time of its last line in the
    log.
    """

    def __init__(self, what: str) -> None:
        self.what, self.began, self.shown = what, time.monotonic(), False
        self.logged = -AGAIN

    def step(self, doing: str) -> None:
        for listen in _listeners:
            listen(f"{self.what}: {doing}")
        now = time.monotonic()
        if now - self.began < SLOW:
            return
        logger = log()
        if now - self.logged > AGAIN:
            self.logged = now
            logger.info("compiling %s, %.1f s so far: %s", self.what, now - self.began, doing)
        if self.shown or _shows_line(logger, now - self.began):
            self.shown = True
            _write(f"{CLEAR}compiling {self.what}: {doing}")

    def end(self) -> None:
        if self.shown:
            _write(CLEAR)
        if (passed := time.monotonic() - self.began) >= SLOW:
            log().info("compiled %s in %.1f s", self.what, passed)


def log() -> Logger:
    """The logger "featherlane"."""
    from logging import getLogger  # slow to import

    return getLogger("featherlane")


def _shows_line(log: Logger, passed: float) -> bool:
    """Whether a line on the terminal is wanted after so many seconds: people at Python's prompt
    want it at once, those who run a script when it seems to hang.
    """
    if _listeners or sys.stderr is None or not sys.stderr.isatty():
        return False
    if not hasattr(sys, "ps1") and passed < IN_SCRIPTS:
        return False
    off = os.environ.get("FEATHERLANE_PROGRESS", "").strip().lower() in OFF
    return not off and os.environ.get("TERM") != "dumb" and log.isEnabledFor(30)  # WARNING


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Within the context, steps belong to the compilation of `what`; of nested contexts, to the
    innermost.
    """
    token = _current.set(_Compilation(what))
    try:
        yield
    finally:
        compilation = _current.get()
        _current.reset(token)
        if compilation is not None:
            compilation.end()


def step(doing: str) -> None:
    """Reports the present step of this thread's compilation, if there is one."""
    if (compilation := _current.get()) is not None:
        compilation.step(doing)


@contextmanager
def listening(listen: Callable[[str], None]) -> Iterator[None]:
    """Within the context, `listen` gets each step of all compilations, instead of the line."""
    _listeners.append(listen)
    try:
        yield
    finally:
        _listeners.remove(listen)
