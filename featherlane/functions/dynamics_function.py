"""A function of robots, as data: a row of the table has all that the package knows of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, NamedTuple

from featherlane.algorithms.parallel import Method

Size = tuple[str | int, ...]  # of "q", "v", "bodies" and numbers
Sizes = dict[str, Size]
Algorithm = Callable[..., tuple[Any, ...]]  # (tree, *inputs, **what `takes` names) -> outputs
Kind = Literal[
    "dynamics",  # the seven functions of `featherlane.FUNCTIONS`
    "of_accelerations",  # a method of another name calls it
    "kinematics",
    "configurations",
    "constrained",
    "steps",
    "rollouts",
    "derived",  # from graphs of other functions; no algorithm computes it
]


V: Size = ("v",)
VV: Size = ("v", "v")
Q: Sizes = {"q": ("q",)}
STATE: Sizes = {**Q, "v": V}
QVA: Sizes = {**STATE, "a": V}
QVT: Sizes = {**STATE, "tau": V}


class DynamicsFunction(NamedTuple):
    """A function of a robot's state, with its algorithms."""

    inputs: Sizes
    outputs: Sizes
    algorithms: tuple[Algorithm, ...] = ()
    takes: tuple[str, ...] = ()
    """Which options a variant may have besides: "f_ext", "frame", "reference", "wrt" and others."""
    shared: tuple[Algorithm, ...] | None = None
    """The algorithms for trees whose bodies share coordinates, where those differ."""
    usual: Mapping[str, float] = {}
    """Inputs with an entry for each row or constraint that a call may leave out, and the number
    that all entries are then.
    """
    collect: type[tuple] | None = None  # the named tuple of several results
    kind: Kind = "dynamics"
    public: bool = True  # whether `featherlane.call` and other frameworks have it
    about: str = ""  # a sentence for generated source code
    short: str = ""  # its name on the command line
    derivatives: str = ""  # the function with its derivatives
    jacobians: Mapping[str, tuple[str, str]] = {}
    """By input, the function and its output that is the derivative by it, by entries of v."""
    on_moving_ground: bool = False  # whether the ground's motion may be a parameter
    divides: bool = False  # whether it divides by the mass matrix
    with_loops: str = ""
    """What a user of a robot with loops calls; "" where results do not depend on the loops."""
    lost_as_a_whole: bool = False  # whether a singular mass matrix makes all results NaN
    by_pairs: bool = False  # whether it has work for each pair of joints on one path
    methods: Mapping[str, Method] = {}
    """Algorithms that may be asked for by name: serial ones, and those of `algorithms.parallel`."""
    rows: Mapping[str | None, Algorithm] = {}
    """By method, algorithms that give a row of numbers for each degree of freedom, of which
    products make the matrices.
    """


def one_output(algorithm: Callable[..., Any]) -> Algorithm:
    """Returns the one output in a tuple, and ignores `fixed`, which only derivatives read."""

    @wraps(algorithm)
    def run(tree: Any, *inputs: Any, fixed: Any = None, **options: Any) -> tuple[Any, ...]:
        return (algorithm(tree, *inputs, **options),)

    return run


def without_fixed(algorithm: Callable[..., Any]) -> Algorithm:
    """Ignores `fixed`, which only derivatives read, for an algorithm of several outputs."""

    @wraps(algorithm)
    def run(tree: Any, *inputs: Any, fixed: Any = None, **options: Any) -> tuple[Any, ...]:
        return algorithm(tree, *inputs, **options)

    return run


def chosen(algorithm: Callable[..., Any], places: Sequence[int]) -> Algorithm:
    """Returns an algorithm that gives some outputs of another."""

    @wraps(algorithm)
    def run(tree: Any, *inputs: Any, **options: Any) -> tuple[Any, ...]:
        results = algorithm(tree, *inputs, **options)
        return tuple(results[k] for k in places)

    return run


def named(method: Method) -> Method:
    return method._replace(algorithm=one_output(method.algorithm))


def of_kind(
    kind: Kind, rows: dict[str, DynamicsFunction], **fields: Any
) -> dict[str, DynamicsFunction]:
    """Returns rows with their kind, and with the fields that all of them share."""
    return {name: row._replace(kind=kind, **fields) for name, row in rows.items()}


def of_frame(inputs: Sizes, output: Sizes, algorithm: Callable[..., Any]) -> DynamicsFunction:
    return DynamicsFunction(inputs, output, (one_output(algorithm),), ("frame", "reference"))


def of_robot(
    inputs: Sizes, output: Sizes, algorithm: Callable[..., Any], **fields: Any
) -> DynamicsFunction:
    return DynamicsFunction(inputs, output, (one_output(algorithm),), **fields)
