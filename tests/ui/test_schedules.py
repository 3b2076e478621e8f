"""A person who looks after schedules."""

from __future__ import annotations

from playwright.sync_api import expect

from stayer.core.model import Filter, NewTask
from stayer.core.schedules.model import Schedule
from stayer.service.control import schedules
from tests.faults.fleet import until
from tests.ui.browsing import Tabs, picture
from tests.ui.system import System
from tests.ui.test_live import confirm


def test_a_schedule_is_run_paused_and_resumed(tabs: Tabs, system: System) -> None:
    page = tabs.open("schedules")
    expect(page.get_by_text("No schedules yet")).to_be_visible()

    store = system.fleet.store
    task = NewTask(id="", queue="default", command=("echo", "by the clock"))
    schedules.add(store, Schedule(name="yearly <b>", cron="0 0 1 1 *", task=task))
    card = page.get_by_role("region", name="Schedule yearly <b>")
    expect(card).to_contain_text("0 0 1 1 * in UTC")
    expect(card).to_contain_text("echo by the clock in queue default")
    expect(card).to_contain_text("none yet")
    expect(card.locator(".figure")).to_contain_text("d ")
    picture(page, "schedules")

    card.get_by_role("button", name="Run").click()
    confirm(page, "Run")
    by_hand = Filter(prefix="yearly <b>@run")
    until(lambda: store.find(by_hand, None, 1).tasks, "for the task that was asked for")
    system.until(store.find(by_hand, None, 1).tasks[0].id, "complete")
    runs = card.get_by_role("list", name="Runs of yearly").get_by_role("link")
    expect(runs).to_have_attribute("data-state", "complete")

    card.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    expect(card.locator(".badge", has_text="paused")).to_be_visible()
    assert schedules.get(store, "yearly <b>").paused

    card.get_by_role("button", name="Resume").click()
    confirm(page, "Resume")
    expect(card.locator(".badge", has_text="paused")).to_be_hidden()
    assert not schedules.get(store, "yearly <b>").paused


def test_a_schedule_is_added_changed_and_deleted(tabs: Tabs, system: System) -> None:
    page = tabs.open("schedules")
    page.get_by_role("button", name="Add").click()
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_role("textbox", name="Command").fill("sh -c 'make report | mail ann'")
    page.get_by_label("Times").fill("often")
    page.get_by_label("Time zone").fill("Asia/Tokyo")
    page.locator("dialog[open]").get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("often")
    tabs.watch.forgive(400)
    page.get_by_label("Times").fill("30 2 * * *")
    confirm(page, "Add")
    card = page.get_by_role("region", name="Schedule nightly")
    expect(card).to_contain_text("30 2 * * * in Asia/Tokyo")
    expect(card.locator("time")).to_contain_text("02:30 Asia/Tokyo")
    expect(card).to_contain_text("17:30 here")  # the browser of this test is in UTC
    made = schedules.get(system.fleet.store, "nightly")
    assert made.task.command == ("sh", "-c", "make report | mail ann")
    assert made.task.queue == "default"

    card.get_by_role("button", name="Edit").click()
    page.get_by_label("Times").fill("0 5 * * *")
    page.get_by_label("If the run before").select_option("cancel the one before")
    page.get_by_text("What to run").click()
    page.get_by_role("textbox", name="Command").fill("make all")
    confirm(page, "Save")
    expect(card).to_contain_text("0 5 * * * in Asia/Tokyo")
    changed = schedules.get(system.fleet.store, "nightly")
    assert (changed.cron, changed.zone, changed.overlap) == ("0 5 * * *", "Asia/Tokyo", "cancel")
    assert (changed.task.command, changed.task.queue) == (("make", "all"), "default")

    card.get_by_role("button", name="Delete").click()
    confirm(page, "Delete")
    expect(card).to_have_count(0)
    assert system.fleet.store.schedules(["nightly"]) == []
