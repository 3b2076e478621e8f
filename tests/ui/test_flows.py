"""Flows on the page, while their tasks run."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.ui.browsing import Tabs, picture, too_wide
from tests.ui.system import System

FAILS_ONCE = "test $STAYER_ATTEMPT -gt 1 || test {} != b"
FLOW = {
    "name": "film night",
    "id": "film-night",
    "defaults": {"queue": "default"},
    "tasks": {
        "fetch": {"command": ["true"]},
        "encode": {
            "map": ["a", "b", "c"],
            "at_once": 2,
            "command": ["sh", "-c", FAILS_ONCE],
            "after": ["fetch"],
        },
        "subtitles": {"command": ["true"], "after": ["fetch"]},
        "check": {"map": "encode", "command": ["true"]},
        "publish": {"command": ["true"], "after": ["check", "subtitles"]},
    },
}


def confirm(page: Page, label: str) -> None:
    page.locator("dialog[open]").get_by_role("button", name=label, exact=True).click()
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_a_flow_is_drawn_and_goes_on_from_where_it_failed(tabs: Tabs, system: System) -> None:
    page = tabs.open("flows")
    expect(page.get_by_text("No flows yet")).to_be_visible()

    # When a flow is submitted and one of its tasks fails
    assert system.site("POST", "/v1/flows", FLOW, role="submit").status == 201
    card = page.locator(".flow", has_text="film night")
    expect(card.locator(".badge")).to_have_text("failed")
    expect(card).to_contain_text("1 failed, 2 cancelled")
    picture(page, "flows")

    # Then the graph says so
    card.get_by_role("link").click()
    parts = page.locator(".flow-part")
    expect(parts).to_have_count(5)
    encode = page.locator(".flow-part", has_text="encode")
    expect(encode).to_contain_text("2 / 3 · 1 failed")
    expect(encode).to_have_attribute("data-state", "failed")
    expect(page.locator(".flow-edge")).to_have_count(6)  # one of five in two pieces
    lefts = {part: page.locator(".flow-part", has_text=part).bounding_box() for part in (
        "fetch", "encode", "check", "publish",
    )}  # fmt: skip
    places = [box["x"] for box in lefts.values() if box]
    assert places == sorted(places)
    assert len(set(places)) == 4
    picture(page, "flow-failed")

    # And it can be retried, and ends well
    page.get_by_role("button", name="Retry").click()
    confirm(page, "Retry the flow")
    expect(page.locator("#toasts")).to_contain_text("3 tasks to run again")
    expect(page.locator(".flow-head .badge")).to_have_text("complete")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    picture(page, "flow-complete")
    page.set_viewport_size({"width": 390, "height": 844})
    assert too_wide(page) == 0

    # And its tasks are a click away
    encode.click()
    expect(page.locator(".task-rows .task-row")).to_have_count(3)
    page.go_back()
    page.locator(".flow-part", has_text="publish").click()
    expect(page.locator(".facts")).to_contain_text("film-night")


def test_what_is_no_flow_says_so(tabs: Tabs) -> None:
    page = tabs.open("flow/nobody")
    expect(page.get_by_text("There is no such flow")).to_be_visible()
    tabs.watch.forgive(404)
