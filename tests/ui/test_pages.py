"""Every page with a past: on a desk and on a phone, dark and light, with keys alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.http.serving import Process, Site, make_access
from tests.ui.browsing import DESK, PAGES, PHONE, SHOWS, Tabs, logged_in, picture, too_wide
from tests.ui.scene import Scene

_PAGE, _DATA = 70_000, 45_000
"""How many bytes the page itself may have, and what it shows at first of the scene."""


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(DESK, "dark", id="desk-dark"),
        pytest.param(PHONE, "light", id="phone-light"),
        pytest.param(DESK, "light", id="desk-light", marks=pytest.mark.long),
        pytest.param(PHONE, "dark", id="phone-dark", marks=pytest.mark.long),
    ],
)
def test_every_page_fits(browser: Browser, scene: Site, size: dict[str, int], scheme: str) -> None:
    with logged_in(
        browser, scene.url, scene.tokens["operate"], viewport=size, color_scheme=scheme
    ) as tabs:
        page = tabs.open("now")
        for place in PAGES:
            tabs.open(place, page)
            expect(page.locator(SHOWS[place]).first).to_be_visible()
            assert too_wide(page) == 0, place
            picture(page, f"{place}-{scheme}-{size['width']}")
        tabs.open("tasks?state=failed", page)
        page.locator(".task-rows a").first.click()
        expect(page.locator(".traceback")).to_be_visible()
        expect(page.locator(".lanes .piece").first).to_be_visible()
        assert too_wide(page) == 0
        picture(page, f"task-{scheme}-{size['width']}")


def test_what_is_at_risk_comes_first(looking: Tabs) -> None:
    page = looking.open("now")
    rows = page.locator(".running tbody tr")
    expect(rows.first).to_contain_text("usual")
    expect(rows.first).to_contain_text("silent")
    levels = rows.evaluate_all("rows => rows.map(row => Number(row.dataset.level))")
    assert levels == sorted(levels, reverse=True)
    expect(page.locator(".alert").first).to_contain_text("old-box")
    expect(page.locator(".tile", has_text="Unsaved work")).to_contain_text(re.compile(r"\dh \d\dm"))
    expect(page.locator(".chart .bars rect").first).to_be_attached()


def test_colours_follow_the_system_until_somebody_chooses(looking: Tabs) -> None:
    page = looking.open("now")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(background)
    assert light != dark
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(background) == dark
    page.reload()
    expect(page.get_by_role("button", name="Use light colours")).to_be_visible()
    assert page.evaluate(background) == dark


def test_keys_alone_lead_everywhere(looking: Tabs) -> None:
    page = looking.open("now")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    for key, place in zip("toqswfln", (*PAGES[1:], "now"), strict=True):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"#/{place}"))
        expect(page.locator(SHOWS[place]).first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".running tbody tr").nth(1).get_by_role("link")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/task/"))
    search = page.get_by_label("Search the log")
    expect(search).to_be_visible()
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/now"))


def test_everything_has_a_name_and_a_place(looking: Tabs) -> None:
    page = looking.open("now")
    for place in PAGES:
        looking.open(place, page)
        expect(page.locator(SHOWS[place]).first).to_be_visible()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, a[href], input, select")]
              .filter(each => !(each.getAttribute("aria-label") || each.textContent.trim()
                || each.labels?.length || each.title || each.querySelector("title")))
              .map(each => each.outerHTML)"""
        )
        assert nameless == [], place
        assert page.locator("h1").count() == 1, place
    for role in ("banner", "navigation", "main"):
        expect(page.get_by_role(role)).to_have_count(1)


def test_what_the_browser_fetches_is_small(browser: Browser, scene: Site) -> None:
    """Each address once: what is asked for again and again is another matter."""
    addresses: dict[str, str] = {}
    sizes: dict[str, int] = {}

    def finished(event: dict[str, Any]) -> None:
        sizes.setdefault(addresses[event["requestId"]], event["encodedDataLength"])

    with logged_in(browser, scene.url, scene.tokens["read"]) as tabs:
        page = tabs.blank()
        session = tabs.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on(
            "Network.requestWillBeSent",
            lambda event: addresses.update({event["requestId"]: event["request"]["url"]}),
        )
        session.on("Network.loadingFinished", finished)
        tabs.open("now", page)
        expect(page.locator(".chart .bars rect").first).to_be_attached()
    data = sum(size for address, size in sizes.items() if "/v1/" in address)
    by_size = sorted(sizes.items(), key=lambda each: -each[1])
    assert 0 < sum(sizes.values()) - data < _PAGE, by_size
    assert 0 < data < _DATA, by_size


def test_a_failure_is_retried_with_all_that_are_alike(browser: Browser, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.play()
    _, tokens = make_access(tmp_path)
    server = Process(tmp_path, scene.url)
    try:
        with logged_in(browser, server.url, tokens["operate"]) as tabs:
            page = tabs.open("failures")
            group = page.locator(".failure", has_text="TimeoutError")
            before = int(group.locator(".figure").inner_text())
            assert before > 1
            group.get_by_role("button", name="Retry all").click()
            page.get_by_role("button", name="Retry them all").click()
            expect(page.locator("#toasts")).to_contain_text(f"{before} tasks back")
            expect(group).to_have_count(0)

            tabs.open("nodes", page)
            stale = page.locator(".worker", has_text="old-box")
            stale.get_by_role("button", name="Give up").click()
            page.get_by_role("button", name="Give it up").click()
            expect(stale.locator(".badge")).to_have_text("DOWN")
            expect(stale).to_contain_text("declared lost by an operator")
    finally:
        server.stop()
        scene.store.close()


def test_it_works_below_a_prefix(browser: Browser, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.store.submit([scene.new("fine-tune")])
    _, tokens = make_access(tmp_path)
    server = Process(tmp_path, scene.url, "--root-path", "/deep/stayer")
    try:
        with logged_in(browser, server.url, tokens["operate"]) as tabs:
            assert tabs.url.endswith("/deep/stayer")
            page = tabs.open("tasks")
            expect(page.locator(".task-rows .task-row")).to_have_count(1)
    finally:
        server.stop()
        scene.store.close()


def test_what_the_store_has_counted_is_drawn_though_the_events_are_gone(
    browser: Browser, tmp_path: Path
) -> None:
    # Given a day of which only the figures are left
    scene = Scene(tmp_path)
    scene.play()
    ended = sum(
        point.complete + point.failed
        for point in scene.store.figures(scene.end - 6 * 3600, scene.end, 60, None)
    )
    assert ended > 50
    for state in ("complete", "failed"):
        while scene.store.purge(None, (state,), scene.end, 500):
            pass
    _, tokens = make_access(tmp_path)
    server = Process(tmp_path, scene.url)
    try:
        with logged_in(browser, server.url, tokens["read"]) as tabs:
            # Then the charts show it
            page = tabs.open("now")
            shown = page.locator(".legend .key", has_text="complete").locator("b")
            expect(shown).to_have_text(re.compile(r"^\d\d+"))
            assert int(shown.inner_text()) > ended / 2
            tabs.open("queues", page)
            expect(page.locator(".queue-past .line").first).to_be_attached()
    finally:
        server.stop()
        scene.store.close()


def test_the_timeline_shows_every_attempt(looking: Tabs) -> None:
    page = looking.open("timeline?hours=12")
    expect(page.locator('.gantt .piece[data-look="interrupted"]').first).to_be_attached()
    looking.open("timeline?hours=0.02", page)
    expect(page.locator('.gantt .piece[data-look="running"]').first).to_be_attached()
