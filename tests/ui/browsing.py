"""A real browser, and what a page must not do while a test looks at it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect

from tests.contract.builders import PATIENCE
from tests.servers.finding import browser_binary

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-features=SpareRendererForSitePerProcess", "--renderer-process-limit=1",
]  # fmt: skip
PAGES = ("now", "tasks", "flows", "queues", "schedules", "nodes", "failures", "timeline")
SHOWS = {
    "now": ".running tbody tr", "tasks": ".task-rows .task-row", "flows": ".flow",
    "queues": ".queue", "schedules": ".schedule",
    "nodes": ".worker", "failures": ".failure", "timeline": ".gantt .piece",
}  # fmt: skip
"""What each of them shows when it is there."""
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1440, "height": 900}


expect.set_options(timeout=PATIENCE * 1000)


def launch(playwright: Playwright) -> Browser:
    """Chromium of the system; without it: skipped, or failed in CI."""
    return playwright.chromium.launch(
        executable_path=browser_binary(), args=FLAGS, env={**os.environ, "TZ": "UTC"}
    )


class Watch:
    """Everything that a page did which none of ours may do."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self.wrong: list[str] = []
        self._forgiven: set[int] = set()
        self.offline = False
        """The server is away on purpose: then the browser complains, and rightly."""
        self.loaded = 0

    def page(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("request", lambda request: self._request(request.url))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if self.offline and ("ERR_" in message.text or "EventSource" in message.text):
            return
        if not any(f"status of {status}" in message.text for status in self._forgiven):
            self.wrong.append(f"{message.type}: {message.text} {message.location}")

    def forgive(self, status: int) -> None:
        """The browser complains of each answer that is no success, perhaps only when the page has
        shown it: this one was asked for.
        """
        self._forgiven.add(status)
        self.wrong = [each for each in self.wrong if f"status of {status}" not in each]

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self._host:
            self.wrong.append(f"asked a foreign host: {url}")


class Tabs:
    """Tabs of one browser, of one person who has logged in."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.watch = Watch(url)

    def blank(self) -> Page:
        """A new tab, not yet anywhere."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        self.watch.page(page)
        return page

    def open(self, place: str = "now", page: Page | None = None) -> Page:
        """That page of ours, live."""
        page = page or self.blank()
        page.goto(f"{self.url}/#/{place}")
        expect(page.locator("#link-state")).to_have_text("live")
        return page


@contextmanager
def logged_in(browser: Browser, url: str, token: str, **options: Any) -> Iterator[Tabs]:
    """Log in, and see at the end that nothing was wrong."""
    context = browser.new_context(
        **{"viewport": DESK, "color_scheme": "dark", "reduced_motion": "reduce", **options}
    )
    tabs = Tabs(context, url)
    answer = context.request.post(f"{url}/v1/session", data={"token": token})
    assert answer.ok, answer.text()
    page = context.new_page()
    page.goto(f"{url}/login")
    page.evaluate(
        "async (secret) => (await import('./ui/session.js')).keep(secret)", answer.json()["page"]
    )
    page.close()
    try:
        yield tabs
    finally:
        context.close()
    assert not tabs.watch.wrong, tabs.watch.wrong


def too_wide(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return max(0, wide)


def picture(page: Page, name: str) -> None:
    """Keep a screenshot for people, if STAYER_SCREENSHOTS names a folder."""
    if folder := os.environ.get("STAYER_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder, f"{name}.png"))
