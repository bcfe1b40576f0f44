"""Figures and tables on narrow screens, as a hook of MkDocs.

A figure NAME.svg is replaced by NAME_narrow.svg, if that stands beside it; else it is as wide as
its letters need, and scrolls. A table of two or three columns whose words are too long for them is
stacked: a row becomes cells one below the other, each with the name of its column.
"""

from __future__ import annotations

import posixpath
import re
from html import unescape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
IMAGE = re.compile(r'<img [^>]*src="([^":]+)\.svg"[^>]*>')
VIEW = re.compile(r'viewBox=["\']\S+ \S+ ([\d.]+)')
LETTERS = re.compile(r"font(?:-size)?[:=]\s*[\"']?[^;\"']*?([\d.]+)(?:px)?[ ;\"']")
NARROW = "(max-width: 44.9em)"  # as in site.css
SMALLEST = 9.0  # pixels of letters
RARE = 0.25  # fraction of texts that may be smaller: exponents
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
CELL = re.compile(r"<(t[hd])([^>]*)>(.*?)</\1>", re.DOTALL)
MOST_COLUMNS = 3
LETTER, PADDING, PAGE = 7.2, 32, 356  # pixels in tables, and of a screen of 388


def readable_width(svg: str) -> float | None:
    """The width of a figure in pixels at which its letters are readable; None without letters."""
    view, sizes = VIEW.search(svg), sorted(float(size) for size in LETTERS.findall(svg))
    if view is None or not sizes:
        return None
    return float(view[1]) * SMALLEST / sizes[int(RARE * len(sizes))]


def least_width(table: str) -> float:
    """The width of a table in pixels below which its longest words do not fit."""
    rows = [[_longest_word(cell[2]) for cell in CELL.findall(row)] for row in ROW.findall(table)]
    return sum(LETTER * max(column) + PADDING for column in zip(*rows, strict=True))


def _longest_word(cell: str) -> int:
    words = unescape(re.sub("<[^>]*>", "", cell)).split()
    return max(map(len, words), default=0)


def stacked(table: str) -> str:
    """A table whose cells have the names of their columns, for the style sheet."""
    names = [re.sub("<[^>]*>", "", cell[2]) for cell in CELL.findall(table.partition("</tr>")[0])]

    def labelled(row: re.Match[str]) -> str:
        column = iter(names)
        return CELL.sub(lambda cell: _labelled(cell, next(column)), row[0])

    return ROW.sub(labelled, table).replace("<table>", "<table data-stacked>")


def _labelled(cell: re.Match[str], column: str) -> str:
    tag, attributes, content = cell.groups()
    return f'<{tag}{attributes} data-column="{column}">{content}</{tag}>'


def framed(image: re.Match[str], folder: str) -> str:
    """A figure with its narrow drawing, or in a frame with the width that it needs."""
    path = DOCS / posixpath.normpath(posixpath.join(folder, image[1]))
    if path.with_name(f"{path.name}_narrow.svg").exists():
        narrow = f'<source media="{NARROW}" srcset="{image[1]}_narrow.svg">'
        return f"<picture>{narrow}{image[0]}</picture>"
    drawing = path.with_name(f"{path.name}.svg")
    width = readable_width(drawing.read_text(encoding="utf-8")) if drawing.exists() else None
    style = f' style="--readable: {width:.0f}px"' if width else ""
    return f'<span class="figure"{style}>{image[0]}</span>'


def fitted(table: str) -> str:
    """A table as it is, or stacked."""
    columns = table.partition("</tr>")[0].count("</th>")
    return stacked(table) if columns <= MOST_COLUMNS and least_width(table) > PAGE else table


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    html = IMAGE.sub(lambda image: framed(image, page.url or "."), html)
    return TABLE.sub(lambda table: fitted(table[0]), html)
