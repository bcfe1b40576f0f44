"""A test of the entry point on the present interpreter: a tiny loop is called through it and as a
generalised ufunc of NumPy, with arguments that the entry point serves.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.linked import loaded_text
from featherlane.backends.llvm.macros import expanded

# y = x + x and z = -x for x of two numbers, state by state
LOOP = expanded("""
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {
  %states = item i64 %dims 0
  %x0 = item ptr %args 0
  %y0 = item ptr %args 1
  %z0 = item ptr %args 2
  each %s 0 %states
  %x = at %x0 $(mul i64 %s, $(item i64 %steps 0))
  %y = at %y0 $(mul i64 %s, $(item i64 %steps 1))
  %z = at %z0 $(mul i64 %s, $(item i64 %steps 2))
  each %k 0 2
  %value = item double %x %k
  put double $(fadd double %value, %value) %y %k
  put double $(fneg double %value) %z %k
  again %k
  again %s
  ret void
}
""")
Pair = namedtuple("Pair", "double negative")


def mismatch(entry: int) -> str:
    """Describes the first difference between the entry point at this address and NumPy; empty if
    there is none.
    """
    code, dtype = loaded_text(LOOP, ("loop",)), np.dtype(np.float64)
    shapes = [(2,)], [(2,), (2,)]
    ufunc, alive = gufunc("selftest", code.address, dtype, *shapes)
    call = cpython.callable_of(
        cpython.CallSpec(code.address, code.address, dtype, *shapes, most=100, unlocked=50),
        entry,
        lambda *arrays, **options: "handed on",
        Pair,
        name="selftest",
        doc="",
        keywords=("x",),
        alive=(code, alive),
    )
    for what, holds in _cases(call, ufunc):
        if not holds:
            return f"{what} differ from those of NumPy"
    refused = call(np.ones((2, 2), np.float32)), call([1.0, 2.0]), call(np.ones((3, 2)), out=1)
    return "" if refused == ("handed on",) * 3 else "calls for Python are not handed on"


def _cases(call: Callable[..., Any], ufunc: np.ufunc) -> Iterator[tuple[str, bool]]:
    """Yields kinds of calls, and whether their results equal those of the ufunc."""
    for batch in ((), (1,), (3,), (64,)):
        x = np.arange(2.0 * max(np.prod(batch, dtype=int), 1)).reshape(*batch, 2)
        wanted = ufunc(x)

        def same(results: Any, wanted: Any = wanted) -> bool:
            return type(results) is Pair and all(map(np.array_equal, results, wanted))

        out = Pair(*map(np.empty_like, wanted))
        yield f"results of {batch}", same(call(x)) and same(call(x=x, threads=1))
        yield f"results in out of {batch}", call(x, out=out) is out and same(out)
        yield f"results in a tuple of {batch}", same(call(x, out=tuple(out)))
