"""One browser for all tests; a live system, or a scene with a past, for each that asks."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.http.serving import Process, Site, make_access
from tests.ui.browsing import Tabs, launch, logged_in
from tests.ui.scene import Scene
from tests.ui.system import System, live_system


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A store, a server and a worker, all real."""
    with live_system(tmp_path) as system:
        yield system


@pytest.fixture
def tabs(browser: Browser, system: System) -> Iterator[Tabs]:
    """Of somebody who may do everything."""
    with logged_in(browser, system.url, system.site.tokens["operate"]) as tabs:
        yield tabs


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A day of a fleet; only looked at."""
    folder = tmp_path_factory.mktemp("scene")
    shutil.copy(_played_once(tmp_path_factory.getbasetemp().parent), folder / "stayer.db")
    access, tokens = make_access(folder)
    server = Process(folder, f"sqlite:///{folder}/stayer.db")
    yield Site(server.url, access, tokens)
    server.stop()


def _played_once(folder: Path) -> Path:
    """The day's database, which the first of the test processes makes: it takes five seconds."""
    day = folder / "day"
    with (folder / "day.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not day.exists():
            unfinished = folder / "unfinished-day"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            scene = Scene(unfinished)
            scene.play()
            scene.store.close()
            unfinished.rename(day)
    return day / "stayer.db"


@pytest.fixture
def looking(browser: Browser, scene: Site) -> Iterator[Tabs]:
    """At the scene."""
    with logged_in(browser, scene.url, scene.tokens["operate"]) as tabs:
        yield tabs
