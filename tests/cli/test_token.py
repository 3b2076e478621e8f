"""`stayer token`, and what `stayer serve` refuses."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from stayer.http.token_places import TokenFile, TokensInStore
from stayer.http.tokens import Access
from stayer.store import Store
from tests.cli.running import Here


def kept(store: Store) -> Access:
    return Access(TokensInStore(store))


def test_a_token_is_printed_once_and_kept_hashed(stayer: Here, store: Store) -> None:
    made = stayer("token", "add", "ann", "--role", "submit").works(f"saved in {store.url}")
    secret = made.out.strip()
    found = kept(store).find(secret)
    assert found is not None
    assert (found.name, found.role) == ("ann", "submit")
    assert secret not in str(store.read_shared("access"))
    stayer("token", "add", "ann", "--role", "read").refuses("'ann'", "stayer token rm ann")
    listed = stayer("token", "ls", "--json").works().json
    assert [(token["name"], token["role"]) for token in listed] == [("ann", "submit")]
    assert "ann" in stayer("token", "ls").works().out
    assert stayer("token", "rm", "ann").works().lines == ["ann removed"]
    assert kept(store).find(secret) is None
    stayer("token", "rm", "ann").refuses("'ann'", "there are none")


def test_bad_tokens_are_refused(stayer: Here) -> None:
    stayer("token", "add", "ann").refuses("--role")
    stayer("token", "add", "ann", "--role", "king").refuses("'king'")
    stayer("token", "add", " ", "--role", "read").refuses("name")
    assert stayer("token", "ls").err.startswith("stayer: no tokens in")


def test_tokens_may_be_in_a_file(stayer: Here, store: Store, folder: Path) -> None:
    (folder / "stayer.toml").write_text(
        '[serve]\nport = 9000\nhost_names = ["tasks.here"]\naccess_file = "a.json"\n'
    )
    secret = stayer("token", "add", "ann", "--role", "read").works("saved in").out.strip()
    file = folder / "a.json"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert secret not in file.read_text()
    link = stayer("token", "link", "--role", "read").works("saved in").out.strip()
    assert link.startswith("http://tasks.here:9000/login#code=")
    access = Access(TokenFile(file))
    assert access.find(secret) is not None
    assert access.take_code(link.rpartition("=")[2]) == "read"
    assert kept(store).tokens() == ()


def test_a_file_of_before_is_copied_to_the_store_once(
    stayer: Here, store: Store, environment: dict[str, str]
) -> None:
    former = Path(environment["HOME"]) / ".config" / "stayer" / "stayer.access.json"
    before = Access(TokenFile(former))
    ann, bob = (before.add(name, "read") for name in ("ann", "bob"))
    opened = before.open_session("ann", "read", before.tokens()[0].hash, "")
    other = kept(store).add("ann", "submit")

    listed = stayer("token", "ls", "--json").works(f"2 tokens copied from {former}").json
    assert [token["name"] for token in listed] == ["ann", "ann-2", "bob"]
    access = kept(store)
    assert access.find_session(opened.cookie) is not None
    assert [access.find(secret) is not None for secret in (ann, bob, other)] == [True] * 3

    stayer("token", "rm", "bob").works()
    assert "copied" not in stayer("token", "ls").works().err
    assert kept(store).find(bob) is None


def test_tokens_of_a_server_are_made_where_its_database_is(stayer: Here) -> None:
    made = stayer("--store", "http://127.0.0.1:1", "token", "add", "ann", "--role", "read")
    made.refuses("is a server", "--store")


def test_serve_says_what_is_wrong(stayer: Here, folder: Path) -> None:
    stayer("init").works()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        stayer("serve", "--port", port).refuses("can't listen", "--port")
    stayer("serve", "--root-path", "stayer").refuses("--root-path", "/stayer")
    stayer("serve", "--audit-log", "none/audit.log", "--port", "0").refuses("--audit-log")
    (folder / "stayer.toml").write_text("[serve]\nprot = 9000\n")
    stayer("serve").refuses("'prot'", "'port'")
    (folder / "stayer.toml").write_text("[serve]\nport = 99999\n")
    stayer("serve").refuses("serve.port", "65535")


def test_the_token_is_not_shown_by_config(stayer: Here) -> None:
    shown = stayer("config", "--json", STAYER_TOKEN="stayer_secret").works()
    assert shown.json["token"] == {"value": "***", "source": "STAYER_TOKEN"}
    assert "secret" not in stayer("config", STAYER_TOKEN="stayer_secret").works().out
