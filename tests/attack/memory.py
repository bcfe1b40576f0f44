"""Arrays of any layout beside pages that nobody may touch: an access out of bounds is a crash."""

import ctypes
import math
import mmap

import numpy as np

PAGE = mmap.PAGESIZE
NOTHING, READ = 0, mmap.PROT_READ
LAYOUTS = ("dense", "dense", "rows", "any", "any")
GAPS = (0, 0, 8, 24, 64, 4096, 4, 1, 7)  # bytes between entries; the last two end alignment
MOST = 1 << 16  # numbers of a large batch
LARGEST = 1 << 24  # bytes of an array that is not dense
CANARY = 0xA5  # what bytes hold that belong to no array

_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class Arena:
    """So many bytes or a few more between two pages that may not be touched."""

    def __init__(self, size):
        size = max(-(-size // PAGE), 1) * PAGE
        self.bytes = np.frombuffer(mmap.mmap(-1, size + 2 * PAGE), np.uint8)[PAGE:-PAGE]
        self.bytes[:] = CANARY
        self._protect(-PAGE, PAGE, NOTHING)
        self._protect(size, PAGE, NOTHING)

    def _protect(self, start, size, mode):
        if _protect(self.bytes.ctypes.data + start, size, mode):
            raise OSError(ctypes.get_errno(), "mprotect")

    def only_read(self):
        """From now on a write is a crash."""
        self._protect(0, len(self.bytes), READ)

    def place(self, rng, dtype, shape, steps):
        """A view with these strides: at one of the ends, or anywhere."""
        spans = [step * (n - 1) for n, step in zip(shape, steps, strict=True) if n > 1]
        room = len(self.bytes) - dtype.itemsize - sum(map(abs, spans))
        first = rng.choice((0, room, rng.randrange(room + 1)))
        first -= sum(span for span in spans if span < 0)
        return np.ndarray(shape, dtype, self.bytes.data, first, steps)


def extent(dtype, shape, steps):
    """The bytes from the first to the last of an array."""
    return dtype.itemsize + sum(
        abs(step) * max(n - 1, 0) for n, step in zip(shape, steps, strict=True)
    )


def strides(rng, dtype, shape, core, shared=False):
    """Random strides; shared: entries may lie in the same place."""
    kind = rng.choice((*LAYOUTS, "shared") if shared else LAYOUTS)
    axes = [*reversed(range(len(shape)))]
    if kind == "any":
        rng.shuffle(axes)
    steps, size = [0] * len(shape), dtype.itemsize
    for axis in axes:
        step = size
        if kind == "any" or (kind == "rows" and axis < len(shape) - core):
            step += rng.choice(GAPS)
        if kind == "shared":
            step = rng.choice((0, dtype.itemsize, size, rng.randrange(size + 1)))
        steps[axis] = -step if kind == "any" and rng.random() < 0.3 else step
        size += step * max(shape[axis] - 1, 0)
    if size > LARGEST:
        return tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    return tuple(steps)


def shapes_of_states(rng, numbers):
    """Leading dimensions for functions of so many numbers: one half has at most one."""
    most = min(40 + MOST // numbers, 400)
    one = (), (), (1,), (0,), (2,), (rng.randrange(3, 40),), (rng.randrange(40, most + 1),)
    return rng.choice((*one, (2, 3), (3, 0, 2), (1, 5), (4, 1, 3), (2, 1, 2, 1, 3), (1,) * 31))


def cut(rng, lead):
    """Leading dimensions that broadcast to `lead`."""
    if rng.random() < 0.7:
        return lead
    kept = lead[rng.randrange(len(lead) + 1) :]
    return tuple(1 if rng.random() < 0.3 else n for n in kept)


def same(found, wanted):
    """Whether arrays have the same bits, where one NaN is as good as another."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    bits = f"u{found.itemsize}"
    found, wanted = (np.where(np.isnan(x), np.nan, x).astype(x.dtype) for x in (found, wanted))
    return bool((found.view(bits) == wanted.view(bits)).all())
