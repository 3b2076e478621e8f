"""The ear: a thread that sleeps at the store, and tells when there may be work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from stayer.core.errors import StoreError
from stayer.store import Store

_WAIT_LIMIT_S = 60.0
_ERROR_PAUSE_S = 0.1


class StoreListener:
    """Listens for one worker identity, from its making on."""

    def __init__(
        self, store: Store, worker: str, queues: Sequence[str], on_noise: Callable[[], None]
    ) -> None:
        self._waiter = store.waiter(worker, queues)
        self._on_noise = on_noise
        self._closing = False
        threading.Thread(target=self._listen, name="ear", daemon=True).start()

    def close(self) -> None:
        """Hear no more."""
        self._closing = True
        self._waiter.ring()

    def _listen(self) -> None:
        while not self._closing:
            try:
                self._waiter.wait(_WAIT_LIMIT_S)
                self._on_noise()  # also when the time was over: a wake-up may have got lost
            except StoreError:
                time.sleep(_ERROR_PAUSE_S)
        self._waiter.close()
