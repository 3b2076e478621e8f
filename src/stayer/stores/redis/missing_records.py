"""What a server that evicts, or a hand, takes away: records of tasks, and parts kept beside them.

What stands somewhere without its record is passed over by the scripts that meet it, and seen to by
the script `missing_records`. Whoever looks after the store hears of it in his log, by an event, and
from `stayer doctor`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stayer.core.happenings import Fail
from stayer.core.insight.health import Finding
from stayer.core.lifecycle import decide
from stayer.core.model import Change, Fault, Task
from stayer.stores.redis import record
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key
from stayer.stores.redis.record import Raw

_CLEAR_BATCH = 100
_LOOKED_AT_A_MINUTE = 10_000
"""How many members of lists are looked at each minute: some milliseconds of the server's time."""
_LOST_KEPT = 1000

logger = logging.getLogger(__name__)


def look(server: Server) -> None:
    """Look through a part of the lists, so that what nobody meets is noted too."""
    server.run("missing_records", 0, _LOOKED_AT_A_MINUTE)


def clear_noted(server: Server) -> int:
    """Take some of those that were noted out of where they stand; how many tasks were lost."""
    lost = int(server.run("missing_records", _CLEAR_BATCH, 0))
    if lost:
        logger.warning(
            "tasks lost from %s: %d. Their records are gone, evicted or deleted by hand: "
            "`stayer doctor` says what to do",
            server.address.url,
            lost,
        )
    return lost


def readable(values: Sequence[bytes], kept_apart: Sequence[Raw]) -> tuple[list[Task], list[Change]]:
    """Return the tasks of an answer that can be run, and what becomes of those that have lost their
    parameters: with none they would do something else than they were asked.
    """
    tasks = record.tasks(values, kept_apart)
    lost = record.without_parameters(values, kept_apart)
    if not lost:
        return tasks, []
    fault = Fault(
        "ParametersLost",
        "its parameters are gone from the store (evicted, or deleted by hand): submit it again "
        "under another id",
    )
    failed = [decide(tasks[number], Fail(fault, final=True)) for number in lost]
    return [task for number, task in enumerate(tasks) if number not in lost], failed


def check(server: Server) -> list[Finding]:
    """Return what `stayer doctor` says of the list of tasks that were lost; nothing if none was."""
    name = key("missing", server.address.prefix)
    number = server.ask("LLEN", name)
    if not number:
        return []
    shown = f"{number:,} or more" if number >= _LOST_KEPT else f"{number:,}"
    message = f"tasks lost: {shown}. Their records were gone, evicted or deleted by hand"
    todo = (
        f"set maxmemory-policy noeviction, look which they are (LRANGE {name} 0 9), submit them "
        f"again, then forget them (DEL {name})"
    )
    return [Finding("records", "warn", message, todo)]
