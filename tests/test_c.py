"""Generated C: the bits of the package on every processor, for every kind of function."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repetition import full, repeated

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.c.names import comment, identifier
from featherlane.backends.layout import layout
from featherlane.functions.sources import code_size, source_program
from featherlane.functions.table import FUNCTIONS, TABLE, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.robot.joints import JOINT_TYPES

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from c_machines import CORTEX, HOSTS

ONE_OF_EACH = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix_inverse",
    "inverse_dynamics_derivatives",
)
ALL_TYPES = tuple(JOINT_TYPES)
DTYPES = [np.float64, np.float32]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["f64", "f32"])
more_dtypes = pytest.mark.parametrize("dtype", repeated(DTYPES), ids=["f64", "f32"])
hosts = pytest.mark.parametrize("machine", repeated(HOSTS, spread=False), ids=lambda m: m.name)
cortex = pytest.mark.parametrize("machine", repeated(CORTEX, spread=False), ids=lambda m: m.name)


def checked(machine, folder, files, *options):
    """Compiles all C files of a folder without a warning, runs them, and gives what they say."""
    if machine.missing:
        pytest.skip(machine.missing)
    sources = [file for file in files if file.suffix == ".c"]
    machine.build(sources, folder / "check", options)
    told = machine.run(folder / "check")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "all functions agree" in told.stdout
    return told.stdout


@more_dtypes
@hosts
def test_all_seven_functions_on_this_machine(machine, dtype, tmp_path):
    files = fl.generate(fl.load("double_pendulum"), tmp_path, dtype=dtype, batch_struct=True)
    told = checked(machine, tmp_path, files, "-O2")
    assert told.count(" ok") == 2 * len(FUNCTIONS)  # one state, and many


@pytest.mark.parametrize("dtype", repeated(DTYPES[::-1]), ids=["f32", "f64"])
@cortex
def test_on_microcontrollers(machine, dtype, tmp_path, iiwa):
    files = fl.generate(iiwa, tmp_path, ONE_OF_EACH, dtype=dtype, states=2)
    checked(machine, tmp_path, files, "-Os")


@pytest.mark.parametrize(
    "types", repeated([ALL_TYPES[1::2], ALL_TYPES[::2]], spread=False), ids=" ".join
)
def test_every_joint_type_with_every_function(types, tmp_path):
    robot = fl.random_tree(3, 1.3, types, mimic=0.3, physics=True, seed=5)
    frame = robot.frames[-1].name
    names = [f"{f}:{frame}" if "frame" in TABLE[f].takes else f for f in TABLE]
    names = [f"{f}:mass" if "wrt" in TABLE[f.partition(":")[0]].takes else f for f in names]
    files = fl.generate(robot, tmp_path, names, name="tree", states=1)
    told = checked(HOSTS[1], tmp_path, files, "-O0")
    assert told.count(" ok") == len(TABLE)


@full
@more_dtypes
def test_steps_and_columns_are_functions_of_c(dtype, tmp_path):
    """A limit on the size of code keeps the steps of an algorithm as functions."""
    robot, dtype = fl.load("hyq", root="free"), np.dtype(dtype)
    variant = Variant("forward_dynamics")
    flat = source_program(robot, variant, dtype, 100_000, False)
    short = source_program(robot, variant, dtype, 1_000, False)
    assert not flat.functions
    assert short.functions
    assert code_size(short) < 0.7 * code_size(flat)
    names = ["forward_dynamics", "mass_matrix_inverse"]
    files = fl.generate(
        robot, tmp_path, names, dtype=dtype, code_limit=1_000, batch_struct=True, states=3
    )
    assert "_run(" in files[1].read_text()
    checked(HOSTS[1], tmp_path, files, "-O1")


@full
def test_a_long_robot(tmp_path):
    """A chain of 150 links is a table of calls, not 150 times the code."""
    chain = fl.chain(150, seed=2)
    files = fl.generate(chain, tmp_path, ["inverse_dynamics"], name="chain", states=2)
    assert files[1].stat().st_size < 1 << 20
    checked(HOSTS[0], tmp_path, files, "-O0")


def test_blocks_and_slots_hold_every_value(tmp_path, monkeypatch):
    """Code cut into the shortest blocks gives the same bits, and uses its workspace again."""
    import featherlane.backends.c.code as code

    monkeypatch.setattr(code, "layout", lambda graph: layout(graph, 7))
    robot = fl.load("double_pendulum")
    files = fl.generate(robot, tmp_path, batch_struct=True, name="cut")
    assert "#define CUT_WORK 0\n" not in files[0].read_text()
    checked(HOSTS[0], tmp_path, files, "-O1")


def test_slots_are_used_again(iiwa):
    graph = lower(dynamics_program(iiwa, Variant("forward_dynamics")), "c", np.float64).main
    plan = layout(graph, 50)
    assert plan.size < len(plan.slots) / 2
    assert [k for stage in plan.stages for k in stage.nodes] == sorted(
        k for stage in plan.stages for k in stage.nodes
    )


@more_dtypes
def test_bits_of_the_cpu_kernels(dtype, tmp_path, iiwa):
    """The C, as a shared library, against the package's own functions on thousands of states."""
    if HOSTS[1].missing:
        pytest.skip(HOSTS[1].missing)
    files = fl.generate(iiwa, tmp_path, ["forward_dynamics"], dtype=dtype, batch_struct=True)
    library = tmp_path / "library.so"
    flags = ["-O2", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(files[1]), "-o", str(library), "-lm"], check=True)
    batch = ctypes.CDLL(str(library)).iiwa14_forward_dynamics_batch
    n, rng = 1013, np.random.default_rng(0)
    q = iiwa.random_configuration(n, seed=1).astype(dtype)
    v, tau = rng.standard_normal((2, n, 7)).astype(dtype)
    arrays = [np.ascontiguousarray(x.T) for x in (q, v, tau)]
    a, work = np.empty((7, n), dtype), np.empty(1 << 16, dtype)
    batch(ctypes.c_size_t(n), *[ctypes.c_void_p(x.ctypes.data) for x in (*arrays, a, work)])
    wanted = iiwa.forward_dynamics(q, v, tau)
    assert a.T.tobytes() == wanted.tobytes()


