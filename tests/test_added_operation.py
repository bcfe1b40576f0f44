"""An elementary function is added in three files: a row of the table of operations, and a function
of scalars with its public name. It is then traced, checked, differentiated, and the same to the bit
in the interpreter, vectors, C, WebAssembly and on a GPU.
"""

import shutil
from pathlib import Path

import pytest
from edited_package import edited, run
from test_c import HOSTS, checked

EXPANSION = '''
def hyperbolic_sine(g: Any, form: Any, x: int) -> int:
    """sign(x) (E + E / (E + 1)) / 2 with E = e^|x| - 1."""
    E = transcendental.expm1(g, form, g.abs(x))
    value = g.mul(g.constant(0.5), g.add(E, g.div(E, g.add(E, g.constant(1.0)))))
    return g.copysign(value, x)


OPS = {
'''
ROW = """        Op(
            "sinh",
            1,
            "trig",
            np.sinh,
            "hyperbolic sine",
            slopes=lambda g, k, a: (times(g, g.sqrt(g.fma(k, k, g.constant(1.0)))),),
            rate=lambda x, d: np.cosh(x[0]) * d[0],
            expansion=hyperbolic_sine,
            symmetry="odd",
            exact=(0.0, 0.0),
        ),
"""
BEFORE_ROW = '        Op(\n            "asin",\n'
EDITS = {
    "program/op.py": [("\nOPS = {\n", EXPANSION), (BEFORE_ROW, ROW + BEFORE_ROW)],
    "scalar.py": [
        (
            "tanh = _by",
            'sinh = _by_method("sinh", "hyperbolic sine", np.sinh, np.sinh)\ntanh = _by',
        )
    ],
    "__init__.py": [
        ("    tanh,\n", "    sinh,\n    tanh,\n"),
        ('"tanh",\n', '"sinh",\n    "tanh",\n'),
    ],
}
SCRIPT = """
import sys
sys.path.insert(0, TESTS)
import test_cuda, test_wasm
from pathlib import Path
import numpy as np
import featherlane as fl
from featherlane.backends import dual, reference
from featherlane.program.lower import lower
from featherlane.program.op import EXPANDED
from featherlane.program.program import Program
from featherlane.program.verify import verify

rng = np.random.default_rng(0)
x = rng.normal(size=(70, 3)) * np.exp(3 * rng.normal(size=(70, 3)))
x = np.clip(x, -80, 80)
graph = fl.trace(lambda x: {"y": np.sinh(x), "z": fl.sinh(-x[0]) + fl.sinh(0 * x[1])}, {"x": 3})
verify(graph)
assert graph.op.count("sinh") == 3  # the sign is taken out, and the value at 0 is known
assert "sinh" in EXPANDED
(y, z) = (reference.evaluate(graph, {"x": x})[name] for name in "yz")
assert (y == np.sinh(x)).all() and (z == -np.sinh(x[:, 0])).all()
for dtype in (np.float64, np.float32):
    given, unit = x.astype(dtype), np.finfo(dtype).eps
    program = lower(Program(graph), "cpu", dtype)
    assert "sinh" not in program.main.op
    bits = reference.evaluate(program, {"x": given}, dtype)
    assert (np.abs(bits["y"] / np.sinh(given.astype(float)) - 1) < 4 * unit).all()
    compiled = fl.compile(graph)(given)
    assert (compiled.y == bits["y"]).all() and (compiled.z == bits["z"]).all()
    test_cuda.compare(Program(graph), {"x": given}, dtype)
    if NODE:
        folder = Path(f"wasm{np.dtype(dtype).itemsize}")
        folder.mkdir()
        unfused = lower(Program(graph), "wasm", dtype)
        inputs = lambda name, program: {"x": given}
        test_wasm.same_bits(folder, {"f": unfused}, np.dtype(dtype), inputs)
direction = rng.normal(size=(70, 3))
slope = fl.compile(fl.jacobian(graph, "x", of="y"))(x)
assert np.allclose(slope, np.cosh(x)[:, :, None] * np.eye(3), rtol=1e-12)
rate = dual.evaluate(graph, {"x": x}, {"x": direction})[1]["y"]
assert np.allclose(rate, np.cosh(x) * direction, rtol=1e-12)
fl.generate(None, "written", {"f": graph}, name="hyperbolic")
"""


def test_an_elementary_function_is_added_in_three_files(tmp_path):
    assert len(EDITS) == 3
    tests, node = str(Path(__file__).parent), bool(shutil.which("node"))
    run(edited(tmp_path, EDITS), f"TESTS, NODE = {tests!r}, {node}\n{SCRIPT}")
    files = [*(tmp_path / "written").iterdir()]
    assert " ok" in checked(HOSTS[1], tmp_path / "written", files, "-O0")


def test_every_operation_needs_its_derivative(tmp_path):
    """The table refuses a row without one when it is read."""
    slopes = next(line for line in ROW.splitlines(keepends=True) if "slopes=" in line)
    row = ROW.replace(slopes, "")
    edits = {"program/op.py": [("\nOPS = {\n", EXPANSION), (BEFORE_ROW, row + BEFORE_ROW)]}
    with pytest.raises(AssertionError, match="every operation has a derivative"):
        run(edited(tmp_path, edits), "import featherlane")
