"""A test of the entry points on the present interpreter: a tiny loop is called through them and as
a generalised ufunc of NumPy, with arguments that they serve, and with some that they hand on.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu.call import choices, cpython, wrenches_at_frames
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.linked import loaded_text
from featherlane.backends.llvm import jit
from featherlane.backends.llvm.macros import expanded

# y = s x and z = -x for x of two numbers and a number s, state by state
LOOP = expanded("""
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {
  %states = item i64 %dims 0
  %x0 = item ptr %args 0
  %s0 = item ptr %args 1
  %y0 = item ptr %args 2
  %z0 = item ptr %args 3
  each %n 0 %states
  %x = at %x0 $(mul i64 %n, $(item i64 %steps 0))
  %s = at %s0 $(mul i64 %n, $(item i64 %steps 1))
  %y = at %y0 $(mul i64 %n, $(item i64 %steps 2))
  %z = at %z0 $(mul i64 %n, $(item i64 %steps 3))
  %factor = item double %s 0
  each %k 0 2
  %value = item double %x %k
  put double $(fmul double %value, %factor) %y %k
  put double $(fneg double %value) %z %k
  again %k
  again %n
  ret void
}
""")
Pair = namedtuple("Pair", "product negative")
SHAPES = [(2,), ()], [(2,), (2,)]
HANDED_ON = "handed on"


class Fronts(NamedTuple):
    """Callables in machine code: of plain calls, of calls with a time step, of calls with an option
    `by` that chooses a callable, and with wrenches {frame: wrench}.
    """

    plain: Callable[..., Any]
    timed: Callable[..., Any]
    chooser: Callable[..., Any]
    at_frames: Callable[..., Any]


def mismatch(entries: jit.MachineCode) -> str:
    """Describes the first difference between the entry points and NumPy; empty if there is none."""
    code = loaded_text(LOOP, ("loop",))
    ufunc, alive = gufunc("selftest", code.address, np.dtype(np.float64), *SHAPES)
    fronts = _fronts(entries, code, alive)
    for what, holds in (
        *_arrays(fronts.plain, ufunc),
        *_numbers(fronts.plain, ufunc),
        *_numbers(fronts.timed, ufunc),
        *_options(fronts, ufunc),
    ):
        if not holds:
            return f"{what} differ from those of NumPy"
    refused = all(type(result) is str for result in _refused(fronts))
    return "" if refused else "calls for Python are not handed on"


def _fronts(entries: jit.MachineCode, code: jit.MachineCode, alive: object) -> Fronts:
    spec = cpython.CallSpec(
        code.address, code.address, np.dtype(np.float64), *SHAPES, most=100, unlocked=50
    )
    options: dict[str, Any] = {"name": "selftest", "doc": "", "alive": (code, alive)}

    def callable_of(entry: str, *keywords: str, **fields: Any) -> Callable[..., Any]:
        address, taken = entries.address_of(entry), spec._replace(**fields)
        return cpython.callable_of(taken, address, _hand_on, Pair, keywords=keywords, **options)

    chosen = callable_of("call", "x", "s", "by", by_position=1)
    at_tip = ("tip",), [callable_of("call", "x", "f_ext", inputs=[(2,), (1, 6)])]
    choose, with_wrenches = map(entries.address_of, ("choose", "call_with_wrenches"))
    return Fronts(
        callable_of("call", "x", "s"),
        callable_of("call_in_time", "x", "s", time_step=1),
        choices.chooser(choose, _hand_on, {"me": chosen}, {"by": 2}, 3, **options),
        wrenches_at_frames.with_wrenches(with_wrenches, _hand_on, [at_tip], 1, **options),
    )


def _hand_on(*arrays: Any, **options: Any) -> str:
    return HANDED_ON


def _refused(fronts: Fronts) -> Iterator[Any]:
    """Yields the results of calls that have to be handed on."""
    x, wrench = np.arange(2.0), np.arange(6.0)
    for call in (fronts.plain, fronts.timed):
        yield from (call(x.astype("f4"), x[1]), call([1.0], 1.0), call(x, 1.0, out=1))
    yield fronts.timed(x, -1.0)
    for by in ([], ["you"], [1], ["me", "me"]):
        yield fronts.chooser(x, 1.0, *by)
    for f_ext in (wrench, {}, {"top": wrench}, {"tip": wrench[:5]}):
        yield fronts.at_frames(x, f_ext)


def _is_same(results: Any, wanted: Any) -> bool:
    return type(results) is Pair and all(map(np.array_equal, results, wanted))


def _arrays(call: Callable[..., Any], ufunc: np.ufunc) -> Iterator[tuple[str, bool]]:
    """Yields kinds of calls with arrays, and whether their results equal those of the ufunc."""
    s = np.array(0.25)
    for batch in ((), (1,), (3,), (64,)):
        x = np.arange(2.0 * max(np.prod(batch, dtype=int), 1)).reshape(*batch, 2)
        wanted = ufunc(x, s)
        out = Pair(*map(np.empty_like, wanted))
        same = _is_same(call(x, s), wanted) and _is_same(call(s=s, x=x, threads=1), wanted)
        yield f"results of {batch}", same
        filled = call(x, s, out=out) is out and _is_same(out, wanted)
        yield f"results in out of {batch}", filled
        yield f"results in a tuple of {batch}", _is_same(call(x, s, out=tuple(out)), wanted)


def _numbers(call: Callable[..., Any], ufunc: np.ufunc) -> Iterator[tuple[str, bool]]:
    """Yields kinds of calls with numbers and lists, and whether their results equal those of the
    ufunc.
    """
    for x, s in (
        ([0.5, -2.0], 0.25),
        ((3, np.float64(0.1)), np.float64(4.0)),
        (np.arange(2.0), 3),
        (np.arange(6.0).reshape(3, 2), 0.5),
    ):
        wanted = ufunc(np.asarray(x, float), np.asarray(s, float))
        yield "results of numbers and lists", _is_same(call(x, s), wanted)
        yield "results of numbers and lists by name", _is_same(call(s=s, x=x), wanted)


def _options(fronts: Fronts, ufunc: np.ufunc) -> Iterator[tuple[str, bool]]:
    """Yields kinds of calls with options, and whether their results equal those of the ufunc."""
    x, wrench = np.arange(2.0), np.array([3.0, 0, 0, 0, 0, 0])
    wanted = ufunc(x, wrench[0])
    yield "results of a choice", _is_same(fronts.chooser(x, 3.0, "me"), wanted)
    yield "results of a choice by name", _is_same(fronts.chooser(x, s=3.0, by="me"), wanted)
    for f_ext in (wrench, np.repeat(wrench, 2)[::2], wrench.tolist()):
        yield "results of wrenches", _is_same(fronts.at_frames(x, {"tip": f_ext}), wanted)
    named = fronts.at_frames(f_ext={"tip": wrench}, x=x)
    yield "results of wrenches by name", _is_same(named, wanted)
