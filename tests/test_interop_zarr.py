"""A function of all states of a Zarr store into another one, and `featherlane map`."""

import os
import re
import shutil
import signal
import time

import numpy as np
import pytest
from processes import finished, python

import featherlane as fl
from featherlane.tools import cli

zarr = pytest.importorskip("zarr", reason="Zarr is not installed: pip install '.[dask]'")
from featherlane.interop import zarr as interop  # noqa: E402
from featherlane.interop.zarr import map_store  # noqa: E402

B = 1001
ROBOT = "double_pendulum"


@pytest.fixture(scope="module")
def model():
    return fl.load(ROBOT)


@pytest.fixture(scope="module")
def states(model):
    q, v, a, tau = np.random.default_rng(0).normal(size=(4, B, model.nv))
    return {"q": q, "v": v, "a": a, "tau": tau}


@pytest.fixture
def store(tmp_path):
    """Writes a store of arrays, and returns its path."""

    def write(arrays, name="in.zarr", chunk=100):
        group = zarr.create_group(tmp_path / name)
        for key, x in arrays.items():
            rows = (min(chunk, len(x)), *x.shape[1:]) if x.ndim else ()
            group.create_array(key, data=np.asarray(x), chunks=rows or "auto")
        return tmp_path / name

    return write


def results(path):
    return {name: x[...] for name, x in zarr.open_group(path, mode="r").arrays()}


@pytest.mark.parametrize(("chunk", "workers"), [(None, None), (B, 1), (77, 3), (1000, 2)])
def test_results_have_the_same_bits_whatever_the_chunks(
    model, states, store, tmp_path, chunk, workers
):
    name, out = "forward_dynamics_derivatives", tmp_path / "out.zarr"
    report = map_store(model, name, store(states), out, chunk=chunk, workers=workers)
    assert (report.states, report.kept, report.left) == (B, 0, ["a"])
    made = results(out)
    wanted = model.forward_dynamics_derivatives(*(states[x] for x in "qv"), states["tau"])
    assert set(made) == set(wanted._fields)
    assert all(np.array_equal(made[x], getattr(wanted, x)) for x in made)


def test_float32_wrenches_parameters_and_steps(model, states, store, tmp_path):
    f_ext = np.random.default_rng(1).normal(size=(B, model.nbodies, 6))
    more = {"f_ext": f_ext, "gravity": np.array([0, 0, -1.6]), "dt": np.array(0.01)}
    path = store({**states, **more})
    report = map_store(
        model, "inverse_dynamics", path, tmp_path / "id", dtype="float32", f_ext_frame="world"
    )
    assert report.inputs == ["q", "v", "a", "f_ext", "gravity"]
    singles = [x.astype("f4") for x in (states["q"], states["v"], states["a"], f_ext)]
    params = {"gravity": more["gravity"].astype("f4")}
    wanted = model.inverse_dynamics(*singles, f_ext_frame="world", params=params)
    assert np.array_equal(results(tmp_path / "id")["tau"], wanted)
    map_store(model, "step:rk4", path, tmp_path / "step")
    wanted = model.step(
        *(states[x] for x in ("q", "v", "tau")), 0.01, f_ext,
        integrator="rk4", params={"gravity": more["gravity"]},
    )  # fmt: skip
    made = results(tmp_path / "step")
    assert np.array_equal(made["q_next"], wanted.q)
    assert np.array_equal(made["v_next"], wanted.v)


def test_blocks_of_zeros_are_chunks_too(model, store, tmp_path):
    """Zarr would leave out chunks of zeros, which would then be computed again and again."""
    path = store({"q": np.zeros((40, 2)), "v": np.zeros((40, 2)), "a": np.zeros((40, 2))})
    run = lambda: map_store(model, "coriolis_matrix", path, tmp_path / "out", chunk=10)
    run()
    assert not results(tmp_path / "out")["C"].any()
    assert run().kept == 40


# Runs that are killed

