"""Scripts that complete the command line in bash, zsh and fish.

They hold all words themselves, so that no key press waits for Python to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from shlex import quote

from featherlane.tools.commands import Command
from featherlane.tools.options import Option

GENERAL = {"--help": "what there is", "--version": "the version"}
Script = Callable[[Iterable[Command]], str]


def _positional(option: Option) -> bool:
    return not option.name.startswith("-")


def _plain(text: str) -> str:
    """A help text of argparse as it is shown, without its default."""
    return text.replace(" (%(default)s)", "").replace("%%", "%")


# bash


def bash(commands: Iterable[Command]) -> str:
    """A function that finds the words for `command option` before the cursor in a table."""
    commands = list(commands)
    rows = [("1 *", _reply([*(c.name for c in commands), *GENERAL]))]
    for command in commands:
        rows += _bash_rows(command)
    table = "\n".join(f"        {_pattern(pattern)}) {reply};;" for pattern, reply in rows)
    return BASH.replace("TABLE", table)


def _bash_rows(command: Command) -> Iterator[tuple[str, str]]:
    """(pattern of "number command word-before word", what to reply) of one command, best first."""
    for option in command.options:
        if option.takes_value and not _positional(option):
            yield f"* {command.name} {option.name} *", _reply(option.words, option.files)
    flags = [option.name for option in command.options if not _positional(option)]
    yield f"* {command.name} * -*", _reply([*flags, "--help"])
    for option in filter(_positional, command.options):
        yield f"* {command.name} *", _reply(option.words, option.files)


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
    """A function that hands each command's options to zsh's own `_arguments`."""
    commands = list(commands)
    names = {**{c.name: c.summary for c in commands}, **GENERAL}
    listed = " ".join(quote(f"{name}:{told}") for name, told in names.items())
    cases = "\n".join(f"        {c.name}) _arguments {_zsh_options(c)};;" for c in commands)
    return ZSH.replace("NAMES", listed).replace("CASES", cases)


def _zsh_options(command: Command) -> str:
    return " ".join(quote(_zsh_option(option)) for option in command.options)


def _zsh_option(option: Option) -> str:
    told = "".join(f"\\{c}" if c in "[]:\\" else c for c in _plain(option.help))
    words, name = " ".join(option.words), option.metavar
    offered = f"({words})" if words else "_files" if option.files else " "
    if words and option.files:
        offered = f'{{_alternative "names:{name}:({words})" "files:file:_files"}}'
    if _positional(option):
        return f"1:{name}:{offered}"
    return f"{option.name}[{told}]" + f":{name}:{offered}" * option.takes_value


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
    """One `complete` for each command and each option."""
    lines = ["# featherlane in fish; made by: featherlane completion fish"]
    lines.append("complete -c featherlane -f")
    lines += [_fish("__fish_use_subcommand", f"-l {o[2:]}", told) for o, told in GENERAL.items()]
    for command in commands:
        lines.append(_fish("__fish_use_subcommand", f"-a {command.name}", command.summary))
        inside = f"__fish_seen_subcommand_from {command.name}"
        lines += [_fish(inside, _fish_option(o), _plain(o.help)) for o in command.options]
    return "\n".join(lines)


def _fish(condition: str, what: str, told: str) -> str:
    return f"complete -c featherlane -n {quote(condition)} {what} -d {quote(told)}"


def _fish_option(option: Option) -> str:
    words = f" -a {quote(' '.join(option.words))}" if option.words else ""
    if _positional(option):
        return ("-F" if option.files else "-f") + words
    name = f"-l {option.name[2:]}"
    if not option.takes_value:
        return name
    return f"{name} -r" + (" -F" if option.files else " -f") + words


SCRIPTS: dict[str, Script] = {"bash": bash, "zsh": zsh, "fish": fish}
