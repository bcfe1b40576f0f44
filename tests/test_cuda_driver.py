"""What is asked of NVIDIA's driver, and what it answers: a module in place of cuda-bindings."""

import enum
import gc
import sys
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from emulated_gpu import fresh_unloading

import featherlane as fl
from featherlane.backends.cuda import (
    calls,
    copies,
    driver,
    free_memory,
    jit_link,
    stages,
    workspaces,
)
from featherlane.backends.cuda.kernel_stage import Launch

CODES = (
    "SUCCESS",
    "ERROR_OUT_OF_MEMORY",
    "ERROR_NO_DEVICE",
    "ERROR_INVALID_DEVICE",
    "ERROR_LAUNCH_FAILED",
    "ERROR_ILLEGAL_ADDRESS",
    "ERROR_INVALID_HANDLE",
    "ERROR_NOT_INITIALIZED",
    "ERROR_INVALID_PTX",
    "ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "ERROR_INVALID_VALUE",
    "ERROR_CONTAINED",
    "ERROR_EXTERNAL_DEVICE",
    "ERROR_MPS_CLIENT_TERMINATED",
    "ERROR_TENSOR_MEMORY_LEAK",
)
Code = enum.Enum("CUresult", [f"CUDA_{code}" for code in CODES])


class Thread(threading.local):
    """What the driver keeps for each thread."""

    def __init__(self):
        self.contexts, self.mode = [], "global"


class Bindings(ModuleType):
    """Functions of the driver: each writes down how it was called. answers: what one gives instead
    of a number, or the name of an error.
    """

    CUresult = Code
    CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUjit_option = SimpleNamespace(
        CU_JIT_ERROR_LOG_BUFFER="log", CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES="size"
    )
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="processors",
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="shared",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
    )
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL="ordinal")

    def __init__(self):
        super().__init__("cuda.bindings.driver")
        self.called, self.errors, self.thread = [], {}, Thread()
        self.capturing, self.numbers, self.log = 0, iter(range(1000, 10**6)), b""
        self.loaded, self.active = set(), {}

    @property
    def contexts(self):
        return self.thread.contexts

    @property
    def mode(self):
        return self.thread.mode

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def function(*arguments):
            if isinstance(error := self.errors.get(name), Exception):
                raise error
            self.called.append((name, arguments))
            if error and name == "cuModuleLoadDataEx":
                arguments[3][0][: len(self.log)] = self.log
            if error:
                return (Code[f"CUDA_{error}"], 0)
            answer = getattr(self, f"_{name}", None)
            found = answer(*arguments) if answer else next(self.numbers)
            return (Code.CUDA_SUCCESS, found) if found is not None else (Code.CUDA_SUCCESS,)

        return function

    def names(self):
        return [name for name, _ in self.called]

    def _cuDeviceGet(self, number):
        return f"device {number}"

    def _cuDevicePrimaryCtxRetain(self, device):
        return f"context of {device}"

    def _cuDeviceGetCount(self):
        return 3

    def _cuDevicePrimaryCtxGetState(self, device):
        return [0, self.active.get(device, 0)]

    def _cuCtxGetCurrent(self):
        return 77 if self.contexts else 0

    def _cuPointerGetAttribute(self, what, address):
        assert self.contexts
        return what == "ordinal" and 2

    def _cuModuleLoadDataEx(self, *_):
        self.loaded.add(module := next(self.numbers))
        return module

    def _cuModuleLoadData(self, code):
        self.loaded.add(module := next(self.numbers))
        return module

    def _cuDeviceGetAttribute(self, what, device):
        return {"major": 9, "minor": 0}.get(what) or next(self.numbers)

    def _cuModuleUnload(self, module):
        assert self.mode == "relaxed"
        self.loaded.remove(module)

    def _cuModuleGetFunction(self, module, name):
        return f"{name.decode()} of {module}"

    def _cuCtxPushCurrent(self, context):
        self.contexts.append(context)

    def _cuCtxPopCurrent(self):
        return self.contexts.pop()

    def _cuThreadExchangeStreamCaptureMode(self, mode):
        self.thread.mode, before = mode, self.mode
        return before

    def _cuStreamIsCapturing(self, stream):
        return self.capturing

    def _cuStreamGetId(self, stream):
        assert not self.capturing, "the question ends the capture"
        return 10 * stream

    def _cuLaunchKernel(self, *_):
        assert self.contexts

    def _cuMemAlloc(self, size):
        assert self.mode == "relaxed"
        return next(self.numbers)

    def _nothing(self, *_):
        pass

    _cuMemFree = _cuMemFreeHost = _cuCtxSynchronize = _cuStreamSynchronize = _nothing
    _cuEventRecord = _cuStreamWaitEvent = _cuEventDestroy = _cuStreamDestroy = _nothing
    _cuFuncSetAttribute = _cuFuncLoad = _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _nothing


