"""What people trip over: places that are too small, figures that mislead, words that contradict."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from stayer.core.happenings import Pin
from stayer.core.lifecycle import decide
from stayer.core.model import Code, NewTask, Pinned
from tests.http.serving import Site
from tests.ui.browsing import PHONE, Tabs, logged_in, picture
from tests.ui.system import System

OVERLAPS = """() => {
  const labels = [...document.querySelectorAll("#nav a span")]
    .map(each => each.getBoundingClientRect()).filter(each => each.width);
  return labels.filter((each, at) => at && each.left < labels[at - 1].right + 2).length;
}"""


def test_a_phone_has_room_for_tasks_and_names_of_pages(browser: Browser, scene: Site) -> None:
    with logged_in(browser, scene.url, scene.tokens["operate"], viewport=PHONE) as tabs:
        page = tabs.open("tasks")
        row = page.locator(".task-rows .task-row").first
        expect(row).to_be_visible()
        box = row.bounding_box()
        assert box
        assert box["y"] < PHONE["height"] / 4
        assert page.evaluate(OVERLAPS) == 0

        # The rest of the filter is a touch away
        kind = page.get_by_label("Kind")
        expect(kind).to_be_hidden()
        page.get_by_role("button", name="Filter").click()
        kind.fill("crawl-site")
        expect(page).to_have_url(re.compile("name=crawl-site"))
        expect(page.locator('[data-bulk="retry"]')).to_be_visible()
        page.reload()
        expect(kind).to_be_visible()

        # So are the pages that are needed less often; and where one is can be seen
        schedules = page.get_by_role("link", name="Schedules")
        expect(schedules).to_be_hidden()
        page.get_by_role("button", name="More").click()
        expect(schedules).to_be_visible()
        picture(page, "phone-more")
        page.get_by_role("link", name="Timeline").click()
        expect(schedules).to_be_hidden()
        tabs.open("timeline", page)
        expect(page.locator("#nav [aria-current]")).to_be_in_viewport(ratio=1)
        expect(page.locator(".gantt .piece").first).to_be_attached()
        assert page.locator(".gantt .grid text").count() >= 3
        tabs.open("flow/weekly", page)
        expect(page.locator(".flow-frame[data-after]")).to_be_visible()
        page.locator(".flow-frame").evaluate("frame => frame.scrollTo(9999, 0)")
        expect(page.locator(".flow-frame[data-before]:not([data-after])")).to_be_visible()


def test_filters_say_how_many_there_are(looking: Tabs, scene: Site) -> None:
    page = looking.open("tasks")
    of_state = {
        state: sum(each["counts"][state] for each in queues)
        for queues in [scene("GET", "/v1/queues").json["queues"]]
        for state in ("pending", "failed")
    }
    failed = page.get_by_role("button", name=re.compile("^failed"))
    expect(failed).to_have_text(f"failed{of_state['failed']}")
    page.get_by_label("Queue").select_option("nightly")
    expect(failed).to_have_text("failed0")
    expect(page.get_by_role("button", name=re.compile("^pending"))).to_have_text("pending3")
    assert "nightly-etl" in page.locator("datalist option").evaluate_all(
        "options => options.map(each => each.value)"
    )
    page.get_by_label("Kind").fill("nightly")
    expect(page.locator(".empty")).to_contain_text("whole name")


def test_what_is_due_later_does_not_count_as_waiting(tabs: Tabs, system: System) -> None:
    system.submit(id="later", queue="default", command=["true"], delay="3d")
    system.submit(id="next", queue="quiet", command=["true"])
    fails = ["sh", "-c", "exit 4"]
    system.submit(id="again", queue="default", command=fails, retries=1, retry_wait="1h")
    system.until("again", "scheduled")
    page = tabs.open("now")
    tile = page.locator(".tile", has_text="Waiting")
    expect(tile.locator(".figure")).to_have_text("1")
    expect(tile).to_contain_text("2 scheduled")

    tabs.open("task/later", page)
    expect(page.locator(".hero-why")).to_have_text(re.compile(r"due in (3d 0h)"))
    expect(page.locator(".hero-figures")).to_contain_text("in 3d 0h")

    tabs.open("tasks", page)
    row = page.locator(".task-row", has_text="again")
    expect(row).to_contain_text(
        re.compile(r"due .*\d\d:\d\d · failed before · ExitCode: exit code 4")
    )
    picture(page, "retry")


def test_a_figure_is_red_only_for_what_is_wrong(looking: Tabs) -> None:
    page = looking.open("now")
    tile = page.locator(".tile", has_text="Workers")
    expect(tile).to_contain_text("1 stale")
    expect(tile).to_have_attribute("data-mood", "complete")
    expect(tile.locator(".tile-rest")).to_have_attribute("data-mood", "failed")
    worst = page.locator('.running tr[data-level="2"]', has_not_text="silent")
    for row in worst.all():
        expect(row.locator("time[data-mood]")).to_have_count(0)
    silent = page.locator(".running tbody tr", has_text="silent").first
    expect(silent.locator("time[data-mood]")).to_have_count(1)


def test_a_node_of_a_graph_says_how_far_it_is(tabs: Tabs, system: System) -> None:
    long = "a-part-with-a-Wonderfully-Wide-Name-that-nobody-can-read"
    steps = system.folder / "go"
    script = f"echo 30/100 >> $STAYER_REPORT; until [ -e {steps} ]; do sleep 0.05; done"
    flow = {
        "name": "film", "id": "film-7", "defaults": {"queue": "default"},
        "tasks": {long: {"command": ["sh", "-c", script]}},
    }  # fmt: skip
    assert system.site("POST", "/v1/flows", flow, role="submit").status == 201
    page = tabs.open("flow/film-7")
    expect(page.locator(".flow-head")).to_contain_text("film-7")
    part = page.locator(".flow-part")
    expect(part).to_contain_text(re.compile("started · 30\u202f% · "))
    frame, name = (
        part.locator(".flow-box").bounding_box(),
        part.locator("text").first.bounding_box(),
    )
    assert frame
    assert name
    assert name["x"] + name["width"] <= frame["x"] + frame["width"]
    expect(part.locator("title")).to_contain_text(long)
    steps.touch()
    expect(part).to_contain_text(re.compile(r"complete · [<\d]"))


def test_queues_of_a_young_store_have_charts(tabs: Tabs, system: System) -> None:
    store = system.fleet.store
    store.submit([NewTask(id=f"n-{n}", queue="young") for n in range(3)])
    store.sample()
    page = tabs.open("queues")
    card = page.locator(".queue", has_text="young")
    expect(card.locator(".queue-past .key", has_text="waiting")).to_have_text("waiting3")
    expect(card.locator(".queue-past :is(.dot, .line)").first).to_be_attached()


def test_the_code_of_a_task_is_shown_with_what_it_was_pinned_to(tabs: Tabs, system: System) -> None:
    store = system.fleet.store
    code = Code(("numpy>=2",), "3.12", "https://host/acme@main")
    [new] = store.submit([NewTask(id="coded", queue="nobody", command=("true",), code=code)])
    store.commit([decide(new.task, Pin(Pinned("3.12", "ab12" * 16, "c0ffee"), "numpy==2.0"))])
    page = tabs.open("task/coded")
    expect(page.locator("dl.facts")).to_contain_text(
        "https://host/acme@main, Python 3.12, numpy>=2"
    )
    expect(page.locator("dl.facts")).to_contain_text(
        "Python 3.12, commit c0ffee, lock ab12ab12ab12"
    )


def test_a_dialog_darkens_all_of_the_window(tabs: Tabs, system: System) -> None:
    page = tabs.open("queues")
    plain = "getComputedStyle(document.documentElement).backgroundColor"
    before = page.evaluate(plain)
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert page.evaluate(plain) != before
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert page.evaluate(plain) == before
