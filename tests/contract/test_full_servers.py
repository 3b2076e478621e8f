"""The disk of a database server is full: what was accepted stays, the rest is refused as a whole,
and once there is room again all goes on.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from stayer.core.errors import StoreUnreachable, StoreUnusable
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import check_counts, fill, register, take
from tests.servers import mariadb as mariadb_servers
from tests.servers import postgres as postgres_servers
from tests.servers.finding import postgres_binaries
from tests.servers.small_disk import SmallDisk, small_disk

ENOUGH = 5000
"""So many tasks don't find room in what is left."""
Place: TypeAlias = tuple[SmallDisk, str, Callable[[], object]]
"""A disk, a store there, and what gets its server to work again once there is room."""


@contextmanager
def postgres(folder: Path) -> Iterator[Place]:
    """The tables are there, the log of the server elsewhere: one without a log ends."""
    with (
        small_disk(folder / "disk", 40) as disk,
        postgres_servers.serving(postgres_binaries()) as server,
    ):
        tables = disk.place / "tables"
        tables.mkdir()
        shutil.chown(tables, (server.folder / "data").owner())
        server.psql(f"CREATE TABLESPACE small LOCATION '{tables}';")
        server.psql("CREATE DATABASE small TABLESPACE small;")
        yield disk, server.url(database="small"), lambda: None


@contextmanager
def mariadb(folder: Path) -> Iterator[Place]:
    """The same. MariaDB 10.11 ends by a signal where a table can't grow: it is started again."""
    with small_disk(folder / "disk", 20) as disk, mariadb_servers.serving() as server:
        url = server.url()
        made = Path(server.socket).parent / "data" / "t0"
        shutil.move(made, disk.place / "t0")
        made.symlink_to(disk.place / "t0")

        def revive() -> None:
            server.stop(signal.SIGKILL)
            server.start()

        yield disk, url, revive


def accept_all(store: Store, accepted: list[str]) -> None:
    """Submit more than there is room for, noting what is accepted."""
    for _ in range(ENOUGH // 10):
        accepted += fill(store, 10, parameters={"much": os.urandom(1000).hex()})


@pytest.mark.long
@pytest.mark.parametrize("kind", [postgres, mariadb])
def test_a_full_disk_loses_nothing(
    kind: Callable[[Path], AbstractContextManager[Place]],
) -> None:
    # Not pytest's folder: the path of a socket has at most about a hundred characters.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with kind(Path(folder)) as (disk, url, revive):
            store = open_store(url)
            store.setup()
            register(store)
            # Given some that were accepted, and a disk that fills up
            accepted = fill(store, 2)
            disk.fill(spare=1_000_000)
            with pytest.raises((StoreUnusable, StoreUnreachable)) as raised:
                accept_all(store, accepted)
            assert raised.value.unsure or "full" in str(raised.value)
            # When there is room again
            disk.free()
            revive()
            # Then these are there, with no others but those of which nobody could know
            found = [task.id for task in take(store, limit=ENOUGH)]
            assert found[: len(accepted)] == accepted
            assert len(found) - len(accepted) in ((0, 10) if raised.value.unsure else (0,))
            # And work goes on
            fill(store, 1)
            check_counts(store)
            store.close()
