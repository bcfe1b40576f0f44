"""The handler by which XLA calls kernels on a GPU: call frames made by hand, on an emulated GPU."""

import ctypes

import numpy as np
import pytest
from emulated_gpu import emulated, states
from test_backend import same_bits

import featherlane as fl
from featherlane.backends import xla_interface
from featherlane.backends.cuda import xla
from featherlane.backends.cuda.driver import LEGACY

STREAM = 55


@pytest.fixture
def gpu(monkeypatch):
    made = emulated(monkeypatch)
    monkeypatch.setattr(xla, "driver", lambda: made)
    return made


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


class Xla:
    """XLA's side of the interface. errors: code and message of each that was made."""

    def __init__(self, stream=STREAM):
        self.stream, self.errors, self.failing = stream, [], 0

        def create(address):
            asked = xla.ErrorArguments.from_address(address)
            assert asked.size == xla_interface.ERROR_SIZE
            self.errors.append((asked.code, asked.message.decode()))
            return len(self.errors)

        def stream_get(address):
            asked = xla.StreamArguments.from_address(address)
            assert asked.size == ctypes.sizeof(asked) == 32
            assert asked.context == 4711
            asked.stream = self.stream
            return self.failing

        self.api = xla.Api(ctypes.sizeof(xla.Api))
        self.api.error_create, self.api.stream_get = (
            xla.ErrorCreate(create),
            xla.StreamGet(stream_get),
        )

    def call(self, handler, inputs, outputs, stage=xla_interface.EXECUTE, extension=None):
        """Calls with (address, dtype, shape) for each array; the error's number, None for none."""
        frame = xla.CallFrame(168, extension, ctypes.pointer(self.api), 4711, stage)
        frame.inputs, frame.outputs = self.arrays(inputs), self.arrays(outputs)
        return xla.HandlerFunction(handler.address)(ctypes.addressof(frame))

    def arrays(self, arrays):
        self.keep = getattr(self, "keep", [])
        buffers = [
            xla.Buffer(48, None, dtype, address, len(shape), (ctypes.c_int64 * len(shape))(*shape))
            for address, dtype, shape in arrays
        ]
        listed = (ctypes.POINTER(xla.Buffer) * len(buffers))(*map(ctypes.pointer, buffers))
        self.keep.append((buffers, listed))
        return xla.XlaArrays(40, None, len(buffers), None, listed)


def handler_of(model, name, dtype):
    function = model.function(name)
    return xla.DeviceHandler(function.on_gpu(np.dtype(dtype)), function.inputs, function.outputs)


def placed(gpu, x, device=0):
    return gpu.place(x, device), xla_interface.DTYPES[x.dtype.name], x.shape


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("device", [0, 1])
def test_kernels_run_on_xlas_stream(gpu, arm, dtype, device):
    q, v, tau = states(arm, 3, 2, dtype=dtype)
    handler = handler_of(arm, "forward_dynamics_derivatives", dtype)
    for given in ((q, v, tau), (q, v[0, 0], tau), (q, v[:1, :1], tau)):
        wanted = arm.forward_dynamics_derivatives(*given)
        out = [placed(gpu, np.zeros_like(x), device) for x in wanted]
        side = Xla()
        assert side.call(handler, [placed(gpu, x, device) for x in given], out) is None
        for (address, *_), y in zip(out, wanted, strict=True):
            same_bits(gpu.memory.read(address, y), np.ascontiguousarray(y))
    assert [x[:2] for x in gpu.launched] == [(device, STREAM)] * 3


def test_the_default_stream_and_other_stages(gpu, arm):
    (q, *_), handler = states(arm, 3), handler_of(arm, "mass_matrix", np.float64)
    given, out = [placed(gpu, q)], [placed(gpu, np.zeros((3, 2, 2)))]
    side = Xla(stream=None)
    for stage in range(3):
        assert side.call(handler, given, out, stage) is None
    assert not gpu.launched
    assert side.call(handler, given, out) is None
    assert gpu.launched[0][1] == LEGACY
    empty = [(0, 12, (0, 2))], [(0, 12, (0, 2, 2))]
    assert side.call(handler, *empty) is None
    assert len(gpu.launched) == 1


