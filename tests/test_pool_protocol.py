"""The protocol of the thread pool: every schedule of small calls keeps its properties, and each
part of it that is taken away is missed (docs/dev/abi.md, "The thread pool").
"""

import re
from pathlib import Path

import pytest
from pool_model import DISMISS, Call, Model, WeakModel, Wrong, atomics
from repetition import full, repeated

from featherlane.backends.cpu.threads import pool_ir
from featherlane.backends.cpu.threads.pool_ir import INSIDE, WAITING

ABI = Path(__file__).parent.parent / "docs" / "dev" / "abi.md"
TEXT = pool_ir.source()
PAIR = Call(states=2, threads=2)
PART = Call(states=2, threads=2, part=2, width=2)  # one vector: a thread comes for nothing
THREE = Call(states=3, threads=3, part=3, width=3)

ONE_WORKER = {
    "a call": ([PAIR], [[0]], {}),
    "two calls, and the end": ([PAIR, PART], [[0, 1, DISMISS]], {}),
    "watching, and a caller that spins": (
        [PAIR, PART],
        [[0, 1, DISMISS]],
        {"watch": 1, "spins": 1},
    ),
    "a second caller": ([PAIR, PART], [[0], [1]], {}),
    "an end during a call": ([PART], [[0], [DISMISS]], {}),
    "few states, for which nobody is woken": (
        [PAIR, PAIR._replace(cold=3)],
        [[0, 1]],
        {},
    ),
}


@pytest.mark.parametrize("name", ONE_WORKER)
def test_every_schedule_of_one_worker(name):
    calls, callers, options = ONE_WORKER[name]
    assert Model(calls, callers, 1, **options).explore() > 500


@full
def test_every_schedule_of_two_workers():
    assert Model([THREE], [[0]], 2).explore() > 50_000


@pytest.mark.parametrize(
    "callers", repeated([[[0, DISMISS]], [[0]]]), ids=["and the end", "a call"]
)
def test_three_workers_with_one_switch(callers):
    """Schedules in which one thread at most is stopped where it could go on; threads that wait
    change places freely.
    """
    four = Call(states=4, threads=4, part=4, width=4)
    assert Model([four], callers, 3).explore(switches=1) > 1000


@pytest.mark.parametrize(
    "callers", repeated([[[0, DISMISS]], [[0, 1]]]), ids=["and the end", "two calls"]
)
def test_every_schedule_where_loads_may_be_old(callers):
    assert WeakModel([PART, PART], callers, 1).explore() > 500


# What each part is for: `old` is replaced by `new`, and the checker finds what is wrong then


def changed(old, new):
    """The text of the pool with one thing changed."""
    text, times = re.subn(old, new, TEXT)
    assert times == 1, f"{times} places for {old!r}"
    return text


