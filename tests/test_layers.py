"""The arrows of the package: which module may import which. Both halves are written down here."""

import ast
from pathlib import Path

import pytest

import featherlane

ROOT = Path(featherlane.__file__).parent

# The robot half computes with any scalar; the compiler half knows only graphs.
ROBOT = {
    "errors": "",
    "scalar": "",
    "spatial": "scalar",
    "joints": "scalar spatial",
    "model": "joints spatial",
    "tree": "joints model scalar spatial walk",
    "walk": "",
    "card": "model",
    "loaders": "errors joints model spatial",
    "algorithms": "joints model scalar spatial tree walk",
    "results": "",
    "limbs": "model",
    "functions": "algorithms model results tree",
}
COMPILER = {
    "graph": "errors",
    "analysis": "errors graph",
    "backends": "analysis errors graph",
}
BOTH = ROBOT.keys() | COMPILER.keys() | {"cache"}
TOGETHER = {
    "derived": BOTH,
    "compiler": BOTH | {"choice", "derived"},
    "cache": "",
    "choice": "graph",
    "rows": "",
    "arguments": "rows",
    "threads": "backends cache",
    "spread": "choice compiler rows threads",
    "function": "arguments backends cache choice compiler rows spread threads",
    "compile_function": "compiler function graph",
    "wrenches": "function model",
    "callwise": BOTH | {"compiler", "function"},
    "jobs": "backends",
    "pipeline": "backends cache callwise jobs",
    "products": "algorithms callwise compiler functions jobs model pipeline tree",
    "columns": "algorithms callwise compiler functions jobs model pipeline products tree",
    "differentials": "algorithms callwise columns compiler functions jobs model pipeline products",
    "arrays": "algorithms callwise function",
    "directions": BOTH | {"callwise", "columns", "compiler", "differentials", "products"},
    "linkwise": "backends callwise columns compiler differentials directions functions model tree",
    "compiled": "compiler errors function functions graph linkwise model tree wrenches",
    "kinematics": "compiled",
    "sensitivities": "compiled functions model results tree",
    "configurations": "compiled function joints model",
    "identification": "model",
    "editing": "convert function joints kinematics loaders model spatial",
    "dynamics": "compiled configurations editing functions kinematics loaders model results "
    "sensitivities wrenches",
    "convert": "function joints loaders model spatial",
    "builder": "dynamics joints loaders model",
    "trees": "dynamics errors joints loaders model spatial",
    "peers": "convert dynamics errors loaders model spatial",
    "check": "compiler dynamics errors functions loaders peers",
    "work": "callwise choice compiler dynamics functions graph linkwise",
    "peaks": "backends rows",
    "speeds": "dynamics functions rows work",
    "selfcheck": "dynamics speeds",
    "explain": "backends choice compiler dynamics function functions graph speeds",
    "roofline": "dynamics peaks speeds work",
    "roofline_plot": "roofline speeds",
}
OUTSIDE = ("__init__", "__main__", "cli", "bench")  # face the user and may see everything
LATE = {  # inside a function, for a user's convenience, or for types alone
    ("model", "card"),
    ("model", "tree"),
    ("walk", "tree"),
    ("graph", "analysis"),
    ("wrenches", "kinematics"),
}


def part(module):
    """The name in the tables of a dotted module: its first part below the package."""
    return module.split(".")[1] if "." in module else "__init__"


def imports(path):
    """(imported part, whether it is inside a function) for every import of our own."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            whole = node.module == "featherlane"
            names = [f"{node.module}.{a.name}" for a in node.names] if whole else [node.module]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "featherlane":
                yield part(name), id(node) not in top


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        yield pytest.param(path, relative.parts[0].removesuffix(".py"), id=str(relative))


def allowed(name):
    table = {**ROBOT, **COMPILER, **TOGETHER}
    assert name in table, f"{name} has no place in the layers yet: add it to this test's tables"
    wanted = table[name]
    return {*(wanted.split() if isinstance(wanted, str) else wanted), name}


@pytest.mark.parametrize(("path", "name"), list(modules()))
def test_imports_follow_the_arrows(path, name):
    if name in OUTSIDE:
        return
    for target, late in imports(path):
        if not (late and (name, target) in LATE):
            assert target in allowed(name), f"{name} may not import {target}"


def test_the_halves_do_not_know_each_other():
    for mine, other in ((ROBOT, COMPILER), (COMPILER, ROBOT)):
        for name, targets in mine.items():
            assert set(targets.split()) <= set(mine) | {"errors"}, name
            assert not set(targets.split()) & (set(other) - {"errors"})


def test_a_forbidden_import_is_seen(tmp_path):
    path = tmp_path / "rnea.py"
    path.write_text("from featherlane.graph.trace import trace\nfrom featherlane import compiler\n")
    seen = {target for target, _ in imports(path)}
    assert seen == {"graph", "compiler"}
    assert not seen & allowed("algorithms")
