"""A search from several starts as machine code: the inner loop of a generalised ufunc that calls a
kernel of steps for a block of rows, each with one start of one target.

Targets that are reached make room for others at once, so that the lanes of vectors stay full. Where
no target waits, free lanes try further starts of targets that are not reached. The result of a
target is that of its first start that succeeds, or the best of all: it does not depend on others.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.compile import SLOTS, Kernel
from featherlane.backends.cpu.graphs.gather import first_strides
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.scratch import LoopWorkspaces
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded
from featherlane.program.plan import Shape

ROWS = 64  # of a block: vectors are full until few targets are left
LAST = 2  # calls from a start without the posture, which may have drawn others into their limits
CALLS = 6  # of the steps for a target, about: for the cost of a search
OPTIONS = "gain", "settled", "starts", "calls"
COUNTERS = "targets", "next", "live", "row"  # words of the workspace
LISTS = "target", "start", "call"  # with a word for each row
SHARED = "ptr %args, ptr %steps, ptr %memory"  # parameters of all functions


class SearchArrays(NamedTuple):
    """The arrays of a search by name, with their shapes for one target. state: "q" and "step",
    which steps change; constants: further inputs of steps; errors: how many there are, besides the
    square of the step. The entries of one target lie one after another.
    """

    state: Mapping[str, Shape]
    constants: Mapping[str, Shape]
    errors: int

    def inputs(self, starts: int) -> dict[str, Shape]:
        """Returns the inputs: the first start of each target; all starts, in which NaN stays as in
        the first one; the largest errors; [gain, square of the largest last step, number of starts,
        calls from a start]; the constants.
        """
        size = self.state["q"]
        shared = {"starts": (starts, *size), "largest": (self.errors,), "options": (len(OPTIONS),)}
        return {"first": size, **shared, **self.constants}

    @property
    def outputs(self) -> dict[str, Shape]:
        """Returns the results: q, its errors, a score of 0 if it is reached, else above 1; the
        numbers of its start and of the call that led there, and of starts that were begun.
        """
        numbers = dict.fromkeys(("score", "start", "call", "begun"), ())
        return {"q_end": self.state["q"], "error": (self.errors,), **numbers}


def compile_search(arrays: SearchArrays, steps: Kernel, key: str) -> Kernel:
    """Returns the kernel of a search. steps: the kernel of (q, step, gain, constants ...) -> (q,
    step, errors with the square of the step).
    """
    text = lambda: _Text(arrays, steps).source()
    dtype = steps.dtype
    code = loaded(f"{key} search {dtype} {steps.width}", text, ("loop", SLOTS, "steps"))
    ctypes.c_int64.from_address(code.address_of("steps")).value = steps.code.address
    return Kernel(code, dtype, steps.width, (steps,))


class _Text:
    """The text of a search. Its functions read the user's arrays by %args and %steps, from target
    to target, and the workspace %memory.
    """

    def __init__(self, arrays: SearchArrays, steps: Kernel) -> None:
        self.arrays, self.kernel = arrays, steps
        self.size, self.lanes = steps.dtype.itemsize, Lanes(steps.dtype, 1)
        user = {**arrays.inputs(1), **arrays.outputs}  # machine code reads no number of starts
        self.number = {name: n for n, name in enumerate(user)}
        error = {"errors": (arrays.errors + 1,)}
        self.block: dict[str, Shape] = {**arrays.state, "gain": (), **arrays.constants, **error}
        self.places, end = {}, 8 * len(COUNTERS)
        for name in LISTS:
            self.places[name], end = end, end + 8 * ROWS
        for name, shape in self.block.items():
            self.places[name], end = end, end + self.bytes(shape) * ROWS
        self.workspaces = LoopWorkspaces({"memory": end})

    def bytes(self, shape: Shape) -> int:
        return math.prod(shape) * self.size

    def source(self) -> str:
        t = self.lanes.scalar
        parts = self.begin(), self.more(), self.record(), self.judge(), self.remove(), self.loop()
        return f"""
