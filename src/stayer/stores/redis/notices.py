"""Notices: taken for a while, settled, listed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stayer.core import codec
from stayer.core.decoding import convert, json_decoder
from stayer.core.errors import BadInput
from stayer.core.model import JSON
from stayer.core.notify import notices
from stayer.core.notify.notices import NOBODY, SAID_LIMIT, Delivery, Notice, NoticePage, NoticeState
from stayer.stores.redis import record
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.record import Raw

_shown = json_decoder(dict[str, JSON]).decode
_PLACE = re.compile("[0-9]{16}[0-9a-f]{24}")


def take_notices(
    server: Server, hooks: Sequence[str], limit: int, lease: float, age: float
) -> list[Notice]:
    """Take those that are due; they are this one's for a while."""
    times = repr(float(lease)), repr(float(age))
    return [
        read_notice(*each)
        for each in server.run("take_notices", limit, *times, NOBODY, *hooks) or ()
    ]


def add_notices(server: Server, found: Sequence[Notice]) -> None:
    """Keep these, each unless there is one of its id."""
    for each in found:
        about = each.task, each.queue, each.event, each.to, each.attempt, repr(float(each.at))
        server.run("add_notice", each.id, *about, codec.encode(each.record))


def settle_notice(server: Server, notice: Notice, delivery: Delivery) -> bool:
    """Note what came of the try, if it still is this one's."""
    after = "" if delivery.after is None else repr(float(delivery.after))
    summary = delivery.said[:SAID_LIMIT]
    fence = notice.id, notice.tries, notice.forgiven
    put_back = int(delivery.is_put_back)
    return bool(server.run("settle_notice", *fence, delivery.state, after, summary, put_back) == 1)


def page(
    server: Server, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
) -> NoticePage:
    """Read one page of notices, and where the next one begins."""
    check_cursor(cursor)
    if task == "":
        return NoticePage(())
    rows = server.run("notices", task or "", state or "", cursor or "", limit + 1)
    return cut_page([read_notice(*row) for row in rows], limit)


def retry_notices(server: Server, ids: Sequence[str]) -> int:
    """Let these be pending again and due now; how many had failed, or were pending."""
    return int(server.run("retry_notices", *ids))


def drop_notices(server: Server, ids: Sequence[str]) -> int:
    """Forget these; how many there were."""
    return int(server.run("drop_notices", *ids))


def check_cursor(cursor: str | None) -> None:
    """BadInput if it is none."""
    if cursor is not None and not _PLACE.fullmatch(cursor):
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page")


def cut_page(found: Sequence[Notice], limit: int) -> NoticePage:
    """Return a page of what was found, which goes on if there is more than that."""
    shown = found[:limit]
    return NoticePage(tuple(shown), place(shown[-1]) if len(found) > limit else None)


def place(notice: Notice) -> str:
    """Where it stands in a list, as the scripts have it."""
    return f"{int(notice.at * 1000000 + 0.5):016d}{notice.id}"


def merge_pages(pages: Sequence[NoticePage], limit: int) -> NoticePage:
    """The pages of several shards as one."""
    found = sorted((each for page in pages for each in page.notices), key=place, reverse=True)
    shown = cut_page(found, limit)
    if shown.next is None and shown.notices and any(page.next is not None for page in pages):
        return NoticePage(shown.notices, place(shown.notices[-1]))
    return shown


def read_notice(id: bytes, pairs: Sequence[Raw]) -> Notice:
    """Return a notice as the scripts answer it."""
    known = dict(zip(pairs[::2], pairs[1::2], strict=True))
    since, following, said = known.get(b"since"), known.get(b"next"), known.get(b"said")
    return Notice(
        id=id.decode(),
        task=known[b"task"].decode(),
        queue=known[b"queue"].decode(),
        event=known[b"event"].decode(),
        to=known[b"to"].decode(),
        attempt=int(known[b"attempt"]),
        at=float(known[b"at"]),
        state=convert(known[b"state"].decode(), NoticeState),
        tries=int(known[b"tries"]),
        forgiven=int(known.get(b"forgiven", 0)),
        since=None if since is None else float(since),
        next=None if following is None else float(following),
        said=None if said is None else said.decode(),
        record=_record(known),
    )


def _record(known: dict[bytes, bytes]) -> dict[str, JSON]:
    """The task as it was: as JSON if the notice came from another store."""
    if (shown := known.get(b"shown")) is not None:
        return _shown(shown)
    kept_apart = (0, known.get(b"parameters"), known.get(b"result"))
    [task] = record.tasks([known[b"record"]], kept_apart)
    return notices.notice_record_of(task, also=_list_uncopied(known))


def _list_uncopied(known: dict[bytes, bytes]) -> list[str]:
    """Return what the task keeps apart, and was too long to be kept with the notice."""
    flags = known[b"record"][0]
    apart = {
        "parameters": flags & (record.PARAMETERS_TEXT | record.PARAMETERS_BYTES),
        "result": flags & (record.RESULT_TEXT | record.RESULT_BYTES),
    }
    return [name for name, is_apart in apart.items() if is_apart and name.encode() not in known]
