"""Is a 32-bit Python refused with a sentence, where machine code would end the process?

    python -m tests.platforms.bits32 [--folder FOLDER]

Needs qemu-i386 (Debian: qemu-user). The interpreter, NumPy, llvmlite and lxml come from Debian's
packages for i386. Their versions are older than this package asks for, which does not matter: they
are only imported.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from .common import ROOT, answered, debian, tool

PACKAGES = ("python3", "python3-numpy", "python3-llvmlite", "python3-lxml")
PROGRAM = """
import struct
assert struct.calcsize("P") == 4
import numpy as np
import featherlane as fl
model = fl.load("iiwa14")
try:
    model.mass_matrix(np.zeros(7))
except fl.CompileError as error:
    print(error)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/featherlane-i386"))
    folder = parser.parse_args().folder.resolve()
    qemu, root = tool("qemu-i386"), debian("i386", folder, *PACKAGES)
    libraries = root / "usr/lib/i386-linux-gnu"
    searched = ":".join(str(libraries / name) for name in ("", "blas", "lapack"))
    environment = {
        **os.environ,
        "QEMU_LD_PREFIX": str(root),
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": f"{ROOT}:{root / 'usr/lib/python3/dist-packages'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [qemu, "-E", f"LD_LIBRARY_PATH={searched}", root / "usr/bin/python3.11", "-c"]
    made = subprocess.run(
        [*command, PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    wrong = made.returncode or "this Python is a 32-bit program" not in made.stdout
    print((made.stderr if wrong else made.stdout).strip())
    print(f"A 32-bit Python is {'not ' if wrong else ''}refused with a sentence.")
    return wrong


if __name__ == "__main__":
    answered(main)
