"""The list that any language may push tasks to: `LPUSH <prefix>:incoming '{"queue": "q"}'`.

Items are read, understood here, and taken out by a script in the same step in which they take
effect: a taker that dies before has changed nothing, two takers at once don't take an item twice.
"""

from __future__ import annotations

import msgspec

from stayer.core import submission
from stayer.core.errors import BadInput, Refused
from stayer.core.lifecycle import Cancel, decide
from stayer.core.model import RUNNING, Change
from stayer.core.written import parse_submission
from stayer.stores.redis import changes
from stayer.stores.redis.changes import Arguments
from stayer.stores.redis.keys import key
from stayer.stores.redis.record import Raw, pack, tasks
from stayer.stores.redis.server import Server
from stayer.stores.redis.submitting import packed_groups

AT_ONCE = 100
SHOWN, SAID = 10_000, 1000
"""How much of an item is shown when it is refused, and of why."""
WHAT = "the item"
DEFAULT_QUEUE = "default"
NOT_THIS_WAY = "a task that runs after others can't come this way: submit it to Stayer"


class _Delete(msgspec.Struct, forbid_unknown_fields=True):
    """The message that takes a task back."""

    delete: str


_delete = msgspec.json.Decoder(_Delete).decode


def take(server: Server, limit: int) -> int:
    """Take up to so many items; how many are left."""
    name = key("incoming", server.address.prefix)
    while limit > 0:
        items = server.ask("LRANGE", name, -min(limit, AT_ONCE), -1)[::-1]
        if not items:
            return 0
        taken = _take(server, items)
        limit -= max(1, taken)
    return int(server.ask("LLEN", name))


def _take(server: Server, items: list[bytes]) -> int:
    arguments = Arguments(fixed=3)
    packed: list[Raw] = []
    for item in items:
        if (id := deleted_by(item)) is None:
            packed.append((arguments.add(item), *_submitted(item, arguments)))
        elif packed:
            break  # what stands before it may be the very task: first things first
        else:
            packed.append((arguments.add(item), *_cancelled(server, item, id, arguments)))
            break
    return int(server.run("take_incoming", pack(packed), *arguments.values))


def deleted_by(item: bytes) -> str | None:
    """The task that an item takes back; None if it is a task itself."""
    try:
        return _delete(item).delete
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _submitted(item: bytes, arguments: Arguments) -> tuple[str, Raw]:
    try:
        said = parse_submission(item, WHAT)
        new = submission.new_task(**{"queue": DEFAULT_QUEUE, **said})
        if new.after:
            raise BadInput(NOT_THIS_WAY)
        return "task", packed_groups([new], arguments)[0]
    except (BadInput, TypeError) as error:  # what one can't take must not stand in everyone's way
        return _refused(item, str(error))


def _refused(item: bytes, why: str) -> tuple[str, Raw]:
    return "refused", (item[:SHOWN].decode(errors="replace"), why[:SAID])


def _cancelled(server: Server, item: bytes, id: str, arguments: Arguments) -> tuple[str, Raw]:
    values, kept_apart = server.run("get", id)
    if values[0] is None:
        return _refused(item, f"no task {id!r} to delete")
    [task] = tasks(values, kept_apart)
    if task.state in RUNNING and task.cancel_wanted:
        return _refused(item, f"task {id!r} is being cancelled already")
    try:
        change: Change = decide(task, Cancel())
    except Refused as error:
        return _refused(item, str(error))
    return "change", changes.packed_groups([change], arguments)[0]
