"""`stayer init` and `stayer config`."""

from __future__ import annotations

import os
import threading
import tomllib
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stayer.config import SETTINGS
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Apart, Here
from tests.contract.builders import get, register


def test_init_makes_the_store_and_says_where(stayer: Here, url: str, tmp_path: Path) -> None:
    assert stayer("init").works().lines[0] == f"{url} is made"
    assert (tmp_path / "stayer.db").stat().st_size > 0
    assert stayer("init").works().lines == [
        f"{url} is ready",
        "next: `stayer up` runs a worker here, `stayer add -- COMMAND` submits a task",
    ]
    with closing(open_store(url)) as store:
        register(store, "w")
    assert stayer("init").works().lines == [f"{url} is ready"]


def test_init_keeps_what_is_there(stayer: Here) -> None:
    stayer("add", "--id", "t").works()

    stayer("init").works()

    assert stayer("ls", "--ids").lines == ["t"]


def test_with_no_setting_the_store_is_in_the_users_data_folder(
    stayer: Here, environment: dict[str, str]
) -> None:
    file = Path(environment["HOME"]) / ".local/share/stayer/stayer.db"

    made = stayer("init", STAYER_STORE="").works()

    assert made.lines[0] == f"sqlite:///{file} is made"
    assert file.exists()
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_each_setting_has_a_value_and_a_source(stayer: Here, folder: Path, url: str) -> None:
    (folder / "stayer.toml").write_text('queue = "night"\nlease = "5m"\nretries = 1\n')

    found = stayer("config", "--json", STAYER_RETRIES="3", STAYER_SUBMITTER="nobody").works().json

    assert found == {
        "store": {"value": url, "source": "STAYER_STORE"},
        "queue": {"value": "night", "source": str(folder / "stayer.toml")},
        "owner": {"value": "ann", "source": "default"},
        "lease": {"value": 300.0, "source": str(folder / "stayer.toml")},
        "retries": {"value": 3, "source": "STAYER_RETRIES"},
        "submitter": {"value": "nobody", "source": "STAYER_SUBMITTER"},
        "record_commit": {"value": True, "source": "default"},
        "token": {"value": "", "source": "default"},
    }
    assert list(found) == list(SETTINGS)


def test_the_table_says_the_same(stayer: Here) -> None:
    rows = {line.split()[0]: line for line in stayer("config").works().lines}

    assert list(rows) == ["SETTING", *SETTINGS]
    assert "STAYER_STORE" in rows["store"]
    assert "2m 00s" in rows["lease"]


def test_a_flag_goes_before_everything_on_either_side_of_the_verb(
    stayer: Here, folder: Path
) -> None:
    (folder / "other.toml").write_text('queue = "other"\nstore = "sqlite:///file.db"\n')

    before = stayer("--store", "sqlite:///b.db", "--config", "other.toml", "config", "--json")
    after = stayer("config", "--json", "--store", "sqlite:///b.db", "--config", "other.toml")
    both = stayer("--store", "sqlite:///a.db", "config", "--store", "sqlite:///b.db", "--json")

    assert before.works().json == after.works().json
    assert before.json["store"] == {"value": "sqlite:///b.db", "source": "--store"}
    assert before.json["queue"]["value"] == "other"
    assert both.works().json["store"]["value"] == "sqlite:///b.db"


def test_a_password_is_not_shown(stayer: Here) -> None:
    shown = stayer("config", "--store", "sqlite://ann:s3cret@host/db")

    assert "s3cret" not in shown.works().out
    assert "sqlite://ann:***@host/db" in shown.out


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("redis://:s3/cret@host/0", "redis://:***@host/0"),
        ("redis://host?password=s3@cret&wait=1", "redis://host?password=***&wait=1"),
        (
            "redis+sentinel://:s3cret@host/films?wait=1&sentinel_password=s3cret",
            "redis+sentinel://:***@host/films?wait=1&sentinel_password=***",
        ),
    ],
)
def test_nor_is_one_that_is_said_in_another_way(stayer: Here, url: str, seen: str) -> None:
    shown = stayer("config", "--store", url)

    assert "s3" not in shown.works().out
    assert "cret" not in shown.out
    assert f"{seen} " in shown.out


def test_write_makes_a_file_that_gives_the_same_settings(
    stayer: Here, folder: Path, url: str
) -> None:
    done = stayer("config", "--write", "sub/my.toml", STAYER_QUEUE="night")

    assert done.works().out == "sub/my.toml is written\n"
    assert tomllib.loads((folder / "sub/my.toml").read_text()) == {"store": url, "queue": "night"}
    again = stayer("--config", "sub/my.toml", "config", "--json", STAYER_STORE="")
    assert again.works().json["queue"]["value"] == "night"
    assert again.json["store"]["value"] == url


