"""Robots of the package robot_descriptions, by their names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from featherlane.errors import ModelError
from featherlane.robot.loaders.words import near, quoted
from featherlane.robot.loaders.xacro import Expansion

DESCRIPTION = re.compile(r"[A-Za-z0-9_]+_description")
PATHS = ("URDF_PATH", "MJCF_PATH", "XACRO_PATH")  # attributes of a module, the best first


class Description(NamedTuple):
    """The file of a robot of robot_descriptions, and how it is expanded if it is xacro."""

    path: str
    expansion: Expansion = Expansion()


def description(name: str) -> Description | None:
    """Returns the robot of a name ("go2_description"), fetched by git for its first use.

    Other names give None. Raises ModelError where the package is missing, does not know the name,
    or could not fetch it.
    """
    if not DESCRIPTION.fullmatch(name):
        return None
    module = _module(name)
    path = next((getattr(module, key) for key in PATHS if hasattr(module, key)), None)
    if path is None:
        raise ModelError(f"robot_descriptions.{name} has none of {', '.join(PATHS)}")
    arguments = getattr(module, "XACRO_ARGS", None) or {}
    folders = getattr(module, "XACRO_PACKAGE_PATHS", None) or {}
    by_name = {package: str(folder) for package, folder in folders.items()}
    return Description(str(path), Expansion(defaults=dict(arguments), by_name=by_name))


def _module(name: str) -> ModuleType:
    try:
        package = import_module("robot_descriptions")
    except ImportError:
        raise ModelError(
            f"there is no file {quoted(name)}; if it is a name of robot_descriptions, install that "
            "package: pip install 'featherlane[descriptions]'"
        ) from None
    try:
        return import_module(f"{package.__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package.__name__}.{name}":
            raise ModelError(f"robot_descriptions cannot load {quoted(name)}: {error}") from None
        hint = near(name, _known(package))
        raise ModelError(f"robot_descriptions knows no {quoted(name)}{hint}") from None
    except Exception as error:  # git and the network raise errors of any type
        reason = " ".join(str(error).split())[:500]
        raise ModelError(f"robot_descriptions could not fetch {quoted(name)}: {reason}") from error


def _known(package: ModuleType) -> list[str]:
    folders = getattr(package, "__path__", ())
    return [file.stem for folder in folders for file in Path(folder).glob("*_description.py")]
