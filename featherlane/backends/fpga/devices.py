"""Devices: what they have, what operators cost there, and how long they take.

A device is a file in the folder `devices`. The delays of a device are a model, named there, and
every figure says which one it stands for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Iterable, Mapping
from importlib.resources import files
from math import frexp
from typing import Any, NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.units.multipliers import Ring, Tile
from featherlane.errors import CompileError, one_of, shown
from featherlane.program.analysis.pipeline import ROUNDING, Operator

FOLDER = files("featherlane.backends.fpga") / "devices"
CLOCK = 8.0  # ns
ALL = (100.0, 100.0, 100.0)  # percent


class MultiplierKind(NamedTuple):
    """A multiplier for operands of up to these widths, in either order. cycles: its registers, None
    if the model says them.
    """

    widths: tuple[int, int]
    dsps: int
    cycles: int | None = None

    @property
    def kind(self) -> str:
        return f"multiply {self.widths[0]}x{self.widths[1]}"


class Delay(NamedTuple):
    """Registers, and nanoseconds before and after them, of an operator; `bit` more for each bit."""

    cycles: int = 0
    before: float = 0.0
    after: float = 0.0
    bit: float = 0.0

    def times(self, factor: float) -> Delay:
        """The delay of a slower chip."""
        return Delay(self.cycles, factor * self.before, factor * self.after, factor * self.bit)


class Fabric(NamedTuple):
    """The tiles of an ECP5 that have logic, by their columns and rows as nextpnr counts them."""

    columns: range
    rows: tuple[int, ...]


class Device(NamedTuple):
    """A device with one of its delay models, and the clock of designs for it.

    multipliers: the cheapest first. bits: LUTs of operators, a bit of the result; multiplexers:
    LUTs a bit by the number of sources; blocks: of RAM, of 18 kbit each; shift_register: the
    longest one in a LUT, and the shortest chain of registers that is made one; inputs: of a LUT;
    constraints: the ending of the files of them that its tools read; part: its name in AMD Vivado,
    None for others' devices. post_adder: bits of the adder behind a multiplier, 0 for none;
    registered: whether multipliers are instances that have their registers inside; trees: whether
    multiplexers are trees of choices between two, which the flow for boards has cells for; joins:
    whether those of many inputs are instances of cells that join LUTs; ring: LUTs a bit of the
    memory that a long delay is made of, 0 where synthesis finds shift registers.
    carry: bits of an element of carry chains. block: words and bits of the block memory that tables
    are made of, and FIFOs where that is cheaper; None for memories of LUTs. large: memories that
    are larger than those blocks and cannot be initialised, with words and bits of each
    (`large_block`): UltraRAMs. clock: nanoseconds a
    cycle. most: percent of the multipliers, LUTs and flip-flops that a design may take,
    most_shared: that one may whose operations share units. jitter: percent by which a cycle of its
    PLL may be shorter than the others. fabric: where its logic lies, if known.
    """

    name: str
    model: str
    dsps: int
    luts: int
    ffs: int
    blocks: int
    multipliers: tuple[MultiplierKind, ...]
    bits: Mapping[str, float]
    multiplexers: tuple[tuple[int, float], ...]
    shift_register: tuple[int, int]
    memories: tuple[tuple[int, int, int], ...]
    inputs: int
    delays: Mapping[str, Delay]
    constraints: str
    part: str | None = None
    post_adder: int = 0
    registered: bool = False
    trees: bool = False
    joins: bool = False
    ring: float = 0.0
    carry: int = 1
    block: tuple[int, int] | None = None
    large: int = 0
    large_block: tuple[int, int] | None = None
    clock: float = CLOCK
    most: tuple[float, float, float] = ALL
    most_shared: tuple[float, float, float] = ALL
    jitter: float = 0.0
    fabric: Fabric | None = None

    @property
    def tile(self) -> Tile:
        """The operands of one multiplier: products are cut into pieces of this size. Its post-adder
        is used where the model says how long that takes.
        """
        bits = self.post_adder if "post_add" in self.delays else 0
        widths = self.multipliers[0].widths
        ring = Ring(*self.shift_register) if self.ring else None
        return Tile(
            *widths, post_adder=bits, registered=self.registered, ring=ring, trees=self.trees,
            joins=self.joins, vivado=self.part is not None,
        )  # fmt: skip

    @property
    def register(self) -> float:
        """The nanoseconds of a cycle that a register itself takes."""
        return self.delays["register"].after if "register" in self.delays else 0.0

    def multiplier(self, a: int, b: int) -> MultiplierKind:
        """The cheapest multiplier for operands of these widths. Raises CompileError for none."""
        for kind in self.multipliers:
            if max(a, b) <= max(kind.widths) and min(a, b) <= min(kind.widths):
                return kind
        widest = "x".join(map(str, self.multipliers[-1].widths))
        raise CompileError(f"{self.name} has no multiplier for {a}x{b} bits: {widest} at most")


def names() -> list[str]:
    """The names of all devices."""
    return sorted(f.name.removesuffix(".toml") for f in FOLDER.iterdir() if f.name[-5:] == ".toml")


def load(
    name: str, model: str | None = None, clock: float = CLOCK, grade: int | None = None
) -> Device:
    """Returns a device, by the name of its file, with a delay model, by default its first one, at a
    clock of so many nanoseconds a cycle. grade: that of the chip on a board, whose delays are a
    factor longer, and which takes the share of a design that routing ends with; None: the grade of
    the model, and all of the device. Raises ValueError for an unknown device or model.
    """
    if name not in names():
        raise ValueError(f"device is {shown(name)}: {one_of(name, names())}")
    data = _table(name)
    models = data["models"]
    model = next(iter(models)) if model is None else model
    if model not in [*models]:  # what cannot be hashed is no name either
        raise ValueError(f"delays is {shown(model)}: {name} has {', '.join(models)}")
    device = Device(
        data["name"],
        model,
        **data["resources"],
        **_fabric_costs(data["luts"]),
        multipliers=tuple(
            MultiplierKind((m["widths"][0], m["widths"][1]), m["dsps"], m.get("cycles"))
            for m in data["multipliers"]
        ),
        delays={kind: Delay(**delay) for kind, delay in models[model].items()},
        constraints=data["constraints"],
        part=data.get("part"),
        post_adder=data.get("post_adder", 0),
        registered=data.get("registered", False),
        joins=data.get("joins", False),
        clock=clock,
        jitter=data.get("jitter", 0.0),
        fabric=_fabric(data["fabric"]) if "fabric" in data else None,
    )
    return device if grade is None else _on_board(device, data, grade)


def _fabric_costs(table: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a device that say what its logic consists of, from the table of LUTs; the
    entries that are none of these are LUTs a bit of operators.
    """
    bits = dict(table)
    longest, shortest = bits.pop("shift_register")
    return {
        "multiplexers": tuple((n, luts) for n, luts in bits.pop("multiplexer")),
        "shift_register": (longest, shortest),
        "memories": tuple((places, width, luts) for places, width, luts in bits.pop("memory")),
        "inputs": bits.pop("inputs"),
        "ring": bits.pop("ring", 0.0),
        "carry": bits.pop("carry", 1),
        "block": tuple(bits.pop("block")) if "block" in bits else None,
        "large_block": tuple(bits.pop("large_block")) if "large_block" in bits else None,
        "bits": bits,
    }


