"""The steps of a release that a program can do; docs/dev/release.md has the whole list.

    python packaging/release.py address REPOSITORY DOCUMENTATION SECURITY
    python packaging/release.py install
    python packaging/release.py check [--tag v0.2.0]
    python packaging/release.py build [--output dist]

`address` puts the addresses of the project in the place of the placeholders. `install` makes the
documents install from the package index, not from a clone as before the first release. `check`
says what stands against a release, with status 1 if anything does. `build` makes wheel and sdist
twice, from two folders, compares them, and has them checked; it needs git and `pip install
'.[release]'`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDERS = {
    "repository": "https://github.com/OWNER/featherlane",
    "documentation": "https://OWNER.github.io/featherlane",
    "security": "security@OWNER.example",
}
# Where addresses of the project stand. "OWNER" in any of them stands against a release.
ADDRESSED = (
    "pyproject.toml",
    "README.md",
    "docs/index.md",
    "mkdocs.yml",
    "CITATION.cff",
    "SECURITY.md",
    "packaging/conda/recipe.yaml",
    ".github/ISSUE_TEMPLATE/config.yml",
    "docs/start.md",
)
# How documents install the package before there is a release, and from the first one on
INSTALLED = {
    "README.md": (
        "`pip install .` in a clone of this repository installs the package with NumPy, llvmlite "
        "and lxml; no compiler is needed.\n"
        "Once it is published, this will be `pip install featherlane`.",
        "`pip install featherlane` installs the package with NumPy, llvmlite and lxml; no compiler "
        "is needed.",
    ),
    "docs/index.md": (
        "**Install** from a clone, without a compiler: `git clone {repository} && pip install\n"
        "./featherlane`. Once it is published, this will be `pip install featherlane`.",
        "**Install** it without a compiler: `pip install featherlane`.",
    ),
    "docs/start.md": (
        "There is no release on a package index yet. From a clone:\n\n"
        "    git clone {repository} && pip install ./featherlane\n",
        "    pip install featherlane\n",
    ),
}
SECTION = re.compile(r"^## \[(?P<version>\d[^\]]*)\] - (?P<date>\d{4}-\d\d-\d\d)$", re.MULTILINE)


def read(file: str, root: Path = ROOT) -> str:
    """The text of a file of the repository; none if there is no such file."""
    path = root / file
    return path.read_text(encoding="utf-8") if path.exists() else ""


def version(root: Path = ROOT) -> str:
    """The version in `featherlane/version.py`, which is that of the package."""
    found = re.search(r'^__version__ = "(.+)"$', read("featherlane/version.py", root), re.MULTILINE)
    if found is None:
        raise ValueError("featherlane/version.py has no line __version__ = ...")
    return found[1]


def released(root: Path = ROOT) -> tuple[str, str]:
    """The version and the date of the newest section of the change log."""
    found = SECTION.search(read("CHANGELOG.md", root))
    return (found["version"], found["date"]) if found else ("none", "none")


def address(addresses: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """Replaces the placeholders everywhere, and returns the files that changed.

    addresses: by the keys of `PLACEHOLDERS`, without a slash at the end.
    """
    changed = []
    for file in ADDRESSED:
        before = after = read(file, root)
        for name, placeholder in PLACEHOLDERS.items():
            after = after.replace(placeholder, addresses[name].rstrip("/"))
        if after != before:
            (root / file).write_text(after, encoding="utf-8")
            changed.append(file)
    return changed


def install(root: Path = ROOT) -> list[str]:
    """Makes the documents install from the package index, and returns the files that changed."""
    changed = []
    for file in _from_a_clone(root):
        before, after = INSTALLED[file]
        text = _with_address(before).sub(lambda _, after=after: after, read(file, root))
        (root / file).write_text(text, encoding="utf-8")
        changed.append(file)
    return changed


def _from_a_clone(root: Path) -> list[str]:
    """The documents that install from a clone."""
    return [
        file
        for file, (before, _) in INSTALLED.items()
        if _with_address(before).search(read(file, root))
    ]


def _with_address(text: str) -> re.Pattern[str]:
    """A text with any address of the repository."""
    return re.compile(re.escape(text).replace(re.escape("{repository}"), r"\S+"))


def obstacles(tag: str | None = None, root: Path = ROOT) -> Iterator[str]:
    """What stands against a release of the files as they are, a sentence for each.

    tag: the tag that is to be released, if it is known.
    """
    here = version(root)
    for file in ADDRESSED:
        for k, line in enumerate(read(file, root).splitlines(), 1):
            if "OWNER" in line:
                yield f"{file}, line {k}: a placeholder stands in the place of an address"
    for file in _from_a_clone(root):
        yield f"{file}: it installs from a clone: python packaging/release.py install"
    logged, date = released(root)
    if logged != here:
        yield f"CHANGELOG.md: the newest section is {logged}, the package is {here}"
    for pattern, file in (
        (rf"^version: {re.escape(here)}$", "CITATION.cff"),
        (rf"^date-released: {date}$", "CITATION.cff"),
        (rf"^  version: {re.escape(here)}$", "packaging/conda/recipe.yaml"),
    ):
        if not re.search(pattern, read(file, root).replace('"', ""), re.MULTILINE):
            yield f"{file}: no line is {pattern.strip('^$')}"
    if tag is not None and tag != f"v{here}":
        yield f"the tag is {tag}, the package is {here}: wanted v{here}"


def build(output: Path) -> list[Path]:
    """Builds wheel and sdist of the commit HEAD into a folder, and checks them.

    Two builds from folders of different names have to give the same bytes; their files carry the
    date of the commit. Raises RuntimeError otherwise, and CalledProcessError if a check fails.
    """
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    seconds = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "HEAD"], check=True, capture_output=True
    ).stdout
    with tempfile.TemporaryDirectory() as text:
        made = [_built(archive, Path(text) / name, environment) for name in ("a", "another")]
        first, second = ({file.name: _digest(file) for file in files} for files in made)
        if first != second:
            raise RuntimeError(f"two builds differ: {first} and {second}")
        output.mkdir(parents=True, exist_ok=True)
        files = [Path(shutil.copy(file, output)) for file in made[0]]
    wheels = [str(file) for file in files if file.suffix == ".whl"]
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True
    )
    subprocess.run([sys.executable, "-m", "check_wheel_contents", *wheels], check=True)
    print(f"SOURCE_DATE_EPOCH={seconds}  # {datetime.fromtimestamp(int(seconds), UTC)}")
    print(*(f"{digest}  {name}" for name, digest in first.items()), sep="\n")
    return files


def _built(archive: bytes, folder: Path, environment: Mapping[str, str]) -> list[Path]:
    """The sdist of unpacked files, and the wheel that is built from this sdist."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    asked = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(folder)]
    subprocess.run(asked, check=True, env=environment, stdout=subprocess.DEVNULL)
    return sorted((folder / "dist").iterdir())


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    fill = commands.add_parser("address", help="put addresses in the place of the placeholders")
    fill.add_argument("repository", help="https://github.com/me/featherlane")
    fill.add_argument("documentation", help="address of the site")
    fill.add_argument("security", help="mail address for reports on security")
    commands.add_parser("install", help="make documents install from the package index")
    check = commands.add_parser("check", help="say what stands against a release")
    check.add_argument("--tag", help="the tag that is to be released")
    make = commands.add_parser("build", help="build wheel and sdist, twice, and check them")
    make.add_argument("--output", type=Path, default=ROOT / "dist", help="folder (dist)")
    return top


def main() -> int:
    args = parser().parse_args()
    if args.command == "address":
        print(*address({name: getattr(args, name) for name in PLACEHOLDERS}), sep="\n")
    elif args.command == "install":
        print(*install(), sep="\n")
    elif args.command == "build":
        build(args.output)
    else:
        found = list(obstacles(args.tag))
        print(*(found or ["nothing stands against a release"]), sep="\n")
        return bool(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
