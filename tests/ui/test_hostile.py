"""Tasks say what they like; the page shows it and does nothing of it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from stayer.core.flows.model import NewFlow, Part
from stayer.core.happenings import Fail, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, LogPiece, NewTask, Progress, Report
from stayer.core.schedules import parse
from stayer.core.schedules.model import Schedule
from stayer.core.worker_model import EVERYTHING
from tests.contract.builders import beat, register, worker
from tests.ui.browsing import PAGES, SHOWS, Tabs, picture, too_wide
from tests.ui.system import System

TRAP = '<img src=x onerror="window.sprung=1"><script>window.sprung=1</script>"\'&lt;b&gt;'
BIDI = "\u202egnp.exe\u202c \u200f \x1b[31mred\x1b[0m \x1b]0;title\x07 \x00\x07\x08 \r\n\t"
HUGE = "W" * 200_000


@pytest.mark.parametrize("words", [TRAP, BIDI, HUGE], ids=["markup", "controls", "huge"])
def test_hostile_words_stay_words(tabs: Tabs, system: System, words: str) -> None:
    # Given tasks that say these words wherever a task can say something
    store = system.fleet.store
    evil = register(store, "evil", queues=("trap",))
    short = words[:150].replace("\x00", "").strip()
    tasks = [
        NewTask(
            id=f"{n} {short[:60]}", queue="trap", name=words[:1000].replace("\x00", ""),
            parameters={words: [words]}, owner=short, tags=(short, "b"),
        )
        for n in range(3)
    ]  # fmt: skip
    store.submit(tasks)
    flow = NewFlow(id=short[:60], name=short, owner=short, parts=(Part(name="p", queue="odd"),))
    store.submit_flow(flow, [NewTask(id="p", queue="odd", flow=flow.id, part="p")])
    name = short[:60] if short.isprintable() else "trap"  # others are refused
    schedule = Schedule(name=name, cron="0 3 * * *", zone="UTC", task=tasks[0])
    store.put_schedule(parse.check_schedule(schedule, store.now()))
    running = [
        decide(task, Start(pid=1)) for task in store.reserve(evil.id, ["trap"], 2, EVERYTHING)
    ]
    started = [task for task in store.commit(running) if task]
    log = f"{words}\n\x1b[38;5;208m{words}\x1b[0m\n".encode()
    for number, task in enumerate(started):
        progress = Progress(done=1, total=3, message=words)
        report = Report(id=task.id, attempt=1, progress=progress, log=(LogPiece(0, log),))
        beat(store, worker("evil", queues=("trap",)), number + 2, report)
    store.commit([decide(started[0], Fail(Fault(words[:5000], words, words)))])

    # When every page shows them
    page = tabs.open("now")
    expect(page.locator("tbody tr")).to_have_count(1)
    for place in PAGES:
        tabs.open(place, page)
        expect(page.locator(SHOWS[place]).first).to_be_visible()
        assert too_wide(page) == 0, place
    for task in started:
        page.goto(f"{system.url}/#/tasks")
        page.goto(f"{system.url}/#/task/{encoded(task.id)}")
        expect(page.locator(".log-line").first).to_be_visible()
        assert too_wide(page) == 0
        picture(page, f"hostile-{words[:2].encode().hex()}")

    # Then they are text, and only text
    assert page.evaluate("window.sprung") is None
    assert page.locator("main img, main script, main b:has(*)").count() == 0
    assert page.title().count("\n") == 0


def encoded(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def test_a_large_log_stays_smooth_and_can_be_searched(tabs: Tabs, system: System) -> None:
    id = system.stepped("talkative")
    script = 'i=0; while [ $i -lt 300 ]; do seq -f "line $i %g of many" 100; i=$((i + 1)); done'
    system.step(id, f"{script}; echo needle; {script}")
    system.finish(id)
    system.until(id, "complete")

    page = tabs.open(f"task/{id}")
    expect(page.locator(".log-about")).to_contain_text("60\u202f001 lines")
    expect(page.locator(".log-line", has_text="line 299 100 of many")).to_be_visible()
    assert page.locator(".log-line").count() < 100
    page.get_by_label("Search the log").fill("needle")
    expect(page.locator(".found")).to_have_text("1 of 1")
    expect(page.locator(".log-line mark")).to_have_text("needle")
    page.get_by_label("Search the log").fill("nowhere")
    expect(page.locator(".found")).to_have_text("not found")
