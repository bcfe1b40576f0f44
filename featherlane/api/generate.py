"""`featherlane.generate`: functions of robots, and of your own, as source code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.api.card import card
from featherlane.api.model import Model
from featherlane.backends.cpu.compile import _checked_dtype
from featherlane.functions.table import FUNCTIONS, TABLE, Variant
from featherlane.program.graph import Graph
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.robot.parameters import PARAMETERS


def generate(
    model: Model | None,
    folder: str | Path,
    functions: Iterable[str] | Mapping[str, str | Graph] = tuple(FUNCTIONS),
    *,
    target: str = "c",
    name: str | None = None,
    dtype: Any = np.float64,
    batch_struct: bool = False,
    code_limit: int | None = None,
    states: int = 5,
) -> list[Path]:
    """Writes a library of C99 functions, and returns its files: NAME.h, NAME.c, NAME_check.c, whose
    `main` compares every function with values from Python, and CMakeLists.txt.

    functions: names of `Model`'s functions, by default the seven; one that takes a frame or a
    parameter names it behind a colon ("jacobian:tool0"). A mapping gives each a name in C, and may
    hold graphs: those of `trace`, or of `Model.graph` with its options. model: None if all are
    graphs. name: the start of all names in C, by default the robot's. batch_struct: also writes
    functions of many states, in a struct of arrays. code_limit: operations that a function may have
    as code: longer ones keep repeated columns, or the steps of the algorithm, as C functions; by
    default what the package itself compiles. states: random states that NAME_check.c holds.

    The functions allocate nothing and give the bits of the Python package (docs/c.md). Raises
    ValueError for an unknown function, a name that is none in C, and a folder that holds another
    library, whose check would collide with this one.
    """
    # Whoever writes no code does not wait for these modules: 20 ms of the package's import
    from featherlane.backends.c.library import CFunction, library
    from featherlane.backends.c.names import check_start, identifier
    from featherlane.functions.sources import MEANINGS, about, source_program

    if not str(folder):
        raise ValueError("folder is empty: name one, '.' for this one")
    for what, count in (("states", states), ("code_limit", code_limit)):
        if count is not None and count < 1:
            raise ValueError(f"{what} is {count}: wanted 1 or more")
    if target != "c":
        raise ValueError(f"target is {target!r}: wanted 'c'")
    kind = _checked_dtype(dtype)
    if isinstance(functions, str):
        raise TypeError(f"functions is {functions!r}: wanted a list of names, or a mapping")
    named = dict(functions) if isinstance(functions, Mapping) else {f: f for f in functions}
    if not named:
        raise ValueError("functions is empty: name one, or leave it out for the seven")
    prefix = name or identifier(model.name if model is not None else "functions")
    check_start(prefix, "name")
    _check_folder(Path(folder), prefix)
    rng = np.random.default_rng(0)
    made = []
    for shown, what in named.items():
        c_name = shown if isinstance(functions, Mapping) else identifier(shown)
        if not isinstance(what, str | Graph):
            raise TypeError(
                f"function {shown!r} is a {type(what).__name__}: wanted a name or a Graph"
            )
        if isinstance(what, Graph):
            program, told = lower(Program(what), "c", kind), f"The graph {shown!r}."
            meanings = _graph_meanings(model, what)
        else:
            robot, variant = _variant(model, what)
            long, meanings = robot._is_long(variant), MEANINGS
            program, told = source_program(robot, variant, kind, code_limit, long), about(variant)
        inputs = {x: _inputs(model, x, shape, states, rng) for x, shape in program.inputs.items()}
        made.append(CFunction(c_name, program, told, meanings, inputs))
    texts = library(prefix, made, _preface(prefix, model, kind), kind, batch_struct)
    return _write(Path(folder), texts)


def _variant(model: Model | None, text: str) -> tuple[Model, Variant]:
    """The robot, and its variant that a text such as "jacobian:tool0" names, checked."""
    name, _, option = text.partition(":")
    if model is None:
        raise TypeError(f"model is missing: {text!r} is a function of a robot")
    if name not in TABLE:
        raise ValueError(f"function {name!r} is unknown: wanted one of {', '.join(TABLE)}")
    takes = TABLE[name].takes
    variant = Variant(name)
    if "frame" in takes:
        if not option:
            raise ValueError(f"{name} takes a frame: write {name}:FRAME")
        reference = "body" if "reference" in takes else None
        variant = Variant(name, frame=option, reference=reference)
    elif "wrt" in takes:
        variant = Variant(name, wrt=option or None)
    elif option:
        raise ValueError(f"{name} takes no frame, but {option!r} stands behind it")
    model._checked(variant)
    return model, variant


def _graph_meanings(model: Model | None, graph: Graph) -> Mapping[str, str]:
    """The meanings of a graph's inputs and outputs, where it is one of the robot's functions by
    their names: in a function of your own, they may mean anything.
    """
    from featherlane.functions.sources import MEANINGS

    own = model is not None and any(
        graph.inputs.keys() >= f.inputs.keys() and graph.outputs.keys() == f.outputs.keys()
        for f in TABLE.values()
    )
    return MEANINGS if own else {}


def _inputs(
    model: Model | None, name: str, shape: tuple[int, ...], states: int, rng: np.random.Generator
) -> np.ndarray:
    """Values of one input for the states of the check."""
    if model is not None and name == "q" and shape == (model.nq,):
        return model.random_configuration(states, seed=int(rng.integers(1 << 30)))
    noise = rng.standard_normal((states, *shape))
    if model is not None and name in PARAMETERS:
        own = model.parameters(name)[name]
        if own.shape == shape:
            return own * (1 + 0.1 * noise)
    return noise


def _preface(name: str, model: Model | None, dtype: np.dtype) -> list[str]:
    import featherlane
    from featherlane.functions.sources import UNITS

    lines = [f"{name}: functions in C99, {dtype}, by featherlane {featherlane.__version__}", ""]
    if model is None:
        return lines[:-1]
    types = dict.fromkeys(kind.name for kind in model.types)
    units = [
        f"  {kind}: q {q}; v, a {v}; tau {tau}"
        for kind, (q, v, tau) in UNITS.items()
        if kind in types
    ]
    order = "Entries of q and v (a and tau as v) stand in the table of joints. Units:"
    return [*lines, *card(model).split("\n"), "", order, *units]


def _check_folder(folder: Path, name: str) -> None:
    above = next(x for x in (folder, *folder.absolute().parents) if os.path.exists(x))
    if not os.path.isdir(above):
        raise ValueError(f"folder {str(folder)!r} cannot be made: {str(above)!r} is a file")
    own = {f"{name}.c", f"{name}_check.c"}
    found = folder.glob("*_check.c") if above == folder else ()
    others = [p.name for p in found if p.name not in own]
    if others:
        told = "each library wants a folder of its own, since its check is a program"
        raise ValueError(f"folder {str(folder)!r} holds {min(others)} of another library: {told}")


def _write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    paths = [folder / file for file in texts]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"folder {str(folder)!r} cannot be written to: {error}") from error
    return paths
