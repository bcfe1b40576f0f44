"""Functions of models on Dask arrays, in threads and in a local cluster of processes."""

import os
import pickle
import signal
import time

import numpy as np
import pytest

import featherlane as fl

TOLD = "Dask is not installed: pip install '.[dask]'"
dask = pytest.importorskip("dask", reason=TOLD)
distributed = pytest.importorskip("distributed", reason=TOLD)
zarr = pytest.importorskip("zarr", reason=TOLD)
psutil = pytest.importorskip("psutil", reason=TOLD)  # distributed needs it
import dask.array as da  # noqa: E402

from featherlane.backends import cache  # noqa: E402
from featherlane.functions.fast_path import why_not_native  # noqa: E402
from featherlane.interop import dask as interop  # noqa: E402
from featherlane.interop.packed import PackedFunction, _unpacked  # noqa: E402
from featherlane.interop.zarr import map_store  # noqa: E402

B = 501


@pytest.fixture(scope="module")
def model():
    return fl.random_tree(3, 1, ("revolute", "spherical"), seed=2)


@pytest.fixture(scope="module")
def states(model):
    q = model.random_configuration(B, seed=0)
    return [q, *np.random.default_rng(0).normal(size=(2, B, model.nv))]


@pytest.fixture(scope="module")
def cluster(cache_folder):
    """Two processes with a thread each, which share the cache of the tests."""
    settings = {"distributed.scheduler.allowed-failures": 10}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as made:
        yield made


def lazy(arrays, *chunks):
    return [da.from_array(x, chunks=c) for x, c in zip(arrays, chunks, strict=True)]


def the_same(made, wanted):
    pairs = zip(made, wanted, strict=True) if isinstance(wanted, tuple) else [(made, wanted)]
    return all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize(
    "chunks", [(B,) * 3, (100, (70, 2), (B, 3)), ({0: (1, 250, 250), 1: -1}, 50, 250)]
)
def test_results_have_the_same_bits_whatever_the_chunks(model, states, chunks):
    robot, (q, v, a) = interop.wrap(model), lazy(states, *chunks)
    made = robot.forward_dynamics_derivatives(q, v, a)
    assert type(made) is fl.ForwardDynamicsDerivatives
    assert made.da_dq.shape == (B, model.nv, model.nv)
    with dask.config.set(scheduler="threads"):
        results = dask.compute(*made)
    assert the_same(results, tuple(model.forward_dynamics_derivatives(*states)))


def test_wrapped_models_and_their_functions_are_pickled(model):
    wrapped = interop.wrap(model)
    q = da.from_array(model.random_configuration(3, seed=0))
    other, torque = pickle.loads(pickle.dumps((wrapped, wrapped.gravity_torque)))
    assert other.model == model
    for found in (other.gravity_torque(q), torque(q)):
        assert np.array_equal(np.asarray(found), np.asarray(wrapped.gravity_torque(q)))


def test_float32_wrenches_parameters_and_arrays_of_numpy(model, states):
    singles = [x.astype("f4") for x in states]
    wrench = np.ones((model.nbodies, 6), "f4")
    gravity = np.array([0, 0, -3.7], "f4")
    options = {"f_ext": wrench, "f_ext_frame": "world", "params": {"gravity": gravity}}
    q, v = lazy(singles[:2], 100, 200)
    made = interop.wrap(model, threads=2).inverse_dynamics(q, v, singles[2], **options)
    assert made.dtype == np.float32
    assert the_same(made.compute(), model.inverse_dynamics(*singles, **options))


def test_rollouts_and_compiled_functions(model, states):
    q, v, _ = lazy(states, 60, 60, 60)
    tau = np.random.default_rng(1).normal(size=(B, 3, model.nv))
    made = interop.wrap(model).rollout(q, v, da.from_array(tau, chunks=(40, 2, -1)), 0.01)
    assert the_same(dask.compute(*made), tuple(model.rollout(*states[:2], tau, 0.01)))
    speed = fl.compile(lambda v: {"s": (v * v).sum(), "w": 2 * v}, {"v": (model.nv,)})
    made = interop.apply(speed, v)
    assert the_same(dask.compute(*made), tuple(speed(states[1])))


def test_reductions_evaluate_each_chunk_once(model, states, monkeypatch):
    plain, counts = interop._evaluate, []

    def counting(*arrays, **options):
        counts.append(len(arrays[0]))
        return plain(*arrays, **options)

    monkeypatch.setattr(interop, "_evaluate", counting)
    made = interop.wrap(model).forward_dynamics_derivatives(*lazy(states, 90, 90, 90))
    norms = [da.linalg.norm(x, axis=(1, 2)) for x in made]
    with dask.config.set(scheduler="synchronous"):
        results = dask.compute(*norms)
    assert sorted(counts) == [51, *[90] * 5]
    for x, whole in zip(results, model.forward_dynamics_derivatives(*states), strict=True):
        np.testing.assert_allclose(x, np.linalg.norm(whole, axis=(1, 2)), rtol=1e-13)


def test_results_are_not_held():
    """The blocks of all states have 0.5 GB, of which less than a third is ever there."""
    resource = pytest.importorskip("resource")
    model, count = fl.load("iiwa14"), 400_000
    q = da.random.default_rng(0).normal(size=(3, count, 7), chunks=(3, 10_000, 7))
    made = interop.wrap(model).forward_dynamics_derivatives(*q)
    total = sum((x**2).sum(axis=(1, 2)).max() for x in made)
    model.compile(["forward_dynamics_derivatives"])  # which takes memory, too
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with dask.config.set(scheduler="threads", num_workers=2):
        assert np.isfinite(total.compute())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 0.3 * sum(x.nbytes for x in made)


