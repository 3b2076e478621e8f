"""What a server sees to itself: whoever asks it has nothing to do, or is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stayer.core.errors import StoreUnusable
from stayer.core.model import Task
from stayer.core.notify.notices import Delivery, Notice
from stayer.core.queue_model import Kept
from stayer.core.schedules.model import Firing, Schedule
from stayer.store import SharedName, Store

_NOTHING_TO_DO_S = 3600.0
"""When to ask again for what the server does."""


class LeftToServer(Store):
    """The part of the contract in which a store over HTTP does nothing."""

    def declare_lost(self, judge: str | None, silent: dict[str, int]) -> list[Task]:
        return []  # who comes from outside judges nobody

    def promote(self, limit: int) -> float | None:
        return None

    def due_schedules(self, limit: int) -> list[Schedule]:
        return []

    def fire(self, firing: Firing) -> bool:
        return False

    def sample(self) -> float:
        return _NOTHING_TO_DO_S

    def forget(self, retention: Mapping[Kept, float], limit: int) -> int:
        return 0

    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        return []

    def add_notices(self, found: Sequence[Notice]) -> None:
        pass

    def settle_notice(self, notice: Notice, delivery: Delivery) -> bool:
        return False

    def record_once(self, key: str, value: str, seconds: float) -> str:
        raise self._for_servers()

    def read_record(self, key: str) -> str | None:
        raise self._for_servers()

    def read_shared(self, name: SharedName) -> str | None:
        raise self._for_servers()

    def put_shared(self, name: SharedName, value: str, known: str | None) -> bool:
        raise self._for_servers()

    def _for_servers(self) -> StoreUnusable:
        return StoreUnusable(
            f"{self.url} is a server: another server needs the database itself, give it its URL "
            "(sqlite:…, redis:…)"
        )
