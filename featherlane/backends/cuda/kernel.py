"""One kernel: the frame in which a thread has a state, around the body that computes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featherlane.backends.cuda.kernel_body import KernelBody, Thread
from featherlane.backends.cuda.kernel_stage import (
    BLOCK_BYTES,
    MEMORY,
    KernelStage,
    Key,
    Launch,
    Shape,
)
from featherlane.backends.cuda.ptx import (
    WARP,
    Text,
    divided,
    entry,
)
from featherlane.backends.cuda.rows import (
    GlobalRows,
    Warp,
)

MOST_WARPS = 4  # of a block


class KernelFrame:
    """The beginning of a kernel in which a thread has a state: which one it is, and where its rows
    and slots are. arrays: all of the user's arrays, in the order of the parameters; slots: of
    scratch memory; shared: bytes of the shared memory of a warp, or of a team of so many warps for
    the same states; columns: warps for the same states, each of which has a column.
    """

    def __init__(
        self,
        text: Text,
        arrays: Mapping[Key, Shape],
        slots: int,
        shared: int,
        team: int = 0,
        columns: int = 1,
    ) -> None:
        self.text, self.numbers = text, {x: math.prod(shape) for x, shape in arrays.items()}
        self.bytes, self.team, self.columns = shared, team, columns
        self.warps = max(min(BLOCK_BYTES // max(self.bytes, 1), MOST_WARPS), 1)
        t = text
        thread = t.set("r", "mov.u32", "%tid.x")
        lane, warp = t.set("r", "and.b32", thread, WARP - 1), t.set("r", "shr.u32", thread, 5)
        self.number, tile = warp, t.set("r", "mov.u32", "%ctaid.x")
        place = t.set("r", "mov.u32", MEMORY)
        if not team:
            tile = t.set("r", "mad.lo.u32", tile, self.warps, warp)
            place = t.set("r", "mad.lo.u32", warp, self.bytes, place)
        tile, column = divided(t, tile, columns)
        self.first = t.set("w", "mul.wide.u32", tile, WARP)
        count = t.set("w", "ld.param.u64", "[count]")
        t.do(f"@{t.set('p', 'setp.ge.u64', self.first, count)} ret")
        left = t.set("w", "min.u64", t.set("w", "sub.u64", count, self.first), WARP)
        of_warp = Warp(lane, t.set("r", "cvt.u32.u64", left))
        scratch, size = t.set("w", "ld.param.u64", "[scratch]"), t.dtype.itemsize
        start = t.set("w", "mad.wide.u32", tile, slots * WARP * size, scratch)
        slots_at = t.set("w", "mad.wide.u32", lane, size, start)
        self.thread = Thread(of_warp, place, slots_at, column)

    def array(self, x: Key) -> GlobalRows:
        """The rows of the warp's states in one of the user's arrays."""
        t, k = self.text, [*self.numbers].index(x)
        stride = t.set("w", "ld.param.u64", f"[s{k}]")
        start = t.set("w", "ld.param.u64", f"[a{k}]")
        return GlobalRows(
            self.numbers[x], t.set("w", "mad.lo.u64", self.first, stride, start), stride
        )

    def lines(self, name: str, more: Sequence[tuple[str, str]] = ()) -> list[str]:
        """The lines of the kernel, when all are written. more: types and names of parameters that
        stand behind the others.
        """
        self.text.do("ret")
        pairs = [(("u64", f"a{k}"), ("u64", f"s{k}")) for k in range(len(self.numbers))]
        parameters = [*(x for pair in pairs for x in pair), ("u64", "scratch"), ("u64", "count")]
        return entry(name, [*parameters, *more], self.text)

    def launch(self, name: str) -> Launch:
        if self.team:
            return Launch(name, WARP * self.team, self.bytes, WARP, 1)
        threads, shared = WARP * self.warps, self.bytes * self.warps
        return Launch(name, threads, shared, WARP, self.columns, pairs=self.warps)


def stage_kernel(
    stage: KernelStage, name: str, dtype: np.dtype, arrays: Mapping[Key, Shape], slots: int
) -> tuple[list[str], Launch]:
    """The text of a stage as a kernel, and its launch. arrays, slots: as in `Frame`."""
    numbers = {x: math.prod(shape) for x, shape in arrays.items()}
    body = KernelBody(stage, name, dtype, numbers)
    columns = stage.columns.calls if stage.columns else 1
    frame = KernelFrame(Text(dtype), arrays, slots, body.bytes, columns=columns)
    body.write(frame.text, frame.thread, {x: frame.array(x) for x in body.arrays_used})
    return [*body.tables, *frame.lines(name)], frame.launch(name)
