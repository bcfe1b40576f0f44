"""The commit of the package that runs, for tables of figures."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

UNKNOWN = "unknown"  # a package that was installed from an index or an unpacked folder


def commit() -> str:
    """The commit of the checkout that holds the package, with "+" where files differ from it, or
    the one that pip installed it from, or "unknown".
    """
    root = Path(__file__).parents[2]
    if (root / ".git").exists():
        return of_checkout(root)
    return _installed() or UNKNOWN


def of_checkout(folder: Path) -> str:
    """The commit of the checkout that a folder lies in, with "+" where files differ from it."""
    git = ["git", "-C", str(folder)]
    try:
        name = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        )
        differs = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True)
    except OSError:  # no git here
        return UNKNOWN
    return (name.stdout.strip() or UNKNOWN) + "+" * (differs.returncode == 1)


def _installed() -> str | None:
    """The commit in direct_url.json, which pip writes for `pip install git+https://...`."""
    try:
        text = distribution("featherlane").read_text("direct_url.json")
        return str(json.loads(text or "{}")["vcs_info"]["commit_id"])[:7]
    except (PackageNotFoundError, KeyError, ValueError):
        return None
