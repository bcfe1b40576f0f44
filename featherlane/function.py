"""A kernel as a function of the user's arrays: dtypes, shapes, `out=`, threads, and errors that
teach.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from featherlane import cache as disk
from featherlane.backends import direct, front, machine
from featherlane.backends.ufunc import gufunc
from featherlane.choice import Load
from featherlane.compiler import Kernel, compile_program, graph_key
from featherlane.graph.graph import Graph, simplify
from featherlane.graph.routine import Program
from featherlane.graph.trace import trace

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
Shapes = Mapping[str, tuple[int, ...]]
Evaluator = Callable[..., Any]  # (*arrays, out=) with the broadcasting of a generalised ufunc
LINE = 64  # bytes of a cache line, and of the widest vectors
WORTH_A_THREAD = 1 << 19  # numbers read and written by recorded steps before a second thread pays
ALWAYS = 1 << 40  # states
FEW = 16  # bytes of the vectors of few states: less to fetch and keep
WORTH_UNLOCKING = 1 << 13  # such numbers before others may run Python meanwhile: about 10 us

# Worker threads: one pool for the process, kept alive, made anew after a fork

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _forget_pool() -> None:
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


@cache
def physical_cores() -> int:
    """The cores that this process may use, two threads of one core counting once."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    siblings = set()
    for core in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        siblings.add(path.read_text().strip() if path.exists() else str(core))
    return len(siblings) or 1


def _workers() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(physical_cores(), 64), thread_name_prefix="featherlane")
        return _pool


