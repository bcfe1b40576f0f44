"""A proof that the stream around a datapath loses and repeats no state, whatever its two ends do.

States are numbered: each word is the number of the states let in before it, and the datapath adds
one. Yosys turns the sources into formulas, and z3 proves by induction over cycles that the words
that come out are numbered in the same order without gaps, and that each state that was let in is
in the datapath or in the FIFO until it comes out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from circuit_proofs.tools import yosys
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.module import Module, named, same, sources
from featherlane.backends.fpga.verilog import Design, design
from featherlane.errors import CompileError
from featherlane.program.analysis.pipeline import Operator, Pipeline
from featherlane.program.graph import Graph, Output
from featherlane.scalar import Tag

NUMBER = 5  # bits of the numbers of states: more than twice as many as are under way
SCRIPT = (
    "read_verilog -sv {files}; prep -top proof -flatten; memory_map; async2sync; dffunmap; "
    "opt_clean; write_smt2 -stbv -wires -bv proof.smt2"
)


def counting(interval: int, latency: int, depth: int | None = None) -> Design:
    """The design whose datapath adds one to a small number, with a latency of 1 or more."""
    graph = Graph()
    (x,) = graph.declare("x", (1,))
    one = graph.constant(1.0)
    graph.current_tag = Tag("R", "f", 0, 1)
    total = graph.node("add", x, one)
    graph.outputs["y"] = Output((1,), (total,))
    operators = tuple([Operator("add", 1) if k == total else None for k in range(3)])
    nothing = (0, 0, 0)
    pipeline = Pipeline(graph, operators, 8.0, interval, nothing, nothing, (-1, -1, -1), latency)
    return design("counting", Datapath(graph, (Format(NUMBER, 0),) * 3), pipeline, depth=depth)


def formulas(modules: Iterable[Module]) -> str:
    """The formulas of modules, of which one is called `proof`, in SMT-LIB."""
    files = sources(named(*modules))
    return yosys(SCRIPT.format(files=" ".join(files)), files, "proof.smt2").decode()


def harness(counted: Design) -> Module:
    """The module around a design that counts the states at both ends of its stream."""
    module = Module("proof")
    module.input("clock", "in_valid", "out_ready")
    module.output("started", "in_ready", "out_valid")
    module.output("accepted", "emitted", "out_data", bits=NUMBER)
    module.process("initial", "started = 0;")
    ports = {"clock": "clock", "reset": "!started", "in_data": "accepted"}
    others = ("in_valid", "in_ready", "out_valid", "out_ready", "out_data")
    module.instance(counted.name, "device", {**ports, **same(others)})
    module.clocked("""
        started <= 1;
        accepted <= started ? accepted + (in_valid && in_ready) : '0;
        emitted <= started ? emitted + (out_valid && out_ready) : '0;
    """)
    return module


def prove(counted: Design) -> int:
    """Proves a design of `counting`; returns the cycles over which the induction goes.

    Raises CompileError if Yosys or z3 is missing, and for a cycle in which a state is lost or
    repeated.
    """
    if not 2 <= counted.depth < 1 << NUMBER - 1:
        raise CompileError(f"depth is {counted.depth}: wanted 2 to {(1 << NUMBER - 1) - 1}")
    text = formulas([*counted.modules.values(), harness(counted)])
    # The datapath forgets within so many cycles all that the formulas below do not say
    cycles = counted.latency + counted.interval + 2
    prove_by_induction(counted.name, text, lambda s: _invariants(s, counted), cycles)
    return cycles


Formulas = Callable[[str], Iterable[str]]  # of a state
Run = Callable[[list[str]], str]  # a formula of states that follow each other


def prove_by_induction(
    name: str, text: str, invariants: Formulas, cycles: int, given: Formulas = lambda s: ()
) -> None:
    """Proves that invariants hold in each cycle: in the first `cycles` ones, and after so many in
    which they do. text: the formulas of the module `proof`; given: what is taken for granted.

    Raises CompileError for what is not proved, and if z3 is missing.
    """
    states = [f"s{n}" for n in range(cycles + 1)]
    right = [_all(invariants(s)) for s in states]
    start = ["(|proof_i| s0)", f"(not {_all(right)})"]
    _refute(text, states, given, start, f"the stream of {name} is not proved from reset")
    step = [*right[:-1], f"(not {right[-1]})"]
    message = f"the stream of {name} is not proved in a step of the induction"
    _refute(text, states, given, step, message)


def prove_never(
    name: str,
    text: str,
    invariants: Formulas,
    given: Formulas,
    never: Run,
    cycles: int,
    message: str,
) -> None:
    """Proves that a formula holds in no run of so many cycles from a state with the invariants on.
    told: what could happen otherwise. Errors as of `prove_by_induction`.
    """
    states = [f"s{n}" for n in range(cycles)]
    _refute(text, states, given, [_all(invariants(states[0])), never(states)], f"{name}: {message}")


def _all(formulas: Iterable[str]) -> str:
    return f"(and true {' '.join(formulas)})"


def _refute(
    text: str, states: list[str], given: Formulas, formulas: Iterable[str], message: str
) -> None:
    """Raises CompileError where states that follow each other are found for which formulas hold."""
    try:
        import z3
    except ImportError:
        raise CompileError(
            "z3 is not installed: pip install 'featherlane[fpga]' brings z3-solver"
        ) from None
    lines = [f"(declare-fun {s} () |proof_s|)" for s in states]
    every = [f"(|proof_h| {s})" for s in states]
    every += [f"(|proof_t| {a} {b})" for a, b in itertools.pairwise(states)]
    every += [claim for s in states for claim in given(s)]
    lines += [f"(assert {claim})" for claim in (*every, *formulas)]
    solver = z3.SolverFor("QF_BV")
    solver.from_string("\n".join([text, *lines]))
    if (answer := str(solver.check())) != "unsat":
        raise CompileError(f"{message}: {answer}")


def _invariants(s: str, counted: Design) -> Iterator[str]:
    """The invariants of each cycle after the reset."""
    started = f"(|proof_n started| {s})"
    for claim in _claims(s, counted):
        yield f"(=> {started} {claim})"


def _claims(s: str, counted: Design) -> Iterator[str]:
    own = counted.depth.bit_length()

    def read(name: str) -> str:
        return f"(|proof_n {name}| {s})"

    def wide(name: str) -> str:
        return f"((_ zero_extend {NUMBER - own}) {read(f'device.stream.{name}')})"

    def number(x: int, bits: int = NUMBER) -> str:
        return f"(_ bv{x % (1 << bits)} {bits})"

    credits, count, first, last = map(wide, ("credits", "count", "first", "last"))
    travelling = read("device.stream.travelling")
    here = [f"(= ((_ extract {n} {n}) {travelling}) #b1)" for n in range(counted.latency + 1)]
    inside = number(0)
    for flag in here:
        inside = f"(bvadd {inside} (ite {flag} {number(1)} {number(0)}))"
    under_way = f"(bvadd {count} {inside})"
    yield f"(= (bvadd {credits} {under_way}) {number(counted.depth)})"
    yield f"(= (bvsub {read('accepted')} {read('emitted')}) {under_way})"
    for x in (credits, count):
        yield f"(bvule {x} {number(counted.depth)})"
    for x in (first, last):
        yield f"(bvult {x} {number(counted.depth)})"
    end = f"(bvadd {first} {count})"
    wrapped = f"(bvsub {end} {number(counted.depth)})"
    yield f"(= {last} (ite (bvult {end} {number(counted.depth)}) {end} {wrapped}))"
    yield f"(= {read('out_valid')} (not (= {count} {number(0)})))"
    yield f"(=> {read('out_valid')} (= {read('out_data')} (bvadd {read('emitted')} {number(1)})))"
    yield from _of_places(read, number, first, count, counted.depth)
    if counted.interval > 1:
        bits = (counted.interval - 1).bit_length()
        phase = read("device.stream.phase")
        for n, flag in enumerate(here):
            wanted = number(n % counted.interval, bits) if bits > 1 else None
            same = f"(= {phase} {wanted})" if wanted else _bit(phase, n % counted.interval)
            yield f"(=> {flag} {same})"
        if bits > 1:
            yield f"(bvule {phase} {number(counted.interval - 1, bits)})"


def _bit(name: str, value: int) -> str:
    return name if value else f"(not {name})"


def _of_places(read: Any, number: Any, first: str, count: str, depth: int) -> Iterator[str]:
    """The word in each place of the FIFO that is taken: numbers in their order."""
    for place in range(depth):
        behind = f"(bvsub {number(place)} {first})"
        wrapped = f"(bvadd {behind} {number(depth)})"
        order = f"(ite (bvult {number(place)} {first}) {wrapped} {behind})"
        word = read(f"device.stream.fifo[{place}]")
        wanted = f"(bvadd {read('emitted')} (bvadd {order} {number(1)}))"
        yield f"(=> (bvult {order} {count}) (= {word} {wanted}))"
