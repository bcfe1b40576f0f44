"""The scripts of benchmarks/ begin, and the page says which question each of them answers."""

import re
import runpy
import sys

import pytest
from documents import ROOT
from repetition import repeated

BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = [
    file.relative_to(BENCHMARKS).as_posix()
    for file in sorted(
        {*BENCHMARKS.glob("*.py"), *BENCHMARKS.glob("*/run.py"), *BENCHMARKS.glob("mpc/*.py")}
    )
    if "parse_args(" in file.read_text(encoding="utf-8")
]


def test_the_page_names_every_script():
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", page.partition("## ")[0]))
    assert named - {"options.py"} == set(SCRIPTS)


@pytest.mark.parametrize("script", repeated(SCRIPTS, 4))
def test_a_script_says_how_it_is_used(script, monkeypatch, capsys):
    """As it begins when it is called, but in this process: what scripts import is loaded once."""
    file = BENCHMARKS / script
    monkeypatch.setattr(sys, "argv", [str(file), "--help"])
    monkeypatch.syspath_prepend(file.parent)
    try:
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(file), run_name="__main__")
    except ModuleNotFoundError as error:
        if error.name not in ("pinocchio", "matplotlib", "mujoco", "piqp", "scipy"):
            raise
        pytest.skip(f"{error.name} is not installed")
    assert not end.value.code
    assert capsys.readouterr().out.startswith("usage: ")
