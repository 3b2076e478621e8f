"""What happened to tasks, on its way to a server: in requests that are never too large for it."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from stayer.core import codec
from stayer.core.errors import NotHeld, StoreError, StoreUnusable, UnknownTask, UnknownWorker
from stayer.core.happening_json import happening_json
from stayer.core.model import JSON, Change, Task
from stayer.stores.remote import records
from stayer.stores.remote.connection import Connection, RequestTooLarge, path_of

logger = logging.getLogger(__name__)

_MOST, _MOST_BYTES = 200, 1_000_000
"""How many changes go into one request, and how large it is if they are several. Proxies let so
much pass if nobody tells them otherwise, and it has no more values than a server takes.
"""
_CHECKPOINT_WITHIN_BYTES = 100_000
"""Larger checkpoints go before the change, as bytes."""


class _Written(NamedTuple):
    change: Change
    json: bytes


class Changes:
    """The changes of one call, worker by worker: each is told apart from the others."""

    def __init__(self, url: str, connection: Connection) -> None:
        self._url = url
        self._connection = connection
        self._some_are_told = False

    def tell(self, changes: Sequence[Change]) -> list[Task | None]:
        """Return the tasks as they are then; None where nothing was done."""
        answers: list[Task | None] = [None] * len(changes)
        by_worker: dict[str | None, list[int]] = {}
        for place, change in enumerate(changes):
            by_worker.setdefault(change.worker, []).append(place)
        for worker, places in by_worker.items():
            if worker is None:
                continue  # held by nobody: no worker has anything to say of it
            try:
                told = self._tell(worker, [changes[place] for place in places])
            except StoreError as error:
                error.unsure = error.unsure or self._some_are_told
                raise
            for place, task in zip(places, told, strict=True):
                answers[place] = task
        return answers

    def _tell(self, worker: str, changes: Sequence[Change]) -> list[Task | None]:
        written = [self._write(self._save_before(worker, change)) for change in changes]
        return [task for part in _parts(written) for task in self._send(worker, part)]

    def _save_before(self, worker: str, change: Change) -> Change:
        """Send a large checkpoint by itself, if the task is still held."""
        if change.checkpoint is None or len(change.checkpoint) <= _CHECKPOINT_WITHIN_BYTES:
            return change
        path = path_of("work", worker, "tasks", quote(change.id, safe=""), "checkpoint")
        try:
            self._connection.send("PUT", path, {"attempt": change.attempt}, change.checkpoint)
        except (NotHeld, UnknownTask, UnknownWorker, RequestTooLarge):
            return change
        return replace(change, checkpoint=None)

    def _write(self, change: Change) -> _Written:
        return _Written(change, msgspec.json.encode(_change_json(self._url, change)))

    def _send(self, worker: str, part: Sequence[_Written]) -> list[Task | None]:
        body = cast(JSON, {"changes": [msgspec.Raw(each.json) for each in part]})
        try:
            answer = self._connection.ask("POST", path_of("work", worker, "changes"), body=body)
        except UnknownWorker:  # one of long ago
            return [None] * len(part)
        except RequestTooLarge:
            if len(part) == 1 and part[0].change.checkpoint is None:
                raise
            return self._send_less(worker, part)
        self._some_are_told = True
        return [None if shown is None else records.task(shown) for shown in answer["tasks"]]

    def _send_less(self, worker: str, part: Sequence[_Written]) -> list[Task | None]:
        """Send half at a time; the end of one task if need be without its checkpoint, for that
        would never come through.
        """
        if len(part) > 1:
            half = len(part) // 2
            return [*self._send(worker, part[:half]), *self._send(worker, part[half:])]
        change = part[0].change
        logger.warning(
            "the last checkpoint of task %s is not kept: it is too large for %s",
            change.id,
            self._url,
        )
        return self._send(worker, [self._write(replace(change, checkpoint=None))])


def _parts(written: Sequence[_Written]) -> Iterator[list[_Written]]:
    part: list[_Written] = []
    size = 0
    for each in written:
        if part and (len(part) == _MOST or size + len(each.json) > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.json)
    if part:
        yield part


def _change_json(url: str, change: Change) -> dict[str, JSON]:
    happening = happening_json(change.happening)
    if happening is None:
        raise StoreUnusable(f"{url} is a server, which decides itself: ask it by its verbs")
    if change.result is not msgspec.UNSET and "result" in happening:
        happening["result"] = codec.shown_value(change.result)
    told: dict[str, JSON] = {
        "id": change.id, "attempt": change.attempt, "state": change.state,
        "last_order": change.last_order, "ago": change.ago, "happening": happening,
    }  # fmt: skip
    if happening["what"] == "interrupt":  # whether it is to stand still there as well
        told["paused"] = bool(change.effect.sets.get("held"))
    if change.checkpoint is not None:
        told["checkpoint"] = base64.b64encode(change.checkpoint).decode()
    return told
