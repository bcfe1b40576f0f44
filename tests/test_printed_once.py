"""No text of a program is edited after it was printed: emitters decide first and print last."""

import ast
from pathlib import Path

import featherlane

ROOT = Path(featherlane.__file__).parent
FOLDERS = ("backends", "accelerators")
# What stands for characters that a name, a label, a comment or a number must not have. The lists
# may only shrink
ESCAPES = {
    ("_", " "), ("_", "-"), ("-", "m"), ("</", "<\\/"), ("*/", "* /"), (".0e", "e"), ("e-0", "e-"),
    (r"\W", "_"), ("[^a-z0-9]+", "_"),
}  # fmt: skip
EXCEPTIONS = {
    "backends/c/names.py: comment",  # what would end a comment
    "backends/fpga/bitstream/line_rate.py: _with_table",  # a table in what nextpnr writes
}


def edits(tree):
    """(function, arguments) of each call that gives a text in which another one is replaced."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name, owner = node.func.attr, getattr(node.func.value, "id", "")
                texts = [x.value if isinstance(x, ast.Constant) else None for x in node.args[:2]]
                of_pattern = owner == "re" or (texts and isinstance(texts[0], str))
                if (
                    (name == "replace" and len(texts) == 2 and owner != "os")
                    or (name in ("sub", "subn") and of_pattern)
                    or name in ("translate", "expandtabs")
                ):
                    yield function.name, tuple(texts)


def test_edits_are_found():
    source = """
def f(text):
    a = text.replace("a", "b")
    b = re.sub("a", "b", text) + PATTERN.sub(r"a", text)
    return os.replace(a, b), lanes.sub(a, 1), replace(a, b=1), signature.replace(annotation=None)
"""
    assert [x for _, x in edits(ast.parse(source))] == [("a", "b"), ("a", "b"), ("a", None)]


def test_no_program_text_is_edited():
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for function, texts in edits(ast.parse(path.read_text("utf-8"))):
                if texts not in ESCAPES:
                    found.add(f"{path.relative_to(ROOT).as_posix()}: {function}")
    assert found == EXCEPTIONS
