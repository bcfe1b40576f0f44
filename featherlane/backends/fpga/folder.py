"""The folder of a design as its users get it: sources, a test bench with vectors, constraints, and
reports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from featherlane.backends.fpga import words
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.report import report
from featherlane.errors import shown

FACTS, VECTORS, WANTED = "design.json", "inputs.hex", "results.hex"
BOARD_FACTS = "board.json"
# Lists of sources: of the design, for synthesis, and with the test bench, for simulations
LISTED, LISTED_BENCH = "files.f", "bench.f"
KNOWN = {FACTS: "a design", BOARD_FACTS: "a board"}
SLOWEST = 64  # cycles of the test bench to each one that a design without stalls takes
CONSTRAINTS = {
    "xdc": """\
# The clock of {name}: {clock:g} ns. Pins and input and output delays are those of your board.
create_clock -name clock -period {clock:.3f} [get_ports clock]
# create_clock on the port of your clock, and constraints of a block diagram, replace the line above
set_input_delay -clock clock 0.0 [get_ports -filter {{DIRECTION == IN && NAME != "clock"}}]
set_output_delay -clock clock 0.0 [get_ports -filter {{DIRECTION == OUT}}]
""",
    "lpf": """\
# The clock of {name}: {clock:g} ns. Pins are those of your board.
FREQUENCY PORT "clock" {frequency:.3f} MHZ;
""",
}


class FolderContents(NamedTuple):
    """The folder of a design between two streams, a pipeline or a network.

    clock: nanoseconds; bench: the test bench; tasks, results: its vectors, a row of bytes for each
    word; bits: of a word of either; streams: the facts that a program needs to drive the streams;
    further: the texts of other files; names: what names in the sources stand for.
    """

    name: str
    sources: Mapping[str, str]
    clock: float
    bench: Module
    tasks: words.Array
    results: words.Array
    bits: tuple[int, int]
    streams: Mapping[str, Any]
    further: Mapping[str, str]
    names: Mapping[str, str] = MappingProxyType({})


def write(
    contents: FolderContents, folder: str | Path, facts: Mapping[str, Any], constraints: str
) -> list[Path]:
    """Writes the folder of a design, and returns the files. facts: the report; constraints: their
    kind. `iverilog -g2012 *.sv` in the folder makes a simulation. Errors as of `write_files`.
    """
    name, clock, (of_tasks, of_results) = contents.name, contents.clock, contents.bits
    names = {"names": dict(contents.names)} if contents.names else {}
    texts = {
        **with_bench(contents.sources, contents.bench),
        VECTORS: words.hexadecimal(contents.tasks, of_tasks),
        WANTED: words.hexadecimal(contents.results, of_results),
        f"{name}.{constraints}": CONSTRAINTS[constraints].format(
            name=name, clock=clock, frequency=1e3 / clock
        ),
        FACTS: json.dumps({**contents.streams, **names, "report": facts}, indent=1) + "\n",
        "report.txt": report({**facts, **names}),
        **contents.further,
    }
    return write_files(texts, folder, name)


def with_bench(sources: Mapping[str, str], bench: Module) -> dict[str, str]:
    """Returns sources with a test bench and with lists of both, by the names of their files."""
    file = f"{bench.name}.sv"
    lists = {LISTED: listed(sources), LISTED_BENCH: listed([*sources, file])}
    return {**sources, file: bench.text, **lists}


def listed(sources: Iterable[str]) -> str:
    """A list of files as simulators and linters take it behind `-f`, a name in each line."""
    return "\n".join([*sources, ""])


def write_files(texts: Mapping[str, str], folder: str | Path, design: str) -> list[Path]:
    """Writes texts by the names of their files, and returns the files. Sources of an earlier design
    of this name are removed. Raises ValueError for a folder with another one, for a design where
    its board lies and the other way round, and for a folder that cannot be written to.
    """
    folder = checked_path("folder", folder)
    old = check(folder, design, texts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in old:
            path.unlink()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error.strerror or error) from error
    return [folder / name for name in texts]


def check(folder: Path, design: str, names: Container[str] = ()) -> list[Path]:
    """Returns the sources of an earlier design of this name in a folder, which need not exist.
    names: of the files that will be written. Raises ValueError for a folder that `write_files`
    refuses, as far as that shows before anything is written.
    """
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError as error:  # of a name that is too long
        raise _unwritable(folder, error.strerror or error) from error
    if not existing.is_dir():
        raise _unwritable(folder, f"{str(existing)!r} is a file")
    if not os.access(existing, os.W_OK):
        raise _unwritable(folder, f"no permission to write to {str(existing)!r}")
    for known, what in KNOWN.items():
        if known not in names and (folder / known).exists():
            reason = "a design and its board need a folder each, because both have test benches"
            raise ValueError(f"folder {str(folder)!r} holds {what} ({known}): {reason}")
    return _sources(folder, design)


def check_creatable(folder: Path) -> None:
    """Raises ValueError for a folder that cannot be created: it is, and is removed again."""
    folder = folder.absolute()
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error.strerror or error) from error
    finally:
        for path in missing:
            with suppress(OSError):  # not created
                path.rmdir()


def _unwritable(folder: Path, reason: Any) -> ValueError:
    return ValueError(f"folder {str(folder)!r} cannot be written to: {reason}")


def checked_path(name: str, path: Any) -> Path:
    """Returns a path. Raises TypeError for what is none, and ValueError for an empty text, which
    Path takes for the folder where the program runs.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"{name} is {shown(path)}: wanted a path, as text or pathlib.Path")
    if path == "":
        raise ValueError(f"{name} is '': wanted a path; '.' is the folder where the program runs")
    return Path(path)


def _sources(folder: Path, name: str) -> list[Path]:
    """The sources in a folder. Raises ValueError if they are of a design of another name."""
    present = sorted(folder.glob("*.sv"))
    others = [
        path.name
        for path in present
        if path.stem != name and path.stem[: len(name) + 1] != f"{name}_"
    ]
    if others:
        reason = "each design needs a folder of its own, because all sources there are simulated"
        raise ValueError(f"folder {str(folder)!r} holds {others[0]} of another design: {reason}")
    return present
