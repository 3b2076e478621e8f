"""Many tabs, many rows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from stayer.core.model import NewTask
from tests.ui.browsing import Tabs
from tests.ui.system import System


def streams(system: System) -> int:
    text = system.site("GET", "/metrics").body.decode()
    found = re.search(r"^stayer_event_streams (\d+)", text, re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.long
def test_eight_tabs_share_one_stream_and_all_are_live(tabs: Tabs, system: System) -> None:
    pages = [tabs.open("tasks" if n % 2 else "now") for n in range(8)]
    assert streams(system) == 1
    id = system.stepped("everywhere")
    for page in pages:
        page.bring_to_front()
        row = page.get_by_role("link", name="sh -c").first
        # A list that was read only after the task had come has it already.
        button = page.get_by_role("button", name="1 new task: show")
        expect(button.or_(row).first).to_be_visible()
        if button.is_visible():
            button.click()
        expect(row).to_be_visible()
    pages[0].close()
    system.finish(id)
    expect(pages[1].locator(".task-row .badge")).to_have_text("complete")


HOLD_NEXT_LIST = """async () => {
  const stream = await import("/ui/stream.js");
  window.heard = new Promise((tell) => stream.on("event", (event) => tell(event.id)));
  const real = window.fetch;
  await new Promise((held) => {
    window.fetch = async (...asked) => {
      const answer = await real(...asked);
      window.fetch = real;
      held();
      await new Promise((go) => (window.letGo = go));
      return answer;
    };
    document.dispatchEvent(new Event("stayer:refresh"));
  });
}"""


def test_a_task_that_comes_while_the_list_is_read_is_told(tabs: Tabs, system: System) -> None:
    page = tabs.open("tasks")
    expect(page.get_by_text("No tasks yet")).to_be_visible()
    page.evaluate(HOLD_NEXT_LIST)
    system.fleet.submit("late", "true")
    assert page.evaluate("window.heard") == "late"
    page.evaluate("window.letGo()")
    page.get_by_role("button", name="1 new task: show").click()
    expect(page.locator(".task-row", has_text="late")).to_be_visible()


@pytest.mark.long
def test_ten_thousand_rows_are_scrolled_filtered_and_cancelled(tabs: Tabs, system: System) -> None:
    store = system.fleet.store
    for start in range(0, 10_000, 1000):
        store.submit(
            [
                NewTask(id=f"row-{n:05}", queue="heap", name=f"kind-{n % 7}", owner="ada")
                for n in range(start, start + 1000)
            ]
        )
    page = tabs.open("tasks?queue=heap")
    expect(page.locator(".task-rows")).to_contain_text("row-09999")
    while "row-00000" not in page.locator(".task-rows").inner_text():
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        assert page.locator(".task-row").count() < 100
        page.wait_for_timeout(20)
    expect(page.locator(".list-tools [role=status]")).to_have_text("10\u202f000 tasks")

    page.evaluate("scrollTo(0, 0)")
    page.get_by_label("Kind").fill("kind-3")
    expect(page).to_have_url(re.compile("name=kind-3"))
    expect(page.locator(".task-row .task-title").first).to_have_text("kind-3")
    page.reload()
    expect(page.get_by_label("Kind")).to_have_value("kind-3")
    page.locator('[data-bulk="cancel"]').click()
    page.locator("dialog[open]").get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("1\u202f429 tasks")
    expect(page.locator(".task-rows .badge").first).to_have_text("cancelled")
    assert store.queues(["heap"])[0].counts["cancelled"] == 1429

    # A few, by hand.
    tabs.open("tasks?queue=heap&name=kind-4", page)
    page.locator(".task-rows input").nth(0).check()
    page.locator(".task-rows input").nth(1).check()
    expect(page.locator(".bulk")).to_contain_text("2 selected tasks")
    page.locator('[data-bulk="hold"]').click()
    page.locator("dialog[open]").get_by_role("button", name="Hold", exact=True).click()
    expect(page.locator(".task-rows .badge", has_text="held")).to_have_count(2)


def test_a_bad_filter_says_what_is_wrong_with_it(tabs: Tabs, system: System) -> None:
    page = tabs.open("tasks")
    page.get_by_label("Since").fill("yesterdayish")
    expect(page.get_by_text("This filter is not valid")).to_be_visible()
    expect(page.locator(".empty")).to_contain_text("yesterdayish")
    tabs.watch.forgive(400)
