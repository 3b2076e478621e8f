"""The ways to a server: a socket file (all other tests), TCP, and TLS."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.lifecycle import Done
from stayer.stores import open_store
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


def test_tls(own_server: Starts, certificate: tuple[Path, Path]) -> None:
    public, private = certificate
    port = free_port()
    own_server(
        "--tls-port", str(port), "--tls-cert-file", str(public), "--tls-key-file", str(private),
        "--tls-auth-clients", "no",
    )  # fmt: skip
    try_out(f"rediss://127.0.0.1:{port}?ssl_ca_certs={public}")
    with pytest.raises(StoreUnreachable, match="certificate"):
        open_store(f"rediss://127.0.0.1:{port}").now()
