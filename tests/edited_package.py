"""A copy of the package with edited files: how many files an addition needs, and that these do."""

import os
import subprocess
import sys
from pathlib import Path

import featherlane

PACKAGE = Path(featherlane.__file__).parent


def edited(folder, edits):
    """Makes the package `featherlane` in a folder, with links to all files but the edited ones.

    edits: by path in the package, the text of a new file, or pairs of an old and a new part.
    """
    changed = {Path(path) for path in edits}
    real = {parent for path in changed for parent in path.parents}
    for below in sorted(real):
        (folder / "featherlane" / below).mkdir(parents=True, exist_ok=True)
        for source in (PACKAGE / below).iterdir():
            path = below / source.name
            if path not in real | changed and source.name != "__pycache__":
                (folder / "featherlane" / path).symlink_to(source)
    for path, edit in edits.items():
        text = edit if isinstance(edit, str) else (PACKAGE / path).read_text()
        for old, new in [] if isinstance(edit, str) else edit:
            assert text.count(old) == 1, (path, old)
            text = text.replace(old, new)
        (folder / "featherlane" / path).write_text(text)
    return folder


def run(folder, script):
    """Runs a script with the package in a folder, and with a cache of its own."""
    variables = {"PYTHONPATH": str(folder), "FEATHERLANE_CACHE": str(folder / "cache")}
    (folder / "script.py").write_text(script)  # whose lines an error shows
    result = subprocess.run(
        [sys.executable, "script.py"],
        env={**os.environ, **variables, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
