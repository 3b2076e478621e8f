"""The list that any language may push tasks to: `LPUSH <prefix>:incoming '{"queue": "q"}'`.

Items are read, understood here, and taken out by a script in the same step in which they take
effect: a taker that dies before has changed nothing, two takers at once don't take an item twice.
One that is longer than any task can be is refused by its length: only its beginning is read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput, Refused
from stayer.core.happenings import Cancel
from stayer.core.lifecycle import decide
from stayer.core.limits import WRITTEN
from stayer.core.model import RUNNING, Change, NewTask, Task
from stayer.core.submit import checks
from stayer.core.submit.compare import find_differences
from stayer.core.submit.json import parse_submission
from stayer.stores.redis import defaults
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key
from stayer.stores.redis.pack import changes
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.tasks import pack_tasks
from stayer.stores.redis.record import Raw, pack, tasks

logger = logging.getLogger("stayer.incoming")

ITEMS_AT_ONCE = 100
SHOWN, SAID, LOGGED = 10_000, 1000, 200
"""How much of an item is kept when it is refused, of why, and how much of both is logged."""
REASONS = 5
"""How many reasons are logged of what was refused together."""
KEPT = 1000
"""How many of them are kept."""
WHAT = "the item"
DEFAULT_QUEUE = "default"
_OF_UPSTREAMS = ("after", "when_failed", "near", "near_wait")
NOT_THIS_WAY = "a task that runs after others can't come this way: submit it to Stayer"
Refusal = tuple[str, str]
"""An item, and why it was of no use."""


class _Delete(msgspec.Struct, forbid_unknown_fields=True):
    """The message that takes a task back."""

    delete: str


_delete = json_decoder(_Delete).decode


def take(server: Server, limit: int) -> int:
    """Take up to so many items, fewer if they are long; how many are left."""
    room = WRITTEN
    while limit > 0 and room > 0:
        items, *long = server.run("read_incoming", min(limit, ITEMS_AT_ONCE), WRITTEN, SHOWN)
        if not items and not long:
            return 0
        taken = _take(server, items) if items else 0
        if long and taken == len(items):
            _refuse_long(server, *long)
        limit -= max(1, taken)
        room -= sum(map(len, items)) + sum(long[:1])
    return count_waiting(server)


def count_waiting(server: Server) -> int:
    """Return how many items are there."""
    return int(server.ask("LLEN", key("incoming", server.address.prefix)))


def too_long(length: int) -> str:
    """Return why an item of this length is of no use."""
    return f"{WHAT} has {length:,} bytes, at most {WRITTEN:,} fit"


def _refuse_long(server: Server, length: int, beginning: bytes) -> None:
    refusal = (cut_item(beginning), too_long(length))
    if server.run("refuse_long", length, beginning, *refusal):
        log_refused(key("incoming", server.address.prefix), [refusal])


def _take(server: Server, items: list[bytes]) -> int:
    arguments = Arguments(fixed=3)
    packed: list[Raw] = []
    for item in items:
        if (id := id_to_delete(item)) is None:
            packed.append((arguments.add(item), *_pack_submission(server, item, arguments)))
        elif packed:
            break  # what stands before it may be the very task: first things first
        else:
            packed.append((arguments.add(item), *_pack_cancellation(server, item, id, arguments)))
            break
    answer = server.run("take_incoming", pack(packed), *arguments.values)
    taken, values, kept_apart, kept_out = answer
    refused = [what for _, kind, what in packed[:taken] if kind == "refused"]
    pairs = zip(kept_out[::2], kept_out[1::2], strict=True)
    refused += [(cut_item(items[at]), why.decode(errors="replace")) for at, why in pairs]
    if values:
        others = _others(items[:taken], tasks(values, kept_apart))
        _remember(server, others)
        refused += others
    log_refused(key("incoming", server.address.prefix), refused)
    return int(taken)


def _others(items: Sequence[bytes], there: Sequence[Task]) -> list[Refusal]:
    """Items that are another task than the one that is there under their id. A task that came with
    the same items may be there for some that are like it, and for others.
    """
    known = {task.id: task for task in there}
    found = []
    for item in items:
        try:
            new = task_of(item)
        except (BadInput, TypeError):
            continue
        if new.id in known and (why := difference(new, known[new.id])):
            found.append((cut_item(item), why))
    return found


def difference(new: NewTask, there: Task) -> str | None:
    """Return why an item was of no use that has the id of this task; None if it is the same."""
    fields = find_differences(new, there)
    if not fields:
        return None
    return f"task {new.id!r} is there already, and differs in {', '.join(fields)}"


def _remember(server: Server, refused: Sequence[Refusal]) -> None:
    """Remember an item, not in the step that takes it: which of it is the same is not for a script
    to see.
    """
    place, now = key("refused", server.address.prefix), server.now()
    for item, why in refused:
        line = msgspec.json.encode({"item": item, "error": why, "at": now})
        server.ask("LPUSH", place, line)
    server.ask("LTRIM", place, 0, KEPT - 1)


def log_refused(place: str, refused: Sequence[Refusal]) -> None:
    """A line for each reason in the log of whoever takes items, however many items there are; one
    for all the others if there are too many reasons.
    """
    by_reason: dict[str, list[str]] = {}
    for item, why in refused:
        by_reason.setdefault(why, []).append(item)
    for why, items in islice(by_reason.items(), REASONS):
        more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
        logger.warning("of no use in %s: %s: %s%s", place, why[:LOGGED], items[0][:LOGGED], more)
    if rest := sum(map(len, islice(by_reason.values(), REASONS, None))):
        logger.warning("of no use in %s for other reasons: %d more", place, rest)


def id_to_delete(item: bytes) -> str | None:
    """Return the task that an item takes back; None if it is a task itself."""
    if len(item) > WRITTEN:
        return None
    try:
        return _delete(item).delete
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def task_of(item: bytes, drawn: str | None = None) -> NewTask:
    """Return the task that an item is, under the id that was drawn for it if it has none."""
    if len(item) > WRITTEN:
        raise BadInput(too_long(len(item)))
    _refuse_odd_deletion(item)
    parsed = {"queue": DEFAULT_QUEUE, **parse_submission(item, WHAT, _OF_UPSTREAMS)}
    if drawn is not None and parsed.get("id") is None:
        parsed["id"] = drawn
    new = checks.new_task(**parsed)
    if new.after:
        raise BadInput(NOT_THIS_WAY)
    return new


def _refuse_odd_deletion(item: bytes) -> None:
    if b'"delete"' not in item:  # as in nearly all: what is long is not decoded twice
        return
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        parsed = msgspec.json.decode(item)
        if isinstance(parsed, dict) and "delete" in parsed:
            raise BadInput('delete takes one id and stands alone, as in {"delete": "film-1"}')


def _pack_submission(server: Server, item: bytes, arguments: Arguments) -> tuple[str, Raw]:
    try:
        return "task", pack_tasks(defaults.apply(server, [task_of(item)]), arguments)[0]
    except (BadInput, TypeError) as error:  # what one can't take must not stand in everyone's way
        return _pack_refusal(item, str(error))


def cut_item(item: bytes) -> str:
    """Cut an item to what is kept when it is refused."""
    return item[:SHOWN].decode(errors="replace")


def _pack_refusal(item: bytes, why: str) -> tuple[str, Raw]:
    return "refused", (cut_item(item), why[:SAID])


def _pack_cancellation(
    server: Server, item: bytes, id: str, arguments: Arguments
) -> tuple[str, Raw]:
    values, kept_apart = server.run("get", id)
    if values[0] is None:
        return _pack_refusal(item, f"no task {id!r} to delete")
    [task] = tasks(values, kept_apart)
    if task.state == "cancelled" or (task.state in RUNNING and task.cancel_wanted):
        return "done", False
    try:
        change: Change = decide(task, Cancel())
    except Refused as error:
        return _pack_refusal(item, str(error))
    return "change", changes.pack_changes([change], arguments)[0]
