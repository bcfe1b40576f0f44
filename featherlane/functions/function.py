"""Functions of the user's arrays, compiled for a dtype at the first call with it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from inspect import Parameter, Signature
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import results as memory
from featherlane.backends.cpu import scratch, strides
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.threads.pool import ThreadPool, thread_pool
from featherlane.backends.cpu.threads.share import (
    CallArrays,
    Evaluator,
    spread,
    spread_slices,
    task_of,
)
from featherlane.errors import CompileError, did_you_mean
from featherlane.functions import arguments, foreign_arrays, on_device
from featherlane.functions.arguments import Explain, Shapes, alike
from featherlane.functions.array_like import ArrayLike, Outs, Threads
from featherlane.functions.fast_path import OPTIONS, FastPath, Loops
from featherlane.functions.tensor_calls import TensorCalls
from featherlane.program.array import call_states
from featherlane.program.graph import Graph

if TYPE_CHECKING:
    from featherlane.backends.cpu.call import xla
    from featherlane.backends.cuda.calls import DeviceFunction
    from featherlane.functions.gpu import OnGPU

WORTH_A_THREAD = 1 << 19  # numbers read and written by recorded steps before a second thread pays


def _single_of(run: Any) -> Any:
    """Returns the machine code of recorded steps for single states, if it was made."""
    return getattr(run, "single", None)


def _signature(inputs: Shapes) -> Signature:
    """Returns the signature for `inspect`: inputs by position or by name, and the options."""
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS]
    try:
        arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in inputs]
        return Signature([*arrays, *options])
    except ValueError:  # a name that Python does not take, or that of an option
        return Signature([Parameter("arrays", Parameter.VAR_POSITIONAL), *options])


def kernel_name(name: str) -> str:
    """A name that a kernel can have: that of a lambda is none in PTX, nor are some words."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    is_taken = name in ("memory", "WARP_SZ") or not name.strip("_")
    return f"f_{name}" if is_taken or not name.isascii() else name


class Form(NamedTuple):
    """A function compiled for one dtype. kernel: None where recorded steps compute it."""

    run: Evaluator
    kernel: Kernel | None = None
    alive: object = None  # what `run` needs


class FunctionKernels:
    """The kernels of a function, which are compiled when they are first asked for.

    has_single: whether calls with one state have a kernel of their own; gpu: how GPUs run the
    function, None if they do not.
    """

    has_single = False
    gpu: OnGPU | None = None

    def batch(self, dtype: np.dtype) -> Kernel | Evaluator:
        """The kernel for batches, or the evaluator of recorded steps."""
        raise NotImplementedError

    def single(self, dtype: np.dtype) -> Kernel:
        """The kernel for one state, if `has_single`."""
        raise NotImplementedError

    def graph(self) -> Graph | None:
        """The graph that calls with traced arrays enter; None if there is none."""
        return None

    def mapped(self, mapping: str) -> FunctionKernels:
        """These kernels with another mapping of work to the threads of GPUs."""
        assert self.gpu is not None, "the caller has asked"
        kernels = copy(self)
        kernels.gpu = self.gpu.mapped(mapping)
        return kernels


class KernelsByDtype(FunctionKernels):
    """Kernels, or evaluators, that a function `make` returns for each dtype."""

    def __init__(
        self,
        make: Callable[[np.dtype], Kernel | Evaluator],
        graph: Callable[[], Graph | None] | None = None,
        gpu: OnGPU | None = None,
    ) -> None:
        self._make, self._graph, self.gpu = make, graph, gpu

    def batch(self, dtype: np.dtype) -> Kernel | Evaluator:
        return self._make(dtype)

    def graph(self) -> Graph | None:
        return None if self._graph is None else self._graph()