# The fused multiply-add


def triples(dtype, n=2000):
    """Numbers of all kinds: any bits, near 1, products that underflow, sums that cancel."""
    rng, limits = np.random.default_rng(3), np.finfo(dtype)
    word = np.uint64 if limits.bits == 64 else np.uint32
    any_bits = lambda: rng.integers(0, np.iinfo(word).max, n, word, endpoint=True).view(dtype)
    near = lambda: (rng.standard_normal(n) * 2.0 ** rng.integers(-30, 30, n)).astype(dtype)
    small = lambda: (np.sqrt(limits.tiny) * near()).astype(dtype)
    subnormal = lambda: (limits.smallest_subnormal * rng.integers(1, 999, n)).astype(dtype)
    special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, limits.max, limits.tiny, 1 + limits.eps]
    some = lambda: rng.choice(np.array([*special, limits.smallest_subnormal], dtype), n)
    a, b = near(), near()
    cancelling = -(a * b) * (1 + rng.integers(-2, 3, n).astype(dtype) * limits.eps).astype(dtype)
    kinds = [
        (any_bits(), any_bits(), any_bits()),
        (near(), near(), near()),
        (small(), small(), subnormal()),
        (some(), some(), some()),
        (a, b, cancelling.astype(dtype)),
    ]
    return [np.concatenate(x) for x in zip(*kinds, strict=True)]


@pytest.mark.parametrize(
    ("how", "dtype"),
    repeated(
        [
            ("-DFEATHERLANE_FMA=2", np.float64),
            ("-DFEATHERLANE_FMA=1", np.float32),
            ("-DFEATHERLANE_FMA=2", np.float32),
            ("-DFEATHERLANE_FMA=1", np.float64),
        ],
        2,
    ),
)
def test_fused_multiply_adds_are_exact(how, dtype, tmp_path):
    """Our own in integers, and the C library's, against exact arithmetic."""
    with np.errstate(all="ignore"):
        a, b, c = triples(dtype)
    graph = fl.trace(lambda a, b, c: {"y": a * b + c}, {"a": (), "b": (), "c": ()})
    program = lower(Program(graph), "c", np.dtype(dtype))
    assert "fma" in program.main.op
    from featherlane.backends.c.library import CFunction, library

    function = CFunction("muladd", program, "", {}, {"a": a, "b": b, "c": c})
    files = library("f", [function], [], dtype, True)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    checked(HOSTS[0], tmp_path, list(tmp_path.iterdir()), "-O1", how)


