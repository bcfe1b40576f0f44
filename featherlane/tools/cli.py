"""The command line: arguments in, the answer of a command out, as text or as JSON.

Commands are in `commands.py`, their options in `options.py`. docs/dev/rules.md says why it is
argparse, and how to add a command; docs/command_line.md has the shape of the JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

from featherlane.errors import did_you_mean
from featherlane.tools.command import Command
from featherlane.tools.commands import COMMANDS
from featherlane.tools.options import ROBOT
from featherlane.version import __version__

ABOUT = "Rigid-body dynamics of robots, and exact derivatives, for thousands of states in one call."
ABOUT_ROBOTS = (
    "ROBOT: a bundled robot (featherlane list), a URDF, MJCF or xacro file, a name of "
    "robot_descriptions such as go2_description, or - for XML on stdin. "
    "NAME:=VALUE, anywhere behind the command, sets an argument of a xacro file. "
    "MJCF, xacro and robot_descriptions each need an extra: "
    "pip install 'featherlane[mjcf,xacro,descriptions]'."
)
XACRO_ARGUMENT = re.compile(r"([A-Za-z_]\w*):=(.*)", re.DOTALL)
RED, GREEN, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"
ARGUMENT = re.compile(r"(\w+)(?= is | names |\[| ')")  # that a message begins with
OPTIONS = {"ranges": "--range", "folder": "--output"}  # those that are no argument's name
VERDICT = re.compile(r"\b(?:(PASS)|FAIL|TOO LARGE)\b")


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line that say what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2. Wrong values need no usage: the message names them."""
        if not message.startswith("argument "):
            self.print_usage(sys.stderr)
        _say_error(message.removeprefix("argument ").replace(": is ", " is ", 1), self.prog)
        sys.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(word) for word in action.choices]
            meant = did_you_mean(str(value), known)
            message = f"is {value!r}; wanted one of {', '.join(known)}{meant}"
            raise argparse.ArgumentError(action, message)


def parser() -> Parser:
    """The parser of all commands."""
    top = Parser("featherlane", description=ABOUT, allow_abbrev=False)
    version = f"featherlane {__version__}"
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        sub = commands.add_parser(command.name, help=command.summary, allow_abbrev=False)
        sub.description = command.description
        sub.epilog = ABOUT_ROBOTS if ROBOT in command.options else None
        for option in command.options:
            sub.add_argument(option.name, help=option.help, **option.settings)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    The exit status is 0, or 1 where a check has failed, or 2 where an argument is wrong, a robot
    cannot be used or a library is missing.
    """
    top = parser()
    words, xacro_args = _without_xacro_arguments(sys.argv[1:] if argv is None else argv)
    args, unknown = top.parse_known_args(words)
    command = COMMANDS[args.command]
    if xacro_args and not any(option.name == ROBOT.name for option in command.options):
        unknown = [f"{name}:={value}" for name, value in xacro_args.items()] + unknown
    if unknown:
        _refuse(unknown, command)
    args.xacro_args = xacro_args
    try:
        answer = command.run(args)
        if args.json:
            origin = {"featherlane": __version__, "command": command.name}
            print(json.dumps(_strict({**origin, **answer.data}), indent=2))
        else:
            print(_painted(str(answer.text), sys.stdout))
        return 0 if answer.passed else 1
    except (ValueError, TypeError, RuntimeError) as error:  # ModelError, CompileError, no peer
        _say_error(_of_command_line(error, command))
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _without_xacro_arguments(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Splits words into those of this command line and NAME:=VALUE, as ROS writes arguments."""
    matches = [XACRO_ARGUMENT.fullmatch(word) for word in words]
    rest = [word for word, match in zip(words, matches, strict=True) if match is None]
    return rest, {match[1]: match[2] for match in matches if match is not None}


def _refuse(unknown: Sequence[str], command: Command) -> NoReturn:
    """Ends the program: arguments are left over."""
    first = unknown[0].partition("=")[0]
    message = f"{unknown[0]!r} is one argument too many"
    if first.startswith("-"):
        names = [option.name for option in command.options if not option.positional]
        message = f"there is no option {first} (see --help){did_you_mean(first, names)}"
    _say_error(message, f"featherlane {command.name}")
    sys.exit(2)


def _of_command_line(error: Exception, command: Command) -> str:
    """The message of an error, with the option for the argument of Python that it begins with."""
    message = str(error)
    if type(error) in (ValueError, TypeError) and (argument := ARGUMENT.match(message)):
        option = OPTIONS.get(argument[1], f"--{argument[1]}")
        if option in [known.name for known in command.options]:
            return option + message[argument.end() :]
    return message


def _say_error(message: str, about: str = "featherlane") -> None:
    start = f"{RED}{about}:{PLAIN}" if _coloured(sys.stderr) else f"{about}:"
    print(f"{start} {' '.join(message.split())}", file=sys.stderr)


def _painted(text: str, stream: TextIO) -> str:
    """The text, with coloured verdicts if the stream takes colours."""
    if not _coloured(stream):
        return text
    return VERDICT.sub(lambda word: f"{GREEN if word[1] else RED}{word[0]}{PLAIN}", text)


def _coloured(stream: TextIO) -> bool:
    """Whether the stream takes colours, by https://no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def _strict(value: Any) -> Any:
    """A value as JSON has it: no infinities, no NaN, no NumPy scalars."""
    if isinstance(value, dict):
        return {str(key): _strict(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(x) for x in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
