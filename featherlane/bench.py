"""`featherlane bench`: whether one robot's functions are right, and how fast they are here."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import llvmlite
import numpy as np

import featherlane
from featherlane import FUNCTIONS
from featherlane.backends.machine import widest
from featherlane.dynamics import Model
from featherlane.function import physical_cores

Progress = Callable[[str], None]
Arrays = dict[str, np.ndarray]
Call = Callable[[], Any]

SHORT = {
    "inverse_dynamics": "ID",
    "forward_dynamics": "FD",
    "mass_matrix": "M",
    "mass_matrix_inverse": "Minv",
    "inverse_dynamics_derivatives": "dID",
    "forward_dynamics_derivatives": "dFD",
    "forward_dynamics_derivatives_from": "diFD",
}
DTYPES = ("float64", "float32")
STATES = 32  # of the self-check
SECONDS = 0.1  # that one figure is measured for
REPEATS = 5, 200  # of a measurement, at least and at most


def machine() -> dict[str, Any]:
    """What a figure of speed belongs to."""
    return {
        "cpu": _cpu_name(),
        "cores": physical_cores(),
        "vector_bits": 64 * widest(np.dtype(np.float64)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "featherlane": featherlane.__version__,
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def median_seconds(call: Call, seconds: float = SECONDS) -> float:
    """The median time of a call that has been warmed up."""
    call()
    least, most = REPEATS
    times: list[float] = []
    while len(times) < least or (sum(times) < seconds and len(times) < most):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


# States


def inputs(model: Model, batch: int | tuple[int, ...], dtype: Any, seed: int = 0) -> Arrays:
    """Random states and what functions take besides: a, tau, and a matrix in place of minv."""
    rng = np.random.default_rng(seed)
    lead = (batch,) if isinstance(batch, int) else batch
    arrays = {"q": model.random_configuration(lead, seed=rng)}
    for name in ("v", "a", "tau"):
        arrays[name] = rng.normal(size=(*lead, model.nv))
    arrays["minv"] = rng.normal(size=(*lead, model.nv, model.nv))
    return {name: array.astype(dtype) for name, array in arrays.items()}


def outputs(model: Model, name: str, batch: int, dtype: Any) -> Any:
    """Arrays for `out=`: one, or a tuple of several."""
    shapes = model.function(name).outputs.values()
    arrays = tuple(np.zeros((batch, *shape), dtype) for shape in shapes)
    return arrays if len(arrays) > 1 else arrays[0]


# The self-check


class Check(NamedTuple):
    """An identity that holds up to rounding: its worst state's error, and what is allowed there."""

    name: str
    dtype: str
    error: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.error <= self.bound


class _Answers(NamedTuple):
    """All functions at the same states; `a` goes in and out."""

    model: Model
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    tau0: np.ndarray  # at a = 0
    fd: np.ndarray
    M: np.ndarray
    Minv: np.ndarray
    dID: tuple[np.ndarray, ...]
    dFD: tuple[np.ndarray, ...]
    diFD: tuple[np.ndarray, ...]
    condition: np.ndarray  # of M

    @staticmethod
    def of(model: Model, dtype: Any) -> _Answers:
        given = inputs(model, STATES, dtype)
        q, v, a = given["q"], given["v"], given["a"]
        tau = model.inverse_dynamics(q, v, a, threads=1)
        M = model.mass_matrix(q, threads=1)
        Minv = model.mass_matrix_inverse(q, threads=1)
        return _Answers(
            model,
            q,
            v,
            a,
            tau,
            model.inverse_dynamics(q, v, 0 * a, threads=1),
            model.forward_dynamics(q, v, tau, threads=1),
            M,
            Minv,
            model.inverse_dynamics_derivatives(q, v, a, threads=1),
            model.forward_dynamics_derivatives(q, v, tau, threads=1),
            model.forward_dynamics_derivatives(q, v, a=a, minv=Minv, threads=1)[:2],
            np.linalg.cond(M.astype(float)),
        )


def _size(x: np.ndarray) -> np.ndarray:
    """The largest entry of each state."""
    return np.abs(x.astype(float)).reshape(len(x), -1).max(axis=1)