def _on_board(device: Device, data: Mapping[str, Any], grade: int) -> Device:
    """A device of a speed grade, which the flow for boards builds designs for."""
    slower = data["grades"][str(grade)]
    return device._replace(
        delays={kind: delay.times(slower) for kind, delay in device.delays.items()},
        trees=data.get("trees", False),
        most=tuple(data["routable"]),
        most_shared=tuple(data["routable_shared"]),
    )


def _fabric(data: Mapping[str, Any]) -> Fabric:
    """The fabric of a table, which has the first and last column and row, and the rows between them
    that have memories and multipliers instead.
    """
    (left, right), (first, last) = data["columns"], data["rows"]
    rows = tuple(y for y in range(first, last + 1) if y not in data["others"])
    return Fabric(range(left, right + 1), rows)


def _table(name: str) -> dict[str, Any]:
    """The table of a device. One that is `like` another has what it does not say of that one."""
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return _table(data.pop("like")) | data if "like" in data else data


# Operators of datapaths

DELAYS = {  # the row of a model for each operation but multiplications
    **dict.fromkeys(("neg", "abs", "add", "sub"), "add"),
    **dict.fromkeys(("less", "less_equal"), "compare"),
    **dict.fromkeys(("sin", "cos"), "sine_cosine"),
    "select": "select",
    "div": "reciprocal",
    "exponent": "exponent",
}
SHARED = frozenset(["sine_cosine", "reciprocal"])
APART = "shared units"  # the region of units that serve several calls


