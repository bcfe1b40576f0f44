"""NVIDIA's assembler, which refuses text that the driver's compiler refuses, without a GPU."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")


def refusal(text):
    """The first sentence with which ptxas refuses a PTX text, None if it takes it. Without
    optimisation, since only the text is in question: that takes a tenth of the time.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.ptx"
        path.write_text(text)
        call = ["ptxas", "-O0", "-arch=sm_90", str(path), "-o", str(path.with_suffix(".cubin"))]
        done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error" in line or "fatal" in line]
    return lines[0].split("; ", 1)[-1] if lines else done.stderr