@pytest.fixture
def cuda(monkeypatch):
    made = Bindings()
    package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    bindings.driver = made
    for name, module in {"cuda": package, "cuda.bindings": bindings}.items():
        monkeypatch.setitem(sys.modules, name, module)
    driver.driver.cache_clear()
    monkeypatch.setattr(calls, "workspaces", workspaces.DeviceWorkspaces())
    monkeypatch.setattr(copies, "_copies", {})
    fresh_unloading(monkeypatch)
    yield made
    driver.driver.cache_clear()


LAUNCH = Launch("kernel", 64, 1024, 32, 3, pairs=2)
KERNEL = driver.LoadedKernel("kernel", "module")


def test_a_grid_has_one_dimension_which_large_batches_need(cuda):
    """CUDA has at most 65,535 blocks in y and z, and 2^31 - 1 in x."""
    driver.driver().launch(0, 7, KERNEL, LAUNCH, 10_000_001, [])
    (_, arguments), *_ = [x for x in cuda.called if x[0] == "cuLaunchKernel"]
    tiles = 312_501  # of 32 states; the last one has one state
    assert arguments[1:4] == (tiles * 3 // 2 + 1, 1, 1)


def test_calls_are_made_on_the_devices_own_context(cuda):
    api = driver.driver()
    api.launch(1, 7, KERNEL, LAUNCH, 100, [4096, 8, 0, 100])
    (_, arguments), *_ = [x for x in cuda.called if x[0] == "cuLaunchKernel"]
    assert arguments[:9] == ("kernel", 6, 1, 1, 64, 1, 1, 1024, 7)
    assert arguments[9][0] == (4096, 8, 0, 100)
    assert ("cuCtxPushCurrent", ("context of device 1",)) in cuda.called
    assert not cuda.contexts
    api.follow(1, 7, 9)
    *_, made, record, wait, destroy, _ = cuda.called
    event = record[1][0]
    assert made == ("cuEventCreate", (driver.NO_TIMING,))
    assert record == ("cuEventRecord", (event, 9))  # where the work was put
    assert wait == ("cuStreamWaitEvent", (7, event, 0))  # the stream that follows
    assert destroy == ("cuEventDestroy", (event,))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("LAUNCH_FAILED", "lost to this process.*start another process; arrays on the CPU still"),
        ("ILLEGAL_ADDRESS", "lost to this process"),
        ("CONTAINED", "lost to this process"),
        ("EXTERNAL_DEVICE", "lost to this process"),
        ("MPS_CLIENT_TERMINATED", "lost to this process"),
        ("TENSOR_MEMORY_LEAK", "lost to this process"),
        ("INVALID_HANDLE", "the stream was destroyed, or is one of another GPU"),
        ("NOT_INITIALIZED", "before the fork: start it with the method 'spawn'"),
        ("STREAM_CAPTURE_UNSUPPORTED", "is being captured: call the function once before"),
        ("INVALID_VALUE", "reports CUDA_ERROR_INVALID_VALUE in cuLaunchKernel$"),
    ],
)
def test_errors_say_what_to_do(cuda, error, message):
    api = driver.driver()
    cuda.errors["cuLaunchKernel"] = f"ERROR_{error}"
    with pytest.raises(fl.DeviceError, match=message):
        api.launch(0, 7, KERNEL, LAUNCH, 1, [1])
    assert not cuda.contexts
    cuda.errors["cuCtxPopCurrent"] = "ERROR_LAUNCH_FAILED"  # a lost device fails everywhere
    with pytest.raises(fl.DeviceError, match="in cuLaunchKernel"):
        api.launch(0, 7, KERNEL, LAUNCH, 1, [1])
    cuda.errors.clear()
    api.launch(0, 7, KERNEL, LAUNCH, 1, [1])


