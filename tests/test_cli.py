"""The command line: what it prints, its JSON, its exit status."""

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from documents import ROOT
from placed_tables import placed_tables
from repetition import repeated

import featherlane
from featherlane.accelerators import bitstreams
from featherlane.accelerators.entry import Accelerators
from featherlane.backends.fpga import boards
from featherlane.backends.fpga.bitstream import build as routes
from featherlane.backends.fpga.bitstream.pll import ClockDivisors
from featherlane.errors import CompileError
from featherlane.robot.loaders import bundled
from featherlane.tools import bench, cli, commands, selfcheck, timing
from featherlane.tools.options import BOARDS
from featherlane.tools.progress import ProgressLine, StageLines
from featherlane.tools.selfcheck import Check, self_check

QUICK = ["--batch", "32", "--threads", "2"]


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(timing, "SECONDS", 0.0)


@pytest.fixture
def run(capsys):
    def call(*args):
        status = cli.main([*args])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def urdf(name):
    return (Path(featherlane.__file__).parent / "robot/bundled" / f"{name}.urdf").read_text()


# info and list


def test_info_prints_the_card(run):
    model = featherlane.load("hyq", root="free")
    assert run("info", "hyq", "--root", "free") == (0, f"{model}\n", "")


def test_info_of_a_path(run, tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("iiwa14"))
    status, out, _ = run("info", str(path))
    assert (status, str(path) in out) == (0, True)


def test_info_reads_stdin(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(urdf("iiwa14")))
    assert strict(run("info", "-", "--json")[1])["nv"] == 7


def test_info_json_has_the_facts_of_the_model(run):
    facts = strict(run("info", "quadruped_arm", "--root", "free", "--json")[1])
    model = featherlane.load("quadruped_arm", root="free")
    for name in ("name", "root", "nbodies", "nq", "nv", "mass", "ground_mass"):
        assert facts[name] == getattr(model, name)
    assert [joint["name"] for joint in facts["joints"]] == list(model.joint_names)
    assert facts["joints"][0] | {"type": "free", "q": [0, 7], "v": [0, 6]} == facts["joints"][0]
    assert facts["joints"][0]["upper"] == [None] * 7  # JSON has no infinity
    assert [frame["name"] for frame in facts["frames"]] == list(model.frame_names)


def test_info_counts_operations(run):
    counted = featherlane.load("iiwa14").graph("mass_matrix").cost()
    out = run("info", "iiwa14", "--cost")[1]
    (line,) = [line.split() for line in out.splitlines() if "mass_matrix " in line]
    assert line[1] == str(counted.operations)
    cost = strict(run("info", "iiwa14", "--cost", "--json")[1])["cost"]
    assert set(cost) == set(featherlane.FUNCTIONS)
    assert cost["mass_matrix"]["operations"] == counted.operations
    assert cost["mass_matrix"]["depth"] == counted.depth


