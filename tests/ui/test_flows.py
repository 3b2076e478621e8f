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
    row = (
        page.get_by_role("region", name="Tasks of the flow").locator("tr", has_text="encode").first
    )
    expect(row).to_contain_text("2 complete, 1 failed")
    expect(page.get_by_role("region", name="Runs of encode").locator("tbody tr")).to_have_count(3)
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


def test_a_sweep_is_submitted_and_compared_in_a_table(tabs: Tabs, system: System) -> None:
    page = tabs.open("flows")
    page.get_by_role("button", name="Submit a task").click()
    form = page.get_by_role("dialog")
    script = system.folder / "run.sh"
    script.write_text('test $1 != 3 && echo "{\\"loss\\": $1$2}" > $STAYER_RESULT')
    form.get_by_label("Command").fill(f"sh {script} {{n}} {{seed}}")
    form.get_by_text("Sweep:").click()
    form.get_by_label("Values").fill("n=1..3\nseed=7,5")
    confirm(page, "Submit")
    runs = page.locator(".runs tbody tr")
    expect(runs).to_have_count(6)
    expect(page.locator(".flow-head .badge")).to_have_text("failed")
    expect(runs.locator(".badge", has_text="failed")).to_have_count(2)
    expect(page.locator(".flow-part")).to_have_count(0)

    page.get_by_role("button", name="loss").click()
    place = page.locator(".runs tbody td:first-child")
    expect(place).to_have_text(["1", "0", "3", "2", "4", "5"])
    page.get_by_role("button", name="loss").click()
    expect(place).to_have_text(["2", "3", "0", "1", "4", "5"])
    expect(page.get_by_role("columnheader", name="loss")).to_have_attribute(
        "aria-sort", "descending"
    )
    picture(page, "sweep")
    assert too_wide(page) == 0
    place.first.get_by_role("link").click()
    expect(page.locator("h1 + .badge")).to_have_text("complete")
