"""Steps on the ground in generated code: bits of C, of WebAssembly and of kernels for GPUs."""

import ctypes
import json
import re
import subprocess

import gpu_emulator
import numpy as np
import pytest
from assembler import needs_ptxas, refusals
from documents import ROOT
from ground_cases import DTYPES, arrays, cases, options, policy
from ground_robots import biped
from repetition import repeated
from test_backend import same_bits
from test_c import CORTEX, HOSTS, checked
from test_wasm import node
from test_wasm import run as run_in_node
from test_wasm import same_bits as same_bits_in_browsers

import featherlane as fl
from featherlane.backends import reference
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import variant_of_graph
from featherlane.program.lower import lower

STATES = 37
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
more_dtypes = pytest.mark.parametrize("dtype", repeated(DTYPES), ids=["f64", "f32"])
F64, F32 = DTYPES
IN_C = [("rigid", "gcc", F64), ("held", "clang", F32), ("soft", "clang", F64)]
IN_C += [("rigid", "clang", F32), ("held", "gcc", F64), ("soft", "gcc", F32)]


def as_library(machine, source, folder):
    """C code as a library that this process can call."""
    if machine.missing:
        pytest.skip(machine.missing)
    library = folder / "library.so"
    flags = [*machine.flags, "-O0", "-ffp-contract=off", "-shared", "-fPIC", "-lm"]
    subprocess.run([machine.compiler, str(source), *flags, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(("name", "compiler", "dtype"), repeated(IN_C, 3))
def test_bits_of_the_cpu_in_c(name, compiler, dtype, tmp_path):
    """States of a batch, in a struct of arrays, beside the package's own kernels."""
    graph = biped().graph("step", **options(name))
    files = fl.generate(biped(), tmp_path, {"step": graph}, dtype=dtype, name="biped",
                        batch_struct=True)  # fmt: skip
    assert "force on the body at each contact" in files[0].read_text()
    machine = next(x for x in HOSTS if x.compiler == compiler and x.flags)
    library = as_library(machine, files[1], tmp_path)
    inputs = arrays(graph.inputs, STATES, dtype)
    expected = biped().function("step", **options(name))(*inputs.values())
    flat = lambda x: np.ascontiguousarray(x.reshape(STATES, -1).T)
    results = [flat(np.empty_like(x)) for x in expected]
    passed = [*map(flat, inputs.values()), *results, np.empty(1 << 16, dtype)]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in passed]
    library.biped_step_batch(ctypes.c_size_t(STATES), *pointers)
    for x, y in zip(results, expected, strict=True):
        same_bits(x.T.reshape(y.shape), y)
    forces = expected.contact_force[..., 2]
    assert 0.2 < (forces > 0).mean() < 0.9


def loop(model):
    """A step on the ground with the forces of a policy, as a function of one's own."""
    step, rigid = model.graph("step", ground=fl.Ground(), law=fl.Coulomb(sweeps=2)), policy()

    def controlled(q, v, dt):
        tau = fl.call(rigid.graph, q=q, v=v, t=0.0, gain=20.0)["tau"]
        return fl.call(step, q=q, v=v, tau=tau, dt=dt)

    return fl.trace(controlled, {"q": model.nq, "v": model.nv, "dt": ()})


@pytest.mark.parametrize(
    "machine", repeated(CORTEX[::-1], spread=False), ids=lambda machine: machine.name
)
def test_a_policy_loop_on_microcontrollers(machine, tmp_path):
    files = fl.generate(biped(), tmp_path, {"controlled": loop(biped())}, dtype=np.float32,
                        name="loop", states=2)  # fmt: skip
    checked(machine, tmp_path, files, "-Os")


@node
@dtypes
def test_bits_of_webassembly(dtype, tmp_path):
    """Without fused multiply-adds results differ from those of the CPU by rounding."""
    variants = {x: variant_of_graph(biped(), "step", **options(x)) for x in cases()}
    programs = {x: lower(dynamics_program(biped(), v), "wasm", dtype) for x, v in variants.items()}
    inputs = lambda name, program: arrays(program.inputs, STATES, dtype)
    same_bits_in_browsers(tmp_path, programs, dtype, inputs)
    for name, program in programs.items():
        rows = inputs(name, program)
        found = reference.evaluate(program, rows, dtype)
        expected = biped().function("step", **options(name))(*rows.values())
        error = np.abs(found["v_next"] - expected.v).max(1) / np.abs(expected.v).max(1)
        assert np.median(error) < 20 * np.finfo(dtype).eps


STUBS = """
const nothing = new Proxy({}, { get: () => () => undefined }), page = { getContext: () => nothing }
let frames = 0
const requestAnimationFrame = next => {
  if (++frames < 60) return setTimeout(next)
  const force = [2, 5, 8, 11].map(i => step.outputs.contact_force[i])
  console.log(JSON.stringify({ force, q: [...step.inputs.q] }))
}
"""


@node
def test_a_robot_stands_in_the_page_of_the_docs(tmp_path):
    """The script of the page, in Node, for a second: the CPU comes to rest in the same state."""
    page = (ROOT / "docs" / "browser.md").read_text(encoding="utf-8")
    script = re.search(r"<script type=.module.>\n(.*?)</script>", page, re.DOTALL)[1]
    robot = fl.load("hyq", root="free")
    graph = robot.graph("step", ground=fl.Ground(), ground_params=["impulse"])
    fl.generate(robot, tmp_path, {"step": graph}, target="wasm", dtype=F32, name="hyq")
    stands = json.loads(run_in_node(tmp_path, STUBS + script))
    assert sum(stands["force"]) == pytest.approx(robot.mass * 9.81, rel=0.01)
    stance = np.tile([-0.2, 0.75, -1.5, -0.2, -0.75, 1.5], 2)
    hold = robot.policy(lambda q, v, t: np.append(np.zeros(6), 300 * (stance - q[7:]) - 10 * v[6:]))
    q = np.array([0, 0, 0.6, 0, 0, 0, 1, *stance], F32)
    moved = robot.rollout_with(hold, q, np.zeros(18, F32), 0.002, 480, ground=fl.Ground())
    assert np.abs(moved.q[-1] - stands["q"]).max() < 1e-3


ROLLOUT, WITH_LAW = {"steps": 4, "every": 2}, {"steps": 4, "every": 2, "policy": policy()}
KERNELS = [("step", "rigid", {}), ("rollout_with", "rigid", WITH_LAW), ("rollout", "soft", ROLLOUT)]
KERNELS += [("rollout", "rigid", ROLLOUT), ("rollout_with", "soft", WITH_LAW), ("step", "soft", {})]


@needs_ptxas
@pytest.mark.parametrize("dtype", repeated(DTYPES[::-1]), ids=["f32", "f64"])
@pytest.mark.parametrize(("function", "name", "more"), repeated(KERNELS, 3))
def test_the_assembler_takes_kernels(function, name, more, dtype):
    function = biped().function(function, **options(name), **more)
    for text in function.gpu.kernels("lanes", "f", dtype).texts:
        assert not refusals(text)


@more_dtypes
@pytest.mark.parametrize("name", repeated([*cases()]))
def test_bits_of_feedback_laws_on_gpus(name, dtype):
    """Emulated kernels of rollouts whose rows of forces and residuals are more than states."""
    function = biped().function("rollout_with", **options(name), **WITH_LAW)
    kernels = function.gpu.kernels("lanes", "f", dtype)
    inputs = arrays(kernels.inputs, 35, dtype)
    results = gpu_emulator.run(kernels, inputs, dtype)
    expected = function(*inputs.values())
    for x, y in zip(results.values(), expected, strict=True):
        same_bits(x, y)
    assert expected.contact_force.any()
