"""Matrices of one state after another, with neighbouring columns in the lanes: for the work of a
plan between kernels where a tile of states would exceed the caches.
"""

from __future__ import annotations

from itertools import product

from featherlane.backends.llvm.lower import (
    Lanes,
    broadcast,
    declarations,
    fma,
    load_entries,
    store_entries,
)
from featherlane.backends.llvm.macros import expanded

VECTORS = 4  # of a tile
NEXT = "\n  "


def _rows(t: Lanes) -> int:
    """Returns the rows of a tile. Eight independent sums hide the latency of a multiply-add, and
    fill 16 registers with their factors; processors with vectors of 64 bytes have 32.
    """
    return 4 if t.bytes == 64 else 2


def functions(t: Lanes) -> str:
    """The LLVM IR of @multiply, @product, @scale, @add, @clear and @diagonal."""
    one = Lanes(t.dtype, 1)
    texts = [_multiply(t, "multiply"), _multiply(t, "product")]
    texts += [_scale(t, "scale"), _scale(t, "add"), _clear(t), _diagonal(one)]
    kinds = dict.fromkeys((t, one))
    return "\n".join([*[x for kind in kinds for x in declarations(kind)], *map(expanded, texts)])


def _multiply(t: Lanes, name: str) -> str:
    """@multiply: adds the product of two matrices to a third, with whole vectors of columns, or
    @product, which sets it to that; pitches are from row to row, the step of the left one is from
    column to column.
    """
    size, wide = t.dtype.itemsize, VECTORS * t.width
    most = _rows(t)
    tiles = [_sums(t, name, rows, v + 1) for rows, v in product((1, most), range(VECTORS))]
    cases = [f"i64 {v}, label %last.{{r}}.{v}" for v in range(1, VECTORS)]

    def row(rows: int) -> str:
        """The tiles of some rows, the last one with the remaining vectors."""
        c, a = (f"ptr %{x}.row{rows}, i64 %{x}.pitch" for x in "ca")
        arguments = f"{c}, {a}, i64 %a.step, ptr %b, i64 %b.pitch"
        lasts = "".join(
            f"""
last.{rows}.{v}:
  call void @{name}.{rows}.{v}({arguments}, i64 %inner, i64 %done)
  br label %after.{rows}"""
            for v in range(1, VECTORS)
        )
        return f"""
  each %p{rows} 0 %blocks
  call void @{name}.{rows}.{VECTORS}({arguments}, i64 %inner, i64 $(mul i64 %p{rows}, {wide}))
  again %p{rows}
  switch i64 %rest, label %after.{rows} [ {" ".join(cases).format(r=rows)} ]{lasts}
after.{rows}:"""

    def start(rows: int, counter: str) -> str:
        return f"""
  %c.row{rows} = at %c $(mul i64 $(mul i64 %{counter}, %c.pitch), {size})
  %a.row{rows} = at %a $(mul i64 $(mul i64 %{counter}, %a.pitch), {size})"""

    return f"""
{"".join(tiles)}
define internal void @{name}(ptr %c, i64 %c.pitch, ptr %a, i64 %a.pitch, i64 %a.step, ptr %b,
                               i64 %b.pitch, i64 %rows, i64 %inner, i64 %columns) noinline {{
  %blocks = udiv i64 %columns, {wide}
  %done = mul i64 %blocks, {wide}
  %rest = udiv i64 $(sub i64 %columns, %done), {t.width}
  %panels = udiv i64 %rows, {most}
  each %panel 0 %panels
  %first = mul i64 %panel, {most}{start(most, "first")}{row(most)}
  again %panel
  %even = mul i64 %panels, {most}
  each %r %even %rows{start(1, "r")}{row(1)}
  again %r
  ret void
}}
"""


def _sums(t: Lanes, name: str, rows: int, vectors: int) -> str:
    """@multiply.r.v, @product.r.v: the products of r rows with v vectors of columns, from column %j
    on.
    """
    each = [*product(range(rows), range(vectors))]
    begin, term, end = list[str](), list[str](), list[str]()
    for r in range(rows):
        begin += [
            f"%c.j{r} = add i64 %j, $(mul i64 %c.pitch, {r})",
            f"%c{r} = getelementptr inbounds {t.scalar}, ptr %c, i64 %c.j{r}",
            f"%a{r} = getelementptr inbounds {t.scalar}, ptr %a, i64 $(mul i64 %a.pitch, {r})",
        ]
        term.append(f"%a.k{r} = getelementptr inbounds {t.scalar}, ptr %a{r}, i64 %a.k")
        term += broadcast(t, f"%a.x{r}", f"%a.k{r}")
    for v in range(vectors):
        term += load_entries(t, f"%b{v}", "%b.k", v * t.width)
    for r, v in each:
        if name == "multiply":
            begin += load_entries(t, f"%x{r}.{v}", f"%c{r}", v * t.width)
        term += fma(t, f"%y{r}.{v}", f"%a.x{r}", f"%b{v}", f"%s{r}.{v}")
        end += store_entries(t, f"%to{r}.{v}", f"%y{r}.{v}", f"%c{r}", v * t.width)
    at = [f"{r}.{v}" for r, v in each]
    first = {x: f"%x{x}" if name == "multiply" else "zeroinitializer" for x in at}
    phis = [f"%s{x} = phi {t.vector} [ {first[x]}, %begin ], [ %y{x}, %term ]" for x in at]
    return f"""
define internal void @{name}.{rows}.{vectors}(ptr %c, i64 %c.pitch, ptr %a, i64 %a.pitch,
                                            i64 %a.step, ptr %b, i64 %b.pitch, i64 %inner,
                                            i64 %j) alwaysinline {{
  br label %begin
begin:
  %b.first = getelementptr inbounds {t.scalar}, ptr %b, i64 %j
  {NEXT.join(begin)}
  br label %term
term:
  %k = phi i64 [ 0, %begin ], [ %k.next, %term ]
  %a.k = phi i64 [ 0, %begin ], [ %a.next, %term ]
  %b.k = phi ptr [ %b.first, %begin ], [ %b.next, %term ]
  {NEXT.join(phis)}
  {NEXT.join(term)}
  %b.next = getelementptr inbounds {t.scalar}, ptr %b.k, i64 %b.pitch
  %k.next = add i64 %k, 1
  %a.next = add i64 %a.k, %a.step
  when slt i64 %k.next, %inner: term, done
done:
  {NEXT.join(end)}
  ret void
}}
"""


