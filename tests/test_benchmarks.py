"""The scripts of benchmarks/ begin, and the page says which question each of them answers."""

import re
import subprocess
import sys

import pytest
from documents import ROOT

BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = [
    file.relative_to(BENCHMARKS).as_posix()
    for file in sorted([*BENCHMARKS.glob("*.py"), BENCHMARKS / "suite" / "run.py"])
    if "parse_args(" in file.read_text(encoding="utf-8")
]


def test_the_page_names_every_script():
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", page.partition("## ")[0]))
    assert named - {"options.py"} == set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_how_it_is_used(script):
    command = [sys.executable, str(BENCHMARKS / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    if absent := re.search(r"No module named '(pinocchio|matplotlib)'", done.stderr):
        pytest.skip(f"{absent[1]} is not installed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
