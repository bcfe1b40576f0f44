"""The documents of docs/ run as they stand."""

import numpy as np
import pytest
from documents import ROOT, blocks, run
from repetition import repeated

import featherlane as fl

PAGES = (
    *("start", "tour", "traces", "frames", "real_time", "optimal_control", "robot_files"),
    *("dev/compiler", "theory/gradients", "theory/accelerator"),
)
# Their subjects have quick tests
MORE = (
    *("conventions", "fpga", "links", "accuracy", "identification", "lathrop", "processors"),
    *("constraints", "ground", "time_steps", "c", "browser", "first_calls", "index"),
    *(
        "inverse_kinematics",
        "sampling_control",
        "learning",
        "fixed_point_in_the_loop",
        "accelerators",
        "theory/prefix_sums",
        "theory/forward_dynamics",
        "theory/parallelism",
    ),
)


@pytest.mark.parametrize("page", repeated(PAGES + MORE, len(PAGES)))
def test_the_code_of_a_document_runs(page):
    run(ROOT / "docs" / f"{page}.md")


def test_the_start_page_holds_for_a_robot_in_the_place_of_its_own(capsys):
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    (_, first, _), *others = blocks(ROOT / "docs" / "start.md")
    assert 'robot = fl.load(reacher)  # fl.load("my_robot.urdf")' in first
    name = "double_pendulum"
    names = {"np": np, "fl": fl, "reacher": name, "robot": fl.load(name, root="free")}
    for line, code, _ in others:
        exec(compile("\n" * line + code, "start.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("True") == 6
    assert "False" not in printed


def test_the_code_for_frameworks_runs():
    for package in ("torch", "jax", "casadi"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    run(ROOT / "docs" / "frameworks.md")


def test_the_code_for_stores_runs():
    for package in ("dask", "zarr"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[dask]'")
    run(ROOT / "docs" / "scale.md")
