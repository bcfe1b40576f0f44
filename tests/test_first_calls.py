"""First calls: code cut into pieces and made by several processes, what is told meanwhile, and
functions that are compiled before they are called.
"""

import logging
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from processes import finished, python
from test_cli import Terminal

import featherlane as fl
from featherlane.api import ilqr
from featherlane.backends import progress
from featherlane.backends.cpu import addresses
from featherlane.backends.cpu.graphs import kernel
from featherlane.backends.llvm import jit, pieces, targets, workers
from featherlane.functions import kernels as variant_kernels
from featherlane.functions import large_control, optimal_control, sequences
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program import trace
from featherlane.program.lower import lower

posix = pytest.mark.skipif(os.name != "posix", reason="signals and forks are those of POSIX")
fused = pytest.mark.skipif(not targets.host().fused, reason="this processor compiles alone")
FLOAT64 = np.dtype(np.float64)


@pytest.fixture(scope="module")
def ir():
    """The text of a function that is worth several pieces."""
    program = dynamics_program(fl.load("atlas", root="free"), Variant("inverse_dynamics"))
    made = lower(program, "cpu", FLOAT64)
    return addresses.with_table(kernel.source(made, FLOAT64, jit.widest(FLOAT64)))


@pytest.fixture(scope="module")
def image(ir):
    """Its code, made by this process alone."""
    return jit.joined([targets.machine_code(x, targets.host()) for x in pieces.cut(ir)])


@pytest.fixture
def answers(monkeypatch):
    """Two new workers, and what they have answered so far."""
    monkeypatch.setenv("FEATHERLANE_WORKERS", "2")
    own, answers = workers._Workers(), []
    monkeypatch.setattr(workers, "_workers", own)
    compile_ = workers._Worker.machine_code

    def told(self, ir):
        answers.append(compile_(self, ir))
        return answers[-1]

    monkeypatch.setattr(workers._Worker, "machine_code", told)
    yield answers
    own.end()


def leave_it_to_workers(monkeypatch):
    """This process waits for the workers as long as they work."""
    left = workers._Workers.next_here

    def only_what_failed(self, jobs, report):
        with self.changed:
            self.changed.wait_for(lambda: all(job.image or job.failed for job in jobs), 60)
        return left(self, jobs, report)

    monkeypatch.setattr(workers._Workers, "next_here", only_what_failed)


# Pieces


def results(image):
    """What code of inverse dynamics of Atlas gives."""
    from featherlane.backends.cpu.call.ufunc import gufunc
    from featherlane.backends.cpu.linked import linked

    model = fl.load("atlas", root="free")
    function, code = model.function("inverse_dynamics"), linked(image)
    shapes = [*function.inputs.values()], [*function.outputs.values()]
    call, alive = gufunc("inverse_dynamics", code.address, FLOAT64, *shapes)
    rng = np.random.default_rng(0)
    v, a = rng.normal(size=(2, 37, model.nv))
    return call(model.random_configuration(37, seed=0), v, a), alive


def test_pieces_give_the_bits_of_the_whole(ir, image):
    cut = pieces.cut(ir)
    assert len(cut) > 2
    assert len(cut[0]) < len(ir) / 2
    whole = targets.machine_code(ir, targets.host())
    assert [*jit.parted(whole)] == [whole]
    assert jit.joined([*jit.parted(image)]) == image
    np.testing.assert_array_equal(results(image)[0], results(whole)[0])


def test_what_cannot_be_moved_stays():
    """Functions that refer to variables or to others stay, and so does all of a short text."""
    body = "\n".join(f"%x{k} = add i64 {k}, {k}" for k in range(40_000))
    head = "define internal void @{}() noinline {{\n"
    text = f"""
@variable = global i64 0, align 8
@number = private unnamed_addr constant i64 7, align 8
{head.format("moved")}{body}
%y = load i64, ptr @number, align 8
ret void
}}
{head.format("writes")}{body}
store i64 1, ptr @variable, align 8
ret void
}}
define void @loop() {{
call void @moved()
call void @writes()
ret void
}}"""
    first, second = pieces.cut(text)
    assert "declare hidden void @moved() noinline" in first
    assert "define internal void @writes()" in first
    assert "define hidden void @moved()" in second
    assert "@number = private" in second
    assert "@variable" not in second
    jit.MachineCode(jit.machine_code(text), ("loop",))
    assert pieces.cut(text[: pieces.PIECE]) == [text[: pieces.PIECE]]


