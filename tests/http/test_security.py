"""Names, sessions, forged requests, files, sizes: what somebody might try."""

from __future__ import annotations

import json
import logging
import re
import socket
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stayer.core.errors import BadConfig
from stayer.http import static
from stayer.http.login_throttle import FAILURES_PER_MINUTE
from stayer.http.token_places import TokenFile
from stayer.http.tokens import Access
from stayer.store import Store
from tests.contract.builders import PATIENCE, new, submit
from tests.http.serving import Process, Site, served_here

TASK = {"id": "t", "queue": "q"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "localhost.evil.example", "127.0.0.2", "", "[::2]", "localhost:x", "a b",
        "[localhost]evil.example", "[127.0.0.1].evil.example", "[::1]evil", "[localhost]",
        "localhost:", "localhost:123456", "user@localhost", "localhost/x", "[127.0.0.1",
    ],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_refused(site: Site, host: str) -> None:
    for path in ("/v1/tasks", "/healthz", "/docs", "/nothing"):
        site("GET", path, Host=host).is_problem(421, "misdirected", "--host-name")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST", "tasks.here"]
)
def test_names_of_ours_are_answered(tmp_path: Path, url: str, store: Store, host: str) -> None:
    with served_here(tmp_path, url, host_names=("tasks.here",)) as site:
        assert site("GET", "/healthz", Host=host).status == 200


def test_bound_everywhere_any_address_is_ours_but_no_name(
    tmp_path: Path, url: str, store: Store
) -> None:
    with served_here(tmp_path, url, host="0.0.0.0") as site:
        assert site("GET", "/healthz", Host="192.0.2.7:8787").status == 200
        site("GET", "/healthz", Host="evil.example").is_problem(421, "misdirected")


