"""`stayer serve` itself: what it prints, what it warns of, and https of its own."""

from __future__ import annotations

import http.client
import os
import pty
import shutil
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stayer.http.limits import Limits
from stayer.service.notify.webhook import Forbidden, check_host
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.remote.store import PlainHttpWarning
from tests.contract.builders import PATIENCE
from tests.http.serving import Process, Site, make_access, served_here
from tests.servers.finding import missing


@contextmanager
def serving(folder: Path, stdout: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable, "-m", "stayer", "serve", "--store", f"sqlite:///{folder}/s.db", "--port",
        "0", "--access-file", str(folder / "access.json"), *options,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def first_lines(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline() + process.stdout.readline()


def test_a_login_link_is_not_printed_into_a_log(tmp_path: Path) -> None:
    with serving(tmp_path, subprocess.PIPE) as process:
        said = first_lines(process)
    assert "serving " in said
    assert "code=" not in said
    assert "stayer token link" in said


def test_a_login_link_is_printed_for_who_asks(tmp_path: Path) -> None:
    with serving(tmp_path, subprocess.PIPE, "--login-link") as process:
        assert "/login#code=" in first_lines(process)


def test_a_login_link_is_printed_on_a_terminal(tmp_path: Path) -> None:
    here, there = pty.openpty()
    try:
        with serving(tmp_path, there), open(here, closefd=False) as terminal:
            said = terminal.readline() + terminal.readline()
    finally:
        os.close(there)
        os.close(here)
    assert "/login#code=" in said


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_plain_http_for_other_machines_is_warned_of(
    tmp_path: Path, host: str, warned: bool
) -> None:
    with serving(tmp_path, subprocess.PIPE, "--host", host) as process:
        first_lines(process)
        assert process.stderr is not None
        said = process.stderr.readline()
    assert ("not encrypted" in said) == warned


def test_a_token_over_plain_http_is_warned_of() -> None:
    with pytest.warns(PlainHttpWarning, match="https"):
        open_store("http://tasks.example.org:8787", token="secret").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for url in ("https://tasks.example.org", "http://localhost:1", "http://127.0.0.1:1",
                    "http://[::1]:1", "http://x.localhost"):  # fmt: skip
            open_store(url, token="secret").close()
        open_store("http://tasks.example.org").close()


def test_the_command_line_warns_of_it_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stayer", "ls", "--store", "http://stayer.invalid:1"],
        env={**os.environ, "STAYER_TOKEN": "secret", "HOME": str(tmp_path)}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "stayer: warning: http://stayer.invalid:1 is not encrypted" in done.stderr
    assert "secret" not in done.stderr


@pytest.fixture
def secure(tmp_path: Path, url: str, store: Store) -> Iterator[Site]:
    """Https of its own, under the name tasks.here."""
    if shutil.which("openssl") is None:
        missing("TLS", "install openssl")
    public, private = tmp_path / "certificate", tmp_path / "key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=tasks.here", "-keyout", str(private), "-out", str(public)],
        check=True, capture_output=True,
    )  # fmt: skip
    with served_here(
        tmp_path, url, certificate=str(public), private_key=str(private),
        host_names=("tasks.here",), limits=Limits(header_time=0.5),
    ) as site:  # fmt: skip
        yield site


def test_browsers_are_told_to_stay_with_https(secure: Site) -> None:
    for host, wanted in (("tasks.here", "max-age=31536000"), ("localhost", None)):
        connection = http.client.HTTPSConnection(
            secure.host, timeout=PATIENCE, context=ssl._create_unverified_context()
        )
        with closing(connection):
            connection.request("GET", "/healthz", headers={"Host": host})
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Strict-Transport-Security")) == (200, wanted)


def test_a_handshake_that_does_not_end_is_closed(secure: Site) -> None:
    host, _, port = secure.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as silent:
        assert silent.recv(100) == b""


def test_without_https_nothing_is_said_of_it(site: Site) -> None:
    assert "strict-transport-security" not in site("GET", "/healthz").headers


def test_what_a_name_means_inside_is_not_told() -> None:
    with pytest.raises(Forbidden) as found:
        check_host(None, "db.corp", ["203.0.113.1", "10.1.2.3"])
    assert "db.corp" in str(found.value)
    assert "10.1.2.3" not in str(found.value)


def test_nothing_unprintable_reaches_the_audit_log(tmp_path: Path, url: str, store: Store) -> None:
    access, tokens = make_access(tmp_path)
    server = Process(tmp_path, url, "--audit-log", str(tmp_path / "audit.log"))
    try:
        host, port = "127.0.0.1", server.port
        for path in (
            b"/v1/tasks/\x7f\x9b31m/cancel",
            b"/v1/tasks/a/cancel?x=\xc2\x9b\x7f\xe2\x80\xae",
        ):
            with socket.create_connection((host, port), timeout=PATIENCE) as raw:
                raw.sendall(
                    b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    b"Authorization: Bearer " + tokens["operate"].encode() + b"\r\n\r\n"
                )
                raw.recv(65536)
        site = Site(server.url, access, tokens)
        site("POST", "/v1/tasks/%1b%5b31m%0a/cancel?%1b")
    finally:
        server.stop()
    written = (tmp_path / "audit.log").read_text() + server.log.read_text()
    assert "/cancel" in written
    assert all(line.isprintable() for line in written.splitlines())
