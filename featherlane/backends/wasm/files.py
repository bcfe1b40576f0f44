"""The files of a library: a module with a description of itself, the script that replaces it in
browsers without vectors, their loader, their types for TypeScript, and a page.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.wasm import assembly
from featherlane.backends.wasm.encode import ModuleWriter
from featherlane.backends.wasm.javascript import TYPES, script
from featherlane.backends.wasm.lanes import LANES
from featherlane.program.program import Program

FIRST = 16  # the address of the workspace: none is 0
RESERVED = ("about", "batch", "memory")  # names of the library that are no functions of a robot
SECTION = "featherlane"
VIEWER = ("drawing.mjs", "sliders.mjs", "matrix.mjs", "viewer.mjs")
READER = ("xml.mjs", "dynamics.mjs", "urdf.mjs", "mjcf.mjs")  # of files dropped on the page
ON_PAGE = ("inverse_dynamics", "mass_matrix", "step", "figure")  # the functions that a page calls


class WasmFunction(NamedTuple):
    """The specification of a function.

    program: the result of `lower(program, "wasm", dtype)`; about: a description; meanings: of its
    inputs and outputs, by name.
    """

    name: str
    program: Program
    about: str
    meanings: Mapping[str, str]


def library(
    name: str, functions: Sequence[WasmFunction], facts: Mapping[str, Any], dtype: np.dtype
) -> dict[str, str | bytes]:
    """The content of each file. facts: further entries of the module's description.

    There is a page if the library has the functions that it calls. Raises ValueError for a function
    without outputs and for a reserved or repeated name.
    """
    for each in functions:
        _check(each, functions)
    module = _module(functions, facts, dtype)
    loader = page_text("loader.mjs")
    script_with_loader = f"""\
{loader}
/** The functions: of the module, or of the script where an engine has no vectors.
 *  source: where the module is, or its bytes; fallback: whether to take the script. */
export async function load({{ source, fallback = !supported() }} = {{}}) {{
  if (fallback) return open(await import('./{name}_fallback.mjs'))
  source ??= new URL('./{name}.wasm', import.meta.url)
  if (source instanceof URL && source.protocol === 'file:') {{
    const files = await import('node:fs/promises')
    return open(await files.readFile(source))
  }}
  const found = source instanceof URL || typeof source === 'string' ? await fetch(source) : null
  return open(found ? await found.arrayBuffer() : source)
}}
"""
    files: dict[str, str | bytes] = {
        f"{name}.wasm": module,
        f"{name}.mjs": script_with_loader,
        f"{name}.d.mts": _types(functions, dtype),
        f"{name}_fallback.mjs": _script(functions, facts, dtype),
    }
    if all(any(f.name == x for f in functions) for x in ON_PAGE):
        files[f"{name}.html"] = page([robot_on_page(functions, facts, dtype)])
    return files


class RobotOnPage(NamedTuple):
    """A robot on a page. script: replaces the module in browsers without vectors; may be empty.

    stance: the configuration in which a robot stands, whose step has the ground; empty without.
    """

    name: str
    module: bytes
    script: str
    stance: Sequence[float] = ()


def robot_on_page(
    functions: Sequence[WasmFunction], facts: Mapping[str, Any], dtype: np.dtype
) -> RobotOnPage:
    """A robot on a page, with the functions that a page calls."""
    called = [f for f in functions if f.name in ON_PAGE]
    return RobotOnPage(facts["name"], _module(called, facts, dtype), _script(called, facts, dtype))


def page(robots: Sequence[RobotOnPage], links: Mapping[str, str] = MappingProxyType({})) -> str:
    """A self-contained page that shows robots. links: addresses of documents by their titles."""
    content = [
        robot._asdict() | {"module": base64.b64encode(robot.module).decode()} for robot in robots
    ]
    data = json.dumps(content).replace("</", "<\\/")  # no end of the script
    parts = {"LOADER": ["loader.mjs"], "READER": READER, "VIEWER": VIEWER, "STYLE": ["page.css"]}
    texts = {key: "\n".join(map(page_text, names)) for key, names in parts.items()}
    anchors = [f'<a href="{escape(to)}">{escape(title)}</a>' for title, to in links.items()]
    texts |= {"ROBOTS": data, "LINKS": "\n    ".join(anchors)}
    frame = page_text("page.html")
    size = len(frame.encode()) + sum(len(text.encode()) for text in texts.values())
    return Template(frame).substitute(texts, SIZE=size)


def page_text(name: str) -> str:
    """A part of the page."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _check(each: WasmFunction, functions: Sequence[WasmFunction]) -> None:
    if not each.program.outputs:
        raise ValueError(f"function {each.name!r} has no outputs: there is nothing to compute")
    if each.name in RESERVED:
        raise ValueError(f"function {each.name!r} has a name of the library: give it another one")
    if sum(f.name == each.name for f in functions) > 1:
        raise ValueError(f"two functions are called {each.name!r}: give one another name")


