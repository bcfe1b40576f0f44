"""A kernel as a function of the user's arrays: compiled for a dtype when that is first asked for,
called by the shortest way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.backends.cpu import strides
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.threads.pool import physical_cores
from featherlane.backends.cpu.threads.share import (
    CallArrays,
    Evaluator,
    spread,
    spread_slices,
    task_of,
)
from featherlane.functions import arguments
from featherlane.functions.arguments import Explain, Shapes, alike
from featherlane.functions.fast_path import FastPath, Loops

WORTH_A_THREAD = 1 << 19  # numbers read and written by recorded steps before a second thread pays


def _packed(*results: np.ndarray) -> tuple[np.ndarray, ...]:
    return results


def _single_of(run: Any) -> Any:
    """The machine code for single states of recorded steps, if they made it."""
    return getattr(run, "single", None)


def _tuple_type(collect: Callable[..., Any] | None) -> type[tuple] | None:
    """The type of tuple that several results are returned in, perhaps with names."""
    if collect is None:
        return tuple
    return collect if isinstance(collect, type) and issubclass(collect, tuple) else None


def _signature(inputs: Shapes) -> Signature:
    """What tools show of a call: inputs by position or by name, and the options."""
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in ("out", "threads")]
    try:
        arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in inputs]
        return Signature([*arrays, *options])
    except ValueError:  # a name that Python does not take, or that of an option
        return Signature([Parameter("arrays", Parameter.VAR_POSITIONAL), *options])


class Form(NamedTuple):
    """A function in one dtype, with its kernel if it is one; alive is kept alive."""

    run: Evaluator
    kernel: Kernel | None = None
    alive: object = None


class Function:
    """A batched function of arrays, compiled for a dtype when it is first called with it.

    Arrays, by position or by name, have the core shapes of `inputs` behind any leading dimensions
    (up to 32), which broadcast as NumPy's do; results are arrays with the core shapes of
    `outputs`, all of them in a tuple (or what `collect` makes of it) if there are several. float32
    in gives float32 out, all else is float64. The results of a state have the same bits in every
    batch, at every position, with any number of threads; only where `method="auto"` goes by the
    number of states, for inverse dynamics of long chains, are they rounded in different ways.

    Raises ValueError or TypeError naming the argument, what came and what was wanted. A function of
    a model, or of a graph, can be pickled.
    """

    def __init__(
        self,
        name: str,
        inputs: Shapes,
        outputs: Shapes,
        kernel: Callable[[np.dtype], Kernel | Evaluator],
        collect: Callable[..., Any] | None = None,
        explain: Explain = lambda name, shape: "",
        single: Callable[[np.dtype], Kernel] | None = None,
        origin: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
    ) -> None:
        """single: what makes a kernel for one state, if it is not the one for more. origin: a
        function of a module and its arguments that give this function again, for pickles.
        """
        self.name, self.inputs, self.outputs = name, dict(inputs), dict(outputs)
        self._kernel, self._collect, self._explain = kernel, collect or _packed, explain
        self.packed = _tuple_type(collect)
        self.numbers = sum(map(math.prod, (*inputs.values(), *outputs.values())))  # of a state
        self._compiled: dict[np.dtype, Form] = {}
        self._single, self._origin = single, origin
        self._alone: dict[np.dtype, Form] = {}  # for one state
        self._tasks: dict[np.dtype, bytes] = {}  # of those whose calls take threads by themselves
        self.__signature__ = _signature(inputs)
        self._call = self._through_numpy
        self.paths: list[FastPath] = []
        self._served: tuple[Any, ...] = ()  # the code that fast paths know
        FastPath(self, "_call", self._through_numpy).serve(self)

    if TYPE_CHECKING:

        def __call__(
            self, /, *arrays: Any, out: Any = None, threads: int | None = None, **named: Any
        ) -> Any: ...
    else:  # the fast path itself, without a frame of Python before it: 0.27 us instead of 0.43
        __call__ = property(attrgetter("_call"))

    def __repr__(self) -> str:
        def show(shapes: Shapes) -> str:
            return ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())

        return f"<Function {self.name}({show(self.inputs)}) -> ({show(self.outputs)})>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._origin or super().__reduce_ex__(protocol)

    def ufunc(self, dtype: Any) -> Evaluator:
        """What computes batches in one dtype, a generalised ufunc or recorded steps: compiled now
        if it is not yet.
        """
        dtype = np.dtype(dtype)
        if dtype not in self._compiled:  # two threads may both come here: the first wins
            kernel = self._kernel(dtype)
            form = self._form_of(kernel) if isinstance(kernel, Kernel) else Form(kernel)
            self._compiled.setdefault(dtype, form)
        return self._compiled[dtype].run

    def kernel(self, dtype: Any) -> Kernel | None:
        """The kernel for batches in one dtype, compiled now if it is not yet; None where recorded
        steps compute them.
        """
        self.ufunc(dtype)
        return self._compiled[np.dtype(dtype)].kernel

    def _form_of(self, kernel: Kernel) -> Form:
        shapes = [*self.inputs.values()], [*self.outputs.values()]
        made, alive = gufunc(self.name, kernel.code.address, kernel.dtype, *shapes)
        return Form(made, kernel, alive)

    def _form(self, dtype: np.dtype, states: int) -> Form:
        """The compiled form for so many states: one state has a kernel of its own, compiled when
        the first comes, whatever came before. Its bits are those of the kernel for more.
        """
        if self._single is not None and (states == 1 or (not states and dtype in self._alone)):
            if dtype not in self._alone:
                self._alone.setdefault(dtype, self._form_of(self._single(dtype)))
            return self._alone[dtype]
        self.ufunc(dtype)
        return self._compiled[dtype]

    @property
    def compiled(self) -> tuple[np.dtype, ...]:
        """The dtypes it is compiled for."""
        return tuple(self._compiled | self._alone)

    def loops(self) -> list[Loops]:
        """The machine code that there is by now, for each dtype."""
        return [self._loops(dtype) for dtype in self.compiled]

    def _loops(self, dtype: np.dtype) -> Loops:
        batch, alone = self._compiled.get(dtype), self._alone.get(dtype)
        kernel = batch.kernel if batch else None
        single = alone.kernel if alone else _single_of(batch and batch.run)
        if self._single is None:
            single = single or kernel
        task = self._tasks.get(dtype, b"") if physical_cores() > 1 else b""
        return Loops(dtype, single, kernel, task)

    def load(self, kernel: Kernel) -> CallCost:
        """What its calls ask of the machine."""
        return CallCost(kernel.slots, self.numbers * kernel.dtype.itemsize, kernel.width)

    def _named(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a call by the names of the inputs, in their order."""
        if not named and len(arrays) == len(self.inputs):
            return dict(zip(self.inputs, arrays, strict=True))
        wanted = f"wanted {len(self.inputs)}: {', '.join(self.inputs)}"
        given = dict(zip(self.inputs, arrays, strict=False))
        for name in named:
            if name not in self.inputs or name in given:
                what = "a second" if name in given else "an unknown"
                raise TypeError(f"{self.name} got {what} {name!r}, {wanted}")
        if len(arrays) + len(named) != len(self.inputs):
            raise TypeError(f"{self.name} got {len(arrays) + len(named)} arrays, {wanted}")
        given |= named
        return {name: given[name] for name in self.inputs}

    def _through_numpy(
        self, /, *arrays: Any, out: Any = None, threads: int | None = None, **named: Any
    ) -> Any:
        dtype, arrays_of = alike(self._named(arrays, named))
        given = [*arrays_of.values()]
        lead = arguments.lead_of(given, self.inputs, self._explain)
        results = None if out is None else self.results(out, lead, dtype)
        count = self._threads(threads, math.prod(lead), dtype)
        form = self._form(dtype, math.prod(lead))
        made = results or tuple(strides.fresh(lead + core, dtype) for core in self.outputs.values())
        if count == 1:
            if form.kernel is None:  # a ufunc sees to it by itself
                given = strides.unaliased(given, made)
            with np.errstate(all="ignore"):  # NaN in, NaN out: no warning, as for a single state
                form.run(*given, out=made)
        else:
            self._spread(form, given, made, lead, count, threads is None)
        self._renew()
        return made[0] if len(made) == 1 else self._several(made, out)

    def _renew(self) -> None:
        """Tells the fast paths of new machine code."""
        steps = [form.run for form in self._compiled.values() if form.kernel is None]
        code = len(self._compiled), len(self._alone), len(self._tasks), *map(_single_of, steps)
        if code != self._served and all(path.renew() for path in self.paths):
            self._served = code

    def _several(self, results: tuple[np.ndarray, ...], out: Any) -> Any:
        """Several results as they are returned: `out` itself if it is of that type."""
        return out if type(out) is self.packed else self._collect(*results)

    def batch_of(self, *arrays: Any) -> tuple[tuple[int, ...], np.dtype]:
        """The leading dimensions and the dtype of what a call with these arrays returns."""
        dtype, given = alike(self._named(arrays, {}))
        return arguments.lead_of(given.values(), self.inputs, self._explain), dtype

    def results(self, out: Any, lead: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, ...]:
        """The caller's arrays for the results, checked."""
        return arguments.results(out, self.outputs, lead, dtype)

    def _threads(self, asked: int | None, states: int, dtype: np.dtype) -> int:
        """The threads of a call: those asked for, or those that are expected to be the fastest."""
        asked = arguments.threads_asked(asked)
        if states < 2:
            return 1
        if asked is not None:
            return min(asked, states)
        kernel = self.kernel(dtype)
        if kernel is not None:
            return self.load(kernel).threads(states, physical_cores())
        return min(physical_cores(), states) if states * self.numbers >= WORTH_A_THREAD else 1

    def _spread(
        self,
        form: Form,
        given: Sequence[np.ndarray],
        made: tuple[np.ndarray, ...],
        lead: tuple[int, ...],
        count: int,
        automatic: bool,
    ) -> None:
        cores = [len(core) for core in chain(self.inputs.values(), self.outputs.values())]
        batch = CallArrays(given, made, cores, lead)
        if form.kernel is None:
            return spread_slices(batch, form.run, count)
        load, dtype = self.load(form.kernel), form.kernel.dtype
        self._tasks.setdefault(dtype, task_of(form.kernel, load, len(cores)))
        if not spread(batch, form.kernel, load, None if automatic else count):
            spread_slices(batch, form.run, count)
