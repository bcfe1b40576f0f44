"""Matrices of one state after another, with neighbouring columns in the lanes: what a plan does
between kernels where a tile of states would need more memory than the caches have.
"""

from __future__ import annotations

from featherlane.backends.llvm.lower import (
    Lanes,
    broadcast,
    declarations,
    fma,
    load_entries,
    store_entries,
)
from featherlane.backends.llvm.macros import expanded

BLOCK = 4  # vectors of a row whose sums are made together


def functions(dtype_lanes: Lanes) -> str:
    """The LLVM IR of @multiply, @scale and @diagonal."""
    t, one = dtype_lanes, Lanes(dtype_lanes.dtype, 1)
    texts = [_multiply(t, one), _scale(t, one), _diagonal(one)]
    kinds = dict.fromkeys((t, one))
    return "\n".join([*[x for kind in kinds for x in declarations(kind)], *map(expanded, texts)])


def _by_parts(t: Lanes, one: Lanes, begin: str, part: str) -> str:
    """Calls @part.wide, .vector and .scalar on the columns of a row: blocks of vectors, vectors,
    scalars. begin: their arguments before the number of the first column.
    """
    return f"""
  %wide = udiv i64 %columns, {BLOCK * t.width}
  each %p 0 %wide
  call void @{part}.{BLOCK}({begin}, i64 $(mul i64 %p, {BLOCK * t.width}))
  again %p
  %done = mul i64 %wide, {BLOCK * t.width}
  %vectors = udiv i64 $(sub i64 %columns, %done), {t.width}
  each %u 0 %vectors
  call void @{part}.1({begin}, i64 $(add i64 %done, $(mul i64 %u, {t.width})))
  again %u
  %rest = add i64 %done, $(mul i64 %vectors, {t.width})
  each %x %rest %columns
  call void @{part}.0({begin}, i64 %x)
  again %x"""


def _multiply(t: Lanes, one: Lanes) -> str:
    """@multiply: adds the product of two matrices to a third; pitches are from row to row."""
    size = t.dtype.itemsize
    begin = "ptr %c.row, ptr %a.row, ptr %b, i64 %b.pitch, i64 %inner"
    parts = [_sums(lanes, vectors) for lanes, vectors in ((t, BLOCK), (t, 1), (one, 0))]
    return f"""
{"".join(parts)}
define internal void @multiply(ptr %c, i64 %c.pitch, ptr %a, i64 %a.pitch, ptr %b, i64 %b.pitch,
                               i64 %rows, i64 %inner, i64 %columns) noinline {{
  each %r 0 %rows
  %c.row = at %c $(mul i64 $(mul i64 %r, %c.pitch), {size})
  %a.row = at %a $(mul i64 $(mul i64 %r, %a.pitch), {size})
  {_by_parts(t, one, begin, "sums")}
  again %r
  ret void
}}
"""


def _sums(t: Lanes, vectors: int) -> str:
    """@sums.n: adds a row times some columns, n vectors of them or, if n is 0, one."""
    count, text = range(max(vectors, 1)), list[str]()
    for v in count:
        text += load_entries(t, f"%x{v}", "%c.first", v * t.width)
    phis = [f"%s{v} = phi {t.vector} [ %x{v}, %entry ], [ %y{v}, %term ]" for v in count]
    term: list[str] = broadcast(t, "%a", "%a.k") if t.width > 1 else [
        f"%a = load {t.vector}, ptr %a.k, align {t.dtype.itemsize}"
    ]  # fmt: skip
    stores: list[str] = []
    for v in count:
        term += load_entries(t, f"%b{v}", "%b.k", v * t.width)
        term += fma(t, f"%y{v}", "%a", f"%b{v}", f"%s{v}")
        stores += store_entries(t, f"%to{v}", f"%y{v}", "%c.first", v * t.width)
    nl = "\n  "
    return f"""
define internal void @sums.{vectors}(ptr %c, ptr %a.row, ptr %b, i64 %b.pitch, i64 %inner, i64 %j) {{
entry:
  %c.first = getelementptr inbounds {t.scalar}, ptr %c, i64 %j
  %b.first = getelementptr inbounds {t.scalar}, ptr %b, i64 %j
  {nl.join(text)}
  br label %term
term:
  %k = phi i64 [ 0, %entry ], [ %k.next, %term ]
  %a.k = phi ptr [ %a.row, %entry ], [ %a.next, %term ]
  %b.k = phi ptr [ %b.first, %entry ], [ %b.next, %term ]
  {nl.join(phis)}
  {nl.join(term)}
  %a.next = getelementptr inbounds {t.scalar}, ptr %a.k, i64 1
  %b.next = getelementptr inbounds {t.scalar}, ptr %b.k, i64 %b.pitch
  %k.next = add i64 %k, 1
  when slt i64 %k.next, %inner: term, done
done:
  {nl.join(stores)}
  ret void
}}
"""


