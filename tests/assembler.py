"""NVIDIA's assembler, which refuses text that the driver's compiler refuses, without a GPU."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")


def refusals(text):
    """The sentences with which ptxas refuses lines of a PTX text, each with its line. It does not
    optimise, which takes a tenth of the time, since only the text is in question.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.ptx"
        path.write_text(text)
        call = ["ptxas", "-O0", "-arch=sm_90", str(path), "-o", str(path.with_suffix(".cubin"))]
        done = subprocess.run(call, capture_output=True, text=True)
    lines = text.split("\n")
    found = re.findall(r"line (\d+); (.*)", done.stderr)
    assert found or done.returncode == 0, done.stderr
    return [f"{lines[int(k) - 1]} {told}" for k, told in found if done.returncode]
