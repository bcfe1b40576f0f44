"""Parts of the benchmarks on a GPU as processes of their own, so that a lost context, a hang or a
crash ends one cell, and not the run: another process goes on with the next cell.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from gpu_cells import FAILED, MARK, Row

GRACE = 10.0  # seconds that a part may take beyond its time, for its last cell
SILENCE = 90.0  # seconds without a row after which a cell counts as hung
Command = Callable[[int, float], Sequence[str]]  # of a part from a cell on, for so many seconds


class Process:
    """A part in a process, whose rows are read as they come. What it prints otherwise goes to a
    log.
    """

    def __init__(self, command: Sequence[str], log: IO[str]) -> None:
        self.log, self.lines = log, queue.Queue[str | None]()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

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
                self.log.write(line)

    def end(self) -> int:
        """Ends it, and what it has started. Returns its exit status, that of a killed one if a
        driver keeps it from ending.
        """
        with suppress(subprocess.TimeoutExpired):  # it may just be ending
            return self.process.wait(0.5 if self.process.poll() is None else 0)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(5)
        return -signal.SIGKILL


def rows(command: Command, seconds: float, log: Path, silence: float = SILENCE) -> Iterator[Row]:
    """All rows of a part within so many seconds and some grace. Where a process ends before the
    part does, the cell that it had begun is a row "failed", and another process has the rest.
    """
    until, first = time.monotonic() + seconds, 0
    while (left := until - time.monotonic()) > 0:
        with log.open("a") as file:
            process = Process(command(first, left), file)
            begun, why = Row(), ""
            try:
                for row in process.rows(until + GRACE, silence):
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
            why = why or f"the process ended with {_status(status)}{_last_line(log)}"
            facts = {x: y for x, y in begun.items() if x != "begun"}
            yield {**facts, "value": f"{FAILED}: {why}"}
        if "begun" not in begun:
            return
        first = begun["begun"] + 1


def _status(status: int) -> str:
    """An exit status in words."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _last_line(log: Path) -> str:
    """The end of what a process printed, which names an error of Python."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""
