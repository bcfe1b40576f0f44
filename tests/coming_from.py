"""The tables of docs/coming_from: a row names a function of another library and ours, in code.

Python blocks of a page prepare a robot in both libraries. Then each row of the tables whose last
column is called "what differs" runs: the code of its first cell and the code of its second give the
same numbers. A cell may hold several pieces of code; the last one is the value, those before it are
statements. Rows without code on one side say in words that there is no counterpart.
"""

import contextlib
import copy
import io
import re
from typing import NamedTuple

import numpy as np
from documents import ROOT, blocks

PAGES = ROOT / "docs" / "coming_from"
HEADING = "what differs"  # of the last column of a table whose rows are compared
CODE = re.compile(r"`([^`]+)`")
DIFFERENCES = "FD("  # functions of this name take finite differences
COPIED = ("MjData", "ndarray")  # what a row may overwrite


class Pair(NamedTuple):
    """One row: pieces of code of another library, and ours."""

    page: str
    line: int
    theirs: tuple[str, ...]
    ours: tuple[str, ...]

    def __str__(self):
        return f"{self.page}.md, line {self.line}: {self.theirs[-1]}"


def pairs(page):
    """The rows of a page's tables that have code on both sides, and say what differs."""
    text, compared = (PAGES / f"{page}.md").read_text(encoding="utf-8"), False
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells or cells[-1] == HEADING:
            compared = bool(cells)  # a table begins or has ended
        elif compared:
            theirs, ours = (tuple(CODE.findall(cell)) for cell in cells[:2])
            if theirs and ours:
                yield Pair(page, number, theirs, ours)


def prepared(page):
    """The names that the page's own code defines."""
    path, names = PAGES / f"{page}.md", {"__name__": "document"}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(ROOT):
        for line, code, _ in blocks(path):
            exec(compile("\n" * line + code, str(path), "exec"), names)
    return names


def value(code, names):
    """What pieces of code give, as an array. What they overwrite is theirs alone."""
    scope = {k: copy.copy(x) if type(x).__name__ in COPIED else x for k, x in names.items()}
    for statement in code[:-1]:
        exec(statement, scope)
    return np.array(eval(code[-1], scope), float)  # a copy: some give a view of their own memory


def agree(pair, names):
    """Whether both sides of a row give the same numbers."""
    theirs, ours = value(pair.theirs, names), value(pair.ours, names)
    tolerance = 1e-5 if any(DIFFERENCES in code for code in pair.theirs) else 1e-9
    if theirs.shape != ours.shape:
        return False
    return np.abs(theirs - ours).max() <= tolerance * max(1.0, np.abs(theirs).max())
