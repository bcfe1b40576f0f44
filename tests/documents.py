"""Documents whose code runs: a text block behind a python block is what that prints."""

import contextlib
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks")]  # what documents go through
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path):
    """(line, code, what it prints or None) of every python block."""
    text = path.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block[1] == "python":
            line = text[: block.start(2)].count("\n")
            shown = following is not None and following[1] == "text"
            yield line, block[2], following[2] if shown else None


def run(path):
    """Executes a document; its blocks print what it shows."""
    namespace = {"__name__": "document"}
    for line, code, expected in blocks(path):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT):
            exec(compile("\n" * line + code, str(path), "exec"), namespace)
        if expected is not None:
            assert printed.getvalue() == expected, f"{path.name}, code at line {line + 1}"


def refresh(path):
    """Writes below each block what it prints now."""
    text, namespace = path.read_text(encoding="utf-8"), {"__name__": "document"}
    parts, position = [], 0
    found = list(FENCE.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block[1] == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block[2], str(path), "exec"), namespace)
            if following is not None and following[1] == "text":
                parts += [text[position : following.start(2)], printed.getvalue()]
                position = following.end(2)
    path.write_text("".join(parts) + text[position:], encoding="utf-8")


if __name__ == "__main__":  # python tests/documents.py docs/tour.md: after a change that was wanted
    for name in sys.argv[1:]:
        refresh(Path(name))
