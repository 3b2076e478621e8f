"""What the tests of delivering are given."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.model import Task
from stayer.core.notify.notices import Notice, notice_record_of
from tests.notify.receiver import Receiver, receiving
from tests.servers.finding import missing


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine that nobody vouches for, and its key."""
    if shutil.which("openssl") is None:
        missing("TLS", "install openssl")
    folder = tmp_path_factory.mktemp("tls")
    public, private = folder / "certificate", folder / "key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(private),
         "-out", str(public)],
        check=True, capture_output=True,
    )  # fmt: skip
    return public, private


@pytest.fixture
def notice() -> Notice:
    """A task that failed."""
    task = Task(id="t", queue="q", name="train", state="failed", attempt=2, parameters={"n": 1})
    return Notice(
        id="0123456789abcdef01234567", task="t", queue="q", event="failed", to="hook", attempt=2,
        at=1_700_000_000.0, tries=1, record=notice_record_of(task),
    )  # fmt: skip
