"""Notebooks as pages of the site: their text, and what their cells print and draw when they run
during the build, in the style of all figures. The notebooks themselves are stored without outputs.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from featherlane.tools import figures

DOCS = Path(__file__).parents[1]


def run(code: str, names: dict[str, Any], where: str) -> tuple[str, list[tuple[str, bytes]]]:
    """What a cell prints, and the figures that it draws, each in words and as SVG.

    names: what the cells before it defined. Raises what the cell raises, which ends the build.
    """
    plt, printed, drawn = figures.pyplot(), io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        exec(compile(code, where, "exec"), names)
    for figure in map(plt.figure, plt.get_fignums()):
        words, svg = in_words(figure), io.BytesIO()
        metadata = {"Title": words, "Date": None}
        figure.savefig(svg, format="svg", transparent=True, bbox_inches="tight", metadata=metadata)
        drawn.append((words, svg.getvalue()))
    plt.close("all")
    return printed.getvalue(), drawn


def in_words(figure: Any) -> str:
    """The titles or the axes of a figure, for readers who are told what they cannot see."""
    plots = figure.axes
    shown = [x.get_title() or f"{x.get_ylabel()} against {x.get_xlabel()}" for x in plots]
    return "; ".join(x for x in shown if not x.endswith("against "))


def parts(notebook: Path, pictures: dict[str, bytes]) -> Iterator[str]:
    """The Markdown of the cells, one after the other; pictures: where their figures are put."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        yield f"```python\n{text}\n```"
        with contextlib.chdir(notebook.parent):
            printed, drawn = run(text, names, notebook.name)
        if printed:
            yield f"```text\n{printed}```"
        for words, svg in drawn:
            name = f"{notebook.stem}_{len(pictures) + 1}.svg"
            pictures[name] = svg
            yield f"![{words}]({name})"


def on_files(files: Files, config: Any) -> Files:
    for notebook in sorted(DOCS.rglob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        first, *others = parts(notebook, pictures)
        head, _, rest = first.partition("\n")
        link = f"[The notebook]({notebook.name}), to run it."
        page = notebook.relative_to(DOCS).with_suffix(".md")
        text = "\n\n".join([head, link, rest, *others])
        files.append(File.generated(config, page.as_posix(), content=text))
        for name, svg in pictures.items():
            picture = page.with_name(name).as_posix()
            files.append(File.generated(config, picture, content=svg))
    return files
