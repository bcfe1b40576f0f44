"""Plain calls in machine code: which callables have it, when it is renewed, and the Python behind.

A fast path is a callable of CPython whose body is machine code (`backends/cpu/call`). It takes
single states and plain batches of the dtypes that have kernels, and hands all else to Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from itertools import chain
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.backends.cpu.call import cpython, vectorcall
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.threads.pool import physical_cores, thread_pool
from featherlane.backends.llvm import jit

if TYPE_CHECKING:
    from featherlane.functions.function import Function

ALWAYS = 1 << 40  # states
WORTH_UNLOCKING = 1 << 13  # numbers read and written before others may run Python: about 10 us
OPTIONS = {"out", "threads"}  # an input of such a name is given by position
_renewing = RLock()  # an older choice of code must not replace a newer one


class Loops(NamedTuple):
    """What computes a function in one dtype: loops for one state and for more, as objects with
    their machine code in `code`; task: what threads are told of the second.
    """

    dtype: np.dtype
    single: Any
    batch: Kernel | None
    task: bytes


class FastPath:
    """Machine code for the plain calls of one method of an object.

    The code becomes an attribute of the object, which Python finds before the method of its class.
    It is renewed when one of the functions behind it has more loops than before; what it does not
    take goes to `fallback`, the method itself.
    """

    def __init__(self, owner: Any, name: str, fallback: Callable[..., Any], doc: str = "") -> None:
        self.owner, self.name, self.fallback, self.doc = owner, name, fallback, doc
        self.functions: list[Function] = []

    @staticmethod
    def serve_method(owner: Any, name: str, function: Function) -> None:
        """Serves a function that has the name of a method of its owner, public or private, where
        the inputs are the method's first arguments. A method of a user's subclass stays as it is.
        """
        name = name if hasattr(type(owner), name) else f"_{name}"
        method = getattr(type(owner), name, None)
        if method is None or not method.__module__.startswith("featherlane."):
            return
        taken = [*inspect.signature(method).parameters][1:]
        if taken[: len(function.inputs)] == [*function.inputs]:
            doc = f"{name}{_text_signature(method)}\n--\n\n{method.__doc__}"
            path = FastPath(owner, name, method.__get__(owner), doc)
            vars(owner).setdefault("_fast_paths", {}).setdefault(name, path).serve(function)

    def serve(self, function: Function) -> None:
        """Takes the plain calls of one more function, of other inputs than those before."""
        self.functions.append(function)
        self.functions.sort(key=lambda f: len(f.inputs), reverse=True)
        function.paths.append(self)

    def renew(self) -> bool:
        """Puts all code of now in place; False if another thread is about it just then."""
        if not _renewing.acquire(blocking=False):
            return False
        try:
            call = self.fallback
            for function in self.functions:
                call = straight(function, call, self.doc)
            if call is not self.fallback:
                vars(self.owner)[self.name] = call
        finally:
            _renewing.release()
        return True


def straight(function: Function, pass_on: Callable[..., Any], doc: str = "") -> Callable[..., Any]:
    """A callable (*arrays, out=, threads=) that takes plain calls of the function by itself, with
    inputs by position or by name, and gives all else to `pass_on`.
    """
    shapes = [*function.inputs.values()], [*function.outputs.values()]
    packed = function.packed
    if packed is None or not cpython.available():
        return pass_on
    if max(map(len, chain(*shapes))) > cpython.RANK:
        return pass_on
    unlocked = -(-WORTH_UNLOCKING // function.numbers)
    for loops in function.loops():
        single, batch = (part.code.address if part else 0 for part in (loops.single, loops.batch))
        share = thread_pool().code.place("share") if loops.task else 0
        options = _most(function, loops.batch), unlocked, share, loops.task
        pass_on = cpython.callable_of(
            cpython.CallSpec(single, batch, loops.dtype, *shapes, *options),
            _front().place("call"),
            pass_on,
            packed,
            name=function.name,
            doc=doc,
            keywords=() if OPTIONS & set(function.inputs) else tuple(function.inputs),
            alive=(_front(), loops),
        )
    return pass_on


def _most(function: Function, batch: Kernel | None) -> int:
    """The states of the largest call for one thread."""
    if batch is None or physical_cores() == 1:
        return ALWAYS
    return function.load(batch).alone()


@cache
def _front() -> jit.MachineCode:
    return loaded("vectorcall", vectorcall.source, ("call",))


def _text_signature(method: Any) -> str:
    """The signature in the form that CPython reads from the documentation of built-in methods."""
    told = inspect.signature(method)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in told.parameters.values()]
    return str(inspect.Signature(plain)).replace("(self", "($self", 1)
