"""A kernel as a function of the user's arrays: compiled for a dtype when that is first asked for,
called by the shortest way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu import strides
from featherlane.backends.cpu.call import cpython as direct
from featherlane.backends.cpu.call import vectorcall
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.threads.pool import physical_cores, thread_pool
from featherlane.backends.cpu.threads.share import (
    CallArrays,
    Evaluator,
    spread,
    spread_slices,
    task_of,
)
from featherlane.backends.llvm import jit
from featherlane.functions import arguments
from featherlane.functions.arguments import Explain, Shapes, as_array, common_dtype

WORTH_A_THREAD = 1 << 19  # numbers read and written by recorded steps before a second thread pays
ALWAYS = 1 << 40  # states
WORTH_UNLOCKING = 1 << 13  # such numbers before others may run Python meanwhile: about 10 us


def _packed(*results: np.ndarray) -> tuple[np.ndarray, ...]:
    return results


def _type_of(collect: Callable[..., Any] | None) -> type[tuple] | None:
    """What several results are returned in, if it is a tuple, perhaps with names."""
    if collect is None:
        return tuple
    return collect if isinstance(collect, type) and issubclass(collect, tuple) else None


@cache
def _front() -> jit.MachineCode:
    return loaded("vectorcall", vectorcall.source, ("call",))


class Form(NamedTuple):
    """A function in one dtype, with its kernel if it is one; alive is kept alive."""

    run: Evaluator
    kernel: Kernel | None = None
    alive: object = None


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
        explain: Explain = lambda name, shape: "",
        single: Callable[[np.dtype], Kernel] | None = None,
    ) -> None:
        self.name, self.inputs, self.outputs = name, dict(inputs), dict(outputs)
        self._kernel, self._collect, self._explain = kernel, collect or _packed, explain
        self._type = _type_of(collect)
        self._numbers = sum(map(math.prod, (*inputs.values(), *outputs.values())))  # of a state
        self._compiled: dict[np.dtype, Form] = {}
        self._single = single  # what makes a kernel for one state
        self._alone: dict[np.dtype, Form] = {}
        self._tasks: dict[np.dtype, bytes] = {}  # of those whose calls take threads by themselves
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
            form = self._form_of(kernel) if isinstance(kernel, Kernel) else Form(kernel)
            self._compiled.setdefault(dtype, form)
        return self._compiled[dtype].run

    def kernel(self, dtype: Any) -> Kernel | None:
        """That of batches in one dtype, compiled now if it is not yet; None where recorded steps
        stand for it.
        """
        self.ufunc(dtype)
        return self._compiled[np.dtype(dtype)].kernel

    def _form_of(self, kernel: Kernel) -> Form:
        shapes = [*self.inputs.values()], [*self.outputs.values()]
        made, alive = gufunc(self.name, kernel.code.address, kernel.dtype, *shapes)
        return Form(made, kernel, alive)

    def _form(self, dtype: np.dtype, states: int) -> Form:
        """That of single states has code of its own, if they are the first that come: bits are the
        same.
        """
        if self._single is not None and states <= 1:
            if dtype not in self._alone and dtype not in self._compiled:
                self._alone.setdefault(dtype, self._form_of(self._single(dtype)))
            if dtype in self._alone:
                return self._alone[dtype]
        self.ufunc(dtype)
        return self._compiled[dtype]

    @property
    def compiled(self) -> tuple[np.dtype, ...]:
        """The dtypes it is compiled for."""
        return tuple(self._compiled | self._alone)

    @property
    def singles(self) -> list[Any]:
        """What has code for single states, as its attribute `code`."""
        every = [*self._compiled.values(), *self._alone.values()]
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
            most, task = self._bound(kernel)
            share = thread_pool().code.place("share") if task else 0
            pass_on = direct.callable_of(
                direct.CallSpec(
                    kernel.code.address, kernel.dtype, *shapes, most, self._unlocked(), share, task
                ),
                _front().place("call"),
                pass_on,
                packed,
                name=self.name,
                doc=doc,
                keywords=keywords,
                alive=(_front(), kernel.code, task),
            )
        return pass_on

    def _bound(self, kernel: Any) -> tuple[int, bytes]:
        """The states of the largest call for one thread, and what is shared if there are more and
        workers for them.
        """
        if not isinstance(kernel, Kernel):
            return 1, b""
        if kernel in [form.kernel for form in self._alone.values()]:
            return kernel.width, b""
        if physical_cores() == 1:
            return ALWAYS, b""
        return self.load(kernel).alone(), self._tasks.get(kernel.dtype, b"")

    def _unlocked(self) -> int:
        """The states of the smallest call that gives the lock of the interpreter away."""
        return -(-WORTH_UNLOCKING // self._numbers)

    def load(self, kernel: Kernel) -> CallCost:
        """What its calls ask of the machine."""
        return CallCost(kernel.slots, self._numbers * kernel.dtype.itemsize, kernel.width)

    def __call__(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        return self._call(*arrays, out=out, threads=threads)

    def _named(self, arrays: Sequence[Any]) -> dict[str, Any]:
        if len(arrays) != len(self.inputs):
            raise TypeError(
                f"{self.name} got {len(arrays)} arrays, "
                f"wanted {len(self.inputs)}: {', '.join(self.inputs)}"
            )
        return dict(zip(self.inputs, arrays, strict=True))

    def _through_numpy(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        named = self._named(arrays)
        dtype = common_dtype(named)
        given = [np.asarray(as_array(name, value), dtype) for name, value in named.items()]
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
        if self.codes != len(self.singles) + len(self._tasks):
            self.codes = len(self.singles) + len(self._tasks)
            self._call = self.direct(self._through_numpy)
        return made[0] if len(made) == 1 else self._several(made, out)

    def _several(self, results: tuple[np.ndarray, ...], out: Any) -> Any:
        """Several results as they are returned: `out` itself if it is of that type."""
        return out if type(out) is self._type else self._collect(*results)

    def batch_of(self, *arrays: Any) -> tuple[tuple[int, ...], np.dtype]:
        """The leading dimensions and the dtype of what a call with these arrays returns."""
        named = self._named(arrays)
        given = [as_array(name, value) for name, value in named.items()]
        return arguments.lead_of(given, self.inputs, self._explain), common_dtype(named)

    def results(self, out: Any, lead: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, ...]:
        """The caller's arrays for the results, checked."""
        return arguments.results(out, self.outputs, lead, dtype)

    def _threads(self, asked: int | None, states: int, dtype: np.dtype) -> int:
        """As many as are asked for, or those from which the least time is expected."""
        asked = arguments.threads_asked(asked)
        if states < 2:
            return 1
        if asked is not None:
            return min(asked, states)
        kernel = self.kernel(dtype)
        if kernel is not None:
            return self.load(kernel).threads(states, physical_cores())
        return min(physical_cores(), states) if states * self._numbers >= WORTH_A_THREAD else 1

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
