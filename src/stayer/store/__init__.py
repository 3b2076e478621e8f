"""The contract that every database keeps.

One protocol for each kind of caller: readers, submitters, workers, operators, upkeep, delivery,
moves.
`Store` is their sum, kept by what lives in `stores/`: another store is one folder there that
inherits from `Store` and passes `tests/contract/`.

Rules that hold for every operation:

- **Atomic per task.** An operation that takes several tasks may apply in part; its answer says
  which. A store may do better (SQLite: all or nothing).
- **The store's clock.** Stored times come from the database, never from a client. Tests set it
  with the `clock` argument of the store.
- **The fence.** What comes from a worker names (worker, attempt) and changes nothing unless the
  task is still held by just them.
- **Flat cost.** Submit, reserve, commit and beat cost the same with an empty queue and with a
  million pending and a million finished tasks.
- **Errors.** A driver's error becomes `StoreUnreachable` (try again later) or `StoreUnusable`
  (somebody must mend it); nothing else escapes.
- **Threads.** A store may be used by several threads at once, and after a fork.
"""

from __future__ import annotations

from typing import Protocol

from stayer.store.admin import AdminStore
from stayer.store.base import (
    HISTORY_HEAD,
    HISTORY_TAIL,
    LOG_HEAD,
    LOG_PIECE,
    LOG_TAIL,
    REMEMBERED,
    Meanwhile,
    SharedName,
    StoreBase,
    Waiter,
)
from stayer.store.moves import MoveStore
from stayer.store.operator import Operator
from stayer.store.reads import ReadStore, known_lost_workers, known_workers
from stayer.store.submits import FileStore, SubmitStore
from stayer.store.upkeep import DeliveryStore, UpkeepStore
from stayer.store.work import WorkerStore

__all__ = [
    "HISTORY_HEAD",
    "HISTORY_TAIL",
    "LOG_HEAD",
    "LOG_PIECE",
    "LOG_TAIL",
    "REMEMBERED",
    "AdminStore",
    "DeliveryStore",
    "FileStore",
    "Meanwhile",
    "MoveStore",
    "Operator",
    "ReadStore",
    "SharedName",
    "Store",
    "StoreBase",
    "SubmitStore",
    "UpkeepStore",
    "Waiter",
    "WorkerStore",
    "known_lost_workers",
    "known_workers",
]


class Store(
    SubmitStore,
    FileStore,
    WorkerStore,
    AdminStore,
    UpkeepStore,
    DeliveryStore,
    MoveStore,
    Protocol,
):
    """A database that holds tasks, queues and workers: all that its kinds of callers need.

    A store inherits from this. What has a body above is so for a store in one place, that is no
    file and no SQL database, until it says otherwise.
    """
