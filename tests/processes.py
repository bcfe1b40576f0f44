"""Programs in processes of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

from featherlane.backends.cores import physical_cores

# What starts a Python of another processor: the name of an emulator
LAUNCHER = os.environ.get("FEATHERLANE_TEST_LAUNCHER", "").split()

several_cores = pytest.mark.skipif(
    physical_cores() < 2, reason="this process may use one core: no call is shared"
)


def python(code, *words, preexec_fn=None, **environment):
    """Runs a program of its own; a variable that is None is taken away."""
    env = {**os.environ, **environment}
    env = {key: value for key, value in env.items() if value is not None}
    return subprocess.Popen(
        [*LAUNCHER, sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec_fn,
    )


HUNG = 600.0  # seconds: only a process that hangs takes longer, on any machine


def finished(process):
    out, err = process.communicate(timeout=HUNG)
    assert process.returncode == 0, err
    return out
