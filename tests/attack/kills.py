"""Writers of the cache that are killed or stopped at random times, and entries that are damaged.

A seed is a folder with so many kills. Several children at once, forked from a process that has
imported featherlane, compile small functions and store bytes. Afterwards every entry must be whole
or ignored, results right, and what killed writers left must go; children that end by themselves
have found something.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

import featherlane as fl
from featherlane.backends import cache

WRITERS = 2
KILLS = 60  # in a folder
CALLS = 200  # of C functions, after which a writer kills itself: storing takes 170
PATIENCE = 0.02  # s until the next kill, at most
FEW, MANY = 6, 10_000  # keys: few that are read and written, and many that are written
LARGEST = 1 << 22  # bytes of an entry
LIMIT = 1 << 25  # bytes of all
DAMAGED = 20  # entries of a folder
BLOCKED_S = 600


def compiled(number):
    """Compiles one of few functions, or reads it; returns what is wrong with its results."""
    number %= FEW
    made = fl.compile(lambda x: [x[0] * float(number) + x[1]], {"x": 2})
    x = np.arange(20.0).reshape(10, 2)
    for given in (x, x[3]):
        if not np.array_equal(made(given)[..., 0], given[..., 0] * number + given[..., 1]):
            return f"the function of {number} gives wrong results"
    return None


def stored(number):
    """Stores bytes, or reads them; returns what is wrong with them."""
    size = random.Random(number).choice((0, 100, 5000, LARGEST // 4, LARGEST))
    content = (sha256(b"%d" % number).digest() * (size // 32 + 1))[:size]
    found = cache.fetch(f"attack {number}", lambda: content)
    return None if found == content else f"the entry of {number} has other bytes"


# Writers


def writer(seed, calls=None):
    """A new child that writes and reads until it is killed; returns its number.

    calls: it kills itself while it stores, after so many calls of C functions.
    """
    child = os.fork()
    if child:
        return child
    try:
        rng = random.Random(seed)
        if calls is not None:
            sys.setprofile(Ending(calls))
        while True:
            number = rng.randrange(rng.choice((FEW, MANY)))
            fault = (compiled if calls is None and rng.random() < 0.05 else stored)(number)
            if fault:
                break
            if rng.random() < 0.05:
                due(cache.folder())
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"
    os.write(1, f"seed {seed}: {fault}\n".encode())
    os._exit(1)


class Ending:
    """A profiler that kills the process after so many calls of C functions."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self, frame, event, argument):
        self.left -= event.startswith("c_")
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def due(folder):
    """The next write prunes, and takes what is being written for abandoned."""
    for path in (*folder.glob(f"*{cache.PART}"), folder / cache.PRUNED):
        with suppress(FileNotFoundError):
            os.utime(path, (1, 1))


