"""Logs that stay on their node: nothing but plain files is kept, and what is there goes again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stayer.core.model import Task
from stayer.store import LOG_HEAD, LOG_TAIL
from stayer.stores import open_store
from stayer.worker import safe_files
from stayer.worker.attempt import HeldAttempt
from stayer.worker.logs import KeptLogs
from stayer.worker.run_directory import Run


def test_what_was_swapped_for_a_folder_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "run" / "a.1" / "task"
    part.mkdir(parents=True)
    with open(part / "log", "wb") as log:
        os.truncate(log.fileno(), LOG_HEAD + LOG_TAIL + 1)
    (part / "other" / "inside").mkdir(parents=True)
    seen = safe_files.Part.stat

    def seen_just_before(self: safe_files.Part, name: str) -> os.stat_result | None:
        found = seen(self, name)
        if found is not None and name == "log":
            (part / "log").rename(part / "log.old")
            (part / "other").rename(part / "log")
        return found

    monkeypatch.setattr(safe_files.Part, "stat", seen_just_before)
    logs = KeptLogs(tmp_path)
    logs.keep(HeldAttempt(Task("a", "default", attempt=1), Run(tmp_path / "run" / "a.1")))
    assert (part / "log.old").exists()
    assert not list(logs.folder.iterdir())


def test_a_folder_among_them_does_not_stay(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/stayer.db")
    store.setup()
    logs = KeptLogs(tmp_path)
    (logs.folder / "gone.1.log" / "inside").mkdir(parents=True)
    (logs.folder / "gone.2.log").symlink_to("nowhere")
    (logs.folder / "gone.3.log").touch()
    logs.remove_purged(store)
    assert not list(logs.folder.iterdir())
    store.close()