SLOW = """
import os, sys, time
from featherlane.interop import zarr as interop
from featherlane import load

plain = interop.compute_chunk

def slow(job, first, count):
    with open(sys.argv[3], "a") as log:
        log.write(f"{first}\\n")
    time.sleep(0.02)
    while os.path.exists(sys.argv[3] + ".hold"):
        time.sleep(0.02)
    return plain(job, first, count)

interop.compute_chunk = slow
source, target, _, robot = sys.argv[1:]
interop.map_store(load(robot), "inverse_dynamics", source, target, chunk=10, workers=2)
"""


def test_a_killed_run_goes_on_and_computes_no_finished_chunk_again(model, states, store, tmp_path):
    path, out, log = store(states), tmp_path / "out.zarr", tmp_path / "log"
    words = [*map(str, (path, out, log)), ROBOT]
    process = python(SLOW, *words)
    while len(interop_chunks(out)) < 10:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = interop_chunks(out)
    assert 10 <= len(there) < 101
    dates = {x: x.stat().st_mtime_ns for x in there}
    log.unlink()
    finished(python(SLOW, *words))
    again = [int(first) // 10 for first in log.read_text().split()]
    assert len(again) == len(set(again)) == 101 - len(there)
    assert {x.parent.name for x in there}.isdisjoint(map(str, again))
    assert dates == {x: x.stat().st_mtime_ns for x in there}
    wanted = model.inverse_dynamics(*(states[x] for x in "qva"))
    assert np.array_equal(results(out)["tau"], wanted)
    assert not [*out.rglob("*.partial")]


def test_a_second_run_is_refused_while_the_first_one_writes(model, states, store, tmp_path):
    """It names the process, and computes nothing; what that has left, killed, keeps nobody out."""
    path, out, log = store(states), tmp_path / "out.zarr", tmp_path / "log"
    hold, words = tmp_path / "log.hold", [*map(str, (path, out, log)), ROBOT]
    hold.touch()
    first = python(SLOW, *words)
    while not log.exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.005)
    second = python(SLOW, *words)
    told = second.communicate()[1]
    assert second.returncode == 1
    assert f"ValueError: target {out} is being written by process {first.pid} on " in told
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate()
    hold.unlink()
    assert (tmp_path / "out.zarr.lock").exists()
    finished(python(SLOW, *words))
    assert not (tmp_path / "out.zarr.lock").exists()
    wanted = model.inverse_dynamics(*(states[x] for x in "qva"))
    assert np.array_equal(results(out)["tau"], wanted)


def test_a_run_within_a_run_is_refused(model, states, store, tmp_path):
    path, out = store(states), tmp_path / "out.zarr"
    run = lambda **more: map_store(model, "inverse_dynamics", path, out, **more)

    def again(step):
        with pytest.raises(ValueError, match=f"is being written by process {os.getpid()} on"):
            run()

    run(progress=again)
    assert run().kept == B


def interop_chunks(out):
    return [x for x in (out / "tau" / "c").glob("*/0") if x.is_file()]


def test_half_a_result_is_computed_again(model, states, store, tmp_path):
    path, out = store(states), tmp_path / "out"
    name = "forward_dynamics_derivatives"
    map_store(model, name, path, out)
    before = results(out)
    (out / "da_dv" / "c" / "3" / "0" / "0").unlink()
    (out / "da_dv" / "c" / "3" / "0" / "0.12.partial").write_bytes(b"half")
    report = map_store(model, name, path, out)
    assert report.states - report.kept == 100
    assert all(np.array_equal(before[x], y) for x, y in results(out).items())
    assert not [*out.rglob("*.partial")]


@pytest.mark.parametrize("content", [b"", b"half of a chunk"])
def test_chunks_that_are_not_whole_are_computed_again(model, states, store, tmp_path, content):
    """After a loss of power a file may be there without what was written to it."""
    path, out = store(states), tmp_path / "out"
    map_store(model, "inverse_dynamics", path, out)
    before = results(out)["tau"]
    (out / "tau" / "c" / "10" / "0").write_bytes(content)  # the last chunk: one state of 100
    assert map_store(model, "inverse_dynamics", path, out).kept == B - 1
    assert np.array_equal(results(out)["tau"], before)


