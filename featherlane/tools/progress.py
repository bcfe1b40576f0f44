"""The progress of a long command: a line on the terminal, or one for each stage."""

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
        if self._clears:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        with self._lock:
            self._clear()

    @property
    def _clears(self) -> bool:
        """Whether the stream is a terminal that can clear a line."""
        return self._stream.isatty() and os.environ.get("TERM") != "dumb"

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


class StageLines(ProgressLine):
    """Writes a line for each step, with its seconds by the clock. A terminal shows those that have
    passed meanwhile, as `ProgressLine`; a log has the step from its start on, and no control
    characters.
    """

    def __call__(self, step: str) -> None:
        with self._lock:
            self._finish()
            self._step, self._since = step, time.monotonic()
            if not self._clears:
                self._write(f"{step} ...")

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._finish("" if error[0] is None else "stopped after ")
        super().__exit__(*error)

    def _finish(self, how: str = "") -> None:
        """Ends the line of the step before."""
        if not self._step:
            return
        self._clear()
        passed = f" {how}{time.monotonic() - self._since:.1f} s\n"
        self._write(f"{self._step} ...{passed}" if self._clears else passed)
        self._step = ""