def _about(
    functions: Sequence[WasmFunction], facts: Mapping[str, Any], dtype: np.dtype
) -> dict[str, Any]:
    """The description that the module and the script export."""
    return {**facts, "dtype": dtype.name, "functions": {f.name: _described(f) for f in functions}}


def _described(f: WasmFunction) -> dict[str, Any]:
    inputs = {name: list(shape) for name, shape in f.program.inputs.items()}
    outputs = {name: list(out.shape) for name, out in f.program.outputs.items()}
    meanings = {name: f.meanings[name] for name in (*inputs, *outputs) if name in f.meanings}
    return {"about": f.about, "inputs": inputs, "outputs": outputs, "meanings": meanings}


def _module(functions: Sequence[WasmFunction], facts: Mapping[str, Any], dtype: np.dtype) -> bytes:
    """The bytes of the module. Functions share one workspace, as no two run at the same time."""
    module, lanes = ModuleWriter(), LANES[dtype]
    end = max(assembly.write(module, f.name, f.program, lanes, FIRST) for f in functions)
    about = _about(functions, {**facts, "end": end}, dtype)
    return module.encoded(end, {SECTION: json.dumps(about).encode()})


def _script(functions: Sequence[WasmFunction], facts: Mapping[str, Any], dtype: np.dtype) -> str:
    kind, parts, rows = TYPES[dtype], list[str](), list[str]()
    for f in functions:
        code = script(f.program, kind, len(parts))
        parts += code.definitions
        rows.append(f"  {json.dumps(f.name)}: {{run: {code.name}, places: {code.size}}},\n")
    about = json.dumps(_about(functions, facts, dtype))
    table = f"export const functions = {{\n{''.join(rows)}}}\n"
    return "".join([f"export const about = {about}\n", kind.helpers(), *parts, table])


def _types(functions: Sequence[WasmFunction], dtype: np.dtype) -> str:
    """The declarations for TypeScript."""
    array = TYPES[dtype].array
    lines = [
        "/** One state, or many: row by row. */",
        "export type Numbers = ArrayLike<number> | number",
        "",
        "export interface Batch {",
        "  states: number",
        f"  inputs: {{ [name: string]: {array} }}",
        f"  outputs: {{ [name: string]: {array} }}",
        "  /** Computes the outputs of the first states. */",
        f"  run(states?: number): {{ [name: string]: {array} }}",
        "}",
        "",
        "export interface Library {",
        "  about: any",
        "  /** Arrays in the memory of the module: nothing is copied. */",
        "  batch(name: string, states?: number): Batch",
    ]
    for f in functions:
        shapes = {**f.program.inputs, **{k: out.shape for k, out in f.program.outputs.items()}}
        lines_of_comment = [f.about] + [
            f"{name}{list(shape)}: {f.meanings.get(name, '')}".rstrip(": ")
            for name, shape in shapes.items()
        ]
        ins = "; ".join(f"{json.dumps(name)}: Numbers" for name in f.program.inputs)
        outs = "; ".join(f"{json.dumps(name)}: {array}" for name in f.program.outputs)
        comment = "\n   *  ".join(line.replace("*/", "* /") for line in lines_of_comment)
        lines += [
            f"  /** {comment} */",
            f"  {json.dumps(f.name)}(given: {{ {ins} }}): {{ {outs} }}",
        ]
    lines += [
        "}",
        "",
        "export function supported(): boolean",
        "export function load(options?: {",
        "  source?: URL | string | BufferSource | WebAssembly.Module",
        "  fallback?: boolean",
        "}): Promise<Library>",
        "export function open(source: BufferSource | WebAssembly.Module): Promise<Library>",
    ]
    return "\n".join(lines) + "\n"
