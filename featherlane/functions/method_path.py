"""The machine code in the place of a method: options that are texts, such as frames, choose among
the functions that the method has asked for so far.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from featherlane.backends.cpu.call import choices, wrenches_at_frames
from featherlane.functions.fast_path import (
    Dispatched,
    FastPath,
    MethodSignature,
    entry_address,
    machine_code_call,
)

TEXTS = ("frame", "reference", "wrt", "integrator", "f_ext_frame")  # options of methods


class MethodPath(FastPath):
    """The machine code in the place of a method of a model.

    It serves functions of the default options at once; a call with others goes through a dict of
    its `Choice`s, with a level for each option that is a text.
    """

    def __init__(self, owner: Any, name: str, method: Callable[..., Any]) -> None:
        super().__init__(owner, name, method.__get__(owner))
        signature = inspect.signature(method)
        self.arguments = {k: p for k, p in signature.parameters.items() if k != "self"}
        self.defaults = {k: p.default for k, p in self.arguments.items() if k in TEXTS}
        self.choices: dict[str | None, Any] = {}
        self._branches: dict[tuple[str, ...], Choice] = {}
        self.doc = f"{name}{_text_signature(signature)}\n--\n\n{method.__doc__}"

    @property
    def by_position(self) -> list[str]:
        """The arguments that may go by position."""
        by_name = inspect.Parameter.KEYWORD_ONLY
        return [k for k, p in self.arguments.items() if p.kind is not by_name]

    def serve_with(
        self, function: Dispatched, options: Mapping[str, str], at: tuple[str, ...]
    ) -> None:
        """Takes calls that ask for a function. options: the texts that choose it; at: the frames of
        its wrenches, if it has any.
        """
        values = tuple(options.get(name, default) for name, default in self.defaults.items())
        if not at and values == tuple(self.defaults.values()):
            self.serve(function)
        if values:
            self._branches.setdefault(values, Choice(self, values)).serve_at(function, at)

    def code_of(
        self, function: Dispatched, pass_on: Callable[..., Any], is_chosen: bool = True
    ) -> Callable[..., Any]:
        """Returns machine code for a function with this method's signature."""
        by_position: list[str] = []
        for name in self.by_position[len(function.inputs) :]:
            if name not in self.defaults:
                break
            by_position.append(name)
        by_name = [name for name in self.defaults if name not in by_position]
        signature = MethodSignature(self.doc, in_time="dt" in function.inputs)
        if is_chosen:
            signature = signature._replace(by_position=by_position, by_name=by_name)
        return machine_code_call(function, pass_on, signature)

    def choose(self, values: tuple[str, ...], call: Callable[..., Any]) -> None:
        """Lets calls with these options go to a callable."""
        is_first, levels = not self.choices, [self.choices]
        keys = [
            (value, None) if value == default else (value,)
            for value, default in zip(values, self.defaults.values(), strict=True)
        ]
        for among in keys[:-1]:
            levels = [level.setdefault(key, {}) for level in levels for key in among]
        for level in levels:
            level.update(dict.fromkeys(keys[-1], call))
        if is_first:
            self.renew()

    def _calls(self, pass_on: Callable[..., Any]) -> Callable[..., Any]:
        if self.choices:
            pass_on = self._chooser(pass_on)
        for function in self.functions:
            pass_on = self.code_of(function, pass_on, is_chosen=False)
        return pass_on

    def _chooser(self, pass_on: Callable[..., Any]) -> Callable[..., Any]:
        by_position = self.by_position
        return choices.chooser(
            entry_address("choose"),
            pass_on,
            self.choices,
            {k: by_position.index(k) if k in by_position else -1 for k in self.defaults},
            len(by_position),
            name=self.name,
            doc=self.doc,
            alive=self,
        )


class Choice(FastPath):
    """The machine code for calls of a method with certain options."""

    def __init__(self, method: MethodPath, values: tuple[str, ...]) -> None:
        super().__init__(method.owner, method.name, method.fallback)
        self.method, self.values = method, values
        self._frames: dict[Dispatched, tuple[str, ...]] = {}

    def serve_at(self, function: Dispatched, at: tuple[str, ...]) -> None:
        """Takes calls of this function too, with wrenches at frames if there are any."""
        if at:
            self._frames[function] = at
        self.serve(function)

    def _calls(self, pass_on: Callable[..., Any]) -> Callable[..., Any]:
        if self._frames:
            pass_on = self._with_wrenches(pass_on)
        for function in self.functions:
            if function not in self._frames:
                pass_on = self.method.code_of(function, pass_on)
        return pass_on

    def _with_wrenches(self, pass_on: Callable[..., Any]) -> Callable[..., Any]:
        entries = [
            (frames, links(self.method.code_of(function, self.fallback), self.fallback))
            for function, frames in self._frames.items()
        ]
        if not any(calls for _, calls in entries):
            return pass_on
        return wrenches_at_frames.with_wrenches(
            entry_address("call_with_wrenches"),
            pass_on,
            entries,
            self.method.by_position.index("f_ext"),
            name=self.name,
            doc=self.method.doc,
            alive=self.method,
        )

    def _place(self, call: Callable[..., Any]) -> None:
        self.method.choose(self.values, call)


def serve_method(
    owner: Any, name: str, function: Dispatched, options: Mapping[str, str], at: tuple[str, ...]
) -> None:
    """Lets machine code take the calls of a function that has the name of a method of its owner,
    public or private, if its inputs are the method's first arguments. A method of a user's subclass
    stays as it is. options, at: see `MethodPath.serve_with`.
    """
    name = name if hasattr(type(owner), name) else f"_{name}"
    method = getattr(type(owner), name, None)
    if method is None or not method.__module__.startswith("featherlane."):
        return
    path = MethodPath(owner, name, method)
    path = vars(owner).setdefault("_fast_paths", {}).setdefault(name, path)
    if [*path.arguments][: len(function.inputs)] == [*function.inputs]:
        path.serve_with(function, options, at)


def links(call: Callable[..., Any], end: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Returns the callables in machine code before the end of a chain of them."""
    chain = []
    while call is not end:
        chain.append(call)
        call = call.__self__.pass_on  # type: ignore[attr-defined]
    return chain


def _text_signature(signature: inspect.Signature) -> str:
    """Returns the signature as CPython reads it from the documentation of built-in methods."""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain)).replace("(self", "($self", 1)
