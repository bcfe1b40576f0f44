"""Threads that call, compile, drop, renew and copy functions, fork, and cancel each other.

A seed is one run. Results are compared with those of one thread before. The run ends at once if a
thread is blocked; at the end, the process must have about the memory that it had at the beginning.

Only calls are cancelled, and garbage is collected by an action of its own: llvmlite keeps its lock
if an exception comes while it takes it.
"""

import ctypes
import faulthandler
import gc
import os
import pickle
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl
from featherlane.functions.table import TABLE, Variant

from .calls import variant
from .memory import same

STATES = 300
TOGETHER = 20  # calls of one function in turn
BLOCKED_S = 300
MORE = 48 << 20  # bytes that the process may have more at the end
WARM = 0.2  # of the time, before memory is measured
_raise_in = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


class Cancelled(BaseException):
    """What threads raise in each other."""


class Job(NamedTuple):
    """A function of a model with inputs and the results that they must have."""

    model: fl.Model
    variant: Variant
    function: Any
    arrays: list
    wanted: tuple


def jobs(seed, functions):
    """So many functions of the table, each of a random robot, with results of one thread."""
    rng = random.Random(f"jobs {seed}")
    models = [
        fl.load("double_pendulum", root="planar"),
        fl.random_tree(2, joint_types=("free", "helical"), seed=seed),
        fl.random_tree(3, joint_types=("revolute", "prismatic"), mimic=0.5, seed=seed),
    ]
    names = [*TABLE] if functions is None else rng.sample([*TABLE], functions)
    return [job(rng, rng.choice(models), name) for name in names]


def job(rng, model, name):
    chosen = variant(rng, model, name)
    function = model._function(chosen)
    source = np.random.default_rng(rng.randrange(2**60))
    dtype = rng.choice((np.float32, np.float64))
    arrays = [source.normal(size=(STATES, *x)).astype(dtype) for x in function.inputs.values()]
    wanted = function(*arrays, threads=1)
    for threads in (1, 2):  # later calls compile nothing
        function(*(x[0] for x in arrays), threads=threads)
        function(*arrays, threads=threads)
    return Job(model, chosen, function, arrays, wanted if isinstance(wanted, tuple) else (wanted,))


# What threads do


def settle():
    """Runs some of Python's code, before which exceptions of other threads come."""
    for _ in range(10):
        time.sleep(0)


def wrong(rng, job, function):
    """What is wrong with the results of some states, or None."""
    first, count = rng.randrange(STATES), rng.choice((1, 2, 7, 64, STATES))
    states = slice(first, first + count) if rng.random() < 0.6 else first
    arrays = [x[states] for x in job.arrays]
    wanted = [x[states] for x in job.wanted]
    options = {"threads": rng.choice((None, 1, 2, 4))}
    if rng.random() < 0.5:
        options["out"] = tuple(np.empty_like(x) for x in wanted)
    found = function(*arrays, **options)
    found = found if isinstance(found, tuple) else (found,)
    if all(same(x, y) for x, y in zip(found, wanted, strict=True)):
        return None
    return f"{job.variant} of {job.model.name} gives other results"


def calls(team, rng):
    job = rng.choice(team.jobs)
    for _ in range(TOGETHER):
        if fault := wrong(rng, job, job.function):
            return fault
    return None


def compiles(team, rng):
    """A function of its own, which nobody needs afterwards."""
    a = rng.randrange(1, 500)
    made = fl.compile(lambda x: [x[0] * float(a), x[1] - x[0]], {"x": 2})
    x = np.arange(200.0).reshape(100, 2)
    wanted = np.stack([x[:, 0] * a, x[:, 1] - x[:, 0]], -1)
    for threads in (None, 3):
        if not np.array_equal(made(x, threads=threads), wanted):
            return f"the compiled function of {a} gives wrong results"
    return None


def copies(team, rng):
    """A model of its own, whose functions get fast paths of their own."""
    job = rng.choice(team.jobs)
    model = pickle.loads(pickle.dumps(job.model))
    return wrong(rng, job, model._function(job.variant))


def renews(team, rng):
    for path in rng.choice(team.jobs).function.paths:
        path.renew()


def cancels(team, rng):
    """Raises an exception in another thread, wherever it is."""
    with team.cancelling:
        if team.cancellable:
            _raise_in(rng.choice([*team.cancellable]), Cancelled)


def collects(team, rng):
    gc.collect()


