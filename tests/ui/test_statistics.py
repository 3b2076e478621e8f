"""Metrics and steps of a task, on its page."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.ui.browsing import Tabs, picture, too_wide
from tests.ui.system import System

REPORTS = """
echo '{"step": "load"}' >> "$STAYER_REPORT"
for n in 1 2 3 4 5 6 7 8 9; do
    echo '{"metric": {"loss": '$((9 - n))', "<b>rate</b>": -'$n'}, "x": '$n'}' >> "$STAYER_REPORT"
done
echo '{"step": "train"}' >> "$STAYER_REPORT"
while true; do sleep 1; done
"""


def test_metrics_are_drawn_and_steps_are_timed(tabs: Tabs, system: System) -> None:
    id = system.submit(command=("sh", "-c", REPORTS))
    page = tabs.open(f"task/{id}")
    metrics = page.locator(".card", has_text="Metrics")
    expect(metrics.locator(".metric-chart")).to_have_count(2)
    expect(metrics.locator(".metric-chart").first.locator(".key")).to_have_text("loss0")
    expect(metrics).to_contain_text("<b>rate</b>")
    expect(metrics.locator("path.line")).to_have_count(2)
    steps = page.locator(".steps li")
    expect(steps).to_have_count(2)
    expect(steps.last).to_contain_text("train")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture(page, f"statistics-{scheme}")
    page.set_viewport_size({"width": 390, "height": 844})
    assert too_wide(page) == 0


def test_selected_tasks_are_compared(tabs: Tabs, system: System) -> None:
    for n, rate in enumerate(("0.1", "<b>0.2</b>")):
        system.submit(id=f"run-{n}", queue="shelf", name="train", parameters={"lr": rate, "n": 3})
    page = tabs.open("tasks?queue=shelf")
    boxes = page.locator(".task-rows input")
    boxes.nth(0).check()
    button = page.locator('[data-bulk="compare"]')
    expect(button).to_be_disabled()
    boxes.nth(1).check()
    button.click()
    dialog = page.locator("dialog[open]")
    expect(dialog.get_by_role("link")).to_have_text(["run-1", "run-0"])
    expect(dialog.locator("tbody tr")).to_have_count(1)
    expect(dialog.locator("tbody tr")).to_contain_text("parameters.lr")
    expect(dialog).to_contain_text("<b>0.2</b>")
    expect(dialog.locator("tbody th")).to_have_css("position", "static")  # it scrolls with its row
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture(page, f"compare-{scheme}")
    page.set_viewport_size({"width": 390, "height": 844})
    assert too_wide(page) == 0
    dialog.get_by_role("link", name="run-0").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("h1")).to_contain_text("train")
