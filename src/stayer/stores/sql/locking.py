"""What keeps those who write at the same time out of each other's way.

Where there is one writer (`Dialect.lock` is empty) nothing has to be done, and nothing is asked of
the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stayer.stores.sql.transaction import Transaction


def lock_queues(tx: Transaction, names: Iterable[str]) -> bool:
    """Let nobody else change these queues, take from them where they have limits, or claim a unique
    word there, until the end of the transaction. Whether that had to be done: if so, what was read
    before may have changed. Always in the order of their names, so that nobody waits in a circle.
    """
    if not tx.dialect.lock:
        return False
    wanted = set(names)
    if len(tx.all("queue.lock", tx.array(sorted(wanted)))) < len(wanted):
        # One that is not there has no row, and must not be made before a task is accepted. So
        # those who bring queues wait for each other, and look again.
        tx.all("queue.lock_new")
        tx.all("queue.lock", tx.array(sorted(wanted)))
    return True


def share_settings(tx: Transaction, queues: Sequence[str]) -> bool:
    """Before tasks are taken from these queues: nobody changes their settings until the end of the
    transaction, so that none is exceeded that was set while this was under way. Those who take at
    the same time don't wait for each other, unless a queue has limits, lines or a rate: then it
    is locked here, in the order of names. Whether that is seen to for all.
    """
    if not tx.dialect.lock:
        return False
    if tx.dialect.shares_settings:
        tx.send("queue.share", [(tx.array(queues),)])
    if len(queues) < 2:
        return False  # one can be looked at first
    tx.send("queue.lock_limited", [(tx.array(queues),)])
    return True


def keep_settings(tx: Transaction, queue: str) -> None:
    """Before the settings of a queue are changed: nobody takes from it, and those who have taken
    have committed.
    """
    if tx.dialect.shares_settings:
        tx.all("queue.keep", queue)
    lock_queues(tx, [queue])


def lock_words(tx: Transaction, queues: Sequence[str], words: Sequence[str]) -> None:
    """Let nobody else claim these unique words, each of the queue in the same place."""
    if tx.dialect.locks_words:
        tx.all("unique.lock", tx.array(queues), tx.array(words))
    else:
        lock_queues(tx, queues)


def lock_word_of(tx: Transaction, id: str) -> None:
    """Let nobody else claim the unique word of this task, if it is there."""
    if tx.dialect.locks_words:
        tx.all("unique.lock_of", id)
        return
    found = tx.one("get.seq", id) if tx.dialect.lock else None
    if found is not None:
        lock_queues(tx, [found[1]])


def claim_rows(tx: Transaction, seqs: list[int]) -> list[int]:
    """Those of the chosen tasks that can still be taken, from now on by nobody else."""
    if not tx.dialect.claim:
        return seqs
    still = {seq for (seq,) in tx.all("reserve.claim", tx.array(seqs))}
    return [seq for seq in seqs if seq in still]