def forks(team, rng):
    """A child calls functions, compiles one and ends."""
    child = os.fork()
    if not child:
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(BLOCKED_S // 3)
        code = 1
        try:
            code = 2 if calls(team, rng) else 3 if compiles(team, rng) else 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"a forked child ended with {code}" if code else None


ACTIONS = {calls: 100, copies: 10, renews: 10, compiles: 10, cancels: 10, collects: 1, forks: 0.3}
CANCELLABLE = calls, renews


class Team:
    """The threads, what they share, and what they have found."""

    def __init__(self, seed, functions=None):
        self.seed, self.jobs = seed, jobs(seed, functions)
        self.counts, self.faults = Counter(), []
        self.cancelling, self.cancellable = threading.Lock(), set()
        self.begun = {}  # when each thread has begun its last action

    def run(self, threads, seconds):
        """Lets so many threads work; ends the process if one of them is blocked."""
        self.end = time.monotonic() + seconds
        workers = {}
        while time.monotonic() < self.end or any(w.is_alive() for w in workers.values()):
            for k in range(threads):
                if time.monotonic() < self.end and not (k in workers and workers[k].is_alive()):
                    workers[k] = threading.Thread(target=self.work, args=(k,))
                    self.begun[k] = time.monotonic()
                    workers[k].start()
            time.sleep(0.2)
            alive = [k for k, worker in workers.items() if worker.is_alive()]
            if any(time.monotonic() - self.begun[k] > BLOCKED_S for k in alive):
                faulthandler.dump_traceback(all_threads=True)
                print(f"a thread is blocked after {self.told()}", flush=True)
                os._exit(3)

    def work(self, k):
        rng, own = random.Random(f"{self.seed} {k} {self.counts}"), threading.get_ident()
        while time.monotonic() < self.end and len(self.faults) < 20:
            (action,) = rng.choices([*ACTIONS], ACTIONS.values())
            self.begun[k] = time.monotonic()
            try:
                fault = (
                    self.cancelled(own, action, rng) if action in CANCELLABLE else action(self, rng)
                )
                self.counts[action.__name__] += 1
            except (Cancelled, KeyboardInterrupt):  # the second if it hit a part of a shared call
                self.counts["cancelled"] += 1
                continue
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
            if fault:
                self.faults.append(f"{action.__name__}: {fault}")

    def cancelled(self, own, action, rng):
        """Lets others cancel an action."""
        try:
            self.cancellable.add(own)
            return action(self, rng)
        finally:
            with self.cancelling:
                self.cancellable.discard(own)
                settle()  # what was raised before comes now

    def told(self):
        many = {"calls": TOGETHER}
        return ", ".join(f"{n * many.get(x, 1):,} {x}" for x, n in sorted(self.counts.items()))


def resident():
    """Bytes of memory that this process has, after all that can go has gone."""
    for _ in range(3):
        gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def quiet(unraisable):
    """Exceptions that come in finalisers and callbacks are lost; ours may be."""
    if not isinstance(unraisable.exc_value, Cancelled):
        sys.__unraisablehook__(unraisable)


def quiet_thread(arguments):
    """A thread may be cancelled between two actions; another takes its place."""
    if not isinstance(arguments.exc_value, Cancelled):
        threading.__excepthook__(arguments)


def add_arguments(parser):
    parser.add_argument("--seed", type=int, default=0, help="the run (default 0)")
    parser.add_argument("--threads", type=int, default=24, help="how many (default 24)")
    parser.add_argument("--minutes", type=float, default=1, help="for how long (default 1)")
    parser.add_argument("--functions", type=int, help="how many of the table (default: all)")


def run(arguments):
    """Lets threads work; prints findings and a line for log.md; returns how many findings."""
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    sys.unraisablehook, threading.excepthook = quiet, quiet_thread
    gc.disable()
    team, seconds = Team(arguments.seed, arguments.functions), 60 * arguments.minutes
    team.run(arguments.threads, WARM * seconds)
    before = resident()
    team.run(arguments.threads, (1 - WARM) * seconds)
    more = resident() - before
    if more > MORE:
        team.faults.append(f"{more:,} bytes more than at the beginning")
    print("\n".join(team.faults))
    print(f"{arguments.threads} threads: {team.told()}; {more / 1e6:+.1f} MB of {before / 1e6:.0f}")
    told = f"{arguments.minutes:g} min, {arguments.threads} threads"
    today, count = time.strftime("%Y-%m-%d"), len(team.faults)
    print(f"| {today} | threads | {arguments.seed} | {told} | {count} |")
    return count
