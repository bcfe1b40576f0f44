"""Tables of devices, and what pipelines cost there."""

from dataclasses import replace

import pytest

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga import devices, verilog
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.piece_costs import chain_resources, multiplexer
from featherlane.errors import CompileError
from featherlane.program.analysis.modulo import pipelined
from featherlane.program.graph import Graph, Output
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.scalar import Tag

WIDE = Format(32, 16)
CLOCK = 8.0


@pytest.fixture
def vu9p():
    return devices.load("xcvu9p")


def datapath(function, inputs, own=(), wide=WIDE):
    """A datapath of one format, but for nodes of operations in `own`."""
    graph = simplify(trace(lambda x: {"y": function(x)}, {"x": inputs}))
    given = dict(own)
    formats = [None if op in ("less", "less_equal") else given.get(op, wide) for op in graph.op]
    return Datapath(graph, tuple(formats))


def costed(data, device, interval):
    own = devices.operators(data, device)
    pipeline = pipelined(data.graph, own, CLOCK, interval)
    pipeline.verify()
    return cost(verilog.design("d", data, pipeline, device.tile), device), pipeline


def kinds(data, device):
    return [o.kind for o in devices.operators(data, device) if o]


@pytest.mark.parametrize("name", devices.names())
def test_every_table_is_complete(name):
    """All models have all rows, and each operation of a datapath has a row."""
    first = devices.load(name)
    needed = {*devices.DELAYS.values(), "multiply", "shift"}
    some = {"post_add", "register", "link", "far", "shared_shift"}  # of models that have them
    assert set(devices.load(name).delays) - some == needed
    for row in ("add", "compare", "select", "shift", "exponent"):
        assert first.bits[row] > 0
    assert {m.dsps for m in first.multipliers} >= {1, 2, 4}
    assert first.multiplier(32, 32).dsps == 4
    assert sorted(m.dsps for m in first.multipliers) == [m.dsps for m in first.multipliers]


def test_multipliers_by_widths(vu9p):
    found = {(a, b): vu9p.multiplier(a, b).dsps for a in (18, 27, 32) for b in (18, 27, 32)}
    assert found == {
        (18, 18): 1, (18, 27): 1, (27, 18): 1, (27, 27): 2, (18, 32): 2, (32, 18): 2,
        (27, 32): 2, (32, 27): 2, (32, 32): 4,
    }  # fmt: skip
    with pytest.raises(CompileError, match="XCVU9P has no multiplier for 48x40 bits: 44x35 at"):
        vu9p.multiplier(48, 40)


def test_unknown_names():
    with pytest.raises(ValueError, match=r"device is 'zynq': wanted one of 'ecp5_12k', .*'xcvu9p'"):
        devices.load("zynq")
    with pytest.raises(ValueError, match="delays is 'fast': ecp5_85k has registered"):
        devices.load("ecp5_85k", "fast")


def test_operators_of_products(vu9p):
    """A constant is as wide as its odd factor; powers of two are wires, or adders that round."""
    data = datapath(lambda x: [x[0] * x[1], x[0] * 3.0, x[0] * 2.0, x[0] * 0.5, x[0] * -2.0], 2)
    own = devices.operators(data, vu9p)
    products = [own[k] for k in data.graph.outputs["y"].nodes]
    assert [o and o.kind for o in products] == [
        "multiply 44x35", "multiply 35x27", None, "add", "add",
    ]  # fmt: skip
    assert [o and o.shared for o in products] == [True, True, None, False, False]


def test_other_operators(vu9p):
    def function(x):
        from featherlane.scalar import cos, scale_to_one, select, sin

        scale = scale_to_one(x[0])
        return [sin(x[0]), cos(x[0]), 1.0 / (x[0] * scale), select(x[0] < x[1], x[0], x[1])]

    narrow = {"exponent": Format(8, 0), "neg": Format(8, 0), "power_of_two": Format(8, 0)}
    data = datapath(function, 2, narrow)
    found = kinds(data, vu9p)
    assert sorted(found) == sorted(
        ["sine_cosine"] * 2 + ["exponent", "add", "shift", "reciprocal", "compare", "select"]
    )
    total, pipeline = costed(data, vu9p, 1)
    assert total.kinds["sine_cosine"].dsps == 7
    assert total.total.dsps == 7 + 2
    assert pipeline.latency == 1 + 1 + 10  # the sign is in the cycle in which the shifter starts


def test_a_clock_that_is_too_fast(vu9p):
    data = datapath(lambda x: [x[0] + x[1]], 2)
    with pytest.raises(CompileError, match=r"add takes 4 ns on XCVU9P \(two_additions\): .* 250.0"):
        devices.operators(data, vu9p._replace(clock=2.0))


