"""A handler for XLA's foreign function interface by which JAX programs on a GPU call kernels, on
the stream that XLA computes on.

XLA calls it to put work into the stream, not to wait for it, so that Python is fast enough.
Structures are those of XLA's public header xla/ffi/api/c_api.h. Arrays are in C order; each has the
leading dimensions of the results, or none or ones, and is then the same for all states.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

from featherlane.backends.cuda.calls import DeviceFunction, Rows
from featherlane.backends.cuda.driver import LEGACY, driver
from featherlane.backends.cuda.kernel_stage import Shape
from featherlane.backends.xla_interface import (
    DTYPES,
    ERROR_SIZE,
    EXECUTE,
    FRAME_END,
    INTERNAL,
    INVALID_ARGUMENT,
    MAJOR,
    METADATA,
    MINOR,
    RESOURCE_EXHAUSTED,
    STATE_TYPE,
)

HEAD = (("size", c_size_t), ("extension", c_void_p))  # of all structures
ErrorCreate = ctypes.CFUNCTYPE(c_void_p, c_void_p)
StreamGet = ctypes.CFUNCTYPE(c_void_p, c_void_p)
HandlerFunction = ctypes.CFUNCTYPE(c_void_p, c_void_p)


class Version(ctypes.Structure):
    """XLA_FFI_Api_Version."""

    _fields_ = (*HEAD, ("major", c_int32), ("minor", c_int32))


class Api(ctypes.Structure):
    """XLA_FFI_Api, up to the last function that is called."""

    _fields_ = (
        *HEAD,
        ("version", Version),
        ("internal", c_void_p),
        ("error_create", ErrorCreate),
        ("error_message", c_void_p),
        ("error_destroy", c_void_p),
        ("handler_register", c_void_p),
        ("stream_get", StreamGet),
    )


class Buffer(ctypes.Structure):
    """XLA_FFI_Buffer."""

    _fields_ = (
        *HEAD,
        ("dtype", c_int32),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", ctypes.POINTER(c_int64)),
    )


class XlaArrays(ctypes.Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = (
        *HEAD,
        ("count", c_int64),
        ("types", c_void_p),
        ("buffers", ctypes.POINTER(ctypes.POINTER(Buffer))),
    )


class CallFrame(ctypes.Structure):
    """XLA_FFI_CallFrame, up to its attributes."""

    _fields_ = (
        *HEAD,
        ("api", ctypes.POINTER(Api)),
        ("context", c_void_p),
        ("stage", c_int32),
        ("inputs", XlaArrays),
        ("outputs", XlaArrays),
    )


class ErrorArguments(ctypes.Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = (*HEAD, ("message", c_char_p), ("code", c_int32))


class StreamArguments(ctypes.Structure):
    """XLA_FFI_Stream_Get_Args."""

    _fields_ = (*HEAD, ("context", c_void_p), ("stream", c_void_p))


class Metadata(ctypes.Structure):
    """XLA_FFI_Metadata."""

    _fields_ = (*HEAD[:1], ("version", Version), ("traits", c_uint32), ("state_type", c_int64))


class MetadataExtension(ctypes.Structure):
    """XLA_FFI_Metadata_Extension, behind an XLA_FFI_Extension_Base."""

    _fields_ = (
        ("size", c_size_t),
        ("type", c_int32),
        ("next", c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    )


class DeviceHandler:
    """A handler for one function in one dtype, as long as this object lives.

    It never raises: what goes wrong becomes an error of XLA with the same sentence.
    """

    def __init__(
        self, function: DeviceFunction, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]
    ) -> None:
        self.function, self.inputs, self.outputs = function, inputs, outputs
        self._callback = HandlerFunction(self._called)
        self.address = ctypes.cast(self._callback, c_void_p).value or 0

    def _called(self, address: int) -> int | None:
        """Answers a call of XLA, and returns the address of an error of XLA; None after success."""
        frame = CallFrame.from_address(address)
        try:
            if metadata := _metadata(frame.extension):
                _answer(metadata)
            elif frame.stage == EXECUTE:
                self._execute(frame)
            return None
        except _XlaError as error:
            return error.address
        except MemoryError as error:
            return _failed(frame, error, RESOURCE_EXHAUSTED)
        except ValueError as error:
            return _failed(frame, error, INVALID_ARGUMENT)
        except BaseException as error:
            return _failed(frame, error, INTERNAL)

    def _execute(self, frame: CallFrame) -> None:
        """Puts the kernels into XLA's stream."""
        if frame.size < FRAME_END:
            raise ValueError("XLA's call frame is shorter than that of a known version")
        operands = self._buffers(frame.inputs, self.inputs)
        results = self._buffers(frame.outputs, self.outputs)
        states = next(iter(results.values()))[1]
        if not states:
            return
        for name, (_, count, _) in {**operands, **results}.items():
            if count != states and (count != 1 or name in results):
                raise ValueError(f"{name} has {count} states, the results have {states}")
        stream = _stream(frame)
        device = driver().device_of(next(iter(results.values()))[0])
        arrays = (*operands.values(), *results.values())
        rows = [Rows(place, size if count == states else 0) for place, count, size in arrays]
        self.function.call(device, stream, rows, states)

    def _buffers(
        self, arrays: XlaArrays, shapes: Mapping[str, Shape]
    ) -> dict[str, tuple[int, int, int]]:
        """The address, the states and the bytes of a state of each array."""
        if arrays.count != len(shapes):
            wanted = f"wanted {len(shapes)}: {', '.join(shapes)}"
            raise ValueError(f"XLA passes {arrays.count} arrays, {wanted}")
        buffers, dtype = {}, self.function.dtype
        for k, (name, core) in enumerate(shapes.items()):
            buffer = arrays.buffers[k].contents
            shape = tuple(buffer.dims[: buffer.rank])
            cut = len(shape) - len(core)
            if buffer.dtype != DTYPES[dtype.name]:
                raise ValueError(f"{name} has XLA's dtype {buffer.dtype}, wanted {dtype}")
            if cut < 0 or shape[cut:] != core:
                wanted = ", ".join(["...", *map(str, core)])
                raise ValueError(f"{name} has shape {shape}, wanted ({wanted})")
            size = math.prod(core) * dtype.itemsize
            buffers[name] = buffer.data or 0, math.prod(shape[:cut]), size
        return buffers