def test_a_wrong_number_is_found(tmp_path, iiwa):
    """The program that checks fails if the code computes something else."""
    if HOSTS[0].missing:
        pytest.skip(HOSTS[0].missing)
    files = fl.generate(iiwa, tmp_path, ["inverse_dynamics"])
    source = files[1].read_text()
    assert source.count("tau[6] = ") == 1
    files[1].write_text(source.replace("tau[6] = ", "tau[6] = 1e-15 + "))
    HOSTS[0].build([f for f in files if f.suffix == ".c"], tmp_path / "check")
    told = HOSTS[0].run(tmp_path / "check")
    assert told.returncode == 1
    assert "DIFFERENT" in told.stdout


def test_without_exact_products_the_check_is_loose(tmp_path, iiwa):
    files = fl.generate(iiwa, tmp_path, ["forward_dynamics"])
    told = checked(HOSTS[0], tmp_path, files, "-O1", "-DFEATHERLANE_FMA=0")
    assert "largest difference" in told


# Functions of one's own, and names


def test_traced_functions_and_derivatives(tmp_path):
    def distance(p, r):
        d = [fl.select(x < y, x - y, (x - y) * 2.0) for x, y in zip(p, r, strict=True)]
        return {"d": fl.sqrt(sum(x * x for x in d)), "same": p[0], "half": 0.5}

    graph = fl.trace(distance, {"p": 3, "r": 3})
    files = fl.generate(None, tmp_path, {"distance": graph}, name="mine", batch_struct=True)
    checked(HOSTS[0], tmp_path, files)
    header = files[0].read_text()
    assert "double *FL_RESTRICT d" in header
    assert reference.evaluate(graph, {"p": np.ones(3), "r": np.zeros(3)})["d"] == 2 * 3**0.5


def test_an_output_with_the_name_of_an_input(tmp_path):
    graph = fl.trace(lambda q: {"q": [x + 1.0 for x in q]}, {"q": 2})
    files = fl.generate(None, tmp_path, {"step": graph}, name="mine")
    assert "q_out" in files[0].read_text()
    checked(HOSTS[0], tmp_path, files)


def test_names_that_the_code_could_have_itself(tmp_path):
    """Arguments and functions called like what the check, or the code of another, has."""
    square = fl.trace(lambda x: {"y": x * x}, {"x": ()})
    functions = {
        "a": fl.trace(lambda n, i: {"j": n * i, "one": n + i, "wrong": n}, {"n": (), "i": ()}),
        "b": fl.trace(
            lambda b_c, q, q_out: {"q": b_c * q, "q_out": q}, {"b_c": (), "q": (), "q_out": ()}
        ),
        "b_b": fl.trace(lambda c: {"q": c * 2.0}, {"c": ()}),
        "f": square,
        "f_vector": square,
        "f_1": square,
        "check": square,
    }
    files = fl.generate(None, tmp_path, functions, name="largest", batch_struct=True)
    checked(HOSTS[0], tmp_path, files, "-O0")


@dtypes
def test_arguments_without_entries_and_infinite_constants(dtype, tmp_path):
    constants = [1.5, -0.0, np.nan, np.inf, -np.inf, 1e300, 1e-300]
    functions = {
        "none": fl.trace(lambda: {"y": constants}, {}),
        "some": fl.trace(lambda x, e: {"y": [], "z": [x[1], x[1], x[0]]}, {"x": 2, "e": 0}),
    }
    files = fl.generate(None, tmp_path, functions, name="mine", dtype=dtype, batch_struct=True)
    checked(HOSTS[0], tmp_path, files, "-O0")


def test_other_compilers_than_gnu_have_one_state_in_a_vector(tmp_path):
    robot = fl.load("double_pendulum")
    files = fl.generate(robot, tmp_path, ["forward_dynamics"], batch_struct=True)
    text = files[1].read_text()
    assert text.count("#if !defined(__GNUC__)\n#define FL_LANES 1\n") == 1
    files[1].write_text(text.replace("#if !defined(__GNUC__)", "#if 1"))
    checked(HOSTS[1], tmp_path, files, "-O1")