def operators(
    datapath: Datapath, device: Device, apart: bool = False
) -> tuple[Operator | None, ...]:
    """Returns the operator of each node of a datapath on a device, at its clock.

    Multipliers, and units for sine and cosine and for reciprocals, are shared, and where the whole
    design shares them (`apart`) shifters of devices that have the row `shared_shift`; all others
    are not, since a multiplexer costs more than an adder. A sign is an adder. A product with a
    constant power of two is wires, or an adder if it rounds or has a sign, and one with
    `power_of_two`, which is wires itself, a shifter. A sum of a fused product follows that one in
    its multiplier.
    If the model has delays of links, each call is a region, and operands from others come later.
    apart: whether units that are shared lie in none of these, as those of several calls do, with a
    longer way to and from them.
    Delays are stretched by the part of a cycle that registers take, so that chained ones add up.
    Raises CompileError for an operator that does not fit a cycle.
    """
    units = tuple(operator(datapath, device, k) for k in range(len(datapath.graph)))
    if apart and "shared_shift" in device.delays:
        shared = _operator(device, "shared_shift", "shift", 0)._replace(shared=True)
        units = tuple(shared if unit and unit.kind == "shift" else unit for unit in units)
    register = device.register
    for unit in set(units):
        if unit and (longest := register + max(unit.before, unit.after)) > device.clock * (
            1 + ROUNDING
        ):
            raise CompileError(
                f"{unit.kind} takes {longest:g} ns on {device.name} ({device.model}): a cycle of "
                f"{device.clock:g} ns is too short, {1e3 / longest:.1f} MHz would do"
            )
    return _in_regions(datapath, device, units, apart) if "link" in device.delays else units


def _in_regions(
    datapath: Datapath, device: Device, units: Iterable[Operator | None], apart: bool
) -> tuple[Operator | None, ...]:
    """Operators with their regions, which are the calls, and the delays of links between these, as
    far as a cycle has room for them.
    """
    graph, room = datapath.graph, device.clock - device.register
    near = device.delays["link"]
    far = device.delays.get("far", near)
    regions, placed = list[Hashable](), list[Operator | None]()
    for unit, op, args, tag in zip(units, graph.op, graph.args, graph.tag, strict=True):
        sources = {regions[a] for a in args} - {None}
        region = None if op == "constant" else getattr(tag, "call", 0)
        if apart and unit and unit.shared:
            region = APART
        if unit:
            logic = unit.before if unit.cycles else unit.before + unit.after
            others = sources - {region}
            way = far if APART in {region, *others} else near
            link = min(way.after, room - logic) if others else 0.0
            placed.append(unit.in_region(region, link, device.clock / room))
        else:  # wires belong to their operand
            region = next(iter(sources), region)
            placed.append(None)
        regions.append(region)
    return tuple(placed)