def _largest(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.max([_size(part) for part in parts], axis=0)


def _product(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    return A.astype(float) @ x.astype(float)


def _inverse_error(s: _Answers) -> np.ndarray:
    return _size(_product(s.M, s.Minv) - np.eye(s.model.nv))


def _round_trip(s: _Answers) -> np.ndarray:
    scale = np.maximum(_size(s.a), _size(s.tau) / _size(s.M))
    return _size(s.fd.astype(float) - s.a) / scale


def _linear(s: _Answers) -> np.ndarray:
    change = s.tau.astype(float) - s.tau0
    return _size(change - _product(s.M, s.a[..., None])[..., 0]) / _size(s.tau)


def _through_inverse(s: _Answers, parts: Sequence[np.ndarray]) -> np.ndarray:
    errors = [got + _product(s.Minv, d) for got, d in zip(parts, s.dID, strict=False)]
    return _largest(errors) / _largest(parts)


def _inverses(s: _Answers) -> np.ndarray:
    return np.maximum(
        _through_inverse(s, s.dFD), _size(s.dFD[2].astype(float) - s.Minv) / _size(s.Minv)
    )


def _by_differences(
    model: Model, function: Callable[..., Any], q: np.ndarray, v: np.ndarray, u: np.ndarray
) -> list[np.ndarray]:
    """d function / dq and dv: central differences of fourth order along the tangent directions."""
    eps = float(np.finfo(q.dtype).eps)
    h = eps**0.2
    steps = np.eye(model.nv)[:, None, :] * h  # direction, state, entry
    weights = ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0))
    results = []
    for of in ("q", "v"):
        total: Any = 0.0
        for k, weight in weights:
            move = (k * steps).astype(q.dtype)
            at_q = model.integrate(q, move) if of == "q" else q
            at_v = v + move if of == "v" else v
            total = total + weight * function(at_q, at_v, u, threads=1).astype(float)
        results.append(np.moveaxis(total / (12 * h), 0, -1))
    return results


def _differences(s: _Answers, which: str) -> np.ndarray:
    known, function, u = (
        (s.dID, s.model.inverse_dynamics, s.a)
        if which == "dID"
        else (s.dFD[:2], s.model.forward_dynamics, s.tau)
    )
    found = _by_differences(s.model, function, s.q, s.v, u)
    errors = [x - y for x, y in zip(known, found, strict=True)]
    return _largest(errors) / _largest(found)


class _Identity(NamedTuple):
    name: str
    error: Callable[[_Answers], np.ndarray]
    allowed: float  # in units of the rounding, to the power of `order`
    order: float = 1.0
    inverse: bool = False  # whether the condition of M comes in


IDENTITIES = (
    _Identity("ID(a) - ID(0) = M a", _linear, 100),
    _Identity("FD(ID(a)) = a", _round_trip, 10, inverse=True),
    _Identity("M Minv = 1", _inverse_error, 10, inverse=True),
    _Identity("dFD = -Minv dID, and Minv", _inverses, 10, inverse=True),
    _Identity("diFD = -Minv dID", lambda s: _through_inverse(s, s.diFD), 10, inverse=True),
    _Identity("dID = differences of ID", lambda s: _differences(s, "dID"), 1e3, 0.8),
    _Identity("dFD = differences of FD", lambda s: _differences(s, "dFD"), 1e3, 0.8, True),
)


def self_check(model: Model, dtypes: Sequence[str], progress: Progress) -> Iterator[Check]:
    """The identities that tie the seven functions together, at random states, in each dtype.

    Errors are relative to the largest entry of a state. What an inverse of M passes through may be
    wrong by the condition of M times the rounding.
    """
    for dtype in dtypes:
        progress(f"self-check in {dtype}")
        with np.errstate(all="ignore"):  # what is not finite fails
            answers = _Answers.of(model, np.dtype(dtype))
            errors = [identity.error(answers) for identity in IDENTITIES]
        eps = float(np.finfo(dtype).eps)
        for identity, error in zip(IDENTITIES, errors, strict=True):
            error = np.nan_to_num(error, nan=np.inf)
            bound = identity.allowed * eps**identity.order
            bounds = bound * (answers.condition if identity.inverse else np.ones(STATES))
            worst = int(np.argmax(error / bounds))
            yield Check(identity.name, dtype, float(error[worst]), float(bounds[worst]))


# Speeds


class Speed(NamedTuple):
    function: str
    dtype: str
    operations: int  # additions and multiplications of one state
    ready: float  # seconds until the function could be called: compiled, or loaded from the cache
    one_thread: float  # ns per state
    all_threads: float  # million states per second
    latency: float  # us, of a call with one state


def method(model: Model, name: str) -> Callable[..., Any]:
    """The user's method of a function, on its inputs in order."""
    if name != "forward_dynamics_derivatives_from":
        return getattr(model, name)
    return lambda q, v, a, minv, **options: model.forward_dynamics_derivatives(
        q, v, a=a, minv=minv, **options
    )


