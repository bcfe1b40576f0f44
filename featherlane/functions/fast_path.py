"""Calls that machine code dispatches: which callables it replaces, and when it is renewed.

A fast path is a callable of CPython whose body is machine code (`backends/cpu/call`). It runs
kernels on single states and on batches along one leading dimension, in the dtypes that are
compiled, and hands every other call on to Python.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import cache
from itertools import chain
from threading import RLock
from typing import Any, NamedTuple, Protocol

import numpy as np

from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import native
from featherlane.backends.cpu.call import cpython, selftest, vectorcall
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.threads.pool import ThreadPool, thread_pool
from featherlane.backends.llvm import jit

ALWAYS = 1 << 40  # states
WORTH_UNLOCKING = 1 << 13  # numbers read and written in about 10 us: others may run Python then
OPTIONS = ("out", "threads")  # an input of such a name is passed by position
_renewing = RLock()  # two renewals at once could leave the older code in place


def _after_fork() -> None:
    """No thread renews in the forked process."""
    global _renewing
    _renewing = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Loops(NamedTuple):
    """The kernels of a function in one dtype, for one state and for more, with their machine code
    in `code`; None where there is none yet. task: the SharedTask of calls that threads share.
    """

    dtype: np.dtype
    single: Any
    batch: Kernel | None
    task: bytes
    shapes: tuple[tuple[int, ...], ...] = ()  # of arrays that the kernels take flat


class Dispatched(Protocol):
    """A function whose calls machine code can dispatch.

    inputs, outputs: core shapes by name; numbers: read and written of one state; packed: the type
    of several results; paths: the fast paths that serve it.
    """

    name: str
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    numbers: int
    packed: type[tuple]
    paths: list[FastPath]

    def loops(self) -> list[Loops]:
        """The kernels that are compiled so far, for each dtype."""

    def load(self, kernel: Kernel) -> CallCost:
        """The cost of calls of a kernel."""


class FastPath:
    """The machine code in the place of one method of an object.

    The code becomes an attribute of the object itself, which Python finds before the method of the
    class. It is renewed when a function that it serves has been compiled once more. Calls that it
    does not take go to `fallback`, the method.
    """

    def __init__(self, owner: Any, name: str, fallback: Callable[..., Any], doc: str = "") -> None:
        self.owner, self.name, self.fallback, self.doc = owner, name, fallback, doc
        self.functions: list[Dispatched] = []

    @staticmethod
    def serve_method(owner: Any, name: str, function: Dispatched) -> None:
        """Lets machine code take the calls of a function that has the name of a method of its
        owner, public or private, if its inputs are the method's first arguments. A method of a
        user's subclass stays as it is.
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

    def serve(self, function: Dispatched) -> None:
        """Takes calls of this function too, which has more or fewer inputs than the others."""
        if function not in self.functions:
            self.functions.append(function)
            self.functions.sort(key=lambda f: len(f.inputs), reverse=True)
            function.paths.append(self)

    def renew(self) -> bool:
        """Puts machine code for all kernels in place; False if another thread is doing so."""
        if not _renewing.acquire(blocking=False):
            return False
        try:
            call = self.fallback
            for function in self.functions:
                call = machine_code_call(function, call, self.doc)
            if call is not self.fallback:
                vars(self.owner)[self.name] = call
        finally:
            _renewing.release()
        return True


def machine_code_call(
    function: Dispatched, pass_on: Callable[..., Any], doc: str = ""
) -> Callable[..., Any]:
    """Returns a callable (*arrays, out=, threads=) in machine code, with inputs by position or by
    name, which runs the kernels that the function has by now; pass_on: gets all other calls.
    """
    shapes = [*function.inputs.values()], [*function.outputs.values()]
    pool = thread_pool() if any(loops.task for loops in function.loops()) else None
    if why_not_native() or max(map(len, chain(*shapes))) > cpython.RANK:
        return pass_on
    unlocked = -(-WORTH_UNLOCKING // max(function.numbers, 1))
    for loops in function.loops():
        single, batch = (part.code.address if part else 0 for part in (loops.single, loops.batch))
        share = pool.code.address_of("share") if loops.task and isinstance(pool, ThreadPool) else 0
        most = _most(function, loops.batch)
        call = cpython.CallSpec(
            single, batch, loops.dtype, *shapes, most, unlocked, share, loops.task, loops.shapes
        )
        pass_on = cpython.callable_of(
            call,
            _entry_point().address_of("call"),
            pass_on,
            function.packed,
            name=function.name,
            doc=doc,
            keywords=() if set(OPTIONS) & set(function.inputs) else tuple(function.inputs),
            alive=(_entry_point(), loops),
        )
    return pass_on


def _most(function: Dispatched, batch: Kernel | None) -> int:
    """Returns the states of the largest call for one thread."""
    if batch is None or physical_cores() == 1:
        return ALWAYS
    return function.load(batch).alone()


def why_not_native() -> str:
    """The reason why calls go through NumPy; empty if machine code takes them."""
    return native.refusal() or _tested()


@cache
def _tested() -> str:
    """The reason why this interpreter's calls cannot be taken; empty if they can."""
    if not cpython.available():
        return "objects of this interpreter do not lie in memory as machine code expects"
    return selftest.mismatch(_entry_point().address_of("call"))


@cache
def _entry_point() -> jit.MachineCode:
    # The key is a name: in a warm call the text is not even printed
    return loaded("calls from CPython", vectorcall.source, ("call",))


def _text_signature(method: Any) -> str:
    """Returns the signature as CPython reads it from the documentation of built-in methods."""
    signature = inspect.signature(method)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain)).replace("(self", "($self", 1)
