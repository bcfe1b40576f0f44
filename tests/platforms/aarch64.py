"""Do chosen tests pass on aarch64, under qemu's emulation of its instructions?

    python -m tests.platforms.aarch64 [--folder FOLDER]

Needs qemu-aarch64 (Debian: qemu-user). The interpreter and the libraries of its system come from
Debian's packages for arm64, NumPy, llvmlite and lxml from their wheels. Takes some ten minutes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .common import PACKAGES, ROOT, TESTING, answered, debian, ran_tests, tool, wheels

PLATFORMS = [f"manylinux{version}_aarch64" for version in ("2014", "_2_17", "_2_27", "_2_28")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/featherlane-aarch64"))
    folder = parser.parse_args().folder.resolve()
    qemu = tool("qemu-aarch64")
    root = debian("arm64", folder, "python3.11", "libstdc++6")
    site = wheels(folder, "3.11", PLATFORMS, [*PACKAGES, *TESTING])
    environment = {
        **os.environ,
        "QEMU_LD_PREFIX": str(root),
        "PYTHONPATH": os.pathsep.join(map(str, (site, ROOT))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "FEATHERLANE_TEST_LAUNCHER": qemu,
    }
    names = ("test_native", "test_reference", "test_single_state")
    wrong = ran_tests([qemu, root / "usr/bin/python3.11"], names, env=environment)
    print(f"On aarch64, emulated, chosen tests {'fail' if wrong else 'pass'}.")
    return wrong


if __name__ == "__main__":
    answered(main)