class _XlaError(Exception):
    """An error that XLA gave: the address of its XLA_FFI_Error."""

    def __init__(self, address: int) -> None:
        super().__init__()
        self.address = address


def _stream(frame: CallFrame) -> int:
    """The stream that XLA computes on."""
    asked = StreamArguments(ctypes.sizeof(StreamArguments), None, frame.context, None)
    if error := frame.api.contents.stream_get(ctypes.addressof(asked)):
        raise _XlaError(error)
    return asked.stream or LEGACY


def _metadata(address: int | None) -> MetadataExtension | None:
    """The extension by which XLA asks for a handler's version, among those of a call frame. Others
    add to a call, which computes as without them.
    """
    while address:
        extension = MetadataExtension.from_address(address)
        if extension.type == METADATA:
            return extension
        address = extension.next
    return None


def _answer(extension: MetadataExtension) -> None:
    """Answers XLA, when a handler is registered, with the version of its interface."""
    metadata: Any = extension.metadata.contents
    metadata.version.major, metadata.version.minor, metadata.traits = MAJOR, MINOR, 0
    if metadata.size >= STATE_TYPE:
        metadata.state_type = 0


def _failed(frame: CallFrame, error: BaseException, code: int) -> int | None:
    """An error of XLA."""
    message = f"{error}" or type(error).__name__
    asked = ErrorArguments(ERROR_SIZE, None, message.encode(), code)
    return frame.api.contents.error_create(ctypes.addressof(asked))
