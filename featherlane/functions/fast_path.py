"""Calls that machine code dispatches: which callables it replaces, and when it is renewed.

A fast path is a callable of CPython whose body is machine code (`backends/cpu/call`). It runs
kernels on single states and on batches along one leading dimension, in the dtypes that are
compiled, and hands every other call on to Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from threading import RLock
from typing import Any, NamedTuple, Protocol

import numpy as np

from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import native
from featherlane.backends.cpu.call import cpython, selftest, vectorcall
from featherlane.backends.cpu.call.cpython import OPTIONS
from featherlane.backends.cpu.compile import Kernel
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.threads.pool import ThreadPool, thread_pool
from featherlane.backends.llvm import jit

ALWAYS = 1 << 40  # states
WORTH_UNLOCKING = 1 << 13  # numbers read and written in about 10 us: others may run Python then
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
    of several results; paths: the fast paths that serve it; quaternion: the number of the input
    with a quaternion, and the entry where it begins.
    """

    name: str
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    numbers: int
    packed: type[tuple]
    paths: list[FastPath]
    quaternion: tuple[int, int] | None

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

    def __init__(self, owner: Any, name: str, fallback: Callable[..., Any]) -> None:
        self.owner, self.name, self.fallback = owner, name, fallback
        self.functions: list[Dispatched] = []

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
            call = self._calls(self.fallback)
            if call is not self.fallback:
                self._place(call)
        finally:
            _renewing.release()
        return True

    def _calls(self, pass_on: Callable[..., Any]) -> Callable[..., Any]:
        for function in self.functions:
            pass_on = machine_code_call(function, pass_on)
        return pass_on

    def _place(self, call: Callable[..., Any]) -> None:
        vars(self.owner)[self.name] = call


class MethodSignature(NamedTuple):
    """The arguments of a method beside those of a function.

    by_position, by_name: arguments that have chosen the function, which may follow its inputs by
    position, and further ones; in_time: whether dt has to be positive.
    """

    doc: str = ""
    by_position: Sequence[str] = ()
    by_name: Sequence[str] = ()
    in_time: bool = False


PLAIN = MethodSignature()


def machine_code_call(
    function: Dispatched,
    pass_on: Callable[..., Any],
    signature: MethodSignature = PLAIN,
) -> Callable[..., Any]:
    """Returns a callable (*arrays, out=, threads=) in machine code, with inputs by position or by
    name, which runs the kernels that the function has by now; pass_on: gets all other calls.
    """
    shapes = *function.inputs.values(), *function.outputs.values()
    if why_not_native() or max(map(len, shapes)) > cpython.RANK:
        return pass_on
    names = *function.inputs, *signature.by_position, *signature.by_name
    for loops in function.loops():
        pass_on = cpython.callable_of(
            _call_spec(function, loops, signature),
            entry_address("call_in_time" if signature.in_time else "call"),
            pass_on,
            function.packed,
            name=function.name,
            doc=signature.doc,
            keywords=() if set(OPTIONS) & set(function.inputs) else names,
            alive=(_entry_points(), loops),
        )
    return pass_on


def _call_spec(function: Dispatched, loops: Loops, signature: MethodSignature) -> cpython.CallSpec:
    single, batch = (part.code.address if part else 0 for part in (loops.single, loops.batch))
    pool = thread_pool() if loops.task else None
    return cpython.CallSpec(
        single,
        batch,
        loops.dtype,
        [*function.inputs.values()],
        [*function.outputs.values()],
        most=_most(function, loops.batch),
        unlocked=-(-WORTH_UNLOCKING // max(function.numbers, 1)),
        share=pool.code.address_of("share") if isinstance(pool, ThreadPool) else 0,
        task=loops.task,
        shapes=loops.shapes,
        by_position=len(signature.by_position),
        by_name=len(signature.by_name),
        time_step=[*function.inputs].index("dt") if signature.in_time else -1,
        quaternion=function.quaternion or (-1, 0),
    )


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
    return selftest.mismatch(_entry_points())


def entry_address(name: str) -> int:
    """The address of an entry point."""
    return _entry_points().address_of(name)


@cache
def _entry_points() -> jit.MachineCode:
    # The key is a name: in a warm call the text is not even printed
    return loaded("calls from CPython", vectorcall.source, vectorcall.ENTRIES)
