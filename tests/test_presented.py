"""Methods as users meet them: names of public classes, help with all arguments, and keywords that
other libraries have.
"""

import inspect
import pickle
import re

import numpy as np
import pytest
from documents import ROOT

import featherlane as fl
from featherlane.api import argument_texts

METHODS = {
    name: method
    for name, method in inspect.getmembers(fl.Model, inspect.isfunction)
    if not name.startswith("_")
}
SHOWN = re.compile(r"^::: (featherlane[\w.]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


def parameters(method):
    return [*inspect.signature(method).parameters.values()][1:]


def listed(method):
    """The lines of a method's list of arguments, by name."""
    text = inspect.getdoc(method).partition("Arguments:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (?=\w)", text, flags=re.MULTILINE)[1:]
    return {entry.partition(":")[0]: " ".join(entry.split()) for entry in entries}


@pytest.mark.parametrize("name", METHODS)
def test_help_lists_every_argument_with_its_default(name):
    told, takes = listed(METHODS[name]), parameters(METHODS[name])
    assert [*told] == [p.name for p in takes]
    for p in takes:
        default = "" if p.default is p.empty else p.default
        default = f'"{default}"' if isinstance(default, str) and default else default
        default = default.__name__ if isinstance(default, type) else default
        assert told[p.name].endswith(f"(default: {default})") == (p.default is not p.empty)


ARRAYS = {"ArrayLike", "Wrenches", "ArrayLike | None"}


def test_arguments_that_are_arrays_tell_shape_and_unit():
    shape, unit = re.compile(r"\(\.*,? ?[^)]*\)|a number"), re.compile(r"\b(rad|m|s|N|kg|units)\b")
    seen = 0
    for name, method in METHODS.items():
        told = listed(method)
        for p in parameters(method):
            if p.annotation in ARRAYS and (name, p.name) not in RATIOS:
                assert shape.search(told[p.name]), (name, p.name)
                assert unit.search(told[p.name]), (name, p.name)
                seen += 1
    assert seen > 100


RATIOS = {("actuation", "gear"), ("interpolate", "fraction")}  # have no unit


def test_no_text_is_left_over():
    """Of an argument that no method has."""
    taken = {(name, p.name) for name, method in METHODS.items() for p in parameters(method)}
    assert argument_texts.OF_METHODS.keys() <= taken
    assert argument_texts.ARGUMENTS.keys() <= {name for _, name in taken}


def test_examples_stay_behind_the_arguments():
    text = inspect.getdoc(fl.Model.jacobian)
    assert text.index("Arguments:") < text.index("Examples:") < text.index(">>> arm.jacobian")


# Names in messages


def public_classes():
    """The classes that the reference shows, and the types of public objects."""
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for path in SHOWN.findall(page.read_text(encoding="utf-8")):
            found = _found(path)
            if found is not None:
                yield found if inspect.isclass(found) else type(found)


def _found(path):
    for count in range(path.count("."), 0, -1):
        parts = path.split(".")
        try:
            found = __import__(".".join(parts[:count]), fromlist=["_"])
            for part in parts[count:]:
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError):
            continue
    return None


def test_messages_of_python_name_public_classes():
    """Such as "Model.rollout() missing 3 required positional arguments"."""
    classes = {found for found in public_classes() if found.__module__.startswith("featherlane")}
    assert {fl.Model, fl.ModelBuilder, fl.Function} <= classes
    names = {type(fl.accelerator): "accelerator"}  # users write the object, not its class
    wrong = {
        method.__qualname__
        for owner in classes
        for name, method in inspect.getmembers_static(owner, inspect.isfunction)
        if method.__module__.startswith("featherlane.")
        and not name.startswith("_")
        and not method.__qualname__.startswith(f"{names.get(owner, owner.__name__)}.")
    }
    assert wrong == set()


