"""The files of the package and their imports, read from the sources: for the figure of
architecture.md and for the tests of the package's structure.

Imports within functions and for types count, too, other than in the import contract.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "featherlane"
CONTRACT = "data flows one way"  # the contract of pyproject.toml with the floors
Graph = Mapping[str, Set[str]]


def named(path: Path) -> str:
    """The name of a module without the package's: `robot.tree`, and "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax trees of all files, by the names of their modules."""
    return {named(path): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


def absolute(node: ast.ImportFrom, folder: str) -> str:
    """The full name of the module from which a file in a folder of the package imports; the folder
    is "" at the root.
    """
    if not node.level:
        return node.module or ""
    parts = ["featherlane", *filter(None, folder.split("."))]
    return ".".join([*parts[: len(parts) + 1 - node.level], *filter(None, [node.module])])


def named_in_texts(node: ast.AST) -> list[str]:
    """The modules that a statement names in texts: `import_module("featherlane.api")`, the same of
    `algorithms.late`, and the values of a table `_LATE`, whose modules are loaded when a name is
    asked for.
    """
    match node:
        case ast.Call(
            func=ast.Name(id="import_module" | "late") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
        case ast.Assign(targets=[ast.Name(id="_LATE")], value=ast.Dict(values=values)):
            return [str(ast.literal_eval(value)) for value in values]
    return []


def full_names(tree: ast.Module, folder: str) -> Iterator[str]:
    """The full names that a file in a folder imports, of modules and of what it takes from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, folder)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        else:
            yield from named_in_texts(node)


def module_of(full_name: str, modules: Set[str]) -> str | None:
    """The module with a full name, or the one that the last word of the name is taken from."""
    package, _, name = full_name.partition(".")
    if package != "featherlane":
        return None
    outer = name.rpartition(".")[0]
    return next((x for x in (name, outer) if x in modules), None)


def graph_of(files: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module imports, from syntax trees by name. "" is the package: to
    import it is to import all that its file imports.
    """
    graph = {}
    for name, tree in files.items():
        is_folder = not name or any(other.startswith(f"{name}.") for other in files)
        folder = name if is_folder else name.rpartition(".")[0]
        targets = (module_of(x, files.keys()) for x in full_names(tree, folder))
        graph[name] = {x for x in targets if x is not None}
    return graph


@cache
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return graph_of(trees())


def circles(graph: Graph) -> list[set[str]]:
    """The sets of nodes that reach each other (Tarjan 1972)."""
    index, low, path, components = dict[str, int](), dict[str, int](), list[str](), list[set[str]]()

    def visit(v: str) -> None:
        index[v] = low[v] = len(index)
        path.append(v)
        for w in graph[v]:
            if w not in index:
                visit(w)
            if w in path:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = path.index(v)
            components.append(set(path[at:]))
            del path[at:]

    for v in graph:
        if v not in index:
            visit(v)
    return [together for together in components if len(together) > 1]


def room_of(module: str) -> str:
    """The folder of the package in which a module is, or the module itself if it is in none."""
    return module.partition(".")[0]


def floors() -> list[list[str]]:
    """The rooms of each floor of the import contract, from top to bottom."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (layers,) = (x["layers"] for x in contracts if x["name"] == CONTRACT)
    return [
        [room.strip().removeprefix("featherlane.") for room in layer.split("|")] for layer in layers
    ]


def arrows() -> Counter[tuple[str, str]]:
    """The number of files of each room that import each other room, as pairs of a file of the first
    and a module of the second.
    """
    pairs = ((room_of(a), room_of(b)) for a, others in imports().items() for b in others)
    return Counter((a, b) for a, b in pairs if a != b and a and b)


def upward(levels: list[list[str]] | None = None) -> list[tuple[str, str]]:
    """The arrows that do not lead to a lower floor."""
    floor = {x: k for k, rooms in enumerate(levels or floors()) for x in rooms}
    return sorted(pair for pair in arrows() if floor[pair[0]] >= floor[pair[1]])


def sizes() -> dict[str, tuple[int, int]]:
    """The number of files and of lines of each room."""
    files, lines = Counter[str](), Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        room = room_of(named(path))
        files[room] += 1
        lines[room] += len(path.read_text("utf-8").splitlines())
    return {room: (files[room], lines[room]) for room in files}


def longest_chain() -> int:
    """The number of files on the longest chain of imports; files of a circle count as one."""
    graph = imports()
    group = {v: v for v in graph}
    for circle in circles(graph):
        group |= dict.fromkeys(circle, min(circle))

    @cache
    def depth(v: str) -> int:
        members = [x for x in graph if group[x] == v]
        below = {group[y] for x in members for y in graph[x]} - {v}
        return 1 + max(map(depth, below), default=0)

    return max(map(depth, set(group.values())))
