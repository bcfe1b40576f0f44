"""The package's structure: files import each other without circles, class names stand once."""

import ast
import re
import sys
from collections import defaultdict

from documents import ROOT

sys.path.insert(0, str(ROOT / "docs" / "dev"))
from import_graph import circles, floors, imports, trees, upward

# Class names that stand in two files or more; the list may only shrink
TWICE = [
    "Step", "View",
]  # fmt: skip


def test_the_search_finds_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]


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


def test_class_names_stand_once():
    places = defaultdict(set)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert not twice.keys() - {*TWICE}, twice