# Workers


@fused
def test_workers_give_the_code_that_this_process_gives(ir, image, answers, monkeypatch):
    leave_it_to_workers(monkeypatch)
    assert jit.machine_code(ir) == image
    assert len(answers) == len(pieces.cut(ir))
    assert all(answers)


@pytest.mark.parametrize(
    ("words", "count"), [("0", 0), ("off", 0), ("3", 3), ("100", workers.MOST), ("", 6), ("x", 6)]
)
@fused
def test_the_number_of_workers(words, count, monkeypatch):
    monkeypatch.setattr(workers, "physical_cores", lambda: 7)
    monkeypatch.setenv("FEATHERLANE_WORKERS", words)
    assert workers.wanted() == count


@pytest.mark.parametrize("words", ["abc", "-1", "1.5"])
def test_a_number_of_workers_that_means_nothing_is_told_once(words, monkeypatch, caplog):
    workers._complain.cache_clear()
    monkeypatch.setenv("FEATHERLANE_WORKERS", words)
    for _ in range(2):
        workers.wanted()
    (record,) = caplog.records
    told = f"FEATHERLANE_WORKERS is '{words}': wanted a whole number from 0 on, or off"
    assert record.getMessage().startswith(told)


@pytest.mark.parametrize(
    ("name", "value"), [("executable", ""), ("executable", "/opt/some/program"), ("frozen", True)]
)
def test_programs_that_contain_python_start_no_workers(name, value, monkeypatch):
    monkeypatch.setenv("FEATHERLANE_WORKERS", "2")
    monkeypatch.setattr(sys, name, value, raising=False)
    assert workers.wanted() == 0


def test_a_package_that_was_replaced_starts_no_workers(monkeypatch):
    monkeypatch.setenv("FEATHERLANE_WORKERS", "2")
    monkeypatch.setattr(workers.cache, "is_replaced", lambda: True)
    assert workers.wanted() == 0


def refused(*args, **options):
    raise BlockingIOError("no more processes")


@pytest.mark.parametrize("what", ["refused", "no such file", "ends at once", "something else"])
def test_without_workers_this_process_compiles(what, ir, image, answers, monkeypatch):
    popen = subprocess.Popen
    replaced = {
        "refused": refused,
        "no such file": lambda words, **options: popen(["/no/python", *words[1:]], **options),
        "ends at once": lambda words, **options: popen([*words[:-1], "raise 0"], **options),
        "something else": lambda words, **options: popen(
            [*words[:-1], "print('3\\nabc')"], **options
        ),
    }
    monkeypatch.setattr(workers.subprocess, "Popen", replaced[what])
    assert jit.machine_code(ir) == image
    assert not answers


@fused
def test_a_worker_that_is_killed_leaves_its_work_to_this_process(ir, image, answers, monkeypatch):
    compile_, killed = workers._Worker.machine_code, []

    def die(self, text):
        self.process.kill()
        killed.append(text)
        return compile_(self, text)

    monkeypatch.setattr(workers._Worker, "machine_code", die)
    leave_it_to_workers_until(killed, monkeypatch)
    assert jit.machine_code(ir) == image
    assert killed
    assert not answers


def leave_it_to_workers_until(events, monkeypatch):
    """This process does nothing until something has happened to a worker."""
    left = workers._Workers.next_here

    def later(self, jobs, report):
        with self.changed:
            self.changed.wait_for(lambda: events, 60)
        return left(self, jobs, report)

    monkeypatch.setattr(workers._Workers, "next_here", later)


