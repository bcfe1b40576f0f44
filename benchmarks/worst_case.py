"""How long does the slowest of ten million calls take, as a control loop at 1 kHz would ask?

One state goes in and the arrays of `out=` are filled; Pinocchio's Python function, which makes new
arrays, gets the same state in the same run. Both are called by one loop in machine code, which
reads the clock between calls and writes each time into memory that is there before: nothing of
Python runs in between. All alternate, up to 10,000 calls at a time; `nothing` is that loop without
a call, so that its time is the clock's, and its largest time is what the machine does to any
program.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin
from options import parser, write_json
from robots import SHORT, Robot, States, as_tuple, chosen, machine_lines, say, table
from suite.peers.loop import Robot as Peer

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.linked import loaded_text
from featherlane.backends.llvm.jit import MachineCode
from featherlane.backends.llvm.macros import expanded
from featherlane.tools.timing import method

ROBOTS = ("iiwa14", "hyq", "atlas:free")
FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives")
OURS, PEER, NOTHING = "featherlane", "Pinocchio", "nothing"
TURN = 10_000  # calls in a row: the first few of a turn find their code and data evicted
TURN_S = 0.3  # of the slowest at most, but for at least WARM calls
REST = 0.1  # of the time of all turns: Linux stops a real-time process that takes 95 % of a second
WARM = 1000  # calls before the first that counts
CLOSE = 1e-9  # difference of the results over their largest number
MCL_CURRENT, MCL_FUTURE = 1, 2
SHARES = (0.5, 0.999, 1.0)

# Time k is from one look at the clock to the next, so that nothing happens between two times.
LOOP = expanded(f"""
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now(ptr %clock) {{
  %failed = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 0)}, ptr %clock)
  %seconds = load i64, ptr %clock
  %rest = getelementptr i64, ptr %clock, i64 1
  %ns = load i64, ptr %rest
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}}

define void @measure(ptr %function, ptr %args, i64 %positional, ptr %names, i64 %count,
                     ptr %times) {{
entry:
  %clock = alloca [2 x i64]
  %start = call i64 @now(ptr %clock)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %stop ]
  %before = phi i64 [ %start, %entry ], [ %after, %stop ]
  %idle = icmp eq ptr %function, null
  br i1 %idle, label %stop, label %call
call:
  %result = call ptr {address("vectorcall")}(ptr %function, ptr %args, i64 %positional, ptr %names)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %end, label %drop
drop:
  call void {address("decref")}(ptr %result)
  br label %stop
stop:
  %after = call i64 @now(ptr %clock)
  %time = sub i64 %after, %before
  %at = getelementptr i64, ptr %times, i64 %k
  store i64 %time, ptr %at
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %count
  br i1 %more, label %next, label %end
end:
  ret void
}}
""")


class Call(NamedTuple):
    """A function with its arguments; a function of None is the empty loop."""

    function: Callable[..., Any] | None
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = {}  # noqa: RUF012 (nobody writes to it)


@cache
def loop() -> tuple[MachineCode, Any]:
    """The code of LOOP, and its function for Python, which holds the interpreter's lock."""
    code = loaded_text(LOOP, ("measure",))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.PYFUNCTYPE(None, pointer, pointer, number, pointer, number, pointer)
    return code, kind(code.address_of("measure"))


class Clocked:
    """A call, and memory for the times of `count` of them in ns, which is touched before."""

    def __init__(self, call: Call, count: int) -> None:
        given = (*call.positional, *call.named.values())
        self._alive = call, tuple(map(sys.intern, call.named))
        self._args = (ctypes.c_void_p * len(given))(*map(id, given))
        function = None if call.function is None else id(call.function)
        names = id(self._alive[1]) if call.named else None
        self._fixed = function, ctypes.addressof(self._args), len(call.positional), names
        self.times = np.empty(count, np.int64)
        self.begin()

    def begin(self) -> None:
        """Forgets the calls so far."""
        self.times.fill(-1)
        self.done, self.page_faults, self.preempted = 0, 0, 0

    def turn(self, count: int) -> None:
        """Makes and times some more calls."""
        count = min(count, len(self.times) - self.done)
        place = self.times.ctypes.data + self.done * self.times.itemsize
        before = resource.getrusage(resource.RUSAGE_SELF)
        loop()[1](*self._fixed, count, place)  # raises what a call raises
        after = resource.getrusage(resource.RUSAGE_SELF)
        self.done += count
        self.page_faults += after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
        self.preempted += after.ru_nivcsw - before.ru_nivcsw


