"""What a task sees of Stayer while a test runs it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import Token
from pathlib import Path
from typing import Any, Self

from stayer.core import codec
from stayer.core.model import Progress, Task, Value
from stayer.service import upstream_results
from stayer.store import Store
from stayer.task.checkpoints import Checkpoints
from stayer.task.context import Context, in_this_thread
from stayer.task.reports import Number, number, short
from stayer.testing.clock import Clock


class StoreCheckpoints(Checkpoints):
    """The checkpoint of a task, kept in the store as soon as it is saved."""

    def __init__(self, task: Task, store: Store, send: Callable[[bytes], None]) -> None:
        super().__init__(f"of task {task.id}")
        self._send = send
        found = store.checkpoint(task.id)
        self._data = b"" if found is None else found.data

    def _load(self) -> bytes:
        return self._data

    def _save(self, data: bytes) -> None:
        self._data = data
        self._send(data)


class TestContext(Context):
    """The running task, seen from inside a test. What it reports is in the store at once; its
    sleep moves the clock instead of waiting.
    """

    __test__ = False
    result: Value = None
    _token: Token[Context | None]

    def __init__(
        self,
        task: Task,
        folder: Path,
        store: Store,
        clock: Clock | None,
        send: Callable[[Progress | None, bytes | None], None],
    ) -> None:
        super().__init__(task, folder, *(str(folder / name) for name in ("report", "c", "result")))
        self._clock = clock
        self._store = store
        self._send = send
        self._last = Progress()
        self._checkpoints = StoreCheckpoints(task, store, lambda data: send(None, data))

    def __enter__(self) -> Self:
        self._token = in_this_thread.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        in_this_thread.reset(self._token)

    @functools.cached_property
    def inputs(self) -> dict[str, Any]:
        """The results of what it runs after."""
        return upstream_results.of(self._store, self.record)

    def progress(
        self,
        done: Number | None = None,
        total: Number | None = None,
        message: str | None = None,
    ) -> None:
        """Say how far it is."""
        amount = number(done)
        whole = number(total) if amount is not None else self._last.total
        amount = self._last.done if amount is None else amount
        self._last = Progress(amount, whole, short(message))
        self._send(self._last, None)

    def set_result(self, value: object) -> None:
        """Set the result of the task; what its function returns comes last, unless that is None."""
        codec.pack(value, "the result", codec.RESULT_LIMIT)  # type: ignore[arg-type]
        self.result = value  # type: ignore[assignment]

    def sleep(self, seconds: float) -> bool:
        """Move the clock forward by so much; whether it may go on."""
        if self._clock is None:
            return super().sleep(seconds)
        if not self._cancelled:
            self._clock.advance(seconds)
        return not self._cancelled
