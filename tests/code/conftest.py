"""A worker that installs code, and an index and repositories for it to install from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stayer.core.model import Code, Task
from stayer.core.submit.checks import new_task
from tests.cli.conftest import environment, folder, stayer, store, url
from tests.code.index import Index
from tests.faults.fleet import Fleet

__all__ = ("environment", "folder", "stayer", "store", "url")


class CodeFleet(Fleet):
    """A fleet whose workers install code for tasks."""

    def __init__(self, folder: Path, task_user: str | None = None) -> None:
        super().__init__(folder, task_user=task_user)
        self.index = Index(folder / "index")
        self.cache = folder / "cache"
        self.uv: str | None = None
        """Another than the one of this environment."""

    def starts(
        self,
        name: str = "one",
        *options: str,
        allow: tuple[str, ...] = ("*",),
        commands: bool = True,
    ) -> int:
        """A worker that installs what these patterns allow, from the index of the test."""
        patterns = [word for pattern in allow for word in ("--allow-code", pattern)]
        if self.uv is not None:
            options += ("--code-env", f"UV={self.uv}")
        return self.worker(
            name, *patterns, "--code-dir", str(self.cache),
            "--code-env", f"UV_DEFAULT_INDEX={self.index.url}",
            "--code-env", "UV_COMPILE_BYTECODE=0", "--code-env", "UV_HTTP_RETRIES=0",
            *options, lease=20.0, commands=commands,
        )  # fmt: skip

    def add(self, id: str, *command: str, code: Code | None, **options: Any) -> str:
        new = new_task(queue="default", id=id, command=command or None, code=code, **options)
        return self.store.submit([new])[0].task.id

    def ended(self, id: str) -> Task:
        """The task, when it has ended."""
        return self.until_ended(id)

    def completed(self, id: str) -> Task:
        task = self.ended(id)
        assert task.state == "complete", (task.error, self.log(id))
        return task

    def log(self, id: str) -> str:
        attempt = self.get(id).attempt
        pieces = self.store.log(id, attempt, 0, 1_000_000)
        return b"".join(piece.data for piece in pieces).decode()

    def events(self, id: str) -> list[str]:
        return [event.event for event in self.store.events(id)]

    def environments(self) -> list[Path]:
        """Those that are whole."""
        return sorted(path.parent for path in self.cache.glob("envs/*/complete"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[CodeFleet]:
    fleet = CodeFleet(tmp_path)
    fleet.index.add("greet", "1.0")
    yield fleet
    fleet.close()


class GitRepository:
    """One on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.run("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def commit(self, **files: str) -> str:
        """Commit these files, `a__b` for `a/b`, `.py` behind unless they have another suffix."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/")
            path = path if path.suffix else path.with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.run("add", "--all")
        self.run("commit", "--quiet", "--message", "a change")
        return self.run("rev-parse", "HEAD").strip()

    def run(self, *words: str) -> str:
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
               "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
               "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}  # fmt: skip
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env={**os.environ, **who}, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repository")