@pytest.mark.parametrize("error", [ValueError("721 is not a valid CUresult"), KeyError(721)])
def test_errors_that_the_bindings_do_not_know(cuda, error):
    api = driver.driver()
    cuda.errors["cuLaunchKernel"] = error
    with pytest.raises(fl.DeviceError, match="cuda-bindings does not know: 721"):
        api.launch(0, 7, KERNEL, LAUNCH, 1, [1])
    cuda.errors["cuLaunchKernel"] = ValueError("no handle")
    with pytest.raises(ValueError, match="no handle"):
        api.launch(0, 7, KERNEL, LAUNCH, 1, [1])


class Library:
    """nvJitLink as cuda-bindings show it. refused: what a text has that it does not take."""

    nvJitLinkError = type("nvJitLinkError", (Exception,), {})
    InputType = SimpleNamespace(PTX="PTX")

    def __init__(self, refused=b"?"):
        self.refused, self.texts, self.alive = refused, {}, 0

    def create(self, count, options):
        assert count == len(options)
        self.alive += 1
        return options

    def destroy(self, handle):
        self.alive -= 1

    def add_data(self, handle, kind, data, size, name):
        assert kind == "PTX"
        assert size == len(data)
        self.texts[handle[0]] = data

    def complete(self, handle):
        if self.refused in self.texts[handle[0]]:
            raise self.nvJitLinkError

    def get_linked_cubin_size(self, handle):
        return 4 + len(self.texts[handle[0]])

    def get_linked_cubin(self, handle, code):
        code[:] = b"code" + self.texts[handle[0]]


def test_the_linker_compiles_texts_for_a_device():
    library = Library()
    link = jit_link.Linker(library)
    assert link.machine_code("text", (9, 0)) == b"codetext"
    assert [*library.texts] == ["-arch=sm_90"]
    assert link.machine_code("a line?", (9, 0)) is None
    assert not library.alive


def test_the_linker_is_used_for_several_texts_where_it_is_found(cuda, monkeypatch):
    launches = [LAUNCH._replace(text=k) for k in range(2)]
    monkeypatch.setattr(driver, "linker", lambda: jit_link.Linker(Library()))
    texts = ["a", "b?"]  # the second one is left to the driver
    driver.driver().load(0, texts, launches)
    assert ("cuModuleLoadData", (b"codea",)) in cuda.called
    assert [x[0] for name, x in cuda.called if name == "cuModuleLoadDataEx"] == [b"b?\0"]
    cuda.called.clear()
    driver.driver().load(0, ["a"], [LAUNCH])
    assert "cuModuleLoadData" not in cuda.names()
    cuda.errors["cuModuleLoadData"] = "ERROR_INVALID_VALUE"  # of a driver that is older
    driver.driver().load(0, ["a", "b"], launches)
    assert cuda.names().count("cuModuleLoadDataEx") == 3


def test_no_linker_where_its_library_is_missing(cuda, monkeypatch):
    assert jit_link.linker() is None  # nor its bindings
    library = ModuleType("cuda.bindings.nvjitlink")
    monkeypatch.setattr(sys.modules["cuda.bindings"], "nvjitlink", library, raising=False)
    library.version = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        jit_link.linker()
    library.version = lambda: (_ for _ in ()).throw(RuntimeError("libnvJitLink is not found"))
    assert jit_link.linker() is None
    library.version = lambda: (13, 0)
    assert jit_link.linker().library is library


