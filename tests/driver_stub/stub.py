"""NVIDIA's driver as cuda-bindings sees it, without a GPU: two devices, contexts of threads,
streams whose work waits until something waits for it, CUDA graphs, and kernels that the emulator
runs.

Each function takes the types that the driver's API has, is written down, and refuses what the
driver would refuse: calls without a context, handles that are gone, what may not be done while a
stream is captured. A mistake of this file itself becomes CUDA_ERROR_UNKNOWN, and is kept in
`mistakes`.
"""

import ctypes
import os
import subprocess
import threading
from collections import deque
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from gpu_emulator import grammar
from gpu_emulator.launch import Launched
from gpu_emulator.memory import FIRST, Memory

from featherlane.errors import CompileError

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
INVALID_DEVICE, INVALID_CONTEXT, INVALID_PTX, INVALID_HANDLE = 101, 201, 218, 400
NOT_FOUND, CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, UNKNOWN = 500, 900, 901, 999
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2  # CUstreamCaptureMode
LOG, LOG_SIZE = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size
ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
ATTRIBUTES = {  # multiprocessors, shared memory of a block, kHz, L2 cache, compute capability
    **{16: 132, 97: 227 << 10, 13: 1_980_000, 38: 50 << 20},
    **{75: 9, 76: 0},
}
REGISTERS = 4  # CU_FUNC_ATTRIBUTE_NUM_REGS
DEVICES, TOTAL_MEMORY, STATIC_SHARED = 2, 80 << 30, 48 << 10
OUT, WORDS = POINTER(c_void_p), POINTER(c_int)
DIMENSIONS = (c_uint,) * 7  # of grid and block, and bytes of shared memory
SIGNATURES = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (WORDS,),
    "cuDeviceGet": (WORDS, c_int),
    "cuDeviceGetCount": (WORDS,),
    "cuDeviceGetAttribute": (WORDS, c_int, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceTotalMem": (POINTER(c_size_t), c_int),
    "cuDevicePrimaryCtxRetain": (OUT, c_int),
    "cuDevicePrimaryCtxGetState": (c_int, POINTER(c_uint), WORDS),
    "cuCtxPushCurrent": (c_void_p,),
    "cuCtxPopCurrent": (OUT,),
    "cuCtxGetCurrent": (OUT,),
    "cuCtxSynchronize": (),
    "cuThreadExchangeStreamCaptureMode": (WORDS,),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuModuleLoadDataEx": (OUT, c_char_p, c_uint, WORDS, POINTER(c_void_p)),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (OUT, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuFuncLoad": (c_void_p,),
    "cuLaunchKernel": (c_void_p, *DIMENSIONS, c_void_p, POINTER(POINTER(c_uint64)), c_void_p),
    "cuStreamCreate": (OUT, c_uint),
    "cuStreamDestroy": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamGetId": (c_void_p, POINTER(c_uint64)),
    "cuStreamIsCapturing": (c_void_p, WORDS),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, OUT),
    "cuEventCreate": (OUT, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventDestroy": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuGraphInstantiate": (OUT, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuFuncGetAttribute": (WORDS, c_int, c_void_p),
    "cuMemGetInfo": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc": (POINTER(c_uint64), c_size_t),
    "cuMemFree": (c_uint64,),
    "cuMemAllocHost": (OUT, c_size_t),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
}
SAME = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}  # other names of a function
NO_CONTEXT = (  # functions that need none
    *("cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetAttribute"),
    *("cuDeviceGetName", "cuDeviceTotalMem", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent"),
    *("cuDevicePrimaryCtxGetState", "cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode"),
)
UNSAFE = (  # functions that captures in other modes than relaxed forbid
    *("cuMemAlloc", "cuMemFree", "cuMemAllocHost", "cuMemFreeHost", "cuModuleLoadDataEx"),
    *("cuModuleUnload", "cuFuncLoad", "cuStreamSynchronize", "cuEventSynchronize"),
)


class Refused(Exception):
    """A call that the driver answers with an error."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Stream:
    """Work in its order, which is done when something waits for it. graph: what is captured."""

    def __init__(self, device, number):
        self.device, self.number, self.work = device, number, deque()
        self.graph, self.mode, self.thread = None, None, None

    def put(self, work):
        """Puts work into the stream, or into the graph that it captures."""
        (self.work if self.graph is None else self.graph).append(work)

    def run(self, until=None):
        """Does all work, or what is needed until an event is there."""
        while self.work and not (until and until.done):
            self.work.popleft()()


class PerThread(threading.local):
    """What the driver keeps for each thread."""

    def __init__(self):
        self.contexts, self.mode = [], GLOBAL


class Stub:
    """The driver. calls: thread, device of the context, function and arguments of each; errors: the
    code that a function gives instead of its work.
    """

    def __init__(self):
        self.process, self.thread, self.lock = os.getpid(), PerThread(), threading.RLock()
        self.memory, self.device, self.host = Memory(), {}, {}  # devices by address
        self.handles, self.objects = count(0x1000, 16), {}
        self.contexts = {
            device: self.new(SimpleNamespace(device=device)) for device in range(DEVICES)
        }
        self.retained = set()
        self.numbers = count(1)
        self.default = {d: Stream(d, next(self.numbers)) for d in range(DEVICES)}
        self.calls, self.mistakes, self.errors = [], [], {}
        self.callbacks = {name: self.callback(name) for name in SIGNATURES}

    # How calls arrive

    def callback(self, name):
        """The function pointer of a function of the driver."""
        function = getattr(self, name)

        def call(*arguments):
            try:
                with self.lock:
                    return self.answer(name, function, arguments)
            except Refused as refused:
                return refused.code
            except BaseException as error:
                self.mistakes.append(f"{name}: {error!r}")
                return UNKNOWN

        return ctypes.CFUNCTYPE(c_int, *SIGNATURES[name])(call)

    def answer(self, name, function, arguments):
        if os.getpid() != self.process:
            raise Refused(NOT_INITIALIZED)
        if name not in NO_CONTEXT and not self.thread.contexts:
            raise Refused(INVALID_CONTEXT)
        here = self.thread.contexts[-1].device if self.thread.contexts else None
        self.calls.append((threading.get_ident(), here, name, arguments))
        if name in UNSAFE:
            self.check_no_capture()
        if name in self.errors:
            raise Refused(self.errors[name])
        function(*arguments)
        return SUCCESS

    def check_no_capture(self):
        """Refuses, and invalidates captures that forbid such a call in this thread."""
        me, mode = threading.get_ident(), self.thread.mode
        for stream in self.streams():
            if stream.graph is None or mode == RELAXED or stream.mode == RELAXED:
                continue
            if stream.thread == me or (GLOBAL == mode == stream.mode):
                stream.mode = None  # invalidated
                raise Refused(CAPTURE_UNSUPPORTED)

    def streams(self):
        return [*self.default.values(), *(x for x in self.objects.values() if type(x) is Stream)]

    def resolve(self, name, function):
        """Where a function is: for the library."""
        name = SAME.get(name.decode(), name.decode())
        function[0] = self.finder if name.startswith("cuGetProcAddress") else None
        if function[0]:
            return SUCCESS
        if name not in self.callbacks:
            return NOT_FOUND
        function[0] = ctypes.cast(self.callbacks[name], c_void_p).value
        return SUCCESS

    # Handles

    def new(self, value):
        handle = next(self.handles)
        self.objects[handle] = value
        return handle

    def of(self, handle):
        if handle not in self.objects:
            raise Refused(INVALID_HANDLE)
        return self.objects[handle]

    def gone(self, handle):
        self.of(handle)
        return self.objects.pop(handle)

    @property
    def here(self):
        """The device of the current context."""
        return self.thread.contexts[-1].device

    def stream(self, handle):
        """A stream of the current device."""
        stream = self.default[self.here] if handle in (None, 1, 2) else self.of(handle)
        if stream.device != self.here:
            raise Refused(INVALID_HANDLE)
        return stream

    # Devices and contexts

    def cuInit(self, flags):
        assert flags == 0

    def cuDriverGetVersion(self, version):
        version[0] = 13000

    def cuDeviceGet(self, device, number):
        if not 0 <= number < DEVICES:
            raise Refused(INVALID_DEVICE)
        device[0] = number

    def cuDeviceGetCount(self, number):
        number[0] = DEVICES

    def cuDeviceGetAttribute(self, value, attribute, device):
        value[0] = ATTRIBUTES[attribute]

    def cuDeviceGetName(self, name, size, device):
        ctypes.memmove(name, b"stub\0", 5)

    def cuDeviceTotalMem(self, size, device):
        size[0] = TOTAL_MEMORY

    def cuDevicePrimaryCtxRetain(self, context, device):
        self.retained.add(device)
        context[0] = self.contexts[device]

    def cuDevicePrimaryCtxGetState(self, device, flags, active):
        flags[0], active[0] = 0, device in self.retained

    def cuCtxPushCurrent(self, context):
        self.thread.contexts.append(self.of(context))

    def cuCtxPopCurrent(self, context):
        context[0] = self.contexts[self.thread.contexts.pop().device]

    def cuCtxGetCurrent(self, context):
        context[0] = self.contexts[self.here] if self.thread.contexts else None

    def cuCtxSynchronize(self):
        mine = [x for x in self.streams() if x.device == self.here]
        if captured := [x for x in mine if x.graph is not None]:  # in whatever mode
            captured[0].mode = None
            raise Refused(CAPTURE_UNSUPPORTED)
        for stream in mine:
            stream.run()

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.thread.mode, mode[0] = mode[0], self.thread.mode

    # Modules and kernels

    def cuModuleLoadDataEx(self, module, image, number, options, values):
        told, text = {options[k]: values[k] for k in range(number)}, image.decode()
        try:
            names = [x.split("(")[0] for x in text.split(".visible .entry ")[1:]]
            codes = {name: grammar.checked(text, name) for name in names}
        except CompileError as error:
            log = f"ptxas application ptx input, line 7; error   : {error}\n\0".encode()
            ctypes.memmove(told[LOG], log, min(len(log), told[LOG_SIZE]))
            raise Refused(INVALID_PTX) from None
        module[0] = self.new(
            SimpleNamespace(device=self.here, text=text, codes=codes, kind="module")
        )

    def cuModuleUnload(self, module):
        """Kernels that something may still run are a mistake: it is found when they run."""
        gone = self.gone(module)
        for handle in [h for h, x in self.objects.items() if getattr(x, "module", None) is gone]:
            del self.objects[handle]
        gone.text = None

    def cuModuleGetFunction(self, function, module, name):
        module, name = self.of(module), name.decode()
        if name not in module.codes:
            raise Refused(NOT_FOUND)
        function[0] = self.new(
            SimpleNamespace(module=module, name=name, shared=STATIC_SHARED, loaded=False)
        )

    def cuFuncSetAttribute(self, function, attribute, value):
        if attribute != DYNAMIC_SHARED or value > ATTRIBUTES[97]:
            raise Refused(INVALID_VALUE)
        self.of(function).shared = value

    def cuFuncGetAttribute(self, value, attribute, function):
        self.of(function)
        value[0] = 40 if attribute == REGISTERS else 0

    def cuFuncLoad(self, function):
        self.of(function).loaded = True

    def cuLaunchKernel(self, function, *rest):
        gx, gy, gz, bx, by, bz, shared, stream, values, extra = rest
        kernel, stream = self.of(function), self.stream(stream)
        if kernel.module.device != self.here:
            raise Refused(INVALID_HANDLE)
        sizes = 0 < gx < 1 << 31 and 0 < bx <= 1024 and gy == gz == by == bz == 1
        if extra or not sizes or shared > kernel.shared:
            raise Refused(INVALID_VALUE)
        number = len(kernel.module.codes[kernel.name].parameters)
        values = [values[k][0] for k in range(number)]  # they are read now

        def launch():
            assert kernel.module.text is not None, f"{kernel.name} runs after it was unloaded"
            options = {"blocks": gx, "threads": bx, "shared": shared}
            Launched(kernel.module.text, kernel.name, values, self.memory, **options).run()

        stream.put(launch)

    # Streams, events and graphs

    def cuStreamCreate(self, stream, flags):
        stream[0] = self.new(Stream(self.here, next(self.numbers)))

    def cuStreamDestroy(self, stream):
        self.stream(stream).run()
        self.gone(stream)

    def cuStreamSynchronize(self, stream):
        stream = self.stream(stream)
        if stream.graph is not None:
            stream.mode = None
            raise Refused(CAPTURE_UNSUPPORTED)
        stream.run()

    def cuStreamGetId(self, stream, number):
        """Refused for a stream that is captured, in whatever mode, as on an H200 (580.159)."""
        stream = self.stream(stream)
        if stream.graph is not None:
            stream.mode = None
            raise Refused(CAPTURE_UNSUPPORTED)
        number[0] = stream.number

    def cuStreamIsCapturing(self, stream, status):
        status[0] = self.stream(stream).graph is not None

    def cuStreamWaitEvent(self, stream, event, flags):
        mark = self.of(event).mark
        self.stream(stream).put(lambda: mark.stream.run(mark))

    def cuStreamBeginCapture(self, stream, mode):
        stream = self.stream(stream)
        stream.graph, stream.mode, stream.thread = [], mode, threading.get_ident()

    def cuStreamEndCapture(self, stream, graph):
        stream = self.stream(stream)
        captured, stream.graph = stream.graph, None
        if stream.mode is None:
            raise Refused(CAPTURE_INVALIDATED)
        graph[0] = self.new(captured)

    def cuEventCreate(self, event, flags):
        event[0] = self.new(SimpleNamespace(mark=None))

    def cuEventRecord(self, event, stream):
        mark = SimpleNamespace(stream=self.stream(stream), done=False)
        mark.stream.put(lambda: setattr(mark, "done", True))
        self.of(event).mark = mark

    def cuEventDestroy(self, event):
        self.gone(event)

    def cuEventSynchronize(self, event):
        mark = self.of(event).mark
        mark.stream.run(mark)

    def cuEventElapsedTime(self, milliseconds, begin, end):
        milliseconds[0] = 1.0

    def cuGraphInstantiate(self, ready, graph, flags):
        ready[0] = self.new(tuple(self.of(graph)))

    def cuGraphLaunch(self, ready, stream):
        for work in self.of(ready):
            self.stream(stream).put(work)

    def cuGraphExecDestroy(self, ready):
        self.gone(ready)

    def cuGraphDestroy(self, graph):
        self.gone(graph)

    # Memory

    def cuPointerGetAttribute(self, value, attribute, address):
        if attribute != ORDINAL or not self.device or address < FIRST:
            raise Refused(INVALID_VALUE)
        number = self.device[max(x for x in self.device if x <= address)]
        ctypes.cast(value, WORDS)[0] = number

    def cuMemAlloc(self, address, size):
        address[0] = self.memory.place(np.full(size, 0xFF, np.uint8))  # NaN
        self.device[address[0]] = self.here

    def cuMemGetInfo(self, free, total):
        free[0] = total[0] = TOTAL_MEMORY

    def cuMemFree(self, address):
        if self.device.pop(address, None) != self.here:
            raise Refused(INVALID_VALUE)

    def cuMemAllocHost(self, address, size):
        block = ctypes.create_string_buffer(size)
        address[0] = ctypes.addressof(block)
        self.host[address[0]] = block

    def cuMemFreeHost(self, address):
        del self.host[address]

    def bytes(self, address, size):
        """The bytes at an address, which must be those of one array."""
        start = address - FIRST
        assert self.memory.owned[start : start + size].all(), "a copy leaves its array"
        return self.memory.bytes[start : start + size]

    def cuMemcpyHtoDAsync(self, address, host, size, stream):
        def copy():
            self.bytes(address, size)[:] = np.frombuffer(ctypes.string_at(host, size), np.uint8)

        self.stream(stream).put(copy)

    def cuMemcpyDtoHAsync(self, host, address, size, stream):
        work = lambda: ctypes.memmove(host, self.bytes(address, size).tobytes(), size)
        self.stream(stream).put(work)

    def cuMemcpyDtoDAsync(self, to, address, size, stream):
        def copy():
            self.bytes(to, size)[:] = self.bytes(address, size)

        self.stream(stream).put(copy)

    def cuMemsetD8Async(self, address, byte, size, stream):
        self.stream(stream).put(lambda: self.bytes(address, size).fill(byte))


def installed(folder, compiler="cc"):
    """A stub in the place of the driver of this process, which has none before."""
    library = Path(folder) / "libcuda.so.1"
    source = Path(__file__).with_name("libcuda.c")
    options = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source))
    subprocess.run([compiler, *options], check=True)
    loaded, stub = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL), Stub()
    stub.finder = ctypes.cast(loaded.cuGetProcAddress_v2, c_void_p).value
    stub.resolver = ctypes.CFUNCTYPE(c_int, c_char_p, OUT)(
        lambda name, function: stub.resolve(name, function)
    )
    loaded.stub_set_resolver(stub.resolver)
    return stub
