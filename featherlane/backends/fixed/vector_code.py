"""LLVM IR on vectors of int64, one state a lane, as text."""

from __future__ import annotations


class VectorCode:
    """Instructions on vectors of int64. Each method adds some and returns the name of the result.

    vector, mask: the types of a vector of integers and of one of conditions.
    """

    def __init__(self, width: int) -> None:
        self.width, self.lines = width, list[str]()
        self.vector, self.mask = f"<{width} x i64>", f"<{width} x i1>"
        self._count = 0

    def name(self) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"%t{self._count}"

    def put(self, text: str) -> str:
        """Adds an instruction, and returns the name of its result."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def splat(self, x: int) -> str:
        """A constant vector."""
        return "<" + ", ".join([f"i64 {x}"] * self.width) + ">"

    def op(self, name: str, a: str, b: str | int) -> str:
        return self.put(f"{name} {self.vector} {a}, {self.splat(b) if isinstance(b, int) else b}")

    def add(self, a: str, b: str | int) -> str:
        return self.op("add", a, b)

    def sub(self, a: str, b: str | int) -> str:
        return self.op("sub", a, b)

    def mul(self, a: str, b: str | int) -> str:
        return self.op("mul", a, b)

    def bits(self, a: str, mask: int) -> str:
        return self.op("and", a, mask)

    def shifted(self, a: str, left: int) -> str:
        """a 2^left, rounded down."""
        if left == 0:
            return a
        return self.op("shl", a, left) if left > 0 else self.op("ashr", a, min(-left, 63))

    def near(self, a: str, shift: int) -> str:
        """a / 2^shift, rounded to nearest, as `units.near`."""
        return self.shifted(self.add(a, 1 << shift - 1), -shift) if shift else a

    def minus(self, a: str) -> str:
        return self.op("sub", "zeroinitializer", a)

    def compared(self, how: str, a: str, b: str | int) -> str:
        """The lanes in which a comparison holds, such as "slt", signed and less than."""
        return self.op(f"icmp {how}", a, b)

    def where(self, condition: str, a: str, b: str) -> str:
        return self.put(f"select {self.mask} {condition}, {self.vector} {a}, {self.vector} {b}")

    def call(self, intrinsic: str, *args: str) -> str:
        return self.put(f"call {self.vector} @llvm.{intrinsic}.v{self.width}i64({', '.join(args)})")

    def least(self, a: str, most: int) -> str:
        """The smaller one of a and a constant."""
        return self.call("smin", f"{self.vector} {a}", f"{self.vector} {self.splat(most)}")

    def magnitude(self, a: str) -> str:
        return self.call("abs", f"{self.vector} {a}", "i1 false")

    def entry(self, table: str, index: str) -> str:
        """The entries of a global table."""
        w = self.width
        addresses = self.put(f"getelementptr i64, ptr @{table}, {self.vector} {index}")
        ones = "<" + ", ".join(["i1 true"] * w) + ">"
        return self.put(
            f"call {self.vector} @llvm.masked.gather.v{w}i64.v{w}p0(<{w} x ptr> {addresses}, "
            f"i32 8, {self.mask} {ones}, {self.vector} zeroinitializer)"
        )

    def address(self, base: str, index: int) -> str:
        return self.put(f"getelementptr i64, ptr {base}, i64 {index}")

    def load(self, base: str, index: int) -> str:
        return self.put(f"load {self.vector}, ptr {self.address(base, index)}, align 8")

    def store(self, a: str, base: str, index: int) -> None:
        place = self.address(base, index)
        self.lines.append(f"store {self.vector} {a}, ptr {place}, align 8")

    def count(self, condition: str, base: str, index: int) -> None:
        """Adds the number of valid states in which a condition holds."""
        w = self.width
        held = self.put(f"bitcast {self.mask} {condition} to i{w}")
        held = self.put(f"and i{w} {held}, %valid")
        ones = self.put(f"call i{w} @llvm.ctpop.i{w}(i{w} {held})")
        wide = self.put(f"zext i{w} {ones} to i64")
        place = self.address(base, index)
        before = self.put(f"load i64, ptr {place}, align 8")
        after = self.put(f"add i64 {before}, {wide}")
        self.lines.append(f"store i64 {after}, ptr {place}, align 8")


def declarations(width: int) -> list[str]:
    """The intrinsics of LLVM that vectors of such a width need."""
    vector, mask = f"<{width} x i64>", f"<{width} x i1>"
    name = lambda intrinsic: f"declare {vector} @llvm.{intrinsic}.v{width}i64"
    return [
        *(f"{name(x)}({vector}, {vector})" for x in ("smin", "smax")),
        *(f"{name(x)}({vector}, i1)" for x in ("abs", "ctlz")),
        f"{name('masked.gather')}.v{width}p0(<{width} x ptr>, i32, {mask}, {vector})",
        f"declare i{width} @llvm.ctpop.i{width}(i{width})",
    ]
