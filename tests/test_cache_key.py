"""Compiled code belongs to the text of the whole package: an edited algorithm is compiled anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import featherlane

CODE = """
import featherlane as fl
assert fl.__file__.startswith({copy!r}), fl.__file__
fl.load("double_pendulum").mass_matrix([0.1, 0.2])
"""


@pytest.fixture
def entries(tmp_path):
    """entries(): computes with the copy of the package in tmp_path; what its cache holds then."""
    source, copy = Path(featherlane.__file__).parent, tmp_path / "featherlane"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    environment = os.environ | {"FEATHERLANE_CACHE": str(cache), "PYTHONPATH": str(tmp_path)}

    def run():
        command = [sys.executable, "-c", CODE.format(copy=str(copy))]
        subprocess.run(command, env=environment, cwd=tmp_path, check=True)
        return {file.name for file in cache.iterdir()}

    return run


@pytest.mark.parametrize("file", ["algorithms/rnea.py", "algorithms/scan/lists.py"])
def test_code_is_compiled_anew_after_a_change_of_an_algorithm(file, entries, tmp_path):
    first = entries()
    assert first
    assert entries() == first
    with (tmp_path / "featherlane" / file).open("a") as text:
        text.write("# another version\n")
    second = entries()
    assert second > first
    assert len(second) == 2 * len(first)
