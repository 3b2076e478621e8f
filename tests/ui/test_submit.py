"""A person who submits from the page, and who submits again with changes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from stayer.core.model import Filter
from stayer.http.token_records import Role
from tests.faults.fleet import until
from tests.ui.browsing import Tabs, logged_in, picture
from tests.ui.system import System
from tests.ui.test_live import confirm


def test_a_command_is_submitted_and_runs(tabs: Tabs, system: System) -> None:
    page = tabs.open("tasks")
    page.keyboard.press("a")
    form = page.get_by_role("dialog", name="Submit a task")
    expect(form.get_by_label("Function")).to_be_hidden()
    form.get_by_label("Command").fill("sh -c 'echo \"two words\" > $STAYER_RESULT'")
    form.get_by_text("More options").click()
    picture(page, "submit")
    form.get_by_label("Id", exact=True).fill("by-hand")
    form.get_by_label("Tags").fill("Nightly, two")
    form.get_by_label("Time limit").fill("soon")
    form.get_by_label("Variables").fill("A=1\nB=x=y")
    form.get_by_role("button", name="Submit").click()
    expect(form.get_by_role("alert")).to_contain_text("soon")
    tabs.watch.forgive(400)
    form.get_by_label("Time limit").fill("2h")
    confirm(page, "Submit")
    expect(page).to_have_url(re.compile("#/task/by-hand"))
    system.until("by-hand", "complete")
    task = system.fleet.get("by-hand")
    assert task.command == ("sh", "-c", 'echo "two words" > $STAYER_RESULT')
    assert (task.tags, task.env) == (("Nightly", "two"), {"A": "1", "B": "x=y"})
    assert task.policy.time_limit == 7200


def test_a_function_is_submitted_with_parameters(tabs: Tabs, system: System) -> None:
    page = tabs.open("now")
    page.get_by_role("button", name="Submit a task").click()
    form = page.get_by_role("dialog", name="Submit a task")
    form.get_by_label("Run", exact=True).select_option("a Python function")
    expect(form.get_by_label("Command")).to_be_hidden()
    form.get_by_label("Function").fill("train")
    form.get_by_label("Parameters").fill("{lr: 1}")
    form.get_by_label("Queue").fill("nobody-listens")
    form.get_by_role("button", name="Submit").click()
    expect(form.get_by_role("alert")).to_contain_text("Parameters: this is not JSON")
    form.get_by_label("Parameters").fill('{"lr": 0.1}')
    confirm(page, "Submit")
    expect(page.locator("h1 + .badge")).to_have_text("pending")
    [task] = system.fleet.store.find(Filter(queues=("nobody-listens",)), None, 2).tasks
    assert (task.name, task.parameters, task.command) == ("train", {"lr": 0.1}, None)

    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    page.get_by_role("textbox", name="Parameters").fill('{"lr": 0.2}')
    page.get_by_text("More options").click()
    page.get_by_label("Priority").fill("7")
    confirm(page, "Save")
    until(lambda: system.fleet.get(task.id).priority == 7, "for the edit")
    assert system.fleet.get(task.id).parameters == {"lr": 0.2}

    page.goto(f"{tabs.url}/#/tasks?q=LR")
    row = page.locator(".task-rows .task-row")
    expect(row).to_contain_text("lr=0.2")


def test_what_failed_is_cloned_and_retried_with_changes(tabs: Tabs, system: System) -> None:
    system.submit(id="broken", command=["false"], tags=["a"])
    system.until("broken", "failed")
    page = tabs.open("task/broken")
    page.get_by_role("button", name="Clone").click()
    expect(page.get_by_role("textbox", name="Command")).to_have_value("false")
    page.get_by_role("textbox", name="Command").fill("true")
    page.get_by_text("More options").click()
    page.get_by_label("Id", exact=True).fill("mended")
    picture(page, "clone")
    confirm(page, "Submit")
    expect(page).to_have_url(re.compile("#/task/mended"))
    system.until("mended", "complete")
    copy = system.fleet.get("mended")
    assert (copy.command, copy.tags, copy.cloned_from) == (("true",), ("a",), "broken")

    page.goto(f"{tabs.url}/#/task/broken")
    page.get_by_role("button", name="Retry", exact=True).click()
    page.get_by_text("With changes").click()
    page.get_by_role("textbox", name="Command").fill("echo mended")
    confirm(page, "Retry")
    system.until("broken", "complete")
    assert system.fleet.get("broken").command == ("echo", "mended")


def test_the_beginning_of_an_id_leads_to_its_task(tabs: Tabs, system: System) -> None:
    id = system.submit(command=["true"])
    page = tabs.blank()
    page.goto(f"{tabs.url}/#/task/{id[:8]}")
    expect(page).to_have_url(f"{tabs.url}/#/task/{id}")
    expect(page.locator("h1 + .badge")).to_be_visible()


def test_a_question_is_closed_by_going_back(tabs: Tabs) -> None:
    page = tabs.open("tasks")
    page = tabs.open("queues", page)
    page.get_by_role("button", name="Submit a task").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(page).to_have_url(re.compile("#/tasks"))
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("role", ["read", "submit"])
def test_a_person_is_offered_what_her_role_allows(
    browser: Browser, system: System, role: Role
) -> None:
    system.submit(id="there", queue="nobody-listens", command=["true"])
    with logged_in(browser, system.url, system.site.tokens[role]) as tabs:
        page = tabs.open("task/there")
        expect(page.locator("h1 + .badge")).to_have_text("pending")
        may = role == "submit"
        expect(page.get_by_role("button", name="Submit a task")).to_have_count(int(may))
        expect(page.get_by_role("toolbar").get_by_role("button")).to_have_count(int(may))
        if may:
            page.get_by_role("button", name="Clone").click()
            confirm(page, "Submit")
            until(lambda: len(system.fleet.store.find(Filter(), None, 9).tasks) == 2, "for it")
