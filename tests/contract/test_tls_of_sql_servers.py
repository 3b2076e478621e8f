"""TLS by options of the URL, to real servers with a certificate of their own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from stayer.core.errors import StoreError
from stayer.stores import open_store
from stayer.stores.sql.store import SqlStore
from tests.contract.builders import counts, fill
from tests.servers import mariadb, postgres
from tests.servers.finding import missing, oldest_postgres_binaries
from tests.servers.redis import free_port


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """One for localhost, its key, and another one that has nothing to do with it."""
    if shutil.which("openssl") is None:
        missing("TLS", "install openssl")
    folder = tmp_path_factory.mktemp("tls")
    for name in ("own", "other"):
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"),
            ],
            check=True, capture_output=True,
        )  # fmt: skip
    return folder / "own.crt", folder / "own.key", folder / "other.crt"


class Served(NamedTuple):
    """The URL of a store by TCP, without TLS; options by which it is checked; and how the server is
    asked whether it is.
    """

    url: str
    checked: str
    is_encrypted: str


@contextmanager
def on_postgres(certificate: Path, key: Path) -> Iterator[Served]:
    """That of the system: the one of the wheel is built without TLS."""
    with postgres.serving(oldest_postgres_binaries()) as server:
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            there = server.folder / "data" / name
            shutil.copy(source, there)
            shutil.chown(there, (server.folder / "data").owner())
            there.chmod(0o600)
        server.stop()
        server.port = free_port()
        server.start("listen_addresses=localhost", "ssl=on")
        yield Served(
            f"postgresql://postgres@localhost:{server.port}/postgres?schema=jobs",
            "sslmode=verify-full&sslrootcert=",
            "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        )


@contextmanager
def on_mariadb(certificate: Path, key: Path) -> Iterator[Served]:
    port = free_port()
    options = (
        "--skip-skip-networking", "--bind-address=127.0.0.1", f"--port={port}",
        f"--ssl-cert={certificate}", f"--ssl-key={key}",
    )  # fmt: skip
    with mariadb.serving(*mariadb.QUICK, *options) as server:
        database = server.url().partition("?")[0].rpartition("/")[2]
        yield Served(
            f"mysql://root@localhost:{port}/{database}?ssl_disabled=true",
            "ssl_verify_cert=true&ssl_verify_identity=true&ssl_ca=",
            "SELECT variable_value <> '' FROM information_schema.session_status "
            "WHERE variable_name = 'Ssl_cipher'",
        )


@pytest.fixture(scope="module", params=[on_postgres, on_mariadb], ids=["postgres", "mariadb"])
def served(
    request: pytest.FixtureRequest, certificates: tuple[Path, Path, Path]
) -> Iterator[Served]:
    with request.param(*certificates[:2]) as served:
        yield served


def test_a_store_is_used_by_tls(served: Served, certificates: tuple[Path, Path, Path]) -> None:
    store = open_store(with_tls(served, certificates[0]))
    assert isinstance(store, SqlStore)
    store.setup()
    before = counts(store).get("pending", 0)
    fill(store, 2)
    assert counts(store)["pending"] == before + 2
    with store._database.read() as tx:
        assert tx.sql(served.is_encrypted) == [(1,)]  # type: ignore[attr-defined]
    store.close()


def test_a_server_with_another_certificate_is_refused(
    served: Served, certificates: tuple[Path, Path, Path]
) -> None:
    store = open_store(with_tls(served, certificates[2]))
    with pytest.raises(StoreError, match=r"(?i)certificate"):
        store.queues()


def test_one_that_is_not_who_it_should_be_is_refused(
    served: Served, certificates: tuple[Path, Path, Path]
) -> None:
    store = open_store(with_tls(served, certificates[0]).replace("@localhost", "@127.0.0.1"))
    with pytest.raises(StoreError, match=r"(?i)certificate"):
        store.queues()


def with_tls(served: Served, authority: Path) -> str:
    url = served.url.replace("?ssl_disabled=true", "?")
    return f"{url}{'' if url.endswith('?') else '&'}{served.checked}{authority}"
