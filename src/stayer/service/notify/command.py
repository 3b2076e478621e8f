"""One try at telling a command of the configuration: the notice on its stdin, 0 means delivered."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import IO

from stayer.core import codec
from stayer.core.notify import notices
from stayer.core.notify.hooks import Hook
from stayer.core.notify.notices import Notice
from stayer.service.notify.webhook import Answered

_KEPT_BYTES = notices.SAID_LIMIT
_POLL_S = 0.2
"""How often it is looked at whether a silent command has ended, in seconds."""


def run(hook: Hook, notice: Notice) -> Answered:
    """Run it once."""
    assert hook.command is not None
    with tempfile.TemporaryFile() as stdin:
        stdin.write(codec.encode(notices.payload(notice)).encode() + b"\n")
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                hook.command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment(notice),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Answered(False, f"{hook.command[0]} can't be run: {error}")
    with process:
        assert process.stdout is not None
        printed, in_time = _read_output(process, process.stdout, hook.time_limit)
    output = printed.decode("utf-8", "replace").strip()
    if not in_time:
        return Answered(False, f"killed after {hook.time_limit:g}s. {output}".strip())
    code = process.returncode
    how = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
    return Answered(code == 0, f"{how}: {output}" if output else how)


def environment(notice: Notice) -> dict[str, str]:
    """Ours, but for what gives access to the store, and what the notice is about."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("STAYER_")
    }
    return {
        **inherited,
        "STAYER_NOTICE_ID": notice.id,
        "STAYER_EVENT": notice.event,
        "STAYER_TASK_ID": notice.task,
        "STAYER_QUEUE": notice.queue,
        "STAYER_ATTEMPT": str(notice.attempt),
        "STAYER_WORKER_ID": str(notice.record.get("worker") or ""),
        "STAYER_MESSAGE": notices.sentence(notice).replace("\0", ""),
    }


def _read_output(
    process: subprocess.Popen[bytes], output: IO[bytes], time_limit: float
) -> tuple[bytes, bool]:
    """Return the beginning of what it prints until it ends, and whether it did so in time.

    What it leaves running may hold its output open: so its end counts, not that of the output.
    """
    printed = b""
    descriptor = output.fileno()
    os.set_blocking(descriptor, False)
    deadline = time.monotonic() + time_limit
    is_open = True
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        if is_open:
            select.select([descriptor], [], [], 0.0 if ended else _POLL_S)
            piece = _read(output)
            is_open = piece != b""
            printed = (printed + (piece or b""))[:_KEPT_BYTES]
            if piece:
                continue
        elif not ended:
            with suppress(subprocess.TimeoutExpired):
                process.wait(min(_POLL_S, max(0.0, deadline - time.monotonic())))
        if ended:
            return printed, True
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return printed, False


def _read(output: IO[bytes]) -> bytes | None:
    """Read what there is: None if there is nothing yet, no bytes at its end."""
    try:
        return os.read(output.fileno(), 65536)
    except BlockingIOError:
        return None