def compile_all(
    model: Model, dtypes: Sequence[str], progress: Progress
) -> dict[tuple[str, str], float]:
    """Seconds that each function took, in each dtype."""
    seconds = {}
    for dtype in dtypes:
        for name in FUNCTIONS:
            progress(f"compiling {SHORT[name]} in {dtype}")
            start = time.perf_counter()
            model.function(name).ufunc(dtype)
            seconds[name, dtype] = time.perf_counter() - start
    return seconds


def speed(model: Model, name: str, dtype: str, batch: int, threads: int, ready: float) -> Speed:
    function = model.function(name)
    states, out = inputs(model, batch, dtype), outputs(model, name, batch, dtype)
    given = [states[key] for key in function.inputs]
    single = [x[0].copy() for x in given]
    method(model, name)(*single)  # from its second call on it is machine code
    call = method(model, name)

    def singles() -> None:
        for _ in range(20):
            call(*single)

    return Speed(
        name,
        dtype,
        model.graph(name).cost().operations,
        ready,
        median_seconds(lambda: function(*given, out=out, threads=1)) / batch * 1e9,
        batch / median_seconds(lambda: function(*given, out=out, threads=threads)) / 1e6,
        median_seconds(singles, SECONDS / 4) / 20 * 1e6,
    )


# The report


@dataclass(frozen=True)
class Report:
    model: Model
    machine: Mapping[str, Any]
    batch: int
    threads: int
    checks: tuple[Check, ...]
    speeds: tuple[Speed, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {
            "machine": dict(self.machine),
            "batch": self.batch,
            "threads": self.threads,
            "passed": self.passed,
            "checks": [{**c._asdict(), "passed": c.passed} for c in self.checks],
            "speeds": [s._asdict() for s in self.speeds],
        }

    def __str__(self) -> str:
        parts = (self._check_lines(), *(self._speed_lines(d) for d in self._dtypes()), self._foot())
        return "\n\n".join("\n".join(lines) for lines in parts)

    def _dtypes(self) -> list[str]:
        return list(dict.fromkeys(s.dtype for s in self.speeds))

    def _check_lines(self) -> Iterator[str]:
        dtypes = self._dtypes()
        yield f"self-check   {STATES} random states, largest error relative to the largest entry"
        yield " " * 30 + "".join(f"{dtype:>15}" for dtype in dtypes)
        for name in dict.fromkeys(check.name for check in self.checks):
            found = [check for check in self.checks if check.name == name]
            cells = [f"{c.error:.1e} {'PASS' if c.passed else 'FAIL'}" for c in found]
            yield f"  {name:28}" + "".join(f"{cell:>15}" for cell in cells)

    def _speed_lines(self, dtype: str) -> Iterator[str]:
        lanes = self.machine["vector_bits"] // (8 * np.dtype(dtype).itemsize)
        threads = f"{self.threads} thread" + "s" * (self.threads != 1)
        yield f"{dtype}, {lanes} lanes, {self.batch} states"
        yield f"{'':39}{'':>12}{'ready':>9}{'1 thread':>12}{threads:>13}{'one state':>11}"
        yield f"{'':39}{'operations':>12}{'s':>9}{'ns/state':>12}{'M states/s':>13}{'us/call':>11}"
        for s in self.speeds:
            if s.dtype == dtype:
                yield (
                    f"  {SHORT[s.function]:4} {s.function:32}{s.operations:12}{s.ready:9.3f}"
                    f"{s.one_thread:12.1f}{s.all_threads:13.2f}{s.latency:11.2f}"
                )

    def _foot(self) -> Iterator[str]:
        m = self.machine
        yield f"{m['cpu']}, {m['cores']} cores, {m['vector_bits']}-bit vectors, {m['system']}"
        versions = ("featherlane", "python", "numpy", "llvmlite")
        yield ", ".join(f"{name} {m[name]}" for name in versions)
        yield "medians; ready: compiled now, or loaded from the cache"


def bench(
    model: Model,
    batch: int = 4096,
    dtypes: Sequence[str] = DTYPES,
    threads: int | None = None,
    progress: Progress = lambda step: None,
) -> Report:
    """Compile, check and time the seven functions of a model."""
    if batch < 1:
        raise ValueError(f"batch is {batch}: wanted 1 or more")
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: wanted 1 or more")
    count = threads or physical_cores()
    ready = compile_all(model, dtypes, progress)
    checks = tuple(self_check(model, dtypes, progress))
    speeds = []
    for (name, dtype), seconds in ready.items():
        progress(f"timing {SHORT[name]} in {dtype}")
        speeds.append(speed(model, name, dtype, batch, count, seconds))
    return Report(model, machine(), batch, count, checks, tuple(speeds))
