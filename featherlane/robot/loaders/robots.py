"""The robots that come with the package."""

from __future__ import annotations

from typing import Any


def bundled() -> tuple[str, ...]:
    """Returns the names of the robots that come with the package.

    Examples:
        >>> fl.bundled()[:3]
        ('atlas', 'double_pendulum', 'g1')
    """
    names = [file.name for file in _folder().iterdir()]
    return tuple(sorted(n.removesuffix(".urdf") for n in names if n.endswith(".urdf")))


def text(name: str) -> bytes:
    """Returns the URDF of a bundled robot."""
    data: bytes = (_folder() / f"{name}.urdf").read_bytes()
    return data


def _folder() -> Any:
    from importlib.resources import files  # slow to import

    return files("featherlane.robot") / "bundled"
