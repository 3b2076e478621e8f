"""The page while its store does not answer: nothing on it looks as if it were so now."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.faults.fleet import Fleet
from tests.http.serving import Process, Site, make_access
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving
from tests.ui.browsing import PAGES, PHONE, Tabs, logged_in, picture, too_wide
from tests.ui.system import System

SILENT = "store away"
EMPTY = re.compile("0 tasks|No queues|No workers|No flows|No schedules|Nothing |No tasks")
CLOCK_STANDS = """async () => {
  const { now } = await import(new URL("ui/format.js", document.baseURI));
  const begun = [now(), Date.now()];
  while (Date.now() === begun[1]) await new Promise((done) => setTimeout(done));
  return now() === begun[0];
}"""


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """One that has everything when it comes back."""
    with serving(redis_binary(), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def system(tmp_path: Path, redis: RedisServer) -> Iterator[System]:
    access, tokens = make_access(tmp_path)
    fleet = Fleet(tmp_path, redis.url())
    server = Process(tmp_path, fleet.url)
    system = System(fleet, server, Site(server.url, access, tokens), tmp_path)
    fleet.worker("one", slots=4, lease=60.0)
    yield system
    redis.stop(signal.SIGKILL)
    redis.start()
    system.close()


@pytest.fixture
def tabs(browser: Browser, system: System) -> Iterator[Tabs]:
    with logged_in(browser, system.url, system.site.tokens["operate"]) as tabs:
        yield tabs
        tabs.watch.forgive(503)


def is_silent(page: Page) -> None:
    expect(page.locator("#link-state")).to_have_text(SILENT)
    expect(page.locator("#link-state")).to_have_attribute("data-mood", "bad")
    expect(page.locator("#trouble")).to_contain_text("The store does not answer")
    expect(page.locator("#trouble")).to_contain_text("Running tasks are not lost")


def is_live(page: Page) -> None:
    expect(page.locator("#link-state")).to_have_text("live")
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("html")).not_to_have_attribute("data-figures", re.compile(""))


def test_old_figures_are_said_to_be_old(tabs: Tabs, system: System, redis: RedisServer) -> None:
    id = system.stepped("film")
    system.until(id, "started")
    page = tabs.open("now")
    row = page.locator(".running tbody tr")
    expect(row).to_be_visible()
    assert not page.evaluate(CLOCK_STANDS)

    redis.stop(signal.SIGKILL)
    is_silent(page)
    trouble = page.locator("#trouble")
    expect(trouble).to_contain_text(re.compile(r"since \d\d:\d\d: the store can't be reached"))
    expect(trouble).to_contain_text(re.compile(r"What is below is as of \d\d:\d\d:\d\d\."))
    expect(page.locator("html")).to_have_attribute("data-figures", "old")
    assert page.locator("main").evaluate("main => getComputedStyle(main).filter") == "grayscale(1)"
    assert page.evaluate(CLOCK_STANDS)
    expect(row).to_be_visible()
    picture(page, "away-now-dark")
    page.emulate_media(color_scheme="light")
    picture(page, "away-now-light")
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert too_wide(page) == 0
    picture(page, "away-now-phone")

    redis.start()
    is_live(page)
    expect(page.locator("#toasts")).to_contain_text("The store is back: this page is live again.")
    assert not page.evaluate(CLOCK_STANDS)
    system.finish(id)
    expect(page.locator(".feed")).to_contain_text("complete")


def test_no_view_shows_nothing_instead_of_an_error(
    tabs: Tabs, system: System, redis: RedisServer
) -> None:
    system.submit(id="later", queue="nobody-listens", command=["true"])
    page = tabs.open("now")
    redis.stop(signal.SIGKILL)
    is_silent(page)
    for place in (*PAGES, "task/later", "flow/none"):
        page.goto(f"{tabs.url}/#/{place}")
        page.reload()
        is_silent(page)
        expect(page.locator("#trouble")).to_contain_text("Nothing can be shown until then.")
        expect(page.locator("main")).to_be_hidden()
        picture(page, f"away-reloaded-{place.replace('/', '-')}")
    redis.start()
    is_live(page)
    expect(page.get_by_text("There is no such flow")).to_be_visible()
    page.goto(f"{tabs.url}/#/queues")
    expect(page.get_by_role("region", name="Queue nobody-listens")).to_be_visible()
    tabs.watch.forgive(404)


def test_a_list_that_cannot_be_asked_for_is_not_empty(
    tabs: Tabs, system: System, redis: RedisServer
) -> None:
    system.submit(id="later", queue="nobody-listens", command=["true"])
    page = tabs.open("tasks")
    rows = page.locator(".task-rows .task-row")
    expect(rows).to_have_count(1)
    redis.stop(signal.SIGKILL)
    is_silent(page)
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="failed").click()
    expect(rows).to_have_count(0)
    assert not EMPTY.search(page.locator("main").inner_text())
    picture(page, "away-tasks")
    redis.start()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    is_live(page)
    page.get_by_role("button", name="failed").click()
    expect(rows).to_have_count(1)


def test_a_store_that_hangs_is_told_of_too(tabs: Tabs, system: System, redis: RedisServer) -> None:
    page = tabs.open("nodes")
    expect(page.locator(".worker")).to_be_visible()
    system.fleet.signal(redis.pid, signal.SIGSTOP)
    is_silent(page)
    system.fleet.signal(redis.pid, signal.SIGCONT)
    is_live(page)
    expect(page.locator(".worker")).to_be_visible()


def test_a_server_that_never_saw_its_store_says_so(
    tabs: Tabs, system: System, redis: RedisServer
) -> None:
    redis.stop(signal.SIGKILL)
    page = tabs.blank()
    page.goto(f"{tabs.url}/#/queues")
    is_silent(page)
    expect(page.locator("#trouble")).not_to_contain_text("since")
    redis.start()
    is_live(page)
    expect(page.get_by_role("region", name="Queue default")).to_be_visible()
