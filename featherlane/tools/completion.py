"""Scripts that complete the command line in bash, zsh and fish.

A script contains all words, so that completion does not wait for Python to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from shlex import quote

from featherlane.tools.command import Command
from featherlane.tools.options import Option

GENERAL = {"--help": "show the commands", "--version": "show the version"}
Script = Callable[[Iterable[Command]], str]


def _help(option: Option) -> str:
    """The help text of an option without its default."""
    return option.help.replace(" (%(default)s)", "")


# bash


def bash(commands: Iterable[Command]) -> str:
    """A shell function that looks the words up in a table of commands and options."""
    commands = list(commands)
    rows = [("1 *", _reply([*(c.name for c in commands), *GENERAL]))]
    for command in commands:
        rows += _bash_rows(command)
    table = "\n".join(f"        {_pattern(pattern)}) {reply};;" for pattern, reply in rows)
    return BASH.replace("TABLE", table)


def _bash_rows(command: Command) -> Iterator[tuple[str, str]]:
    """Rows of the table for one command, the specific ones first: a pattern for the number of the
    word, the command, the word before and the word itself; and the words to offer.
    """
    for option in command.options:
        if option.takes_value and not option.positional:
            yield f"* {command.name} {option.name} *", _reply(option.words, option.files)
    flags = [option.name for option in command.options if not option.positional]
    yield f"* {command.name} * -*", _reply([*flags, "--help"])
    positional = [option for option in command.options if option.positional]
    for place, option in enumerate(positional, 2):
        last = place == len(positional) + 1  # also behind options
        yield f"{'*' if last else place} {command.name} *", _reply(option.words, option.files)


def _pattern(pattern: str) -> str:
    return "*".join(f'"{part}"' if part else "" for part in pattern.split("*"))


def _reply(words: Iterable[str], files: bool = False) -> str:
    return f"words={quote(' '.join(words))}" + " files=1" * files


BASH = """\
# featherlane in bash; made by: featherlane completion bash
_featherlane() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files=
    [[ $word == "=" ]] && word=
    [[ $before == "=" ]] && before=${COMP_WORDS[COMP_CWORD-2]}
    case "$COMP_CWORD ${COMP_WORDS[1]} $before $word" in
TABLE
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ $files ]]; then
        local IFS=$'\\n'
        compopt -o filenames 2> /dev/null
        COMPREPLY+=($(compgen -f -- "$word"))
    fi
}
complete -F _featherlane featherlane"""


# zsh


def zsh(commands: Iterable[Command]) -> str:
    """A shell function that passes the options of a command to zsh's `_arguments`."""
    commands = list(commands)
    names = {**{c.name: c.summary for c in commands}, **GENERAL}
    listed = " ".join(quote(f"{name}:{help}") for name, help in names.items())
    options = {c.name: " ".join(map(quote, _zsh_options(c))) for c in commands}
    cases = "\n".join(f"        {name}) _arguments {words};;" for name, words in options.items())
    return ZSH.replace("NAMES", listed).replace("CASES", cases)


def _zsh_options(command: Command) -> Iterator[str]:
    place = 0
    for option in command.options:
        place += option.positional
        yield _zsh_option(option, place)


def _zsh_option(option: Option, place: int) -> str:
    """place: of a positional argument among those of its command."""
    help = "".join(f"\\{c}" if c in "[]:\\" else c for c in _help(option))
    words, name = " ".join(option.words), option.metavar
    offered = f"({words})" if words else "_files" if option.files else " "
    if words and option.files:
        offered = f'{{_alternative "names:{name}:({words})" "files:file:_files"}}'
    if option.positional:
        return f"{place}:{name}:{offered}"
    again = "*" if option.settings.get("action") == "append" else ""
    return f"{again}{option.name}[{help}]" + f":{name}:{offered}" * option.takes_value


ZSH = """\
#compdef featherlane
# featherlane in zsh; made by: featherlane completion zsh
_featherlane() {
    if (( CURRENT == 2 )); then
        local -a names=(NAMES)
        _describe command names
        return
    fi
    shift words
    (( CURRENT -= 1 ))
    case $words[1] in
CASES
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _featherlane "$@"
else
    compdef _featherlane featherlane
fi"""


# fish


def fish(commands: Iterable[Command]) -> str:
    """A `complete` line for each command and each option."""
    lines = ["# featherlane in fish; made by: featherlane completion fish"]
    lines.append("complete -c featherlane -f")
    lines += [_fish("__fish_use_subcommand", f"-l {o[2:]}", help) for o, help in GENERAL.items()]
    for command in commands:
        lines.append(_fish("__fish_use_subcommand", f"-a {command.name}", command.summary))
        inside = f"__fish_seen_subcommand_from {command.name}"
        lines += [_fish(inside, _fish_option(o), _help(o)) for o in command.options]
    return "\n".join(lines)


def _fish(condition: str, what: str, help: str) -> str:
    return f"complete -c featherlane -n {quote(condition)} {what} -d {quote(help)}"


def _fish_option(option: Option) -> str:
    words = f" -a {quote(' '.join(option.words))}" if option.words else ""
    if option.positional:
        return ("-F" if option.files else "-f") + words
    name = f"-l {option.name[2:]}"
    if not option.takes_value:
        return name
    return f"{name} -r" + (" -F" if option.files else " -f") + words


SCRIPTS: dict[str, Script] = {"bash": bash, "zsh": zsh, "fish": fish}
