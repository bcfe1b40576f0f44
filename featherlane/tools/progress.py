"""A line on the terminal that says what a long command is doing."""

from __future__ import annotations

import os
import threading
import time
from typing import TextIO

CLEAR = "\r\x1b[K"  # empties the line of the terminal


class ProgressLine:
    """Shows the current step when it has taken more than a second. It writes nothing if the stream
    is not a terminal, or one that cannot clear a line.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._step, self._since, self._shown = stream, "", time.monotonic(), False
        self._end, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __call__(self, step: str) -> None:
        """Begins a step."""
        with self._lock:
            self._step, self._since = step, time.monotonic()
            self._clear()

    def goes_on(self, step: str) -> None:
        """Says more of the current step: its time goes on."""
        with self._lock:
            self._step = step

    def __enter__(self) -> ProgressLine:
        if self._stream.isatty() and os.environ.get("TERM") != "dumb":
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            self._write(CLEAR)
            self._shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _watch(self) -> None:
        while not self._end.wait(0.25):
            with self._lock:
                passed = time.monotonic() - self._since
                if self._step and passed > 1 and not self._end.is_set():
                    self._write(f"{CLEAR}{self._step} ... {passed:.0f} s")
                    self._shown = True
