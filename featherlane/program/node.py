"""The scalars of traces: nodes of a graph, on which arithmetic enters further nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from featherlane.program.graph import Graph
from featherlane.program.op import elementary
from featherlane.program.refusal import no_value, refused
from featherlane.scalar import scale_to_one

REAL = (int, float, np.integer, np.floating, np.bool_)


def _unary(op: str) -> Callable[[Node], Node]:
    """The method that enters an operation on the scalar."""
    return lambda self: Node(self.graph, getattr(self.graph, op)(self.k))


def _binary(op: str) -> Callable[[Node, Any], Node]:
    """The method that enters an operation on the scalar and another one."""

    def method(self: Node, other: Any) -> Node:
        if type(other) is Node and other.graph is self.graph:  # nearly always
            return Node(self.graph, getattr(self.graph, op)(self.k, other.k))
        if isinstance(other, np.ndarray):
            return NotImplemented  # NumPy takes the entries one by one
        return Node(self.graph, getattr(self.graph, op)(self.k, self.lift(other)))

    return method


def _reflected(op: str) -> Callable[[Node, Any], Node]:
    """The method that enters an operation on another scalar and this one."""

    def method(self: Node, other: Any) -> Node:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return Node(self.graph, getattr(self.graph, op)(self.lift(other), self.k))

    return method


def _compared(method: Callable[[Node, Any], Node]) -> Callable[[Node, Any], Condition]:
    """The method whose result is a condition."""

    def compare(self: Node, other: Any) -> Condition:
        node = method(self, other)
        return node if node is NotImplemented else Condition(self.graph, node.k)

    return compare


class Node:
    """A scalar that is still to be computed: arithmetic on it enters nodes into its graph.

    Methods have the names of NumPy's functions, which call them for entries of arrays of objects.
    """

    __slots__ = ("graph", "k")
    __array_ufunc__: ClassVar[Any] = None  # program/array.py sets both
    __array_function__: ClassVar[Any] = None
    graph: Graph
    k: int

    def __init__(self, graph: Graph, k: int) -> None:
        self.graph, self.k = graph, k

    def lift(self, other: Any) -> int:
        """The node of a scalar of this trace, or of a number."""
        if isinstance(other, Node):
            if other.graph is not self.graph:
                raise ValueError("two scalars of different traces were combined")
            return other.k
        if isinstance(other, REAL):
            return self.graph.constant(float(other))
        wanted = "a number"
        if isinstance(other, list | tuple):
            wanted += ", or the list as np.stack(...)"
        elif isinstance(other, np.ndarray):
            wanted += "; for arrays use the function of NumPy, as np.where instead of select"
        kind = type(other).__name__
        raise refused(f"a traced scalar was combined with {kind} {other!r}: wanted {wanted}")

    def _constant(self, x: float) -> Node:
        return Node(self.graph, self.graph.constant(x))

    def __repr__(self) -> str:
        return f"<Node %{self.k} = {self.graph.op[self.k]}>"

    def __bool__(self) -> bool:
        raise no_value()

    __float__ = __int__ = __index__ = __complex__ = __bool__

    def __format__(self, form: str) -> str:
        if form:
            raise no_value()
        return repr(self)

    __hash__ = object.__hash__

    __neg__ = _unary("neg")
    __abs__ = fabs = _unary("abs")
    __add__ = __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__ = __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    __lt__, __gt__ = _compared(_binary("less")), _compared(_reflected("less"))
    __le__ = _compared(_binary("less_equal"))
    __ge__ = _compared(_reflected("less_equal"))
    sqrt = _unary("sqrt")
    sin: Callable[[], Node]  # these and all other elementary functions are set below
    cos: Callable[[], Node]
    exp: Callable[[], Node]
    log: Callable[[], Node]
    atan2: Callable[[Any], Node]
    copysign, rcopysign = _binary("copysign"), _reflected("copysign")
    rint = _unary("round")

    def scale_to_one(self) -> Node:
        graph = self.graph
        if (x := graph.number(self.k)) is not None:
            return self._constant(scale_to_one(x))
        return Node(graph, graph.power_of_two(graph.neg(graph.exponent(self.k))))

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        """a <= b and b <= a: false for NaN."""
        below = self <= other
        return NotImplemented if below is NotImplemented else below & (self >= other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        same = self == other
        return NotImplemented if same is NotImplemented else ~same

    def __pos__(self) -> Node:
        return self

    conjugate = conj = __pos__

    def __pow__(self, exponent: Any) -> Node:
        if isinstance(exponent, np.ndarray):
            return NotImplemented
        if not isinstance(exponent, REAL):
            return self._power(Node(self.graph, self.lift(exponent)))
        if not np.isfinite(exponent):
            raise refused(f"a traced scalar was raised to {exponent!r}: wanted a finite number")
        if not (2.0 * exponent).is_integer():
            return self._root(float(exponent))
        if exponent < 0:
            return 1.0 / self ** -float(exponent)
        power = self._constant(1.0)
        for bit in bin(int(exponent))[2:]:
            power = power * power * self if bit == "1" else power * power
        return power * self.sqrt() if exponent != int(exponent) else power

    def __rpow__(self, base: Any) -> Node:
        if isinstance(base, np.ndarray):
            return NotImplemented
        return Node(self.graph, self.lift(base))._power(self)

    def _root(self, exponent: float) -> Node:
        """The power by a number that is no multiple of 1/2: NaN for negative bases. Its derivative
        at 0 is 0 for exponents above 1, infinite below.
        """
        is_zero = (self == 0.0) if exponent > 1 else self._constant(0.0) > 1.0
        positive = is_zero.select(1.0, self)
        return is_zero.select(0.0, (exponent * positive.log()).exp())

    def _power(self, exponent: Node) -> Node:
        """The power by a traced number: of a negative base, for whole exponents alone."""
        size = (exponent * self.__abs__().log()).exp()
        half = 0.5 * exponent
        signed = (half == half.rint()).select(size, -size)
        negative = (exponent == exponent.rint()).select(signed, np.nan)
        power = (self < 0.0).select(negative, size)
        return (exponent == 0.0).select(1.0, power)

    def square(self) -> Node:
        return self * self

    def reciprocal(self) -> Node:
        return 1.0 / self

    def tan(self) -> Node:
        return self.sin() / self.cos()

    def arctan(self) -> Node:
        return self.atan2(1.0)

    atan = arctan

    def hypot(self, other: Any) -> Node:
        return (self * self + other * other).sqrt()

    def deg2rad(self) -> Node:
        return self * (np.pi / 180)

    def rad2deg(self) -> Node:
        return self * (180 / np.pi)

    radians, degrees = deg2rad, rad2deg

    # Whole numbers

    def floor(self) -> Node:
        near = self.rint()
        return (self < near).select(near - 1.0, near)

    def ceil(self) -> Node:
        return -(-self).floor()

    def trunc(self) -> Node:
        return self.__abs__().floor().copysign(self)

    __floor__, __ceil__, __trunc__ = floor, ceil, trunc

    def __round__(self, digits: None = None) -> Node:
        if digits is not None:
            raise refused("a traced scalar is rounded to whole numbers: wanted round(x)")
        return self.rint()

    def _divided(self, other: Any) -> tuple[Node, Node]:
        """The quotient, rounded down, and the remainder, which has the sign of the divisor."""
        divisor = Node(self.graph, self.lift(other))
        whole = (self / divisor).floor()
        if self.graph.number(divisor.k) == 0.0:  # a product with it would be folded to 0
            return whole, self._constant(np.nan)
        rest = self - whole * divisor
        rounded_up = ((rest < 0.0) & (divisor > 0.0)) | ((rest > 0.0) & (divisor < 0.0))
        return (
            rounded_up.select(whole - 1.0, whole),
            rounded_up.select(rest + divisor, rest),
        )

    def __mod__(self, other: Any) -> Node:
        return NotImplemented if isinstance(other, np.ndarray) else self._divided(other)[1]

    def __floordiv__(self, other: Any) -> Node:
        return NotImplemented if isinstance(other, np.ndarray) else self._divided(other)[0]

    def __rmod__(self, other: Any) -> Node:
        return Node(self.graph, self.lift(other)) % self

    def __rfloordiv__(self, other: Any) -> Node:
        return Node(self.graph, self.lift(other)) // self

    # The choice between numbers

    def minimum(self, other: Any) -> Node:
        """The smaller one, NaN if one is."""
        least = (self < other).select(self, other)
        return (self <= self).select(least, self)

    def maximum(self, other: Any) -> Node:
        """The larger one, NaN if one is."""
        most = (self > other).select(self, other)
        return (self <= self).select(most, self)

    def fmin(self, other: Any) -> Node:
        """The smaller number; the other one where one is NaN."""
        other = Node(self.graph, self.lift(other))
        number = (self <= self).select(self, other)
        return (other < number).select(other, number)

    def fmax(self, other: Any) -> Node:
        """The larger number; the other one where one is NaN."""
        return -(-self).fmin(-Node(self.graph, self.lift(other)))

    def sign(self) -> Node:
        """-1, 0 or 1; NaN for NaN."""
        return (self > 0.0).select(1.0, (self < 0.0).select(-1.0, (self <= 0.0).select(0.0, self)))

    def isnan(self) -> Condition:
        return ~(self <= self)

    def isfinite(self) -> Condition:
        return self.__abs__() < np.inf

    def isinf(self) -> Condition:
        return self.__abs__() >= np.inf

    def signbit(self) -> Condition:
        return self._constant(1.0).copysign(self) < 0.0

    def condition(self) -> Condition:
        """Whether the number is not 0: its truth value in NumPy."""
        return self != 0.0

    def select(self, a: Any, b: Any) -> Node:
        """a where this number is not 0, else b."""
        return self.condition().select(a, b)


for _op in elementary(1):
    for _name in (_op.name, _op.numpy_name):
        setattr(Node, _name, _unary(_op.name))
for _op in elementary(2):
    for _name in (_op.name, _op.numpy_name):
        setattr(Node, _name, _binary(_op.name))
    setattr(Node, f"r{_op.name}", _reflected(_op.name))


class Condition(Node):
    """A truth value: for `select` the comparison `holds`, in arithmetic the number 1 or 0."""

    __slots__ = ("_number", "holds")

    def __init__(self, graph: Graph, holds: int, number: int | None = None) -> None:
        """holds: the node of a comparison; number: a node with 1 where that is true, and 0."""
        self.graph, self.holds, self._number = graph, holds, number

    @property
    def k(self) -> int:  # type: ignore[override]
        if self._number is None:
            one, zero = self.graph.constant(1.0), self.graph.constant(0.0)
            self._number = self.graph.select(self.holds, one, zero)
        return self._number

    def __repr__(self) -> str:
        return f"<Condition %{self.holds} = {self.graph.op[self.holds]}>"

    def condition(self) -> Condition:
        return self

    def select(self, a: Any, b: Any) -> Node:
        """a where this condition holds, else b."""
        return Node(self.graph, self.graph.select(self.holds, self.lift(a), self.lift(b)))

    def _chosen(self, a: Any, b: Any) -> Condition:
        """The truth value a where this condition holds, else b."""
        number = self.select(a, b).k
        return Condition(self.graph, self.graph.less(self.graph.constant(0.0), number), number)

    def _truth(self, other: Any) -> Any:
        """Returns the operand of a logical operation. Raises TypeError unless it is a condition or
        a bool, as NumPy does for & of floats.
        """
        if isinstance(other, Condition | bool | np.bool_):
            return other
        operand = (
            "a traced number" if isinstance(other, Node) else f"{type(other).__name__} {other!r}"
        )
        raise refused(f"a condition was combined with {operand}: wanted a comparison, as in x < 0")

    def __and__(self, other: Any) -> Condition:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self._chosen(self._truth(other), False)

    def __or__(self, other: Any) -> Condition:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self._chosen(True, self._truth(other))

    def __xor__(self, other: Any) -> Condition:
        if isinstance(other, np.ndarray):
            return NotImplemented
        other = self._truth(other)
        opposite = ~other if isinstance(other, Condition) else not other
        return self._chosen(opposite, other)

    def __invert__(self) -> Condition:
        return self._chosen(False, True)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __format__(self, form: str) -> str:
        if form:
            raise no_value()
        return repr(self)

    __hash__ = object.__hash__
