"""The git commit that a command was submitted from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stayer.cli import checkout
from stayer.store import Store
from tests.cli.running import Here
from tests.code.conftest import GitRepository
from tests.contract.builders import get


@pytest.fixture
def repository(folder: Path) -> GitRepository:
    return GitRepository(folder / "repository")


@pytest.fixture
def stayer(environment: dict[str, str], folder: Path) -> Here:
    return Here({**environment, "PATH": os.environ["PATH"]})


def test_a_command_tells_which_commit_was_checked_out(
    stayer: Here, store: Store, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.commit(train="print(1)", sub__other="2")
    monkeypatch.chdir(repository.folder / "sub")
    (repository.folder / "new.txt").write_text("git does not know it")
    stayer("add", "--id", "clean", "--", "true").works()
    (repository.folder / "train.py").write_text("print(2)")
    stayer("add", "--id", "dirty", "--", "true").works()
    stayer("sweep", "--id", "s", "-p", "x=1,2", "--", "echo", "{x}").works()
    stayer("add", "--id", "off", "--", "true", STAYER_RECORD_COMMIT="false").works()
    stayer("add", "--id", "named", "--name", "f").works()
    stayer("clone", "clean", "--id", "copy").works()

    ids = ("clean", "dirty", "s.sweep.1", "off", "named", "copy")
    assert [get(store, id).source_commit for id in ids] == [
        commit, f"{commit}-dirty", f"{commit}-dirty", None, None, None,
    ]  # fmt: skip
    assert f"{commit}-dirty" in stayer("show", "dirty").works().out
    assert stayer("show", "dirty", "--json").works().json["source_commit"] == f"{commit}-dirty"


def test_nothing_about_git_keeps_a_command_from_being_submitted(
    stayer: Here, store: Store, folder: Path, repository: GitRepository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    stayer("add", "--id", "outside", "--", "true").works()
    monkeypatch.chdir(repository.folder)
    stayer("add", "--id", "empty", "--", "true").works()  # nothing is committed
    commit = repository.commit(a="1")
    stayer("add", "--id", "no-git", "--", "true", PATH=str(folder)).works()
    slow = folder / "git"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *filter*) exit 1;; *porcelain*) exec sleep 60;; '
                    f"esac\necho {commit}\n")  # fmt: skip
    slow.chmod(0o755)
    monkeypatch.setattr(checkout, "_PATIENCE_S", 1.0)
    found = f"{folder}:{os.environ['PATH']}"
    stayer("add", "--id", "slow", "--", "true", PATH=found).works()
    (repository.folder / ".git" / "HEAD").write_text("garbage")
    stayer("add", "--id", "broken", "--", "true").works()

    ids = ("outside", "empty", "no-git", "slow", "broken")
    assert [get(store, id).source_commit for id in ids] == [
        None, None, None, f"{commit}-unchecked", None,
    ]  # fmt: skip


def test_no_program_that_the_checkout_names_is_run(
    stayer: Here, store: Store, folder: Path, repository: GitRepository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    commit = repository.commit(a="1")
    evil = folder / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    evil.chmod(0o755)
    repository.run("config", "core.fsmonitor", str(evil))
    (folder / "ran").unlink(missing_ok=True)
    monkeypatch.chdir(repository.folder)
    stayer("add", "--id", "t", "--", "true").works()
    assert get(store, "t").source_commit == commit
    assert not (folder / "ran").exists()

    (repository.folder / ".gitattributes").write_text("* filter=x\n")
    (repository.folder / "a.py").write_text("2")
    repository.run("config", "filter.x.clean", str(evil))
    stayer("add", "--id", "filtered", "--", "true").works()
    assert get(store, "filtered").source_commit == f"{commit}-unchecked"
    assert not (folder / "ran").exists()