class Function:
    """A batched function of arrays, compiled for a dtype at the first call with that dtype.

    f(*arrays, out=None, threads=None): arrays, by position or by name, have the core shapes of
    `inputs` after up to 32 leading dimensions, which broadcast as in NumPy. Results are arrays with
    the core shapes of `outputs`; several results are returned in a tuple or the named tuple
    `collect`. float32 inputs give float32 results, all others float64. Arrays of PyTorch, JAX and
    other packages give results of that package, computed where the arrays live: on the CPU, or on a
    GPU without waiting for it (docs/gpu.md). `out`: arrays for the results. `threads`: the largest
    number of threads. The results for a state are bit-identical in every batch, at every position
    and with any number of threads, except for inverse dynamics of long chains, where
    `method="auto"` depends on the number of states.

    Raises ValueError or TypeError with the argument's name, its value and what was expected, and
    MemoryError if there is no memory for workspaces. Functions of models and of graphs can be
    pickled.

    Examples:
        >>> f = arm.function("inverse_dynamics")
        >>> f
        <Function inverse_dynamics(q[2], v[2], a[2]) -> (tau[2])>
        >>> f(np.zeros((100, 2), "f4"), np.zeros(2, "f4"), np.zeros(2, "f4")).dtype
        dtype('float32')
    """

    def __init__(
        self,
        name: str,
        inputs: Shapes,
        outputs: Shapes,
        kernels: FunctionKernels,
        collect: type[tuple] | None = None,
        explain: Explain = lambda name, shape: "",
        origin: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
        quaternion: tuple[int, int] | None = None,
    ) -> None:
        """collect: the named tuple of several results; explain: says the likely confusion behind a
        wrong shape; origin: a module's function and its arguments, from which unpickling makes this
        again; quaternion: the number of an input, and the entry where its first quaternion begins,
        which is refused where all of it is 0 in the first state of a call.
        """
        self.name, self.inputs, self.outputs = name, dict(inputs), dict(outputs)
        self.kernels, self._origin, self.quaternion = kernels, origin, quaternion
        self._on_gpu: dict[np.dtype, DeviceFunction] = {}
        self._tensor_calls = TensorCalls()
        self._explain, self.packed = explain, collect or tuple
        self.numbers = sum(map(math.prod, chain(inputs.values(), outputs.values())))  # of a state
        self._compiled: dict[np.dtype, Form] = {}
        self._compiled_single: dict[np.dtype, Form] = {}  # for one state
        self._tasks: dict[np.dtype, bytes] = {}  # of kernels that have run on several threads
        self.__signature__ = _signature(inputs)
        self._call = self._through_numpy
        self.paths: list[FastPath] = []
        self._known_to_paths: tuple[Any, ...] = ()
        FastPath(self, "_call", self._through_numpy).serve(self)

    if TYPE_CHECKING:

        def __call__(
            self,
            /,
            *arrays: ArrayLike,
            out: Outs = None,
            threads: Threads = None,
            **named: ArrayLike,
        ) -> Any: ...
    else:  # Python calls the fast path itself: 0.27 us, where a method that does so takes 0.43
        __call__ = property(attrgetter("_call"))

    def __repr__(self) -> str:
        def show(shapes: Shapes) -> str:
            return ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())

        return f"<Function {self.name}({show(self.inputs)}) -> ({show(self.outputs)})>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._origin or super().__reduce_ex__(protocol)

    def ufunc(self, dtype: Any) -> Evaluator:
        """The generalised ufunc for batches in one dtype, or recorded steps, compiled now."""
        return self._batch_form(np.dtype(dtype)).run

    def kernel(self, dtype: Any) -> Kernel | None:
        """The kernel for batches in one dtype, compiled if necessary; None for recorded steps."""
        return self._batch_form(np.dtype(dtype)).kernel

    def xla_handler(self, dtype: Any) -> xla.XlaHandler | None:
        """A handler by which XLA calls the kernel in one dtype; None for recorded steps."""
        from featherlane.backends.cpu.call import xla

        kernel = self.kernel(dtype)
        if kernel is None:
            return None
        shapes = [*self.inputs.values()], [*self.outputs.values()]
        pool = thread_pool() if physical_cores() > 1 else None
        if not isinstance(pool, ThreadPool):
            return xla.XlaHandler(kernel, *shapes)
        pool.grow(physical_cores())
        task = task_of(kernel, self.load(kernel), sum(map(len, shapes)))
        return xla.XlaHandler(kernel, *shapes, pool.code.address_of("share"), task)

    @property
    def gpu(self) -> OnGPU | None:
        """The kernels for GPUs; None if GPUs do not run this function."""
        return self.kernels.gpu

    def on_gpu(self, dtype: np.dtype) -> DeviceFunction:
        """The kernels for GPUs in one dtype."""
        if self.gpu is None:
            raise CompileError(f"{self.name} has no kernels for GPUs: pass arrays on the CPU")
        if dtype not in self._on_gpu:
            self._on_gpu.setdefault(dtype, self.gpu.function(kernel_name(self.name), dtype))
        return self._on_gpu[dtype]

    def mapped(self, mapping: str | None) -> Function:
        """This function with another mapping of its work to the threads of GPUs."""
        if mapping is None:
            return self
        if self.gpu is None:
            raise CompileError(f"{self.name} has no kernels for GPUs, and so no mapping")
        return Function(
            self.name,
            self.inputs,
            self.outputs,
            self.kernels.mapped(mapping),
            self.packed,
            self._explain,
            (Function.mapped, (self, mapping)),
            self.quaternion,
        )

    def explain(self, name: str, shape: tuple[int, ...]) -> str:
        """The likely confusion behind a wrong shape."""
        return self._explain(name, shape)

    def prepare(self, dtype: Any, single: bool = False) -> None:
        """Compiles for one dtype; single: also for calls with one state."""
        self._batch_form(np.dtype(dtype))
        if single:
            self._form(np.dtype(dtype), 1)

    def _batch_form(self, dtype: np.dtype) -> Form:
        if dtype not in self._compiled:  # two threads may both come here: the first wins
            kernel = self.kernels.batch(dtype)
            form = self._form_of(kernel) if isinstance(kernel, Kernel) else Form(kernel)
            self._compiled.setdefault(dtype, form)
        return self._compiled[dtype]

    def _form_of(self, kernel: Kernel) -> Form:
        shapes = [*self.inputs.values()], [*self.outputs.values()]
        ufunc, alive = gufunc(self.name, kernel.code.address, kernel.dtype, *shapes)
        return Form(ufunc, kernel, alive)

    def _form(self, dtype: np.dtype, states: int) -> Form:
        """Returns the compiled form for so many states. One state has its own kernel, compiled at
        the first such call; the results are bit-identical to the other kernel's.
        """
        singles = self._compiled_single
        if self.kernels.has_single and (states == 1 or (not states and dtype in singles)):
            if dtype not in singles:
                singles.setdefault(dtype, self._form_of(self.kernels.single(dtype)))
            return singles[dtype]
        return self._batch_form(dtype)

    @property
    def compiled(self) -> tuple[np.dtype, ...]:
        """The dtypes it is compiled for."""
        return tuple(self._compiled | self._compiled_single)

    def loops(self) -> list[Loops]:
        """Returns the kernels that are compiled so far, for each dtype."""
        return [self._loops(dtype) for dtype in self.compiled]

    def _loops(self, dtype: np.dtype) -> Loops:
        batch, alone = self._compiled.get(dtype), self._compiled_single.get(dtype)
        if flat := getattr(batch and batch.run, "flat", None):
            shapes = *flat.inputs.values(), *flat.outputs.values()
            return flat._loops(dtype)._replace(task=b"", shapes=shapes)
        kernel = batch.kernel if batch else None
        single = alone.kernel if alone else _single_of(batch and batch.run)
        if not self.kernels.has_single:
            single = single or kernel
        task = self._tasks.get(dtype, b"") if physical_cores() > 1 else b""
        return Loops(dtype, single, kernel, task)

    def load(self, kernel: Kernel) -> CallCost:
        """Returns what calls of a kernel cost."""
        return CallCost(kernel.slots, self.numbers * kernel.dtype.itemsize, kernel.width)

    def _named(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arrays of a call by the names of the inputs, in their order."""
        if not named and len(arrays) == len(self.inputs):
            return dict(zip(self.inputs, arrays, strict=True))
        wanted = f"wanted {len(self.inputs)}: {', '.join(self.inputs)}"
        values = dict(zip(self.inputs, arrays, strict=False))
        for name in named:
            if name not in self.inputs or name in values:
                if name in values:
                    raise TypeError(f"{self.name} got a second {name!r}, {wanted}")
                meant = did_you_mean(name, [*self.inputs, "out", "threads"])
                raise TypeError(f"{self.name} got an unknown {name!r}, {wanted}{meant}")
        values |= named
        missing = [name for name in self.inputs if name not in values]
        if missing:
            raise TypeError(f"{self.name} misses {', '.join(missing)}: {wanted}")
        if len(arrays) > len(self.inputs):
            raise TypeError(f"{self.name} got {len(arrays)} arrays, {wanted}")
        return {name: values[name] for name in self.inputs}

    def _through_numpy(
        self, /, *arrays: Any, out: Any = None, threads: int | None = None, **named: Any
    ) -> Any:
        named = self._named(arrays, named)
        try:
            dtype, arrays_of = alike(named)
            inputs = [*arrays_of.values()]
            lead = arguments.lead_of(inputs, self.inputs, self._explain)
            if dtype == arguments.TRACED:
                return self._in_trace(arrays_of, lead, out)
            if self.quaternion is not None:
                arguments.check_quaternion(arrays_of, *self.quaternion)
            results = None if out is None else self.results(out, lead, dtype)
        except foreign_arrays.ForeignArrayError:
            if on_device.any_on_device((*named.values(), *on_device.outs(out))):
                return self._collected(self._call_on_device(named, out))
            return foreign_arrays.call(self, named, out, threads=threads)
        asked, states = arguments.threads_asked(threads), math.prod(lead)
        form = self._form(dtype, states)
        count = self._threads(asked, states, form)
        filled = results or tuple(
            memory.fresh(lead + core, dtype) for core in self.outputs.values()
        )
        with scratch.checked(self.name):
            if count == 1:
                # NumPy copies inputs that overlap results, but not one that is exactly a result,
                # and the kernel of one state stores results before it has read all inputs
                if form.kernel is None or states == 1:
                    inputs = strides.unaliased(inputs, filled)
                with np.errstate(
                    all="ignore"
                ):  # NaN in, NaN out: no warning, as for a single state
                    form.run(*inputs, out=filled)
            else:
                self._spread(form, inputs, filled, lead, count, threads is None)
        self._renew()
        return out if type(out) is self.packed and len(filled) > 1 else self._collected(filled)

    def _collected(self, results: tuple[Any, ...]) -> Any:
        """A single result as it is, several in the tuple of this function."""
        if len(results) == 1:
            return results[0]
        return results if self.packed is tuple else self.packed(*results)

    def _call_on_device(self, arrays: Mapping[str, Any], out: Any) -> tuple[Any, ...]:
        shapes, before = (self.inputs, self.outputs), self._tensor_calls
        return on_device.call(arrays, out, *shapes, self._explain, self.on_gpu, before)

    def _in_trace(self, arrays: Mapping[str, np.ndarray], lead: tuple[int, ...], out: Any) -> Any:
        """Returns traced results for traced arguments: enters the graph of each state."""
        if out is not None:
            raise TypeError(f"out= of {self.name} in a trace: use the result, it is an array")
        graph = self.kernels.graph()
        if graph is None:
            raise TypeError(f"{self.name} has no graph: it can't be called in a trace")
        return self._collected(tuple(call_states(graph, arrays, lead)))

    def _renew(self) -> None:
        """Renews the fast paths if there are more kernels than they know."""
        steps = [_single_of(form.run) for form in self._compiled.values() if form.kernel is None]
        counts = len(self._compiled), len(self._compiled_single), len(self._tasks)
        if (*counts, *steps) != self._known_to_paths and all(path.renew() for path in self.paths):
            self._known_to_paths = *counts, *steps

    def batch_of(self, *arrays: Any) -> tuple[tuple[int, ...], np.dtype]:
        """Returns the leading dimensions and the dtype of a call's results."""
        dtype, inputs = alike(self._named(arrays, {}))
        return arguments.lead_of(inputs.values(), self.inputs, self._explain), dtype

    def results(self, out: Any, lead: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, ...]:
        """Returns the caller's arrays for the results, checked."""
        return arguments.results(out, self.outputs, lead, dtype)

    def _threads(self, asked: int | None, states: int, form: Form) -> int:
        """Returns how many threads run a call: as many as asked for, or the expected fastest."""
        if states < 2:
            return 1
        if asked is not None:
            return min(asked, states)
        if form.kernel is not None:
            return self.load(form.kernel).threads(states, physical_cores())
        return min(physical_cores(), states) if states * self.numbers >= WORTH_A_THREAD else 1

    def _spread(
        self,
        form: Form,
        inputs: Sequence[np.ndarray],
        filled: tuple[np.ndarray, ...],
        lead: tuple[int, ...],
        count: int,
        automatic: bool,
    ) -> None:
        cores = [len(core) for core in chain(self.inputs.values(), self.outputs.values())]
        batch = CallArrays(inputs, filled, cores, lead)
        if form.kernel is None:
            return spread_slices(batch, form.run, count)
        load, dtype = self.load(form.kernel), form.kernel.dtype
        self._tasks.setdefault(dtype, task_of(form.kernel, load, len(cores)))
        if not spread(batch, form.kernel, load, None if automatic else count):
            spread_slices(batch, form.run, count)