def operator(datapath: Datapath, device: Device, k: int) -> Operator | None:
    """The operator of one node; None for inputs, constants and wires."""
    op = datapath.graph.op[k]
    if op in ("input", "constant", "power_of_two"):
        return None
    if op == "mul":
        return _product(datapath, device, k)
    if (n := datapath.fused_operand(k)) is not None:
        delay = device.delays["post_add"]
        return Operator("post_add", delay.cycles, delay.before, delay.after, follows=n)
    kind = DELAYS[op]
    return _operator(device, kind, kind, width(datapath, k))


def _operator(
    device: Device, row: str, kind: str, bits: int, cycles: int | None = None
) -> Operator:
    delay = device.delays[row]
    registers = delay.cycles if cycles is None or not delay.cycles else cycles
    shared = kind in SHARED or row == "multiply"
    size = delay.bit * bits  # of what stands in front of the registers, if there are any
    before, after = (size, 0.0) if registers else (0.0, size)
    return Operator(kind, registers, delay.before + before, delay.after + after, shared)


def _product(datapath: Datapath, device: Device, k: int) -> Operator | None:
    graph = datapath.graph
    if "power_of_two" in [graph.op[a] for a in graph.args[k]]:
        return _operator(device, "shift", "shift", width(datapath, k))
    if is_shift(datapath, k):
        rounds = not _is_exact(datapath, k)
        return _operator(device, "add", "add", width(datapath, k)) if rounds else None
    unit = multiplier(datapath, device, k)
    product = _operator(device, "multiply", unit.kind, sum(unit.widths), unit.cycles)
    if k in datapath.fused:  # the last register stands behind the sum
        product = product._replace(cycles=product.cycles - device.delays["post_add"].cycles)
    return product


def multiplier(datapath: Datapath, device: Device, k: int) -> MultiplierKind:
    """The multiplier of a product."""
    a, b = (significant(datapath, a) for a in datapath.graph.args[k])
    return device.multiplier(a, b)


def is_shift(datapath: Datapath, k: int) -> bool:
    """Tells whether a node is a product with a constant power of two, or with minus one."""
    return any(_is_power(datapath.graph.number(a)) for a in datapath.graph.args[k])


def _is_power(x: float | None) -> bool:
    return x is not None and abs(frexp(x)[0]) == 0.5


def _is_exact(datapath: Datapath, k: int) -> bool:
    """Tells whether a product with a power of two only moves bits: no bit is rounded away, and
    the sign stays.
    """
    graph = datapath.graph
    a, b = graph.args[k]
    x, other = (graph.number(a), b) if _is_power(graph.number(a)) else (graph.number(b), a)
    assert x is not None
    moved = datapath.format(other).fraction - (frexp(x)[1] - 1)
    return x > 0 and moved <= datapath.format(k).fraction


def significant(datapath: Datapath, k: int) -> int:
    """The width of an operand of a product. A constant has the bits of its odd factor."""
    x, form = datapath.graph.number(k), datapath.format(k)
    if x is None:
        return form.width
    return max(significant_bits(x, form), 2)


def significant_bits(x: float, form: Format) -> int:
    """The width of the integer of a constant, with its sign, without zeros at its end."""
    n = abs(round(x * 2.0**form.fraction))
    return (n // (n & -n)).bit_length() + 1 if n else 1


def width(datapath: Datapath, k: int) -> int:
    """The width of the circuit of a node that is no product: that of the result with the bits
    below, which carry into it; of a condition, that of its operands at one fraction.
    """
    graph = datapath.graph
    formats = [f for a in graph.args[k] if (f := datapath.formats[a])]
    finest = max((f.fraction for f in formats), default=0)
    result = datapath.formats[k]
    if result is None:
        return max(f.width + finest - f.fraction for f in formats)
    below = max(finest - result.fraction, 0) if graph.op[k] in ("add", "sub", "neg", "abs") else 0
    return result.width + below
