"""The page of a robot in headless Chromium: it opens without a server, moves, and takes files."""

import base64
import importlib.util
import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from ground_robots import quadruped

import featherlane as fl
from featherlane.robot.loaders.robots import text as robot_text

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MISSING = [
    what
    for what, there in (
        ("playwright", importlib.util.find_spec("playwright") is not None),
        ("chromium", CHROMIUM is not None),
    )
    if not there
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)}: not there")
BUILD = Path(__file__).parents[1] / "docs" / "browser" / "build.py"
TORQUES = "[...document.querySelectorAll('.joint output:nth-of-type(2)')].map(x => x.textContent)"
DRAWN = "document.querySelector('#figure').toDataURL()"
DROP = """([name, data]) => {
  const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0)), files = new DataTransfer()
  files.items.add(new File([bytes], name))
  document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true }))
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM)
        yield made
        made.close()


@pytest.fixture(scope="module")
def docs_page(tmp_path_factory):
    """The page of docs/browser.md, as the site is built with it."""
    path = tmp_path_factory.mktemp("docs") / "page.html"
    path.write_text(runpy.run_path(str(BUILD))["built"](), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser):
    """Opens a page; errors of its scripts and requests to elsewhere fail the test."""
    wrong, pages = [], []

    def at(path, width=1280, scheme="light", before=""):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.add_init_script(before)
        pages.append(page)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if elsewhere(request) else 0)
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        return page

    yield at
    for page in pages:
        page.close()
    assert wrong == []


def elsewhere(request):
    return not request.url.startswith(("file:", "data:", "blob:"))


def test_a_page_of_your_robot(opened, tmp_path):
    robot = fl.load("double_pendulum")
    page = opened(fl.generate(robot, tmp_path, ["mass_matrix"], target="wasm", name="arm")[-1])
    assert page.locator(".joint").count() == robot.nv
    page.wait_for_timeout(1000)  # until it rests on its sliders
    sliders = page.locator("input[type=range]")
    q = np.array([float(sliders.nth(n).input_value()) for n in range(2)])
    shown = [float(text.split()[0]) for text in page.evaluate(TORQUES)]
    assert np.allclose(shown, robot.gravity_torque(q), atol=0.02)
    sliders.first.fill("1.2")
    wanted = robot.gravity_torque([1.2, q[1]])
    for _ in range(40):  # a busy machine has fewer frames a second
        page.wait_for_timeout(500)
        shown = [float(text.split()[0]) for text in page.evaluate(TORQUES)]
        if np.allclose(shown, wanted, atol=0.02):
            break
    assert np.allclose(shown, wanted, atol=0.02)


def test_the_page_tells_its_size_and_how_long_it_took_to_open(opened, docs_page):
    page = opened(docs_page)
    told = re.fullmatch(
        r"This page has ([\d.]+) MB, and was ready ([\d.]+) s after it was asked for; iiwa14, "
        r"([\d.]+) MB of WebAssembly, was opened in (\d+) ms\.",
        page.inner_text("#load"),
    )
    size, ready, module, took = map(float, told.groups())
    assert size == pytest.approx(docs_page.stat().st_size / 1e6, abs=0.006)
    assert 0.01 < module < size
    assert took == pytest.approx(float(page.get_attribute("body", "data-ready")), abs=0.51)
    assert ready * 1000 + 10 > took


def test_it_falls_when_it_is_let_go_and_rates_are_told(opened, docs_page):
    page = opened(docs_page)
    resting = page.evaluate(DRAWN)
    page.get_by_label("let go").check()
    page.wait_for_timeout(500)
    falling = page.evaluate(DRAWN)
    page.wait_for_timeout(300)
    assert len({resting, falling, page.evaluate(DRAWN)}) == 3
    page.wait_for_selector("body[data-measured]", timeout=240_000)
    rates = page.locator("#rates td").all_inner_texts()
    assert len(rates) == 6
    assert all(rate.endswith(("million", "thousand")) for rate in rates)


def test_dropped_files(opened, docs_page, tmp_path):
    """A robot with a free root takes the place of the first one; what is no robot is told."""
    robot = fl.load("double_pendulum", root="free")
    made = fl.generate(robot, tmp_path, ["mass_matrix"], target="wasm", name="free", dtype="f4")
    page = opened(docs_page)
    page.evaluate(DROP, ["free.wasm", base64.b64encode(made[0].read_bytes()).decode()])
    page.wait_for_function("document.querySelector('#status').textContent.startsWith('free.wasm:')")
    assert page.locator(".joint").count() == 2
    page.get_by_label("let go").check()
    page.get_by_text("Push").click()
    page.wait_for_timeout(300)
    page.evaluate(DROP, ["text.wasm", base64.b64encode(b"no module").decode()])
    page.wait_for_function("document.querySelector('#status').className === 'wrong'")
    assert "text.wasm cannot be shown" in page.inner_text("#status")
    assert page.locator(".joint").count() == 2


def test_a_dropped_urdf_moves(opened, docs_page):
    page = opened(docs_page)
    file = base64.b64encode(robot_text("double_pendulum")).decode()
    page.evaluate(DROP, ["arm.urdf", file])
    page.wait_for_function("document.querySelector('#status').textContent.startsWith('arm.urdf:')")
    robot = fl.load("double_pendulum")
    page.wait_for_timeout(1500)  # until it rests on its sliders
    sliders = page.locator("input[type=range]")
    assert float(sliders.first.get_attribute("min")) == -float(sliders.first.get_attribute("max"))
    q = np.array([float(sliders.nth(n).input_value()) for n in range(2)])
    shown = [float(text.split()[0]) for text in page.evaluate(TORQUES)]
    assert np.allclose(shown, robot.gravity_torque(q), atol=0.05)
    page.get_by_label("let go").check()
    page.wait_for_timeout(500)
    assert not np.allclose([float(sliders.nth(n).input_value()) for n in range(2)], q, atol=1e-3)


def test_a_robot_is_found_among_files_that_are_dropped_together(opened, docs_page):
    page = opened(docs_page)
    files = {"link.stl": b"solid", "arm.urdf": robot_text("double_pendulum")}
    page.evaluate(
        """files => {
          const both = new DataTransfer()
          for (const [name, text] of files) both.items.add(new File([text], name))
          document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: both, bubbles: true }))
        }""",
        [[name, text.decode()] for name, text in files.items()],
    )
    page.wait_for_function("document.querySelector('#status').textContent.startsWith('arm.urdf:')")
    assert page.locator(".joint").count() == 2


def test_entries_of_the_mass_matrix_are_read_by_touching_them(opened, docs_page):
    page = opened(docs_page)
    box = page.locator("#matrix").bounding_box()
    page.locator("#matrix").click(position={"x": box["width"] - 3, "y": box["height"] - 3})
    page.wait_for_function("document.querySelector('#entry').textContent.startsWith('M[')")
    last = fl.load("iiwa14").joints[-1].name
    assert page.inner_text("#entry").startswith(f"M[{last}, {last}] = ")
    assert page.inner_text("#entry").endswith("kg m²")


def test_go2_stands_on_the_ground(opened, docs_page):
    page = opened(docs_page)
    page.select_option("#robots", "go2 on the ground")
    page.wait_for_timeout(3000)
    assert page.locator(".joint").count() == 12
    shown = [float(text.split()[0]) for text in page.evaluate(TORQUES)]
    assert 2 < shown[2] < 12  # the calf carries a quarter of the robot
    page.get_by_label("let go").check()
    page.wait_for_timeout(300)
    assert [float(text.split()[0]) for text in page.evaluate(TORQUES)] == [0] * 12


def test_a_robot_stands_on_its_generated_page(opened, docs_page, tmp_path):
    """A quadruped of one's own stands on the ground, after a push too, and as a dropped module."""
    files = fl.generate(quadruped(), tmp_path, ["mass_matrix"], target="wasm", name="mine")
    for path in (files[-1], docs_page):
        page = opened(path)
        if path == docs_page:
            page.evaluate(DROP, ["mine.wasm", base64.b64encode(files[0].read_bytes()).decode()])
            page.wait_for_function(
                "document.querySelector('#status').textContent.startsWith('mine')"
            )
        assert "Its step has the ground: 4 contact points" in page.inner_text("#status")
        page.wait_for_timeout(500)
        page.get_by_text("Push").click()
        page.wait_for_timeout(2000)
        shown = [float(text.split()[0]) for text in page.evaluate(TORQUES)]
        assert sum(np.abs(shown)) > 1  # legs that bear the robot