def _scale(t: Lanes, one: Lanes) -> str:
    """@scale: a matrix becomes s times another, or zeros if there is none; or gets s times another
    added, if `more`.
    """
    size = t.dtype.itemsize
    parts = [_scaled(lanes, vectors) for lanes, vectors in ((t, BLOCK), (t, 1), (one, 0))]
    begin = f"ptr %c.row, ptr %a.row, {t.scalar} %s, i1 %more"
    return f"""
{"".join(parts)}
define internal void @scale(ptr %c, i64 %c.pitch, ptr %a, i64 %a.pitch, i64 %rows, i64 %columns,
                            {t.scalar} %s, i1 %more) noinline {{
  each %r 0 %rows
  %c.row = at %c $(mul i64 $(mul i64 %r, %c.pitch), {size})
  %a.row = at %a $(mul i64 $(mul i64 %r, %a.pitch), {size})
  {_by_parts(t, one, begin, "scaled")}
  again %r
  ret void
}}
define internal void @clear(ptr %c, i64 %c.pitch, i64 %rows, i64 %columns) noinline {{
  %bytes = mul i64 %columns, {size}
  each %r 0 %rows
  %c.row = at %c $(mul i64 $(mul i64 %r, %c.pitch), {size})
  call void @llvm.memset.p0.i64(ptr %c.row, i8 0, i64 %bytes, i1 false)
  again %r
  ret void
}}
"""


def _scaled(t: Lanes, vectors: int) -> str:
    lines: list[str] = []
    for v in range(max(vectors, 1)):
        lines += load_entries(t, f"%a{v}", "%a.first", v * t.width)
        lines += load_entries(t, f"%old{v}", "%c.first", v * t.width)
        zero = f"%from{v} = select i1 %more, {t.vector} %old{v}, {t.vector} {t.splat(0.0)}"
        lines += [zero, *fma(t, f"%y{v}", "%s", f"%a{v}", f"%from{v}")]
        lines += store_entries(t, f"%to{v}", f"%y{v}", "%c.first", v * t.width)
    spread = (
        f"%one = insertelement {t.vector} poison, {t.scalar} %x, i32 0\n  "
        f"%s = shufflevector {t.vector} %one, {t.vector} poison, <{t.width} x i32> zeroinitializer"
        if t.width > 1
        else f"%s = bitcast {t.scalar} %x to {t.vector}"
    )
    nl = "\n  "
    return f"""
define internal void @scaled.{vectors}(ptr %c, ptr %a, {t.scalar} %x, i1 %more, i64 %j) {{
  %c.first = getelementptr inbounds {t.scalar}, ptr %c, i64 %j
  %a.first = getelementptr inbounds {t.scalar}, ptr %a, i64 %j
  {spread}
  {nl.join(lines)}
  ret void
}}
"""


def _diagonal(one: Lanes) -> str:
    """@diagonal: adds s to the entries of a diagonal."""
    return f"""
define internal void @diagonal(ptr %c, i64 %pitch, i64 %count, {one.scalar} %s) noinline {{
  %next = mul i64 $(add i64 %pitch, 1), {one.dtype.itemsize}
  each %k 0 %count
  %to = at %c $(mul i64 %k, %next)
  %old = load {one.scalar}, ptr %to, align {one.dtype.itemsize}
  store {one.scalar} $(fadd {one.scalar} %old, %s), ptr %to, align {one.dtype.itemsize}
  again %k
  ret void
}}
"""