def test_kernels_that_the_driver_refuses_and_missing_devices(cuda):
    api = driver.driver()
    cuda.errors["cuModuleLoadDataEx"] = "ERROR_INVALID_PTX"
    with pytest.raises(fl.DeviceError, match=r"Ex: kernels need .* 7\.0 or more, and a driver of"):
        api.load(0, [""], [LAUNCH])
    cuda.log = b"ptxas info : x\nptxas in, line 12; error   : no such instruction\nptxas fatal"
    told = r"its compiler says: ptxas in, line 12; error : no such instruction; kernels need"
    with pytest.raises(fl.DeviceError, match=told):
        api.load(0, [""], [LAUNCH])
    cuda.errors["cuDeviceGet"] = "ERROR_INVALID_DEVICE"
    with pytest.raises(fl.DeviceError, match="there is no GPU of this number"):
        api.load(3, [""], [LAUNCH])
    cuda.errors = {"cuStreamGetId": RuntimeError('Function "cuStreamGetId" not found')}
    with pytest.raises(fl.DeviceError, match="not found; wanted a driver of CUDA 12 or later"):
        api.state_of(0, 7)


def test_no_driver_no_device_and_no_bindings(cuda, monkeypatch):
    arm = fl.load("double_pendulum")
    told = {"shape": (2,), "typestr": "<f8", "data": (4096, False)}
    array = type("Array", (), {"__cuda_array_interface__": told})()
    for error in (RuntimeError("Failed to dlopen libcuda.so.1"), "ERROR_NO_DEVICE"):
        cuda.errors["cuInit"] = error
        with pytest.raises(fl.DeviceError, match="there is no NVIDIA driver that works here: "):
            arm.mass_matrix(array)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(fl.DeviceError, match=r"pip install 'featherlane\[cuda\]'"):
        arm.mass_matrix(array)
    assert arm.mass_matrix(np.zeros(2)).shape == (2, 2)


def test_kernels_are_loaded_whatever_other_streams_capture(cuda):
    api = driver.driver()
    large = LAUNCH._replace(kernel="large", shared=50 << 10)
    first, second, third = api.load(0, ["text"], [LAUNCH, LAUNCH, large])
    assert first == second != third
    before = cuda.called[: cuda.names().index("cuModuleLoadDataEx")]
    assert ("cuThreadExchangeStreamCaptureMode", ("relaxed",)) in before
    told = dict(cuda.called)
    assert told["cuModuleLoadDataEx"][0] == b"text\0"
    assert told["cuFuncSetAttribute"][0] == third.function
    # No first launch loads one
    assert [x for x in cuda.called if x[0] == "cuFuncLoad"] == [
        ("cuFuncLoad", (first.function,)),
        ("cuFuncLoad", (third.function,)),
    ]
    assert cuda.mode == "global"
    assert api.compile_time.texts == 1
    assert 0 < api.compile_time.of_threads <= api.compile_time.seconds


def test_drivers_that_load_kernels_only_when_they_like(cuda):
    cuda.errors["cuFuncLoad"] = RuntimeError('Function "cuFuncLoad" not found')
    assert len(driver.driver().load(0, ["text"], [LAUNCH])) == 1


def test_a_text_that_is_refused_leaves_no_others_loaded(cuda):
    api, texts = driver.driver(), ["a", "b"]
    cuda.errors["cuModuleGetFunction"] = "ERROR_LAUNCH_FAILED"
    with pytest.raises(fl.DeviceError, match="in cuModuleGetFunction"):
        api.load(0, texts, [LAUNCH])
    assert not cuda.loaded
    assert cuda.names().count("cuModuleLoadDataEx") == 2


def test_the_device_of_an_address_is_asked_in_a_context(cuda):
    """In one that there is, so that no other device gets one."""
    api = driver.driver()
    cuda.active = {"device 1": 1}
    assert api.device_of(4096) == 2
    assert ("cuDevicePrimaryCtxRetain", ("device 1",)) in cuda.called
    assert api.device_of(4096) == 2
    assert cuda.names().count("cuDevicePrimaryCtxRetain") == 1
    cuda.contexts.append("of another package")
    pushed = cuda.names().count("cuCtxPushCurrent")
    assert api.device_of(4096) == 2
    assert cuda.names().count("cuCtxPushCurrent") == pushed


