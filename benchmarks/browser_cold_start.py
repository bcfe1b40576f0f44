"""How long does a first visit of the page in the browser take, from the navigation to the first
torques on the screen, and how long with pinocchio-js and @mujoco/mujoco?

Headless Chromium opens pages of a local server that compresses files with gzip. Each visit has an
empty cache (a context of its own); the pages take turns, and the median of the visits counts. The
connection is that of the machine, and one of 10 Mbit/s with 40 ms for each request, emulated by
Chromium; neither counts lookups of names nor handshakes of TLS. A visit ends with the picture that
shows torques of iiwa14.

"The page" is docs/browser's, with eight robots. All others show the torques of one state and
nothing else, by a module of iiwa14 or by another package, which reads the robot's URDF.

    npm install pinocchio-js @mujoco/mujoco
    python browser_cold_start.py --modules node_modules

Needs playwright and Chromium; without --modules it visits this package's pages alone.
"""

from __future__ import annotations

import argparse
import gzip
import re
import runpy
import shutil
import statistics
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from options import write_json
from robots import machine_lines, say
from suite.tables import table

import featherlane as fl

ROOT = Path(__file__).parents[1]
ANGLE = 0.5  # rad, of all joints
SHOWN = """(() => {
  const look = () => {
    const place = document.querySelector('#torques, .joint output:nth-of-type(2)')
    if (!/\\d/.test(place?.textContent ?? '')) return requestAnimationFrame(look)
    // behind the picture that has them
    requestAnimationFrame(() => setTimeout(() => { window.shownAfter = performance.now() }))
  }
  requestAnimationFrame(look)
})()"""
HEAD = '<!doctype html><meta charset="utf-8"><title>Torques</title><p id="torques"></p>'
TOLD = "document.querySelector('#torques').textContent = [...tau].map(x => x.toFixed(2)).join(' ')"
MADE = """<script type="module">
import { load } from './robot.mjs'
const { tau } = (await load()).inverse_dynamics({ q: Q, v: ZERO, a: ZERO })
TOLD
</script>"""
PINOCCHIO = """<script src="pinocchio.js"></script><script type="module">
import { parseURDF, buildPinocchioModel } from './urdf-parser.mjs'
const read = fetch('robot.urdf').then(answer => answer.text())
const [pin, text] = await Promise.all([PinocchioModule(), read])
const model = buildPinocchioModel(pin, parseURDF(text)), data = new pin.Data(model)
const tau = pin.rnea(model, data, Q, ZERO, ZERO)
TOLD
</script>"""
MUJOCO = """<script type="module">
import load from './mujoco.js'
const read = fetch('robot.urdf').then(answer => answer.text())
const [made, text] = await Promise.all([load(), read])
const model = made.MjModel.from_xml_string(text), data = new made.MjData(model)
data.qpos.set(Q)
made.mj_inverse(model, data)
const tau = data.qfrc_inverse
TOLD
</script>"""


class Connection(NamedTuple):
    megabits: float  # a second
    latency: float  # ms


CONNECTIONS = {"the machine's": None, "10 Mbit/s, 40 ms": Connection(10, 40)}


# Pages


def page(script: str, joints: int) -> str:
    zero = f"new Float64Array({joints})"
    for name, text in {"TOLD": TOLD, "Q": f"{zero}.fill({ANGLE})", "ZERO": zero}.items():
        script = re.sub(rf"\b{name}\b", lambda _, text=text: text, script)
    return HEAD + script


def write_pages(folder: Path, modules: Path | None) -> dict[str, str]:
    """Writes the pages and what they load; their addresses by what they measure."""
    robot = fl.load("iiwa14")
    urdf = (ROOT / "featherlane" / "robot" / "bundled" / "iiwa14.urdf").read_text(encoding="utf-8")
    (folder / "robot.urdf").write_text(re.sub(r"<dynamics[^>]*>", "", urdf), encoding="utf-8")
    build = runpy.run_path(str(ROOT / "docs" / "browser" / "build.py"))
    (folder / "page.html").write_text(build["built"](), encoding="utf-8")
    fl.generate(robot, folder, ["inverse_dynamics"], target="wasm", name="robot")
    found = {"featherlane, the page": "page.html", "featherlane, torques alone": "made.html"}
    scripts = {"made.html": MADE}
    if modules is not None:
        for path in (
            "pinocchio-js/build/pinocchio.js",
            "pinocchio-js/build/pinocchio.wasm",
            "pinocchio-js/src/urdf-parser.mjs",
            "@mujoco/mujoco/mujoco.js",
            "@mujoco/mujoco/mujoco.wasm",
        ):
            shutil.copy(modules / path, folder)
        scripts |= {"pinocchio.html": PINOCCHIO, "mujoco.html": MUJOCO}
        found |= {"pinocchio-js": "pinocchio.html", "@mujoco/mujoco": "mujoco.html"}
    for name, script in scripts.items():
        (folder / name).write_text(page(script, robot.nv), encoding="utf-8")
    return found


