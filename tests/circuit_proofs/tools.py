"""Yosys for proofs and counts: YoWASP's, whose version is pinned, so that counts are those of one
version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from featherlane.backends.fpga.bitstream.tools import YOSYS, run_package


def yosys(script: str, files: Mapping[str, str], result: str) -> bytes:
    """Runs a script of Yosys over files and returns a file that it wrote."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for file, text in files.items():
            (work / file).write_text(text)
        run_package(YOSYS, ["-q", "-p", script], work)
        return (work / result).read_bytes()
