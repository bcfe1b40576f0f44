"""The command line: what it prints, its JSON, its exit status."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import featherlane
from featherlane.robot.loaders import bundled
from featherlane.tools import bench, cli, selfcheck, timing
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
    assert [robot["name"] for robot in strict(run("list", "--json")[1])] == list(bundled())


# bench


def test_bench_prints_card_checks_and_speeds(run):
    status, out, err = run("bench", "double_pendulum", *QUICK)
    assert (status, err) == (0, "")
    assert out.startswith(str(featherlane.load("double_pendulum")))
    assert out.count("PASS") == 2 * len(selfcheck.IDENTITIES)
    assert "FAIL" not in out
    for name in featherlane.FUNCTIONS:
        assert out.count(f" {name} ") == 2
    assert max(map(len, out.splitlines())) <= 100


def test_bench_json(run):
    status, out, err = run("bench", "double_pendulum", *QUICK, "--dtype", "float32", "--json")
    report = strict(out)
    assert (status, err, report["passed"]) == (0, "", True)
    assert (report["batch"], report["threads"]) == (32, 2)
    assert [s["function"] for s in report["speeds"]] == list(featherlane.FUNCTIONS)
    assert {s["dtype"] for s in report["speeds"]} == {"float32"}
    assert all(s["one_thread"] > 0 and s["latency"] > 0 for s in report["speeds"])
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
        first[..., 3] *= 1 + 1e-6
        return result

    monkeypatch.setattr(featherlane.Model, name, wrong)
    checks = self_check(featherlane.load("iiwa14"), ["float64"], lambda step: None)
    assert not all(check.passed for check in checks)


@pytest.mark.parametrize("root", ["fixed", "free", "planar"])
def test_the_self_check_passes(root):
    for check in self_check(featherlane.load("hyq", root=root), ["float64"], lambda step: None):
        assert check.passed, check


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


# Errors


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["info", "no_such_robot"], "no_such_robot"),
        (["bench", "iiwa14", "--batch", "0"], "batch is 0"),
        (["bench", "iiwa14", "--threads", "-1"], "threads is -1"),
        (["check", "iiwa14", "--states", "0"], "states is 0"),
        (["bench", "<robot name='x'><link name='a'/></robot>"], "no moving joint"),
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


@pytest.mark.parametrize("args", [[], ["info"], ["fly", "iiwa14"], ["info", "hyq", "--root", "x"]])
def test_wrong_usage(args, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(args)
    assert stop.value.code == 2
    assert "usage: featherlane" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"featherlane {featherlane.__version__}\n"


def test_python_m_featherlane():
    command = [sys.executable, "-m", "featherlane", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "iiwa14" in done.stdout


# Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_speaks_after_a_second_and_cleans_up():
    stream = Terminal()
    with cli.Progress(stream) as progress:
        progress("compiling")
        progress._since -= 2  # as if two seconds had passed
        while not stream.getvalue():
            progress._end.wait(0.01)
    assert "compiling ... 2 s" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_elsewhere():
    stream = io.StringIO()
    with cli.Progress(stream) as progress:
        progress("compiling")
        progress._since -= 2
    assert stream.getvalue() == ""


def test_json_has_no_numpy_and_no_nan():
    assert cli._strict({"x": np.float64("nan"), "y": [np.int64(2)]}) == {"x": None, "y": [2]}
