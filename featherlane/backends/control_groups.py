"""The control groups of this process, which limit its processor time and its memory on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")  # of the system's files: another one in tests


def folders(controller: str) -> Iterator[Path]:
    """The folders of each control group of this process and each one above it that may limit what
    a controller counts ("cpu", "memory"), of both versions of control groups.
    """
    for mount, group in _groups(controller):
        yield from (mount / part for part in (group, *group.parents))
        yield mount


def _groups(controller: str) -> Iterator[tuple[Path, Path]]:
    """Where control groups are mounted, and this process's there. In a container the path may be
    that of the host, which is not there: then the mount itself counts.
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
