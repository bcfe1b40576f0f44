"""All calls of the driver through the real cuda-bindings, over a stub of the driver's library."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKS = Path(__file__).with_name("driver_stub") / "checks.py"
HAS_BINDINGS = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings")


@pytest.mark.skipif(sys.platform != "linux", reason="the stub is a library of Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.skipif(not HAS_BINDINGS, reason="needs cuda-bindings")
def test_calls_through_the_real_bindings():
    """In a process of its own, whose driver the stub is."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, str(CHECKS)], capture_output=True, text=True, env=told)
    assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"^@check\ndef (\w+)", CHECKS.read_text(), re.MULTILINE)
    assert re.findall(r"^(\w+) ok", done.stdout, re.MULTILINE) == names