def _as_array(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: masks have no meaning here, fill it first")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        kind = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
        raise TypeError(
            f"{name} is a {kind}: this version takes NumPy arrays, pass np.asarray({name})"
        )
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that begins on a cache line, so that its rows may be stored past the caches."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def _fresh(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """For a result: small ones need not be aligned."""
    small = math.prod(shape) * dtype.itemsize < 4096
    return np.empty(shape, dtype) if small else aligned(shape, dtype)


def common_dtype(arrays: Mapping[str, Any]) -> np.dtype:
    """float32 if every array of floats is float32, float64 if none is; integers and lists
    follow.
    """
    single, other = None, None
    for name, value in arrays.items():
        array = _as_array(name, value)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise TypeError(
                f"{name} has dtype {array.dtype}: wanted real numbers, float32 or float64"
            )
        if array.dtype.type is np.float32:  # in any byte order
            single = single or name
        elif array.dtype.kind == "f" and isinstance(value, np.ndarray):
            other = other or name
    if single and other:
        have = _as_array(other, arrays[other]).dtype
        raise TypeError(
            f"{single} is float32 but {other} is {have}: float32 is not promoted silently, "
            f"convert one of them with .astype(...)"
        )
    return F32 if single else F64


def _packed(*results: np.ndarray) -> tuple[np.ndarray, ...]:
    return results


def _type_of(collect: Callable[..., Any] | None) -> type[tuple] | None:
    """What several results are returned in, if it is a tuple, perhaps with names."""
    if collect is None:
        return tuple
    return collect if isinstance(collect, type) and issubclass(collect, tuple) else None


@cache
def _front() -> machine.Code:
    make = lambda: machine.machine_code(front.source())
    return machine.Code(disk.fetch(f"front {machine.target()}", make), ("call",))


class Few(NamedTuple):
    """How calls of few states are computed: kernels of as many lanes as they have states at most.
    across: whether one state fills vectors by itself, with columns of its matrices.
    """

    kernel: Callable[[np.dtype, int], Kernel]
    across: bool = False

    def lanes(self, dtype: np.dtype) -> int:
        return 1 if self.across else FEW // dtype.itemsize


class Function:
    """A batched function of arrays, compiled for a dtype when it is first called with it.

    Arrays have the core shapes of `inputs` behind any leading dimensions, which broadcast as
    NumPy's do; results are arrays with the core shapes of `outputs`, all of them in a tuple (or
    what `collect` makes of it) if there are several. float32 in gives float32 out, all else is
    float64. The results of a state have the same bits in every batch, at every position, with any
    number of threads; only where `method="auto"` goes by the number of states, for inverse dynamics
    of long chains, are they rounded in different ways.
    """

    def __init__(
        self,
        name: str,
        inputs: Shapes,
        outputs: Shapes,
        kernel: Callable[[np.dtype], Kernel | Evaluator],
        collect: Callable[..., Any] | None = None,
        explain: Callable[[str, tuple[int, ...]], str] = lambda name, shape: "",
        few: Few | None = None,
    ) -> None:
        self.name, self.inputs, self.outputs = name, dict(inputs), dict(outputs)
        self._kernel, self._collect, self._explain = kernel, collect or _packed, explain
        self._type = _type_of(collect)
        self._numbers = sum(map(math.prod, (*inputs.values(), *outputs.values())))  # of a state
        self._compiled: dict[np.dtype, tuple[Evaluator, Kernel | None, object]] = {}
        self._few = few
        self._narrow: dict[np.dtype, tuple[Evaluator, Kernel, object]] = {}
        self._call = self._through_numpy
        self.codes = 0  # that take calls by themselves

    def __repr__(self) -> str:
        def show(shapes: Shapes) -> str:
            return ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())

        return f"<Function {self.name}({show(self.inputs)}) -> ({show(self.outputs)})>"

    def ufunc(self, dtype: Any) -> Evaluator:
        """The generalised ufunc of one dtype, or what stands for it: compiled now if it is not
        yet.
        """
        dtype = np.dtype(dtype)
        if dtype not in self._compiled:  # two threads may both come here: the first wins
            kernel = self._kernel(dtype)
            if not isinstance(kernel, Kernel):
                return self._compiled.setdefault(dtype, (kernel, None, None))[0]
            self._compiled.setdefault(dtype, self._as_ufunc(kernel))
        return self._compiled[dtype][0]

    def kernel(self, dtype: Any) -> Kernel | None:
        """That of batches in one dtype, compiled now if it is not yet; None where recorded steps
        stand for it.
        """
        self.ufunc(dtype)
        return self._compiled[np.dtype(dtype)][1]

    def _as_ufunc(self, kernel: Kernel) -> tuple[Evaluator, Kernel, object]:
        shapes = [*self.inputs.values()], [*self.outputs.values()]
        made, alive = gufunc(self.name, kernel.code.address, kernel.dtype, *shapes)
        return made, kernel, alive

    def _ufunc_for(self, dtype: np.dtype, states: int) -> Evaluator:
        """That of few states has narrow vectors, if they are the first that come: bits are the
        same.
        """
        lanes = self._few.lanes(dtype) if self._few else 0
        if self._few is None or states > lanes or lanes >= machine.widest(dtype):
            return self.ufunc(dtype)
        if dtype not in self._narrow:
            if dtype in self._compiled:
                return self.ufunc(dtype)
            self._narrow.setdefault(dtype, self._as_ufunc(self._few.kernel(dtype, lanes)))
        return self._narrow[dtype][0]

    @property
    def compiled(self) -> tuple[np.dtype, ...]:
        """The dtypes it is compiled for."""
        return tuple(self._compiled | self._narrow)

    @property
    def singles(self) -> list[Any]:
        """What has code for single states, as its attribute `code`."""
        every = [*self._compiled.values(), *self._narrow.values()]
        made = [kernel or getattr(run, "single", None) for run, kernel, _ in every]
        return [kernel for kernel in made if kernel]

    def direct(
        self, pass_on: Callable[..., Any], doc: str = "", keywords: Sequence[str] = ()
    ) -> Callable[..., Any]:
        """A callable (*arrays, out=, threads=) that takes single states and plain batches of a
        compiled dtype by itself, and gives all else to `pass_on`. keywords: the names of the inputs
        if they may be given by name.
        """
        shapes = [*self.inputs.values()], [*self.outputs.values()]
        packed = self._type
        if packed is None or not direct.available() or max(map(len, chain(*shapes))) > direct.RANK:
            return pass_on
        for kernel in self.singles:
            pass_on = direct.callable_of(
                direct.Call(kernel.code.address, kernel.dtype, *shapes, *self._bounds(kernel)),
                _front().place("call"),
                pass_on,
                packed,
                name=self.name,
                doc=doc,
                keywords=keywords,
                alive=(_front(), kernel.code),
            )
        return pass_on

    def _bounds(self, kernel: Any) -> tuple[int, int]:
        """The states of the largest call for one thread, and of the smallest that gives the lock of
        the interpreter away.
        """
        most = 1
        if kernel in [narrow for _, narrow, _ in self._narrow.values()]:
            most = kernel.width
        elif isinstance(kernel, Kernel):
            most = self.load(kernel).alone() if physical_cores() > 1 else ALWAYS
        return most, -(-WORTH_UNLOCKING // self._numbers)

    def load(self, kernel: Kernel) -> Load:
        """What its calls ask of the machine."""
        return Load(kernel.slots, self._numbers * kernel.dtype.itemsize, kernel.width)

    def __call__(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        return self._call(*arrays, out=out, threads=threads)

    def _through_numpy(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        if len(arrays) != len(self.inputs):
            raise TypeError(
                f"{self.name} got {len(arrays)} arrays, "
                f"wanted {len(self.inputs)}: {', '.join(self.inputs)}"
            )
        named = dict(zip(self.inputs, arrays, strict=True))
        dtype = common_dtype(named)
        given = [np.asarray(_as_array(name, value), dtype) for name, value in named.items()]
        lead = self._batch_shape(given)
        results = None if out is None else self.results(out, lead, dtype)
        count = self._threads(threads, lead, dtype)
        ufunc = self._ufunc_for(dtype, math.prod(lead))
        made = results or tuple(_fresh(lead + shape, dtype) for shape in self.outputs.values())
        if count == 1:
            with np.errstate(all="ignore"):  # NaN in, NaN out: no warning, as for a single state
                ufunc(*given, out=made)
        else:
            self._spread(ufunc, given, made, lead, count)
        if self.codes != len(self.singles):
            self.codes, self._call = len(self.singles), self.direct(self._through_numpy)
        return made[0] if len(made) == 1 else self._several(made, out)

    def _several(self, results: tuple[np.ndarray, ...], out: Any) -> Any:
        """Several results as they are returned: `out` itself if it is of that type."""
        return out if type(out) is self._type else self._collect(*results)

    def batch_of(self, *arrays: Any) -> tuple[tuple[int, ...], np.dtype]:
        """The leading dimensions and the dtype of what a call with these arrays returns."""
        named = dict(zip(self.inputs, arrays, strict=True))
        given = [_as_array(name, value) for name, value in named.items()]
        return self._batch_shape(given), common_dtype(named)

    def _batch_shape(self, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
        leads = []
        for array, (name, core) in zip(arrays, self.inputs.items(), strict=True):
            cut = array.ndim - len(core)
            if cut < 0 or array.shape[cut:] != core:
                wanted = ", ".join(["...", *map(str, core)])
                hint = self._explain(name, array.shape)
                raise ValueError(
                    f"{name} has shape {array.shape}, wanted ({wanted}){hint and ': ' + hint}"
                )
            leads.append(array.shape[:cut])
        try:
            return np.broadcast_shapes(*leads)
        except ValueError:
            told = ", ".join(
                f"{name} {lead}" for name, lead in zip(self.inputs, leads, strict=True)
            )
            raise ValueError(f"the leading dimensions do not broadcast: {told}") from None

    def results(self, out: Any, lead: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, ...]:
        """The caller's arrays for the results, checked."""
        given = tuple(out) if isinstance(out, tuple | list) else (out,)
        if len(given) != len(self.outputs):
            raise ValueError(
                f"out has {len(given)} arrays, "
                f"wanted {len(self.outputs)}: {', '.join(self.outputs)}"
            )
        for array, (name, core) in zip(given, self.outputs.items(), strict=True):
            if not isinstance(array, np.ndarray):
                raise TypeError(f"out for {name} is {type(array).__name__}: wanted a NumPy array")
            if array.dtype != dtype:
                raise TypeError(f"out for {name} has dtype {array.dtype}, the result is {dtype}")
            if array.shape != lead + core:
                raise ValueError(
                    f"out for {name} has shape {array.shape}, the result has {lead + core}"
                )
            if not array.flags.writeable:
                raise ValueError(f"out for {name} is read-only")
        for i, array in enumerate(given):
            if any(np.may_share_memory(array, other) for other in given[:i]):
                raise ValueError(
                    "out names the same memory twice: each result needs an array of its own"
                )
        return given

    def _threads(self, asked: int | None, lead: tuple[int, ...], dtype: np.dtype) -> int:
        if asked is not None and (not isinstance(asked, int | np.integer) or asked < 1):
            raise ValueError(f"threads is {asked!r}: wanted a whole number, 1 or more")
        states = math.prod(lead)
        if states < 2:
            return 1
        return self._expected(states, dtype) if asked is None else min(int(asked), states)

    def _expected(self, states: int, dtype: np.dtype) -> int:
        """The threads from which the least time is expected."""
        if self._few is not None and states <= self._few.lanes(dtype):
            return 1
        kernel = self.kernel(dtype)
        if kernel is not None:
            return self.load(kernel).threads(states, physical_cores())
        return min(physical_cores(), states) if states * self._numbers >= WORTH_A_THREAD else 1

    def _spread(
        self,
        ufunc: Evaluator,
        arrays: Sequence[np.ndarray],
        results: tuple[np.ndarray, ...],
        lead: tuple[int, ...],
        count: int,
    ) -> None:
        """Parts of the batch on worker threads, and the first on this one; NumPy releases the GIL
        around each.
        """
        if any(np.may_share_memory(x, r) for r in results for x in arrays):
            arrays = [x.copy() for x in arrays]
        axis = int(np.argmax(lead))
        whole = [
            np.broadcast_to(x, lead + core)
            for x, core in zip(arrays, self.inputs.values(), strict=True)
        ]
        edges = np.linspace(0, lead[axis], min(count, lead[axis]) + 1).astype(int)

        def run(part: int) -> None:
            at = (slice(None),) * axis + (slice(edges[part], edges[part + 1]),)
            with np.errstate(all="ignore"):
                ufunc(*[x[at] for x in whole], out=tuple(r[at] for r in results))

        waiting = [_workers().submit(run, part) for part in range(1, len(edges) - 1)]
        run(0)
        for part in waiting:
            part.result()


