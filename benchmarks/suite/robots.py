"""The robots of the suite, as data: a name, a URDF and a root."""

from __future__ import annotations

from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import featherlane as fl
from featherlane.api.model import Model
from featherlane.tools.check import comparable

from .chains import chain_urdf

DATA = Path(__file__).parent / "data"
PACKAGE = "example-robot-data"
IN_PACKAGE = "cmeel.prefix/share/example-robot-data/robots"


class Robot(NamedTuple):
    name: str
    urdf: Path
    root: str = "fixed"

    @property
    def title(self) -> str:
        return f"{self.name}, {self.root} root"

    def model(self) -> Model:
        """As peers compute it: without damping and friction, and nothing follows another."""
        return comparable(fl.load(self.urdf, root=self.root, mimic="keep"))[0]

    @property
    def missing(self) -> str | None:
        """Why it cannot be measured here."""
        if self.urdf.exists():
            return None
        hint = "" if self.urdf.is_absolute() else f" (pip install {PACKAGE})"
        return f"there is no {self.urdf.name}{hint}"


def bundled(name: str) -> Path:
    return Path(str(resources.files("featherlane").joinpath("robot", "bundled", f"{name}.urdf")))


def example(path: str) -> Path:
    """Where example-robot-data keeps a robot, if it is installed."""
    try:
        return Path(str(distribution(PACKAGE).locate_file(f"{IN_PACKAGE}/{path}")))
    except PackageNotFoundError:
        return Path(path)


FILES = (
    Robot("iiwa14", bundled("iiwa14")),
    Robot("panda", bundled("panda")),
    Robot("hyq", bundled("hyq")),
    Robot("go2", example("go2_description/urdf/go2.urdf"), "free"),
    Robot("quadruped_arm", bundled("quadruped_arm"), "free"),
    Robot("atlas", bundled("atlas"), "free"),
    Robot("g1", bundled("g1"), "free"),
    Robot("talos", example("talos_data/robots/talos_full_v2.urdf"), "free"),
    Robot("tiago_hey5", DATA / "tiago_hey5.urdf"),
)
CHAIN = "chain"  # and the number of links
CHAINS = tuple(f"{CHAIN}{links}" for links in (10, 20, 50, 100))
DEFAULT = (*(robot.name for robot in FILES), *CHAINS)


def robot(text: str, folder: Path) -> Robot:
    """NAME, chainN or PATH, with :fixed or :free behind it. folder: where chains are written, for
    as long as they are used. Raises ValueError for another root.
    """
    source, _, root = text.partition(":")
    if root not in ("", "fixed", "free"):
        raise ValueError(f"{text!r}: the root is fixed or free here")
    known = {robot.name: robot for robot in FILES}
    if source in known:
        return known[source]._replace(root=root or known[source].root)
    if source.removeprefix(CHAIN).isdecimal():
        path = folder / f"{source}.urdf"
        path.write_text(chain_urdf(int(source.removeprefix(CHAIN))))
        return Robot(source, path, root or "fixed")
    path = bundled(source) if source in fl.bundled() else Path(source).resolve()
    return Robot(path.stem, path, root or "fixed")
