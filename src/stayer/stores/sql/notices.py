"""Notices: made in the step that they tell of, taken for a while, settled."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core import codec
from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput
from stayer.core.model import JSON, Task
from stayer.core.notify import notices
from stayer.core.notify.notices import (
    KEPT,
    NOBODY,
    SAID_LIMIT,
    Delivery,
    Notice,
    NoticePage,
    NoticeState,
)
from stayer.stores.sql.rows import check_row, form
from stayer.stores.sql.transaction import Row, Transaction

COLUMNS = (
    'seq, id, task, queue, event, "to", attempt, at, state, '
    "tries, forgiven, since, next, said, record"
)
_AT_ONCE = 100
"""How many old ones are seen to in one step."""
_NEWEST = 2**62
_record = json_decoder(dict[str, JSON])


def rows_of(
    task: Task, now: float, number: int, happened: Sequence[str], targets: Sequence[str]
) -> list[Row]:
    """The parameters of the statement `notice.add`, one for each who is to be told."""
    record = codec.encode(notices.notice_record_of(task))
    return [
        (
            notices.notice_id(task.id, now, number, target), task.id, task.queue, happened[0],
            target, task.attempt, now, record,
        )
        for target in targets
    ]  # fmt: skip


def is_anything_due(tx: Transaction, hooks: Sequence[str], age: float) -> bool:
    """Whether taking would find something to do."""
    row = tx.one("notices.any", tx.now, tx.array(hooks), tx.now - age, tx.now - KEPT)
    return row is not None and row[0] != 0


def take_notices(
    tx: Transaction, hooks: Sequence[str], limit: int, lease: float, age: float
) -> list[Notice]:
    """Those that are due, now this one's for a while."""
    known = tx.array(hooks)
    tx.run("notices.stale", known, tx.now - age, NOBODY, _AT_ONCE)
    for state in ("delivered", "failed"):
        tx.run("notices.forget", state, tx.now - KEPT, _AT_ONCE)
    due = sorted(row for hook in hooks for row in tx.all("notices.due", tx.now, hook, limit))
    seqs = [seq for _, seq in due[:limit]]
    if not seqs:
        return []
    tx.run("notices.take", tx.now + lease, tx.array(seqs))
    rows = {row[0]: row for row in tx.all("notices.seqs", tx.array(seqs))}
    return [notice_from_row(rows[seq]) for seq in seqs]


def add_notices(tx: Transaction, found: Sequence[Notice]) -> None:
    """Keep these, due at once, each unless there is one of its id."""
    tx.many(
        "notice.add",
        [
            (
                each.id, each.task, each.queue, each.event, each.to, each.attempt, each.at,
                codec.encode(each.record),
            )
            for each in found
        ],
    )  # fmt: skip


def settle_notice(tx: Transaction, notice: Notice, delivery: Delivery) -> bool:
    """What came of the try, if it still is this one's."""
    following = None if delivery.after is None else tx.now + delivery.after
    said = delivery.said[:SAID_LIMIT]
    fence = notice.id, notice.tries, notice.forgiven
    put_back = int(delivery.is_put_back)
    return tx.run("notice.settle", delivery.state, following, said, *fence, put_back) == 1


def page(
    tx: Transaction, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
) -> NoticePage:
    """One page, and where the next one begins."""
    try:
        before = _NEWEST if cursor is None else int(cursor)
    except ValueError:
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page") from None
    if task is not None:
        rows = tx.all("notices.task", before, limit + 1, state, task)
    elif state is not None:
        rows = tx.all("notices.state", before, limit + 1, state)
    else:
        rows = tx.all("notices", before, limit + 1)
    following = str(rows[limit - 1][0]) if len(rows) > limit else None
    return NoticePage(tuple(map(notice_from_row, rows[:limit])), following)


def retry_notices(tx: Transaction, ids: Sequence[str]) -> int:
    """Due now, as if they had not been tried."""
    return tx.run("notices.retry", tx.now, tx.array(ids))


def drop_notices(tx: Transaction, ids: Sequence[str]) -> int:
    """Forget these."""
    return tx.run("notices.drop", tx.array(ids))


_FORM = form(
    "integer", "5 text", "integer", "real", "text", "2 integer", "2 real?", "text?", "text"
)


def notice_from_row(row: Row) -> Notice:
    """A notice from a row of COLUMNS."""
    _, id, task, queue, event, to, attempt, at, state, *how_far, record = check_row(row, _FORM)
    tries, forgiven, since, following, said = how_far
    return Notice(
        id=id, task=task, queue=queue, event=event, to=to, attempt=attempt, at=at, state=state,
        tries=tries, forgiven=forgiven, since=since, next=following, said=said,
        record=_record.decode(record),
    )  # fmt: skip
