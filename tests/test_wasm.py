"""WebAssembly and JavaScript: the bits of the reference interpreter in Node, for every kind of
function, and the files that users get.
"""

import json
import re
import runpy
import shutil
import subprocess

import numpy as np
import pytest
import textbook
from documents import ROOT
from repetition import full, repeated
from test_transcendental import everything, specials

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.wasm import assembly, code, encode
from featherlane.backends.wasm.files import WasmFunction, library, page
from featherlane.backends.wasm.lanes import LANES
from featherlane.functions.figure import figure
from featherlane.functions.sources import source_program
from featherlane.functions.table import FUNCTIONS, TABLE, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.robot.joints import JOINT_TYPES

NODE = shutil.which("node")
node = pytest.mark.skipif(NODE is None, reason="node is not there, which runs WebAssembly")
DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
STATES = 37  # no multiple of 2 and 4

# Calls every function of a library, by the module and by the script, for all states and for the
# first one, and prints how many numbers differ: what is NaN may have any bits
CHECK = """\
import { readFileSync } from 'node:fs'
import { load } from './made.mjs'
const cases = JSON.parse(readFileSync('cases.json')), told = []
for (const fallback of [false, true]) {
  const made = await load({ fallback })
  const Type = made.about.dtype === 'float32' ? Float32Array : Float64Array
  const Bits = made.about.dtype === 'float32' ? Uint32Array : BigUint64Array
  for (const [name, states] of Object.entries(cases)) {
    const f = made.about.functions[name]
    const file = (...parts) => new Uint8Array(readFileSync([name, ...parts].join('.')))
    const read = (way, key) => new Type(file(way, key).buffer)
    for (const many of [states, 1]) {
      const given = {}
      for (const key in f.inputs) {
        const x = read('in', key)
        given[key] = x.subarray(0, x.length / states * many)
      }
      const results = made[name](given)
      for (const key in f.outputs) {
        const x = read('out', key), wanted = x.subarray(0, x.length / states * many)
        const a = new Bits(results[key].buffer, 0, results[key].length), b = new Bits(wanted.buffer)
        let wrong = Math.abs(results[key].length - wanted.length)
        wanted.forEach((w, i) => {
          wrong += a[i] !== b[i] && !(Number.isNaN(w) && Number.isNaN(results[key][i]))
        })
        told.push([fallback, name, many, key, wrong])
      }
    }
  }
}
console.log(JSON.stringify(told))
"""