def test_wrong_arrays_become_errors(gpu, arm):
    q, v, a = (placed(gpu, x) for x in states(arm, 3))
    other = placed(gpu, np.zeros((4, 2)))
    handler, side = handler_of(arm, "inverse_dynamics", np.float64), Xla()
    for given, out, message in (
        ([q, v], [a], "XLA passes 2 arrays, wanted 3: q, v, a"),
        ([q, v, a], [a, a], "XLA passes 2 arrays, wanted 1: tau"),
        ([q, (v[0], 11, v[2]), a], [a], "v has XLA's dtype 11, wanted float64"),
        ([q, (v[0], 12, (3, 3)), a], [a], "v has shape (3, 3), wanted (..., 2)"),
        ([q, (v[0], 12, ()), a], [a], "v has shape (), wanted (..., 2)"),
        ([q, other, a], [a], "v has 4 states, the results have 3"),
    ):
        number = side.call(handler, given, out)
        assert side.errors[number - 1] == (xla_interface.INVALID_ARGUMENT, message)
    assert not gpu.launched


def test_failures_become_errors(gpu, arm, monkeypatch):
    handler, side = handler_of(arm, "inverse_dynamics", np.float64), Xla()
    q, v, a = (placed(gpu, x) for x in states(arm, 3))
    out = placed(gpu, np.zeros((3, 2)))
    gpu.lost = True
    number = side.call(handler, [q, v, a], [out])
    code, message = side.errors[number - 1]
    assert code == xla_interface.INTERNAL
    assert "CUDA_ERROR_LAUNCH_FAILED" in message
    gpu.lost = False
    for error, code in ((MemoryError("full"), 8), (KeyboardInterrupt(), 13), (SystemExit(3), 13)):
        with monkeypatch.context() as changed:

            def failing(*_, error=error):
                raise error

            changed.setattr(gpu, "launch", failing)
            number = side.call(handler, [q, v, a], [out])
            assert side.errors[number - 1] == (code, str(error) or type(error).__name__)
    side.failing = 99  # XLA's own error, which is passed on
    assert side.call(handler, [q, v, a], [out]) == 99
    side.failing = 0
    assert side.call(handler, [q, v, a], [out]) is None


def test_a_short_frame_is_refused(gpu, arm):
    side, handler = Xla(), handler_of(arm, "mass_matrix", np.float64)
    frame = xla.CallFrame(80, None, ctypes.pointer(side.api), 4711, xla_interface.EXECUTE)
    xla.HandlerFunction(handler.address)(ctypes.addressof(frame))
    assert side.errors == [(3, "XLA's call frame is shorter than that of a known version")]


def test_it_tells_its_version(arm):
    handler = handler_of(arm, "mass_matrix", np.float64)
    told = (ctypes.c_int64 * 6)(48, 24, 0, -1, -1, -1)
    extension = (ctypes.c_int64 * 4)(32, xla_interface.METADATA, 0, ctypes.addressof(told))
    frame = (ctypes.c_int64 * 22)(168, ctypes.addressof(extension))
    assert xla.HandlerFunction(handler.address)(ctypes.addressof(frame)) is None
    assert told[3] == xla_interface.MAJOR | xla_interface.MINOR << 32
    assert told[4] & 0xFFFFFFFF == 0  # XLA captures no graph of it
    assert told[5] == 0


def test_extensions_of_another_type_do_not_stop_a_call(gpu, arm):
    """The metadata may also stand behind another extension."""
    other, unknown = 0, 7
    told = (ctypes.c_int64 * 6)(48, 24, 0, -1, -1, -1)
    metadata = (ctypes.c_int64 * 4)(32, xla_interface.METADATA, 0, ctypes.addressof(told))
    for kind, behind in ((other, 0), (unknown, 0), (unknown, ctypes.addressof(metadata))):
        extension = (ctypes.c_int64 * 3)(24, kind, behind)
        (q, *_), side, before = states(arm, 3), Xla(), len(gpu.launched)
        out = placed(gpu, np.zeros((3, 2, 2)))
        handler = handler_of(arm, "mass_matrix", np.float64)
        address = ctypes.addressof(extension)
        assert side.call(handler, [placed(gpu, q)], [out], extension=address) is None
        assert len(gpu.launched) - before == (not behind)
        wanted = np.zeros((3, 2, 2)) if behind else arm.mass_matrix(q)
        same_bits(gpu.memory.read(out[0], wanted), wanted)
    assert told[3] == xla_interface.MAJOR | xla_interface.MINOR << 32


def test_offsets_in_structures():
    """Where the header has them."""
    assert [getattr(xla.CallFrame, x).offset for x in ("api", "context", "stage")] == [16, 24, 32]
    assert [getattr(xla.CallFrame, x).offset for x in ("inputs", "outputs")] == [40, 80]
    assert ctypes.sizeof(xla.CallFrame) == xla_interface.FRAME_END
    assert [getattr(xla.Api, x).offset for x in ("error_create", "stream_get")] == [48, 80]
    assert ctypes.sizeof(xla.Buffer) == 48
    assert ctypes.sizeof(xla.XlaArrays) == 40
