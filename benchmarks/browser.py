"""How fast are functions in WebAssembly and JavaScript, in Node and Chromium, beside machine code?

One thread, batches of 32 states (machine code: 256), arrays in place. A figure is the best of many
windows of a few milliseconds, which other programs on the machine disturb least; the machine code
takes the same windows, with vectors as wide as WebAssembly's, 128 bits, and with the widest.
Chromium needs playwright; what is not there is left out. "module" and "script" are bytes of a
library of that function alone.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from options import parser, write_json
from robots import FUNCTIONS, States, as_tuple, chosen, machine_lines, say
from suite.tables import table

import featherlane as fl
from featherlane.api.browser import facts
from featherlane.api.model import Model
from featherlane.backends.wasm.files import WasmFunction, library
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower

STATES, SECONDS, WINDOW = 256, 6.0, 5e-3  # engines take seconds to compile large functions
MEASURE = """
async function measured(made, q, seconds) {
  const { inputs, states, run } = made.batch('f', 32)
  for (const x of Object.values(inputs)) x.forEach((_, n) => { x[n] = Math.sin(n) })
  inputs.q.set(q.slice(0, inputs.q.length))
  let best = Infinity
  const began = performance.now()
  while (performance.now() - began < 1e3 * seconds) {
    const start = performance.now()
    let n = 0, now = start
    while (now - start < 5) { run(); n += states; now = performance.now() }
    best = Math.min(best, 1e6 * (now - start) / n)
    await new Promise(resume => setTimeout(resume))
  }
  return best
}
"""
IN_NODE = """
import { readFileSync } from 'node:fs'
import { load } from './made.mjs'
const q = JSON.parse(readFileSync('q.json'))
for (const [fallback, seconds] of [[false, %g], [true, %g]]) {
  console.log(await measured(await load({ fallback }), q, seconds))
}
"""
IN_CHROMIUM = """async ([loader, base64, q, seconds]) => {
  const url = URL.createObjectURL(new Blob([loader], { type: 'text/javascript' }))
  const { open, measured } = await import(url)
  const made = await open(Uint8Array.from(atob(base64), c => c.charCodeAt(0)))
  return await measured(made, q, seconds)
}"""


def generated(model: Model, name: str, dtype: np.dtype, folder: Path) -> dict[str, Any]:
    """Writes a library of one function; the bytes of its module and script."""
    program = lower(dynamics_program(model, Variant(name)), "wasm", dtype)
    made = library("made", [WasmFunction("f", program, "", {})], facts(None, "made"), dtype)
    for file, content in made.items():
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return {"module": len(made["made.wasm"]), "script": len(made["made_fallback.mjs"])}


def in_node(folder: Path, q: list[float]) -> dict[str, float]:
    if (node := shutil.which("node")) is None:
        return {}
    (folder / "q.json").write_text(json.dumps(q))
    (folder / "run.mjs").write_text(MEASURE + IN_NODE % (SECONDS, 2 * SECONDS))
    done = subprocess.run([node, "run.mjs"], cwd=folder, capture_output=True, text=True, check=True)
    module, script = map(float, done.stdout.split())
    return {"Node": module, "Node, JavaScript": script}


def in_chromium(folder: Path, q: list[float]) -> dict[str, float]:
    there = shutil.which("chromium") or shutil.which("google-chrome")
    if there is None or importlib.util.find_spec("playwright") is None:
        return {}
    from playwright.sync_api import sync_playwright

    loader = (folder / "made.mjs").read_text().partition("/** The functions: of")[0]
    exported = re.sub(r"^async function measured", "export \\g<0>", MEASURE, flags=re.M)
    module = base64.b64encode((folder / "made.wasm").read_bytes()).decode()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=there)
        page = browser.new_page()
        found = page.evaluate(IN_CHROMIUM, [loader + exported, module, q, SECONDS])
        browser.close()
    return {"Chromium": found}


def native(model: Model, name: str, dtype: np.dtype, width: int | None) -> float:
    """Nanoseconds for a state by the package's own kernel."""
    function = model.function(name, width=width)
    inputs = States.random(model, STATES).inputs(model, name, dtype.name)
    out, best = as_tuple(function(*inputs)), np.inf
    began = time.perf_counter()
    while time.perf_counter() - began < SECONDS / 4:
        start, n = time.perf_counter(), 0
        while (now := time.perf_counter()) - start < WINDOW:
            function(*inputs, threads=1, out=out if len(out) > 1 else out[0])
            n += STATES
        best = min(best, (now - start) / n)
    return 1e9 * best


def rows(robots: list[str] | None, names: list[str], dtypes: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each robot, function and dtype."""
    for robot in chosen(robots):
        model = fl.load(robot.urdf, root=None if robot.root == "fixed" else robot.root)
        q = model.random_configuration(STATES, seed=0).ravel().tolist()
        for name in names:
            for dtype in map(np.dtype, dtypes):
                say(f"{robot.title}, {name}, {dtype}")
                row: dict[str, Any] = {"robot": robot.title, "function": name, "dtype": dtype.name}
                with tempfile.TemporaryDirectory() as made:
                    row |= generated(model, name, dtype, Path(made))
                    row |= in_node(Path(made), q) | in_chromium(Path(made), q)
                row["machine code, 128 bits"] = native(model, name, dtype, 16 // dtype.itemsize)
                row["machine code, widest"] = native(model, name, dtype, None)
                yield row


def main() -> None:
    options = parser(
        __doc__, robots=[], functions=FUNCTIONS, dtype=("float64", "float32"), json=None
    )
    args = options.parse_args()
    found = list(rows(args.robots, args.functions or [*FUNCTIONS], args.dtype))
    columns = [*found[0]]
    print(table(columns, [[_text(row[c]) for c in columns] for row in found]))
    print("\nNanoseconds for a state.\n" + "\n".join(machine_lines()))
    write_json(args.json, found)


def _text(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
