"""The control groups of this process, which limit its processor time and its memory on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")  # the root of the system's files; tests set another one


def folders(controller: str) -> Iterator[Path]:
    """The folders of the control groups of this process and their ancestors, in both versions of
    control groups, that may have limits of a controller ("cpu", "memory").
    """
    for mount, group in _groups(controller):
        yield from (mount / part for part in (group, *group.parents))
        yield mount


def _groups(controller: str) -> Iterator[tuple[Path, Path]]:
    """Yields each mount of control groups and the group of this process in it. In a container the
    group may be a path of the host, which does not exist there: then the mount itself counts.
    """
    for line in text(ROOT / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        group = Path(path.lstrip("/"))
        if number == "0":
            yield ROOT / "sys/fs/cgroup", group
        elif controller in controllers.split(","):
            for name in (controllers, controller):
                yield ROOT / "sys/fs/cgroup" / name, group


def text(path: Path) -> str:
    """The contents of a file of the system, nothing if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
