"""Calls of the package through the real cuda-bindings, with a stub in the place of NVIDIA's driver:

    PYTHONPATH=. python tests/driver_stub/checks.py

It needs a C compiler and what `pip install 'featherlane[cuda]'` installs, no GPU and no test
framework. Each check is a function here, and a line of the output: its name, and `ok` or what went
wrong; --only NAME runs one. Results have the bits of the CPU's.
"""

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent), str(FOLDER.parents[1] / "benchmarks")]
import gpu  # noqa: E402
import gpu_card  # noqa: E402
import gpu_cells  # noqa: E402
import gpu_pack  # noqa: E402
import gpu_smoke  # noqa: E402
import stub as stubs  # noqa: E402
from gpu_card import Card, DeviceArray  # noqa: E402

import featherlane as fl  # noqa: E402
from featherlane.backends.cuda import copies, driver_errors, stages  # noqa: E402
from featherlane.functions.table import Variant  # noqa: E402

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Bench:
    """What the checks share: the stub, and a card of the benchmarks over the real bindings."""

    def __init__(self, stub):
        self.stub, self.card = stub, Card()

    def clear(self):
        """Forgets the calls before."""
        self.stub.calls.clear()

    def names(self):
        return [name for _, _, name, _ in self.stub.calls]

    def array(self, data):
        return DeviceArray.of(self.card, data)

    def states(self, model, count, dtype):
        rng = np.random.default_rng(0)
        return [rng.normal(size=(count, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]

    def results(self, function, count, dtype):
        return [DeviceArray(self.card, (count, *core), dtype) for core in function.outputs.values()]

    def compare(self, model, name, count, dtype, mapping=None):
        """A function with arrays on the device against the CPU."""
        function = model.function(name, mapping=mapping) if mapping else model.function(name)
        inputs = self.states(model, count, dtype)[: len(function.inputs)]
        out = self.results(function, count, dtype)
        function(*map(self.array, inputs), out=out if len(out) > 1 else out[0])
        same(out, model.function(name)(*inputs))


def same(arrays, wanted):
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for x, y in zip(arrays, wanted, strict=True):
        found = x.numpy() if isinstance(x, DeviceArray) else x
        assert np.array_equal(found, y), np.abs(found - y).max()


def raised(kind, function, *arguments, **options):
    """The sentence of an error."""
    try:
        function(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


@check
def functions_have_the_bits_of_the_cpu(bench):
    arm = fl.load("iiwa14")
    for dtype in (np.float32, np.float64):
        for name in ("inverse_dynamics", "mass_matrix"):
            bench.compare(arm, name, 37, dtype)
    bench.compare(arm, "inverse_dynamics", 1, np.float32, "team:2")


@check
def calls_come_in_the_order_that_the_driver_wants(bench):
    arm = fl.load("double_pendulum")
    bench.clear()
    bench.compare(arm, "forward_dynamics", 5, np.float32)
    names = bench.names()
    order = ("cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncLoad", "cuLaunchKernel")
    assert [*map(names.index, order)] == sorted(map(names.index, order))
    assert names.count("cuCtxPushCurrent") == names.count("cuCtxPopCurrent") > 0
    assert not bench.stub.thread.contexts
    assert bench.stub.thread.mode == stubs.GLOBAL


@check
def large_shared_memory_is_asked_for(bench):
    made = fl.load("double_pendulum").function("mass_matrix").gpu
    kernels = made.kernels("lanes", "f", np.dtype(np.float64))
    large = [x._replace(shared=60 << 10) for x in kernels.launches]
    bench.clear()
    bench.card.api.load(0, kernels.texts, large)
    assert "cuFuncSetAttribute" in bench.names()
    too_large = [x._replace(shared=300 << 10) for x in kernels.launches]
    told = raised(fl.DeviceError, bench.card.api.load, 0, kernels.texts, too_large)
    assert "CUDA_ERROR_INVALID_VALUE in cuFuncSetAttribute" in told


@check
def later_calls_load_and_allocate_nothing(bench):
    arm = fl.load("double_pendulum").with_gravity((0.0, 0.0, -3.0))
    function = arm.function("forward_dynamics")
    inputs = [*map(bench.array, bench.states(arm, 3, np.float32))]
    (out,) = bench.results(function, 3, np.float32)
    fl.empty_cache()
    bench.clear()
    function(*inputs, out=out)
    assert {"cuModuleLoadDataEx", "cuMemAlloc"} <= {*bench.names()}  # kernels, and a workspace
    bench.clear()
    function(*inputs, out=out)
    allowed = {"cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxGetCurrent", "cuPointerGetAttribute"}
    allowed |= {"cuStreamGetId", "cuStreamIsCapturing", "cuLaunchKernel"}
    assert {*bench.names()} == allowed, {*bench.names()} ^ allowed


@check
def numpy_arrays_go_over_and_back(bench):
    arm, before = fl.load("double_pendulum"), copies.CHUNK
    copies.CHUNK = 4096  # several chunks
    try:
        for device in ("cuda", "cuda:1"):
            inputs = bench.states(arm, 200, np.float64)
            bench.clear()
            found = arm.function("inverse_dynamics", device=device)(*inputs)
            same([found], arm.function("inverse_dynamics")(*inputs))
            assert bench.names().count("cuMemcpyHtoDAsync") > 2
            assert {here for _, here, name, _ in bench.stub.calls if name == "cuLaunchKernel"} == {
                int(device[5:] or 0)
            }
    finally:
        copies.CHUNK = before


@check
def graphs_are_captured_and_replayed(bench):
    arm = fl.load("double_pendulum")
    function = arm.function("forward_dynamics")
    first, second = bench.states(arm, 5, np.float32), bench.states(arm, 5, np.float32)
    second = [x[::-1].copy() for x in second]
    inputs, (out,) = [*map(bench.array, first)], bench.results(function, 5, np.float32)
    with_graph = bench.card.graph
    told = ""
    try:
        with with_graph(lambda: function(*inputs, out=out)):
            pass
    except fl.DeviceError as error:
        told = str(error)
    assert "call the function once for as many states" in told
    function(*inputs, out=out)
    with with_graph(lambda: function(*inputs, out=out)) as replay:
        for array, data in zip(inputs, second, strict=True):
            bench.card.copy_in(array.address, data)
        replay()
        same([out], function(*second))


@check
def first_calls_beside_a_capture_do_not_end_it(bench):
    """Of other functions on other streams, in each mode of captures."""
    arm = fl.load("double_pendulum")
    for mode in range(3):
        other = fl.load("double_pendulum").with_gravity((0.0, 0.0, -1.0 - mode))
        q, out = bench.array(np.zeros((3, 2))), DeviceArray(bench.card, (3, 2, 2), np.float64)
        arm.mass_matrix(q, out=out)
        stream = bench.card.api.new_stream(0)
        modes = bench.card.api.cuda.CUstreamCaptureMode
        bench.card.ask("cuStreamBeginCapture", stream, modes(mode))
        other.mass_matrix(q, out=out)
        graph = bench.card.ask("cuStreamEndCapture", stream)
        bench.card.ask("cuGraphDestroy", graph)
        bench.card.api.free_stream(0, stream)


@check
def collected_functions_are_unloaded(bench):
    modules = lambda: sum(getattr(x, "kind", "") == "module" for x in bench.stub.objects.values())
    gc.collect()
    fl.empty_cache()
    start, q = modules(), bench.array(np.zeros((3, 2)))
    out = DeviceArray(bench.card, (3, 2, 2), np.float64)
    for k in range(6):
        fl.load("double_pendulum").with_gravity((0.0, 0.0, -2.0 - k)).mass_matrix(q, out=out)
        gc.collect()
        assert modules() <= start + 2
    bench.card.wait()
    fl.empty_cache()
    assert modules() == start
    robots = [fl.load("double_pendulum").with_gravity((0.0, 0.0, -8.0))]
    robots[0].mass_matrix(q, out=out)
    with bench.card.graph(lambda: robots[0].mass_matrix(q, out=out)) as replay:
        robots.clear()
        gc.collect()
        fl.load("double_pendulum").with_gravity((0.0, 0.0, -9.0)).mass_matrix(q, out=out)
        fl.empty_cache()
        replay()  # it would be a mistake if they were unloaded


@check
def errors_of_the_driver_become_ours(bench):
    codes = bench.card.api.cuda.CUresult
    arm = fl.load("double_pendulum")
    q, out = bench.array(np.zeros((3, 2))), DeviceArray(bench.card, (3, 2, 2), np.float64)
    arm.mass_matrix(q, out=out)
    for name, advice in driver_errors.ADVICE.items():
        code = getattr(codes, f"CUDA_ERROR_{name}", None)
        if code is None:
            continue  # cuda-bindings from before that error
        bench.stub.errors["cuLaunchKernel"] = int(code)
        told = raised(fl.DeviceError, arm.mass_matrix, q, out=out)
        assert f"reports CUDA_ERROR_{name} in cuLaunchKernel: {advice}" in told, told
        assert not bench.stub.thread.contexts
    bench.stub.errors["cuLaunchKernel"] = 98_765  # of a driver to come
    assert "98765" in raised(fl.DeviceError, arm.mass_matrix, q, out=out)
    bench.stub.errors = {"cuMemAlloc": stubs.OUT_OF_MEMORY}
    assert "fewer states" in raised(MemoryError, DeviceArray, bench.card, (3,), np.float32)
    bench.stub.errors.clear()
    arm.mass_matrix(q, out=out)
    same([out], arm.mass_matrix(np.zeros((3, 2))))
    assert "there is no GPU of this number" in raised(fl.DeviceError, bench.card.api.new_stream, 7)


@check
def a_refused_text_is_reported_with_the_compilers_sentence(bench):
    arm = fl.load("double_pendulum")
    made = arm.function("mass_matrix").gpu.kernels("lanes", "f", np.dtype(np.float32))
    wrong = made.texts[0].replace("ret;", "mad.lo.u32 %r0, %r1, 512, %tid.x;\nret;")
    told = raised(fl.DeviceError, bench.card.api.load, 0, [wrong], made.launches)
    assert "its compiler says: ptxas application ptx input, line 7; error : " in told, told
    assert "%tid.x" in told


@check
def drivers_before_12_4_load_kernels_when_they_like(bench):
    """cuda-bindings asks once for a function: the address that it has answers as if it was not."""
    made = fl.load("double_pendulum").function("mass_matrix").gpu
    kernels = made.kernels("lanes", "f", np.dtype(np.float64))
    api, before = bench.card.api, bench.card.api.cuda

    class Without:
        def __getattr__(self, name):
            if name == "cuFuncLoad":
                raise AttributeError(name)
            return getattr(before, name)

    api.cuda = Without()
    try:
        assert len(api.load(0, kernels.texts, kernels.launches)) == len(kernels.launches)
    finally:
        api.cuda = before


@check
def two_devices_have_kernels_of_their_own(bench):
    arm, api = fl.load("double_pendulum"), bench.card.api
    q = np.random.default_rng(0).normal(size=(5, 2))
    stream, wanted = api.new_stream(1), arm.mass_matrix(q)

    class There:
        """An array on the second device."""

        def __init__(self, shape):
            self.shape, self.address = shape, api.allocate(1, 8 * int(np.prod(shape)))

        @property
        def __cuda_array_interface__(self):
            told = {"shape": self.shape, "typestr": "<f8", "data": (self.address, False)}
            return {**told, "strides": None, "stream": stream, "version": 3}

    given, out = There((5, 2)), There((5, 2, 2))
    api.to_device(1, stream, given.address, q.ctypes.data, q.nbytes)
    bench.clear()
    arm.mass_matrix(given, out=out)
    found = np.empty_like(wanted)
    api.to_host(1, stream, found.ctypes.data, out.address, found.nbytes)
    api.wait(1, stream)
    same([found], wanted)
    assert {here for _, here, name, _ in bench.stub.calls if name == "cuLaunchKernel"} == {1}
    here = bench.array(q)
    assert "GPU 1" in raised(TypeError, arm.mass_matrix, here, out=out)


@check
def streams_of_several_arrays_wait_for_each_other(bench):
    arm, api = fl.load("double_pendulum"), bench.card.api
    q = np.random.default_rng(1).normal(size=(5, 2))
    given, other = bench.array(np.zeros((5, 2))), Card()
    out = DeviceArray(other, (5, 2, 2), np.float64)
    api.to_device(0, bench.card.stream, given.address, q.ctypes.data, q.nbytes)  # not waited for
    bench.clear()
    arm.mass_matrix(given, out=out)
    same([out], arm.mass_matrix(q))
    for name in ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"):
        assert bench.names().count(name) == 2, name


@check
def threads_share_a_function(bench):
    arm, count = fl.load("double_pendulum"), 3
    function, problems = arm.function("forward_dynamics"), []
    inputs = bench.states(arm, count, np.float32)
    wanted = function(*inputs)

    def call():
        try:
            assert not bench.stub.thread.contexts  # JAX's threads have none
            (out,) = bench.results(function, count, np.float32)
            function(*map(bench.array, inputs), out=out)
            same([out], wanted)
        except BaseException:
            problems.append(traceback.format_exc())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]


@check
def a_forked_process_is_told_to_spawn(bench):
    arm, q = fl.load("double_pendulum"), bench.array(np.zeros((3, 2)))
    out = DeviceArray(bench.card, (3, 2, 2), np.float64)
    arm.mass_matrix(q, out=out)
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            told = raised(fl.DeviceError, arm.mass_matrix, q, out=out)
            del arm
            gc.collect()  # kernels of the parent are not unloaded
        except BaseException as error:
            told = repr(error)
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    told = os.read(read, 4096).decode()
    assert "start it with the method 'spawn'" in told, told
    arm.mass_matrix(q, out=out)
    same([out], arm.mass_matrix(np.zeros((3, 2))))


@check
def rollouts_and_long_chains(bench):
    arm = fl.load("double_pendulum")
    function = arm._function(Variant("rollout", integrator="rk4", steps=3))
    rng = np.random.default_rng(0)
    inputs = [
        np.full((5, *core), 1e-3) if name == "dt" else rng.normal(size=(5, *core))
        for name, core in function.inputs.items()
    ]
    out = bench.results(function, 5, np.float64)
    function(*map(bench.array, inputs), out=out)
    same(out, function(*inputs))
    chain = fl.chain(20, seed=1)
    bench.compare(chain, "inverse_dynamics", 3, np.float64)


@check
def the_time_of_the_compiler_is_known(bench):
    before = bench.card.api.compile_time
    made = fl.load("double_pendulum").function("forward_dynamics").gpu
    kernels = made.kernels("lanes", "f", np.dtype(np.float32))
    bench.card.api.load(0, kernels.texts, kernels.launches)
    after = bench.card.api.compile_time
    assert after.texts - before.texts == len(kernels.texts)
    assert after.seconds > before.seconds


@check
def parts_of_the_benchmarks_run(bench):
    """Those that `gpu.py` measures in processes of their own, with few states."""
    few = {"LEAST": 0.0, "ROUNDS": 1, "REPLAYED": 2}
    for name, value in few.items():
        setattr(gpu_card, name, value)
    gpu_smoke.BATCHES = (1, 37)
    wanted = gpu_pack.Wanted("double_pendulum", ("forward_dynamics",), ("float32",), form="lanes")
    with tempfile.TemporaryDirectory() as folder:
        gpu_pack.write(Path(folder), [wanted])
        cells = gpu_cells.Bench(bench.card, Path(folder), (), (), time.monotonic() + 600)
        rows = [
            row
            for name in ("device", "lanes", "graph", "one call")
            for row in gpu_cells.rows(gpu.PARTS[name].cells(cells), cells)
        ]
    values = [str(row.get("value", "")) for row in rows]
    assert values.count(gpu_cells.SAME) == 5, values  # two copies, two batches, a graph
    assert not [x for x in values if x.startswith((gpu_cells.FAILED, gpu_cells.DIFFERENT))], values
    assert {row["registers"] for row in rows if "registers" in row} == {40}


def run(name, bench):
    """Runs a check, and returns what went wrong, None for nothing."""
    bench.stub.mistakes.clear()
    bench.stub.errors.clear()
    try:
        CHECKS[name](bench)
    except BaseException:
        return traceback.format_exc() + "\n".join(bench.stub.mistakes)
    return "\n".join(bench.stub.mistakes) or None


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--only", nargs="+", choices=CHECKS, default=[*CHECKS])
    args = options.parse_args()
    stages.LONGEST = 60  # operations of a kernel: several kernels, which share a workspace
    os.environ["FEATHERLANE_CACHE"] = "off"  # which has kernels of the usual length
    with tempfile.TemporaryDirectory() as folder:
        bench, failed = Bench(stubs.installed(folder)), 0
        for name in args.only:
            begin, problem = time.process_time(), run(name, bench)
            failed += problem is not None
            spent = f"{time.process_time() - begin:.1f} s of processor time"
            print(f"{name} {'ok' if problem is None else 'FAILED'}, {spent}", flush=True)
            if problem:
                print(problem, flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