PARTS = {
    "the gate is closed": (rf"rmw and ptr %pool, i64 {INSIDE}", "rmw and ptr %pool, i64 -1"),
    "the caller waits": (r"call void @finish\(ptr %pool\)", ""),
    "the caller sleeps until nobody is inside": (
        r"icmp eq i64 %before, 0",
        "icmp ne i64 %before, 5",
    ),
    "the bit WAITING": (rf"rmw or ptr %pool, i64 {WAITING}", "rmw or ptr %pool, i64 0"),
    "the last worker looks for it": (rf"icmp eq i64 %before, {WAITING + 1}", "icmp eq i64 0, 1"),
    "closed is closed": (r"icmp ugt i64 %gate, 4294967295(?=\n *br)", "icmp ne i64 %gate, 0"),
    "one caller at a time": (r"extractvalue { i64, i1 } %taken, 1", "icmp eq i64 0, 0"),
    "the pool is given back": (r"store atomic i64 0, ptr %busy release, align 8\n", ""),
    "a worker counts itself out": (r"rmw sub ptr %pool, i64 1", "rmw sub ptr %pool, i64 0"),
    "who rings has roused": (
        r"cmpxchg ptr %worker, i64 1, i64 0",
        "cmpxchg ptr %worker, i64 0, i64 0",
    ),
    "a claim is taken by one": (
        r"cmpxchg ptr %at, i64 %first, i64 (\S+)",
        r"cmpxchg ptr %at, i64 %first, i64 %first",
    ),
}
ORDERS = {
    "opening is seen with the task": (
        r"(i64 \S+, ptr %pool) seq_cst, align 8\ncall",
        r"\1 monotonic, align 8\ncall",
    ),
    "entering acquires the task": (
        r"(i64 %gate, i64 \S+) acq_rel monotonic",
        r"\1 release monotonic",
    ),
    "leaving releases the results": (r"(sub ptr %pool, i64 1) acq_rel", r"\1 acquire"),
    "the next caller acquires the pool": (r"(%busy, i64 0, i64 1) acquire", r"\1 monotonic"),
    "which the last one releases": (r"(ptr %busy) release", r"\1 monotonic"),
}
SEQ_CST = {
    "asleep is stored": (r"(store atomic i64 1, ptr %worker) seq_cst", r"\1 release"),
    "the gate is read behind it": (r"(%gate = load atomic i64, ptr %pool) seq_cst", r"\1 acquire"),
    "stop is read behind it": (r"(%stopped = load atomic i64, ptr %stop) seq_cst", r"\1 acquire"),
    "the gate opens": (r"(i64 \S+, ptr %pool) seq_cst(?=, align 8\ncall)", r"\1 release"),
    "asleep is read behind it": (r"(load atomic i64, ptr %worker) seq_cst", r"\1 acquire"),
    "stop is set": (r"(store atomic i64 1, ptr %t\S+) seq_cst", r"\1 release"),
    "rousing is behind it": (r"(%worker, i64 1, i64 0) seq_cst seq_cst", r"\1 acq_rel monotonic"),
}  # fmt: skip


def is_found(old, new, *models):
    """Whether a change of the text is found in one of some situations."""
    text = changed(old, new)
    for kind, *situation in models:
        try:
            kind(*situation, text=text).explore()
        except Wrong:
            return True
    return False


SITUATIONS = (
    (Model, [PAIR, PART], [[0, 1]], 1),
    (Model, [PAIR, PART], [[0], [1]], 1),
    (Model, [PAIR, PART], [[0], [DISMISS]], 1),
)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_missing_is_found(part):
    assert is_found(*PARTS[part], *SITUATIONS)


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_that_is_too_weak_is_found(order):
    assert is_found(*ORDERS[order], *SITUATIONS)


@pytest.mark.parametrize("order", SEQ_CST)
def test_sleeping_and_waking_need_seq_cst(order):
    assert is_found(*SEQ_CST[order], (WeakModel, [PAIR, PART], [[0, 1, DISMISS]], 1))


def test_a_worker_says_that_it_sleeps_before_it_looks():
    """Else it may look, miss the call or the end, and only then say so."""
    store = "store atomic i64 1, ptr %worker seq_cst, align 8\n"
    look = re.search(r"%stopped = load .*\n", TEXT)[0]
    text = TEXT.replace(store, "").replace(look, look + store)
    assert text != TEXT
    with pytest.raises(Wrong, match="sleeps through a call"):
        Model([PAIR, PART], [[0, 1]], 1, text=text).explore()
    with pytest.raises(Wrong, match="a dismissed worker sleeps for ever"):
        Model([PAIR], [[DISMISS]], 1, text=text).explore()


def test_the_page_lists_every_atomic_access():
    """In the order of the text, with the orderings that it has."""
    rows = re.findall(r"^\| `@(\w+)` \| `([^`]+)` \|", ABI.read_text(), re.MULTILINE)
    emitted = [(name, access) for name, found in atomics(TEXT).items() for access in found]
    assert rows == emitted