@posix
@fused
def test_a_worker_that_does_not_answer_is_not_waited_for(ir, image, answers, monkeypatch):
    compile_, stopped = workers._Worker.machine_code, []

    def stop(self, text):
        os.kill(self.process.pid, signal.SIGSTOP)
        with workers._workers.changed:
            stopped.append(text)
            workers._workers.changed.notify_all()
        return compile_(self, text)

    monkeypatch.setattr(workers._Worker, "machine_code", stop)
    monkeypatch.setattr(workers, "PATIENCE", 0.01)
    leave_it_to_workers_until(stopped, monkeypatch)
    assert jit.machine_code(ir) == image
    assert stopped


def test_errors_are_those_of_this_process(answers):
    with pytest.raises(RuntimeError, match="parsing error"):
        workers.object_files(["no text", "nor this"], lambda done: None)
    assert not workers._workers.waiting


def test_an_interrupt_leaves_nothing_behind(ir, image, answers, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workers.targets, "machine_code", interrupted)
        patch.setattr(workers, "PATIENCE", 0.0)
        with pytest.raises(KeyboardInterrupt):
            jit.machine_code(ir)
    assert not workers._workers.waiting
    assert jit.machine_code(ir) == image


# A function in several pieces, all of which workers compile, and what two of them say
IN_A_PROCESS = """
    import sys
    import numpy as np
    from hashlib import sha256
    import featherlane as fl
    from featherlane.backends.llvm import pieces, workers
    pieces.PIECE = 1 << 14
    count, run = [], workers._Workers._run
    workers._Workers._run = lambda *args: (run(*args), count.append(args[1].image))
    def done(gravity):
        model = fl.load("double_pendulum", gravity=(0, 0, gravity))
        model.compile(["forward_dynamics_derivatives"])
        n = np.arange(2.0)[None]
        return sha256(model.forward_dynamics_derivatives(n, n, n).da_dq.tobytes()).hexdigest()
    class Waits:
        def next_here(self, jobs, report):
            with self.changed:
                self.changed.wait_for(lambda: all(job.image or job.failed for job in jobs), 60)
            return left(self, jobs, report)
    left, workers._Workers.next_here = workers._Workers.next_here, Waits.next_here
"""


def hash_of(out):
    """The hash that a process printed, where workers did something."""
    found, counted = out.split()
    assert int(counted) > 0, "no worker did anything"
    return found


