"""Packages of ROS by name: the folders that $(find name) in a xacro file stands for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

NAME = re.compile(r"<name>\s*([\w-]+)\s*</name>")
PACKAGE_FILE = "package.xml"
DEEPEST = 4  # levels below a folder in which packages are looked for
NEAREST = 4  # folders around a file whose neighbours are looked at
FOLDERS = 5_000  # folders that one look-up opens at most


class PackageFinder:
    """Finds packages in the user's folders, around a file, and where ROS looks for them.

    missing: the unknown packages.
    """

    def __init__(
        self,
        path: str | None,
        folders: Sequence[str],
        by_name: Mapping[str, str],
        others: Callable[[str], str] | None = None,
    ) -> None:
        """path: the file around which to look. by_name: folders that are known. others: the last to
        be asked; raises any exception for packages that it does not know.
        """
        self.path, self.folders, self.by_name, self.others = path, folders, by_name, others
        self.missing: list[str] = []

    def get_path(self, name: str) -> str:
        """Returns the folder of a package. Raises LookupError if there is none."""
        folder = next((path for path in self._places(name) if path is not None), None)
        if folder is not None:
            return str(folder)
        try:
            if self.others is not None:
                return self.others(name)
        except Exception:  # other finders raise errors of any type
            pass
        self.missing.append(name)
        raise LookupError(f"there is no package {name!r}")

    def _places(self, name: str) -> Iterator[Path | None]:
        """Yields what each place knows of a package, the most specific place first."""
        yield Path(self.by_name[name]).absolute() if name in self.by_name else None
        for folder in self.folders:
            yield _below(Path(folder).absolute(), name)
        if self.path is not None:
            yield from _around(Path(self.path).resolve(), name)
        for folder in _entries("ROS_PACKAGE_PATH"):
            yield _below(Path(folder), name)
        for folder in _entries("AMENT_PREFIX_PATH"):
            yield _directory(Path(folder) / "share" / name)


def _entries(variable: str) -> list[str]:
    return [entry for entry in os.environ.get(variable, "").split(os.pathsep) if entry]


def _around(path: Path, name: str) -> Iterator[Path | None]:
    """Yields the packages that hold a file, their neighbours, and those beside folders above."""
    for level, folder in enumerate(path.parents):
        if folder == folder.parent:  # the root of the file system
            return
        yield folder if _is_package(folder, name) else None
        yield _directory(folder / name)
        if level < NEAREST:
            yield next((f for f in _folders_in(folder) if _is_package(f, name)), None)


def _below(folder: Path, name: str) -> Path | None:
    """Returns the package in a folder, itself included, or a few levels below it."""
    return next((f for f in islice(_all_below(folder), FOLDERS) if _is_package(f, name)), None)


def _all_below(folder: Path) -> Iterator[Path]:
    """Yields folders level by level; there are no packages in packages."""
    level = [folder]
    for _ in range(DEEPEST + 1):
        yield from level
        level = [
            inner
            for outer in level
            if not (outer / PACKAGE_FILE).is_file()
            for inner in _folders_in(outer)
        ]


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in islice(entries, FOLDERS) if e.is_dir() and e.name[0] != "."]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def _is_package(folder: Path, name: str) -> bool:
    """Tells whether a folder is the package: by its package.xml, or by its name."""
    try:
        text = (folder / PACKAGE_FILE).read_text(errors="replace")
    except OSError:
        return folder.name == name and folder.is_dir()
    declared = NAME.search(text)
    return declared[1] == name if declared else folder.name == name


def _directory(path: Path) -> Path | None:
    return path if path.is_dir() else None
