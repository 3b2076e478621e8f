"""Who changed what: a line of JSON each, to a file of its own or to the log."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from functools import lru_cache

import msgspec

from stayer.core.errors import BadInput
from stayer.core.model import JSON
from stayer.core.units import rfc3339

logger = logging.getLogger("stayer.audit")
_encode = msgspec.json.Encoder().encode


class Audit:
    """Lines of one turn of the loop are written at once: many who submit cost one write."""

    def __init__(self, file: str | None) -> None:
        self._lines: list[bytes] = []
        self._descriptor: int | None = None
        logger.setLevel(logging.INFO)
        if file is not None:
            try:
                self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError as error:
                raise BadInput(f"--audit-log {file} can't be written: {error.strerror}") from None

    def note(
        self, who: str | None, role: str | None, by: str | None, address: str,
        method: str, path: bytes, query: bytes, status: int,
    ) -> None:  # fmt: skip
        """Note what somebody did now."""
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.write)
        entry = _format_entry(who, role, by, address, method, path, query, status)
        self._lines.append(b'{"at":"%b",%b' % (_format_time(round(time.time(), 3)), entry))

    def write(self) -> None:
        """Write all that is not written yet."""
        lines, self._lines = self._lines, []
        if self._descriptor is None:
            for line in lines:
                logger.info("%s", line.decode())
        elif lines:
            try:
                os.write(self._descriptor, b"\n".join((*lines, b"")))
            except OSError as error:
                logging.getLogger(__name__).error("the audit log can't be written: %s", error)

    def close(self) -> None:
        """Close the file: nothing more will come."""
        self.write()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@lru_cache(maxsize=1)
def _format_time(moment: float) -> bytes:
    """Format a time. Cached, because many come in one millisecond."""
    return rfc3339(moment).encode()


def _printable(text: bytes) -> str:
    """Escape what is not ASCII, or is a control character."""
    return text.decode("ascii", "backslashreplace").replace("\x7f", "\\x7f")


@lru_cache(maxsize=256)
def _format_entry(
    who: str | None, role: str | None, by: str | None, address: str, method: str, path: bytes,
    query: bytes, status: int,
) -> bytes:  # fmt: skip
    """Format all but the time. Cached, because who submits does the same again and again."""
    target = _printable(path)
    if query:
        target += "?" + _printable(query)
    entry: dict[str, JSON] = {
        "who": who, "role": role, "by": by, "from": address, "did": f"{method} {target}",
        "status": status,
    }  # fmt: skip
    return _encode(entry)[1:]