def test_list(run):
    status, out, _ = run("list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(bundled())
    robots = strict(run("list", "--json")[1])["robots"]
    assert [robot["name"] for robot in robots] == list(bundled())


# bench


def test_bench_prints_card_checks_and_speeds(run):
    status, out, err = run("bench", "double_pendulum", *QUICK)
    assert (status, err) == (0, "")
    assert out.startswith(str(featherlane.load("double_pendulum")))
    assert out.count("PASS") == 2 * len(selfcheck.IDENTITIES)
    assert out.count(f"{100 * 2.0**-52:.1e} PASS") == 2, "limits are printed"
    assert "FAIL" not in out
    for name in featherlane.FUNCTIONS:
        assert out.count(f" {name} ") == 2
    assert "call, s" in out
    assert max(map(len, out.splitlines())) <= 100


def test_bench_json(run):
    status, out, err = run("bench", "double_pendulum", *QUICK, "--dtype", "float32", "--json")
    report = strict(out)
    assert (status, err, report["passed"]) == (0, "", True)
    assert (report["batch"], report["threads"]) == (32, 2)
    assert [s["function"] for s in report["speeds"]] == list(featherlane.FUNCTIONS)
    assert {s["dtype"] for s in report["speeds"]} == {"float32"}
    assert all(s["ns_per_state"] > 0 and s["one_state_us"] > 0 for s in report["speeds"])
    assert report["machine"]["featherlane"] == featherlane.__version__
    assert all(check["error"] <= check["bound"] for check in report["checks"])


def test_bench_fails_where_a_check_fails(run, monkeypatch):
    wrong = Check("1 = 2", "float64", 1.0, 0.5)
    monkeypatch.setattr(bench, "self_check", lambda *args: iter([wrong]))
    status, out, _ = run("bench", "double_pendulum", *QUICK, "--dtype", "float64")
    assert (status, "FAIL" in out) == (1, True)


@pytest.mark.parametrize("name", list(featherlane.FUNCTIONS)[:-1])
def test_the_self_check_sees_a_wrong_function(name, monkeypatch):
    right = getattr(featherlane.Model, name)

    def wrong(self, *args, **options):
        result = right(self, *args, **options)
        first = result[0] if isinstance(result, tuple) else result
        first[..., 3] *= 1 + 1e-11
        return result

    monkeypatch.setattr(featherlane.Model, name, wrong)
    checks = self_check(featherlane.load("iiwa14"), ["float64"], lambda step: None)
    assert not all(check.passed for check in checks)


@pytest.mark.parametrize("root", repeated(["free", "fixed", "planar"]))
@pytest.mark.parametrize("friction", [0.0, 10.0])
def test_the_self_check_passes_within_narrow_limits(root, friction):
    """The smoothed friction changes over friction_velocity, which no step of differences resolves
    in float32.
    """
    model = featherlane.load("iiwa14", root=root).with_physics(friction=friction, damping=0.1)
    for check in self_check(model, ["float64", "float32"], lambda step: None):
        assert check.passed, check
        assert (check.states, check.bound < 3e-3) == (selfcheck.STATES, True)


def test_the_self_check_leaves_out_states_in_which_m_is_singular(run):
    axis = '<axis xyz="0 0 1"/>'
    arm = f"""<robot name="twice"><link name="a"/><link name="b"/>
    <link name="c"><inertial><mass value="1"/><origin xyz="0.1 0 0"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="1" type="continuous"><parent link="a"/><child link="b"/>{axis}</joint>
    <joint name="2" type="continuous"><parent link="b"/><child link="c"/>{axis}</joint></robot>"""
    checks = [*self_check(featherlane.load(arm), ["float64"], lambda step: None)]
    divided = [identity.inverse for identity in selfcheck.IDENTITIES]
    assert [check.states == 0 for check in checks] == divided
    assert all(check.passed for check in checks)


@pytest.mark.parametrize(("share", "is_busy"), [(0.5, True), (1.0, False)])
def test_bench_gives_processor_time_and_says_when_the_machine_is_busy(share, is_busy, monkeypatch):
    monkeypatch.setattr(timing, "PROCESSOR", lambda: share * time.perf_counter())
    times = timing.median_times(lambda: time.sleep(1e-3), 0.0)
    assert (times.processor / times.wall, times.waited) == pytest.approx(
        (share, 1 - share), abs=0.05
    )
    report = bench.bench(featherlane.load("double_pendulum"), 8, ("float64",), 1)
    assert ("this machine is busy" in str(report)) == is_busy
    assert max(map(len, str(report).splitlines())) <= 100


def test_a_nan_fails():
    assert not Check("x", "float64", float("nan"), 1.0).passed


# check


def test_check_against_pinocchio(run):
    pytest.importorskip("pinocchio")
    status, out, _ = run("check", "double_pendulum", "--states", "3")
    assert (status, "inverse_dynamics" in out) == (0, True)
    report = strict(run("check", "double_pendulum", "--states", "3", "--json")[1])
    assert (report["passed"], report["states"], report["against"]) == (True, 3, "pinocchio")


def test_check_exit_status(run, monkeypatch):
    pytest.importorskip("pinocchio")
    from featherlane.tools import check

    monkeypatch.setattr(check, "BASE", dict.fromkeys(check.BASE, 0.0))
    assert run("check", "double_pendulum", "--states", "3")[0] == 1


def test_a_missing_peer_is_one_sentence(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    status, out, err = run("check", "double_pendulum", "--against", "mujoco")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "featherlane[check]" in err


def test_check_of_one_function(run):
    pytest.importorskip("pinocchio")
    asked = ("--states", "3", "--function", "ID", "--function", "mass_matrix", "--dtype", "f32")
    report = strict(run("check", "double_pendulum", *asked, "--json")[1])
    assert {row["function"] for row in report["rows"]} == {"inverse_dynamics", "mass_matrix"}
    assert report["dtype"] == "float32"


# JSON: docs/command_line.md


def leaves(value, path=""):
    """`joints[].name` and the like: where the numbers and texts of a JSON value stand."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from leaves(inside, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inside in value:
            yield from leaves(inside, f"{path}[]")
    else:
        yield path + "[]" * isinstance(value, list)


def documented(command):
    """Patterns of the keys that the page lists for a command, and for all."""
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    json_part = page.partition("## JSON")[2]
    common, *parts = re.split(r"^### ", json_part, flags=re.MULTILINE)
    (part,) = [part for part in parts if part.split()[0] == command]
    rows = re.findall(r"^\| (`.*?) \|", common + part, flags=re.MULTILINE)
    keys = [key for row in rows for key in re.findall(r"`([^`]+)`", row)]
    one = "|".join(featherlane.FUNCTIONS)
    return [re.escape(k).replace("FUNCTION", f"(?:{one})").replace(r"\*", "[^.]+") for k in keys]


BALL = (
    '<robot name="ball"><link name="ball"><collision><geometry><sphere radius="1"/></geometry>'
    '</collision><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"'
    ' iyz="0"/></inertial></link></robot>'
)
EVERYTHING = {
    "info": ("ball.urdf", "--root", "free", "--cost"),
    "check": ("quadruped_arm", "--states", "2", "--function", "ID"),
    "bench": ("double_pendulum", *QUICK, "--dtype", "f32", "--roofline", "--explain"),
    "generate": ("double_pendulum", "--output", "made", "--function", "ID"),
    "build": ("double_pendulum", "M", "--board", "ulx3s", "--output", "made"),
    "compile": ("double_pendulum", "--function", "ID"),
    "list": (),
    "map": ("double_pendulum", "ID", "in.zarr", "out.zarr"),
    "view": ("double_pendulum",),
    "cache": ("--clear",),
    "completion": ("bash",),
}


@pytest.mark.parametrize("command", commands.COMMANDS)
def test_json_has_the_keys_of_the_document_and_no_others(command, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.urdf").write_text(BALL)
    if command == "check":
        pytest.importorskip("pinocchio")
    if command == "map":
        group = pytest.importorskip("zarr").create_group(tmp_path / "in.zarr")
        for name in ("q", "v", "a", "tau"):
            group.create_array(name, data=np.ones((4, 2)))
    if command == "build":
        configuration, netlist = placed_tables(320)
        words = "".join(f"word: {name} 0000000\n" for name in ClockDivisors(1, 1, 1, 1).parameters)
        figures = 70.0, {"TRELLIS_FF": 900}, (1.0, 2.0), 1
        design = routes.RoutedDesign(*figures, f"{configuration}\n{words}", netlist, ("a", "b"))
        monkeypatch.setattr(routes, "routed", lambda *arguments: design)
        monkeypatch.setattr(routes, "packed", lambda configuration: b"bits")
        monkeypatch.setattr(routes, "versions", lambda: ["a", "b"])
    if command == "view":
        pytest.importorskip("viser")
        from featherlane.interop.view import View

        monkeypatch.setattr(View, "wait", View.close)
    status, out, err = run(command, *EVERYTHING[command], "--json")
    answer = strict(out)
    assert status == 0
    stages = r"(\w+:? [\w, ]+ \.{3} \d+\.\d s\n)+"
    assert re.fullmatch(stages if command == "build" else "", err)
    assert (answer["command"], answer["featherlane"]) == (command, featherlane.__version__)
    whole = [re.compile(rf"{key}(?![^.\[])") for key in documented(command)]  # or what is inside
    found = set(leaves(answer))
    for key in whole:
        assert any(map(key.match, found)), f"{key.pattern} is documented and not there"
    for path in found:
        assert any(key.match(path) for key in whole), f"{path} is not documented"


@pytest.fixture
def builds(monkeypatch):
    """The robot, the functions and the options of builds from the command line."""
    calls = []

    def build(accelerators, model, function, **options):
        calls.append((model, function, options))
        raise CompileError("not built")

    monkeypatch.setattr(Accelerators, "build", build)
    return calls


@pytest.mark.parametrize("words", [("ID", "mass_matrix"), ("ID,M",), ("inverse_dynamics,M",)])
def test_a_bitstream_may_have_several_functions(words, run, builds):
    places = ("--board", "i9", "--output", "made")
    assert run("build", "double_pendulum", *words, *places)[0] == 2
    (_, functions, options), *_ = builds
    assert functions == ["inverse_dynamics", "mass_matrix"]
    assert options["board"] == "i9"
    assert run("build", "double_pendulum", *places, "M")[0] == 2
    assert builds[-1][1] == "mass_matrix"


def test_an_interval_of_a_bitstream_may_be_auto(run, builds, capsys):
    places = ("double_pendulum", "M", "--board", "i9", "--output", "made", "--interval")
    for words, interval in (("auto", "auto"), ("7", 7)):
        assert run("build", *places, words)[0] == 2
        assert builds[-1][2]["interval"] == interval
    for words in ("Auto", "0", "often"):
        with pytest.raises(SystemExit):
            run("build", *places, words)
        wanted = f"--interval is {words}; wanted a whole number, 1 or more, or auto"
        assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--range", "w=-1,1"), "--range names 'w': wanted one of 'q', 'v', 'a'"),
     (("--algorithm", "aba"), "--algorithm is 'aba' of inverse_dynamics: wanted"),
     (("--baud", "3"), "--baud is 3: wanted 14652 to"),
     (("--name", "a b"), "--name is 'a b': wanted letters"),
     (("--output", "file"), "--output 'file' cannot be written to: 'file' is a file"),
     (("--output", "f" * 300), "cannot be written to: File name too long")],
)  # fmt: skip
def test_messages_name_options(words, message, run, monkeypatch, tmp_path):
    """Those of Python name arguments."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(routes, "versions", lambda: ["a", "b"])
    places = ("double_pendulum", "ID", "--board", "ulx3s", "--output", "made")
    status, _, err = run("build", *places, *words)
    assert status == 2
    assert message in err
    assert "Errno" not in err


def test_a_loader_is_missed_before_a_build(run, builds, monkeypatch):
    monkeypatch.setattr(bitstreams.shutil, "which", lambda program: None)
    places = ("double_pendulum", "M", "--board", "i9", "--output", "made")
    status, _, err = run("build", *places, "--load")
    assert (status, builds) == (2, [])
    assert "openFPGALoader is not installed" in err


def test_functions_of_a_bitstream_have_names(run, builds, capsys):
    with pytest.raises(SystemExit):
        run("build", "double_pendulum", "ID,MM", "--board", "i9", "--output", "made")
    assert "FUNCTION is 'MM'; wanted one of inverse_dynamics (ID)," in capsys.readouterr().err
    assert builds == []


def test_boards_of_the_command_line_are_those_of_the_package():
    named = [boards.board(name).key for name in BOARDS]
    assert sorted(named) == sorted(boards.tables())


def test_friction_of_joints_is_left_out_of_circuits(run, builds, tmp_path):
    """As the message about its operation says."""
    places = ("--board", "ulx3s", "--output", str(tmp_path / "made"))
    assert run("build", "so101", "FD", *places)[0] == 2
    assert run("build", "so101", "FD", *places, "--no-friction")[0] == 2
    (before, *_), (after, *_) = builds
    assert before.friction.any()
    assert not after.friction.any()
    to = ("--target", "verilog", "--output", str(tmp_path), "--function", "FD", "--interval", "8")
    status, _, err = run("generate", "so101", *to)
    assert status == 2
    assert "featherlane: joint friction needs square roots, which circuits do not have: " in err
    assert "with --no-friction on the command line" in err
    assert "there is no circuit for sqrt" in err


def test_a_missing_library_is_one_line(run, monkeypatch, tmp_path):
    for name in [x for x in sys.modules if x.startswith("featherlane.interop.zarr")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "zarr", None)  # an import of it fails
    told = "featherlane: featherlane.interop.dask needs zarr: pip install 'featherlane[dask]'\n"
    assert run("map", "hyq", "ID", str(tmp_path), str(tmp_path / "out")) == (2, "", told)


# Terminals


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("settings", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(settings, coloured, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    text = "a PASS\nb FAIL\nPASSED"
    for stream in (Terminal(), io.StringIO()):
        painted = cli._painted(text, stream)
        assert ("\x1b[31mFAIL\x1b[0m" in painted) == (coloured and stream.isatty())
        assert re.sub(r"\x1b\[\d+m", "", painted) == text
        assert painted.endswith("PASSED")


# Errors


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["info", "no_such_robot"], "no_such_robot"),
        (["bench", "<robot name='x'><link name='a'/></robot>"], "no moving joint"),
        (["bench", "<robot name='x'><link name='a'/></robot>", "--json"], "no moving joint"),
    ],
)
def test_an_error_is_one_line(run, args, told):
    status, out, err = run(*args)
    assert status == 2
    assert (err.startswith("featherlane: "), told in err, err.count("\n")) == (True, True, 1)
    assert "Traceback" not in err + out


def test_stdin_must_be_xml(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("iiwa14"))
    assert run("info", "-")[0] == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("bench iiwa14 --batch 0", "--batch is 0; wanted a whole number, 1 or more"),
        ("bench iiwa14 --threads -1", "--threads is -1; wanted"),
        ("check iiwa14 --states ten", "--states is ten; wanted"),
        ("info hyq --root fre", "did you mean 'free'?"),
        ("check hyq --dtype f16", "--dtype is 'f16'; wanted one of float64, float32"),
        ("check hyq --against pinochio", "did you mean 'pinocchio'?"),
        ("check hyq --function mass_matrx", "did you mean 'mass_matrix'"),
        ("check hyq --function diF", "did you mean 'diFD'"),
        ("bench hyq --bacth 8", "there is no option --bacth (see --help); did you mean '--batch'?"),
        ("bench hyq --plt=x.svg", "there is no option --plt (see --help); did you mean '--plot'?"),
        ("info hyq atlas", "'atlas' is one argument too many"),
        ("completion tcsh", "SHELL is 'tcsh'; wanted one of bash, zsh, fish"),
        ("bnech hyq", "COMMAND is 'bnech'; wanted one of info, "),
    ],
)
def test_a_wrong_argument_is_one_line_before_any_work(line, told, capsys, monkeypatch):
    monkeypatch.setattr(commands, "load", pytest.fail)
    with pytest.raises(SystemExit) as stop:
        cli.main(line.split())
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    command = line.split()[0]
    assert err.startswith(f"featherlane {command}: " if command != "bnech" else "featherlane: ")
    assert told in err


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documents_name_options_that_exist(page):
    """In `featherlane COMMAND ...` in the text, and in lines of shell."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"`featherlane (\w+)([^`]*)`|^(?:\$ )?featherlane (\w+)(.*)$", text, re.M)
    for name, rest, shell_name, shell_rest in lines:
        command = commands.COMMANDS.get(name or shell_name)
        options = re.findall(r"(?<=\s)--[\w-]+", rest or shell_rest)
        if command:
            known = {"--help", *(option.name for option in command.options)}
            assert set(options) <= known, f"featherlane {name or shell_name}{rest or shell_rest}"


def test_the_help_names_integrators(capsys):
    with pytest.raises(SystemExit):
        cli.main(["generate", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "step:rk4; integrators: implicit_damping, semi_implicit, euler, rk4, midpoint" in told


@pytest.mark.parametrize("args", [[], ["check"], ["bench", "--json"]])
def test_a_missing_argument_shows_the_usage(args, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(args)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert (out, "arguments are required" in err) == ("", True)
    assert err.startswith("usage: featherlane")


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"featherlane {featherlane.__version__}\n"
    assert cli.parser().description == featherlane.__doc__


def test_python_m_featherlane():
    command = [sys.executable, "-m", "featherlane", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "iiwa14" in done.stdout


# ProgressLine


def test_progress_speaks_after_a_second_and_cleans_up(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressLine(stream) as progress:
        progress("compiling")
        progress._since -= 2  # as if two seconds had passed
        while not stream.getvalue():
            progress._end.wait(0.01)
    assert "compiling ... 2 s" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO, "xterm"), (Terminal, "dumb")])
def test_progress_is_silent_elsewhere(stream, term, monkeypatch):
    monkeypatch.setenv("TERM", term)
    with ProgressLine(stream()) as progress:
        assert not progress._thread.is_alive()


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO, "xterm"), (Terminal, "dumb")])
def test_stages_are_lines_of_a_log(stream, term, monkeypatch):
    """Each from its start on, with its seconds at the end, and without control characters."""
    monkeypatch.setenv("TERM", term)
    log = stream()
    stages = StageLines(log).__enter__()
    stages("yosys")
    assert log.getvalue() == "yosys ..."
    stages._since -= 2  # as if two seconds had passed
    stages("nextpnr")
    assert log.getvalue() == "yosys ... 2.0 s\nnextpnr ..."
    stages.__exit__(KeyboardInterrupt, None, None)
    assert re.fullmatch(
        r"yosys \.{3} 2\.0 s\nnextpnr \.{3} stopped after 0\.\d s\n", log.getvalue()
    )


def test_stages_stay_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with StageLines(stream) as stages:
        stages("yosys")
        stages._since -= 2
        while not stream.getvalue():
            stages._end.wait(0.01)
    assert re.search(r"\r\x1b\[Kyosys \.{3} 2 s\r\x1b\[Kyosys \.{3} 2\.\d s\n$", stream.getvalue())


def test_json_has_no_numpy_and_no_nan():
    assert cli._strict({"x": np.float64("nan"), "y": [np.int64(2)]}) == {"x": None, "y": [2]}
