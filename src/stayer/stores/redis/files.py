"""Files that come along with tasks, each kept once."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key


def put_file(server: Server, sha256: str, data: bytes | None) -> bool:
    """Keep one; None: only if it is there."""
    return bool(server.run("put_file", sha256, *(() if data is None else (data,))) == 1)


def get_file(server: Server, sha256: str) -> bytes | None:
    """Read one."""
    found: bytes | None = server.ask("GET", key("file", server.address.prefix, sha256=sha256))
    return found


def old_files(server: Server, before: float, limit: int) -> list[str]:
    """List those that nobody has put since then."""
    name, until = key("files", server.address.prefix), f"({before!r}"
    found = server.ask("ZRANGEBYSCORE", name, "-inf", until, "LIMIT", 0, limit)
    return [each.decode() for each in found]


def drop_files(server: Server, files: Sequence[str], before: float) -> None:
    """Forget these, unless somebody has put them since then."""
    if files:
        server.run("drop_files", repr(float(before)), *files)