@fused
def test_workers_do_not_depend_on_how_a_program_was_started(tmp_path):
    """Modules beside the program with names of the standard library, isolated mode, a zip file."""
    for name in ("struct", "json", "signal", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    script = tmp_path / "script" / "main.py"
    script.parent.mkdir()
    package = Path(fl.__file__).parent
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".urdf") and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(package.parent))
    text = IN_A_PROCESS.replace("\n    ", "\n") + "\nprint(done(-9.81), sum(map(bool, count)))\n"
    hashes = set()
    for place, flags in ((package.parent, ()), (archive, ("-I",))):
        script.write_text(f"import sys\nsys.path.insert(0, {str(place)!r})\n{text}")
        done = subprocess.run(
            [sys.executable, *flags, str(script)],
            cwd=tmp_path,
            env={**os.environ, "FEATHERLANE_CACHE": "off", "FEATHERLANE_WORKERS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        hashes.add(hash_of(done.stdout))
    assert len(hashes) == 1


@posix
@fused
def test_a_forked_process_has_its_own_workers():
    code = (
        IN_A_PROCESS
        + """
    import os
    done(-1.0)
    parents = {one.process.pid for one in workers._workers.alive}
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        count.clear()
        told = done(-2.0)
        mine = {one.process.pid for one in workers._workers.alive}
        os.write(write, told.encode() if count and all(count) and not mine & parents else b"-")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    count.clear()
    print(os.read(read, 99).decode() == done(-2.0), all(count), len(count) > 0)
    """
    )
    out = finished(python(code, FEATHERLANE_CACHE="off", FEATHERLANE_WORKERS="1"))
    assert out.split() == ["True"] * 3


# What is told


class Told:
    """A compilation of one function of a robot that no other test has."""

    def __init__(self, number):
        self.model = fl.load("double_pendulum").with_gravity((0, 0, -number))

    def __call__(self):
        self.model.compile(["mass_matrix", "inverse_dynamics"])


def test_slow_compilations_are_logged(monkeypatch, caplog):
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    with caplog.at_level(logging.INFO, "featherlane"):
        monkeypatch.setattr(progress, "SLOW", 1e9)
        Told(1.25)()
        assert not caplog.messages
        monkeypatch.setattr(progress, "SLOW", 0.0)
        monkeypatch.setattr(progress, "AGAIN", -1.0)
        Told(2.25)()
    text = "\n".join(caplog.messages)
    what = "inverse_dynamics of double_pendulum (float64)"
    for doing in ("tracing", "lowering", "code, 0 of 1 pieces", "code, 1 of 1 pieces"):
        assert f"compiling {what}, " in text
        assert f"so far: {doing}" in text
    assert f"compiled {what} in " in text


@pytest.mark.parametrize("large", [False, True])
def test_slow_compilations_of_ilqr_are_logged(large, monkeypatch, caplog):
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    monkeypatch.setattr(progress, "SLOW", 0.0)
    if large:
        monkeypatch.setattr(optimal_control, "LARGE", 0)
    model, still = fl.load("double_pendulum"), np.zeros(2)
    cost = lambda q, v, tau: 0.77 * tau  # no other test compiles it
    ilqr._compiled.cache_clear()
    large_control.riccati_function.cache_clear()
    with caplog.at_level(logging.INFO, "featherlane"):
        fl.ilqr(model, still, still, np.zeros((2, 2)), 0.01, cost)
    text = "\n".join(caplog.messages)
    backward = "slopes of ilqr of double_pendulum", "riccati of ilqr, 4 states"
    for what in backward if large else ["backward of ilqr of double_pendulum"]:
        assert f"compiled {what} (float64) in " in text
    ilqr._compiled.cache_clear()


@pytest.mark.parametrize("off", [None, "variable", "level", "no prompt", "a file", "dumb"])
def test_a_prompt_on_a_terminal_shows_a_line(off, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress, "SLOW", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setenv("TERM", "dumb" if off == "dumb" else "xterm")
    monkeypatch.setenv("FEATHERLANE_PROGRESS", "off" if off == "variable" else "")
    log = logging.getLogger("featherlane")
    monkeypatch.setattr(log, "level", logging.ERROR if off == "level" else logging.NOTSET)
    log.manager._clear_cache()
    if off == "no prompt":
        monkeypatch.delattr(sys, "ps1")
    if off == "a file":
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    with progress.compiling("this"):
        progress.step("tracing")
    log.manager._clear_cache()
    line = f"{progress.CLEAR}compiling this: tracing{progress.CLEAR}"
    assert terminal.getvalue() == ("" if off else line)


def test_a_script_on_a_terminal_shows_a_line_later(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress, "SLOW", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delattr(sys, "ps1", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FEATHERLANE_PROGRESS", raising=False)
    for patience, line in ((1e9, ""), (0.0, f"{progress.CLEAR}compiling this: tracing")):
        monkeypatch.setattr(progress, "IN_SCRIPTS", patience)
        with progress.compiling("this"):
            progress.step("tracing")
            assert terminal.getvalue() == line


# Functions compiled before they are called


@pytest.fixture
def traces(monkeypatch):
    """A list that has an entry more for each trace of an algorithm."""
    entries = []

    class Counted(trace.Tracing):
        def __init__(self, *arguments):
            entries.append("traced")
            super().__init__(*arguments)

    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    monkeypatch.setattr(trace, "Tracing", Counted)
    return entries


@pytest.mark.parametrize("name", ["forward_dynamics_derivatives", "inverse_dynamics"])
def test_kernels_of_one_and_of_many_states_are_made_of_one_trace(name, traces):
    model = fl.load("double_pendulum").with_gravity((0, 0, -3.5))
    for shape in ((2,), (3, 2), (2,), (5, 2)):
        getattr(model, name)(*np.ones((3, *shape)))
        assert len(traces) == 1


def test_the_pieces_of_a_plan_are_traced_once_for_both_dtypes(traces, monkeypatch):
    monkeypatch.setattr(sequences, "FLAT", 0)
    model = fl.load("double_pendulum").with_gravity((0, 0, -3.5))
    state = np.ones((3, 5, model.nv))
    model.linearize_step(*state, 0.01, integrator="rk4")
    before = len(traces)
    assert before > 2
    for x in (state.astype(np.float32), state[:, 0], state[:, 0].astype(np.float32)):
        model.linearize_step(*x, 0.01, integrator="rk4")
    assert len(traces) == before


def test_functions_are_compiled_before_they_are_called(monkeypatch):
    model = fl.load("double_pendulum").with_gravity((0, 0, -3.25))
    seconds = model.compile(["inverse_dynamics"], dtype="float32", derivatives=True, single=True)
    assert [*seconds] == ["inverse_dynamics", "inverse_dynamics_derivatives"]
    assert all(x > 0 for x in seconds.values())
    again = lambda *arguments: pytest.fail("compiled again")
    monkeypatch.setattr(variant_kernels, "variant_kernel", again)
    for n in (1, 3):
        x = np.ones((n, model.nv), np.float32)
        model.inverse_dynamics(x, x, x)
        model.inverse_dynamics_derivatives(x, x, x)


def test_all_seven_and_the_options_of_names():
    model = fl.load("double_pendulum")
    assert [*model.compile()] == [*fl.FUNCTIONS]
    frame = model.frame_names[-1]
    names = [f"jacobian:{frame}:world", "step"]
    assert [*model.compile(names, derivatives=True)] == [*names, "linearize_step"]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (("inverse_dynamics",), TypeError, "functions is 'inverse_dynamics': wanted a list"),
        ((["inverse_dynamic"],), ValueError, "did you mean 'inverse_dynamics'"),
        ((["jacobian"],), ValueError, "jacobian takes a frame"),
    ],
)
def test_wrong_names_are_refused(arguments, error, told):
    with pytest.raises(error, match=told):
        fl.load("double_pendulum").compile(*arguments)


def test_the_command_compiles_for_later_processes(tmp_path):
    """A later process neither compiles nor starts workers."""
    folder = str(tmp_path / "cache")
    words = ("double_pendulum", "--function", "ID", "--derivatives", "--dtype", "both")
    code = "import sys; from featherlane.tools.cli import main; sys.exit(main(sys.argv[1:]))"
    out = finished(python(code, "compile", *words, FEATHERLANE_CACHE=folder))
    assert out.count("inverse_dynamics_derivatives") == 2
    assert folder in out
    later = """
    import numpy as np
    import featherlane as fl
    from featherlane.backends.cpu import linked
    from featherlane.functions import fast_path
    fast_path.why_not_native()  # has code of its own
    linked.machine_code = lambda ir: 1 / 0
    model = fl.load("double_pendulum")
    for dtype in ("f4", "f8"):
        x = np.ones((3, 2), dtype)
        model.inverse_dynamics(x, x, x, threads=1), model.inverse_dynamics_derivatives(x, x, x)
    from featherlane.backends.llvm import workers
    print(workers._workers.threads)
    """
    assert finished(python(later, FEATHERLANE_CACHE=folder)).split() == ["0"]


def test_the_command_says_why_it_does_not_compile():
    code = "import sys; from featherlane.tools.cli import main; sys.exit(main(sys.argv[1:]))"
    for words, settings, told in (
        (("iiwa14",), {"FEATHERLANE_CACHE": "off"}, "compiled code would be lost"),
        (("iiwa14", "--function", "x=FD"), {}, "only where C is generated"),
    ):
        process = python(code, "compile", *words, **settings)
        assert told in process.communicate()[1]
        assert process.returncode == 2


def test_rollouts_are_named_with_their_steps():
    model = fl.load("double_pendulum")
    assert [*model.compile(["rollout:3", "rollout_gradient:3:rk4"])] == [
        "rollout:3",
        "rollout_gradient:3:rk4",
    ]
    for name in ("rollout", "rollout:x", "rollout:0"):
        with pytest.raises(ValueError, match=r"wanted rollout:STEPS, as in rollout:32"):
            model.compile([name])
    with pytest.raises(ValueError, match=r"wanted rollout:STEPS:INTEGRATOR"):
        model.compile(["rollout:3:rk4:more"])
