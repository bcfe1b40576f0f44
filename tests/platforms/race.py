"""Do threads that compile and call at once get the right bits without the interpreter's lock?

    python3.14t -m tests.platforms.race [--threads 8] [--rounds 20] [--with-the-lock]

Run it by a free-threaded build with NumPy, llvmlite and lxml (their wheels for cp314t). Threads
share models and arrays of inputs, begin together, and make the first calls of each function, so
that caches and tables are filled by several at once; then they call on. --with-the-lock: on a
Python with the lock too, to test this script.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import sysconfig
import threading

import numpy as np

import featherlane as fl

from .common import Skipped, answered

ROBOT = "double_pendulum"  # many threads compile it at once, which takes them long enough
NAMES = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "forward_dynamics_derivatives")
BATCHES = ((), (1,), (7,), (500,))


def inputs_of(model, name, batch, dtype):
    shapes = model.function(name).inputs.values()
    rng = np.random.default_rng(len(batch))
    return [rng.normal(size=(*batch, *shape)).astype(dtype) for shape in shapes]


def jobs_of(root):
    """Functions of a robot with inputs and results, which another model of it gives."""
    model = fl.load(ROBOT, root=root)
    for name in NAMES:
        for batch in BATCHES:
            for dtype in (np.float64, np.float32):
                inputs = inputs_of(model, name, batch, dtype)
                yield name, inputs, listed(getattr(model, name)(*inputs))


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def attack(model, jobs, start, seed, rounds, wrong):
    """Calls everything in a random order, several times."""
    rng = random.Random(seed)
    start.wait()
    for _ in range(rounds):
        for name, inputs, wanted in rng.sample(jobs, len(jobs)):
            try:
                found = getattr(model, name)(*inputs, threads=rng.choice((None, 1, 3)))
            except Exception as error:
                wrong.append(f"{name}: {error!r}")
            else:
                if not all(map(np.array_equal, listed(found), wanted)):
                    wrong.append(f"{name} of {inputs[0].shape} in {inputs[0].dtype}")


def race(root, threads, rounds):
    """Complaints of threads that share a new model."""
    jobs, wrong = list(jobs_of(root)), []
    model, start = fl.load(ROBOT, root=root), threading.Barrier(threads)
    running = [
        threading.Thread(target=attack, args=(model, jobs, start, seed, rounds, wrong))
        for seed in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return wrong, threads * rounds * len(jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--with-the-lock", action="store_true")
    arguments = parser.parse_args()
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    if locked and not arguments.with_the_lock:
        built = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        why = "a package that was imported has taken the lock" if built else "it has the lock"
        raise Skipped(f"{sys.executable} is not free-threaded: {why}")
    os.environ.setdefault("FEATHERLANE_CACHE", "off")
    wrong, calls = [], 0
    for root in ("fixed", "free"):
        found, made = race(root, arguments.threads, arguments.rounds)
        wrong, calls = wrong + found, calls + made
    for complaint in wrong[:20]:
        print(complaint)
    how = "with" if locked else "without"
    print(f"{calls} calls of {arguments.threads} threads {how} the lock: {len(wrong)} are wrong.")
    return wrong


if __name__ == "__main__":
    answered(main)
