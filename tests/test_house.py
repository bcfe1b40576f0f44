"""The package's structure and words: files import each other without circles, class names stand
once, names say what values are, and docstrings are sentences.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from documents import ROOT

import featherlane

sys.path.insert(0, str(ROOT / "docs" / "dev"))
from import_graph import circles, floors, graph_of, imports, named_in_texts, trees, upward

# Words for how a value came to be, where a name should say what it is; the number may only shrink.
# Some 70 are names in emitted code.
WORDS = re.compile(r"\b(?:own|found|given|made|told)\b", re.IGNORECASE)
MOST_WORDS = 350
PRONOUN = re.compile(r"(?:What|Those|That|Where|How)\b")


def test_the_search_finds_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]


@pytest.mark.parametrize(
    ("root", "file", "circle"),
    [
        ("from featherlane.a.b import f", "import featherlane", {"", "a.b"}),
        ("from featherlane.a.b import f", "import featherlane as fl", {"", "a.b"}),
        ("from featherlane.a.b import f", "def f():\n    import featherlane", {"", "a.b"}),
        ("from featherlane.a.b import f", "from featherlane import g", {"", "a.b"}),
        ("from featherlane import a", "from featherlane import c", {"a.b", "c"}),
        ("from .a.b import f", "from .. import g", {"", "a.b"}),
        ("", "from ..c import f", {"a.b", "c"}),
        ("", "from .. import c", {"a.b", "c"}),
        ("", "import featherlane.c", {"a.b", "c"}),
        ("", 'import_module("featherlane.c")', {"a.b", "c"}),
        ("", 'importlib.import_module("featherlane.c")', {"a.b", "c"}),
        ('import_module("featherlane.a.b")', 'import_module("featherlane")', {"", "a.b"}),
        ('_LATE = {"f": "featherlane.a.b"}', "import featherlane", {"", "a.b"}),
        ("from featherlane.a.b import f", "import numpy, c, a.b", None),
        ("from featherlane.a.b import f", 'import_module("numpy")', None),
    ],
)
def test_each_form_of_an_import_closes_a_circle(root, file, circle):
    texts = {"": root, "a": "", "a.b": file, "c": "from featherlane.a.b import f"}
    graph = graph_of({name: ast.parse(text) for name, text in texts.items()})
    assert circles(graph) == [circle] * (circle is not None)


def test_the_lazy_names_of_the_package_are_counted():
    late = [name for node in trees()[""].body for name in named_in_texts(node)]
    assert sorted(late) == sorted(featherlane._LATE.values())
    assert {name.removeprefix("featherlane.") for name in late} <= imports()[""]


def test_no_circle_of_imports():
    assert circles(imports()) == []


def test_no_import_leads_upward():
    """Imports for types and within functions count, which the import contract leaves out."""
    assert upward() == []
    lowest_first = floors()[::-1]
    assert upward(lowest_first), "the order of the floors would not matter"


def test_the_page_of_the_architecture_has_the_floors_of_the_contract():
    page = (ROOT / "docs" / "dev" / "architecture.md").read_text("utf-8")
    table = page[page.index("| folder |") :].split("\n\n")[0].split("\n")[2:]
    rows = [re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1]) for row in table]
    listed = [room for row in rows for room in row]
    floor = {room: n for n, rooms in enumerate(reversed(floors())) for room in rooms}
    assert sorted(listed) == sorted(floor.keys() - {"__main__"})
    heights = [floor[room] for room in listed]
    assert heights == sorted(heights)


def test_the_page_on_one_call_names_each_file_once():
    here = Path(__file__).parent.parent
    page = (here / "docs" / "dev" / "one_call.md").read_text("utf-8")
    files = re.findall(r"`([a-z_/]+/[a-z_]+\.py)`", page)
    assert len(files) > 40
    assert len(files) == len({*files})
    assert [name for name in files if not (here / "featherlane" / name).is_file()] == []


def test_class_names_stand_once():
    places = defaultdict(set)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert not twice


def test_names_say_what_values_are():
    texts = (path.read_text("utf-8") for path in (ROOT / "featherlane").rglob("*.py"))
    assert sum(len(WORDS.findall(text)) for text in texts) <= MOST_WORDS


def docstrings(tree):
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = (node for node in ast.walk(tree) if isinstance(node, kinds))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def test_docstrings_begin_with_a_subject_or_a_verb():
    texts = (text for tree in trees().values() for text in docstrings(tree))
    assert [*filter(PRONOUN.match, texts)] == []


def test_a_docstring_without_a_subject_is_found():
    text = 'def f():\n    """What leaves."""\n'
    assert PRONOUN.match(*docstrings(ast.parse(text)))
    assert not PRONOUN.match("Whatever leaves.")


def test_an_import_leaves_out_what_few_programs_call():
    """Constrained robots, methods that are parallel over links, optimal control, hardware."""
    code = (
        "import sys, featherlane; print(*[x for x in sys.modules if x.startswith('featherlane.')])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    rooms = ("accelerators", "api.ilqr", "backends.cuda", "backends.fpga", "tools", "interop")
    late = re.compile(
        rf"featherlane\.({'|'.join(rooms)}|algorithms\.(constr|parallel\.\w|delassus))"
    )
    assert not [name for name in loaded.stdout.split() if late.match(name)]
    assert "featherlane.algorithms.rnea" in loaded.stdout.split()


def test_a_late_function_has_no_module_of_its_name():
    """Python would set the module in the place of the function when it is loaded."""
    package = Path(featherlane.algorithms.__path__[0])
    assert not [name for name in featherlane.algorithms.__all__ if (package / f"{name}.py").exists()
                and getattr(featherlane.algorithms, name).__module__.endswith(".late")]  # fmt: skip
