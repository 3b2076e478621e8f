"""What a worker logs of an item that it refuses."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from stayer.stores.redis import RedisStore
from tests.contract.builders import PATIENCE
from tests.redis import pushing

FORGED = b"x\n2026-01-01 00:00:00,000 INFO task payroll is complete\033]0;pwn\007"


def test_a_refused_item_forges_no_line_and_commands_no_terminal(
    store: RedisStore, url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    pushing.push(store, FORGED)
    command = [
        sys.executable, "-m", "stayer", "worker", "--store", url, "--exec", "true",
        "--state-dir", str(tmp_path / "state"), "--log", str(log),
    ]  # fmt: skip
    worker = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + PATIENCE
        while "of no use" not in (log.read_text() if log.exists() else ""):
            assert time.monotonic() < deadline
            assert worker.poll() is None
            time.sleep(0.05)
    finally:
        worker.terminate()
        worker.wait(PATIENCE)
    lines = log.read_text().split("\n")[:-1]
    assert all(line.isprintable() for line in lines)
    assert all(re.match(r"20\d\d-\d\d-\d\d ", line) for line in lines)
    assert not any("INFO task payroll" in line and "of no use" not in line for line in lines)