# Processes


def _watch_code(may_write):
    """In a worker: notes which entries of the cache it writes, or refuses to write any."""
    plain = cache.__dict__.setdefault("plain_write", cache._write)

    def write(directory, header, code):
        assert may_write, "code was compiled that is in the cache"
        cache.written_in_test = [*_written(), cache._entry_name(header)]
        plain(directory, header, code)

    cache._write = write


def _written():
    return getattr(cache, "written_in_test", [])


def test_one_worker_compiles_and_the_others_load(model, states, client):
    """The first results of a function in a cluster write each piece of code once."""
    robot = interop.wrap(fl.random_tree(3, 1, ("revolute",), seed=5))
    n = robot.model.nv
    client.run(why_not_native)  # each process tries its interpreter by code of no function
    client.run(_watch_code, True)
    made = robot.forward_dynamics(*(da.ones((64, n), chunks=(8, n)) for _ in range(3)))
    first = client.compute(made).result()
    none, entries = sorted(client.run(_written).values(), key=len)
    assert not none
    assert len({*entries}) == len(entries) > 0
    client.run(_watch_code, False)
    for worker in client.nthreads():
        again = client.compute(made * 1.0, workers=[worker], allow_other_workers=False)
        assert the_same(again.result(), first)
    client.run(_watch_code, True)
    assert the_same(first, robot.model.forward_dynamics(*np.ones((3, 64, n))))


def test_processes_give_the_same_bits_and_a_killed_one_loses_nothing(model, states, client):
    robot, (q, v, a) = interop.wrap(model), lazy(states, 10, 10, 10)
    wanted = model.inverse_dynamics(*states)
    slowly = robot.inverse_dynamics(q, v, a).map_blocks(_slowly, dtype=float)
    future = client.compute(slowly)
    pids = client.run(os.getpid)
    while not any(client.processing().values()):
        pass
    os.kill(min(pids.values()), signal.SIGKILL)
    assert the_same(future.result(timeout=60), wanted)
    assert set(client.run(os.getpid).values()) != {*pids.values()}


def _slowly(x):
    time.sleep(0.01)
    return x


def test_a_store_is_computed_by_a_cluster_whose_worker_is_killed(model, states, client, tmp_path):
    q, v, a = states
    group = zarr.create_group(tmp_path / "in.zarr")
    for name, x in {"q": q, "v": v, "a": a}.items():
        group.create_array(name, data=x, chunks=(10, x.shape[1]))
    pids, told = client.run(os.getpid), []

    def kill(step):
        told.append(step)
        if len(told) == 10:
            os.kill(min(pids.values()), signal.SIGKILL)

    out = tmp_path / "out.zarr"
    report = map_store(
        model, "inverse_dynamics", tmp_path / "in.zarr", out, scheduler=client, progress=kill
    )
    assert (report.kept, report.chunk) == (0, 10)
    assert the_same(zarr.open_group(out)["tau"][...], model.inverse_dynamics(*states))
    assert set(client.run(os.getpid).values()) != {*pids.values()}


def test_a_local_cluster_listens_to_this_machine_only(model, states, tmp_path):
    group, heard = zarr.create_group(tmp_path / "in.zarr"), set()
    for name, x in zip("qva", states, strict=True):
        group.create_array(name, data=x, chunks=(100, x.shape[1]))

    def listen(step):
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            sockets = process.net_connections("inet")
            heard.update(x.laddr.ip for x in sockets if x.status == psutil.CONN_LISTEN)

    out = tmp_path / "out.zarr"
    options = {"scheduler": "processes", "workers": 1, "progress": listen}
    assert map_store(model, "inverse_dynamics", tmp_path / "in.zarr", out, **options).kept == 0
    assert heard == {"127.0.0.1"}
    made = zarr.open_group(out, mode="r")["tau"][...]
    assert np.array_equal(made, model.inverse_dynamics(*states))


def test_functions_are_unpacked_once(model):
    packed = PackedFunction.of(model.function("inverse_dynamics"))
    assert packed.unpacked() is PackedFunction(packed.content).unpacked()
    assert packed == PackedFunction.of(
        fl.random_tree(3, 1, ("revolute", "spherical"), seed=2).function("inverse_dynamics")
    )
    assert _unpacked.cache_info().maxsize


# Errors


def test_errors_name_the_argument(model, states):
    robot, (q, v, a) = interop.wrap(model), lazy(states, 100, 100, 100)
    with pytest.raises(ValueError, match=r"v has shape \(501, 2\), wanted \(\.\.\., "):
        robot.inverse_dynamics(q, v[:, :2], a)
    with pytest.raises(ValueError, match=r"do not broadcast: q \(501,\), v \(7,\)"):
        robot.inverse_dynamics(q, v[:7], a)
    with pytest.raises(TypeError, match="v is float32 but q is float64"):
        robot.inverse_dynamics(q, v.astype("f4"), a)
    with pytest.raises(ValueError, match=r"q has chunks of unknown sizes.*compute_chunk_sizes"):
        robot.inverse_dynamics(q[q[:, 0] > 0], v, a)
    with pytest.raises(ValueError, match="threads is 0: wanted a whole number"):
        interop.wrap(model, threads=0)
    with pytest.raises(TypeError, match=r"function is .*: wanted a Function"):
        interop.apply(np.sin, v)
    with pytest.raises(TypeError, match="inverse_dynamics got 1 arrays, wanted 3: q, v, a"):
        interop.apply(model.function("inverse_dynamics"), q)
