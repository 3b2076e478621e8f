"""Where a command runs that was submitted through a server: not where its submitter was."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import get
from tests.http.serving import Site


@pytest.fixture
def stayer(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.chdir(tmp_path)
    token = site.tokens["operate"]
    return Here({"STAYER_STORE": site.url, "STAYER_TOKEN": token, "HOME": str(tmp_path)})


def test_no_directory_of_this_machine_is_sent(stayer: Here, store: Store, tmp_path: Path) -> None:
    stayer("add", "--id", "none", "--", "true").works()
    stayer("add", "--id", "named", "--cwd", "/srv/data", "--", "true").works()
    stayer("add", "--id", "below", "--cwd", "runs", "--", "true").works()
    lines = tmp_path / "lines"
    lines.write_text('{"id": "line", "command": ["true"]}\n')
    stayer("add", "--jsonl", str(lines)).works()
    stayer("sweep", "--id", "s", "-p", "x=1,2", "--", "echo", "{x}").works()

    found = [get(store, id).cwd for id in ("none", "named", "below", "line", "s.sweep.0")]
    assert found == [None, "/srv/data", "runs", None, None]
    plain = stayer("add", "--id", "here", "--", "true", STAYER_STORE=store.url).works()
    assert (plain.lines, get(store, "here").cwd) == (["here"], str(tmp_path))
