"""A kernel that multiplies matrices by minus a symmetric one, where they lie: results of a call
that other kernels have written before.
"""

from __future__ import annotations

import numpy as np

from featherlane.backends.cuda.kernel_stage import BLOCK_BYTES, MEMORY, SHARED, Launch
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, divided, entry
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.errors import CompileError

COLUMNS = 8  # of a block, a warp each


def with_negative_products(
    kernels: GpuKernels, left: str, name: str, dtype: np.dtype
) -> GpuKernels:
    """Kernels after which each output X but `left`, which is symmetric, becomes -left X."""
    outputs = [*kernels.outputs]
    n = kernels.outputs[left][0]
    if COLUMNS * n * dtype.itemsize > BLOCK_BYTES:
        raise CompileError(f"{name}: matrices of {n} rows are too large for a block")
    first = len(kernels.inputs)
    others = [first + k for k, x in enumerate(outputs) if x != left]
    lines, launches = [*HEADER, SHARED], [*kernels.launches]
    for k in others:
        kernel = _Product(f"{name}_product{k}", n, dtype)
        lines += kernel.lines(first + outputs.index(left), k, first + len(outputs))
        launches.append(kernel.launch._replace(text=len(kernels.texts)))
    return kernels._replace(
        texts=(*kernels.texts, "\n".join([*lines, ""])), launches=tuple(launches)
    )


class _Product:
    """A block computes some columns of a state, of which it keeps a copy in shared memory: a warp
    each, neighbouring threads neighbouring rows. Sums run over k from 0 on.
    """

    def __init__(self, name: str, n: int, dtype: np.dtype) -> None:
        self.name, self.n, self.dtype = name, n, np.dtype(dtype)

    @property
    def launch(self) -> Launch:
        size = COLUMNS * self.n * self.dtype.itemsize
        blocks = -(-self.n // COLUMNS)
        return Launch(self.name, COLUMNS * WARP, size, 1, blocks, arguments=(0, 0))

    def lines(self, left: int, right: int, arrays: int) -> list[str]:
        """left, right: the numbers of the matrices among all arrays."""
        self.text = t = Text(self.dtype)
        thread, block = t.set("r", "mov.u32", "%tid.x"), t.set("r", "mov.u32", "%ctaid.x")
        state, group = divided(t, block, self.launch.columns)
        self.first = t.set("r", "mul.lo.u32", group, COLUMNS)
        self.left, self.right = (self._state_of(k, state) for k in (left, right))
        self._copy_columns(thread)
        t.do("bar.sync 0")
        self._multiply(thread)
        t.do("ret")
        pairs = [(("u64", f"a{k}"), ("u64", f"s{k}")) for k in range(arrays)]
        others = [("u64", x) for x in ("scratch", "count", "first", "end")]
        return entry(self.name, [*(x for pair in pairs for x in pair), *others], t)

    def _state_of(self, k: int, state: str) -> str:
        """The address of a matrix of a state."""
        t = self.text
        stride = t.set("w", "ld.param.u64", f"[s{k}]")
        start = t.set("w", "ld.param.u64", f"[a{k}]")
        return t.set("w", "mad.lo.u64", t.set("w", "cvt.u64.u32", state), stride, start)

    def _known(self, k: str) -> tuple[str, str]:
        """A number below n: k, or the last one; and whether it is k."""
        t = self.text
        return t.set("r", "min.u32", k, self.n - 1), t.set("p", "setp.lt.u32", k, self.n)

    def _element(self, matrix: str, row: str, column: str) -> str:
        t, size = self.text, self.dtype.itemsize
        at = t.set("r", "mad.lo.u32", row, self.n, column)
        return t.set("w", "mad.wide.u32", at, size, matrix)

    def _copy_columns(self, thread: str) -> None:
        """Neighbouring threads read neighbouring columns of a row."""
        t, size = self.text, self.dtype.itemsize
        lane = t.set("r", "and.b32", thread, COLUMNS - 1)
        column, _ = self._known(t.set("r", "add.u32", self.first, lane))
        row = t.set("r", "shr.u32", thread, COLUMNS.bit_length() - 1)
        memory = t.set("r", "mov.u32", MEMORY)
        for _ in range(0, self.n, WARP):
            known, inside = self._known(row)
            x = t.set("f", f"ld.global.{t.type}", f"[{self._element(self.right, known, column)}]")
            place = t.set("r", "mad.lo.u32", row, COLUMNS, lane)
            to = t.set("r", "mad.lo.u32", place, size, memory)
            t.do(f"@{inside} st.shared.{t.type} [{to}], {x}")
            row = t.set("r", "add.u32", row, WARP)

    def _multiply(self, thread: str) -> None:
        """Writes minus the product of a matrix and columns: a warp a column, a thread a row."""
        t, n, size = self.text, self.n, self.dtype.itemsize
        warp = t.set("r", "shr.u32", thread, WARP.bit_length() - 1)
        column, there = self._known(t.set("r", "add.u32", self.first, warp))
        copy = t.set("r", "mad.lo.u32", warp, size, t.set("r", "mov.u32", MEMORY))
        row, again = t.set("r", "and.b32", thread, WARP - 1), t.label()
        done = t.set("r", "mov.u32", 0)
        t.lines.append(f"{again}:")
        known, _ = self._known(row)
        at = t.set("w", "mad.wide.u32", known, size, self.left)  # column `row` of the first row
        total = t.number(0.0)
        for k in range(n):
            a = t.set("f", f"ld.global.{t.type}", f"[{at}+{k * n * size}]")
            b = t.set("f", f"ld.shared.{t.type}", f"[{copy}+{k * COLUMNS * size}]")
            total = t.set("f", f"fma.rn.{t.type}", a, b, total)
        minus = t.set("f", f"neg.{t.type}", total)
        inside = t.set("p", "setp.lt.and.u32", row, n, there)
        to = self._element(self.right, known, column)
        t.do(f"@{inside} st.global.{t.type} [{to}], {minus}")
        t.do(f"add.u32 {row}, {row}, {WARP}")
        t.do(f"add.u32 {done}, {done}, {WARP}")
        t.do(f"@{t.set('p', 'setp.lt.u32', done, n)} bra.uni {again}")