@steps = global ptr null, align 8
@{SLOTS} = constant i64 {CALLS * self.kernel.slots}
declare {t} @llvm.maximum.f{self.lanes.bits}({t}, {t})
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
{expanded("".join(parts))}
{self.workspaces.functions()}"""

    # Lines that set a value

    def counter(self, name: str) -> str:
        """%name.at: the address of a counter; %name: its value."""
        return f"""
  %{name}.at = at %memory {8 * COUNTERS.index(name)}
  %{name} = load i64, ptr %{name}.at, align 8"""

    def listed(self, name: str, row: str, value: str) -> str:
        """%value.at: the address of a row's word in a list; %value: the word."""
        return f"""
  %{value}.o = add i64 $(mul i64 {row}, 8), {self.places[name]}
  %{value}.at = at %memory %{value}.o
  %{value} = load i64, ptr %{value}.at, align 8"""

    def of_row(self, name: str, row: str, value: str) -> str:
        """%value: the address of a row of an array of the block."""
        step = self.bytes(self.block[name])
        return f"""
  %{value}.o = add i64 $(mul i64 {row}, {step}), {self.places[name]}
  %{value} = at %memory %{value}.o"""

    def of_user(self, name: str, target: str, value: str) -> str:
        """%value: the address of an array of the user for a target."""
        n = self.number[name]
        return f"""
  %{value}.s = mul i64 $(item i64 %steps {n}), {target}
  %{value} = at $(item ptr %args {n}) %{value}.s"""

    def result(self, name: str, target: str, value: str) -> str:
        """%value.at: the address of a number of the user for a target; %value: the number."""
        return self.of_user(name, target, f"{value}.at") + self.load(value, f"%{value}.at")

    def option(self, name: str, value: str) -> str:
        """%value: a number of the options."""
        at = self.size * OPTIONS.index(name)
        return f"""
  %{value}.all = item ptr %args {self.number["options"]}
  {self.load(value, f"$(at %{value}.all {at})")}"""

    def load(self, value: str, at: str) -> str:
        return f"\n  %{value} = load {self.lanes.scalar}, ptr {at}, align {self.size}"

    def store(self, value: str, at: str) -> str:
        return f"\n  store {self.lanes.scalar} {value}, ptr {at}, align {self.size}"

    def copy(self, source: str, to: str, shape: Shape) -> str:
        return f"""
  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {self.bytes(shape)}, i1 false)"""

    # Functions

    def begin(self) -> str:
        """@begin: puts a start of a target into a row."""
        t, s = self.lanes.scalar, self.size
        (nq,), (nv,) = self.arrays.state["q"], self.arrays.state["step"]
        constants = "".join(
            f"""
  when eq i64 $(item i64 %steps {self.number[name]}), 0: c{k}.same, c{k}
c{k}:{self.of_user(name, "%target.new", f"c{k}.from")}{self.of_row(name, "%row", f"c{k}.to")}
  {self.copy(f"%c{k}.from", f"%c{k}.to", shape)}
  br label %c{k}.same
c{k}.same:"""
            for k, (name, shape) in enumerate(self.arrays.constants.items())
        )
        return f"""
define internal void @begin({SHARED},
                            i64 %row, i64 %target.new, i64 %start.new) noinline {{
  {self.listed("target", "%row", "target")}{self.listed("start", "%row", "start")}
  {self.listed("call", "%row", "call")}
  store i64 %target.new, ptr %target.at, align 8
  store i64 %start.new, ptr %start.at, align 8
  store i64 0, ptr %call.at, align 8
  {self.of_row("step", "%row", "step")}
  call void @llvm.memset.p0.i64(ptr %step, i8 0, i64 {nv * s}, i1 false)
  {self.of_row("q", "%row", "q")}{self.of_user("first", "%target.new", "first")}
  %starts = item ptr %args {self.number["starts"]}
  %other = at %starts $(mul i64 %start.new, {nq * s})
  each %j 0 {nq}
  %o = mul i64 %j, {s}
  {self.load("x", "$(at %first %o)")}{self.load("y", "$(at %other %o)")}
  %stays = fcmp uno {t} %y, %y
  %z = select i1 %stays, {t} %x, {t} %y
  {self.store("%z", "$(at %q %o)")}
  again %j{constants}
  ret void
}}
"""

    def more(self) -> str:
        """@more: begins another start in a row, if there is one: that of a target that waits; or,
        if the lane would be free otherwise, a further one of a target in the block.
        """
        t = self.lanes.scalar
        values = {"score": np.inf, "start": 0.0, "call": 0.0, "begun": 1.0}
        results = "".join(
            self.of_user(name, "%next", name) + self.store(self.lanes.number(x), f"%{name}")
            for name, x in values.items()
        )
        return f"""
define internal i1 @more({SHARED}, i64 %row, i64 %others) noinline {{
  {self.counter("targets")}{self.counter("next")}{self.counter("live")}
  when slt i64 %next, %targets: new, old
new:
  store i64 $(add i64 %next, 1), ptr %next.at, align 8
  {results}{self.of_user("first", "%next", "first")}{self.of_user("q_end", "%next", "q_end")}
  {self.copy("%first", "%q_end", self.arrays.state["q"])}{self.of_user("error", "%next", "error")}
  each %e 0 {self.arrays.errors}
  {self.store(self.lanes.number(np.inf), f"$(at %error $(mul i64 %e, {self.size}))")}
  again %e
  call void @begin({SHARED}, i64 %row, i64 %next, i64 0)
  ret i1 true
old:
  {self.option("starts", "most")}
  %lane = urem i64 %others, {self.kernel.width}
  when eq i64 %lane, 0: none, look
look:
  each %r 0 %live
  {self.listed("target", "%r", "t")}
  {self.result("score", "%t", "s")}{self.result("begun", "%t", "b")}
  %missed = fcmp ogt {t} %s, {self.lanes.number(1.0)}
  %left = fcmp olt {t} %b, %most
  when $(and i1 %missed, %left): help, skip
help:
  {self.store(f"$(fadd {t} %b, {self.lanes.number(1.0)})", "%b.at")}
  %b.now = fptosi {t} %b to i64
  call void @begin({SHARED}, i64 %row, i64 %t, i64 %b.now)
  ret i1 true
skip:
  again %r
  br label %none
none:
  ret i1 false
}}
"""

    def record(self) -> str:
        """@record: makes a row the result of its target."""
        t = self.lanes.scalar
        return f"""
define internal void @record({SHARED}, i64 %row, i64 %target,
                             {t} %score.new, {t} %start.new, i64 %call.new) noinline {{
  {self.of_user("q_end", "%target", "q_end")}{self.of_row("q", "%row", "q")}
  {self.copy("%q", "%q_end", self.arrays.state["q"])}
  {self.of_user("error", "%target", "error")}{self.of_row("errors", "%row", "errors")}
  {self.copy("%errors", "%error", (self.arrays.errors,))}
  {self.of_user("score", "%target", "score")}{self.store("%score.new", "%score")}
  {self.of_user("start", "%target", "start")}{self.store("%start.new", "%start")}
  {self.of_user("call", "%target", "call")}
  {self.store(f"$(sitofp i64 %call.new to {t})", "%call")}
  ret void
}}
"""

    def judge(self) -> str:
        """@judge: takes the results of a call in a row, and returns whether the row goes on, if
        need be with the next start of its target.
        """
        t = self.lanes.scalar
        return f"""
define internal i1 @judge({SHARED}, i64 %row) noinline {{
  {self.listed("target", "%row", "target")}{self.listed("start", "%row", "start")}
  {self.listed("call", "%row", "call")}{self.option("calls", "calls")}
  {self.option("starts", "most")}{self.option("settled", "settled")}
  {self.result("score", "%target", "score")}{self.result("start", "%target", "best")}
  {self.result("begun", "%target", "begun")}
  %done = add i64 %call, 1
  store i64 %done, ptr %call.at, align 8
  %last = fcmp oge {t} $(sitofp i64 %done to {t}), %calls
  %a = sitofp i64 %start to {t}
  %known = fcmp ole {t} %score, {self.lanes.number(1.0)}
  %later = fcmp ogt {t} %a, %best
  {self.is_reached()}{self.hit()}{self.miss()}
free:
  ret i1 false
}}
"""

    def is_reached(self) -> str:
        """The head of @judge: it branches to hit or miss."""
        t, most = self.lanes.scalar, self.arrays.errors
        compared = "".join(
            self.load(f"e{k}", f"$(at %errors {k * self.size})")
            + self.load(f"m{k}", f"$(at %largest {k * self.size})")
            + f"\n  %in{k} = fcmp ole {t} %e{k}, %m{k}"
            + f"\n  %all{k + 1} = and i1 %all{k}, %in{k}"
            for k in range(most)
        )
        return f"""
  %largest = item ptr %args {self.number["largest"]}{self.of_row("errors", "%row", "errors")}
  %all0 = icmp eq i64 0, 0{compared}
  when %all{most}: hit, miss"""

    def hit(self) -> str:
        """The part of @judge for a row that is at its target: it ends unless it still moves
        towards a posture.
        """
        t, moved = self.lanes.scalar, self.arrays.errors * self.size
        return f"""
hit:
  when $(and i1 %known, %later): free, take
take:
  call void @record({SHARED}, i64 %row, i64 %target,
                    {t} {self.lanes.number(0.0)}, {t} %a, i64 %call)
  {self.load("moved", f"$(at %errors {moved})")}
  %slow = fcmp ole {t} %moved, %settled
  %ends = or i1 %slow, %last
  ret i1 $(xor i1 %ends, true)"""

    def miss(self) -> str:
        """The part of @judge for a row that is not at its target. Scores are the errors over the
        largest ones that are allowed.
        """
        t, most = self.lanes.scalar, self.arrays.errors
        above_one = self.lanes.number(1.0 + np.finfo(self.lanes.dtype).eps)
        larger = f"call {t} @llvm.maximum.f{self.lanes.bits}"
        scores = "".join(
            f"\n  %s{k + 1} = {larger}({t} %s{k}, {t} $(fdiv {t} %e{k}, %m{k}))"
            for k in range(most)
        )
        return f"""
miss:
  when %last: ended, underway
underway:
  %beaten = and i1 %known, %later
  ret i1 $(xor i1 %beaten, true)
ended:
  when %known: free, compare
compare:
  %s0 = fadd {t} {above_one}, {self.lanes.number(0.0)}{scores}
  %less = fcmp olt {t} %s{most}, %score
  %tie = and i1 $(fcmp oeq {t} %s{most}, %score), $(fcmp olt {t} %a, %best)
  when $(or i1 %less, %tie): better, further
better:
  call void @record({SHARED}, i64 %row, i64 %target, {t} %s{most}, {t} %a, i64 %call)
  br label %further
further:
  when $(fcmp olt {t} %begun, %most): renew, free
renew:
  {self.store(f"$(fadd {t} %begun, {self.lanes.number(1.0)})", "%begun.at")}
  %begun.now = fptosi {t} %begun to i64
  call void @begin({SHARED}, i64 %row, i64 %target, i64 %begun.now)
  ret i1 true"""

    def remove(self) -> str:
        """@remove: moves the last row of the block to the place of one that is free."""
        lists = "".join(
            self.listed(name, "%last", f"{name}.from")
            + self.listed(name, "%row", f"{name}.to")
            + f"\n  store i64 %{name}.from, ptr %{name}.to.at, align 8"
            for name in LISTS
        )
        moves = "".join(
            self.of_row(name, "%last", f"b{k}.from")
            + self.of_row(name, "%row", f"b{k}.to")
            + self.copy(f"%b{k}.from", f"%b{k}.to", self.block[name])
            for k, name in enumerate(self.block)
            if name != "gain"
        )
        return f"""
define internal void @remove(ptr %memory, i64 %row) noinline {{
  {self.counter("live")}
  %last = sub i64 %live, 1
  store i64 %last, ptr %live.at, align 8
  when slt i64 %row, %last: move, leave
move:
  {lists}{moves}
  br label %leave
leave:
  ret void
}}
"""

    def operands(self) -> str:
        """Lines that fill %call.args and %call.steps for the kernel of steps. A constant that all
        targets share stays where it is.
        """
        inputs = ["q", "step", "gain", *self.arrays.constants]
        names = [*inputs, "q", "step", "errors"]
        shapes = [self.block[name] for name in names]
        lines = []
        for k, name in enumerate(names):
            step = self.bytes(self.block[name])
            lines.append(f"%o{k}.block = at %memory {self.places[name]}")
            if name in self.arrays.constants:
                n = self.number[name]
                lines += [
                    f"%o{k}.same = icmp eq i64 $(item i64 %steps {n}), 0",
                    f"%o{k}.at = select i1 %o{k}.same, ptr $(item ptr %args {n}), ptr %o{k}.block",
                    f"%o{k}.step = select i1 %o{k}.same, i64 0, i64 {step}",
                    f"put ptr %o{k}.at %call.args {k}",
                    f"put i64 %o{k}.step %call.steps {k}",
                ]
            else:
                lines += [f"put ptr %o{k}.block %call.args {k}", f"put i64 {step} %call.steps {k}"]
        for shape, first in zip(shapes, first_strides(shapes), strict=True):
            for axis in range(len(shape)):
                stride = self.bytes(shape[axis + 1 :])
                lines.append(f"put i64 {stride} %call.steps {first + axis}")
        return "\n".join(lines)

    def loop(self) -> str:
        """@loop: fills the block, calls the steps, and looks at each row, until none is left."""
        arrays = len(self.block) + 2
        strides = arrays + sum(map(len, self.block.values())) + 2
        entry, release = "\n".join(self.workspaces.entry()), "\n".join(self.workspaces.release())
        return f"""
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {{
  %count = item i64 %dims 0
  {entry}
  %call.args = alloca ptr, i64 {arrays}
  %call.steps = alloca i64, i64 {strides}
  %call.dims = alloca i64, i64 1
  when sgt i64 %count, 0: start, leave
start:
  {self.prepare()}
  br label %fill
fill:
  %filled = load i64, ptr %live.at, align 8
  when slt i64 %filled, {ROWS}: try, run
try:
  when $(call i1 @more({SHARED}, i64 %filled, i64 %filled)): add, run
add:
  store i64 $(add i64 %filled, 1), ptr %live.at, align 8
  br label %fill
run:
  %rows = load i64, ptr %live.at, align 8
  when sgt i64 %rows, 0: go, finish
go:
  {self.call()}{self.look()}
finish:
  {release}
  br label %leave
leave:
  ret void
}}
"""

    def prepare(self) -> str:
        """Lines that acquire the workspace and set the counters to 0."""
        t, acquire = self.lanes.scalar, "\n".join(self.workspaces.acquire(otherwise="leave"))
        return f"""
  {acquire}
  {self.operands()}{"".join(map(self.counter, COUNTERS))}
  store i64 %count, ptr %targets.at, align 8
  store i64 0, ptr %next.at, align 8
  store i64 0, ptr %live.at, align 8
  {self.option("gain", "pull")}{self.option("calls", "calls")}
  %without = fsub {t} %calls, {self.lanes.number(LAST)}"""

    def call(self) -> str:
        """Lines that take the steps of all rows."""
        t = self.lanes.scalar
        return f"""
  put i64 %rows %call.dims 0
  each %g 0 %rows
  {self.listed("call", "%g", "c")}{self.of_row("gain", "%g", "gain")}
  %pulled = fcmp olt {t} $(sitofp i64 %c to {t}), %without
  %gain.now = select i1 %pulled, {t} %pull, {t} {self.lanes.number(0.0)}
  {self.store("%gain.now", "%gain")}
  again %g
  %kernel = load ptr, ptr @steps, align 8
  call void %kernel(ptr %call.args, ptr %call.dims, ptr %call.steps, ptr null)"""

    def look(self) -> str:
        """Lines that judge all rows, and give those that end other starts or remove them."""
        return f"""
  store i64 0, ptr %row.at, align 8
  br label %look
look:
  %r = load i64, ptr %row.at, align 8
  %now = load i64, ptr %live.at, align 8
  when slt i64 %r, %now: check, fill
check:
  when $(call i1 @judge({SHARED}, i64 %r)): onward, free
free:
  %others = sub i64 %now, 1
  when $(call i1 @more({SHARED}, i64 %r, i64 %others)): onward, remove
remove:
  call void @remove(ptr %memory, i64 %r)
  br label %look
onward:
  store i64 $(add i64 %r, 1), ptr %row.at, align 8
  br label %look"""
