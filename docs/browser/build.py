"""The page of docs/browser.md: the site is built with it, and `python docs/browser/build.py` writes
it into this folder, to look at.

Robots of the package on one page that needs nothing else. Scripts in plain JavaScript, with which
WebAssembly is compared, come with the small ones only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import featherlane as fl
from featherlane.backends.wasm.files import RobotOnPage, page

PAGE = Path(__file__).parent / "page.html"
SCRIPTED = dict.fromkeys(("iiwa14", "double_pendulum"), True)  # they come with plain JavaScript
ROBOTS = SCRIPTED | dict.fromkeys(("so101", "openarm", "panda", "hyq", "atlas"), False)
STANDING = "go2"  # on the ground, with the contact law of fl.Ground
STANCE = [0, 0, 0.3, 0, 0, 0, 1, *[0, 0.8, -1.5] * 4]
LINKS = {"How this page works": "./", "The project": "../", "The ground": "../ground/",
         "C code": "../c/", "All functions": "../reference/"}  # fmt: skip


def shown(name: str, scripted: bool) -> RobotOnPage:
    """A bundled robot as `generate` writes it, with the functions that the page calls."""
    return generated(name, fl.load(name), ["mass_matrix"], scripted)


def standing(name: str = STANDING) -> RobotOnPage:
    """A robot on its feet: its step counts the ground, in single precision."""
    robot = fl.load(name, root="free")
    step = robot.graph("step", ground=fl.Ground(), ground_params=["impulse"])
    made = generated(f"{name} on the ground", robot, {"step": step}, False, dtype="float32")
    return made._replace(stance=STANCE)


def generated(
    title: str, robot: fl.Model, functions: Any, scripted: bool, **options: Any
) -> RobotOnPage:
    """The robot of a page with the content of the files of its functions."""
    with tempfile.TemporaryDirectory() as folder:
        fl.generate(robot, folder, functions, target="wasm", name="robot", **options)
        module = Path(folder, "robot.wasm").read_bytes()
        script = Path(folder, "robot_fallback.mjs").read_text(encoding="utf-8") if scripted else ""
        return RobotOnPage(title, module, script)


def built(robots: Mapping[str, bool] = ROBOTS) -> str:
    """The page of robots; True for a robot adds its script in plain JavaScript."""
    return page([*(shown(*each) for each in robots.items()), standing()], LINKS)


def on_files(files: Any, config: Any) -> Any:
    """Adds the page to the site: a hook of MkDocs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "browser/page.html", content=built()))
    return files


if __name__ == "__main__":
    PAGE.write_text(built(), encoding="utf-8")
    print(f"{PAGE}: {PAGE.stat().st_size / 1e6:.2f} MB")
