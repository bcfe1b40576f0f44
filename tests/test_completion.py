"""Completion of the command line: each shell loads its script and completes with it."""

import os
import re
import select
import shutil
import subprocess
import time

import pytest
from processes import HUNG

from featherlane.robot.loaders import ROOTS, bundled
from featherlane.tools import cli
from featherlane.tools.commands import COMMANDS
from featherlane.tools.completion import SCRIPTS

FLAGS = {"--root", "--packages", "--loops", "--cost", "--system", "--json", "--help"}


@pytest.fixture
def script(tmp_path, capsys):
    """script(shell): the file with what `featherlane completion` prints, in an empty folder."""

    def write(shell):
        assert cli.main(["completion", shell]) == 0
        path = tmp_path / f"script.{shell}"
        path.write_text(capsys.readouterr().out)
        return path

    return write


def need(shell):
    path = shutil.which(shell)
    return path or pytest.skip(f"{shell} is not installed")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_names_all_commands_options_and_words(shell, script):
    text = script(shell).read_text()
    for command in COMMANDS.values():
        assert command.name in text
        for option in command.options:
            name = option.name.removeprefix("--") if option.name.startswith("--") else ""
            assert name in text
            assert all(word in text for word in option.words)


def in_bash(line, path):
    """The words that bash offers for the last word of a line."""
    ask = 'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _featherlane; printf "%s\\n" "${COMPREPLY[@]}"'
    words = " ".join(f"'{word}'" for word in line.split(" "))
    code = f"set -u; source '{path}'; COMP_WORDS=({words}); {ask}"
    command = [need("bash"), "--norc", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent)
    assert done.stderr == ""
    return set(done.stdout.split())


def in_fish(line, path):
    """The words that fish offers, without their descriptions."""
    code = f"source '{path}'; complete -C '{line}'"
    command = [need("fish"), "--no-config", "-c", code]
    home = os.environ | {"HOME": str(path.parent), "XDG_CONFIG_HOME": str(path.parent)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, env=home)
    assert done.stderr == ""
    return {offered.split("\t")[0] for offered in done.stdout.splitlines()}


@pytest.mark.parametrize("ask", [in_bash, in_fish])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("featherlane inf", {"info"}),
        ("featherlane completion ", {"bash", "zsh", "fish"}),
        ("featherlane info --root f", {root for root in ROOTS if root.startswith("f")}),
        ("featherlane check hyq --against ", {"pinocchio", "mujoco"}),
        ("featherlane check --function di", {"diFD"}),
        ("featherlane bench --batch ", set()),
    ],
)
def test_words(ask, line, offered, script):
    path = script("bash" if ask is in_bash else "fish")
    if (ask, line[-3:]) == (in_fish, " di"):
        (function,) = [x for x in COMMANDS["check"].options if x.name == "--function"]
        offered = {word for word in function.words if "di" in word.lower()}
    assert ask(line, path) == offered


@pytest.mark.parametrize("ask", [in_bash, in_fish])
def test_robots_are_names_and_files(ask, script):
    path = script("bash" if ask is in_bash else "fish")
    (path.parent / "arm.urdf").touch()
    (path.parent / "folder").mkdir()
    offered = {word.rstrip("/") for word in ask("featherlane info ", path)}
    assert offered >= {*bundled(), "arm.urdf", "folder"}
    assert "arm.urdf" in ask("featherlane bench --plot ar", path)
    assert not ask("featherlane bench --plot ar", path) & set(bundled())


@pytest.mark.parametrize("ask", [in_bash, in_fish])
def test_options_are_those_of_the_command(ask, script):
    path = script("bash" if ask is in_bash else "fish")
    offered = ask("featherlane info hyq --", path)
    assert offered | {"--help"} == FLAGS


def test_each_argument_of_a_command_has_its_own_words(script):
    assert in_bash("featherlane map iiw", script("bash")) == {"iiwa14"}
    assert in_bash("featherlane map iiwa14 dF", script("bash")) == {"dFD"}
    assert not in_bash("featherlane map iiwa14 dFD ii", script("bash"))
    text = script("zsh").read_text()
    assert "1:ROBOT:" in text
    assert "2:FUNCTION:" in text
    assert "4:OUT:" in text


def test_bash_takes_an_option_with_an_equals_sign(script):
    assert in_bash("featherlane info --root = fr", script("bash")) == {"free", "free-split"}
    assert in_bash("featherlane check --dtype =", script("bash")) == {"float32", "float64"}


def assert_zsh_shows(words, line, path):
    """Asserts that zsh shows all of these words when Tab is pressed twice behind a line."""
    shell, home = need("zsh"), path.parent
    import pty  # not on Windows

    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        environment = {"HOME": str(home), "TERM": "xterm", "PATH": os.environ["PATH"]}
        os.execve(shell, [shell, "-f", "-i"], environment)
    try:
        start = "autoload -Uz compinit; compinit -u; setopt AUTO_LIST NO_BEEP\n"
        os.write(terminal, f"stty -echo; {start}source {path}; print LOA''DED\n".encode())
        wait_for({"LOADED"}, terminal)
        os.write(terminal, f"{line}\t\t".encode())
        wait_for(words, terminal)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def wait_for(words, terminal, patience=HUNG):
    """Reads a terminal until it has shown all of these words."""
    text, end = "", time.monotonic() + patience
    while not all(word in text for word in words):
        assert time.monotonic() < end, f"not all of {words} came, but: {text}"
        if select.select([terminal], [], [], 0.5)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")
            text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("featherlane inf", {"info "}),
        ("featherlane ", set(COMMANDS)),
        ("featherlane check ", {*bundled(), "script.zsh"}),
        ("featherlane check hyq --against ", {"pinocchio", "mujoco"}),
        ("featherlane info --", FLAGS - {"--help"}),
    ],
)
def test_zsh_completes(line, words, script):
    assert_zsh_shows(words, line, script("zsh"))