def test_a_full_device_names_what_pytorch_keeps(cuda, monkeypatch):
    cuda.errors["cuMemAlloc"] = "ERROR_OUT_OF_MEMORY"
    for module, wanted in ((None, False), (ModuleType("torch"), True)):
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        if module:
            monkeypatch.setitem(sys.modules, "torch", module)
        with pytest.raises(MemoryError) as raised:
            driver.driver().allocate(0, 1000)
        assert ("torch.cuda.empty_cache()" in str(raised.value)) == wanted


# Kernels of functions that were collected


def called(stream=7, device=0):
    """A function whose kernel was put into a stream."""
    kernels = stages.GpuKernels(("text",), (LAUNCH,), {}, {}, 0)
    choose = lambda *_: "lanes"
    function = calls.DeviceFunction(lambda _: kernels, choose, np.dtype(np.float64))
    function.call(device, stream, [], 5)
    return function


def test_functions_in_a_loop_do_not_fill_the_device(cuda):
    for _ in range(10):
        called()
        assert len(cuda.loaded) <= 2
    where = cuda.names().index("cuModuleUnload")
    assert "cuStreamSynchronize" in cuda.names()[where - 6 : where]  # it may still run
    assert not cuda.contexts
    assert cuda.mode == "global"


def test_kernels_of_other_streams_wait_until_the_device_is_waited_for(cuda):
    called(stream=8)
    function = called(stream=7)
    assert len(cuda.loaded) == 2
    called(stream=8)
    assert len(cuda.loaded) == 2  # the first one is gone
    function.call(0, 9, [], 5)  # still there, and loaded once
    assert len(cuda.loaded) == 2
    free_memory.empty()
    assert len(cuda.loaded) == 1
    before = cuda.names()
    function.call(0, 9, [], 5)
    assert "cuModuleLoadDataEx" not in cuda.names()[len(before) :]


def test_other_devices_keep_theirs(cuda):
    called(device=1)
    called(device=0)
    assert len(cuda.loaded) == 2
    free_memory.empty()
    assert not cuda.loaded


def test_kernels_of_graphs_are_kept_for_good(cuda):
    function = called()
    cuda.capturing = 1
    function.call(0, 7, [], 5)
    cuda.capturing = 0
    del function
    called()
    free_memory.empty()
    assert len(cuda.loaded) == 1


def test_nothing_is_asked_of_the_driver_when_a_function_is_collected(cuda):
    """It may happen while a stream is captured, or in another thread."""
    function = called()
    function.itself = function  # a circle, which the garbage collector finds
    before = len(cuda.called)
    del function
    gc.collect()
    assert len(cuda.called) == before
    free_memory.empty()
    assert not cuda.loaded


def test_a_device_that_is_lost_or_captured_ends_no_call(cuda):
    called()
    for code in ("ERROR_STREAM_CAPTURE_UNSUPPORTED", "ERROR_LAUNCH_FAILED"):
        cuda.errors = {"cuCtxSynchronize": code, "cuStreamSynchronize": code}
        free_memory.empty()
        called()
    assert len(cuda.loaded) == 3
    cuda.errors = {}
    free_memory.empty()
    assert not cuda.loaded


def borrow(api, device, stream, size):
    with calls.workspaces.borrowed(api, device, api.state_of(device, stream), size) as address:
        return address


