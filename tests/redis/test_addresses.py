"""The ways to a server: a socket file (all other tests), TCP, and TLS."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stayer.core.errors import BadConfig, StoreUnreachable, StoreUnusable
from stayer.core.happenings import Done
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import PATIENCE, apply, fill, ids, in_thread, register, take
from tests.contract.test_waiter import calm
from tests.servers.finding import missing
from tests.servers.redis import RedisServer, free_port

Starts = Callable[..., RedisServer]


def try_out(url: str) -> None:
    """Submit, wake, take, finish, watch."""
    store, other = open_store(url), open_store(url)
    store.setup()
    register(store)
    waiter = store.waiter("w", ["q"])
    calm(waiter)
    woken = in_thread(lambda: waiter.wait(PATIENCE))
    names = fill(other, 1, parameters="x" * 100_000)
    assert woken()
    [task] = take(store)
    assert (ids([task]), task.parameters) == (names, "x" * 100_000)
    since = store.last_event()
    seen = in_thread(lambda: other.watch(since, PATIENCE, 10))
    apply(store, task, Done())
    assert [event.event for event in seen()] == ["complete"]
    waiter.close()
    store.close()
    other.close()


def test_tcp(own_server: Starts) -> None:
    port = free_port()
    own_server("--port", str(port), "--bind", "127.0.0.1")
    try_out(f"redis://127.0.0.1:{port}/3")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    if shutil.which("openssl") is None:
        missing("TLS", "install openssl")
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
            "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
            "-out", str(certificate),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture
def tls(own_server: Starts, certificate: tuple[Path, Path]) -> str:
    """Where a server is that speaks nothing else."""
    return f"127.0.0.1:{with_tls(own_server, certificate, '--tls-auth-clients', 'no')}"


def with_tls(own_server: Starts, certificate: tuple[Path, Path], *options: str) -> int:
    public, private = certificate
    port = free_port()
    own_server(
        "--tls-port", str(port), "--tls-cert-file", str(public), "--tls-key-file", str(private),
        "--tls-ca-cert-file", str(public), *options,
    )  # fmt: skip
    return port


def test_tls(tls: str, certificate: tuple[Path, Path]) -> None:
    try_out(f"rediss://{tls}?ssl_ca_certs={certificate[0]}")
    try_out(f"rediss://{tls}?ssl_cert_reqs=none")
    with pytest.raises(StoreUnreachable, match=r"not trusted here .* ssl_ca_certs"):
        open_store(f"rediss://{tls}").now()


def test_a_server_may_want_a_certificate_of_its_clients(
    own_server: Starts, certificate: tuple[Path, Path]
) -> None:
    public, private = certificate
    url = f"rediss://127.0.0.1:{with_tls(own_server, certificate)}?ssl_ca_certs={public}"
    try_out(f"{url}&ssl_certfile={public}&ssl_keyfile={private}")
    with pytest.raises(StoreUnreachable, match=r"want a certificate .*ssl_certfile=…"):
        open_store(url).setup()


def test_a_port_without_tls_is_not_waited_for_long(own_server: Starts) -> None:
    port = free_port()
    own_server("--port", str(port), "--bind", "127.0.0.1")
    store = open_store(f"rediss://127.0.0.1:{port}?socket_connect_timeout=1&socket_timeout=3600")
    opened = in_thread(store.setup)
    with pytest.raises(StoreUnreachable) as refused:
        opened()
    assert "nothing was asked of it" in str(refused.value)
    assert "Does that port speak TLS? If not, write redis://" in str(refused.value)


@pytest.mark.parametrize("login", ["", ":password@"])
def test_a_port_with_tls_is_told_of(tls: str, login: str) -> None:
    with pytest.raises(StoreUnreachable) as refused:
        open_store(f"redis://{login}{tls}").setup()
    assert str(refused.value).count("Does that port speak TLS? Then write rediss://") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ssl_ca_certs=/nowhere", "ssl_ca_certs: there is no file /nowhere"),
        ("ssl_ca_certs={key}", "ssl_ca_certs: {key} has no certificates in PEM format"),
        ("ssl_ca_path=/nowhere", "ssl_ca_path: there is no folder /nowhere"),
        ("ssl_keyfile={key}", "ssl_keyfile needs ssl_certfile"),
        ("ssl_certfile={public}&ssl_keyfile={public}", "no certificate and its key in PEM format"),
        ("ssl_cert_reqs=maybe", "ssl_cert_reqs is one of required, optional, none"),
    ],
)
@pytest.mark.parametrize("scheme", ["rediss", "rediss+sentinel", "rediss+cluster"])
def test_files_are_looked_at_before_a_server_is(
    certificate: tuple[Path, Path], scheme: str, options: str, said: str
) -> None:
    public, key = certificate
    service = "/films" if "sentinel" in scheme else ""
    with pytest.raises(BadConfig) as refused:
        open_store(f"{scheme}://127.0.0.1:1{service}?{options.format(public=public, key=key)}")
    assert said.format(key=key) in str(refused.value)


@pytest.mark.parametrize(
    "login",
    [
        ":hid/den", "u:hid?den", ":hid#den", "us/er:hidden", ":/hid@den", ":hid@den/x#y",
        ":hid@den?x", ":hid@den?x=1", ":hid@den#x", ":1234?hidden",
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "rediss+sentinel"])
def test_a_password_that_is_cut_is_told_of_and_not_told(scheme: str, login: str) -> None:
    with pytest.raises(BadConfig) as refused:
        open_store(f"{scheme}://{login}@example.com:6379/0")
    said = f"store {scheme}://…: write @ / ? # in a user or password as %40 %2F %3F %23"
    assert str(refused.value) == said


def test_nor_that_of_a_socket() -> None:
    with pytest.raises(BadConfig, match="unix://…: write @"):
        open_store("unix://:hid/den@/run/socket")


def test_a_password_in_percent_code_is_that_password(own_server: Starts) -> None:
    port = free_port()
    own_server("--port", str(port), "--bind", "127.0.0.1", "--user", "u", "on", ">p@s/[w#℀", "~*",
               "&*", "+@all")  # fmt: skip
    try_out(f"redis://u:p%40s%2F%5Bw%23%E2%84%80@127.0.0.1:{port}")
    try_out(f"redis://u:p@s%2F[w%23℀@127.0.0.1:{port}")


@pytest.mark.parametrize(
    "url",
    [
        "redis://:p%2Fs@example.com/0?client_name=a@b", "redis://[::1]:6379/1?password=p@s",
        "redis://example.com?password=p@s/s", "unix:///run/a@b/socket", "redis:///?password=a@b",
        "redis+sentinel://a:26379,b/films?sentinel_password=p@s",
    ],
)  # fmt: skip
def test_what_else_has_an_at_is_understood(url: str) -> None:
    store = open_store(url)
    assert isinstance(store, RedisStore)
    assert not re.search("p@s|p%2Fs", store.url)
    store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://example.com/films", "a database has a number: write redis://host:6379/0"),
        ("redis://example.com?colour=red", "no option is called 'colour'"),
        ("redis://a?ssl_cert_reqs=none", "called 'ssl_cert_reqs': for TLS write rediss, not redis"),
        ("redis://:pw@a,b:1", "store redis://a,b:1: one server has one host; for several write re"),
        ("redis://a:99999", "there is no port 99999: they go up to 65535"),
        ("redis+cluster://a:0", "there is no port 0"),
        ("redis://a:b", "'a:b' is no host: write redis://host:6379/0"),
        ("redis:/u:pw@a", "store redis://…: write two slashes behind the colon, such as redis://h"),
        ("redis//a", "store 'redis//a' is not a URL: for a SQLite file write"),
        ("redis//u:pw@a", "store … is not a URL: for a SQLite file write"),
        ("unix://run/socket", "three slashes: unix:///run/socket"),
    ],
)
def test_a_bad_url_says_what_is_wrong(url: str, said: str) -> None:
    with pytest.raises(BadConfig) as refused:
        open_store(url)
    assert said in str(refused.value)


def test_how_answers_are_read_is_not_up_to_the_url(shared_server: RedisServer) -> None:
    try_out(f"{shared_server.url()}&decode_responses=true")


def test_a_server_of_its_own_is_no_cluster(own_server: Starts) -> None:
    port = free_port()
    own_server("--port", str(port), "--bind", "127.0.0.1")
    with pytest.raises(StoreUnusable, match="not a node of a cluster: write redis://"):
        open_store(f"redis+cluster://127.0.0.1:{port}").queues()


def test_a_password_may_be_in_a_file(own_server: Starts, tmp_path: Path) -> None:
    server = own_server()
    admin = open_store(server.url("admin"))
    assert isinstance(admin, RedisStore)
    admin._server.ask("CONFIG", "SET", "requirepass", "p@ss word/1")
    file = tmp_path / "redis@password"
    file.write_text("p@ss word/1\n")
    file.chmod(0o600)

    try_out(f"{server.url('q')}&password_file={file}")

    file.write_text("another\n")
    with pytest.raises((StoreUnusable, StoreUnreachable, BadConfig), match="password"):
        open_store(f"{server.url('q')}&password_file={file}").setup()


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o600, "one line"),
        (b"a\nb\n", 0o600, "one line"),
        (b"\xff\xfe\n", 0o600, "not UTF-8"),
        (b"x" * 20_000, 0o600, "one line"),
        (b"secret", 0o666, "every user may write it"),
    ],
)
def test_a_password_file_that_makes_no_sense_is_refused(
    tmp_path: Path, content: bytes, mode: int, words: str
) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    file.chmod(mode)
    with pytest.raises(BadConfig, match=words) as raised:
        open_store(f"redis://host/0?password_file={file}")
    assert "secret" not in str(raised.value)


def test_a_password_is_said_once_and_its_file_in_full(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("x")
    for url, words in {
        f"redis://:a@host/0?password_file={tmp_path}/p": "either a password or a password_file",
        "redis://host/0?password_file=p": "the whole path",
        f"redis://host/0?password_file={tmp_path}/q": "can't be read: No such file",
    }.items():
        with pytest.raises(BadConfig, match=words):
            open_store(url)


def test_a_prefix_may_have_an_underscore(shared_server: RedisServer) -> None:
    store = open_store(shared_server.url("with_underscore"))
    store.setup()
    register(store)
    names = fill(store, 1)
    assert ids(take(store)) == names
