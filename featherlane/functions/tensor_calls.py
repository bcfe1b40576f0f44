"""Calls with PyTorch's tensors on a GPU, of layouts that came before: what was checked then is not
checked again, which takes many times as long as the kernels of a small robot.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from featherlane.backends.cuda.calls import DeviceFunction

MOST = 256  # layouts that a function remembers
NUMBERS = float | int | np.number | np.ndarray  # what a single number may be
Layouts = tuple[Any, ...]  # of all tensors of a call, inputs first


class TensorPlan(NamedTuple):
    """A call with tensors of some layouts. numbers: single numbers among the inputs, by place, as
    tensors; strides: bytes from state to state of inputs and results; spans: bytes from each
    tensor's first number to its lowest one, and to behind its highest; shapes: of the results.
    """

    function: DeviceFunction
    device: int
    states: int
    itemsize: int
    numbers: Mapping[int, Any]
    strides: Sequence[int]
    spans: Sequence[tuple[int, int]]
    shapes: Sequence[tuple[int, ...]]


class TensorCalls:
    """The layouts with which a function was called."""

    def __init__(self) -> None:
        self._plans: dict[Layouts, TensorPlan] = {}

    def remember(self, layouts: Layouts, plan: TensorPlan) -> None:
        """Keeps the plan of a call that was checked, and forgets the oldest one of too many."""
        if len(self._plans) >= MOST:
            self._plans.pop(next(iter(self._plans)), None)
        self._plans[layouts] = plan

    def call(
        self, layouts: Layouts, inputs: Sequence[Any], results: Sequence[Any]
    ) -> tuple[Any, ...] | None:
        """Calls kernels as before, and returns the results, which are new if none are given. None
        if these layouts did not come before, or if what depends on addresses is to be told.
        """
        if (plan := self._plans.get(layouts)) is None:
            return None
        inputs = [plan.numbers.get(k, x) for k, x in enumerate(inputs)]
        if not results:
            torch, like = sys.modules["torch"], inputs[0]
            make = torch.empty
            filled = [make(x, dtype=like.dtype, device=like.device) for x in plan.shapes]
        else:
            filled = [*results]
        addresses = [x.data_ptr() for x in (*inputs, *filled)]
        if any((x | y) % plan.itemsize for x, y in zip(addresses, plan.strides, strict=True)):
            return None
        if results and _overlap(addresses, plan.spans, len(inputs)):
            return None
        from featherlane.backends.cuda.calls import Rows

        rows = [*map(Rows, addresses, plan.strides)]
        plan.function.call(plan.device, current_stream(plan.device), rows, plan.states)
        return tuple(filled)


def layouts_of(values: Iterable[Any]) -> Layouts | None:
    """The layouts of tensors on a GPU, and the single numbers among them with PyTorch's current
    stream, on which they become tensors; None if other arrays are there.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    kind, found, device, numbers = torch.Tensor, list[Any](), None, False
    for x in values:
        if type(x) is kind and x.is_cuda and not x.requires_grad:
            device = x.device
            found += (x.shape, x.stride(), x.dtype, device)
        elif isinstance(x, NUMBERS) and np.ndim(x) == 0:
            found.append(float(x).hex())
            numbers = True
        else:
            return None
    if numbers:  # a graph that is captured would need them for longer than they are kept
        if device is None or torch.cuda.is_current_stream_capturing():
            return None
        found.append(current_stream(device.index))
    return tuple(found)


def current_stream(device: int) -> int:
    """The handle of PyTorch's current stream on a device."""
    from featherlane.backends.cuda.driver import LEGACY

    torch: Any = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # without an object of the stream
    handle = raw(device) if raw else torch.cuda.current_stream(device).cuda_stream
    return int(handle) or LEGACY


def _overlap(addresses: Sequence[int], spans: Sequence[tuple[int, int]], count: int) -> bool:
    """Whether a tensor behind the first ones, so many, shares memory with another one."""
    ranges = [(x + first, x + end) for x, (first, end) in zip(addresses, spans, strict=True)]
    return any(
        first < last and begin < end
        for k, (first, end) in enumerate(ranges[count:], count)
        for begin, last in ranges[:k]
    )