def test_workspaces_are_kept_grow_and_are_given_back(cuda):
    api = driver.driver()
    first = borrow(api, 0, 7, 1000)
    assert borrow(api, 0, 7, 500) == first
    second = borrow(api, 0, 7, 1500)
    assert borrow(api, 0, 8, 1000) not in (first, second)
    assert borrow(api, 1, 7, 1000) not in (first, second)
    assert borrow(api, 0, 7, 0) == 0
    sizes = [arguments for name, arguments in cuda.called if name == "cuMemAlloc"]
    assert sizes == [(1000,), (2000,), (1000,), (1000,)]
    with calls.workspaces.borrowed(api, 0, api.state_of(0, 8), 1):  # in use just now
        assert free_memory.empty() == 4000
    assert cuda.names().count("cuMemFree") == 3
    where = cuda.names().index("cuMemFree")
    assert cuda.names()[where - 1] == "cuCtxSynchronize"  # kernels may still use it
    assert fl.empty_cache() >= 1000
    assert borrow(api, 0, 7, 1000) != first
    assert cuda.mode == "global"


def test_workspaces_of_graphs_are_kept(cuda):
    api = driver.driver()
    cuda.capturing = 1
    with pytest.raises(fl.DeviceError, match="call the function once for as many states on this"):
        borrow(api, 0, 7, 1000)
    cuda.capturing = 0
    first = borrow(api, 0, 7, 1000)
    cuda.capturing = 1
    assert borrow(api, 0, 7, 1000) == first
    cuda.capturing = 0
    borrow(api, 0, 7, 1500)
    assert free_memory.empty() == 2000  # the larger one, which no graph knows
    assert borrow(api, 0, 7, 1000) == first


def test_many_streams_do_not_keep_many_workspaces(cuda):
    api, streams = driver.driver(), workspaces.STREAMS
    first = borrow(api, 0, 1, 1000)
    for stream in range(2, streams + 5):
        borrow(api, 0, stream, 1000)
        assert borrow(api, 0, 1, 1000) == first  # the ones used last are kept
    names = cuda.names()
    assert names.count("cuMemAlloc") - names.count("cuMemFree") == streams
    borrow(api, 1, 1, 1000)  # another device has its own
    assert cuda.names().count("cuMemFree") == names.count("cuMemFree")


def test_a_full_device_gives_back_the_workspaces_of_other_streams(cuda, monkeypatch):
    api = driver.driver()
    borrow(api, 0, 1, 1000)
    room = iter([False, True, False, False])

    def allocate(size):
        return (Code.CUDA_SUCCESS, 5) if next(room) else (Code.CUDA_ERROR_OUT_OF_MEMORY, 0)

    monkeypatch.setattr(cuda, "cuMemAlloc", allocate, raising=False)
    assert borrow(api, 0, 2, 1000) == 5
    assert cuda.names().count("cuMemFree") == 1
    with pytest.raises(
        MemoryError, match=r"free arrays, or call fl\.empty_cache\(\).*fewer states"
    ):
        borrow(api, 0, 3, 1000)


def test_what_cannot_be_given_back_is_kept(cuda):
    api = driver.driver()
    first = borrow(api, 0, 7, 1000)
    cuda.errors["cuCtxSynchronize"] = "ERROR_STREAM_CAPTURE_UNSUPPORTED"
    assert free_memory.empty() == 0
    cuda.errors.clear()
    assert borrow(api, 0, 7, 1000) == first


def test_copies_through_the_driver(cuda):
    """Each copy on the stream of its chunk, and memory of the host that is page-locked."""
    api = driver.driver()
    host, stream = api.allocate_host(0, 64), api.new_stream(0)
    api.to_device(0, stream, 4096, host, 64)
    api.to_host(0, stream, host, 4096, 32)
    api.wait(0, stream)
    api.free_host(0, host)
    api.free_stream(0, stream)
    made = dict(cuda.called)
    assert made["cuMemAllocHost"] == (64,)
    assert made["cuStreamCreate"] == (driver.NON_BLOCKING,)
    assert made["cuMemcpyHtoDAsync"] == (4096, host, 64, stream)
    assert made["cuMemcpyDtoHAsync"] == (host, 4096, 32, stream)
    assert made["cuStreamSynchronize"] == made["cuStreamDestroy"] == (stream,)
    assert made["cuMemFreeHost"] == (host,)
    assert not cuda.contexts
