"""`stayer token`, and what `stayer serve` refuses."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from stayer.http.tokens import Access
from tests.cli.running import Here


def kept(environment: dict[str, str]) -> Access:
    return Access(Path(environment["HOME"]) / ".config" / "stayer" / "stayer.access.json")


def test_a_token_is_printed_once_and_kept_hashed(stayer: Here, environment: dict[str, str]) -> None:
    access = kept(environment)
    made = stayer("token", "add", "ann", "--role", "submit").works(f"saved to {access.path}")
    secret = made.out.strip()
    found = access.find(secret)
    assert found is not None
    assert (found.name, found.role) == ("ann", "submit")
    assert secret not in access.path.read_text()
    assert stat.S_IMODE(os.stat(access.path).st_mode) == 0o600
    stayer("token", "add", "ann", "--role", "read").refuses("'ann'", "stayer token rm ann")
    listed = stayer("token", "ls", "--json").works().json
    assert [(token["name"], token["role"]) for token in listed] == [("ann", "submit")]
    assert "ann" in stayer("token", "ls").works().out
    assert stayer("token", "rm", "ann").works().lines == ["ann removed"]
    assert kept(environment).find(secret) is None
    stayer("token", "rm", "ann").refuses("'ann'", "there are none")


def test_bad_tokens_are_refused(stayer: Here) -> None:
    stayer("token", "add", "ann").refuses("--role")
    stayer("token", "add", "ann", "--role", "king").refuses("'king'")
    stayer("token", "add", " ", "--role", "read").refuses("name")
    assert stayer("token", "ls").err.startswith("stayer: no tokens in")


def test_tokens_are_beside_the_file_of_settings(stayer: Here, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[serve]\nport = 9000\nhost_names = ["tasks.here"]\n')
    stayer("token", "add", "ann", "--role", "read").works("saved to")
    assert (folder / "stayer.access.json").exists()
    link = stayer("token", "link", "--role", "read").works("saved to").out.strip()
    assert link.startswith("http://tasks.here:9000/login#code=")
    assert Access(folder / "stayer.access.json").take_code(link.rpartition("=")[2]) == "read"
    other = stayer("token", "link", "--url", "https://x.org/stayer/").works("saved to").out
    assert other.startswith("https://x.org/stayer/login#code=")


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
