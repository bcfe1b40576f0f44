"""The commands of `featherlane`, one function each.

A command is decorated with its options and returns an `Answer`; `cli.main` handles `--json` and the
exit status. Modules that only one command needs are imported inside it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from featherlane.api.model import Model, load
from featherlane.functions.functions_of import functions_of, usual_functions
from featherlane.functions.wrenches import WRENCH_FRAMES
from featherlane.robot.loaders import bundled
from featherlane.robot.loaders.files import LARGEST_FILE
from featherlane.tools.command import COMMANDS, Answer, command
from featherlane.tools.options import (
    ANY_FUNCTION,
    BOARD,
    CIRCUIT_FUNCTIONS,
    DTYPE,
    DTYPE_OF_ARRAYS,
    FUNCTION,
    LOOPS,
    MAPPED_FUNCTION,
    NO_FRICTION,
    PACKAGES,
    ROBOT,
    ROOT,
    Option,
    choice,
    count,
    count_or_auto,
    dtype,
    flag,
    free_text,
    interval,
    number,
    size,
    written_file,
)
from featherlane.tools.progress import ProgressLine, StageLines
from featherlane.tools.timing import DTYPES

PEERS = ("pinocchio", "mujoco")
SIGNATURES = ("plain", "acados")


def _source(robot: str) -> str:
    """Returns the argument of `load` for ROBOT; for "-", the XML that stdin holds."""
    if robot != "-":
        return robot
    text = sys.stdin.read(LARGEST_FILE + 1)
    if not text.lstrip("\ufeff \t\r\n").startswith("<"):
        raise ValueError("stdin is not XML: it does not start with '<'")
    return text


def _model(args: argparse.Namespace) -> Model:
    """The robot that ROBOT, NAME:=VALUE, --packages, --loops, --root and --no-friction ask for."""
    expansion = {"xacro_args": args.xacro_args, "packages": args.packages}
    model = load(_source(args.robot), root=args.root, loops=args.loops, **expansion)
    return model.with_physics(friction=0) if getattr(args, "no_friction", False) else model


@command(
    "info",
    ROBOT._replace(settings=ROBOT.settings | {"nargs": "?"}),
    ROOT,
    PACKAGES,
    LOOPS,
    flag("--cost", "also show the operations of each function"),
    flag("--system", "instead of a robot: this machine, and what runs calls and threads on it"),
)
def info(args: argparse.Namespace) -> Answer:
    """Shows the model card: joints, sizes, masses, frames and notes."""
    from featherlane.tools import facts, system

    if args.system:
        return Answer(*system.of_system())
    if args.robot is None:
        raise ValueError("ROBOT is missing: name one, or pass --system")
    model = _model(args)
    if not args.cost:
        return Answer(facts.of_model(model), model)
    costs = facts.costs(model)
    return Answer({**facts.of_model(model), "cost": costs}, f"{model}\n\n{facts.cost_table(costs)}")


@command(
    "check",
    ROBOT,
    ROOT,
    PACKAGES,
    choice("--against", "pinocchio or mujoco (%(default)s)", PEERS, default="pinocchio"),
    FUNCTION,
    count("--states", "random states (%(default)s)", 100),
    DTYPE,
)
def check(args: argparse.Namespace) -> Answer:
    """Compares the functions with another library; the exit status is 1 if one differs.

    The other library must be installed: pip install 'featherlane[check]'.
    """
    from featherlane.tools.check import check as compare

    with ProgressLine(sys.stderr) as progress:
        report = compare(
            _source(args.robot),
            args.root,
            against=args.against,
            functions=args.function,
            states=args.states,
            dtype=args.dtype,
            progress=progress,
            xacro_args=args.xacro_args,
            packages=args.packages,
        )
    return Answer(report.to_dict(), report, report.passed)


def _figure(file: str) -> Path:
    from featherlane.tools.roofline_plot import writable

    return writable(file)


@command(
    "bench",
    ROBOT,
    ROOT,
    PACKAGES,
    LOOPS,
    count("--batch", "states in a call (%(default)s)", 4096),
    dtype("both", "both"),
    count("--threads", "threads of the multi-threaded column (all physical cores)"),
    flag("--roofline", "also show how close each function comes to this machine's measured limits"),
    flag("--explain", "also show the automatic choices for each function and their expected cost"),
    written_file("--plot", "draw the roofline: .svg, .png or .pdf", _figure),
)
def bench(args: argparse.Namespace) -> Answer:
    """Runs a self-check and prints a table of speeds; the exit status is 1 if a check fails."""
    from featherlane.tools import facts
    from featherlane.tools.bench import bench as measure

    model = _model(args)
    if not args.json:
        print(model, end="\n\n", flush=True)  # the rest takes a while
    dtypes = DTYPES if args.dtype == "both" else (args.dtype,)
    roofline = args.roofline or args.plot is not None
    with ProgressLine(sys.stderr) as progress:
        report = measure(model, args.batch, dtypes, args.threads, progress, roofline, args.explain)
    if args.plot is not None and report.roofline is not None:
        from featherlane.tools.roofline_plot import plot

        plot(report.roofline, report.title, args.plot)
    return Answer({"model": facts.of_model(model), **report.to_dict()}, report, report.passed)


@command(
    "compile",
    ROBOT,
    ROOT,
    PACKAGES,
    LOOPS,
    ANY_FUNCTION,
    dtype("float64", "both"),
    flag("--derivatives", "also compile the derivatives of these functions"),
    flag("--single", "also compile the kernels for calls with a single state"),
)
def compile_functions(args: argparse.Namespace) -> Answer:
    """Compiles functions into the cache, on all cores; programs then load them in milliseconds.

    $FEATHERLANE_WORKERS sets the number of additional processes that compile (by default one less
    than the number of cores).
    """
    from featherlane.tools import system

    if any(name for name, _ in args.function or ()):
        raise ValueError("--function takes NAME=FUNCTION only where C is generated")
    model = _model(args)
    functions = [what for _, what in args.function or ()] or [*functions_of(model)]
    return Answer(
        *system.of_compilation(
            model,
            functions,
            DTYPES if args.dtype == "both" else (args.dtype,),
            derivatives=args.derivatives,
            single=args.single,
        )
    )


@command(
    "generate",
    ROBOT,
    ROOT,
    PACKAGES,
    LOOPS,
    NO_FRICTION,
    choice(
        "--target",
        "c: C99; wasm: WebAssembly; ptx: NVIDIA GPUs; gfx90a, gfx942: AMD GPUs; spirv64: SPIR-V;"
        " verilog: circuits (%(default)s)",
        ("c", "wasm", "ptx", "gfx90a", "gfx942", "spirv64", "verilog"),
        default="c",
    ),
    free_text("--output", "the folder to write to, created if missing", required=True),
    ANY_FUNCTION,
    DTYPE,
    flag("--batch-struct", "also write functions of many states, in a struct of arrays"),
    free_text("--name", "prefix of all names in the code (the robot's name)"),
    count("--code-limit", "largest number of operations as straight-line code (as in Python)"),
    choice("--signature", "acados: also discrete dynamics (plain)", SIGNATURES, default="plain"),
    choice(
        "--ground",
        "wasm: none: the page's step has no ground, for a smaller page (auto)",
        ("auto", "none"),
        default="auto",
    ),
    count("--interval", "Verilog: clock cycles from one state to the next (1)"),
    free_text("--format", "Verilog: number format, such as q16.16, proved or fitted (q16.16)"),
    free_text("--device", "Verilog: the FPGA (xcvu9p)"),
    number("--clock", "Verilog: clock in MHz (125)"),
    free_text("--delays", "Verilog: the delay model (the first of the device)"),
    choice(
        "--sharing",
        "Verilog: operations that may share multipliers (module)",
        ("module", "class", "whole"),
    ),
    choice(
        "--arrays",
        "Verilog: time-multiplexed parts, see docs/accelerators.md; auto: with --together",
        ("limbs", "columns", "auto"),
    ),
    choice(
        "--datapath",
        "Verilog: shared multipliers or units with memories, see docs/fpga.md (shared)",
        ("shared", "memories", "auto"),
    ),
    flag("--together", "Verilog: all seven functions, or those of --function, in one design"),
    free_text("--algorithm", "Verilog: deferred, factor, body, scan and others, see docs/fpga.md"),
    choice(
        "--wrapper", "Verilog: streams and registers around the design, see docs/board.md", ("axi",)
    ),
    count("--width", "Verilog: width of the wrapper's streams in bits (128)"),
    choice(
        "--layout",
        "Verilog: layout of entries in the wrapper's streams (packed)",
        ("packed", "words"),
    ),
    interval("--range", "Verilog: smallest and largest value of an input (its limits)"),
)
def generate(args: argparse.Namespace) -> Answer:
    """Writes functions of the robot as source code for other machines.

    It writes C99 without dependencies: a header, a source, a program that checks every function
    against values from Python, and a CMakeLists.txt (docs/c.md); or WebAssembly with a page that
    shows the robot (docs/browser.md); or kernels for GPUs, with a JSON file that says how to launch
    each function (docs/gpu.md); or a pipeline in fixed point as SystemVerilog,
    with a test bench and a report, in a folder for each function if there are several, or with
    --together in one design that takes tasks of any of them (docs/fpga.md), or with --wrapper such
    a pipeline for a board (docs/board.md).
    """
    hardware = {name: getattr(args, name) for name in HARDWARE}
    hardware = {name: value for name, value in hardware.items() if value is not None}
    if args.target == "verilog":
        return _pipelines(args, hardware)
    if hardware or args.together:
        raise ValueError(f"--{min(hardware, default='together')} is for --target verilog")
    from featherlane.api.generate import generate as write
    from featherlane.backends.c.names import identifier

    functions = {name or identifier(what): what for name, what in args.function or ()}
    if len(functions) < len(args.function or ()):
        raise ValueError("--function gives two functions one name in C: write NAME=FUNCTION")
    files = write(
        _model(args),
        args.output,
        functions or None,
        target=args.target,
        name=args.name,
        dtype=args.dtype,
        batch_struct=args.batch_struct,
        code_limit=args.code_limit,
        signature=args.signature,
        ground=None if args.ground == "none" else args.ground,
    )
    return Answer({"files": [str(file) for file in files]}, "\n".join(map(str, files)))


WRAPPER = ("wrapper", "width", "layout")
HARDWARE = (
    *("interval", "format", "device", "clock", "delays", "sharing", "arrays", "algorithm", "range"),
    "datapath",
    *WRAPPER,
)


def _pipelines(args: argparse.Namespace, options: dict[str, Any]) -> Answer:
    """Writes a pipeline for each function, or one design of them together."""
    from featherlane.accelerators.designs import accelerator, multifunction
    from featherlane.backends.c.names import identifier

    if args.batch_struct or args.code_limit is not None or args.signature != "plain":
        raise ValueError("--batch-struct, --code-limit and --signature are for --target c")
    if args.ground != "auto":
        raise ValueError("--ground is for --target wasm")
    if args.dtype != "float64":
        raise ValueError("--dtype is not for --target verilog: --format says what numbers are")
    if "range" in options:
        options["ranges"] = dict(options.pop("range"))
    streams = {name: options.pop(name) for name in WRAPPER if name in options}
    if streams and not streams.pop("wrapper", None):
        raise ValueError(f"--{min(streams)} is for --wrapper axi")
    model, answers, texts = _model(args), [], []
    functions = {name or identifier(what): what for name, what in args.function or ()}
    prefix = identifier(args.name or model.name)
    designs: dict[str, Any]
    if args.together:
        if "layout" in streams:
            raise ValueError("--layout is for single functions: entries are packed with --together")
        name = f"{prefix}_functions"
        designs = {name: multifunction(model, [*functions.values()] or None, name=name, **options)}
    else:
        functions = functions or {name: name for name in usual_functions(model)}
        designs = {  # all of them before anything is written
            name: accelerator(model, what, name=f"{prefix}_{name}", **options)
            for name, what in functions.items()
        }
    boards = {name: design.board(**streams) for name, design in designs.items() if args.wrapper}
    for name, design in designs.items():
        folder = Path(args.output) / (name if len(designs) > 1 else "")
        written = boards[name] if args.wrapper else design
        files = [str(file) for file in written.write(folder)]
        answers.append({"files": files, "report": design.facts})
        texts.append(f"{folder}: {len(files)} files; {design.summary}")
        texts += [boards[name].summary] if args.wrapper else []
    return Answer({"functions": answers}, "\n".join(texts))


@command(
    "build",
    ROBOT,
    ROOT,
    PACKAGES,
    LOOPS,
    NO_FRICTION,
    CIRCUIT_FUNCTIONS,
    BOARD,
    free_text("--output", "the folder to write to, created if missing", required=True),
    count_or_auto(
        "--interval", "clock cycles from one state to the next (auto: the smallest that is routed)"
    ),
    free_text("--format", "number format, such as fitted18 or q16.16 (fitted18)"),
    number("--clock", "clock in MHz that placement aims at (60)"),
    choice(
        "--sharing", "operations that may share multipliers (whole)", ("module", "class", "whole")
    ),
    choice(
        "--datapath",
        "shared multipliers or units with memories, see docs/fpga.md (auto: what fits)",
        ("shared", "memories", "auto"),
    ),
    free_text("--algorithm", "deferred, factor, body, scan and others, see docs/fpga.md"),
    interval("--range", "smallest and largest value of an input (its limits)"),
    count("--seeds", "placements that are tried until one reaches the clock (%(default)s)", 1),
    number(
        "--minutes",
        "minutes of a processor that one placement and its routing may take, ten times as many by "
        "the clock (20)",
    ),
    count("--verify", "states that the routed netlist computes in a simulation at its pins (none)"),
    count("--baud", "rate of the serial port (what the board's is documented to do)"),
    free_text("--name", "name of the top module (of the robot and the function)"),
    flag("--load", "also load the bitstream into the board that is plugged in"),
)
def build(args: argparse.Namespace) -> Answer:
    """Builds the bitstream of functions for a board with an FPGA, by Yosys and nextpnr.

    It writes the circuit, its serial link and clock, the pins, the routed netlist, the bitstream,
    and a report with the clock that was reached (docs/from_robot_to_board.md). Each stage is a line
    of the error stream, with its seconds; sources are in the folder before the tools run.
    pip install 'featherlane[fpga]' brings the tools; those of the system are faster.
    """
    from featherlane.accelerators.bitstreams import loader_of
    from featherlane.accelerators.entry import Accelerators
    from featherlane.backends.fpga.boards import board

    if args.load:
        loader_of(board(args.board))  # may be missing
    options = {name: getattr(args, name) for name in BUILD if getattr(args, name) is not None}
    if args.range is not None:
        options["ranges"] = dict(args.range)
    if args.minutes is not None:
        options["limit"] = 60 * args.minutes
    options |= {n: getattr(args, n) for n in ("verify", "baud") if getattr(args, n) is not None}
    seeds = range(1, args.seeds + 1)
    places = {"board": args.board, "folder": args.output, "seeds": seeds}
    functions = [name for names in args.function for name in names]
    chosen = functions if len(functions) > 1 else functions[0]
    with StageLines(sys.stderr) as progress:
        built = Accelerators().build(_model(args), chosen, progress=progress, **places, **options)
    if args.load:
        built.load()
    return Answer({"files": [str(file) for file in built.files], **built.facts}, built.report)


BUILD = ("interval", "format", "clock", "sharing", "datapath", "algorithm", "name")


@command(
    "map",
    ROBOT,
    MAPPED_FUNCTION,
    Option("source", "the Zarr group to read", files=True, settings={"metavar": "IN"}),
    Option("target", "the Zarr group to write", files=True, settings={"metavar": "OUT"}),
    ROOT,
    PACKAGES,
    LOOPS,
    DTYPE_OF_ARRAYS,
    count("--chunk", "number of states in a chunk (as in IN, if that is not too large)"),
    count("--workers", "number of threads or processes (all physical cores)"),
    free_text(
        "--scheduler",
        "threads, processes, or the address of a Dask scheduler, tcp://HOST:PORT (%(default)s)",
        default="threads",
    ),
    choice("--f-ext-frame", "axes of f_ext (%(default)s)", WRENCH_FRAMES, default="body"),
)
def map_states(args: argparse.Namespace) -> Answer:
    """Computes a function for all states of a Zarr group, chunk by chunk, into another group.

    IN has an array (B, ...) for each input of the function, under its name: q, v, a or tau, and
    optionally f_ext. The same command resumes a run that was killed. This needs zarr, and for
    processes and schedulers Dask: pip install 'featherlane[dask]' (docs/scale.md).
    """
    try:
        from featherlane.interop.zarr import map_store
    except ImportError as error:
        raise RuntimeError(str(error)) from error

    with ProgressLine(sys.stderr) as line:
        report = map_store(
            _model(args),
            args.function,
            args.source,
            args.target,
            dtype=args.dtype,
            chunk=args.chunk,
            workers=args.workers,
            scheduler=args.scheduler,
            f_ext_frame=args.f_ext_frame,
            progress=line.goes_on,
        )
    return Answer(report._asdict(), report)


@command(
    "view",
    ROBOT,
    ROOT,
    PACKAGES,
    LOOPS,
    count("--port", "first port to try for the page (%(default)s)", 8080),
)
def view(args: argparse.Namespace) -> Answer:
    """Serves a page that draws the robot, with a slider for each joint, until Ctrl-C.

    It draws the visuals of the robot's file, or bones from joint to joint. This needs viser: pip
    install 'featherlane[view]'.
    """
    try:
        from featherlane.interop.view import show
    except ImportError as error:
        raise RuntimeError(str(error)) from error

    model, out = _model(args), sys.stdout
    with redirect_stdout(StringIO()):  # viser prints messages, too
        expansion = {"xacro_args": args.xacro_args, "packages": args.packages}
        page = show(model, port=args.port, **expansion)
        if not args.json:
            print(f"{page.url} (Ctrl-C ends it)", file=out, flush=True)
        page.wait()
    return Answer({"url": page.url, "notes": page.notes}, "\n".join(page.notes))


@command("list")
def list_robots(args: argparse.Namespace) -> Answer:
    """Lists the robots that come with the package."""
    from featherlane.tools import facts

    robots = [facts.of_bundled(name) for name in bundled()]
    return Answer({"robots": robots}, facts.robot_table(robots))


@command(
    "cache",
    flag("--clear", "delete all compiled code"),
    size("--limit", "largest size of the cache from now on, such as 500M (1G)"),
)
def cache(args: argparse.Namespace) -> Answer:
    """Shows, clears or limits the cache of compiled code.

    $FEATHERLANE_CACHE names the folder; FEATHERLANE_CACHE=off disables the cache.
    """
    from featherlane.tools import system

    return Answer(*system.of_cache(args.clear, args.limit))


@command("completion", choice("shell", "bash, zsh or fish", ("bash", "zsh", "fish")))
def completion(args: argparse.Namespace) -> Answer:
    """Prints a shell script for tab completion of this command line.

    bash: featherlane completion bash > ~/.local/share/bash-completion/completions/featherlane;
    zsh: featherlane completion zsh > a file _featherlane in a folder of $fpath;
    fish: featherlane completion fish > ~/.config/fish/completions/featherlane.fish.
    For the current session: source <(featherlane completion bash), the same with zsh, or
    featherlane completion fish | source.
    """
    from featherlane.tools.completion import SCRIPTS

    script = SCRIPTS[args.shell](COMMANDS.values())
    return Answer({"shell": args.shell, "script": script}, script)