def test_another_run_is_refused(model, states, store, tmp_path):
    path, out = store(states), tmp_path / "out"
    run = lambda robot=model, name="inverse_dynamics", source=path, **more: map_store(
        robot, name, source, out, **more
    )
    run()
    refused = "results of another run: "
    with pytest.raises(
        ValueError, match=refused + "robot was double_pendulum .*, now it is double"
    ):
        run(model.with_gravity((0, 0, -1)))
    with pytest.raises(
        ValueError, match=refused + r"function was inverse_dynamics\(q, v, a\), now"
    ):
        run(name="forward_dynamics")
    with pytest.raises(ValueError, match=refused + "dtype was float64, now it is float32"):
        run(dtype="float32")
    with pytest.raises(ValueError, match=refused + "chunk was 100, now it is 50"):
        run(chunk=50)
    zarr.open_group(path)["v"][3] = 0.0
    with pytest.raises(ValueError, match=refused + "input v was written again since"):
        run()
    group = zarr.open_group(out)
    group.attrs["featherlane map"] = {**group.attrs["featherlane map"], "version": "0.0.1 abc"}
    with pytest.raises(ValueError, match=refused + r"version was 0\.0\.1 abc, now it is "):
        run()
    zarr.create_group(tmp_path / "other")
    with pytest.raises(ValueError, match="is there and no run of featherlane map wrote it"):
        map_store(model, "inverse_dynamics", path, tmp_path / "other")


