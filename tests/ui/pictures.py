"""`make pictures`: take the pictures of the web page that README shows, light and dark, from the
scene of a day.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import expect, sync_playwright

from tests.http.serving import Process, make_access
from tests.ui.browsing import SHOWS, launch, logged_in
from tests.ui.scene import Scene

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
_SIZE = {"width": 1180, "height": 760}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> None:
    """Play the scene, and take a picture of *Now* in each colour scheme."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        scene = Scene(folder)
        scene.play()
        scene.store.close()
        _, tokens = make_access(folder)
        server = Process(folder, scene.url)
        browser = launch(playwright)
        for scheme in SCHEMES:
            options = {"viewport": _SIZE, "color_scheme": scheme}
            with logged_in(browser, server.url, tokens["operate"], **options) as tabs:
                page = tabs.open("now")
                expect(page.locator(SHOWS["now"]).first).to_be_visible()
                page.screenshot(path=PICTURES / f"now-{scheme}.png")
        browser.close()
        server.stop()


if __name__ == "__main__":
    main()
