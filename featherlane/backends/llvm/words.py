"""Lines of LLVM IR that kernels on matrices have in common."""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.backends.llvm.lower import Lanes

SIGNATURE = "(ptr %a, ptr %b, ptr %c, ptr %program, i64 %records)"
"""Of a kernel: three arrays, and a program of so many records of whole numbers."""


def numbers(names: Sequence[str], base: str, first: int = 0) -> list[str]:
    """Loads whole numbers that follow each other."""
    lines = []
    for k, name in enumerate(names, first):
        lines.append(f"%{name}.at = getelementptr inbounds i64, ptr {base}, i64 {k}")
        lines.append(f"%{name} = load i64, ptr %{name}.at, align 8")
    return lines


def splat(t: Lanes, name: str, at: str) -> list[str]:
    """%name: the number at an address, in all lanes."""
    return [
        f"%{name}.s = load {t.scalar}, ptr {at}, align {t.dtype.itemsize}",
        f"%{name}.v = insertelement {t.vector} poison, {t.scalar} %{name}.s, i32 0",
        f"%{name} = shufflevector {t.vector} %{name}.v, {t.vector} poison, "
        f"<{t.width} x i32> zeroinitializer",
    ]


def address(t: Lanes, name: str, base: str, index: str | int) -> str:
    """%name: that of a number of an array."""
    return f"%{name} = getelementptr inbounds {t.scalar}, ptr {base}, i64 {index}"


def each_record(behind: int, names: Sequence[str], last: str) -> list[str]:
    """The loop over the records of a program, so many numbers behind its beginning, with what each
    has by names. last: the label where %n1, the next one's number, is known.
    """
    return [
        f"%first = getelementptr inbounds i64, ptr %program, i64 {behind}",
        "br label %record",
        "record:",
        f"%n = phi i64 [ 0, %entry ], [ %n1, %{last} ]",
        "%some = icmp slt i64 %n, %records",
        "br i1 %some, label %begin, label %leave",
        "begin:",
        f"%n.o = mul i64 %n, {len(names)}",
        "%at = getelementptr inbounds i64, ptr %first, i64 %n.o",
        *numbers(names, "%at"),
    ]
