"""Every public name says what it is, with shapes, units, errors and its source, shows an example
that runs, and stands on a page of docs/reference.
"""

import ast
import dataclasses
import doctest
import inspect
import re
import subprocess
import sys
import textwrap
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from types import FunctionType

import pytest
from documents import ROOT, blocks

import featherlane as fl
from featherlane.accelerators.designs import accelerator
from featherlane.functions import results
from featherlane.functions.table import BY_NAME
from featherlane.tools import commands

REFERENCE = ROOT / "docs" / "reference"
MODULES = ("convert", "editing", "identification")
INTEROP = {
    "casadi": ["to_casadi"],
    "dask": ["wrap", "apply"],
    "gymnasium": ["TracedVectorEnv"],
    "jax": ["wrap"],
    "torch": ["wrap"],
    "view": [
        "show",
        "View.add_frames",
        "View.add_targets",
        "View.add_forces",
        "View.add_trajectories",
        "View.record",
    ],
    "zarr": ["map_store"],
}

ARRAYS = re.compile(r"ArrayLike|ndarray|Wrenches")
SHAPE = re.compile(r"\((\.\.\.|\*batch|n[qvu]|n\w+|rows|p|\d+|T)[,)]|\bshape\b|one number|tensors")
UNIT = re.compile(r"(?<!\w)(N m|N|m|m/s|m/s\^2|rad|rad/s|kg|J|s|second)(?!\w)")
SOURCE = re.compile(r"\b(19|20)\d\d\b|Dadu-RBD|=|\b[A-Z]\w* [a-z]\w*\b|d\w+/d\w|Pinocchio")


def public():
    """{path in the package: object} of all that users call or hold."""
    names = {name: getattr(fl, name) for name in fl.__all__}
    for module in MODULES:
        held = getattr(fl, module)
        names |= {f"{module}.{name}": getattr(held, name) for name in held.__all__}
    for name, owner in (("Model", fl.Model), ("ModelBuilder", fl.ModelBuilder)):
        members = [member for member in dir(owner) if member[0] != "_"]
        names |= {f"{name}.{member}": getattr(owner, member) for member in members}
    searches = type(fl.accelerator)  # whose one object is `featherlane.accelerator`
    names |= {
        f"accelerators.entry.Accelerators.{n}": getattr(searches, n) for n in ("design", "front")
    }
    return names


METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)
NAMES = public()
KNOWN = [name for name in BY_NAME if hasattr(fl.Model, name)]
CALLED = {
    path: found
    for path, found in NAMES.items()
    if inspect.isfunction(inspect.unwrap(found)) or inspect.ismethod(found)
}


def told(found):
    return inspect.getdoc(found) or ""


def annotations(found):
    signature = inspect.signature(found)
    return [*(p.annotation for p in signature.parameters.values()), signature.return_annotation]


def data():
    """The defaults of fields, whose class tells what they are."""
    values = tuple | str | float | fl.Body
    return {path for path, found in NAMES.items() if isinstance(found, values)}


def test_every_name_has_a_sentence():
    fields = {field.name for field in dataclasses.fields(fl.Model)}
    assert {f"Model.{name}" for name in fields} >= data()
    assert [name for name in fields if f"`{name}`" not in told(fl.Model)] == []
    texts = {path: told(NAMES[path]).partition("\n\n")[0] for path in NAMES.keys() - data()}
    del texts["FUNCTIONS"]  # a table: its page describes it
    assert [path for path, text in texts.items() if not text.endswith((".", ".)"))] == []


def test_every_method_has_a_sentence():
    """Of the classes that users hold, whose fields the class tells."""
    found = {
        f"{owner.__name__}.{name}": method
        for owner in NAMES.values()
        if inspect.isclass(owner)
        for name, method in vars(owner).items()
        if name[0] != "_" and isinstance(method, METHODS)
    }
    assert len(found) > 60
    assert [path for path, method in found.items() if not told(method).partition("\n\n")[0]] == []


def test_functions_of_arrays_tell_shapes():
    takers = {path: f for path, f in CALLED.items() if ARRAYS.search(str(annotations(f)))}
    assert len(takers) > 50
    assert [path for path, found in takers.items() if not SHAPE.search(told(found))] == []


def fields(found):
    """The names of several results."""
    return getattr(getattr(results, str(annotations(found)[-1]), None), "_fields", ())


def giving():
    """The functions whose result is an array, or a named tuple of arrays."""
    for path, found in CALLED.items():
        if fields(found) or "ndarray" in str(annotations(found)[-1]):
            yield path


def of_results(found):
    """What is told before the examples, without shapes behind the names of arguments."""
    names = "|".join({*inspect.signature(found).parameters} - {*fields(found)})
    prose = told(found).partition("Examples:")[0]
    return re.sub(rf"\b({names})\b:? \([^)]*\)", "", prose)


def test_shapes_of_results_are_told():
    """Besides those of arguments, as gq (..., nv), and not by an example alone."""
    gives = [*giving()]
    assert len(gives) > 45
    assert [path for path in gives if not SHAPE.search(of_results(NAMES[path]))] == []


def test_a_shape_of_an_argument_alone_is_found():
    def product(weights, direction):
        """H times direction (..., 3 nv).

        Examples:
            >>> product(w, x).shape
        """

    assert SHAPE.search(told(product))
    assert not SHAPE.search(of_results(product))


def test_functions_of_a_robot_tell_units():
    """Of what they give, in their own words; of their arguments, `Model` tells them for all."""
    gives = [path for path in giving() if path.startswith("Model.")]
    assert len(gives) > 40
    assert [path for path in gives if not UNIT.search(told(NAMES[path]))] == []