def run(folder, script):
    """What a script prints in Node."""
    (folder / "run.mjs").write_text(script)
    done = subprocess.run([NODE, "run.mjs"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(folder, functions, dtype):
    """A library of the lowered programs `functions`, by name."""
    each = [WasmFunction(name, program, "", {}) for name, program in functions.items()]
    for file, content in library("made", each, {"name": "made"}, dtype).items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / file).write_bytes(data)


def same_bits(folder, functions, dtype, inputs):
    """Checks lowered programs. inputs: (name, program) -> arrays (states, *shape) by name."""
    written(folder, functions, dtype)
    cases = {}
    for name, program in functions.items():
        given = {k: np.ascontiguousarray(x, dtype) for k, x in inputs(name, program).items()}
        wanted = reference.evaluate(program, given, dtype)
        for way, arrays in (("in", given), ("out", wanted)):
            for key, x in arrays.items():
                (folder / f"{name}.{way}.{key}").write_bytes(x.tobytes())
        cases[name] = next(len(x) for x in given.values())
    (folder / "cases.json").write_text(json.dumps(cases))
    told = json.loads(run(folder, CHECK))
    outputs = sum(len(program.outputs) for program in functions.values())
    assert len(told) == 4 * outputs
    assert [case for case in told if case[-1]] == []


def states_of(model, states=STATES, seed=0):
    """Random inputs of functions of a robot."""
    rng = np.random.default_rng(seed)

    def inputs(name, program):
        made = {}
        for key, shape in program.inputs.items():
            made[key] = rng.standard_normal((states, *shape))
            if key == "q" and shape == (model.nq,):
                made[key] = model.random_configuration(states, seed=seed)
        return made

    return inputs


ROBOTS = {
    "revolute": ("revolute", "prismatic", "helical"),
    "curved": ("free", "universal", "spherical"),
    "branched": ("planar", "revolute", "revolute", "cylindrical"),
}


@node
@dtypes
@pytest.mark.parametrize("robot", ROBOTS)
def test_bits_of_the_seven_functions(robot, dtype, tmp_path):
    model = textbook.tree(ROBOTS[robot], seed=4, physics=True)
    programs = {f: lower(dynamics_program(model, Variant(f)), "wasm", dtype) for f in FUNCTIONS}
    same_bits(tmp_path, programs, dtype, states_of(model))


@node
@pytest.mark.parametrize("dtype", repeated(DTYPES), ids=["f64", "f32"])
def test_bits_of_steps_rollouts_and_functions_of_frames(dtype, tmp_path):
    model = textbook.tree(ROBOTS["curved"], seed=4, physics=True)
    variants = {
        "step": Variant("step"),
        "stages": Variant("step", integrator="rk4"),
        "linear": Variant("linearize_step"),
        "backwards": Variant("step_vjp"),
        "rollout": Variant("rollout", steps=3),
        "J": Variant("jacobian", frame=model.frames[-1].name, reference="world"),
        "T": Variant("kinetic_energy"),
        "between": Variant("interpolate"),
    }
    programs = {k: lower(dynamics_program(model, v), "wasm", dtype) for k, v in variants.items()}
    same_bits(tmp_path, programs, dtype, states_of(model))


@full
@node
@dtypes
def test_bits_of_every_function_and_joint_type(dtype, tmp_path):
    model = fl.random_tree(
        len(JOINT_TYPES), 1.3, tuple(JOINT_TYPES), mimic=0.3, physics=True, seed=5
    )
    frame = model.frames[-1].name
    variants = {
        name: Variant(
            name,
            frame=frame if "frame" in f.takes else None,
            reference="body" if "reference" in f.takes else None,
            wrt="mass" if "wrt" in f.takes else None,
        )
        for name, f in TABLE.items()
    }
    programs = {k: lower(dynamics_program(model, v), "wasm", dtype) for k, v in variants.items()}
    same_bits(tmp_path, programs, dtype, states_of(model, 5))


@full
@node
@dtypes
@pytest.mark.parametrize("robot", ["hyq", "atlas"])
def test_bits_of_large_robots(robot, dtype, tmp_path):
    """More than 30,000 operations: columns are functions that the program calls."""
    model = fl.load(robot, root="free")
    names = ("inverse_dynamics", "forward_dynamics_derivatives")
    programs = {f: lower(dynamics_program(model, Variant(f)), "wasm", dtype) for f in names}
    same_bits(tmp_path, programs, dtype, states_of(model, 5))


@node
@dtypes
def test_steps_of_algorithms_are_functions(dtype, tmp_path, monkeypatch):
    """Programs of calls, also where code is cut into the shortest blocks."""
    model = fl.chain(5, seed=2)
    program = source_program(model, Variant("forward_dynamics"), dtype, 1, False, "wasm")
    assert program.functions
    monkeypatch.setattr(code, "BLOCK", 7)
    same_bits(tmp_path, {"FD": program}, dtype, states_of(model, 5))


@node
@dtypes
def test_short_blocks_and_many_states(dtype, tmp_path, monkeypatch):
    """Workspaces hold what blocks hand over, and calls go through their states in parts."""
    monkeypatch.setattr(code, "BLOCK", 7)
    model = fl.load("double_pendulum")
    program = lower(dynamics_program(model, Variant("forward_dynamics_derivatives")), "wasm", dtype)
    same_bits(tmp_path, {"dFD": program}, dtype, states_of(model, 515))


@node
@dtypes
def test_bits_of_every_operation_on_special_values(dtype, tmp_path):
    """Transcendental functions, roundings, selections: subnormal numbers, infinities, NaN."""
    program = lower(Program(fl.trace(everything, {"x": 3, "y": 3})), "wasm", dtype)
    rng = np.random.default_rng(2)
    x = rng.choice(specials(dtype.type), (301, 2, 3))
    x[:200] = rng.normal(size=(200, 2, 3)) * np.exp(rng.normal(size=(200, 2, 3)) * 3)
    inputs = lambda name, program: {"x": x[:, 0], "y": x[:, 1]}
    same_bits(tmp_path, {"all": program}, dtype, inputs)


def test_programs_have_no_fused_multiply_adds(iiwa):
    program = dynamics_program(iiwa, Variant("forward_dynamics"))
    fused, unfused = (lower(program, x, np.float64).main for x in ("cpu", "wasm"))
    assert "fma" in fused.op
    assert "fma" not in unfused.op
    rng = np.random.default_rng(0)
    inputs = {k: rng.standard_normal((20, 7)) for k in ("q", "v", "tau")}
    results = [reference.evaluate(graph, inputs)["a"] for graph in (fused, unfused)]
    assert not np.array_equal(*results)
    assert np.allclose(*results, rtol=1e-10, atol=1e-9)


def test_numbers_of_the_binary_format():
    """The examples of DWARF 4, figures 22 and 23, and of the specification."""
    assert [encode.unsigned(n).hex() for n in (2, 127, 128, 12857)] == ["02", "7f", "8001", "b964"]
    numbers = (2, -2, 127, -127, 128, -129)
    encoded = ["02", "7e", "ff00", "817f", "8001", "ff7e"]
    assert [encode.signed(n).hex() for n in numbers] == encoded


def test_files(tmp_path):
    model = fl.load("double_pendulum")
    files = fl.generate(model, tmp_path, ["mass_matrix", "step:rk4"], target="wasm", name="arm")
    names = ["arm.wasm", "arm.mjs", "arm.d.mts", "arm_fallback.mjs", "arm.html"]
    assert [file.name for file in files] == names
    types = files[2].read_text()
    assert '"mass_matrix"(given: { "q": Numbers }): { "M": Float64Array }' in types
    assert '"step_rk4"(given: ' in types
    assert "figure" in types
    text = files[4].read_text()
    assert not re.search(r"{{|https?://(?!www.w3.org)", text)  # nothing left out, nothing elsewhere
    assert "mass_matrix_inverse" not in text


@node
def test_what_a_library_says_of_itself_and_of_wrong_calls(tmp_path, iiwa):
    fl.generate(iiwa, tmp_path, ["inverse_dynamics"], target="wasm", name="arm", dtype=np.float32)
    told = run(
        tmp_path,
        """\
import { readFileSync } from 'node:fs'
import { load, open, supported } from './arm.mjs'
const arm = await load(), f = arm.inverse_dynamics, q = new Array(7).fill(0.1), wrong = []
for (const given of [{ q }, { q: [1], v: q, a: q }, { q, v: q, a: q, b: q },
  { q: [...q, ...q], v: [...q, ...q, ...q], a: q }]) {
  try { f(given) } catch (error) { wrong.push(error.message) }
}
const empty = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])
try { await open(empty) } catch (error) { wrong.push(error.message) }
const batch = arm.batch('inverse_dynamics', 3), more = arm.batch('mass_matrix', 4000)
batch.inputs.q.fill(0.1)  // the memory has grown in the meantime
const zero = new Float32Array(7), { tau } = f({ q, v: zero, a: zero })
const same = batch.run().tau.every((x, i) => x === tau[i % 7])
console.log(JSON.stringify({ about: arm.about, supported: supported(), wrong, same }))
""",
    )
    told = json.loads(told)
    assert told["supported"] is True
    assert told["same"] is True
    about = told["about"]
    assert (about["nq"], about["dtype"]) == (7, "float32")
    assert about["functions"]["inverse_dynamics"]["inputs"] == {"q": [7], "v": [7], "a": [7]}
    assert [c["name"] for c in about["coordinates"]] == list(iiwa.joint_names)
    assert about["coordinates"][1]["upper"] == iiwa.joints[1].upper[0]
    assert told["wrong"] == [
        "inverse_dynamics wants v: 7 numbers",
        "q has 1 numbers: inverse_dynamics wants 7, or 7 per state",
        "inverse_dynamics has no b: q,v,a",
        "v has 3 states, another argument 2",
        "this module was not made by featherlane generate",
    ]


@node
def test_graphs_of_your_own(tmp_path):
    graph = fl.trace(lambda x, y: {"x": x * y + 1}, {"x": 2, "y": ()})
    files = fl.generate(None, tmp_path, {"scaled": graph}, target="wasm", name="own")
    assert [file.suffix for file in files] == [".wasm", ".mjs", ".mts", ".mjs"]
    script = "import { load } from './own.mjs'\nconst own = await load()\n"
    told = run(tmp_path, script + "console.log(own.scaled({ x: [1, 2, 3, 4], y: 2 }).x.join())")
    assert told == "3,5,7,9\n"


def test_errors(tmp_path):
    robot = fl.load("double_pendulum")
    with pytest.raises(ValueError, match="batch_struct and signature are for C"):
        fl.generate(robot, tmp_path, target="wasm", batch_struct=True)
    with pytest.raises(ValueError, match="'batch' has a name of the library"):
        fl.generate(robot, tmp_path, {"batch": "mass_matrix"}, target="wasm")


def test_points_of_the_figure(iiwa):
    made, q = figure(iiwa), iiwa.random_configuration(3, seed=1)
    points = reference.evaluate(made.graph, {"q": q})["points"]
    assert len(made.lines) == points.shape[1] == iiwa.nbodies + 1
    for n, name in enumerate(iiwa.body_names):
        assert np.allclose(points[:, n], iiwa.frame_placement(q, name)[:, :3, 3])
    tip = np.linalg.norm(points[:, -1] - points[:, -2], axis=1)
    assert np.allclose(tip, np.linalg.norm(iiwa.bodies[-1].com))  # no frame is farther out


def test_the_page_of_the_docs():
    """The page that the site is built with, of its smallest robot."""
    built = runpy.run_path(str(ROOT / "docs" / "browser" / "build.py"))["built"]
    text = built({"double_pendulum": True})
    assert "double_pendulum" in text
    around = page([]).split(start := '<script type="application/json" id="data">')
    assert text.split(start)[1].endswith(around[1].removeprefix("[]"))
    assert 'href="../ground/"' in text
    assert "go2 on the ground" in text


@dtypes
def test_bits_in_another_engine(dtype):
    """wasmtime: Cranelift instead of V8, and no loader between the test and the module."""
    wasmtime = pytest.importorskip("wasmtime")
    model = textbook.tree(ROBOTS["curved"], seed=4, physics=True)
    program = lower(dynamics_program(model, Variant("inverse_dynamics_derivatives")), "wasm", dtype)
    writer = encode.ModuleWriter()
    at = assembly.write(writer, "f", program, LANES[dtype], 16)
    made = writer.encoded(1 << 20, {})
    store = wasmtime.Store()
    exports = wasmtime.Instance(store, wasmtime.Module(store.engine, made), []).exports(store)
    given = {k: x.astype(dtype) for k, x in states_of(model)("", program).items()}
    addresses = []
    for shape in [*program.inputs.values(), *[out.shape for out in program.outputs.values()]]:
        addresses.append(at)
        at += 16 * -(-(STATES + 3) * int(np.prod(shape)) * dtype.itemsize // 16)
    for x, address in zip(given.values(), addresses, strict=False):
        exports["memory"].write(store, x.tobytes(), address)
    exports["f"](store, STATES, *addresses)
    wanted = reference.evaluate(program, given, dtype).values()
    for x, address in zip(wanted, addresses[len(given) :], strict=True):
        assert exports["memory"].read(store, address, address + x.nbytes) == x.tobytes()
