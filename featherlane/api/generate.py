"""`featherlane.generate`: functions of robots, and your own functions, as source code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featherlane.api.card import portable_card
from featherlane.api.model import Model
from featherlane.api.named_variants import variant_named
from featherlane.api.page_ground import AUTO, PageGround
from featherlane.errors import one_of
from featherlane.functions.discrete import discrete, entries, groups
from featherlane.functions.functions_of import usual_functions
from featherlane.functions.gpu import kernels_of
from featherlane.functions.ground_inputs import GROUND_OUTPUTS
from featherlane.functions.kernels import is_long, on_gpu
from featherlane.functions.sources import MEANINGS, about, code_size, source_program
from featherlane.functions.table import CALLED, FUNCTIONS
from featherlane.functions.tracing import dynamics_graph
from featherlane.functions.variants import check_variant
from featherlane.program.graph import Graph
from featherlane.program.lower import checked_dtype, lower
from featherlane.program.program import Program
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parameters import PARAMETERS
from featherlane.version import __version__

if TYPE_CHECKING:
    from featherlane.backends.cuda.stages import GpuKernels

TARGETS = ("c", "wasm", "ptx", "gfx90a", "gfx942", "spirv64")  # NVIDIA, two of AMD, OpenCL


def generate(
    model: Model | None,
    folder: str | Path,
    functions: Iterable[str] | Mapping[str, str | Graph] | None = None,
    *,
    target: str = "c",
    name: str | None = None,
    dtype: Any = np.float64,
    batch_struct: bool = False,
    code_limit: int | None = None,
    states: int = 5,
    signature: str = "plain",
    ground: PageGround = AUTO,
) -> list[Path]:
    """Writes a library of C99 functions and returns its files: NAME.h, NAME.c, CMakeLists.txt, and
    NAME_check.c, whose `main` compares every function with values from Python.

    The other targets write other files. "ptx" writes the kernels of each function for NVIDIA GPUs,
    NAME_FUNCTION.ptx, and a description of how to launch them, NAME_FUNCTION.json (docs/gpu.md).
    "gfx90a" and "gfx942", AMD's processors, write assembly, NAME_FUNCTION.s; "spirv64" writes
    modules, NAME_FUNCTION.spv. No AMD or SPIR-V device has run them yet. "wasm" is for browsers and
    Node: it writes NAME.wasm, its loader NAME.mjs, types NAME.d.mts, NAME_fallback.mjs in plain
    JavaScript, and NAME.html, a page that shows the robot; functions that the page calls are added
    (docs/browser.md).

    The functions allocate nothing and are bit-identical to the Python package (docs/c.md). Raises
    ValueError for an unknown function, a function that acados cannot use, a name that is not valid
    in C, and a folder that contains another library, whose check would collide with this one.

    Arguments:
        model: the robot; None if all functions are graphs
        folder: where the files are written
        functions: names of `Model`'s functions; after a colon follows a frame, a parameter or an
            integrator ("jacobian:tool0", with axes "jacobian:tool0:world", or "step:rk4"). A
            mapping {name in C: function} may also contain graphs, from `trace` or `Model.graph`
            with its options: functions of constraints, such as {"contact":
            robot.graph("constrained_forward_dynamics", constraints=feet)}. None: the seven dynamics
            functions, or those of them that a robot with loops or massless joints has, with a
            warning that names the others
        target: "c", "ptx", "gfx90a", "gfx942", "spirv64" or "wasm"
        name: the prefix of all names in C; None: the robot's name
        dtype: float64 or float32
        batch_struct: whether functions of many states, in a struct of arrays, are also written
        code_limit: largest number of operations in straight-line code. Longer functions call C
            functions for repeated columns, or for the steps of the algorithm; if no form is short
            enough, the one with the fewest operations is written. None: that of the package
        states: number of random states in NAME_check.c
        signature: "plain", or "acados", which writes each function as discrete dynamics with its
            Jacobian, NAME_fun and NAME_fun_jac of x, u and p (see `functions.discrete.Groups`), and
            NAME_acados.h and .c with functions that acados can call; it takes "step", and graphs
            whose outputs are the next state
        ground: of the page's step with target "wasm". "auto": the plane z = 0 for robots with a
            free root, where their shapes touch it at no more than 16 points; None: no ground, for a
            smaller page. A step among `functions` stays as it is

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> [file.name for file in fl.generate(arm, folder, ["inverse_dynamics"])]
        ['double_pendulum.h', 'double_pendulum.c', 'double_pendulum_check.c', 'CMakeLists.txt']
    """
    _check_arguments(model, folder, target, name, states=states, code_limit=code_limit)
    if functions is None:
        functions = FUNCTIONS if model is None else usual_functions(model)
    named = _named(functions)
    if target == "wasm":
        if batch_struct or signature != "plain":
            raise ValueError("target is 'wasm': batch_struct and signature are for C")
        dtype = checked_dtype(dtype)
        contents = _for_browser(model, functions, named, name, dtype, code_limit, ground)
        return _write(Path(folder), contents)
    if ground != AUTO:
        raise ValueError(
            f"ground is for target 'wasm', and target is {target!r}: wanted, among functions, "
            'a graph such as model.graph("step", ground=...)'
        )
    if target != "c":
        if batch_struct or code_limit is not None or signature != "plain":
            c_only = "batch_struct, code_limit and signature are for C"
            raise ValueError(f"target is {target!r}: {c_only}")
        texts = _for_gpu(model, functions, named, name, checked_dtype(dtype), target)
        return _write(Path(folder), texts)
    # Few programs write code, and the others do not wait for these modules
    from featherlane.backends.c import acados
    from featherlane.backends.c.library import CFunction, library

    dtype, dynamics = checked_dtype(dtype), list[acados.Dynamics]()
    if signature == "acados":
        named, dynamics = _discrete(model, functions, named, dtype)
        functions = named
    elif signature != "plain":
        raise ValueError(f"signature is {signature!r}: {one_of(signature, ('plain', 'acados'))}")
    prefix = _prefix(model, name)
    _check_folder(Path(folder), prefix)
    rng = np.random.default_rng(0)
    sources = []
    for shown, what in named.items():
        program, described, meanings = _described(model, shown, what, dtype, code_limit)
        inputs = {x: _inputs(model, x, shape, states, rng) for x, shape in program.inputs.items()}
        sources.append(CFunction(_in_code(functions, shown), program, described, meanings, inputs))
    code = library(prefix, sources, _preface(prefix, model, dtype), dtype, batch_struct)
    if dynamics:
        code |= acados.files(prefix, dynamics)
    return _write(Path(folder), code)


def _prefix(model: Model | None, name: str | None) -> str:
    """The beginning of all names. Raises ValueError if it is none in C."""
    from featherlane.backends.c.names import check_start, identifier

    prefix = name or identifier(model.name if model is not None else "functions")
    check_start(prefix, "name")
    return prefix


def _in_code(functions: Iterable[str] | Mapping[str, str | Graph], shown: str) -> str:
    """The name of a function in the code: the user's name for it, if there is one."""
    from featherlane.backends.c.names import identifier

    return shown if isinstance(functions, Mapping) else identifier(shown)