def test_functions_of_a_robot_tell_their_source():
    """A paper, an equation, or the name of Pinocchio's function."""
    assert [name for name in KNOWN if not SOURCE.search(told(NAMES[f"Model.{name}"]))] == []


def test_functions_that_raise_tell_it():
    def raises(found):
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(found))))
        return any(isinstance(node, ast.Raise) for node in ast.walk(tree))

    found = [path for path, f in CALLED.items() if raises(f)]
    assert len(found) > 10
    assert [path for path in found if "Raises" not in told(NAMES[path])] == []


# Arguments

NOT_BUILT = {"Constraints", "Function", "Graph", "Model"}  # other functions return these
BUILT = {
    path: item
    for path, item in NAMES.items()
    if inspect.isclass(item)
    and path not in NOT_BUILT
    and not issubclass(item, Exception)
    and not path.endswith(("Derivatives", "State", "Change", "Rerooting", "BaseParameters"))
}


def parameters(item):
    taken = inspect.signature(item).parameters
    return {name: p.default for name, p in taken.items() if name != "self"}


def listed(item):
    """{argument: words} of the list in a docstring."""
    section = told(item).partition("Arguments:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (?=\w)", section, flags=re.MULTILINE)[1:]
    pairs = (" ".join(entry.split()).partition(": ") for entry in entries)
    return {name: words for name, _, words in pairs}


def wrong_arguments(item):
    """The arguments without words of their own, or whose default None has no meaning."""
    words = listed(item)
    for name, default in parameters(item).items():
        text = words.get(name, "")
        if not re.search(r"\w\w", text) or (default is None and "None: " not in text):
            yield name
    yield from words.keys() - parameters(item).keys()


DESCRIBED = CALLED | BUILT | {"accelerator": accelerator, "build": fl.accelerator.build}


@pytest.mark.parametrize("path", sorted(DESCRIBED))
def test_every_argument_is_described(path):
    """With what its default None means; other defaults stand beside it."""
    assert [*wrong_arguments(DESCRIBED[path])] == []


@pytest.mark.parametrize("module", INTEROP)
def test_every_argument_of_frameworks_is_described(module):
    package = {"view": "viser"}.get(module, module)
    pytest.importorskip(package, reason=f"{package} is not installed")
    held = import_module(f"featherlane.interop.{module}")
    assert [x for name in INTEROP[module] for x in wrong_arguments(attrgetter(name)(held))] == []


def test_an_argument_without_words_is_seen():
    def scaled(x, by=None, to=None):
        """Returns x.

        Arguments:
            x: (...), m. The lengths
            by: a number
            of: nothing
        """

    assert [*wrong_arguments(scaled)] == ["by", "to", "of"]


# Examples


class Checker(doctest.OutputChecker):
    """A line without a result may print what it likes."""

    def check_output(self, want, got, flags):
        return not want or super().check_output(want, got, flags)


def shared():
    """What the examples begin with: the first block of the page that says so."""
    namespace = {}
    exec(next(code for _, code, _ in blocks(REFERENCE / "index.md")), namespace)
    return namespace


def run(name, text):
    """Runs the examples of a docstring; the error shows the line that differs."""
    test = doctest.DocTestParser().get_doctest(text, shared(), name, None, 0)
    assert test.examples, f"{name} has no example"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    printed = []
    failed = doctest.DocTestRunner(Checker(), verbose=False, optionflags=flags).run(
        test, out=printed.append
    )
    assert not failed.failed, "".join(printed)


WITH_EXAMPLES = sorted(path for path, found in NAMES.items() if callable(found))


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in WITH_EXAMPLES:
        run(path, told(NAMES[path]))


@pytest.mark.parametrize("module", INTEROP)
def test_the_examples_of_frameworks_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # stores are written where they run
    package = {"view": "viser"}.get(module, module)
    pytest.importorskip(package, reason=f"{package} is not installed")
    held = import_module(f"featherlane.interop.{module}")
    for name in INTEROP[module]:
        run(f"{module}.{name}", told(attrgetter(name)(held)))


# Pages


def options():
    """The lines of the table of options in docs/command_line.md."""
    for command in commands.COMMANDS.values():
        for option in command.options:
            told = " ".join((option.help % option.settings).split()).replace("|", "\\|")
            yield f"| {command.name} | `{option.name}` | {told} |"


def test_every_option_of_the_command_line_stands_on_its_page():
    """As `--help` tells it; python tests/test_public_names.py prints the lines."""
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| \w+ \| `.*$", page.partition("## JSON")[0], re.MULTILINE)
    assert found == list(options())


def test_every_name_stands_on_a_page_of_the_reference():
    """As `::: featherlane.NAME`, or in the table of the functions that share their text."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    shown = re.findall(r"^::: featherlane\.(\S+)", text, re.MULTILINE)
    assert len(shown) == len(set(shown))
    tabled = set(re.findall(r"^\| `fl\.([\w.]+)", text, re.MULTILINE))
    known = {
        *(NAMES.keys() - data()),
        *(f"interop.{m}.{name}" for m, names in INTEROP.items() for name in names),
    }
    assert sorted(known - tabled - set(shown)) == []
    assert sorted(tabled - known) == []


def test_modules_of_extras_are_attributes():
    """Also where nothing has imported them yet, as in a new interpreter."""
    asked = """
import featherlane as fl
print(fl.interop.__name__)
try:
    fl.interop.veiw
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    package, error = done.stdout.splitlines()
    assert package == "featherlane.interop"
    assert error == f"module {package!r} has no attribute 'veiw'; did you mean 'view'?"


if __name__ == "__main__":  # after a change of options
    print(*options(), sep="\n")
