"""Parts of the benchmarks on a GPU as processes of their own, so that a lost context, a hang or a
crash ends one cell, and not the run: another process goes on with the next cell.

A process imports what it needs as soon as it is made, and waits then until it shall begin: the one
of the next part is made while a part is measured, since imports take a second of processor time.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from gpu_cells import FAILED, MARK, Row

GRACE = 10.0  # seconds that a part may take beyond its time, for its last cell
SILENCE = 90.0  # seconds without a row after which a cell counts as hung


class Process:
    """A part in a process, whose rows are read as they come. What it prints otherwise goes to a
    log. It waits for a line of its input: the number of its first cell, and its seconds.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command, self.log, self.lines = command, log, queue.Queue[str | None]()
        self._log: IO[str] = log.open("a")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self, first: int, seconds: float) -> None:
        """Lets it measure, from a cell on."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its rows and its status say so
            self.process.stdin.write(f"{first} {seconds}\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def rows(self, until: float, silence: float) -> Iterator[Row]:
        """Its rows, until it ends. Raises TimeoutError when it is late or silent."""
        while True:
            wait = min(until - time.monotonic(), silence)
            try:
                line = self.lines.get(timeout=max(wait, 0.0))
            except queue.Empty:
                late = time.monotonic() >= until
                told = "time is over" if late else f"no row for {silence:.0f} s"
                raise TimeoutError(told) from None
            if line is None:
                return
            if line.startswith(MARK):
                yield json.loads(line.removeprefix(MARK))
            else:
                self._log.write(line)

    def end(self) -> int:
        """Ends it, and what it has started. Returns its exit status, that of a killed one if a
        driver keeps it from ending.
        """
        self._log.close()
        with suppress(subprocess.TimeoutExpired):  # it may just be ending
            return self.process.wait(0.5 if self.process.poll() is None else 0)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(5)
        return -signal.SIGKILL


def rows(
    process: Process, seconds: float, grace: float = GRACE, silence: float = SILENCE
) -> Iterator[Row]:
    """All rows of a part within so many seconds and some grace. Where its process ends before the
    part does, the cell that it had begun is a row "failed", and another process has the rest.
    """
    until, first = time.monotonic() + seconds, 0
    while (left := until - time.monotonic()) > 0:
        process.begin(first, left)
        begun, why = Row(), ""
        try:
            for row in process.rows(until + grace, silence):
                if "ended" in row:
                    return
                if "begun" in row:
                    begun = row
                elif "lost" not in row:
                    yield row
                else:
                    begun = {**begun, "told": True}
        except TimeoutError as error:
            why = f"{error}"
        finally:
            status = process.end()
        if not begun.pop("told", False):
            why = why or f"the process ended with {_status(status)}{_last_line(process.log)}"
            facts = {x: y for x, y in begun.items() if x != "begun"}
            yield {**facts, "value": f"{FAILED}: {why}"}
        if "begun" not in begun:
            return
        first = begun["begun"] + 1
        process = Process(process.command, process.log)
    process.end()  # for which no time is left


def _status(status: int) -> str:
    """An exit status in words."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _last_line(log: Path) -> str:
    """The end of what a process printed, which names an error of Python."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""
