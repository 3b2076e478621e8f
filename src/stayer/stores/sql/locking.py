"""What keeps those who write at the same time out of each other's way.

Where there is one writer (`Dialect.lock` is empty) nothing has to be done, and nothing is asked of
the database.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def lock_queue_of(tx: Transaction, id: str) -> None:
    """Lock the queue of a task, if there is one."""
    found = tx.one("get.seq", id) if tx.dialect.lock else None
    if found is not None:
        lock_queues(tx, [found[1]])


def claimed(tx: Transaction, seqs: list[int]) -> list[int]:
    """Those of the chosen tasks that can still be taken, from now on by nobody else."""
    if not tx.dialect.claim:
        return seqs
    still = {seq for (seq,) in tx.all("reserve.claim", tx.array(seqs))}
    return [seq for seq in seqs if seq in still]
