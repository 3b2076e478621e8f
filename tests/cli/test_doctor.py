"""`stayer doctor`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from stayer.cli import doctor
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import fill, register

CHECKS = [
    "versions", "settings", "permissions", "disk", "file system", "store", "integrity", "damage",
    "counters", "clock", "workers",
]  # fmt: skip


def execute(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "stayer.db") as database:
        database.execute(statement)
    database.close()


def findings(stayer: Here, code: int) -> dict[str, Any]:
    done = stayer("doctor", "--json")
    assert (done.code, done.err) == (code, ""), done
    return {finding["check"]: finding for finding in done.json}


def test_a_healthy_store_is_ok_in_every_way(stayer: Here, store: Store) -> None:
    fill(store, 3)
    register(store, "w")

    found = findings(stayer, 0)

    assert list(found) == CHECKS
    assert {finding["status"] for finding in found.values()} == {"ok"}
    assert list(found["store"]) == ["check", "status", "message", "todo"]
    assert "3 tasks" in found["counters"]["message"]
    assert f"SQLite {sqlite3.sqlite_version}" in found["versions"]["message"]


def test_people_get_a_line_a_check(stayer: Here, store: Store) -> None:
    register(store, "w")
    lines = stayer("doctor").works().lines

    assert len(lines) == len(CHECKS)
    assert all(line.startswith("ok    ") for line in lines)


def test_no_store_is_a_failure_and_none_is_made(stayer: Here, tmp_path: Path) -> None:
    found = findings(stayer, 1)

    assert found["file"]["status"] == "fail"
    assert "stayer init" in found["file"]["todo"]
    assert not (tmp_path / "stayer.db").exists()


def test_who_has_no_worker_hears_how_to_start_one(stayer: Here, store: Store) -> None:
    found = findings(stayer, 0)["workers"]
    assert (found["status"], "no worker yet" in found["message"]) == ("ok", True)
    assert "stayer up" in found["todo"]

    fill(store, 3)
    found = findings(stayer, 0)["workers"]
    assert (found["status"], found["message"]) == ("warn", "no worker, and 3 tasks to run")


def test_no_folder_is_a_failure(stayer: Here) -> None:
    done = stayer("doctor", "--store", "sqlite:////no/such/folder/x.db")

    assert done.code == 1
    assert "make the folder /no/such/folder" in done.out


def test_a_bad_setting_is_a_failure(stayer: Here) -> None:
    done = stayer("doctor", "--store", "nonsense")

    assert done.code == 1
    assert "fail  settings     --store: 'nonsense' is not the URL of a store" in done.out


def test_what_is_not_a_database_is_a_failure(stayer: Here, tmp_path: Path) -> None:
    (tmp_path / "stayer.db").write_text("precious text " * 100)

    assert "not a database" in findings(stayer, 1)["store"]["message"]


def test_a_newer_store_is_a_failure(stayer: Here, store: Store, tmp_path: Path) -> None:
    execute(tmp_path, "UPDATE stayer_meta SET value = '99' WHERE key = 'schema'")

    assert "newer Stayer" in findings(stayer, 1)["store"]["message"]


def test_damage_is_a_failure(stayer: Here, store: Store, tmp_path: Path) -> None:
    # Given a store whose pages, but for the first ones, are overwritten
    fill(store, 500, parameters="x" * 300)
    store.close()
    execute(tmp_path, "PRAGMA wal_checkpoint(TRUNCATE)")
    file = tmp_path / "stayer.db"
    content = bytearray(file.read_bytes())
    content[40_000:200_000] = b"\xa5" * 160_000
    file.write_bytes(content)

    # Then the doctor finds it
    found = findings(stayer, 1)
    assert any(
        finding["status"] == "fail" and "damaged" in finding["message"]
        for finding in found.values()
    )


def test_counters_that_are_wrong_are_a_warning(stayer: Here, store: Store, tmp_path: Path) -> None:
    fill(store, 1)
    execute(tmp_path, "UPDATE stayer_queues SET pending = 7, failed = 1")

    found = findings(stayer, 0)["counters"]

    assert (found["status"], found["message"]) == ("warn", "wrong for q")


def test_a_stale_worker_is_a_warning(stayer: Here, store: Store, tmp_path: Path) -> None:
    register(store, "gone")
    execute(tmp_path, "UPDATE stayer_workers SET lease_end = 1")

    found = findings(stayer, 0)["workers"]

    assert found["status"] == "warn"
    assert "gone" in found["message"]
    assert "workers rm" in found["todo"]


def test_a_node_whose_worker_was_lost_is_a_warning_until_there_is_one_again(
    stayer: Here, store: Store
) -> None:
    for name in ("lost", "alive"):
        register(store, name)
    store.declare_lost("alive", {"lost": 1})
    found = findings(stayer, 0)["down"]
    assert found["status"] == "warn"
    assert "node-of-lost: no heartbeat for" in found["message"]

    register(store, "new", node="node-of-lost")
    assert findings(stayer, 0)["down"]["status"] == "ok"


@pytest.mark.parametrize(("free", "status"), [(2e9, "ok"), (5e8, "warn"), (1e6, "fail")])
def test_little_space_is_a_warning_and_none_a_failure(
    stayer: Here, store: Store, monkeypatch: pytest.MonkeyPatch, free: float, status: str
) -> None:
    monkeypatch.setattr(doctor, "_free", lambda folder: free)

    assert findings(stayer, int(status == "fail"))["disk"]["status"] == status


def test_a_network_file_system_is_a_warning(
    stayer: Here, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw\n2 1 0:5 / {tmp_path} rw - nfs4 host:/x rw\n"
    )
    monkeypatch.setattr(doctor, "_MOUNTS", str(mounts))

    found = findings(stayer, 0)["file system"]

    assert found["status"] == "warn"
    assert "nfs4" in found["message"]


def test_clocks_that_disagree_are_a_warning(
    stayer: Here, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_local_clock", lambda: store.now() - 90)

    found = findings(stayer, 0)["clock"]

    assert found["status"] == "warn"
    assert "1m 30s ahead of" in found["message"]


def test_a_store_that_others_can_read_is_a_warning(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "stayer.db").chmod(0o644)

    found = findings(stayer, 0)["permissions"]

    assert (found["status"], "every user can read" in found["message"]) == ("warn", True)
    assert found["todo"] == f"chmod 600 {tmp_path}/stayer.db*"


def test_a_store_that_others_can_write_is_a_failure(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "stayer.db").chmod(0o666)

    found = findings(stayer, 1)["permissions"]

    assert (found["status"], "every user may write it" in found["message"]) == ("fail", True)


@pytest.mark.parametrize(
    "line",
    [
        'store = "redis://:hush@127.0.0.1:1/0"',
        'token = "hush"',
        '[notices]\nsecret = "whsec_aHVzaGh1c2hodXNoaHVzaGh1c2hodXNo"',
    ],
)
def test_a_secret_in_a_file_that_others_can_read_is_a_warning(
    stayer: Here, store: Store, folder: Path, line: str
) -> None:
    file = folder / "stayer.toml"
    file.write_text(f"{line}\n")
    own = {"STAYER_STORE": ""} if line.startswith("store") else {}

    def secrets(mode: int) -> list[dict[str, Any]]:
        file.chmod(mode)
        done = stayer("doctor", "--json", **own)
        assert "hush" not in done.out
        return [finding for finding in done.json if finding["check"] == "secrets"]

    [found] = secrets(0o644)
    assert (found["status"], found["todo"]) == ("warn", f"chmod 600 {file}")
    assert not secrets(0o600)


def test_a_password_on_the_command_line_is_a_warning(stayer: Here) -> None:
    done = stayer("doctor", "--json", "--store", "redis://:hush@127.0.0.1:1/0")
    [found] = [finding for finding in done.json if finding["check"] == "secrets"]
    assert (found["status"], "ps" in found["message"]) == ("warn", True)
    assert "password_file" in found["todo"]
    assert "hush" not in done.out