def test_write_takes_the_options_of_a_worker(stayer: Here, folder: Path, url: str) -> None:
    (folder / "stayer.toml").write_text("[worker]\nslots = 2\nevenly = true\n")
    options = ["-q", "a", "-q", "b", "--slots", "4", "--time-limit", "2h", "--allow-commands", "-v"]
    stayer("config", "--write", "my.toml", *options).works()
    assert tomllib.loads((folder / "my.toml").read_text())["worker"] == {
        "queues": ["a", "b"], "slots": 4, "time_limit": 7200, "allow_commands": True,
        "evenly": True, "log_level": "debug",
    }  # fmt: skip
    stayer("--config", "my.toml", "config", "--json", STAYER_STORE="").works()
    stayer("config", "--slots", "4").refuses("--slots is for --write")
    stayer("config", "--write", "no.toml", "--take-over").refuses("--take-over")
    stayer("config", "--write", "no.toml", "--heartbeat", "1h").refuses("longer lease")
    assert not (folder / "no.toml").exists()


def test_write_replaces_nothing_unless_forced(stayer: Here, folder: Path) -> None:
    (folder / "my.toml").write_text("precious")

    stayer("config", "--write", "my.toml").refuses("my.toml", "there already", "force")
    assert (folder / "my.toml").read_text() == "precious"

    stayer("config", "--write", "my.toml", "--force").works()
    assert "store" in (folder / "my.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--config", "missing.toml"], {}, ["--config", "missing.toml"]),
        (["--config", "."], {}, ["--config"]),
        (["--store", "nonsense"], {}, ["--store", "not the URL of a store"]),
        (["--store", "oracle://x"], {}, ["unknown kind", "sqlite"]),
        (["--store", ""], {}, ["--store"]),
        ([], {"STAYER_STORE": "x"}, ["STAYER_STORE", "not the URL"]),
        ([], {"STAYER_LEASE": "1s"}, ["STAYER_LEASE", "too short"]),
        ([], {"STAYER_CONFIG": "missing.toml"}, ["STAYER_CONFIG", "missing.toml"]),
    ],
)
def test_a_bad_setting_is_one_line_for_every_command(
    stayer: Here, arguments: list[str], variables: dict[str, str], words: list[str]
) -> None:
    stayer("ls", *arguments, **variables).refuses(*words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"queue = ", ["not TOML"]),
        (b'queu = "x"', ["'queu'", "'queue'"]),
        (b"queue = 7", ["queue"]),
        (b"lease = true", ["lease"]),
        (b"\xff", ["UTF-8"]),
    ],
)
def test_a_bad_file_is_one_line(
    stayer: Here, folder: Path, content: bytes, words: list[str]
) -> None:
    (folder / "stayer.toml").write_bytes(content)

    stayer("ls").refuses("stayer.toml", *words)


def test_a_file_that_can_not_be_written_is_one_line(stayer: Here) -> None:
    stayer("config", "--write", "/proc/no/such.toml").refuses("/proc/no/such.toml")
    stayer("config", "--write", os.curdir).refuses(".")


def test_a_directory_that_is_gone_matters_only_to_what_is_in_it(
    apart: Apart, folder: Path, url: str
) -> None:
    leave = ("sh", "-c", f'rmdir {folder} && exec "$@"', "sh")

    apart("init", "--store", "sqlite:///here.db", before=leave).refuses("directory is gone")
    folder.mkdir()
    apart("init", "--store", url, before=leave).works()


def test_a_file_here_that_others_may_write_is_passed_over_and_named(
    stayer: Here, folder: Path, store: Store
) -> None:
    file = folder / "stayer.toml"
    file.write_text('queue = "theirs"\n')
    file.chmod(0o666)

    done = stayer("add", "--name", "f").works(note=f"not read: {file}: every user may write it")
    assert done.err.count("\n") == 1
    assert get(store, done.out.strip()).queue == "default"
    assert "not read" in stayer("config", "--json").err
    doctor = {each["check"]: each for each in stayer("doctor", "--json").json}
    assert doctor["file here"]["status"] == "warn"
    assert str(file) in doctor["file here"]["message"]


def test_a_token_is_not_sent_to_a_server_that_a_file_here_names(apart: Apart, folder: Path) -> None:
    heard: list[str | None] = []

    class Mallory(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("authorization"))
            self.send_error(500)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mallory)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    (folder / "stayer.toml").write_text(f'store = "{address}"\n')
    given = {"STAYER_STORE": "", "STAYER_TOKEN": "secret"}
    try:
        done = apart("ls", environment=given)
        assert not any(heard), heard
        done.refuses("STAYER_TOKEN is not sent", address, "--store")
        assert "secret" not in done.err
        apart("ls", "--store", address, environment=given)
        assert "Bearer secret" in heard
    finally:
        server.shutdown()
        server.server_close()
