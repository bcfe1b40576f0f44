"""Machines for generated C: compilers of this machine, and Cortex-M processors under qemu.

qemu's boards MPS2 AN386 (Cortex-M4) and AN500 (Cortex-M7) run the program with semihosting: it
prints here, and its exit status is qemu's. With `-icount shift=0` their clock counts instructions.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent / "cortex_m"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-ffp-contract=off")
SECONDS = 600  # that a compiler or a program may take


class Machine(NamedTuple):
    """A compiler with its flags, and what runs its programs: an emulator's command, or nothing."""

    name: str
    compiler: str
    flags: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """Why nothing can be run, or None."""
        programs = [self.compiler, *self.emulator[:1]]
        absent = [name for name in programs if not shutil.which(name)]
        return f"{' and '.join(absent)} not installed" if absent else None

    def build(self, sources: Iterable[Path], program: Path, options: Sequence[str] = ()) -> None:
        """Compiles and links all sources. Raises CalledProcessError; a warning is an error."""
        start = [str(HERE / "start.c")] if self.emulator else []
        files = [*map(str, sources), *start, "-lm", "-o", str(program)]
        subprocess.run(
            [self.compiler, *self.flags, *STRICT, *options, *files], check=True, timeout=SECONDS
        )

    def run(self, program: Path) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end."""
        command = [*self.emulator, str(program)]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)

    def code_size(self, library: Path, folder: Path, options: Sequence[str] = ()) -> int:
        """Bytes of code and constants of one source."""
        made = folder / "size.o"
        files = ["-c", str(library), "-o", str(made)]
        compile_only = [flag for flag in self.flags if flag not in LINKING]
        subprocess.run([self.compiler, *compile_only, *STRICT, *options, *files], check=True)
        told = subprocess.run(["size", str(made)], capture_output=True, text=True, check=True)
        return int(told.stdout.splitlines()[1].split()[0])


LINKING = ("--specs=rdimon.specs", "-nostartfiles", "-T", str(HERE / "mps2.ld"))


def _cortex(name: str, board: str, cpu: str, *floats: str) -> Machine:
    flags = (f"-mcpu={cpu}", "-mthumb", *floats, *LINKING)
    emulator = ("qemu-system-arm", "-M", board, "-nographic", "-icount", "shift=0")
    semihosting = ("-semihosting-config", "enable=on,target=native", "-kernel")
    return Machine(name, "arm-none-eabi-gcc", flags, (*emulator, *semihosting))


def _hard(unit: str) -> tuple[str, str]:
    return f"-mfpu={unit}", "-mfloat-abi=hard"


HOSTS = (
    Machine("gcc", "gcc"),
    Machine("gcc, this processor", "gcc", ("-march=native",)),
    Machine("clang", "clang"),
    Machine("clang, this processor", "clang", ("-march=native",)),
)
CORTEX = (
    _cortex("Cortex-M4, soft", "mps2-an386", "cortex-m4", "-mfloat-abi=soft"),
    _cortex("Cortex-M4, hard", "mps2-an386", "cortex-m4", *_hard("fpv4-sp-d16")),
    _cortex("Cortex-M7, soft", "mps2-an500", "cortex-m7", "-mfloat-abi=soft"),
    _cortex("Cortex-M7, hard", "mps2-an500", "cortex-m7", *_hard("fpv5-d16")),
)
