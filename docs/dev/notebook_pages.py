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
from urllib.parse import quote

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


def opened(notebook: str, repository: str) -> str:
    """Links that open a notebook, with its path in the repository, whose address may be a
    placeholder: the file, and its page in Colab and in Binder.
    """
    place = repository.removeprefix("https://github.com/")
    folder, _, name = notebook.rpartition("/")
    colab = f"https://colab.research.google.com/github/{place}/blob/main/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{place}/main?labpath={quote(notebook, safe='')}"
    clone = place.rpartition("/")[2]
    return "\n".join(
        [
            f"[Open in Colab]({colab}){{ .md-button }} [Open in Binder]({binder}){{ .md-button }}",
            f"[The notebook]({name}){{ .md-button }}",
            "",
            "In Colab, run this in a first cell:",
            "",
            f"    !git clone {repository} && pip install './{clone}[examples]'",
            f"    %cd {clone}/{folder}",
        ]
    )


def on_files(files: Files, config: Any) -> Files:
    for notebook in sorted(DOCS.rglob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        first, *others = parts(notebook, pictures)
        head, _, rest = first.partition("\n")
        file = notebook.relative_to(DOCS.parent).as_posix()
        links = opened(file, config.extra["repository"])
        page = notebook.relative_to(DOCS).with_suffix(".md")
        text = "\n\n".join([head, links, rest, *others])
        files.append(File.generated(config, page.as_posix(), content=text))
        for name, svg in pictures.items():
            picture = page.with_name(name).as_posix()
            files.append(File.generated(config, picture, content=svg))
    return files
