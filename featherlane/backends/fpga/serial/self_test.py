"""A self-test in the circuit: states from a memory at the pipeline's full rate, a signature of all
results, and the cycles that they took, so that a slow line can prove a fast chip.

The signature is a register of 32 bits that shifts by the polynomial of CRC-32 in each result and
takes it in, all its words of 32 bits added modulo 2. A result whose wrong bits are no more than 32
places apart always changes it, any other one misses it once in 2^32 times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fpga.board.core import TAG, StreamCore, Words
from featherlane.backends.fpga.board.packets import layout_of
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.part import MOST_ENABLED

Array = Any
POLYNOMIAL = 0x04C11DB7  # of CRC-32, without x^32
SIGNATURE = 32  # bits
ADDED = 12  # words of a result that are added in a cycle
MOST_PASSES = 20  # as a power of two
COUNT = 33  # bits of a count of states, with its sign


class TestPlan(NamedTuple):
    """The states of a self-test. tasks: their words as integers, 2^n of them; results: the words
    that come out; mask: bits of these that have a meaning.
    """

    tasks: tuple[int, ...]
    results: tuple[int, ...]
    mask: int

    @property
    def place_bits(self) -> int:
        """Bits of the number of a state."""
        return (len(self.tasks) - 1).bit_length()

    def wanted(self, result_bits: int) -> Array:
        """The results in words of 32 bits, uint32 (states, words)."""
        size = -(-result_bits // 32) * 4
        data = b"".join(word.to_bytes(size, "little") for word in self.results)
        return np.frombuffer(data, "<u4").reshape(len(self.results), -1)


def plan_of(
    core: StreamCore, inputs: Mapping[str, Array], results: Mapping[str, Array]
) -> TestPlan:
    """The self-test of a module. inputs, results: numbers (states, *shape) by name, of 2^n states;
    all of one function, if words have a selector.
    """
    states = len(next(iter(inputs.values())))
    tags = {TAG: np.arange(states)}
    tasks = _words(core.tasks, {**inputs, **tags}, states)
    mask, selector = 0, core.results.selector
    for field in core.results.fields:
        if field.when is None or selector is None or field.when == results[selector].flat[0]:
            mask |= (1 << field.width) - 1 << field.offset
    return TestPlan(tasks, _words(core.results, {**results, **tags}, states), mask)


def _words(words: Words, values: Mapping[str, Array], states: int) -> tuple[int, ...]:
    """Words of numbers, as integers."""
    layout = layout_of(words, "packed", 8)
    data = np.zeros((states, layout.size), np.uint8)
    layout.encode(values, data)
    return tuple(int.from_bytes(row.tobytes(), "little") for row in data)


def self_test(name: str, plan: TestPlan, task_bits: int, result_bits: int) -> Module:
    """The module between a link and the core, which the link's tasks pass while no test runs."""
    module = Module(name, (
        "States from a memory at full rate, a signature of their results and the cycles from the "
        "first state in to the last result out. Without a test the link's tasks pass."
    ))  # fmt: skip
    module.input("clock", "reset", "start")
    module.input("passes", bits=5, comment="all states run 2^this times")
    module.output("running", "done")
    module.output("cycles", bits=32)
    module.output("signature", bits=SIGNATURE)
    module.input("task_valid")
    module.input("task_data", bits=task_bits)
    module.output("in_valid", comment="of the core")
    module.input("in_ready")
    module.output("in_data", bits=task_bits)
    module.input("out_valid")
    module.input("out_data", bits=result_bits)
    _add_memory(module, plan, task_bits)
    _add_counts(module, plan)
    _add_signature(module, plan, result_bits)
    return module


def _add_memory(module: Module, plan: TestPlan, bits: int) -> None:
    """The memory, whose word on offer is read again while it waits."""
    place = plan.place_bits
    memory = 'ram_style = "block"'
    module.declare("states", bits=bits, size=len(plan.tasks), attribute=memory)
    module.declare("state", bits=bits)
    module.declare("offered", comment="state is on offer")
    module.declare("next_state", bits=place)
    module.declare("to_read", bits=COUNT, comment="states, less one: below 0 all were read")
    module.wire("read", None, f"running && !to_read[{COUNT - 1}] && (!offered || in_ready)")
    module.assign("in_valid", "running ? offered : task_valid")
    _add_choice(module, bits)
    module.clocked("state <= states[next_state];", when="read")
    rows = [f"states[{n}] = {bits}'h{word:x};" for n, word in enumerate(plan.tasks)]
    module.process("initial", *rows)


