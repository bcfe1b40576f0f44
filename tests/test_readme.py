"""The README does what it says: its example prints what it shows, its links lead somewhere."""

import re
import subprocess
import sys

import pytest
from documents import ROOT, blocks, run
from repetition import repeated

README = ROOT / "README.md"


def test_the_example_prints_what_is_shown():
    run(README)


def test_there_is_an_example_of_about_ten_lines():
    code = next(code for _, code, expected in blocks(README) if expected is not None)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


BUILT_WITH_THE_SITE = "browser/page.html"  # by docs/browser/build.py
PAGES = [README, *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("benchmarks/**/*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in link and link != BUILT_WITH_THE_SITE:
            assert (path.parent / link).exists(), link


@pytest.mark.parametrize("robot", repeated(["double_pendulum", "iiwa14"]))
def test_the_main_job_is_a_command(robot):
    """Of the README's robot, or of a smaller one, which takes a fifth of the time."""
    commands = re.findall(r"\.venv/bin/featherlane (.*)", README.read_text(encoding="utf-8"))
    assert commands[0] == "bench iiwa14"
    words = commands[0].replace("iiwa14", robot).split()
    asked = [sys.executable, "-m", "featherlane", *words, "--batch", "16"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "FAIL" not in done.stdout