def test_graphs_of_your_own_have_no_meanings_of_the_robot(tmp_path, iiwa):
    mine = fl.trace(lambda q, T: {"c": q[0] * T, "C": T}, {"q": 7, "T": ()})
    files = fl.generate(iiwa, tmp_path, {"cost": mine, "loaded": iiwa.graph("mass_matrix")})
    header = files[0].read_text()
    assert "kinetic energy" not in header
    assert "Coriolis" not in header
    assert "mass matrix: kg m^2" in header


def test_cmake_has_the_names(tmp_path):
    graph = fl.trace(lambda x: {"y": x * x}, {"x": ()})
    files = fl.generate(None, tmp_path, {"f": graph}, name="MY_NAME")
    text = files[3].read_text()
    assert "add_test(NAME MY_NAME_check COMMAND MY_NAME_check)" in text
    assert "MY_MY" not in text


def test_graphs_with_wrenches_and_parameters(tmp_path, iiwa):
    graph = iiwa.graph("inverse_dynamics", "world", params=("mass", "gravity"))
    files = fl.generate(iiwa, tmp_path, {"loaded": graph, "tau": "inverse_dynamics"})
    checked(HOSTS[0], tmp_path, files)


def test_two_robots_in_one_program(tmp_path, iiwa):
    if HOSTS[0].missing:
        pytest.skip(HOSTS[0].missing)
    one = fl.generate(iiwa, tmp_path / "a", ["mass_matrix"], batch_struct=True)
    other = fl.generate(fl.load("panda"), tmp_path / "b", ["mass_matrix"], batch_struct=True)
    main = tmp_path / "main.c"
    main.write_text(
        f'#include "{one[0]}"\n#include "{other[0]}"\n#include <stdio.h>\n'
        "int main(void) {\n  double q[7] = {0}, M[49], N[81], work[IIWA14_WORK + PANDA_WORK + 1];\n"
        "  iiwa14_mass_matrix(q, M, work);\n  panda_mass_matrix(q, N, work);\n"
        '  printf("%a %a", M[0], N[0]);\n  return 0;\n}\n'
    )
    HOSTS[0].build([main, one[1], other[1]], tmp_path / "both")
    told = [float.fromhex(x) for x in HOSTS[0].run(tmp_path / "both").stdout.split()]
    robots = [iiwa, fl.load("panda")]
    assert told == [robot.mass_matrix(np.zeros(robot.nq))[0, 0] for robot in robots]


