"""The URL of a PostgreSQL store: what is ours in it, what is the driver's, and what is secret."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from msgspec import Struct

from stayer.core.errors import BadConfig
from stayer.stores.sql.table_names import DEFAULT_PREFIX, checked_prefix

_OURS = ("schema", "prefix", "listen")
_DEFAULTS = {
    "application_name": "stayer", "connect_timeout": "10", "keepalives_idle": "30",
    "keepalives_interval": "10", "keepalives_count": "3", "tcp_user_timeout": "30000",
}  # fmt: skip
"""Of a connection, unless the URL says otherwise: a server that vanished is noticed in half a
minute."""
_LONGEST_NAME = 63


class Address(Struct, frozen=True):
    """Where a store is."""

    url: str
    """With any password left out."""
    conninfo: str
    """For the driver."""
    listen: str | None
    """Where to LISTEN, for the driver; None: nowhere, but look from time to time."""
    schema: str | None
    prefix: str

    @property
    def place(self) -> str:
        """What tells it from other stores in the same database."""
        return f"{self.schema or ''}.{self.prefix}"

    @property
    def key(self) -> int:
        """What its advisory locks begin with."""
        found = hashlib.blake2b(self.place.encode(), digest_size=8).digest()
        return int.from_bytes(found, "big", signed=True)

    @property
    def channel(self) -> str:
        """Where those listen who wait for work."""
        return f"stayer_{self.key & (2**64 - 1):016x}"

    @property
    def events_channel(self) -> str:
        """Where those listen who watch events."""
        return self.channel + "_events"


def parse(url: str) -> Address:
    """Take a URL apart; raises BadConfig."""
    shown = without_password(url)
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=False))
        _ = parts.port
    except ValueError as error:
        raise BadConfig(f"store {shown}: {error}. Write {_EXAMPLE}") from None
    if not url.partition(":")[2].startswith("//"):
        raise BadConfig(f"store {shown}: write {_EXAMPLE}")
    ours = {name: options.pop(name) for name in _OURS if name in options}
    schema = ours.get("schema")
    if schema is not None and (not schema or "\0" in schema or len(schema) > _LONGEST_NAME):
        raise BadConfig(f"store {shown}: a schema has a name of up to {_LONGEST_NAME} characters")
    prefix = checked_prefix(shown, ours.get("prefix", DEFAULT_PREFIX))
    conninfo = _joined(parts.netloc, parts.path, {**_DEFAULTS, **options})
    return Address(shown, conninfo, _listening(shown, conninfo, ours.get("listen")), schema, prefix)


_EXAMPLE = "postgresql://user:password@host:5432/database?schema=jobs"


def _joined(netloc: str, path: str, options: dict[str, str]) -> str:
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in options.items())
    return urlunsplit(("postgresql", netloc, path, query, "")) if netloc else (
        f"postgresql://{path}?{query}"
    )  # fmt: skip


def _listening(shown: str, conninfo: str, listen: str | None) -> str | None:
    """`listen=no`, or `listen=host:port` of the server itself where a pooler is between."""
    if listen is None:
        return conninfo
    if listen == "no":
        return None
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise BadConfig(f"store {shown}: write listen=host:port, or listen=no")
    parts = urlsplit(conninfo)
    options = dict(parse_qsl(parts.query))
    if host.startswith("/"):
        return _joined("", parts.path, {**options, "host": host, "port": port})
    options.pop("host", None), options.pop("port", None)
    user = parts.netloc.rpartition("@")[0]
    return _joined(f"{user}@{host}:{port}" if user else f"{host}:{port}", parts.path, options)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    scheme, _, rest = url.partition("://")
    front, mark, query = rest.partition("?")
    user, at, host = front.rpartition("@")
    if at:
        rest = f"{user.partition(':')[0]}@{host}{mark}{query}"
    front, mark, query = rest.partition("?")
    kept = [part for part in query.split("&") if not re.match(r"(password|sslpassword)=", part)]
    query = "&".join(kept)
    return f"{scheme}://{front}" + (f"?{query}" if query else "")
