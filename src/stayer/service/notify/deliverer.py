"""Delivers notices: takes those that are due, sends them, and stores how that went.

A process has one `Deliverer`, which works in threads of its own, so that a receiver who takes his
time is in nobody's way. Nothing is lost with it: what it has taken is somebody else's when the
lease is over.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from stayer.core.errors import BadInput, StoreError
from stayer.core.model import Task
from stayer.core.notify import notices
from stayer.core.notify.hooks import Hook, Rules
from stayer.core.notify.notices import Delivery, Notice
from stayer.service.degraded import log_once
from stayer.service.notify import command, smtp, webhook
from stayer.service.notify.looking import look_meanwhile
from stayer.service.notify.settings import LiveSettings, Whom, follow_files
from stayer.service.notify.turns import LANES, Lane, Turns, Waiting
from stayer.service.notify.webhook import Answered
from stayer.store import DeliveryStore, Store

if TYPE_CHECKING:
    from stayer.config import Config

logger = logging.getLogger("stayer.service.notify")

DELIVERY_THREADS = 8
"""How many notices are delivered at once to hooks of the configuration. URLs that tasks name have
places of their own (see `turns`): neither waits for the other."""
URLS_AT_ONCE = 24
"""How many notices to URLs are taken at once."""
BUSY_PAUSE_S, IDLE_PAUSE_S = 0.5, 5.0
"""How long it waits between two looks, in seconds: after it found something, and at most."""
_AT_ONCE_PAUSE = 0.1
"""How much of the pause is left where more was found than could be begun."""
_NEVER_S = 1e12
"""An age that no notice has."""
_STOP_TIMEOUT_S = 2.0
_NO_RULES = Rules(deliver=False)


def try_once(whom: Whom, notice: Notice) -> Answered:
    """Tell it."""
    name = notices.hook_name(notice.to)
    secrets = whom.secrets.get(name, ())
    if not name:
        hook = Hook(name="", url=notice.to, time_limit=whom.rules.time_limit)
        allowed = partial(webhook.check_host, whom.rules.hosts)
        return webhook.send(hook, secrets, notice, allowed)
    if (known := whom.hooks.get(name)) is None:
        return Answered(False, f"no hook is called {name!r} anymore")
    hook = known
    if hook.command is not None:
        return command.run(hook, notice)
    if hook.mail is not None:
        return smtp.send(hook.mail, secrets, notice, hook.time_limit)
    return webhook.send(hook, secrets, notice)


def sample(whom: Whom, target: str) -> Notice:
    """Make what a hook can be tried out with; BadInput if there is no such hook."""
    target = notices.parse(target).partition(":")[2]
    if (name := notices.hook_name(target)) and name not in whom.hooks:
        known = ", ".join(whom.hooks) or "none"
        raise BadInput(f"no hook is called {name!r} in the configuration: there are {known}")
    task = Task(id="sample", queue="sample", state="complete", ending="done", attempt=1)
    id = notices.notice_id(task.id, time.time(), 0, target)
    return Notice(
        id=id, task=task.id, queue=task.queue, event="complete", to=target, attempt=1,
        at=time.time(), tries=1, record=notices.notice_record_of(task),
    )  # fmt: skip


def judge_answer(rules: Rules, notice: Notice, answered: Answered, age: float) -> Delivery:
    """Decide what follows an answer, so many seconds after what it is about, or after its retry."""
    if answered.delivered:
        return Delivery(True, answered.summary)
    if answered.final:
        return Delivery(False, answered.summary)
    tries = notice.tries - notice.forgiven
    after = max(answered.after or 0.0, notices.wait(notice.id, tries))
    if tries >= rules.tries or age + after > rules.age:
        return Delivery(False, f"given up after {tries} tries. {answered.summary}")
    return Delivery(False, answered.summary, after=after)


class Deliverer:
    """Delivers until it is stopped."""

    def __init__(
        self,
        store: DeliveryStore,
        whom: Whom,
        *,
        soon: float = BUSY_PAUSE_S,
        seldom: float = IDLE_PAUSE_S,
    ):
        self._store = store
        self._whom = whom
        self._soon, self._seldom = soon, seldom
        self._pause = soon
        self._chance = random.Random()  # its own: that of the process may be somebody's seed
        self._changed = threading.Condition()
        self._under_way = self._to_hooks = 0
        self._turns = Turns(LANES)
        self._stopping = False
        self._looking = threading.Thread(target=self._look, name="notices", daemon=True)

    def start(self) -> None:
        """Start the thread that looks for notices."""
        self._looking.start()

    def change(self, whom: Whom) -> None:
        """Deliver by other settings from now on; what is under way ends by those that it has."""
        with self._changed:
            self._whom = whom
            self._changed.notify_all()

    def stop(self, patience: float = _STOP_TIMEOUT_S) -> None:
        """Take no more. What is under way may end within so many seconds; else it is repeated,
        by somebody else.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._under_way, patience)
        self._looking.join(patience)

    def _look(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, self._draw_pause())
                self._changed.wait_for(lambda: self._stopping or any(self._free()))
                if self._stopping:
                    return
                self._turns.forget_idle(time.monotonic())
            found, put_back = 0, False
            try:
                for some in self._take(*self._free()):
                    found += len(some)
                    for notice in some:
                        put_back |= self._begin(notice)
            except StoreError as error:
                log_once.warn_once(logger, "notices are looked for later", error)
            except Exception:  # whatever it is, others must not wait for ever
                logger.exception("notices are looked for later")
            if put_back:  # who waits behind them may be told now
                self._pause = self._soon * _AT_ONCE_PAUSE
            else:
                self._pause = self._soon if found else min(self._seldom, self._pause * 1.5)

    def _draw_pause(self) -> float:
        """Draw the time until the next look, so that no two are in step."""
        return self._pause * self._chance.uniform(0.7, 1.3)

    def _free(self) -> tuple[int, int]:
        """Return how many notices to hooks of the configuration, and to URLs, can be taken now."""
        if not self._whom.rules.deliver:
            return 0, 0
        free = DELIVERY_THREADS - self._to_hooks if self._whom.hooks else 0
        return free, min(self._turns.room, URLS_AT_ONCE)

    def _take(self, free: int, room: int) -> Iterator[list[Notice]]:
        """Take what is due, to be begun before more is taken: should that fail, it is not lost."""
        whom, take = self._whom, self._store.take_notices
        if not whom.hooks:
            yield take(whom.names, room, whom.lease, whom.rules.age)
            return
        # Whoever names but some of the hooks must not give up what is for the others.
        to_hooks = take(tuple(whom.hooks), free, whom.lease, _NEVER_S) if free else []
        yield to_hooks
        to_urls = take(("",), room, whom.lease, _NEVER_S) if room else []
        yield to_urls
        if free and room and not to_hooks and not to_urls:
            yield take(whom.names, 1, whom.lease, whom.rules.age)

    def _begin(self, notice: Notice) -> bool:
        """Deliver it now, or when it is its turn; whether it was put back instead."""
        if notices.hook_name(notice.to):
            with self._changed:
                self._to_hooks += 1
            if not self._start(notice.id, partial(self._deliver_to_hook, notice)):
                with self._changed:
                    self._to_hooks -= 1
            return False
        with self._changed:
            turn = self._turns.admit(notice, time.monotonic())
        if isinstance(turn, float):
            self._put_back(notice, turn)
            return True
        if turn is not None and not self._start(notice.id, partial(self._serve_lane, turn)):
            with self._changed:
                self._turns.abandon(turn)
        return False

    def _start(self, name: str, deliver: Callable[[], None]) -> bool:
        thread = threading.Thread(target=deliver, name=f"notice {name}", daemon=True)
        with self._changed:
            self._under_way += 1
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:  # it is taken again when the lease is over
            logger.warning("notice %s is delivered later: %s", name, error)
            self._end()
            return False
        return True

    def _end(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _serve_lane(self, lane: Lane) -> None:
        """Deliver one notice to a host after another."""
        try:
            while (waiting := self._next_notice(lane)) is not None:
                began_at = time.monotonic()
                # Its lease must not be over before the try is.
                is_late = began_at - waiting.since > self._whom.margin / 2
                if self._stopping or is_late or waiting.pause is not None:
                    self._put_back(waiting.notice, waiting.pause or 0.0)
                    continue
                self._deliver(waiting.notice)
                ended_at = time.monotonic()
                with self._changed:
                    self._turns.note(lane, ended_at - began_at, ended_at)
        finally:
            self._end()

    def _next_notice(self, lane: Lane) -> Waiting | None:
        with self._changed:
            return self._turns.take_next(lane, time.monotonic())

    def _put_back(self, notice: Notice, after: float) -> None:
        """Let it be due again later, as if it had not been taken."""
        message = notice.said or "others are told first"
        try:
            self._store.settle_notice(notice, Delivery(False, message, after, is_put_back=True))
        except StoreError as error:  # it is taken again when the lease is over
            log_once.warn_once(logger, "notices are put back later", error)

    def _deliver_to_hook(self, notice: Notice) -> None:
        try:
            self._deliver(notice)
        finally:
            with self._changed:
                self._to_hooks -= 1
            self._end()

    def _deliver(self, notice: Notice) -> None:
        try:
            delivery = self._try_notice(notice)
            self._store.settle_notice(notice, delivery)
            if not delivery.delivered:
                logger.warning(
                    "notice %s of task %s to %s: %s",
                    notice.id, notice.task, shorten_target(notice.to), delivery.said[:200],
                )  # fmt: skip
        except StoreError as error:
            logger.warning("notice %s is delivered once more: %s", notice.id, error)
        except Exception:  # others wait behind it
            logger.exception("notice %s is delivered once more", notice.id)

    def _try_notice(self, notice: Notice) -> Delivery:
        age = notice.age(self._store.now())
        try:
            answered = try_once(self._whom, notice)
        except Exception as error:  # a mistake of ours must not be tried for ever, nor get lost
            logger.exception("notice %s", notice.id)
            answered = Answered(False, repr(error))
        return judge_answer(self._whom.rules, notice, answered, age)


def shorten_target(target: str) -> str:
    """Shorten a target for logs: what follows its host may be a secret."""
    return "/".join(target.split("/", 3)[:3]) if notices.is_url(target) else target


@contextmanager
def deliver_meanwhile(
    store: Store, read: Callable[[], Config], *, is_server: bool = False
) -> Iterator[None]:
    """Deliver and look meanwhile, as the file says (`read` reads it), also when it changes."""
    settings = LiveSettings(read)
    deliverer = Deliverer(store, settings.whom)
    deliverer.start()

    def rules() -> Rules:
        found = settings.whom.rules
        return found if found.deliver else _NO_RULES

    try:
        with (
            follow_files(settings, lambda: deliverer.change(settings.whom)),
            look_meanwhile(store, rules, is_server=is_server),
        ):
            yield
    finally:
        deliverer.stop()