def test_plain_javascript_where_there_are_no_vectors(opened, docs_page):
    page = opened(docs_page, before="WebAssembly.validate = () => false")
    assert "plain JavaScript runs" in page.inner_text("#status")
    page.get_by_label("let go").check()
    drawn = page.evaluate(DRAWN)
    page.wait_for_timeout(300)
    assert page.evaluate(DRAWN) != drawn
    page.select_option("#robots", "atlas")
    page.wait_for_function("document.querySelector('#status').className === 'wrong'")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_nothing_is_wider_than_the_screen(width, scheme, opened, docs_page):
    page = opened(docs_page, width, scheme)
    page.select_option("#robots", "atlas")
    page.wait_for_function("document.querySelectorAll('.joint').length > 20")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = [int(x) for x in colour.strip("rgb()").split(",")]
    assert (min(bright) > 200) == (scheme == "light")


def test_a_robot_that_falls_without_a_ground_stays_in_the_picture(opened, tmp_path):
    """Faces fill the middle of the picture, where the grid alone would have thin lines."""
    robot = fl.load("go2", root="free")
    options = {"target": "wasm", "name": "go2", "ground": None}
    page = opened(fl.generate(robot, tmp_path, ["mass_matrix"], **options)[-1])
    assert "has no ground (generate was called with ground=None)" in page.inner_text("#status")
    page.get_by_label("let go").check()
    page.wait_for_timeout(3000)
    opaque = page.evaluate("""() => {
      const canvas = document.querySelector('#figure'), { width, height } = canvas, size = 200
      const [x, y] = [width / 2 - size / 2, height / 2 - size / 2].map(Math.round)
      const { data } = canvas.getContext('2d').getImageData(x, y, size, size)
      return data.filter((value, n) => n % 4 === 3 && value === 255).length
    }""")
    assert opaque > 1000


def test_a_dropped_file_is_in_the_menu(opened, docs_page):
    page = opened(docs_page)
    page.evaluate(DROP, ["arm.urdf", base64.b64encode(robot_text("double_pendulum")).decode()])
    page.wait_for_function(
        "document.querySelector('#robots').selectedOptions[0].text === 'arm.urdf'"
    )
    page.select_option("#robots", "atlas")
    page.wait_for_function("document.querySelectorAll('.joint').length === 30")
    page.select_option("#robots", "arm.urdf")
    page.wait_for_function("document.querySelectorAll('.joint').length === 2")
