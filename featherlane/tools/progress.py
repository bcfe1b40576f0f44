"""What a long command is doing, on one line of the terminal."""

from __future__ import annotations

import os
import threading
import time
from typing import TextIO

CLEARED = "\r\x1b[K"  # the line is empty again


class Progress:
    """Shows the step at work once it takes longer than a second; silent where the stream is no
    terminal that can clear a line.
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

    def __enter__(self) -> Progress:
        if self._stream.isatty() and os.environ.get("TERM") != "dumb":
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            self._write(CLEARED)
            self._shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _watch(self) -> None:
        while not self._end.wait(0.25):
            with self._lock:
                passed = time.monotonic() - self._since
                if self._step and passed > 1 and not self._end.is_set():
                    self._write(f"{CLEARED}{self._step} ... {passed:.0f} s")
                    self._shown = True
