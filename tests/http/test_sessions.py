"""Sessions of browsers, and tokens that expire: who is let in, for how long, and who ends it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stayer.http.token_places import TokenFile
from stayer.http.tokens import SESSION_IDLE_S, SESSION_LIFE_S, SESSIONS_PER_TOKEN, Access
from stayer.store import Store
from tests.contract.builders import get, new, submit
from tests.faults.fleet import until
from tests.http.serving import Process, Site, Visitor, log_in, make_access, served_here

TASK = {"id": "t", "queue": "q"}


def who(site: Site, visitor: Visitor) -> int:
    return site("GET", "/v1/session", role=None, **visitor.headers).status


def test_the_cookie_alone_opens_nothing(site: Site, store: Store) -> None:
    """Browsers send it to every port of the host, and so to servers of other users."""
    visitor = log_in(site)
    for path in ("/v1/session", "/v1/tasks", "/v1/events", "/metrics"):
        site("GET", path, role=None, Cookie=visitor.cookie).is_problem(401, "unauthorized")
    for word in ("1", "", visitor.cookie.partition("=")[2], "ü".encode().decode("latin-1")):
        shown: Any = {"Cookie": visitor.cookie, "X_Stayer_Request": word}
        site("GET", "/v1/tasks", role=None, **shown).is_problem(401, "unauthorized")
        site("POST", "/v1/tasks", TASK, role=None, **shown).is_problem(401, "unauthorized")
    assert store.get(["t"]) == [None]


def test_the_secret_of_the_page_alone_opens_nothing(site: Site) -> None:
    mine, theirs = log_in(site), log_in(site)
    site("GET", "/v1/session", role=None, X_Stayer_Request=mine.page).is_problem(
        401, "unauthorized"
    )
    assert who(site, Visitor(mine.cookie, theirs.page)) == 401
    assert (who(site, mine), who(site, theirs)) == (200, 200)


def test_both_open_what_the_role_allows(site: Site, store: Store) -> None:
    visitor = log_in(site)
    reply = site("POST", "/v1/tasks", TASK, role=None, Origin=site.url, **visitor.headers)
    assert reply.status == 201
    assert get(store, "t").owner == "login link"
    looking = log_in(site, "read")
    reply = site("POST", "/v1/tasks", TASK, role=None, **looking.headers)
    reply.is_problem(403, "forbidden")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://[",
        "http://localhost.x",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "http://127.0.0.1:x",
    ],
)
def test_a_change_has_to_come_from_our_own_page(site: Site, store: Store, origin: str) -> None:
    headers = log_in(site).headers
    reply = site("POST", "/v1/tasks", TASK, role=None, Origin=origin, **headers)
    reply.is_problem(403, "forbidden", "our own page")
    assert store.get(["t"]) == [None]


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://localhost", "localhost"),
        ("https://localhost", "localhost:443"),
        ("http://localhost:80", "localhost"),
        ("http://[::1]:8787", "[::1]:8787"),
    ],
)
def test_a_usual_port_may_be_left_out(site: Site, origin: str, host: str) -> None:
    headers = log_in(site).headers
    reply = site("POST", "/v1/tasks", TASK, role=None, Origin=origin, Host=host, **headers)
    assert reply.status == 201


def test_logging_out_ends_the_session_for_whoever_has_its_secrets(site: Site) -> None:
    mine, other = log_in(site), log_in(site)
    reply = site("DELETE", "/v1/session", role=None, **mine.headers)
    assert reply.status == 204
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert (who(site, mine), who(site, other)) == (401, 200)


def test_a_session_survives_a_restart(tmp_path: Path, store: Store, url: str) -> None:
    with served_here(tmp_path, url) as site:
        visitor = log_in(site)
    server = Process(tmp_path, url)
    try:
        assert who(Site(server.url, site.access), visitor) == 200
    finally:
        server.stop()


def test_a_session_ends_with_its_token(site: Site) -> None:
    removed = log_in(site, token=site.access.add("ann", "submit"))
    assert who(site, removed) == 200
    site.access.remove("ann")
    reply = site("GET", "/v1/session", role=None, **removed.headers)
    reply.is_problem(401, "unauthorized", "over")


def test_sessions_are_listed_and_ended_over_http(site: Site) -> None:
    mine, theirs = log_in(site), log_in(site, token=site.access.add("ann", "read"))
    listed = site("GET", "/v1/sessions", role=None, **mine.headers).json["sessions"]
    assert [(each["name"], each["role"], each["token"], each["this"]) for each in listed] == [
        ("login link", "operate", None, True), ("ann", "read", "ann", False),
    ]  # fmt: skip
    assert {each["address"] for each in listed} == {"127.0.0.1"}
    said = site("GET", "/v1/sessions").body.decode()
    for secret in (mine.page, mine.cookie.partition("=")[2], theirs.page):
        assert secret not in said

    assert site("DELETE", f"/v1/sessions/{listed[1]['id']}").status == 204
    assert (who(site, mine), who(site, theirs)) == (200, 401)
    site("DELETE", f"/v1/sessions/{listed[1]['id']}").is_problem(404, "unknown-session")
    site("GET", "/v1/sessions", role="submit").is_problem(403, "forbidden")


def run(folder: Path, *words: str) -> str:
    (folder / "stayer.toml").write_text(
        f'store = "sqlite:///{folder}/s.db"\n[serve]\naccess_file = "{folder}/access.json"\n'
    )
    command = [sys.executable, "-m", "stayer", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


def test_sessions_are_listed_and_ended_on_the_command_line(site: Site, tmp_path: Path) -> None:
    mine, theirs = log_in(site), log_in(site, "read")
    listed = json.loads(run(tmp_path, "token", "sessions", "--json"))
    assert [each["role"] for each in listed] == ["operate", "read"]
    assert listed[0]["id"] in run(tmp_path, "token", "sessions")
    run(tmp_path, "token", "logout", listed[1]["id"])
    assert (who(site, mine), who(site, theirs)) == (200, 401)
    run(tmp_path, "token", "logout", "--all")
    assert who(site, mine) == 401


def aged(access: Access, seconds: float) -> None:
    """As if all sessions had begun so long ago."""
    kept = json.loads(Path(access.where).read_text())
    for session in kept["sessions"]:
        session["since"] -= seconds
    Path(access.where).write_text(json.dumps(kept))


def test_a_session_that_nobody_uses_ends(site: Site) -> None:
    visitor = log_in(site)
    aged(site.access, SESSION_IDLE_S + 60)
    assert who(site, visitor) == 401
    assert site("GET", "/v1/sessions").json["sessions"] == []


def test_a_session_that_is_used_goes_on_also_at_another_server(
    tmp_path: Path, url: str, store: Store
) -> None:
    with served_here(tmp_path, url) as one:
        visitor = log_in(one)
        assert who(one, visitor) == 200
    aged(one.access, SESSION_IDLE_S + 60)  # it was begun long ago, and used just now
    assert (
        Access(TokenFile(one.access.where)).find_session(visitor.cookie.partition("=")[2])
        is not None
    )
    aged(one.access, SESSION_LIFE_S)
    assert (
        Access(TokenFile(one.access.where)).find_session(visitor.cookie.partition("=")[2]) is None
    )


def test_a_login_at_another_server_ends_no_session_that_is_in_use(tmp_path: Path) -> None:
    one = Access(TokenFile(tmp_path / "access.json"))
    used = one.open_session("ann", "read", None, "")
    aged(one, SESSION_IDLE_S + 60)
    one.note_use(used.session.id)
    one.write_uses()
    Access(TokenFile(one.where)).open_session("bob", "read", None, "")
    assert one.find_session(used.cookie) is not None


def test_one_token_opens_so_many_sessions_and_no_more(tmp_path: Path) -> None:
    access = Access(TokenFile(tmp_path / "access.json"))
    access.open_session("login link", "read", None, "")
    hash = next(iter(access.tokens()), None)
    assert hash is None
    for name in ("ann", "bob"):
        access.add(name, "read")
    ann, bob = (token.hash for token in access.tokens())
    access.open_session("bob", "read", bob, "")
    opened = [access.open_session("ann", "read", ann, "") for _ in range(SESSIONS_PER_TOKEN + 5)]
    assert len(access.sessions()) == SESSIONS_PER_TOKEN + 2
    assert access.find_session(opened[-1].cookie) is not None
    assert access.find_session(opened[0].cookie) is None


def test_a_token_expires(site: Site) -> None:
    access = site.access
    valid, expired = access.add("a", "read", life=1000), access.add("b", "read", life=-1)
    assert site("GET", "/v1/clock", role=None, Authorization=f"Bearer {valid}").status == 200
    reply = site("GET", "/v1/clock", role=None, Authorization=f"Bearer {expired}")
    reply.is_problem(401, "unauthorized", "expired")
    site("POST", "/v1/session", {"token": expired}, role=None).is_problem(401, "unauthorized")
    hash = next(token.hash for token in access.tokens() if token.name == "b")
    opened = access.open_session("b", "read", hash, "")
    assert access.find_session(opened.cookie) is None


def test_the_last_use_of_a_token_is_known(tmp_path: Path, url: str, store: Store) -> None:
    with served_here(tmp_path, url) as site:
        before = time.time()
        assert site("GET", "/v1/clock", role="read").status == 200
    shown = {each["name"]: each for each in json.loads(run(tmp_path, "token", "ls", "--json"))}
    used = shown["the read token"]["used"]
    assert used is not None
    assert used[:10] == time.strftime("%Y-%m-%d", time.gmtime(before))
    assert shown["the operate token"]["used"] is None
    assert "never" in run(tmp_path, "token", "ls")


def test_last_uses_of_several_servers_are_put_together(tmp_path: Path) -> None:
    one, _ = make_access(tmp_path)
    two = Access(TokenFile(one.where))
    by_role = {token.role: token for token in one.tokens()}
    read, submit_ = by_role["read"], by_role["submit"]
    one.note_use(read.hash)
    two.note_use(submit_.hash)
    one.note_use("of a token that is gone")
    one.write_uses()
    two.write_uses()
    third = Access(TokenFile(one.where))
    assert third.last_used_at(read) is not None
    assert third.last_used_at(submit_) is not None
    written = (tmp_path / ".access.json.used").read_text()
    assert set(json.loads(written)) == {read.hash, submit_.hash}


def test_a_damaged_list_of_uses_stops_nobody(site: Site, tmp_path: Path) -> None:
    visitor = log_in(site)
    (tmp_path / ".access.json.used").write_bytes(b"\xff{")
    assert who(site, visitor) == 200
    assert "never" in run(tmp_path, "token", "ls")
    site.access.note_use(site.access.tokens()[0].hash)
    site.access.write_uses()
    assert Access(TokenFile(site.access.where)).last_used_at(site.access.tokens()[0]) is not None


def test_an_access_file_of_before_opens_as_it_did(tmp_path: Path, url: str, store: Store) -> None:
    access, tokens = make_access(tmp_path)
    kept = json.loads(Path(access.where).read_text())
    old = {
        "key": kept["key"], "codes": [],
        "tokens": [
            {name: token[name] for name in ("name", "role", "hash", "created", "queues")}
            for token in kept["tokens"]
        ],
    }  # fmt: skip
    Path(access.where).write_text(json.dumps(old))
    found = Access(TokenFile(access.where))
    assert found.find(tokens["read"]) is not None
    assert found.sessions() == ()
    found.open_session("x", "read", None, "")
    assert Access(TokenFile(access.where)).find(tokens["operate"]) is not None


@pytest.mark.parametrize("how", ["token", "session"])
def test_an_open_stream_sends_nothing_after_its_end(site: Site, store: Store, how: str) -> None:
    secret = site.access.add("ann", "read")
    headers: Any = {"Authorization": f"Bearer {secret}"}
    if how == "session":
        headers = {**log_in(site).headers, "Authorization": ""}
    with site.stream("/v1/events", **headers) as stream:
        stream.until_id()
        submit(store, new("seen"))
        message = stream.message()
        assert message is not None
        assert message.data["id"] == "seen"
        if how == "token":
            site.access.remove("ann")
        else:
            site.access.end_sessions()
        submit(store, new("secret"))
        assert stream.message() is None


def test_who_waits_for_an_answer_gets_none_after_its_end(site: Site, store: Store) -> None:
    secret = site.access.add("ann", "read")
    shown: Any = {"Authorization": f"Bearer {secret}", "Accept": "application/json"}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site, "GET", "/v1/events?wait=60s", role=None, **shown)
        [ann] = [token for token in site.access.tokens() if token.name == "ann"]
        until(lambda: site.access.last_used_at(ann) is not None, "for the request to be there")
        site.access.remove("ann")
        secrets = (f"secret-{number}" for number in count())

        def is_answered() -> bool:
            # More than one: an event from before it began to watch does not end its wait.
            submit(store, new(next(secrets)))
            return waiting.done()

        until(is_answered, "for its answer")
        waiting.result().is_problem(401, "unauthorized")