def _scale(t: Lanes, name: str) -> str:
    """@scale: sets a matrix to s times another; @add: adds that to it."""
    size, one = t.dtype.itemsize, Lanes(t.dtype, 1)
    begin = f"ptr %c.row, ptr %a.row, {t.scalar} %s"
    return f"""{_scaled(t, name, VECTORS)}{_scaled(t, name, 1)}{_scaled(one, name, 0)}
define internal void @{name}(ptr %c, i64 %c.pitch, ptr %a, i64 %a.pitch, i64 %rows, i64 %columns,
                            {t.scalar} %s) noinline {{
  %wide = udiv i64 %columns, {VECTORS * t.width}
  %done = mul i64 %wide, {VECTORS * t.width}
  %vectors = udiv i64 $(sub i64 %columns, %done), {t.width}
  %rest = add i64 %done, $(mul i64 %vectors, {t.width})
  each %r 0 %rows
  %c.row = at %c $(mul i64 $(mul i64 %r, %c.pitch), {size})
  %a.row = at %a $(mul i64 $(mul i64 %r, %a.pitch), {size})
  each %p 0 %wide
  call void @{name}.{VECTORS}({begin}, i64 $(mul i64 %p, {VECTORS * t.width}))
  again %p
  each %u 0 %vectors
  call void @{name}.1({begin}, i64 $(add i64 %done, $(mul i64 %u, {t.width})))
  again %u
  each %x %rest %columns
  call void @{name}.0({begin}, i64 %x)
  again %x
  again %r
  ret void
}}
"""


def _scaled(t: Lanes, name: str, vectors: int) -> str:
    """@scale.v, @add.v: v vectors of a row from column %j on, or if v is 0 one number."""
    lines = [
        f"%one = insertelement {t.vector} poison, {t.scalar} %x, i32 0",
        f"%s = shufflevector {t.vector} %one, {t.vector} poison, <{t.width} x i32> zeroinitializer",
    ]
    for v in range(max(vectors, 1)):
        lines += load_entries(t, f"%a{v}", "%a.first", v * t.width)
        if name == "add":
            lines += load_entries(t, f"%old{v}", "%c.first", v * t.width)
            lines += fma(t, f"%y{v}", "%s", f"%a{v}", f"%old{v}")
        else:
            lines.append(f"%y{v} = fmul {t.vector} %s, %a{v}")
        lines += store_entries(t, f"%to{v}", f"%y{v}", "%c.first", v * t.width)
    return f"""
define internal void @{name}.{vectors}(ptr %c, ptr %a, {t.scalar} %x, i64 %j) alwaysinline {{
  %c.first = getelementptr inbounds {t.scalar}, ptr %c, i64 %j
  %a.first = getelementptr inbounds {t.scalar}, ptr %a, i64 %j
  {NEXT.join(lines)}
  ret void
}}
"""


def _clear(t: Lanes) -> str:
    """@clear: zeros."""
    size = t.dtype.itemsize
    return f"""
define internal void @clear(ptr %c, i64 %c.pitch, i64 %rows, i64 %columns) noinline {{
  %bytes = mul i64 %columns, {size}
  each %r 0 %rows
  %c.row = at %c $(mul i64 $(mul i64 %r, %c.pitch), {size})
  call void @llvm.memset.p0.i64(ptr %c.row, i8 0, i64 %bytes, i1 false)
  again %r
  ret void
}}
"""


def _diagonal(t: Lanes) -> str:
    """@diagonal: adds s to the entries of a diagonal."""
    size = t.dtype.itemsize
    return f"""
define internal void @diagonal(ptr %c, i64 %pitch, i64 %count, {t.scalar} %s) noinline {{
  %next = mul i64 $(add i64 %pitch, 1), {size}
  each %k 0 %count
  %to = at %c $(mul i64 %k, %next)
  %old = load {t.scalar}, ptr %to, align {size}
  store {t.scalar} $(fadd {t.scalar} %old, %s), ptr %to, align {size}
  again %k
  ret void
}}
"""