def _check_arguments(
    model: Model | None, folder: str | Path, target: str, name: str | None, **counts: int | None
) -> None:
    if not isinstance(model, Model | None):
        raise TypeError(f"model is {model!r}: wanted a Model, as fl.load gives it, or None")
    if not isinstance(name, str | None):
        raise TypeError(f"name is {name!r}: wanted a text")
    if not str(folder):
        raise ValueError("folder is empty: name one, or '.' for the current one")
    if target not in TARGETS:
        raise ValueError(f"target is {target!r}: {one_of(target, TARGETS)}")
    for what, count in counts.items():
        if count is not None and (not isinstance(count, Integral) or count < 1):
            raise ValueError(f"{what} is {count!r}: wanted a whole number, 1 or more")


def _for_browser(
    model: Model | None,
    functions: Iterable[str] | Mapping[str, str | Graph],
    named: Mapping[str, str | Graph],
    name: str | None,
    dtype: np.dtype,
    limit: int | None,
    ground: PageGround,
) -> dict[str, str | bytes]:
    """A module for browsers and what goes with it, by the names of the files."""
    from featherlane.api.browser import facts, with_page
    from featherlane.backends.c.names import check_start
    from featherlane.backends.wasm.files import WasmFunction, library

    prefix, sources, step = _prefix(model, name), list[WasmFunction](), None
    wanted = {_in_code(functions, x): what for x, what in named.items()}
    if model is not None:
        wanted, step = with_page(wanted, model, ground, limit)
    for label, what in wanted.items():
        check_start(label, "the function")
        program, described, meanings = _described(model, label, what, dtype, limit, "wasm")
        sources.append(WasmFunction(label, program, described, meanings))
    return library(prefix, sources, facts(model, prefix, step), dtype)


