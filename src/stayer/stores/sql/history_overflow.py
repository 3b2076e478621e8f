"""Histories that have become too long for their rows: moved out, and their middle forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.store import HISTORY_HEAD, HISTORY_TAIL
from stayer.stores.sql import history
from stayer.stores.sql.transaction import Transaction


def shorten(tx: Transaction, seqs: Sequence[int]) -> None:
    """Those of these tasks whose rows hold too much."""
    for seq, lines in tx.all("history.long", history.LONGEST, tx.array(seqs)):
        last, count = tx.one("history.last", seq), lines.count("\n")
        before = 0 if last is None else last[0]
        tx.run("history.move", seq, before, count, lines)
        tx.run("history.moved", seq)
        _forget_middle(tx, seq, before + count)


def _forget_middle(tx: Transaction, seq: int, count: int) -> None:
    """What is neither among the first nor among the last lines, with logs and usage of attempts.

    An attempt may lie across the border of two parts. At the head it keeps its log, for its end
    may be there; at the tail it loses it with the next part.
    """
    middle = tx.one("history.middle", seq, HISTORY_HEAD, count - HISTORY_TAIL)
    if middle is None:
        return
    before, lines = middle
    [(head,)] = tx.all("history.head", seq, HISTORY_HEAD)
    attempts = _last_attempt(head), _last_attempt(lines)
    tx.run("history.forget", seq, HISTORY_HEAD, before)
    tx.run("history.forget_logs", seq, *attempts)
    tx.run("history.forget_usage", seq, *attempts)


def _last_attempt(lines: str) -> int:
    return history.read_history([(None, lines)])[-1].attempt
