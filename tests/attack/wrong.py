"""Calls with one wrong argument, which must be refused in one line and change nothing."""

import numpy as np

LONGEST = 3000  # characters of a message


def refusal_fault(error):
    """What is wrong with the message of a refusal, or None."""
    message = str(error)
    if not message or not message.isprintable():
        return f"{type(error).__name__} is not one printable line: {message[:300]!r}"
    return f"a message of {len(message)} characters" if len(message) > LONGEST else None


def of_inputs(rng, shape, core):
    """What is no input of the shape (*leading, *core); core: how many of the dimensions."""
    inner = shape[len(shape) - core :]
    zeros = np.zeros(shape)
    values = {
        "one entry too many": np.zeros((*shape[:-1], shape[-1] + 1)),
        "a core dimension too few": np.zeros(shape[1:] if len(shape) == core else inner[1:]),
        "33 leading dimensions": np.zeros((1,) * 33 + inner),
        "complex": zeros + 1j,
        "objects": np.full(shape, None),
        "longdouble": zeros.astype(np.longdouble) if np.longdouble(0).itemsize > 8 else "text",
        "masked": np.ma.masked_array(zeros),
        "dates": np.zeros(shape, "M8[s]"),
        "strings": np.full(shape, "1"),
        "records": np.zeros(shape, [("x", "f8")]),
        "None": None,
        "text": "text\nof two lines",
        "bytes": b"bytes",
        "a set": {1.0},
        "a dict": {"x": 1.0},
        "ragged": [[1.0], [1.0, 2.0]],
        "a function": of_inputs,
        "a large number": 10**400,
    }
    what = rng.choice([*values])
    return what, values[what]


def of_threads(rng):
    return rng.choice((0, -1, 1.5, "2", [2], -(2**70), np.float64(2), np.nan))


def of_out(rng, results):
    """What is no `out` for arrays of these shapes and dtype."""
    good = [np.zeros_like(x) for x in results]
    first, *others = good
    flipped = np.zeros(first.shape, "f4" if first.dtype == "f8" else "f8")
    fixed = first.copy()
    fixed.flags.writeable = False
    values = {
        "out of another dtype": (flipped, *others),
        "out of another byte order": (first.astype(first.dtype.newbyteorder()), *others),
        "out that is read-only": (fixed, *others),
        "out of another shape": (np.zeros((*first.shape, 1), first.dtype), *others),
        "out with too many arrays": (*good, first.copy()),
        "out with none": (),
        "out with None": (None, *others),
        "out that is a number": 1.0,
        "out that is a list of numbers": [first.tolist(), *others],
        "out that is text": "out",
        "out that is a dict": {"out": first},
    }
    if first.size > 1:
        values["out in one place"] = np.broadcast_to(first.ravel()[0], first.shape), *others
        values["out in one place"][0].flags.writeable = True
    if others and first.size:
        values["out twice"] = [first] * len(good)
    what = rng.choice([*values])
    return what, values[what]


OPTIONS = {
    "frame": ("no frame", None, 5, b"x", "two\nlines"),
    "reference": ("no reference", 5, ["body"], "two\nlines"),
    "wrt": ("no parameter", None, 5, ["mass"]),
    "method": ("no method", 5, None, ["aba"]),
    "f_ext_frame": ("no axes", None, 5, ["body"]),
    "params": ([1], "mass", {"no parameter": 1}, {5: 1}, {"mass": None}, {"mass": [[1, 2], [3]]}),
    "f_ext": ("f_ext", {"no frame": np.zeros(6)}, {5: np.zeros(6)}, {"two\nlines": np.zeros(6)}),
}


def broken(rng, call, made):
    """What is wrong, and a callable with its arguments, of which one is wrong."""
    function, arrays, options = made
    arrays, options = [*arrays], dict(options)
    ways = ["threads", "out", "unknown name", "too many"]
    ways += ["array", "array", "array", "missing"] * bool(arrays)
    ways += ["option", "option"] * any(name in OPTIONS for name in options)
    way = rng.choice(ways)
    what = way
    if way == "threads":
        options["threads"] = of_threads(rng)
        what = f"threads {options['threads']!r}"
    elif way == "out":
        what, options["out"] = of_out(rng, results_of(call))
    elif way == "unknown name":
        options[rng.choice(("unknown", "Q", ""))] = 1.0
    elif way == "too many":
        arrays += [np.zeros(1)] * 12
    elif way == "missing":
        arrays.pop()
    elif way == "array":
        k = rng.randrange(len(arrays))
        core = [*call.function.inputs.values()][k]
        what, arrays[k] = of_inputs(rng, np.shape([*call.arrays.values()][k]), len(core))
        what = f"input {k} is {what}"
    else:
        name = rng.choice([name for name in options if name in OPTIONS])
        options[name] = rng.choice(OPTIONS[name])
        what = f"{name} {options[name]!r}"
    return what, (function, arrays, options)


def results_of(call):
    """Arrays of the shapes of the results."""
    cores = call.function.inputs.values()
    values = zip(call.values, cores, strict=True)
    lead = np.broadcast_shapes(*(x.shape[: x.ndim - len(core)] for x, core in values))
    dtype = call.values[0].dtype
    return [np.zeros((*lead, *core), dtype) for core in call.function.outputs.values()]
