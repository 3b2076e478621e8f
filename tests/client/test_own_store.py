"""A store that another package brings: by an entry point, under a scheme of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer import Client
from tests.cli.running import Here
from tests.client.own_store import install


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(install(tmp_path))
    return f"own://{tmp_path}/own.db"


def test_it_is_used_like_those_that_are_built_in(url: str, tmp_path: Path) -> None:
    with Client(url) as client:
        client.get_queue("encode").submit({"n": 1}, id="a")
    with Client(f"sqlite:///{tmp_path}/own.db") as behind:
        assert behind.get_task("a").parameters == {"n": 1}


def test_commands_take_its_url(url: str, tmp_path: Path) -> None:
    stayer = Here({"STAYER_STORE": url})
    stayer("add", "--id", "a").works()
    with Client(f"sqlite:///{tmp_path}/own.db") as behind:
        assert behind.get_task("a").state == "pending"
    stayer("ls", "--store", "others://x").refuses("unknown kind", " own,")