def _add_choice(module: Module, bits: int) -> None:
    """The words of the core: those of the memory or of the link, by registers of their own for
    each part of the bits.
    """
    for n, first in enumerate(range(0, bits, MOST_ENABLED)):
        part = f"[{min(first + MOST_ENABLED, bits) - 1}:{first}]"
        flag = module.declare(f"running_{n}", attribute="keep")
        module.clocked(f"{flag} <= runs;")
        module.assign(f"in_data{part}", f"{flag} ? state{part} : task_data{part}")


def _add_counts(module: Module, plan: TestPlan) -> None:
    """Counts of states, results and cycles."""
    place = plan.place_bits
    module.declare("to_come", bits=COUNT, comment="results, less two: below 0 one is left")
    module.declare("ended", comment="the last result came; the signature takes a cycle more")
    module.declare("counting", comment="the first state has gone in")
    module.wire("last_result", None, f"running && out_valid && to_come[{COUNT - 1}]")
    module.declare("runs", comment="running in the next cycle")
    module.assign("runs", "!reset && (start || (running && !last_result))")
    first = f"{COUNT}'h{(1 << COUNT) - (1 << place):x}"
    module.declare("last_state", bits=COUNT, comment="the number of states, less one")
    module.assign("last_state", f"~({first} << passes)")
    module.clocked(f"""
        ended <= last_result && !reset;
        done <= ended && !reset;
        running <= runs;
        if (start) begin
          to_read <= last_state;
          to_come <= {{last_state[{COUNT - 1}:1], 1'b0}};
          next_state <= '0;
          cycles <= '0;
          offered <= 1'b0;
          counting <= 1'b0;
        end else if (running) begin
          if (read) next_state <= next_state + 1'b1;
          if (read) to_read <= to_read - 1'b1;
          offered <= read || (offered && !in_ready);
          counting <= counting || (offered && in_ready);
          if (counting || (offered && in_ready)) cycles <= cycles + 1'b1;
          if (out_valid) to_come <= to_come - 1'b1;
        end
    """)


def _add_signature(module: Module, plan: TestPlan, bits: int) -> None:
    """The signature, two cycles behind the result that it takes in: the words of a result are added
    in two steps, since they come from a memory of LUTs across the chip.
    """
    room = -(-bits // SIGNATURE) * SIGNATURE
    mask = f"out_data & {bits}'h{plan.mask:x}" if plan.mask != (1 << bits) - 1 else "out_data"
    module.wire("result", room, mask if room == bits else f"{{{room - bits}'d0, {mask}}}")
    module.constant("POLYNOMIAL", f"32'h{POLYNOMIAL:08x}", bits=32)
    words = [f"result[{first + 31}:{first}]" for first in range(0, room, SIGNATURE)]
    sums = list[str]()
    for n in range(0, len(words), ADDED):
        name = module.declare(f"sum_{n // ADDED}", bits=SIGNATURE)
        lines = [" ^ ".join(words[k : k + 3]) for k in range(n, min(n + ADDED, len(words)), 3)]
        if len(lines) == 1:
            module.clocked(f"{name} <= {lines[0]};")
        else:
            module.clocked("\n  ".join([f"{name} <=", " ^\n  ".join(lines)]) + ";")
        sums.append(name)
    module.declare("folded", bits=SIGNATURE, comment="the words of a result, added modulo 2")
    module.declare("fresh", "fresh_sums")
    module.clocked(f"folded <= {' ^ '.join(sums)};")
    module.clocked("""
        fresh_sums <= running && out_valid;
        fresh <= fresh_sums;
        if (start) signature <= '0;
        else if (fresh)
          signature <= {signature[30:0], 1'b0} ^ (signature[31] ? POLYNOMIAL : '0) ^ folded;
    """)


# The expected signature


def signature_of(results: Array, passes: int) -> Array:
    """The signature of results (states, words) of 32 bits, uint32 (1,), after 2^passes rounds.

    One round is an affine map of 32 bits over GF(2), s -> A s + b; it is doubled `passes` times.
    """
    state = np.zeros(1, np.uint32)
    columns = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for row in np.bitwise_xor.reduce(np.asarray(results, np.uint32), axis=1):
        state, columns = _shifted(state) ^ row, _shifted(columns)
    for _ in range(passes):
        state = _product(columns, state) ^ state
        columns = _product(columns, columns)
    return state


def _shifted(x: Array) -> Array:
    """x times the variable of the polynomial, modulo it."""
    return (x << np.uint32(1)) ^ np.where(x >> np.uint32(31), np.uint32(POLYNOMIAL), np.uint32(0))


def _product(columns: Array, x: Array) -> Array:
    """A matrix by its columns times vectors."""
    bits = x[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return np.bitwise_xor.reduce(np.where(bits, columns, np.uint32(0)), -1)
