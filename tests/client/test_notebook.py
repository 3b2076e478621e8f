"""A handle in a notebook."""

from __future__ import annotations

from stayer import App, Context, TaskHandle, aio
from stayer.testing import TestStore

app = App()


@app.task(name="draws")
def draws(task: Context, fail: bool) -> str:
    task.progress(3, 4, "<three> of four")
    if fail:
        raise ValueError("<b>no</b>")
    return "<script>"


def test_a_handle_draws_its_progress_and_its_end(stayer_store: TestStore) -> None:
    good, bad = draws.submit(False), draws.submit(True)
    assert "pending" in good._repr_html_()
    stayer_store.drain(check=False)
    drawn = good.refresh()._repr_html_()
    assert '<progress value="3" max="4"></progress> 75 %' in drawn
    assert "&lt;three&gt; of four" in drawn
    assert "&lt;script&gt;" in drawn
    assert "<script>" not in drawn
    drawn = bad.refresh()._repr_html_()
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in drawn
    assert aio.TaskHandle(TaskHandle(stayer_store.store, bad.record, str))._repr_html_() == drawn
