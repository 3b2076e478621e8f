"""A person at the page while real tasks run."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from stayer.core.happenings import Interrupt, Start
from stayer.core.queue_model import Rate
from tests.contract.builders import apply, get, register, started, take_one
from tests.ui.browsing import Tabs, logged_in, picture
from tests.ui.system import System


def confirm(page: Page, label: str) -> None:
    page.locator("dialog[open]").get_by_role("button", name=label, exact=True).click()
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_a_link_logs_in_once_and_a_token_as_often_as_needed(
    browser: Browser, system: System
) -> None:
    with logged_in(browser, system.url, system.site.tokens["read"]) as tabs:
        tabs.context.clear_cookies()
        page = tabs.blank()
        link = f"{system.url}/login#code={system.site.access.make_code()}"
        page.goto(link)
        expect(page.locator("#link-state")).to_have_text("live")
        assert "code" not in page.url

        page.get_by_role("button", name=re.compile("Session")).click()
        confirm(page, "Log out")
        expect(page.locator("#news")).to_contain_text("login link")
        page.goto(link)  # into the tab that shows the login page: only what is behind the # changes
        expect(page.locator("#news")).to_contain_text("was used")
        expect(page.locator("#news code").first).to_have_text(re.compile("^stayer "))
        fresh = f"{system.url}/login#code={system.site.access.make_code()}"
        page.goto(fresh)
        expect(page.locator("#link-state")).to_have_text("live")
        page.get_by_role("button", name=re.compile("Session")).click()
        confirm(page, "Log out")
        page.get_by_label("A token").fill("no such token")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#news")).not_to_be_empty()
        page.get_by_label("A token").fill(system.site.tokens["operate"])
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#link-state")).to_have_text("live")
        tabs.watch.forgive(401)


def test_a_task_is_watched_from_its_submission_to_its_end(tabs: Tabs, system: System) -> None:
    page = tabs.open("now")
    expect(page.get_by_text("Nothing is running")).to_be_visible()

    id = system.stepped("film")
    row = page.locator("tbody tr", has_text="film")
    expect(row).to_be_visible()
    system.step(id, 'echo "10/100 first scene" >> $STAYER_REPORT; echo one')
    expect(row.locator(".percent")).to_have_text(re.compile("^10"))
    expect(row.locator(".message")).to_have_text("first scene")
    system.step(id, 'echo "60/100 second scene" >> $STAYER_REPORT')
    expect(row.locator(".percent")).to_have_text(re.compile("^60"))

    row.get_by_role("link").click()
    expect(page.locator(".log-line", has_text="one")).to_be_visible()
    system.step(id, "printf 'two \\033[31mred\\033[0m\\n'")
    expect(page.locator('.log-line [data-fore="1"]')).to_have_text("red")
    picture(page, "live-task")

    system.finish(id)
    expect(page.locator("h1 + .badge")).to_have_text("complete")
    expect(page.locator(".value").last).to_contain_text('"steps"')
    expect(page.locator(".hero-percent")).to_have_text(re.compile("^100"))


def test_a_running_task_is_cancelled_and_run_again_by_buttons(tabs: Tabs, system: System) -> None:
    id = system.stepped("song")
    system.until(id, "started")
    page = tabs.open(f"task/{id}")
    state = page.locator("h1 + .badge")
    expect(state).to_have_text("started")

    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Close").click()
    assert system.fleet.get(id).state == "started"
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("Time to stop by itself").fill("soon")
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_role("alert")).to_contain_text("soon")
    tabs.watch.forgive(400)
    page.get_by_label("Time to stop by itself").fill("1s")
    confirm(page, "Cancel the task")
    expect(state).to_have_text("cancelled")
    assert system.fleet.get(id).state == "cancelled"

    page.get_by_role("button", name="Retry", exact=True).click()
    confirm(page, "Retry")
    expect(state).to_have_text("started")
    expect(page.locator(".lanes .lane-name")).to_have_text(
        ["in its queue", "attempt 1", "attempt 2"]
    )
    system.finish(id)
    expect(state).to_have_text("complete")
    page.get_by_role("button", name="Delete").click()
    confirm(page, "Delete")
    expect(page).to_have_url(re.compile("#/tasks"))
    assert system.fleet.store.get([id]) == [None]


def test_a_running_task_is_paused_and_shows_what_it_uses(tabs: Tabs, system: System) -> None:
    id = system.stepped("dance")
    system.until(id, "started")
    page = tabs.open(f"task/{id}")
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    state = page.locator("h1 + .badge")
    expect(state).to_have_text("paused")
    expect(page.locator(".hero-percent")).to_have_text("paused")
    expect(page.get_by_role("button", name="Signal")).to_be_visible()
    expect(page.get_by_role("button", name="Stack")).to_have_count(0)  # it runs a command
    page.get_by_role("button", name="Resume").click()
    confirm(page, "Resume")
    expect(state).to_have_text("started")
    expect(page.locator('.lanes rect[data-look="paused"]')).to_be_attached()
    expect(page.get_by_role("img", name="Memory")).to_be_visible()
    page.get_by_role("button", name="Signal").click()
    page.get_by_label("Signal", exact=True).select_option("TERM")
    confirm(page, "Send")
    expect(state).to_have_text("failed")
    expect(page.locator(".error-card")).to_contain_text("Error")
    picture(page, "live-failed")


def test_what_waits_is_held_released_and_set(tabs: Tabs, system: System) -> None:
    id = system.submit(id="later", queue="nobody-listens", command=["true"])
    page = tabs.open(f"task/{id}")
    expect(page.locator(".hero-why")).to_contain_text("No worker listens")
    page.get_by_role("button", name="Hold").click()
    confirm(page, "Hold")
    expect(page.locator("h1 + .badge")).to_have_text("held")
    expect(page.locator(".hero-why")).to_contain_text("It is held")
    page.get_by_role("button", name="Release").click()
    confirm(page, "Release")
    expect(page.locator("h1 + .badge")).to_have_text("pending")
    page.get_by_role("button", name="Set").click()
    page.get_by_label("Priority").fill("7")
    page.get_by_label("Time limit").fill("2h")
    confirm(page, "Set")
    expect(page.locator(".facts")).to_contain_text("2h 00m of time")
    task = system.fleet.get(id)
    assert (task.priority, task.policy.time_limit) == (7, 7200.0)


def test_the_page_lives_through_a_restart_of_the_server(tabs: Tabs, system: System) -> None:
    id = system.stepped("opera")
    system.until(id, "started")
    page = tabs.open(f"task/{id}")
    system.step(id, "echo before")
    expect(page.locator(".log-line", has_text="before")).to_be_visible()

    tabs.watch.offline = True
    system.stop_server()
    expect(page.locator("#link-state")).to_have_text("no answer, trying again")
    page.set_viewport_size({"width": 1200, "height": 800})
    person = page.get_by_role("button", name=re.compile("Session")).bounding_box()
    assert person
    assert person["x"] + person["width"] <= page.evaluate("document.documentElement.clientWidth")
    system.step(id, "echo meanwhile")
    system.finish(id)
    system.until(id, "complete")
    system.start_server()

    expect(page.locator("#link-state")).to_have_text("live")
    expect(page.locator("#toasts")).to_contain_text("live again")
    expect(page.locator("h1 + .badge")).to_have_text("complete")
    expect(page.locator(".log-line", has_text="meanwhile")).to_be_visible()


def test_who_may_only_read_sees_no_verbs(browser: Browser, system: System) -> None:
    id = system.stepped("quiet")
    system.until(id, "started")
    with logged_in(browser, system.url, system.site.tokens["read"]) as tabs:
        page = tabs.open(f"task/{id}")
        expect(page.locator("h1 + .badge")).to_have_text("started")
        expect(page.locator("[data-verb]")).to_have_count(0)
        tabs.open("tasks", page)
        expect(page.locator(".task-rows .task-row")).to_have_count(1)
        expect(page.locator("[data-bulk], input[type=checkbox]")).to_have_count(0)
        tabs.open("queues", page)
        expect(page.locator(".queue")).to_have_count(1)
        expect(page.locator(".queue button")).to_have_count(0)


def test_queues_are_paused_limited_and_say_why_they_wait(tabs: Tabs, system: System) -> None:
    system.submit(queue="lonely", command=["true"])
    page = tabs.open("queues")
    card = page.locator(".queue", has_text="lonely")
    expect(card).to_contain_text("No worker listens to it")
    expect(card.locator(".why code")).to_have_text("stayer worker -q lonely --allow-commands")
    [alone] = system.site("GET", "/v1/tasks?queue=lonely").json["tasks"]
    system.site("POST", f"/v1/tasks/{alone['id']}/hold")
    expect(card.locator(".why")).to_have_text("It is held until somebody releases it.")
    system.site("POST", f"/v1/tasks/{alone['id']}/release")
    expect(card.locator(".stack span:not([hidden])")).to_have_count(1)  # others would leave gaps
    card.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    expect(card.locator(".badge")).to_have_text("paused")
    expect(card).to_contain_text("resume it")
    card.get_by_role("button", name="Settings").click()
    page.get_by_label("Running at once, at most").fill("3")
    page.get_by_label("Running at once with the same key").fill("2")
    page.get_by_label("Other limits for single keys").fill("ann=5, b=ob=1")
    page.get_by_label("Rate of starts").fill("100/1h")
    page.get_by_label("Fair shares").select_option("between owners")
    page.get_by_label("Defaults of its tasks").fill("retries=3\ntime_limit=2h\nretry_on=oom, lost")
    confirm(page, "Save")
    expect(card).to_contain_text(
        "at most 3 at once · at most 2 with the same key · at most 5 with key ann · "
        "at most 1 with key b=ob · at most 100/1h start · fair shares between owners · "
        "defaults retries=3, retry_on=oom,lost, time_limit=7200"
    )
    [queue] = system.fleet.store.queues(["lonely"])
    assert (queue.paused, queue.limit, queue.key_limit) == (True, 3, 2)
    assert queue.key_limits == {"ann": 5, "b=ob": 1}
    assert (queue.rate, queue.fair) == (Rate(100, 3600.0), "owner")
    assert queue.defaults == {"retries": 3, "time_limit": 7200.0, "retry_on": ["oom", "lost"]}
    card.get_by_role("button", name="Settings").click()
    page.get_by_label("Other limits for single keys").fill("ann=4")
    page.get_by_label("Fair shares").select_option("none: oldest first")
    page.get_by_text("How long ended tasks are kept").click()
    page.get_by_label("Logs").fill("a while")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Logs: a while is not a time")
    page.get_by_label("Logs").fill("2d")
    confirm(page, "Save")
    expect(card).to_contain_text("at most 4 with key ann · at most 100/1h start")
    expect(card).not_to_contain_text("fair shares")
    assert system.fleet.store.queues(["lonely"])[0].retention == {"log": 172_800}
    tabs.open("now", page)
    expect(page.locator(".alert")).to_have_text("Queue lonely is paused while 1 task waits.")


def test_a_task_that_waits_says_why_and_when(tabs: Tabs, system: System) -> None:
    system.submit(id="odd", queue="default", name="nobody-runs-this")
    page = tabs.open("task/odd")
    why = page.get_by_role("list", name="Why")
    expect(why).to_contain_text("can run 'nobody-runs-this'")
    system.site("POST", "/v1/tasks/odd/hold")
    expect(why.locator("li").first).to_have_text("It is held, until somebody releases it")
    picture(page, "why")

    system.submit(id="later", queue="default", command=["true"], delay="1h")
    tabs.open("task/later", page)
    expect(page.locator(".hero-figures")).to_contain_text(re.compile(r"Starts≈ .*\d\d:\d\d"))


def test_a_worker_is_drained_by_a_button(tabs: Tabs, system: System) -> None:
    id = system.stepped("last")
    system.until(id, "started")
    page = tabs.open("nodes")
    card = page.locator(".worker")
    card.get_by_role("button", name="Drain").click()
    confirm(page, "Drain")
    expect(card.locator(".badge")).to_have_text("DRAINING")
    expect(card.get_by_role("button", name="Drain")).to_have_count(0)
    picture(page, "draining")
    system.finish(id)
    expect(card).to_have_count(0)
    assert system.fleet.get(id).state == "complete"


def test_a_worker_is_changed_and_stopped_by_buttons(tabs: Tabs, system: System) -> None:
    id = system.stepped("last")
    system.until(id, "started")
    page = tabs.open("nodes")
    card = page.locator(".worker")
    card.get_by_role("button", name="Change").click()
    page.get_by_role("textbox", name="Queues").fill("default, night")
    page.get_by_role("textbox", name="Slots").fill("0")
    page.locator("dialog[open]").get_by_role("button", name="Change").click()
    expect(page.get_by_role("alert")).to_contain_text("Slots: 0 is not a number of tasks")
    page.get_by_role("textbox", name="Slots").fill("7")
    confirm(page, "Change")
    expect(card).to_contain_text("1 of 7 in use")
    expect(card).to_contain_text("default, night")
    card.get_by_role("button", name="Stop").click()
    confirm(page, "Stop it")
    expect(card).to_have_count(0)
    assert system.fleet.get(id).state == "pending"


def test_a_lost_worker_is_down_with_the_reason_and_what_it_ran(tabs: Tabs, system: System) -> None:
    store = system.fleet.store
    register(store, "judge")
    register(store, "lost")
    task = started(store, "lost")
    page = tabs.open("nodes")
    cards = page.locator(".worker")
    expect(cards.filter(has_text="node-of-lost").locator(".badge")).to_have_text("PROCESSING")
    store.declare_lost("judge", {"lost": 1})
    card = cards.filter(has_text="node-of-lost")
    expect(card.locator(".badge")).to_have_text("DOWN")
    expect(card).to_contain_text("declared lost by worker judge")
    expect(card.locator(f'a[href="#/task/{task.id}"]')).to_be_visible()
    expect(card.get_by_role("button")).to_have_count(0)
    picture(page, "down")


def test_the_timeline_shows_attempts_of_what_waits_again(tabs: Tabs, system: System) -> None:
    store = system.fleet.store
    register(store)
    page = tabs.open("timeline")
    expect(page.get_by_text("Nothing ran in this time")).to_be_visible()
    apply(store, started(store, id="again"), Interrupt())
    apply(store, apply(store, take_one(store), Start(pid=1)), Interrupt())
    assert get(store, "again").state == "pending"
    pieces = page.locator('.gantt a[href="#/task/again"] .piece[data-look="interrupted"]')
    expect(pieces).to_have_count(2)
    page.reload()
    expect(pieces).to_have_count(2)
    apply(store, take_one(store), Start(pid=1))
    expect(page.locator('.gantt a[href="#/task/again"] .piece')).to_have_count(3)