def compile_function(
    function: Callable[..., Any] | Graph,
    inputs: Mapping[str, Any] | None = None,
    *,
    width: int | None = None,
) -> Function:
    """A function of your own on scalars, or a graph, as a batched `Function` of arrays.

    function: as `trace` takes it, with `inputs` naming the shape of each argument; or a traced (or
    differentiated) Graph. width: lanes of the vectors, by default the widest of the processor.
    """
    if isinstance(function, Graph):
        graph, name = simplify(function), "graph"
    elif inputs is None:
        raise TypeError(
            "inputs is missing: name the shape of each argument, as in {'q': 7, 'A': (3, 3)}"
        )
    else:
        graph, name = simplify(trace(function, inputs)), getattr(function, "__name__", "function")
    for kind, sizes in (
        ("input", graph.inputs),
        ("output", {k: out.shape for k, out in graph.outputs.items()}),
    ):
        for which, shape in sizes.items():
            if 0 in shape or len(shape) > 2:
                raise ValueError(
                    f"{kind} {which!r} has shape {shape}: "
                    "wanted up to two dimensions, none of them 0"
                )
    outputs = {k: out.shape for k, out in graph.outputs.items()}
    key = graph_key(graph)
    program = Program(graph, [])
    return Function(
        name,
        graph.inputs,
        outputs,
        lambda dtype: compile_program(lambda: program, key, dtype, width),
    )
