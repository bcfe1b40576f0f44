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
ROBOTS = {"iiwa14": True, "double_pendulum": True, "panda": False, "hyq": False, "atlas": False}


def shown(name: str, scripted: bool) -> RobotOnPage:
    """A bundled robot as `generate` writes it, with the functions that the page calls."""
    with tempfile.TemporaryDirectory() as folder:
        files = fl.generate(fl.load(name), folder, ["mass_matrix"], target="wasm", name=name)
        texts = {file.name: file for file in files}
        script = texts[f"{name}_fallback.mjs"].read_text(encoding="utf-8") if scripted else ""
        return RobotOnPage(name, texts[f"{name}.wasm"].read_bytes(), script)


def built(robots: Mapping[str, bool] = ROBOTS) -> str:
    """The page of robots; True for a robot adds its script in plain JavaScript."""
    return page([shown(*each) for each in robots.items()])


def on_files(files: Any, config: Any) -> Any:
    """Adds the page to the site: a hook of MkDocs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "browser/page.html", content=built()))
    return files


if __name__ == "__main__":
    PAGE.write_text(built(), encoding="utf-8")
    print(f"{PAGE}: {PAGE.stat().st_size / 1e6:.2f} MB")
