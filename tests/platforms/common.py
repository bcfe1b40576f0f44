"""What the scripts share: interpreters of other systems, their packages, and chosen tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Tests of what depends on a system: calls, threads, memory, the bits of operations
CHOSEN = ("test_native", "test_reference", "test_single_state", "test_threads")
TESTING = ("pytest", "hypothesis", "mpmath", "iniconfig", "pluggy", "packaging", "pygments")
TESTING += ("attrs", "sortedcontainers", "colorama")
PACKAGES = ("numpy", "llvmlite", "lxml")
SOURCES = "deb http://deb.debian.org/debian bookworm main\n"


class Skipped(Exception):
    """A tool or an interpreter that cannot be had here."""


def answered(main):
    """Runs a script's main, which returns whether something is wrong, and ends the process."""
    try:
        sys.exit(bool(main()))
    except Skipped as reason:
        print(f"Skipped: {reason}.")
        sys.exit(0)


def tool(name, *places):
    """The path of a program."""
    found = shutil.which(name) or next(filter(os.path.exists, places), None)
    if found is None:
        raise Skipped(f"there is no {name} here")
    return found


def done(command, what, **options):
    """The output of a command without which the script has nothing to run."""
    made = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if made.returncode:
        lines = (made.stderr or made.stdout).strip().splitlines()
        raise Skipped(f"{what} could not be had: {lines[-1] if lines else 'no reason given'}")
    return made.stdout


def debian(architecture, folder, *packages):
    """Unpacks Debian packages of an architecture, with all that they need, into a folder. apt works
    on lists of its own there, and leaves those of the system alone.
    """
    root, state = folder / "root", folder / "apt"
    if root.exists():
        return root
    apt = tool("apt-get")
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(SOURCES)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    done([apt, *options, "update"], "Debian's list of packages")
    download = ["install", "-y", "--no-install-recommends", "--download-only"]
    done([apt, *options, *download, *packages], f"Debian's packages for {architecture}")
    for package in (state / "cache/archives").glob("*.deb"):
        done([tool("dpkg"), "-x", package, root], package.name)
    return root


def wheels(folder, python, platforms, requirements):
    """Unpacks wheels for another system into a folder. python: "3.11"."""
    site = folder / "site"
    if site.exists():
        return site
    target = [word for name in platforms for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    done([*pip, "--python-version", python, *target, "--target", site, *requirements], "wheels")
    return site


def ran_tests(command, names=CHOSEN, left_out=(), **options):
    """Runs chosen tests by a command that is a Python; true if one fails."""
    files = [f"tests/{name}.py" for name in names]
    skipped = [word for name in left_out for word in ("--deselect", f"tests/{name}")]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *files, *skipped]
    options = {"stdin": subprocess.DEVNULL, "cwd": ROOT, "text": True, "check": False} | options
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}  # Wine wants pipes
    made = subprocess.run([*command, *words], **output, **options)
    print("\n".join(made.stdout.strip().splitlines()[-30:]))
    return made.returncode != 0
