"""Types as type checkers see them: words of arguments, results, and models of frameworks."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from documents import ROOT
from repetition import full

from featherlane.algorithms.integrators import INTEGRATORS, Integrator
from featherlane.api.ilqr import HESSIANS
from featherlane.functions import array_like, results
from featherlane.functions.table import BY_NAME, REFERENCES
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.interop import wrapped
from featherlane.robot.loaders.roots import ROOTS, RootName

WORDS = {
    Integrator: INTEGRATORS,
    array_like.Reference: REFERENCES,
    array_like.WrenchFrame: WRENCH_FRAMES,
    array_like.Hessian: HESSIANS,
    RootName: ROOTS,
}


def test_literals_are_the_words_that_functions_take():
    for literal, words in WORDS.items():
        assert get_args(literal) == tuple(words)


def fields(node):
    return [x.target.id for x in node.body if isinstance(x, ast.AnnAssign)]


def classes(source):
    return {x.name: fields(x) for x in ast.walk(ast.parse(source)) if isinstance(x, ast.ClassDef)}


def test_the_types_of_results_have_the_fields_of_results():
    stub = Path(results.__file__).with_suffix(".pyi")
    told = classes(stub.read_text(encoding="utf-8"))
    assert len(told) > 10
    assert told == classes(Path(results.__file__).read_text(encoding="utf-8"))
    for name, names in told.items():
        assert list(getattr(results, name)._fields) == names
        assert getattr(results, name).__bases__ == (tuple,)  # frameworks look for that


def test_a_wrapped_model_has_types_for_all_functions():
    source = ast.parse(Path(wrapped.__file__).read_text(encoding="utf-8"))
    types = {
        node.target.id: ast.unparse(node.annotation)
        for node in ast.walk(source)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for name, function in BY_NAME.items():
        several = f"tuple[{', '.join(['Array'] * len(function.outputs))}]"
        one = "Array" if len(function.outputs) == 1 else several
        result = f"{function.collect.__name__}[Array]" if function.collect else one
        assert types[name] == f"Callable[..., {result}]"


USER = """
import featherlane as fl
from featherlane.functions.results import Step
from featherlane.interop.wrapped import WrappedModel

model = fl.load("iiwa14", root="free")
x = [0.0] * 7
reveal_type(model.inverse_dynamics(x, x, x))
reveal_type(model.step(x, x, x, 0.1, integrator="rk4"))
reveal_type(model.step(x, x, x, 0.1).q)
reveal_type(model.forward_dynamics_derivatives(x, x, x).da_dq)

class Tensor: ...

def of(wrapped: WrappedModel[Tensor]) -> None:
    reveal_type(wrapped.mass_matrix(x))
    reveal_type(wrapped.inverse_dynamics_derivatives(x, x, x).dtau_dq)
    reveal_type(wrapped.rollout(x, x, [x], 0.1).v)
    wrapped.rnea(x, x, x)

model.rnea(x, x, x)
fl.forward_dynamics(x, x, x)
model.step(x, x, x, 0.1, integrator="RK4")
model.jacobian(x, "iiwa_link_7", "LOCAL")
model.inverse_dynamics(x, x, x, f_ext_frame="local")
fl.load("iiwa14", root="floating")
model.mass_matrix(x, device="cuda")
fl.load("iiwa14", limits="hard")
reveal_type(model.rollout(x, x, [x], 0.1).diverged)
"""
REVEALED = {
    8: "ndarray",
    9: "Step[numpy.ndarray",
    10: "ndarray",
    11: "ndarray",
    16: "Tensor",
    17: "Tensor",
    18: "Tensor",
    29: "ndarray",
}
WRONG = {
    19: "has no attribute",
    21: "has no attribute",
    22: "has no attribute",
    23: "Literal['RK4']",
    24: "Literal['LOCAL']",
    25: "Literal['local']",
    26: "Literal['floating']",
    28: "Literal['hard']",
    27: "Unexpected keyword argument",
}


@full  # half a minute without mypy's cache
def test_what_mypy_says_of_a_users_file(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent"]
    ran = subprocess.run(
        [*command, str(tmp_path / "user.py")], cwd=ROOT, capture_output=True, text=True
    )
    told = {}
    for line in ran.stdout.splitlines():
        number = line.partition("user.py:")[2].partition(":")[0]
        told[int(number or 0)] = told.get(int(number or 0), "") + line
    assert told.keys() == REVEALED.keys() | WRONG.keys(), ran.stdout + ran.stderr
    for number, words in {**REVEALED, **WRONG}.items():
        assert words in told[number], told[number]