class Compressed(SimpleHTTPRequestHandler):
    """Files of a folder, compressed once."""

    protocol_version = "HTTP/1.1"
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def __init__(self, *given: Any, kept: dict[Path, bytes], **options: Any) -> None:
        self.kept = kept
        super().__init__(*given, **options)

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path not in self.kept:
            if not path.is_file():
                self.send_error(404)
                return
            self.kept[path] = gzip.compress(path.read_bytes(), 9)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(self.kept[path])))
        self.end_headers()
        self.wfile.write(self.kept[path])

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder while a server is there."""
    handler = partial(Compressed, directory=str(folder), kept={})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# Visits


def visit(browser: Any, address: str, connection: Connection | None) -> tuple[float, float]:
    """Milliseconds to the first torques on the screen, and the bytes that came."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    session, came = context.new_cdp_session(tab), [0.0]

    def count(event: Mapping[str, Any]) -> None:
        came[0] += event["encodedDataLength"]

    session.on("Network.loadingFinished", count)
    session.send("Network.enable")
    if connection is not None:
        rate = connection.megabits * 1e6 / 8
        limits = {"latency": connection.latency, "downloadThroughput": rate}
        both = {**limits, "uploadThroughput": rate, "offline": False}
        session.send("Network.emulateNetworkConditions", both)
    tab.add_init_script(SHOWN)
    tab.goto(address, wait_until="commit")
    tab.wait_for_function("window.shownAfter", timeout=120_000, polling=20)
    found = float(tab.evaluate("window.shownAfter"))
    tab.wait_for_load_state("networkidle")
    context.close()
    return found, came[0]


def rows(pages: Mapping[str, str], server: str, rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each page and connection."""
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("google-chrome")
    for name, connection in CONNECTIONS.items():
        times: dict[str, list[float]] = {title: [] for title in pages}
        sent = dict.fromkeys(pages, 0.0)
        for turn in range(rounds):
            say(f"{name}, visit {turn + 1} of {rounds}")
            for title, path in pages.items():
                with sync_playwright() as playwright:  # its own process: nothing is compiled yet
                    browser = playwright.chromium.launch(executable_path=executable)
                    took, sent[title] = visit(browser, f"{server}/{path}", connection)
                    times[title].append(took)
                    browser.close()
        for title, found in times.items():
            yield {
                "page": title,
                "connection": name,
                "sent, MB": sent[title] / 1e6,
                "median, s": statistics.median(found) / 1e3,
                "fastest, s": min(found) / 1e3,
                "slowest, s": max(found) / 1e3,
            }


def sizes(folder: Path) -> Iterator[str]:
    """The sizes of all modules in WebAssembly."""
    for path in sorted(folder.glob("*.wasm")):
        content = path.read_bytes()
        small = len(gzip.compress(content, 9))
        yield f"{path.name}: {len(content) / 1e6:.3g} MB, compressed {small / 1e6:.2g} MB"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--modules", type=Path, metavar="FOLDER", help="node_modules")
    options.add_argument("--rounds", type=int, default=9, help="visits of each page (default: 9)")
    options.add_argument("--json", type=Path, metavar="FILE", help="the figures, there too")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pages = write_pages(folder, args.modules)
        with served(folder) as server:
            found = list(rows(pages, server, args.rounds))
        told = [*sizes(folder), *machine_lines()]
    columns = [*found[0]]
    print(table(columns, [[_text(row[c]) for c in columns] for row in found]))
    print("\n" + "\n".join(told))
    write_json(args.json, found)


def _text(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