# Wrong inputs


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"a": None}, "has no array 'a': inverse_dynamics reads q, v, a; it has q, tau, v"),
        ({"q": np.zeros((B, 3))}, r"q has shape \(1001, 3\), wanted \(\.\.\., 2\): the model"),
        ({"v": np.zeros((B - 1, 2))}, "different lengths: q 1,001, v 1,000, a 1,001; wanted one"),
        ({"q": np.zeros((2, B, 2))}, "q has 2 leading dimensions, wanted at most 1"),
        (dict.fromkeys("qva", np.zeros((0, 2))), r"has no states: wanted arrays of shape \(B, "),
        ({"a": np.zeros((B, 2), complex)}, "a has dtype complex128: wanted real numbers, .*64$"),
        ({"a": np.zeros((B, 2), "f4")}, "a is float32 but q is float64.*dtype="),
    ],
)  # fmt: skip
def test_wrong_arrays(model, states, store, tmp_path, change, told):
    arrays = {name: x for name, x in {**states, **change}.items() if x is not None}
    path = store({k: x for k, x in arrays.items() if len(x)}) if arrays["q"].size else None
    if path is None:
        group = zarr.create_group(path := tmp_path / "in.zarr")
        for name, x in arrays.items():
            group.create_array(name, shape=x.shape, chunks=(10, 2), dtype=x.dtype)
    with pytest.raises((ValueError, TypeError), match=told):
        map_store(model, "inverse_dynamics", path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_numbers_that_are_not_finite(model, states, store, tmp_path):
    v = states["v"].copy()
    v[432, 1] = np.nan
    path = store({**states, "v": v})
    with pytest.raises(ValueError, match="v is nan at entry 1 of state 432: wanted finite numbers"):
        map_store(model, "inverse_dynamics", path, tmp_path / "out")
    large = {**states, "v": np.full((B, 2), 1e308)}
    with pytest.raises(ValueError, match=r"v is 1e\+308 at .*: float32 cannot hold it"):
        map_store(
            model, "inverse_dynamics", store(large, "large.zarr"), tmp_path / "32", dtype="float32"
        )
    (folder := tmp_path / "large").mkdir()
    group = zarr.create_group(folder / "in.zarr")
    for name, x in large.items():
        group.create_array(name, data=x)
    map_store(model, "mass_matrix", folder / "in.zarr", folder / "out")
    interop._check_finite("v", large["v"], large["v"], 0)  # whose sum is infinite


def test_wrong_stores_and_schedulers(model, states, store, tmp_path):
    with pytest.raises(ValueError, match="wanted a folder with a Zarr group, there is none"):
        map_store(model, "inverse_dynamics", tmp_path / "nothing", tmp_path / "out")
    path = store(states)
    with pytest.raises(ValueError, match="wanted a group with an array for each input"):
        map_store(model, "inverse_dynamics", path / "q", tmp_path / "out")
    with pytest.raises(ValueError, match="the results would overwrite their inputs"):
        map_store(model, "inverse_dynamics", path, path)
    with pytest.raises(ValueError, match=r"in.zarr/q/out is inside of the input q: wanted another"):
        map_store(model, "inverse_dynamics", path, path / "q" / "out")
    with pytest.raises(
        ValueError, match="scheduler is 'thread': wanted 'threads', 'processes', an"
    ):
        map_store(model, "inverse_dynamics", path, tmp_path / "out", scheduler="thread")
    with pytest.raises(ValueError, match="f_ext_frame is 'wrld': wanted 'body' or 'world'"):
        map_store(model, "inverse_dynamics", path, tmp_path / "out", f_ext_frame="wrld")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is there and no run of featherlane map wrote"):
        map_store(model, "inverse_dynamics", path, tmp_path / "empty")
    with pytest.raises(ValueError, match=r"target .* cannot be written: .*zarr.json"):
        map_store(model, "inverse_dynamics", path, path / "zarr.json" / "out")
    with pytest.raises(ValueError, match="workers is 0: wanted a whole number"):
        map_store(model, "inverse_dynamics", path, tmp_path / "out", workers=0)
    with pytest.raises(TypeError, match=r"model is 'arm': wanted a Model, as fl.load gives it"):
        map_store("arm", "inverse_dynamics", path, tmp_path / "out")
    with pytest.raises(TypeError, match="function is None: wanted the name of a function"):
        map_store(model, None, path, tmp_path / "out")
    with pytest.raises(TypeError, match="source is None: wanted the path of a folder"):
        map_store(model, "inverse_dynamics", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_broken_stores(model, states, store, tmp_path):
    path, out = store(states), tmp_path / "out"
    map_store(model, "inverse_dynamics", path, out)
    begun = lambda: map_store(model, "inverse_dynamics", path, out)
    zarr.open_group(out)["tau"].resize((B - 1, 2))
    with pytest.raises(
        ValueError,
        match=r"tau has shape \(1000, 2\), chunks \(100, 2\), dtype float64, and was created "
        r"with shape \(1001, 2\), .*: remove the store, or choose another one",
    ):
        begun()
    (out / "tau" / "zarr.json").write_text("{")
    with pytest.raises(ValueError, match=r"description of an array cannot be read: .*; remove"):
        begun()
    shutil.rmtree(out / "tau")
    with pytest.raises(ValueError, match="has lost its array tau: remove the store"):
        begun()
    (out / "zarr.json").write_text("{")
    with pytest.raises(ValueError, match="out: its description cannot be read: Expecting"):
        begun()
    (path / "v" / "c" / "3" / "0").write_bytes(b"no chunk")
    with pytest.raises(RuntimeError, match=r"in.zarr: v, states 300 to 399 cannot be read: "):
        map_store(model, "inverse_dynamics", path, tmp_path / "other")
    (path / "zarr.json").write_text("{")
    with pytest.raises(ValueError, match=r"in.zarr: its description cannot be read: Expecting"):
        map_store(model, "inverse_dynamics", path, tmp_path / "other")


# The command line


def test_the_command(states, store, tmp_path, capsys):
    path, out = str(store(states)), str(tmp_path / "out.zarr")
    assert cli.main(["map", ROBOT, "ID", path, out, "--dtype", "f32", "--chunk", "250"]) == 0
    told = capsys.readouterr().out
    assert "inverse_dynamics of double_pendulum, float32: q, v, a -> tau" in told
    assert re.search(r"^1,001 states in .* in chunks of 250$", told, re.MULTILINE)
    assert cli.main(["map", ROBOT, "ID", path, out, "--dtype", "f32", "--chunk", "250"]) == 0
    assert "nothing to do: all 1,001 states were finished before" in capsys.readouterr().out
    assert cli.main(["map", ROBOT, "FD", path, out]) == 2
    assert "has results of another run: function was" in capsys.readouterr().err


def test_progress_counts_states(model, states, store, tmp_path):
    told = []
    map_store(model, "inverse_dynamics", store(states), tmp_path / "out", progress=told.append)
    assert told[0] == "compiling inverse_dynamics of double_pendulum"
    assert re.fullmatch(
        r"inverse_dynamics of double_pendulum: 1,001 of 1,001 states, .*/s, 0 s left", told[-1]
    )