def _for_gpu(
    model: Model | None,
    functions: Iterable[str] | Mapping[str, str | Graph],
    named: Mapping[str, str | Graph],
    name: str | None,
    dtype: np.dtype,
    target: str,
) -> dict[str, str | bytes]:
    """Kernels for GPUs, and how they are launched, by the names of the files."""
    from featherlane.backends.c.names import check_start
    from featherlane.backends.cuda import files
    from featherlane.backends.vendors import files as vendors

    prefix, texts = _prefix(model, name), dict[str, str | bytes]()
    for shown, what in named.items():
        kernel_name = f"{prefix}_{_in_code(functions, shown)}"
        check_start(kernel_name, "name")
        kernels = _kernels(model, what, kernel_name, dtype)
        if target == "ptx":
            texts |= files.files(kernel_name, kernels, dtype)
        else:
            texts |= vendors.files(kernel_name, kernels, dtype, target)
    return texts


def _kernels(model: Any, what: str | Graph, name: str, dtype: np.dtype) -> GpuKernels:
    """The kernels of a graph, or of a function of a robot, for many states."""
    if isinstance(what, Graph):
        return kernels_of(Program(what), name, dtype)
    if model is None:
        raise TypeError(f"model is missing: {what!r} is a function of a robot")
    variant = variant_named(model, what)
    check_variant(model, variant)
    long = is_long(model, variant)
    gpu = on_gpu(model, variant, long)
    return gpu.kernels(gpu.mappings[-1 if long else 0], name, dtype)


def _named(functions: Iterable[str] | Mapping[str, str | Graph]) -> dict[str, str | Graph]:
    """The functions to be written, by the names that messages show."""
    if isinstance(functions, str):
        raise TypeError(f"functions is {functions!r}: wanted a list of names, or a mapping")
    named = dict(functions) if isinstance(functions, Mapping) else {f: f for f in functions}
    if not named:
        raise ValueError("functions is empty: name one, or leave it out for the seven")
    for shown, what in named.items():
        if not isinstance(what, str | Graph):
            kind = type(what).__name__
            raise TypeError(f"function {shown!r} is a {kind}: wanted a name or a Graph")
    return named


def _discrete(
    model: Model | None,
    functions: Iterable[str] | Mapping[str, str | Graph],
    named: Mapping[str, str | Graph],
    dtype: np.dtype,
) -> tuple[dict[str, str | Graph], list[Any]]:
    """The graphs of functions as discrete dynamics by their names in C, and what acados calls."""
    from featherlane.backends.c.acados import Dynamics
    from featherlane.backends.c.names import identifier

    if dtype != np.float64:
        raise ValueError(f"dtype is {dtype}: acados computes with float64")
    graphs: dict[str, str | Graph] = {}
    dynamics = []
    for shown, what in named.items():
        name = shown if isinstance(functions, Mapping) else identifier(shown)
        if isinstance(what, str) and model is None:
            raise TypeError(f"model is missing: {what!r} is a function of a robot")
        graph = what if isinstance(what, Graph) else _graph(model, what)
        _check_next_state(shown, graph, isinstance(what, str))
        graphs |= {f"{name}_fun{end}": discrete(graph, bool(end)) for end in ("", "_jac")}
        x, u, p = (entries(graph, group) for group in groups(graph))
        fun = sum(len(out.nodes) for out in graph.outputs.values())
        dynamics.append(Dynamics(name, x, u, p, fun))
    return graphs, dynamics


