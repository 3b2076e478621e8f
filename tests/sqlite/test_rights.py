"""Who may read and write the file of a store, and whose file is believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.errors import BadConfig, StoreUnusable
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import fill

MALLORY = 4242
BESIDE = ("", "-wal", "-shm", "-lock")
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: only root can give files to others"
)


@pytest.fixture(params=[0o022, 0o000, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    found = {end: Path(f"{path}{end}") for end in BESIDE}
    return {end: stat.S_IMODE(file.stat().st_mode) for end, file in found.items()}


def used(url: str) -> Store:
    """A store that was read and written."""
    store = open_store(url)
    store.setup()
    fill(store, 1)
    return store


def test_a_new_store_is_its_owners_alone(path: Path, umask: int) -> None:
    store = used(f"sqlite:///{path}")
    assert modes(path) == dict.fromkeys(BESIDE, 0o600)
    store.close()


def test_a_store_that_is_there_keeps_its_rights(store: Store, path: Path) -> None:
    store.close()
    for end in BESIDE:
        Path(f"{path}{end}").unlink(missing_ok=bool(end)) if end else None
    path.chmod(0o644)
    used(f"sqlite:///{path}")
    assert modes(path) == dict.fromkeys(BESIDE, 0o644)


@pytest.mark.parametrize("end", BESIDE)
def test_what_everybody_may_write_is_refused(store: Store, path: Path, end: str) -> None:
    fill(store, 1)
    Path(f"{path}{end}").chmod(0o666)
    with pytest.raises(StoreUnusable, match=rf"{path}{end} .*every user may write it.*shared=all"):
        used(f"sqlite:///{path}")
    used(f"sqlite:///{path}?shared=all").close()
    with pytest.raises(StoreUnusable):
        used(f"sqlite:///{path}?shared=group")


@as_root
@pytest.mark.parametrize("end", BESIDE)
def test_what_belongs_to_somebody_else_is_refused(store: Store, path: Path, end: str) -> None:
    """Also what SQLite would read beside the file: a log has as much to say as the file itself."""
    fill(store, 1)
    os.chown(f"{path}{end}", MALLORY, -1)
    with pytest.raises(StoreUnusable, match=rf"{path}{end} .*belongs to user {MALLORY}.*=group"):
        used(f"sqlite:///{path}")
    used(f"sqlite:///{path}?shared=group").close()


@as_root
def test_a_group_may_share_a_store_if_that_is_wanted(store: Store, path: Path) -> None:
    store.close()
    Path(f"{path}-lock").unlink()
    path.chmod(0o660)
    os.chown(path, MALLORY, 4243)
    with pytest.raises(StoreUnusable, match=r"belongs to user 4242"):
        used(f"sqlite:///{path}")
    shared = used(f"sqlite:///{path}?shared=group&synchronous=full")
    assert modes(path) == dict.fromkeys(BESIDE, 0o660)
    owners = {(os.stat(f"{path}{end}").st_uid, os.stat(f"{path}{end}").st_gid) for end in BESIDE}
    assert owners == {(MALLORY, 4243)}
    shared.close()


@pytest.mark.parametrize(
    "option", ["shared=maybe", "shared", "share=group", "synchronous=full&x=1"]
)
def test_another_option_is_refused(path: Path, option: str) -> None:
    with pytest.raises(BadConfig, match=r"synchronous=.*shared="):
        open_store(f"sqlite:///{path}?{option}")
