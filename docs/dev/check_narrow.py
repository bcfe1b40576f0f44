"""Checks the built site on a narrow screen, in headless Chromium: no page scrolls sideways, and
nothing in it is wider than the screen, but for what scrolls within itself.
`mkdocs build --strict && python docs/dev/check_narrow.py [FOLDER]`, with playwright.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SITE = Path(__file__).parents[2] / "build" / "site"
WIDTH, HEIGHT = 388, 844  # pixels of the screen
WIDER = r"""() => {
  const screen = document.documentElement.clientWidth, found = []
  const scrolls = element => {
    for (let x = element.parentElement; x && x !== document.body; x = x.parentElement) {
      if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(x).overflowX)) return true
    }
    return false
  }
  for (const element of document.querySelectorAll('.md-content *, footer *')) {
    const { left, right, width } = element.getBoundingClientRect()
    if (!width || (right <= screen + 1 && left >= -1) || scrolls(element)) continue
    const words = element.textContent.trim().replace(/\s+/g, ' ').slice(0, 40)
    const told = words || element.getAttribute('src') || ''
    found.push(`<${element.localName} ${element.className}> to ${right.toFixed(0)}: ${told}`)
  }
  const page = document.documentElement.scrollWidth
  if (page > screen) found.unshift(`the page has ${page} of ${screen} pixels`)
  return found
}"""
FIGURES = """() => [...document.querySelectorAll('.figure')]
  .filter(x => x.scrollWidth > x.clientWidth + 1)
  .map(x => `${x.querySelector('img').getAttribute('src')} scrolls: ${x.scrollWidth} pixels`)"""


def wrong(site: Path) -> Iterator[str]:
    """A line for each element that is too wide, and for each figure that scrolls."""
    from playwright.sync_api import sync_playwright

    executable: Any = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        screen = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for path in sorted(site.resolve().rglob("*.html")):
            screen.goto(path.as_uri(), wait_until="load")
            for line in (*screen.evaluate(WIDER), *screen.evaluate(FIGURES)):
                yield f"{path.relative_to(site.resolve())}: {line}"
        browser.close()


if __name__ == "__main__":
    found = [*wrong(Path(sys.argv[1]) if len(sys.argv) > 1 else SITE)]
    print(*found, f"{len(found)} problems at {WIDTH} pixels", sep="\n")
    sys.exit(bool(found))
