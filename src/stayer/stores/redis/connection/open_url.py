"""From a URL to where its server is."""

from __future__ import annotations

from stayer.stores.redis.connection import url as address


def address_of(url: str) -> address.Address:
    """Read the address of one server, or of those that replace each other."""
    scheme = url.partition(":")[0]
    if scheme.endswith("+sentinel"):
        from stayer.stores.redis.connection import sentinel  # rarely needed

        return sentinel.parse(url)
    return address.parse(url)
