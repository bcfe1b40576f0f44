"""Do chosen tests pass with the oldest and with the newest dependencies?

    python -m tests.platforms.dependencies [--python PATH] [--only oldest | newest]

Makes an environment for each from the package index. The oldest versions are those that
pyproject.toml states for this Python; the newest may be releases before their time.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from .common import CHOSEN, ROOT, answered, done, ran_tests

NAMES = (*CHOSEN, "test_arguments", "test_sincos", "test_cache", "test_loading", "test_urdf")


def stated():
    """The requirements of the package."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def oldest():
    """The requirements with the lowest versions that they allow: >=5 is ==5.0.0."""

    def exact(version):
        return "==" + ".".join([*version[1].split("."), "0", "0"][:3])

    return [re.sub(r">=([\d.]+)[^;]*", exact, line) for line in stated()]


def newest():
    """The requirements with whatever is newest."""
    return ["--pre", *stated()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=("oldest", "newest"))
    arguments, wrong = parser.parse_args(), []
    for kind, requirements in (("oldest", oldest()), ("newest", newest())):
        if arguments.only in (None, kind):
            with tempfile.TemporaryDirectory() as folder:
                done([arguments.python, "-m", "venv", folder], "an environment")
                python = Path(folder, "Scripts" if sys.platform == "win32" else "bin", "python")
                pip = [python, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
                done([*pip, *requirements], f"the {kind} dependencies")
                done([*pip, "pytest", "hypothesis", "mpmath"], "pytest")
                version = "import platform, {0} as m; print('{0}', m.__version__)"
                for name in ("numpy", "llvmlite"):
                    subprocess.run([python, "-c", version.format(name)], check=True)
                if ran_tests([python], NAMES):
                    wrong.append(kind)
    verdict = f"fail with the {' and the '.join(wrong)} dependencies" if wrong else "pass"
    print(f"Chosen tests {verdict}.")
    return wrong


if __name__ == "__main__":
    answered(main)