def test_every_answer_has_the_strict_headers(site: Site) -> None:
    for path in ("/v1/tasks", "/healthz", "/docs", "/nothing", "/assets/plain.css"):
        headers = site("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_other_origins_are_told_nothing(site: Site) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    reply = site("OPTIONS", "/v1/tasks", role=None, **asked)
    reply.is_problem(405, "method-not-allowed")
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_login_link_opens_one_session(process: tuple[Process, Site]) -> None:
    server, site = process
    code = urlsplit(server.link).fragment.removeprefix("code=")
    assert urlsplit(server.link).path == "/login"
    assert not urlsplit(server.link).query

    first = site("POST", "/v1/session", {"code": code}, role=None)
    again = site("POST", "/v1/session", {"code": code}, role=None)

    assert (first.json["name"], first.json["role"]) == ("login link", "operate")
    again.is_problem(401, "unauthorized", "stayer token link")
    said = first.headers["set-cookie"]
    assert all(word in said for word in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert code not in server.log.read_text()


def test_a_code_that_is_too_old_opens_nothing(site: Site) -> None:
    code = site.access.make_code(life=-1)
    site("POST", "/v1/session", {"code": code}, role=None).is_problem(401, "unauthorized")


def test_a_token_that_has_opened_opens_nothing_once_it_is_removed(site: Site) -> None:
    secret = site.access.add("bob", "submit")
    shown = f"Bearer {secret}"
    for _ in range(2):
        assert site("POST", "/v1/tasks", {}, role=None, Authorization=shown).status == 201

    site.access.remove("bob")

    reply = site("POST", "/v1/tasks", {}, role=None, Authorization=shown)
    reply.is_problem(401, "unauthorized", "opens nothing")


def raw(site: Site, lines: str) -> bytes:
    """What the server says to these bytes, until it closes."""
    host, _, port = site.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(lines.encode("latin-1"))
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("first", ["evil.example", "localhost"])
@pytest.mark.parametrize("second", ["evil.example", "localhost"])
def test_of_two_hosts_none_counts(site: Site, first: str, second: str) -> None:
    said = f"GET /healthz HTTP/1.1\r\nHost: {first}\r\nHost: {second}\r\nConnection: close\r\n\r\n"
    assert raw(site, said).startswith(b"HTTP/1.1 400 ")


def test_a_whole_url_has_to_name_the_host_that_the_header_names(site: Site) -> None:
    said = "GET http://{}/healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
    assert raw(site, said.format("localhost", "localhost")).startswith(b"HTTP/1.1 200 ")
    for url, header in (
        ("evil.example", "localhost"), ("localhost", "evil.example"), ("x@localhost", "localhost"),
    ):  # fmt: skip
        assert raw(site, said.format(url, header)).startswith(b"HTTP/1.1 400 ")
    assert raw(site, said.format("evil.example", "evil.example")).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_form_is_no_request(site: Site, store: Store, media: str) -> None:
    reply = site("POST", "/v1/tasks", TASK, Content_Type=media)
    reply.is_problem(415, "not-json", "application/json")
    assert store.get(["t"]) == [None]


def test_who_guesses_is_slowed_down_and_nobody_else(site: Site) -> None:
    replies = [
        site("POST", "/v1/session", {"code": "guess"}, role=None).status
        for _ in range(FAILURES_PER_MINUTE)
    ]
    assert set(replies) == {401}
    late = site("GET", "/v1/clock", role=None, Authorization="Bearer guess")
    late.is_problem(429, "too-many-failures")
    assert int(late.headers["retry-after"]) > 0
    assert site("GET", "/v1/clock").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/ui/..%2Fhttp%2Faccess.py", "/ui/../http/access.py", "/ui/%2e%2e/http/access.py",
        "/assets/..%2Faccess.py", "/assets/%2e%2e%2faccess.py", "/assets/.%00", "/ui/%2Fetc%2Fx",
        "/assets//etc/passwd", "/assets/..%5caccess.py", "/ui/.", "/assets/login.js%00.html",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(site: Site, path: str) -> None:
    site("GET", path, role=None).is_problem(404, "unknown-path")


def test_a_page_that_is_dropped_into_the_folder_is_served(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ui" / "parts").mkdir(parents=True)
    (tmp_path / "ui" / "index.html").write_text("<!doctype html><title>Stayer</title>")
    (tmp_path / "ui" / "parts" / "now.js").write_text("export {}")
    (tmp_path / "ui" / "secret.py").write_text("")
    monkeypatch.setattr(static, "UI", static.Folder(tmp_path / "ui"))

    home, part = site("GET", "/", role=None), site("GET", "/ui/parts/now.js", role=None)

    assert home.body.startswith(b"<!doctype html>")
    assert part.headers["content-type"] == "text/javascript; charset=utf-8"
    tag = part.headers["etag"]
    assert site("GET", "/ui/parts/now.js", role=None, If_None_Match=tag).status == 304
    site("GET", "/ui/secret.py", role=None).is_problem(404, "unknown-path")


def test_the_pages_load_nothing_from_elsewhere(site: Site) -> None:
    explained = site("GET", "/docs", role=None).body.decode()
    assert "/v1/tasks/{id}/cancel" in explained
    words = explained.partition("<h2>Records</h2>")[0]
    assert "`" not in re.sub("<pre>.*?</pre>", "", words, flags=re.DOTALL)
    for path in ("/", "/login", "/docs"):
        page = site("GET", path, role=None).body.decode()
        assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)
        for file in re.findall(r"(?:src|href)=\"([^\"#]+\.(?:js|css|svg))\"", page):
            assert site("GET", f"/{file}", role=None).status == 200, file


def test_below_a_prefix_it_works_with_and_without_it(
    tmp_path: Path, url: str, store: Store
) -> None:
    with served_here(tmp_path, url, root_path="/stayer") as site:
        assert site("GET", "/stayer/v1/clock").status == 200
        assert site("GET", "/v1/clock").status == 200
        assert site("GET", "/stayer", role=None).headers["location"] == "/stayer/"
        assert site("GET", "/stayer/", role=None).status == 200
        made = site("POST", "/stayer/v1/tasks", TASK)
        assert made.headers["location"] == "/stayer/v1/tasks/t"
        reply = site("POST", "/v1/session", {"code": site.access.make_code()}, role=None)
        assert "Path=/stayer" in reply.headers["set-cookie"]
        assert site("GET", "/stayer/openapi.json").json["servers"] == [{"url": "/stayer"}]
        site("GET", "/stayers/v1/clock").is_problem(404, "unknown-path")


def test_a_proxy_is_believed_only_if_it_is_trusted(
    tmp_path: Path, url: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stayer.audit")
    said: Any = {"X_Forwarded_For": "203.0.113.9", "X_Forwarded_Proto": "https"}
    (tmp_path / "one").mkdir()
    with served_here(tmp_path / "one", url) as site:
        site("POST", "/v1/tasks", {"id": "a"}, **said)
        plain = site("POST", "/v1/session", {"code": site.access.make_code()}, role=None, **said)
    with served_here(tmp_path, url, trusted_proxies=("127.0.0.1",)) as site:
        site("POST", "/v1/tasks", {"id": "b"}, **said)
        secure = site("POST", "/v1/session", {"code": site.access.make_code()}, role=None, **said)

    lines = [
        json.loads(record.message) for record in caplog.records if record.name == "stayer.audit"
    ]
    assert [line["from"] for line in lines] == ["127.0.0.1"] * 2 + ["203.0.113.9"] * 2
    assert "Secure" not in plain.headers["set-cookie"]
    assert "Secure" in secure.headers["set-cookie"]


def test_every_change_is_written_down(tmp_path: Path, store: Store, url: str) -> None:
    submit(store, new("a"))
    audit = tmp_path / "audit.log"
    access = Access(TokenFile(tmp_path / "access.json"))
    secret = access.add("ann", "operate")
    server = Process(tmp_path, url, "--audit-log", str(audit))
    try:
        site = Site(server.url, access, {"operate": secret})
        site("GET", "/v1/tasks")
        site("POST", "/v1/tasks/a/cancel", {"grace": "5s"})
        site("POST", "/v1/tasks/none/cancel")
        site("POST", "/v1/tasks/cancel?queue=q", role=None)
    finally:
        server.stop()

    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["who"], line["did"], line["status"]) for line in lines] == [
        ("ann", "POST /v1/tasks/a/cancel", 200),
        ("ann", "POST /v1/tasks/none/cancel", 404),
        (None, "POST /v1/tasks/cancel?queue=q", 401),
    ]
    assert all(line["at"].endswith("Z") and line["from"] == "127.0.0.1" for line in lines)
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600
    assert secret not in audit.read_text() + server.log.read_text()


def test_logins_and_logouts_are_written_down(
    tmp_path: Path, url: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stayer.audit")
    with served_here(tmp_path, url) as site:
        code = site.access.make_code()
        secret = site.access.add("ann", "read")
        by_code = site("POST", "/v1/session", {"code": code}, role=None)
        site("POST", "/v1/session", {"code": code}, role=None).is_problem(401, "unauthorized")
        by_token = site("POST", "/v1/session", {"token": secret}, role=None)
        cookie = by_token.headers["set-cookie"].partition(";")[0]
        page = by_token.json["page"]
        ended = site("DELETE", "/v1/session", role=None, Cookie=cookie, X_Stayer_Request=page)
        assert ended.status == 204
    said = [record.message for record in caplog.records if record.name == "stayer.audit"]
    lines = [json.loads(each) for each in said]
    assert by_code.json["name"] == "login link"
    assert [
        (line["who"], line["role"], line["by"], line["did"], line["status"]) for line in lines
    ] == [
        ("login link", by_code.json["role"], "login link", "POST /v1/session", 200),
        (None, None, None, "POST /v1/session", 401),
        ("ann", "read", "token", "POST /v1/session", 200),
        ("ann", "read", "session", "DELETE /v1/session", 204),
    ]
    for hidden in (code, secret, page, cookie):
        assert hidden not in "".join(said)


def test_the_file_of_tokens_keeps_no_token_and_is_private(tmp_path: Path) -> None:
    access = Access(TokenFile(tmp_path / "access.json"))
    secret, code = access.add("ann", "read"), access.make_code()
    text = Path(access.where).read_text()
    assert stat.S_IMODE(Path(access.where).stat().st_mode) == 0o600
    assert secret not in text
    assert secret.removeprefix("stayer_") not in text
    assert code not in text

    Path(access.where).chmod(0o644)
    with pytest.raises(BadConfig, match="chmod 600"):
        Access(TokenFile(Path(access.where))).tokens()


def test_a_body_that_is_too_large_is_refused(tmp_path: Path, url: str, store: Store) -> None:
    with served_here(tmp_path, url, body_limit=1000) as site:
        for body in (b"{" + b" " * 1000 + b"}", b" " * 5_000_000):
            site("POST", "/v1/tasks", body).is_problem(413, "body-too-large", "1 kB")
        with socket.create_connection(
            (urlsplit(site.url).hostname, urlsplit(site.url).port)
        ) as raw:
            raw.sendall(
                f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                f"Authorization: Bearer {site.tokens['submit']}\r\n"
                "Content-Type: application/json\r\n\r\n".encode()
            )
            for _ in range(20):
                raw.sendall(b"80\r\n" + b" " * 0x80 + b"\r\n")
            raw.sendall(b"0\r\n\r\n")
            assert raw.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_parameters_over_their_limit_are_refused(site: Site) -> None:
    site("POST", "/v1/tasks", {"parameters": "x" * 1_000_001}).is_problem(413, "too-large", "limit")
    site("POST", "/v1/tasks", [{}] * 1001).is_problem(413, "too-large", "1,000")


def test_hostile_data_is_only_data(site: Site) -> None:
    evil = "</script>/../%2e <script>alert(1)</script>?#"
    task = site("POST", "/v1/tasks", {"id": evil, "parameters": f"{evil}\u2028\r\n", "queue": "q"})
    assert task.json["id"] == evil
    assert task.headers["content-type"] == "application/json"
    assert "\n" not in task.headers["location"]
    assert site("GET", task.headers["location"]).json["id"] == evil
    site("GET", f"/v1/tasks/{'<b>'}").is_problem(404, "unknown-task", "<b>")