def _check_next_state(shown: str, graph: Graph, named: bool) -> None:
    """Raises ValueError for outputs that are no next state. Those of a robot's function have the
    names of one; those of a graph may have any names, and as many entries.
    """
    x, outputs = groups(graph).x, graph.outputs
    if named:
        good = [*outputs] == [f"{name}_next" for name in x]
    else:
        good = sum(len(out.nodes) for out in outputs.values()) == entries(graph, x)
    if not good:
        gives = ", ".join(f"{name}{list(out.shape)}" for name, out in outputs.items())
        state = ", ".join(f"{name}{list(graph.inputs[name])}" for name in x) or "of no entries"
        raise ValueError(
            f"function {shown!r} gives {gives} for the state {state}: acados takes discrete "
            "dynamics, 'step' or a graph whose outputs are the next state"
        )


def _graph(model: Any, what: str) -> Graph:
    variant = variant_named(model, what)
    check_variant(model, variant)
    return dynamics_graph(model, variant)


def _described(
    model: Model | None,
    shown: str,
    what: str | Graph,
    dtype: np.dtype,
    limit: int | None,
    target: str = "c",
) -> tuple[Program, str, Mapping[str, str]]:
    """A function as a program, a sentence on it, and the meanings of its arguments by name."""
    if isinstance(what, Graph):
        program = lower(Program(what), target, dtype)
        if limit is not None and code_size(program) > limit:
            raise ValueError(
                f"{shown!r} has {code_size(program)} operations, more than code_limit, {limit}: "
                "only functions of robots can be written shorter"
            )
        return program, f"The graph {shown!r}.", _meanings(model, what)
    if model is None:
        raise TypeError(f"model is missing: {what!r} is a function of a robot")
    variant = variant_named(model, what)
    check_variant(model, variant)
    program = source_program(model, variant, dtype, limit, is_long(model, variant), target)
    return program, about(variant), MEANINGS


def _meanings(model: Model | None, graph: Graph) -> Mapping[str, str]:
    """The meanings of a graph's inputs and outputs, where it is one of the robot's functions by
    their names: in a function of your own, they may mean anything.
    """
    results = graph.outputs.keys() - GROUND_OUTPUTS.keys()
    is_named = model is not None and any(
        graph.inputs.keys() >= f.inputs.keys()
        and results >= f.outputs.keys()
        and (results == f.outputs.keys() or "sensors" in f.takes)
        for f in CALLED.values()
    )
    return MEANINGS if is_named else {}


def _inputs(
    model: Model | None, name: str, shape: tuple[int, ...], states: int, rng: np.random.Generator
) -> np.ndarray:
    """Values of one input for the states of the check."""
    if model is not None and name == "q" and shape == (model.nq,):
        return model.random_configuration(states, seed=int(rng.integers(1 << 30)))
    noise = rng.standard_normal((states, *shape))
    if model is not None and name in PARAMETERS:
        nominal = model.parameters(name)[name]
        if nominal.shape == shape:
            return nominal * (1 + 0.1 * noise)
    return noise


def _preface(name: str, model: Model | None, dtype: np.dtype) -> list[str]:
    lines = [f"{name}: functions in C99, {dtype}, by featherlane {__version__}", ""]
    if model is None:
        return lines[:-1]
    types = {kind.name: kind.units for kind in model.types}
    units = [
        f"  {name}: q {types[name].q}; v, a {types[name].v}; tau {types[name].tau}"
        for name in JOINT_TYPES
        if name in types
    ]
    order = "Entries of q and v (a and tau as v) stand in the table of joints. Units:"
    return [*lines, *portable_card(model).split("\n"), "", order, *units]


def _check_folder(folder: Path, name: str) -> None:
    above = next(x for x in (folder, *folder.absolute().parents) if os.path.exists(x))
    if not os.path.isdir(above):
        raise ValueError(f"folder {str(folder)!r} cannot be made: {str(above)!r} is a file")
    written = {f"{name}.c", f"{name}_check.c"}
    checks = folder.glob("*_check.c") if above == folder else ()
    others = [p.name for p in checks if p.name not in written]
    if others:
        reason = "each library needs its own folder, because its check is a program"
        raise ValueError(f"folder {str(folder)!r} holds {min(others)} of another library: {reason}")


def _write(folder: Path, texts: Mapping[str, str] | Mapping[str, str | bytes]) -> list[Path]:
    paths = [folder / file for file in texts]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            if isinstance(text, bytes):
                path.write_bytes(text)
            else:
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"folder {str(folder)!r} cannot be written to: {error}") from error
    return paths
