"""How much one script gets to do: while it runs, everybody else waits, so what concerns very many
queues or tasks is several scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key

LOOKED_AT = 5000
"""How many lists and tasks a script may look at before it lets others have their turn."""
SEARCHED = 1000
"""How many it may look at to find words in them, which takes longer."""
SEARCHES_A_PAGE = 20
"""How many such scripts there are for a page: the next page goes on where this one has ended."""
QUEUES_AT_ONCE, IDS_AT_ONCE = 100, 1000
"""Of how many queues, with nine lists each, and of how many ids a script gets to know."""


def divide(items: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Divide a list into parts of this size; the last may be shorter."""
    return (tuple(items[at : at + size]) for at in range(0, len(items), size))


def portions_of_queues(server: Server, names: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """Divide these queues, or all there are, into as many as a script may look at."""
    if not names:
        found = server.ask("SMEMBERS", key("queues", server.address.prefix))
        names = [name.decode() for name in found]
    return divide(list(dict.fromkeys(names)), QUEUES_AT_ONCE)
