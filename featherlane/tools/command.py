"""A command of the command line: its function, options and answer."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from featherlane.tools.options import JSON, Option


class Answer(NamedTuple):
    """The result of a command. data: for JSON; text: an object whose `str` is printed."""

    data: dict[str, Any]
    text: object
    passed: bool = True


class Command(NamedTuple):
    """A command; the first paragraph of its docstring, `description`, is its summary."""

    name: str
    run: Callable[[argparse.Namespace], Answer]
    options: tuple[Option, ...]
    description: str

    @property
    def summary(self) -> str:
        return " ".join(self.description.split("\n\n")[0].split()).removesuffix(".")


COMMANDS: dict[str, Command] = {}


def command(name: str, *options: Option) -> Callable[..., Any]:
    """Makes a command of a function. Every command also takes --json."""

    def register(run: Callable[[argparse.Namespace], Answer]) -> Callable[..., Answer]:
        COMMANDS[name] = Command(name, run, (*options, JSON), run.__doc__ or "")
        return run

    return register
