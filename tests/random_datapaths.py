"""Random datapaths of all operations, with a simple schedule for each."""

import random
from collections import defaultdict

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.program.analysis.pipeline import Operator, Pipeline
from featherlane.program.graph import Graph, Output
from featherlane.scalar import Tag

SHARED = {"mul", "sin", "cos", "div"}


def random_datapath(seed, size=40, inputs=4, ops=None):
    """Operands are numbers drawn from all that are there; formats are random."""
    draw = random.Random(seed)
    graph, formats = Graph(), {}
    ops = ops or ["neg", "abs", "add", "sub", "mul", "times", "select", "trig", "inverse", "power"]
    numbers = graph.declare("x", (inputs,))
    formats |= {k: any_format(draw) for k in numbers}
    for n in range(size):
        graph.current_tag = Tag("RDM"[n * 3 // size], "fb"[n % 2], n % 3, 1 + n * 6 // size)
        new = enter(draw, graph, formats, draw.choice(ops), numbers)
        numbers += [k for k in new if k not in numbers]
    read = {a for args in graph.args for a in args}
    ends = [k for k in numbers if k not in read or draw.random() < 0.1]
    graph.outputs["y"] = Output((len(ends),), tuple(ends))
    return cleaned(graph, formats)


def any_format(draw, least=2, most=32):
    width = draw.randint(least, most)
    return Format(width, draw.choice([width // 2, draw.randint(-2, width + 2)]))


def enter(draw, graph, formats, op, numbers):
    """Enters an operation, with those in front of it, and gives the nodes that are numbers."""
    a, b, c, d = (draw.choice(numbers) for _ in range(4))

    def made(k, to):
        formats.setdefault(k, to)
        return k

    def constant():
        x = draw.choice([0.0, 1.0, 0.5, 3.0, -1.5, 0.3, -0.7, 6.25])
        return made(graph.node("constant", value=x), Format(draw.randint(12, 20), 8))

    if op in ("neg", "abs"):
        return [made(graph.node(op, a), any_format(draw))]
    if op in ("add", "sub", "mul"):
        return [made(graph.node(op, a, b), any_format(draw))]
    if op == "times":
        return [made(graph.node("mul", a, constant()), any_format(draw))]
    if op == "multiply-add":  # of a product that nothing else reads
        factors = a, draw.choice([b, b, constant()])
        product = made(graph.node("mul", *factors), any_format(draw))
        terms = draw.choice([(product, c), (c, product)])
        return [made(graph.node(draw.choice(["add", "sub"]), *terms), any_format(draw))]
    if op == "select":
        condition = graph.node(draw.choice(["less", "less_equal"]), a, b)
        other = draw.choice([d, constant()])
        return [made(graph.node("select", condition, c, other), any_format(draw))]
    if op == "trig":
        angle = made(graph.node("add", a, b), draw.choice([Format(20, 15), Format(32, 26)]))
        to = draw.choice([Format(18, 16), Format(18, 17), Format(27, 25), Format(12, 8)])
        sine = made(graph.node("sin", angle), to)
        return [sine, made(graph.node("cos", angle), draw.choice([to, Format(16, 14)]))]
    one = made(graph.node("constant", value=1.0), Format(12, 8))
    exponent = made(graph.node("exponent", a), Format(8, 0))
    negative = made(graph.node("neg", exponent), Format(draw.choice([7, 8]), 0))
    power = made(graph.node("power_of_two", negative), Format(draw.choice([7, 8]), 0))
    if op == "power":
        return [exponent, made(graph.node("mul", b, power), any_format(draw))]
    to = draw.choice([Format(18, 16), Format(27, 25), Format(6, 4), Format(8, 6)])
    mantissa = made(graph.node("mul", a, power), to)
    if not 0 <= formats[mantissa].fraction <= formats[mantissa].width - 2:
        return [mantissa]  # entered before, in a format that does not hold 1
    out = draw.choice([Format(18, 16), Format(18, 17), Format(27, 24), Format(32, 28)])
    inverse = made(graph.node("div", one, mantissa), out)
    return [mantissa, inverse, made(graph.node("mul", inverse, power), any_format(draw))]


def cleaned(graph, formats):
    """Returns the datapath of the live nodes."""
    new, place, found = Graph(), {}, []
    new.inputs = dict(graph.inputs)
    for k, live in enumerate(graph.live()):
        if live:
            new.current_tag = graph.tag[k]
            args = [place[a] for a in graph.args[k]]
            place[k] = new.node(graph.op[k], *args, value=graph.value[k])
            found.append(formats.get(k))
    new.outputs = {
        name: Output(shape, tuple(place[k] for k in nodes))
        for name, (shape, nodes) in graph.outputs.items()
    }
    return Datapath(new, tuple(found))


def with_mixed_formats(datapath, seed):
    """Returns a datapath with numbers of 6 to 18 bits, of which 0 to 9 stand before the point."""
    draw, formats = random.Random(seed), list(datapath.formats)
    for k, op in enumerate(datapath.graph.op):
        if op in ("neg", "add", "sub", "mul", "input"):
            width = draw.randint(6, 18)
            formats[k] = Format(width, width - draw.randint(0, 9))
    return Datapath(datapath.graph, tuple(formats))


CYCLES = {"mul": 3, "sin": 7, "cos": 7, "div": 9, "select": 1}


def scheduled(datapath, interval=1, cycles=CYCLES, wires=("power_of_two",), latest=0, pool=None):
    """As soon as possible; units are shared at intervals above 1, by pool: calls, if None."""
    graph = datapath.graph
    start, unit, pools, operators = [], [], [], []
    busy = defaultdict(set)
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        wire = op in wires
        powers = any(graph.op[a] == "power_of_two" for a in args)
        shared = op in SHARED and interval > 1 and not powers
        kind = "trig" if op in ("sin", "cos") else op
        operator = Operator(kind, cycles.get(op, k % 2), shared=shared) if args else None
        operators.append(None if wire else operator)
        here = getattr(graph.tag[k], "call", 0) if pool is None else pool(k)
        pools.append(here)
        ready = [start[a] + (operators[a].cycles if operators[a] else 0) for a in args]
        first = max(ready, default=0)
        number = -1
        if op == "input":
            first = graph.value[k][1] * latest
        elif shared:
            first, number = _slot(busy, (here, kind), first, interval, (args, op), k % 3)
        start.append(first)
        unit.append(number)
    ends = [k for out in graph.outputs.values() for k in out.nodes]
    latency = max(start[k] + (operators[k].cycles if operators[k] else 0) for k in ends) + 1
    return Pipeline(
        graph, tuple(operators), 8.0, interval, tuple(start), tuple(pools), tuple(unit), latency
    )


def _slot(busy, key, first, interval, what, late):
    """The first free cycle on one of two units."""
    for cycle in range(first + late, first + late + interval):
        for number in (0, 1):
            if (key, number, cycle % interval) not in busy:
                busy[key, number, cycle % interval] = what
                return cycle, number
    number = 2 + sum(other[0] == key for other in busy)
    busy[key, number, first % interval] = what
    return first, number
