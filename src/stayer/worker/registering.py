"""Taking up an identity in the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from stayer.core.errors import LeaseLost
from stayer.core.model import Orders, Report, Worker
from stayer.heart import Heart
from stayer.store import Store
from stayer.worker.state import StateDirectory

logger = logging.getLogger("stayer.worker")


def registered_heart(
    store: Store,
    state: StateDirectory,
    about: Worker,
    *,
    on_orders: Callable[[Orders], None],
    on_lost: Callable[[], None],
    gather: Callable[[], Sequence[Report]],
    on_beat: Callable[[float], None],
    on_drain: Callable[[], None],
) -> Heart:
    """A heart that beats; raises LeaseLost if the identity is no longer worth anything."""
    known = {worker.id: worker for worker in store.workers()}
    if state.resumed and about.id not in known:
        raise LeaseLost(f"worker {about.id} was given up as dead")
    heart = Heart(
        store,
        about,
        on_orders=on_orders,
        on_lost=on_lost,
        gather=gather,
        on_beat=on_beat,
        on_drain=on_drain,
        last_number=known[about.id].number if about.id in known else 0,
    )
    heart.start()
    logger.info("worker %s takes tasks from %s", about.id, ", ".join(about.queues))
    return heart