def test_public_functions_have_their_public_names():
    functions = {name: getattr(fl, name) for name in fl.__all__}
    functions = {name: f for name, f in functions.items() if inspect.isfunction(f)}
    assert len(functions) > 20
    assert {name: f.__qualname__ for name, f in functions.items() if f.__qualname__ != name} == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.rollout(), r"^Model\.rollout\(\) missing 4 required .*'q0', 'v0'"),
        (
            lambda m: m.with_gravity(1, 2),
            r"^Model\.with_gravity\(\) takes only gravity by position, and got 2 arguments$",
        ),
        (
            lambda m: m.mass_matrix(1, 2),
            r"^Model\.mass_matrix\(\) takes only q by position, and got 2 arguments; by keyword "
            "go params, out, threads$",
        ),
        (lambda m: fl.compile(), r"^compile\(\) missing 1 required"),
        (lambda m: fl.sin(), r"^sin\(\) missing 1 required"),
    ],
)
def test_messages_about_missing_arguments(arm, call, message):
    with pytest.raises(TypeError, match=message):
        call(arm)


def test_methods_are_pickled_by_their_names(arm):
    for method in (fl.Model.rollout, fl.Model.jacobian):
        assert pickle.loads(pickle.dumps(method)) is method
    bound = pickle.loads(pickle.dumps(arm.jacobian))
    np.testing.assert_array_equal(bound(np.zeros(2), "link2"), arm.jacobian(np.zeros(2), "link2"))


# Keywords


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, z: m.rollout(z, z, z, 1, device="cuda"),
         r"^Model\.rollout\(\) got an unexpected keyword argument 'device': .*"
         r"model\.function\('rollout', device='cuda'\)$"),
        (lambda m, z: m.inverse_dynamics(z, z, qdd=z), r"argument 'qdd': qdd is a$"),
        (lambda m, z: m.inverse_dynamics(z, dq=z, a=z), r"argument 'dq': dq is v$"),
        (lambda m, z: m.inverse_dynamics(z, z, z, fext=z), r"argument 'fext': fext is f_ext$"),
        (lambda m, z: m.inverse_dynamics(z, z, z, num_threads=2), "num_threads is threads$"),
        (lambda m, z: m.step(z, z, z, timestep=0.1), "timestep is dt$"),
        (lambda m, z: m.with_physics(dampin=1), r"argument 'dampin'; did you mean 'damping'\?$"),
        (lambda m, z: fl.load("double_pendulum", floating_base=True),
         r"^load\(\) got an unexpected keyword .* 'floating_base': a free base is root='free'$"),
        (lambda m, z: m.mass_matrix(z, dtype=np.float32), "argument 'dtype': float32 arrays give"),
        (lambda m, z: m.mass_matrix(z, zzz=1), "argument 'zzz'; wanted one of q, params, out, thr"),
        (lambda m, z: m.function("mass_matrix")(configuration=z), "did you mean 'q'"),
        (lambda m, z: fl.compile(lambda q: fl.call(m, "mass_matrix", q, device="cuda"), {"q": 2}),
         r"mass_matrix takes no device: arrays on a GPU"),
    ],
)  # fmt: skip
def test_keywords_of_other_libraries(arm, call, message):
    z = np.zeros(2)
    for _ in range(2):  # before and after code is compiled, which takes calls
        with pytest.raises(TypeError, match=message):
            call(arm, z)
        arm.inverse_dynamics(z, z, z)


def test_devices_of_what_is_no_function_of_arrays(arm):
    with pytest.raises(TypeError, match=r"model\.function\('inverse_dynamics', device='cuda'\)$"):
        arm.compile(device="cuda")


def test_errors_of_a_method_pass_through(arm):
    with pytest.raises(TypeError, match="actuation is 1: wanted one from model"):
        arm.step(np.zeros(2), np.zeros(2), np.zeros(2), 0.1, actuation=1)


def test_devices_of_functions_of_ones_own():
    """`compile(device=)` copies arrays to a GPU; a device that there is not says so."""
    assert fl.compile(lambda x: 2 * x, {"x": 3}, device="cuda").inputs == {"x": (3,)}
    with pytest.raises(ValueError, match=r"device is 'gpu': .*did you mean 'cuda'"):
        fl.compile(lambda x: 2 * x, {"x": 3}, device="gpu")