def test_the_cost_of_a_pipeline(vu9p):
    """Four products of 32 bits and their sum, on four multipliers and on one, whose registers are
    inside DSPs or, without post-adders, could be.
    """
    instances = vu9p
    vu9p = vu9p._replace(post_adder=0)
    data = datapath(lambda x: [sum(x[2 * k] * x[2 * k + 1] for k in range(4))], 8)
    wide, pipeline = costed(data, vu9p, 1)
    # Around the datapath: a word of inputs, a bit for each cycle of a state, counters of the FIFO
    assert 0 < wide.kinds["stream"].ffs - (8 * 32 + pipeline.latency + 1) < 32
    assert (wide.total.dsps, wide.kinds["add"].luts) == (12, 96)
    assert wide.kinds["multiplexers"].luts == 0
    narrow, pipeline = costed(data, vu9p, 4)
    assert (narrow.total.dsps, pipeline.kinds["multiply 44x35"]) == (3, 1)
    assert narrow.kinds["multiplexers"].luts == 2 * 32
    assert 2 * 32 <= narrow.packed < narrow.total.ffs
    inside, _ = costed(data, instances, 4)
    assert (inside.total.dsps, inside.packed) == (3, 0)
    assert inside.kinds["multiply"].luts < narrow.kinds["multiply"].luts
    assert inside.total.ffs < narrow.total.ffs - narrow.packed
    assert narrow.shares.dsps == pytest.approx(300 / 6840)
    assert narrow.fits
    assert str(narrow).splitlines()[-1].split()[:4] == ["of", "XCVU9P", "0.0", "%"]


def test_registers_that_are_read_through_wires(vu9p):
    """x0 waits for a product, and what is twice as much is a wire behind its registers."""
    data = datapath(lambda x: [x[0] * 2.0 + x[1] * x[2], x[0] + x[1] * x[2]], 3)
    _, pipeline = costed(data, vu9p, 1)
    x0 = next(k for k in data.graph.nodes_of("input") if data.graph.value[k] == ("x", 0))
    assert pipeline.registers_read[x0] == {2}
    assert pipeline.registers[x0] == 3


def test_long_chains_of_registers_are_shift_registers(vu9p):
    assert chain_resources(vu9p, {0, 1}) == (0, 2)
    assert chain_resources(vu9p, {9}) == (1, 0)
    assert chain_resources(vu9p, {1, 40}) == (2, 2)
    ecp5 = devices.load("ecp5_85k")  # a memory of 16 places, and a register behind it
    assert chain_resources(ecp5, {4}) == (0, 5)
    assert chain_resources(ecp5, {9}) == (1.5, 1)
    assert chain_resources(ecp5, {1, 40}) == (3, 2 + 2 + 5)


def test_operands_from_other_calls_come_by_links():
    """The sum of one call is a region; the next one reads it from a register, and later."""
    device = devices.load("ecp5_85k")
    graph = Graph()
    a, b = graph.declare("x", (2,))
    graph.current_tag = Tag("R", "f", 0, 1)
    first = graph.node("add", a, b)
    inner = graph.node("add", first, first)
    graph.current_tag = Tag("R", "f", 1, 2)
    outer = graph.node("neg", first)
    graph.outputs["y"] = Output((2,), (inner, outer))
    units = devices.operators(Datapath(graph, (Format(18, 9),) * len(graph)), device)
    assert [unit.region for unit in units if unit] == [1, 1, 2]
    stretch = device.clock / (device.clock - device.register)
    link = stretch * device.delays["link"].after
    assert units[first].after == units[outer].after == pytest.approx(units[inner].after + link)
    pipeline = pipelined(graph, units, device.clock, 1)
    pipeline.verify()
    assert (pipeline.start[first], pipeline.start[outer], pipeline.latency) == (0, 1, 1)
    chained = replace(pipeline, start=(0,) * len(graph), clock=99.0)
    with pytest.raises(ValueError, match=rf"node {outer} \(neg\) in cycle 0 is chained to node 2"):
        chained.verify()


def test_delays_of_registers_are_part_of_a_cycle():
    data, ecp5 = datapath(lambda x: [x[0] + x[1]], 2), devices.load("ecp5_85k")
    (unit,) = filter(None, devices.operators(data, ecp5._replace(clock=100.0)))
    (short,) = filter(None, devices.operators(data, ecp5._replace(clock=6.0)))
    assert short.after == pytest.approx(
        unit.after * (100 - ecp5.register) / (6 - ecp5.register) * 0.06
    )


def test_multiplexers_between_the_figures_of_the_table(vu9p):
    found = [multiplexer(vu9p, set(map(str, range(n))), 4) for n in (0, 1, 2, 4, 12, 23)]
    assert found == [0, 0, 1, 2, 5.5, 11]
    assert multiplexer(vu9p, {"a", "b", "c", "d", 0}, 2) == 1
    assert multiplexer(vu9p, {0, 1}, 4) == 1