def while_writing(folder):
    """Waits for a file that is being written, but not for long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not any(folder.glob(f"*{cache.PART}")):
        pass


def killed(rng, child):
    """Kills a child that is stopped; others prune before, and it may go on for a while."""
    if rng.random() < 0.2:
        due(cache.folder())
        stored(rng.randrange(MANY))
    if rng.random() < 0.2:
        os.kill(child, signal.SIGCONT)
        time.sleep(rng.random() * PATIENCE)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def ended(child):
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == -signal.SIGKILL else f"a writer ended with {code}"


def kills(rng, count):
    """Yields what is wrong with writers, of which so many are killed."""
    for _ in range(0, count, 2 * WRITERS):
        for child in [writer(rng.random(), rng.randrange(CALLS)) for _ in range(WRITERS)]:
            yield ended(child)
        children = [writer(rng.random()) for _ in range(WRITERS)]
        time.sleep(rng.random() * PATIENCE)
        if rng.random() < 0.7:
            while_writing(cache.folder())
        for child in children:
            os.kill(child, signal.SIGSTOP)
        for child in children:
            yield killed(rng, child)


# What is left


def headers(folder):
    """The names of entries with the lines that say what they are."""
    return [(path.name, path.read_bytes().split(b"\n")[1]) for path in folder.glob("*.code")]


def torn(folder):
    """Yields the entries that are not whole."""
    with cache._Folder(folder) as opened:
        for name, header in headers(folder):
            own = sha256(header).hexdigest() + cache.ENTRY
            if name != own or opened.read_code(name, header) is None:
                yield f"{name} is not whole"


def left(folder):
    """Yields what is wrong with the folder after the kills."""
    yield from torn(folder)
    if not headers(folder):
        yield "nothing was written"
    due(folder)
    yield stored(MANY)  # prunes
    names = [path.name for path in folder.iterdir()]
    known = cache.ENTRY, cache.LIMIT, cache.PRUNED
    yield from (f"{name} is left" for name in names if not name.endswith(known))
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > LIMIT + len(names):  # the limit itself is a file
        yield f"the folder has {size} bytes"


def damage(rng, path, others):
    """Damages an entry."""
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content))
    what = rng.choice(("bit", "bit", "cut", "longer", "zeros", "other", "folder", "link", "fifo"))
    if what == "bit":
        content[place] ^= 1 << rng.randrange(8)
    elif what == "cut":
        del content[place:]
    elif what == "longer":
        content += rng.randbytes(place)
    elif what == "zeros":
        content[place:] = bytes(len(content) - place)
    elif what == "other":
        content = rng.choice(others).read_bytes()
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(rng.choice(others))
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(content)
        path.chmod(0o600)


def damaged(rng, folder):
    """Damages entries and yields what is wrong afterwards."""
    for number in range(FEW):
        yield compiled(number)
    keys = [json.loads(header)["key"] for _, header in headers(folder)]
    paths = [*folder.glob("*.code")]
    for path in rng.sample(paths, min(DAMAGED, len(paths))):
        damage(rng, path, [other for other in paths if other.is_file()])
    for number in range(FEW):
        yield compiled(number)
    for key in keys:
        if key.startswith("attack "):
            yield stored(int(key.removeprefix("attack ")))
    for path in folder.glob("*.code"):
        if path.is_dir():
            path.rmdir()  # nothing can be written in its place
    yield from torn(folder)


@contextmanager
def empty_folder():
    """A cache of its own with a limit, while it lasts."""
    before = os.environ.get("FEATHERLANE_CACHE")
    with tempfile.TemporaryDirectory(prefix="attack-cache-") as path:
        os.environ["FEATHERLANE_CACHE"] = path
        cache.set_limit(LIMIT)
        yield Path(path)
    del os.environ["FEATHERLANE_CACHE"]
    if before is not None:
        os.environ["FEATHERLANE_CACHE"] = before


def findings(seed, count):
    """What is wrong with the cache of a seed after so many kills."""
    rng = random.Random(f"kills {seed}")
    with empty_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks beside the threads of BLAS
        found = [*kills(rng, count), *left(folder), *damaged(rng, folder)]
    return [fault for fault in found if fault]


def add_arguments(parser):
    parser.add_argument("--seed", type=int, default=0, help="the first folder (default 0)")
    parser.add_argument("--count", type=int, default=400, help="how many kills (default 400)")


def run(arguments):
    """Kills writers; prints findings and a line for log.md; returns the number of findings."""
    compiled(1)  # what all children need is loaded once
    count, seed, total = arguments.count, arguments.seed, 0
    while count > 0:
        signal.alarm(BLOCKED_S)
        for fault in findings(seed, min(KILLS, count)):
            total += 1
            print(f"seed {seed}: {fault}", flush=True)
        count, seed = count - KILLS, seed + 1
    signal.alarm(0)
    today, seeds = time.strftime("%Y-%m-%d"), f"{arguments.seed} to {seed - 1}"
    print(f"| {today} | kills | {seeds} | {arguments.count:,} | {total} |")
    return total
