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
