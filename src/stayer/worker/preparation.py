"""What the worker sees of an attempt whose code is being prepared, and answers to it.

The process of the task speaks through files of its folder: `preparing` (something has to be done),
`resolved` (what it found, to be pinned), `prepared` (it becomes the task now). The answer to the
second is `pinned`, in the run directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stayer.core.code import in_force, lines_of, prepares
from stayer.core.errors import BadInput
from stayer.core.happening_json import cut_to_fit
from stayer.core.happenings import Note, Pin
from stayer.core.images import is_digest
from stayer.core.lifecycle import decide
from stayer.core.limits import FLOW_TASKS
from stayer.core.model import FINISHED, Code, Pinned, Task
from stayer.core.units import format_duration
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.attempt import HeldAttempt
from stayer.worker.commit_outcomes import refresh
from stayer.worker.task_code import CodeRules

logger = logging.getLogger("stayer.worker")

_BATCH = 200
_TELL_FROM_S = 1.0
"""A preparation that took less is not worth a line in the history."""
_ENVIRONMENT = re.compile(r"[0-9a-f]{64}(\.\d)?")


class Preparations:
    """Those of all attempts of a worker."""

    def __init__(self, store: Store, rules: CodeRules | None) -> None:
        self._store = store
        self._rules = rules
        self._told: set[tuple[str, int]] = set()
        self._begun: set[tuple[str, int]] = set()
        self._locks: dict[tuple[str, int], int] = {}

    def look(self, held: HeldAttempt) -> None:
        """See how far it is; answer what is asked."""
        if not held.is_preparing():
            return
        if (
            held.key not in self._told
            and (said := held.run.read_preparation("preparing")) is not None
        ):
            self._told.add(held.key)
            held.unsent_notes.append(Note("preparing", f"{said.get('what', '')}"[:200]))
        if (
            not held.run.is_answered
            and (resolved := held.run.read_preparation("resolved")) is not None
        ):
            held.run.answer(self._answer(held, resolved))

    def begins(self, held: HeldAttempt) -> None:
        """Let its own limits count from now on: its code is there, and it becomes the task. What it
        uses is not removed.
        """
        if held.key in self._begun:
            return
        self._begun.add(held.key)
        took = held.run.prepared_for
        if held.key in self._told or took >= _TELL_FROM_S:
            held.unsent_notes.append(Note("prepared", f"in {format_duration(took)}"))
        limits = {**held.run.later_limits, **held.run.keeper_orders.get("limits", {})}
        if limits.get("time"):
            limits["time"] += min(took, held.run.longest_preparation)
        if limits:
            held.ask(limits=limits)
        self.hold(held)

    def hold(self, held: HeldAttempt) -> None:
        """Share the lock of its environment until it has ended: the task has it too, but might let
        go of it.
        """
        name = (held.run.prepared or {}).get("environment")
        folder = held.run.code_folder
        if held.key in self._locks or folder is None or not isinstance(name, str):
            return
        if not _ENVIRONMENT.fullmatch(name):
            return
        how = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with suppress(OSError):
            lock = os.open(Path(folder) / "envs" / f"{name}.lock", how)
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise
            self._locks[held.key] = lock

    def forget(self, held: HeldAttempt) -> None:
        """Let go of what was held for it: it has ended."""
        self._told.discard(held.key)
        self._begun.discard(held.key)
        if (lock := self._locks.pop(held.key, None)) is not None:
            os.close(lock)

    def _answer(self, held: HeldAttempt, resolved: dict[str, Any]) -> dict[str, Any]:
        try:
            pin = self._pin(held, resolved)
        except NotAllowed as error:
            logger.warning("the code of task %s is refused: %s", held.task.id, error)
            return {"refused": f"{error}"}
        except BadInput as error:
            return {"refused": f"what it needs can't be read: {error}"}
        refresh(self._store, held)
        about = pin.pinned
        return {
            "python": about.python, "lock": about.lock, "commit": about.commit, "text": pin.lock,
            "image": about.image,
        }  # fmt: skip

    def _pin(self, held: HeldAttempt, resolved: dict[str, Any]) -> Pin:
        """Have it written down, and return what counts; NotAllowed and BadInput if that can't be
        installed here. Whoever was faster may be one whom this worker would not believe.
        """
        if held.task.code is not None and held.task.code.image is not None:
            return cut_to_fit(agree(self._store, held.task, _as_pin_of_image(resolved)))
        if self._rules is None:
            raise NotAllowed("this worker installs nothing any more")
        pin, default = _as_pin(resolved), held.run.default_code
        if default is not None:
            pin = replace(pin, pinned=replace(pin.pinned, git=default.get("git")))
            if self._rules.default and self._rules.default.key == default.get("key"):
                self._rules.default.learn(lines_of(pin.lock or ""))
        by_default = default is not None
        self._rules.check_pin(pin.pinned, pin.lock, by_default=by_default)
        agreed = agree(self._store, held.task, pin)
        self._rules.check_pin(agreed.pinned, agreed.lock, by_default=by_default)
        if agreed.pinned.git != pin.pinned.git:
            raise NotAllowed(
                f"it runs code of {agreed.pinned.git}, by another default than that of this worker"
            )
        return agreed


def _as_pin(resolved: dict[str, Any]) -> Pin:
    """Read what the process says that it found; BadInput if it makes no sense."""
    python, commit, text = (resolved.get(name) for name in ("python", "commit", "text"))
    if (
        not isinstance(python, str)
        or not re.fullmatch(r"\d+\.\d+", python)
        or not isinstance(text, str | None)
        or not isinstance(commit, str | None)
        or (commit is not None and not re.fullmatch(r"[0-9a-f]{40,64}", commit))
    ):
        raise BadInput("it is of another form")
    lock = hashlib.sha256(text.encode()).hexdigest() if text else None
    return cut_to_fit(Pin(Pinned(python, lock, commit), text or None))


def _as_pin_of_image(resolved: dict[str, Any]) -> Pin:
    """Read which digest the process says that it found. Only that: the name of the image is the
    task's, and was looked at before.
    """
    image = resolved.get("image")
    if not is_digest(image):
        raise BadInput("it is of another form")
    return Pin(Pinned(image=image))


def agree(store: Store, task: Task, pin: Pin) -> Pin:
    """Have this written down, unless somebody was faster: then take over what is there. All tasks
    of a map go by the first of them that can be pinned.
    """
    for other in _before(store, task):
        found = None if is_anew(other) else _pin_once(store, other, pin)
        if found is not None:
            pin = found
            break
    return _pin_once(store, task, pin) or pin


def with_known_pin(store: Store, task: Task, default: Code | None = None) -> Task:
    """Return the task, pinned as others of its map are if it has not been pinned itself. `default`
    is the code of tasks that ask for none.
    """
    if not prepares(in_force(task, default)) or task.pinned is not None:
        return task
    for other in _before(store, task):
        if is_anew(other):
            continue
        if other.pinned is not None:
            _pin_once(store, task, Pin(other.pinned, other.lock))
            return control.get(store, task.id)
        if other.state not in FINISHED:
            break
    return task


def is_anew(task: Task) -> bool:
    """Return whether its code is to be found out anew, whatever others of its map have."""
    return task.pinned is not None and task.pinned.anew


def _before(store: Store, task: Task) -> Iterator[Task]:
    """List the tasks of the same map and code, in their order, up to this one."""
    if task.flow is None or task.part is None or is_anew(task):
        return
    stem, _, place = task.id.rpartition(".")
    if stem != f"{task.flow}.{task.part}" or not place.isdecimal():
        return
    if int(place) >= FLOW_TASKS:  # whoever wrote that into the store must not stop us
        return
    for start in range(0, int(place), _BATCH):
        ids = [f"{stem}.{n}" for n in range(start, min(int(place), start + _BATCH))]
        for other in store.get(ids):
            if other is not None and other.code == task.code:
                yield other


def _pin_once(store: Store, task: Task, pin: Pin) -> Pin | None:
    """Pin the task unless it is, and return its pin; None if it has ended unpinned, or runs without
    code that it did not ask for, or is to run other code by now.
    """
    current: Task | None = task
    while current is not None and current.code == task.code:
        if current.pinned is not None and not current.pinned.anew:
            return Pin(current.pinned, current.lock)
        runs_plain = current.state == "started" and not prepares(current.code)
        if current.state in FINISHED or runs_plain:
            return None
        if store.commit([decide(current, pin)])[0] is not None:
            return pin
        current = store.get([current.id])[0]
    return None
