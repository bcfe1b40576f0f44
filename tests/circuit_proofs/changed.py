"""Copies of modules that proofs change: signals that tools keep, and free inputs."""

from __future__ import annotations

from copy import copy

from featherlane.backends.fpga.module import Declaration, Instance, Module, same


def with_attribute(module: Module, name: str, attribute: str) -> Module:
    """A copy in which a signal has an attribute."""
    changed = module.declarations[name]._replace(attribute=attribute)
    copied = copy(module)
    copied.declarations = {**module.declarations, name: changed}
    return copied


def with_inputs_of(module: Module, instance: str, *names: str) -> Module:
    """A copy in which inputs of a module inside are inputs of the whole."""
    copied = copy(module)
    ports = {name: Declaration("input logic", name) for name in names}
    copied.declarations = {**module.declarations, **ports}
    copied.body = [
        s._replace(ports={**s.ports, **same(names)})
        if isinstance(s, Instance) and s.name == instance
        else s
        for s in module.body
    ]
    return copied
