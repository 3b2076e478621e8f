"""The notifications about a task, on its page."""

from __future__ import annotations

from playwright.sync_api import expect

from stayer.core.notify.notices import Delivery
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from tests.ui.browsing import Tabs, too_wide
from tests.ui.system import System


def test_a_task_shows_whom_it_tells_and_what_came_of_it(tabs: Tabs, system: System) -> None:
    store = system.fleet.store
    id = system.submit(queue="others", notify=["somebody"])
    page = tabs.open(f"task/{id}")
    told = page.locator(".card", has_text="Notifications")
    expect(told).to_contain_text("ended:somebody")

    # When it ends, and nobody can be told
    control.cancel(store, id)
    expect(told).to_contain_text("cancelled: somebody")
    expect(told.locator(".badge")).to_have_text("pending")
    [notice] = store.take_notices(["somebody"], 1, 600, 86400)
    store.settle_notice(notice, Delivery(False, "410 <b>Gone</b>"))
    expect(told.locator(".badge")).to_have_text("failed")
    expect(told).to_contain_text("410 <b>Gone</b>")

    # Then it can be told again
    told.get_by_role("button", name="Send again").click()
    expect(told.locator(".badge")).to_have_text("pending")
    [notice] = store.take_notices(["somebody"], 1, 600, 86400)
    store.settle_notice(notice, Delivery(True, "200 OK"))
    expect(told.locator(".badge")).to_have_text("delivered")
    page.set_viewport_size({"width": 390, "height": 844})
    assert too_wide(page) == 0


def test_a_queue_shows_whom_it_notifies(tabs: Tabs, system: System) -> None:
    queue_control.set_queue(system.fleet.store, "others", notify=["failed:somebody"])
    page = tabs.open("queues")
    expect(page.get_by_text("notifies failed:somebody")).to_be_visible()
