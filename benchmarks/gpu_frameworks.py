"""Do arrays of PyTorch, CuPy and JAX work on this GPU: streams, graphs, gradients? Results are
compared with the CPU's, bit by bit where both have the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from gpu_cells import DIFFERENT, LEFT_OUT, SAME, Bench, Cell, Row

import featherlane as fl
from featherlane.api.model import Model

STATES = 1000
CLOSE = {"rtol": 1e-3, "atol": 1e-3}  # of gradients in float32, whose sums have another order
Check = Callable[[], bool]


@cache
def _model() -> Model:
    return fl.load("iiwa14")


@cache
def _given() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    q, v, u = rng.uniform(-1, 1, (3, STATES, _model().nv)).astype(np.float32)
    return q, v, u


def _wanted() -> np.ndarray:
    return _model().forward_dynamics(*_given())


def _same(*pairs: tuple[Any, np.ndarray]) -> bool:
    return all(np.array_equal(np.asarray(x), y) for x, y in pairs)


def torch(bench: Bench) -> Iterator[Cell]:
    """PyTorch: streams, results in its own arrays, strides, graphs, gradients."""
    yield from _cells("torch", TORCH, _no_torch)


def cupy(bench: Bench) -> Iterator[Cell]:
    """CuPy: streams, and arrays beside PyTorch's."""
    yield from _cells("cupy", CUPY, _no_cupy)


def jax(bench: Bench) -> Iterator[Cell]:
    """JAX: compiled on the GPU, and a gradient."""
    yield from _cells("jax", JAX, _no_jax)


def _cells(
    package: str, checks: dict[str, Check], missing: Callable[[], str | None]
) -> Iterator[Cell]:
    for name, check in checks.items():
        yield Cell({"who": package, "question": name}, partial(_checked, package, check, missing))


def _checked(package: str, check: Check, missing: Callable[[], str | None]) -> Row:
    why = missing() if find_spec(package) else f"{package} is not installed"
    if why is not None:
        return {"value": f"{LEFT_OUT}, {why}"}
    return {"value": SAME if check() else DIFFERENT}


def _no_torch() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "torch finds no GPU"


def _no_cupy() -> str | None:
    import cupy

    return None if cupy.cuda.is_available() else "cupy finds no GPU"


def _no_jax() -> str | None:
    import jax

    try:
        return None if jax.devices("cuda") else "jax finds no GPU"
    except RuntimeError as error:
        return f"jax finds no GPU: {error}"


def _tensors(arrays: Sequence[np.ndarray], **options: Any) -> list[Any]:
    import torch

    return [torch.tensor(x, device="cuda", **options) for x in arrays]


def _torch_stream() -> bool:
    return _same((_model().forward_dynamics(*_tensors(_given())).cpu(), _wanted()))


def _torch_own_stream() -> bool:
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensors = _tensors(_given())
        out = torch.empty_like(tensors[0])
        _model().forward_dynamics(*tensors, out=out)
    stream.synchronize()
    return _same((out.cpu(), _wanted()))


def _torch_strides() -> bool:
    import torch

    (q, v, u), model = _given(), _model()
    wide = torch.zeros(STATES, 10, device="cuda")
    wide[:, :7] = torch.tensor(q, device="cuda")
    result = model.forward_dynamics(wide[:, :7], *_tensors((v[:1], u)))
    return _same((result.cpu(), model.forward_dynamics(q, v[:1], u)))


def _torch_derivatives() -> bool:
    derivatives = _model().forward_dynamics_derivatives
    results = [x.cpu() for x in derivatives(*_tensors(_given()))]
    return _same(*zip(results, derivatives(*_given()), strict=True))


def _torch_graph(robot: str, root: str) -> bool:
    import torch

    model, rng = fl.load(robot, root=root), np.random.default_rng(0)
    q = model.random_configuration(100, seed=rng)
    given = [x.astype(np.float32) for x in (q, *rng.uniform(-1, 1, (2, 100, model.nv)))]
    function, tensors, stream = (
        model.forward_dynamics_derivatives,
        _tensors(given),
        torch.cuda.Stream(),
    )
    with torch.cuda.stream(stream):
        function(*tensors)  # loads kernels, makes the workspace of this stream
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = function(*tensors)
    graph.replay()
    torch.cuda.synchronize()
    return _same(*zip([x.cpu() for x in results], function(*given), strict=True))


def _torch_gradient() -> bool:
    import torch

    from featherlane.interop import torch as interop

    gradients = []
    for device in ("cpu", "cuda"):
        tensors = [torch.tensor(x, device=device, requires_grad=True) for x in _given()]
        interop.wrap(_model()).forward_dynamics(*tensors).square().sum().backward()
        gradients.append([x.grad.cpu().numpy() for x in tensors])
    return all(np.allclose(x, y, **CLOSE) for x, y in zip(*gradients, strict=True))


def _cupy_stream() -> bool:
    import cupy

    return _same((_model().forward_dynamics(*map(cupy.asarray, _given())).get(), _wanted()))


def _cupy_own_stream() -> bool:
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        result = _model().forward_dynamics(*map(cupy.asarray, _given()))
        stream.synchronize()
    return _same((result.get(), _wanted()))


def _cupy_and_torch() -> bool:
    import cupy
    import torch

    q, v, u = _given()
    out = torch.empty(STATES, 7, device="cuda")
    _model().forward_dynamics(cupy.asarray(q), *_tensors([v]), cupy.asarray(u), out=out)
    return _same((out.cpu(), _wanted()))


def _jax_compiled() -> bool:
    import jax

    from featherlane.interop import jax as interop

    wrapped = interop.wrap(_model())
    return _same((jax.jit(wrapped.forward_dynamics)(*map(jax.device_put, _given())), _wanted()))


def _jax_gradient() -> bool:
    import jax

    from featherlane.interop import jax as interop

    wrapped = interop.wrap(_model())
    gradient = jax.grad(lambda *x: (wrapped.forward_dynamics(*x) ** 2).sum())
    results = []
    for device in ("cuda", "cpu"):
        (place, *_) = jax.devices(device)
        with jax.default_device(place):
            results.append(np.asarray(gradient(*[jax.device_put(x, place) for x in _given()])))
    return np.allclose(*results, **CLOSE)


def _jax_and_torch() -> bool:
    import jax
    import torch

    out = torch.empty(STATES, 7, device="cuda")
    _model().forward_dynamics(*map(jax.device_put, _given()), out=out)
    return _same((out.cpu(), _wanted()))


TORCH: dict[str, Check] = {
    "default stream": _torch_stream,
    "own stream, out=": _torch_own_stream,
    "a state for all, rows with strides": _torch_strides,
    "three results": _torch_derivatives,
    "CUDA graph, one kernel": partial(_torch_graph, "iiwa14", "fixed"),
    "CUDA graph, scratch memory": partial(_torch_graph, "hyq", "free"),
    "gradient": _torch_gradient,
}
CUPY: dict[str, Check] = {
    "default stream": _cupy_stream,
    "own stream": _cupy_own_stream,
    "beside torch": _cupy_and_torch,
}
JAX: dict[str, Check] = {
    "jit": _jax_compiled,
    "gradient": _jax_gradient,
    "results in torch": _jax_and_torch,
}
