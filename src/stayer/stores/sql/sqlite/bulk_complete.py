"""The hot half of `Store.turn`: many tasks that ran to their end, in few statements.

Groups are those of `completions.py`, where all results are text. What the statements leave alone,
for whatever reason, goes the way of all changes (`commit.py`), which says whether it may be done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stayer.core.model import Change
from stayer.stores.sql.completions import end_of
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import changed_cell, json_cell
from stayer.stores.sql.sqlite.just_reserved import seqs_from_cell
from stayer.stores.sql.transaction import Transaction

_WIDEST = 256
"""Results up to this length are written in columns."""
_LEAST_TASKS = 25
"""How many tasks a statement has to be for, that several are better than one."""


def complete(tx: Transaction, group: Sequence[Change], ledger: Ledger) -> frozenset[str]:
    """The ids of those that were completed."""
    texts = _texts(group)
    if texts is None:
        return frozenset()
    end = end_of(group)
    common = (
        tx.now, end.worker, end.line(tx.now), end.state, end.attempt, end.last_order, end.queue,
    )  # fmt: skip
    number = ledger.numbers(len(group))
    completed: list[str] = []
    for seq, ids in _parts(tx, texts):
        if seq is None:
            count = tx.run("commit.done", *common, _numbered(ids, number, texts))
        else:
            width, cell = _in_columns([texts[id] for id in ids])
            last = seq + len(ids) - 1
            count = tx.run("commit.done_stretch", *common, seq, last, number, cell, width)
        ledger.note_move(end.queue, end.state, end.to, count)
        if count == len(ids):
            ledger.add_events(number, ids, *end.news)
            completed += ids
        elif count:
            for id in _which(tx, ids, number):
                own = number + ids.index(id)
                ledger.add_events(own, [id], *end.news)
                completed.append(id)
        number += len(ids)
    return frozenset(completed)


def _texts(group: Sequence[Change]) -> dict[str, str] | None:
    """Each one's result, '' for none; None if they can't be written all at once."""
    texts: dict[str, str] = {}
    for change in group:
        result = changed_cell("result", change.result) or ""
        if change.id in texts or isinstance(result, bytes) or "\0" in result:
            return None
        texts[change.id] = result
    return texts


def _parts(tx: Transaction, texts: dict[str, str]) -> list[tuple[int | None, list[str]]]:
    """Those that stand one behind the other in the table, as they do if they came together, with
    the number of the first; or all of them, and no number.
    """
    all_of_them = list(texts)
    longest = max(map(len, texts.values()))
    found = tx.one("commit.seqs", tx.array(all_of_them)) if longest <= _WIDEST else None
    seqs = [] if found is None else seqs_from_cell(found[0])
    if len(seqs) < len(texts):
        return [(None, all_of_them)]
    standing = sorted(zip(seqs, all_of_them, strict=True))
    parts: list[tuple[int | None, list[str]]] = []
    following = None
    for seq, id in standing:
        if seq != following:
            parts.append((seq, []))
        parts[-1][1].append(id)
        following = seq + 1
    return parts if len(parts) * _LEAST_TASKS <= len(texts) else [(None, all_of_them)]


def _in_columns(texts: Sequence[str]) -> tuple[int, bytes]:
    """The texts filled up with spaces to one length in bytes, and that length: SQLite finds its way
    in this sooner than in JSON. No JSON ends in a space.
    """
    forms = [text.encode() for text in texts]
    width = max(map(len, forms))
    return width, b"".join([form.ljust(width) for form in forms])


def _numbered(ids: Sequence[str], first: int, texts: Mapping[str, str]) -> str | None:
    return json_cell({id: f"{number:016d}{texts[id]}" for number, id in enumerate(ids, first)})


def _which(tx: Transaction, ids: Sequence[str], first: int) -> list[str]:
    """Those whose histories have the number that was meant for them."""
    numbered = _numbered(ids, first, dict.fromkeys(ids, ""))
    return [id for (id,) in tx.all("commit.done_which", numbered)]
