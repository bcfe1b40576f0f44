"""Modules of hardware with a fault, which proofs and simulations have to find."""

from copy import copy

from featherlane.backends.fpga.statements import Assign


def with_fault(module, right, wrong):
    """A copy of a module in which another text stands in a statement."""
    found = copy(module)
    found.body = [_changed(statement, right, wrong) for statement in module.body]
    assert found.body != module.body, f"{module.name} has no {right}"
    return found


def _changed(x, right, wrong):
    if isinstance(x, Assign):
        target, value = f"{x.target} = {x.value}".replace(right, wrong).split(" = ", 1)
        return x._replace(target=target, value=value)
    if isinstance(x, str):
        return x.replace(right, wrong)
    if isinstance(x, dict):
        return {key: _changed(value, right, wrong) for key, value in x.items()}
    if isinstance(x, tuple):
        parts = [_changed(part, right, wrong) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return x
