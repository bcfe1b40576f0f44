"""The package's structure: files import each other without circles, class names stand once."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import featherlane

ROOT = Path(featherlane.__file__).parent
# Class names that stand in two files or more; the list may only shrink
TWICE = [
    "Chain", "Change", "Figure", "Form", "Kernels", "Lanes", "Pipeline", "Robot", "Solution",
    "Span", "State", "Step", "View",
]  # fmt: skip


def named(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees():
    return {named(path): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}


def imported(tree):
    """Modules of the package that a file imports, within functions and for types, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("featherlane.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("featherlane."):
            module = node.module.removeprefix("featherlane.")
            within = (f"{module}.{alias.name}" for alias in node.names)
            yield from (name if name in trees() else module for name in within)


def circles(edges):
    """The sets of files that reach each other (Tarjan 1972)."""
    index, low, path, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        path.append(v)
        for w in edges[v]:
            if w not in index:
                visit(w)
            if w in path:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = path.index(v)
            found.append(set(path[at:]))
            del path[at:]

    for v in edges:
        if v not in index:
            visit(v)
    return [together for together in found if len(together) > 1]


def test_the_search_finds_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]


def test_no_circle_of_imports():
    edges = {name: {x for x in imported(tree) if x in trees()} for name, tree in trees().items()}
    assert circles(edges) == []


def test_class_names_stand_once():
    places = defaultdict(set)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert not twice.keys() - {*TWICE}, twice
