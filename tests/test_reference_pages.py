"""The pages of docs/reference show what the code and its docstrings say, and the value of every
default: docs/dev/reference.py reads it from the package.
"""

import importlib.util
import re

import pytest
from documents import ROOT

griffe = pytest.importorskip("griffe", reason="griffe is not installed: pip install '.[docs]'")
NAME_OF_CONSTANT = re.compile(r"\b[A-Z][A-Z_]{2,}\b")


@pytest.fixture(scope="module")
def extension():
    path = ROOT / "docs" / "dev" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shown(extension):
    """{path: function as the pages show it}, of all that users call or build."""
    added = griffe.load_extensions(extension.Shown("https://example.org"))
    package = griffe.load("featherlane", search_paths=[str(ROOT)], extensions=added)
    paths = [path.removeprefix("featherlane.") for path, _ in extension.public()]
    return {path: package[path] for path in paths if _is_read(package, path)}


def _is_read(package, path):
    """Functions that are made when the package is imported have no text of their own."""
    try:
        return package[path].is_function
    except KeyError:
        return False


def test_defaults_are_shown_by_their_values(shown):
    """As "implicit_damping", and not as DEFAULT_INTEGRATOR."""
    defaults = {
        f"{path}({parameter.name})": str(parameter.default)
        for path, function in shown.items()
        for parameter in function.parameters
        if parameter.default is not None
    }
    assert len(defaults) > 500
    assert {x: text for x, text in defaults.items() if NAME_OF_CONSTANT.search(text)} == {}
    assert defaults["api.time_steps.TimeSteps.step(integrator)"] == '"implicit_damping"'


def test_every_argument_stands_in_the_list(shown):
    listed = {
        path: [p.name for section in sections(function) for p in section.value]
        for path, function in shown.items()
        if function.docstring and path.rpartition(".")[2] != "__init__"
    }
    assert len(listed) > 150
    for path, names in listed.items():
        taken = [p.name.lstrip("*") for p in shown[path].parameters if p.name != "self"]
        assert [name.lstrip("*") for name in names] == taken, path


def sections(function):
    parsed = function.docstring.parse("google", warnings=False)
    return [section for section in parsed if section.kind is griffe.DocstringSectionKind.parameters]


def test_defaults_stand_beside_the_type_alone(shown):
    """And not once more at the end of the text, where `help()` has them."""
    texts = [f.docstring.value for f in shown.values() if f.docstring]
    assert [text for text in texts if re.search(r"\(default:\s", text)] == []


def test_errors_have_a_paragraph_behind_the_arguments(extension, shown):
    text = """Returns x. Raises ValueError for 1.5, in docs/a.md. It is x.

Arguments:
    x: m

Examples:
    >>> f(x)
"""
    assert (
        extension._with_errors(text)
        == """Returns x. It is x.

Arguments:
    x: m

**Errors:** ValueError for 1.5, in docs/a.md.

Examples:
    >>> f(x)
"""
    )
    texts = [f.docstring.value for f in shown.values() if f.docstring]
    assert sum("**Errors:** " in text for text in texts) > 50
    assert [text for text in texts if "Raises" in text and "Arguments:\n" in text] == []


def test_every_source_has_its_lines(shown):
    link = re.compile(r"https://example\.org/blob/main/featherlane/[\w/]+\.py#L\d+-L\d+")
    assert [path for path, f in shown.items() if f.lineno and not link.match(f.source_link)] == []
