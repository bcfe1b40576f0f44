"""Constraints in generated code: bits of C and WebAssembly, files of GPUs, and what is refused."""

import numpy as np
import pytest
from constrained_states import in_contact
from repetition import repeated
from test_c import HOSTS, checked
from test_wasm import node, same_bits, states_of

import featherlane as fl
from featherlane.functions.constraint_inputs import ConstraintInputs
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower

VALUES = "constrained_forward_dynamics"
NAMES = (VALUES, f"{VALUES}_derivatives", "impulse", "step")
DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]
dtypes = pytest.mark.parametrize("dtype", repeated(DTYPES), ids=["f64", "f32"])


def graphs(names=NAMES):
    model, c = in_contact()
    return model, {name: model.graph(name, constraints=c, active=True) for name in names}


@dtypes
def test_bits_of_c(dtype, tmp_path):
    """The generated check compares every result with that of the reference interpreter."""
    model, functions = graphs(NAMES[:2])
    files = fl.generate(model, tmp_path, functions, dtype=dtype, name="held", states=3)
    assert "forces of the constraints" in files[0].read_text()
    assert checked(HOSTS[0], tmp_path, files, "-O0").count(" ok") == 2


@node
@dtypes
def test_bits_of_webassembly(dtype, tmp_path):
    model, c = in_contact()
    variants = {name: Variant(name, constraints=ConstraintInputs(c, True)) for name in NAMES}
    programs = {k: lower(dynamics_program(model, v), "wasm", dtype) for k, v in variants.items()}
    same_bits(tmp_path, programs, dtype, states_of(model))


@pytest.mark.parametrize("target", ["wasm", "ptx", "gfx942", "spirv64"])
def test_files_of_other_targets(target, tmp_path):
    model, functions = graphs((VALUES,))
    files = fl.generate(model, tmp_path, functions, target=target, name="held")
    assert any(VALUES in file.name or b"active" in file.read_bytes() for file in files)


def test_what_has_no_constraints(tmp_path):
    """Sentences, in place of what would be wrong or take minutes."""
    model, c = in_contact()
    by_name = rf"{VALUES} needs constraints.*wanted a graph, as from model.graph\('{VALUES}'"
    with pytest.raises(ValueError, match=by_name):
        fl.generate(model, tmp_path, [VALUES])
    with pytest.raises(ValueError, match=f"{VALUES} needs constraints.*circuits have no constr"):
        fl.accelerator(model, VALUES)
    with pytest.raises(ValueError, match=f"functions has '{VALUES}'"):
        fl.multifunction(model, [VALUES])
    for name in (VALUES, "step"):
        with pytest.raises(fl.CompileError, match=f"{name} takes no constraints in fixed point"):
            model.function(name, constraints=c, backend="fixed")


@pytest.mark.parametrize("name", [VALUES, "step", "rollout"])
def test_long_robots(name):
    """A chain of a hundred links would compile for half a minute, and longer ones for minutes."""
    chain = fl.chain(101, seed=1)
    held = {"constraints": chain.constraints([fl.Pin(chain.frame_names[-1])])}
    steps = {"steps": 3} if name == "rollout" else {}
    with pytest.raises(fl.CompileError, match="a long robot, takes no constraints"):
        chain.function(name, **held, **steps)