def test_headers_are_c_plus_plus_too(tmp_path, iiwa):
    files = fl.generate(iiwa, tmp_path, ["mass_matrix"])
    if HOSTS[0].missing:
        pytest.skip(HOSTS[0].missing)
    command = ["g++", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", str(files[0])]
    subprocess.run(command, check=True)


def test_what_is_refused(tmp_path, iiwa):
    with pytest.raises(ValueError, match="target is 'verilog': wanted one of 'c'"):
        fl.generate(iiwa, tmp_path, target="verilog")
    with pytest.raises(ValueError, match="did you mean 'inverse_dynamics'"):
        fl.generate(iiwa, tmp_path, ["inverse_dynamic"])
    with pytest.raises(TypeError, match="wanted a list of names"):
        fl.generate(iiwa, tmp_path, "inverse_dynamics")
    with pytest.raises(ValueError, match="jacobian takes a frame: write jacobian:FRAME"):
        fl.generate(iiwa, tmp_path, ["jacobian"])
    with pytest.raises(ValueError, match="is 'mass_matrix:tool0': wanted mass_matrix"):
        fl.generate(iiwa, tmp_path, ["mass_matrix:tool0"])
    with pytest.raises(ValueError, match="wanted jacobian:FRAME:REFERENCE"):
        fl.generate(iiwa, tmp_path, ["jacobian:iiwa_link_7:world:again"])
    with pytest.raises(ValueError, match="reference is 'hand': wanted 'body'"):
        fl.generate(iiwa, tmp_path, ["jacobian:iiwa_link_7:hand"])
    with pytest.raises(TypeError, match="model is missing"):
        fl.generate(None, tmp_path, ["mass_matrix"])
    with pytest.raises(ValueError, match="functions is empty"):
        fl.generate(iiwa, tmp_path, [])
    with pytest.raises(ValueError, match="name 'my arm' cannot be a name in C"):
        fl.generate(iiwa, tmp_path, name="my arm")
    with pytest.raises(ValueError, match="'class' means something else in C"):
        fl.generate(iiwa, tmp_path, {"class": "mass_matrix"})
    for name in ("work", "t12", "fl_fma", "stride", "fabs", "size_t"):
        with pytest.raises(ValueError, match="is a name in the generated code"):
            fl.generate(None, tmp_path, {"f": fl.trace(lambda x: x * x, {name: ()})}, name="mine")
    for name in ("M_PI", "BUFSIZ", "MINE_WORK"):
        with pytest.raises(ValueError, match="may be a macro of a C header"):
            fl.generate(None, tmp_path, {"f": fl.trace(lambda x: x * x, {name: ()})}, name="mine")
    graph = fl.trace(lambda x: x * x, {"x": ()})
    with pytest.raises(ValueError, match="two functions are called 'f' but for upper and lower"):
        fl.generate(None, tmp_path, {"f": graph, "F": graph}, name="mine")
    with pytest.raises(ValueError, match="'batch' has a name of the generated code"):
        fl.generate(None, tmp_path, {"batch": graph}, name="mine", batch_struct=True)
    with pytest.raises(ValueError, match="has no outputs"):
        fl.generate(None, tmp_path, {"f": fl.trace(lambda x: {}, {"x": ()})}, name="mine")
    with pytest.raises(ValueError, match="'test' is taken"):  # CMake has a target of this name
        fl.generate(iiwa, tmp_path, name="test")
    for wrong in ("states", "code_limit"):
        with pytest.raises(ValueError, match=f"{wrong} is 0: wanted a whole number, 1 or more"):
            fl.generate(iiwa, tmp_path, **{wrong: 0})
    with pytest.raises(TypeError, match="model is 'iiwa14': wanted a Model"):
        fl.generate("iiwa14", tmp_path)
    with pytest.raises(fl.CompileError, match="dtype is f32: code is made for float32 and"):
        fl.generate(iiwa, tmp_path, dtype="f32")
    long = fl.trace(lambda x: [x[0] * x[1] + x[2] / x[1]], {"x": 3})
    with pytest.raises(ValueError, match="more than code_limit, 1: only functions of robots"):
        fl.generate(None, tmp_path, {"f": long}, name="mine", code_limit=1)
    with pytest.raises(ValueError, match="folder is empty"):
        fl.generate(iiwa, "")
    assert not list(tmp_path.iterdir())


def test_a_frame_with_a_colon_in_its_name(tmp_path):
    build = fl.ModelBuilder("arm")
    build.link("base")
    build.link("tool:left", mass=1.0, inertia=(0.1, 0.1, 0.1))
    build.joint("turn", "revolute", "base", "tool:left")
    model = build.build()
    header, *_ = fl.generate(model, tmp_path, ["jacobian:tool:left", "jacobian:tool:left:world"])
    assert "Frame: tool:left, in body axes" in header.read_text()
    assert "Frame: tool:left, in world axes" in header.read_text()


def test_a_folder_holds_one_library(tmp_path, iiwa):
    fl.generate(iiwa, tmp_path, ["mass_matrix"])
    fl.generate(iiwa, tmp_path, ["inverse_dynamics"])  # the same one, anew
    with pytest.raises(ValueError, match=r"holds iiwa14_check\.c of another library"):
        fl.generate(iiwa, tmp_path, ["mass_matrix"], name="arm")


def test_a_file_is_no_folder(tmp_path, iiwa):
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/below"):
        with pytest.raises(ValueError, match=r"cannot be made: .*file' is a file"):
            fl.generate(iiwa, tmp_path / folder, ["mass_matrix"])
    with pytest.raises(ValueError, match="cannot be written to"):
        fl.generate(iiwa, tmp_path / ("x" * 300), ["mass_matrix"])


def test_names_and_comments():
    assert identifier("UR5e (left)") == "ur5e_left"
    assert identifier("2F-85") == "robot_2f_85"
    assert identifier("short") == "robot_short"
    assert identifier("jacobian:bras_é") != identifier("jacobian:bras_è")
    assert identifier("jacobian:手").startswith("jacobian_")
    assert comment("a */ b /* c \\ d ??/") == "a * / b / * c | d ? ?/"


def test_the_same_files_again(tmp_path, iiwa):
    """Nothing in the files depends on when or where they were written."""
    one = fl.generate(iiwa, tmp_path / "a", ["mass_matrix"])
    other = fl.generate(iiwa, tmp_path / "b", ["mass_matrix"])
    assert [f.read_text() for f in one] == [f.read_text() for f in other]