class Result(NamedTuple):
    """Times in us of one function and one library, and what the system did meanwhile."""

    robot: str
    root: str
    function: str
    who: str
    p50: float
    p999: float
    largest: float
    page_faults: int
    preempted: int

    def row(self) -> list[str]:
        which = [f"{self.robot}, {self.root}", SHORT[self.function], self.who]
        times = [f"{us:,.2f}" for us in (self.p50, self.p999, self.largest)]
        return [*which, *times, str(self.page_faults), str(self.preempted)]


def quantiles(times: np.ndarray) -> list[float]:
    """The times, in us, that the SHARES of all calls do not exceed."""
    ranks = [math.ceil(share * len(times)) - 1 for share in SHARES]
    return [float(x) / 1e3 for x in np.partition(times, ranks)[ranks]]


def calls_of(model: Any, peer: Peer, name: str, states: States) -> dict[str, Call]:
    """Ours with `out=`, compiled, and Pinocchio's, after their results have been compared."""
    given = [x[0].copy() for x in states.inputs(model, name, "float64")]
    out = method(model, name)(*given)  # compiles; the method is then one in machine code
    for ours, theirs in zip(as_tuple(out), peer.answers(name, 0), strict=True):
        if not np.abs(ours - theirs).max() <= CLOSE * np.abs(theirs).max():
            raise RuntimeError(f"{name}: the results differ from Pinocchio's")
    return {
        OURS: Call(method(model, name), tuple(given), {"out": out}),
        PEER: Call(*peer.function(name)),
        NOTHING: Call(None),
    }


def measured(calls: dict[str, Call], count: int) -> dict[str, Clocked]:
    """The times of all calls, in turns."""
    clocked = {who: Clocked(call, count) for who, call in calls.items()}
    for one in clocked.values():
        one.turn(WARM)
    slowest = max(float(np.median(one.times[: one.done])) for one in clocked.values())
    for one in clocked.values():
        one.begin()
    gc.collect()
    turn = int(np.clip(TURN_S * 1e9 / max(slowest, 1.0), WARM, TURN))
    for _ in range(-(-count // turn)):
        began = time.perf_counter()
        for one in clocked.values():
            one.turn(turn)
        time.sleep(REST * (time.perf_counter() - began))
    return clocked


def run(robot: Robot, functions: Sequence[str], count: int) -> list[Result]:
    model = robot.model()
    states = States.random(model, 1)
    peer = Peer(model, str(robot.urdf), *states)
    results = []
    for name in functions:
        say(f"{robot.title}: {SHORT[name]}")
        for who, one in measured(calls_of(model, peer, name, states), count).items():
            row = robot.name, robot.root, name, who, *quantiles(one.times)
            results.append(Result(*row, one.page_faults, one.preempted))
    return results


def lock_memory() -> str:
    """Keeps every page of the process in memory, those to come too."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(MCL_CURRENT | MCL_FUTURE):
        return f"memory is not locked: {os.strerror(ctypes.get_errno())}"
    return "memory is locked"


def go_first(priority: int) -> str:
    """Runs this process before all that have no real-time priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"no priority: {error.strerror}"
    return f"SCHED_FIFO, priority {priority}"


def prepare(args: Any) -> list[str]:
    """Sets the process up as asked, and says what was granted."""
    told = []
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
        told.append(f"core {args.core} alone")
    if args.lock_memory:
        told.append(lock_memory())
    if args.priority:
        told.append(go_first(args.priority))
    gc.disable()
    gc.freeze()
    return told or ["any core, memory not locked, usual priority"]


def main() -> None:
    options = parser(__doc__, robots=ROBOTS, functions=FUNCTIONS, count=10_000_000, json=None)
    options.add_argument("--core", type=int, metavar="N", help="the only core that is used")
    options.add_argument("--lock-memory", action="store_true", help="with mlockall")
    options.add_argument("--priority", type=int, metavar="N", help="of SCHED_FIFO, 1 to 99")
    args = options.parse_args()
    if not hasattr(os, "sched_setaffinity"):
        sys.exit("needs Linux: cores, priorities and locked memory are asked for in its way")
    told = prepare(args)
    robots = chosen(args.robots or list(ROBOTS))
    results = list(chain.from_iterable(run(r, args.functions, args.count) for r in robots))
    header = ["robot", "function", "", "p50, us", "p99.9, us", "largest, us"]
    print(table([*header, "page faults", "preempted"], [r.row() for r in results]))
    date = datetime.date.today().isoformat()
    print(f"\n{args.count:,} calls of each, one state, float64; {'; '.join(told)}; {date}.")
    print(f"Pinocchio {pin.__version__}. " + "\n".join(machine_lines()))
    facts = {"count": args.count, "setup": told, "pinocchio": pin.__version__}
    write_json(args.json, (r._asdict() for r in results), **facts)


if __name__ == "__main__":
    main()
