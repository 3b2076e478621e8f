"""The shards of a cluster: a whole store a queue, and where an id is among them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace
from redis.crc import key_slot

from stayer.core.errors import StoreError, StoreMoved, StoreUnreachable
from stayer.core.ids import redraw
from stayer.core.model import NewTask, Submitted, Task
from stayer.store import REMEMBERED
from stayer.stores.redis import record, sealing
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.damage import MEND_PAUSE_S, set_aside_alone
from stayer.stores.redis.damaged_keys import UNREADABLE, keys_below
from stayer.stores.redis.errors import translated
from stayer.stores.redis.keys import REGISTRY_TAG, key, tag
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.tasks import Promised, pack_tasks
from stayer.stores.redis.replica_acks import Unconfirmed
from stayer.stores.redis_cluster.claims import Claim, Claims
from stayer.stores.redis_cluster.directory import Directory
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.nodes import Guard, Nodes
from stayer.stores.redis_cluster.shard import Shard, ShardStore
from stayer.stores.redis_cluster.two_phase import Plans

logger = logging.getLogger("stayer.store")

REGISTRY = "\n"
"""The shard in which all workers are known. No queue is called so."""
NEWS = "news"
"""The place of the events of all, as if it were a queue."""
_REMEMBERED_PLACES = 100_000
_TRIES = 20
_DRAWS = 100

T = TypeVar("T")


class Shards:
    """Opens them, lists them, finds the one that has a task."""

    def __init__(self, nodes: Nodes, clock: Callable[[], float] | None) -> None:
        self.nodes = nodes
        self.claims = Claims(nodes)
        self._clock = clock
        self._ended: set[str] = set()
        self.plans = Plans(self)
        self._stores: dict[str, ShardStore] = {}
        self._servers: dict[str, Shard] = {}
        self._by_tag: dict[str, Shard] = {}
        """By hash tag."""
        self._not_before = 0.0
        """When all may be looked at again for what can't be read."""
        self._directory = Directory(nodes)
        self._places: dict[str, str] = {}
        self.sealed: set[str] = set()
        """The queues that a move into this store has prepared."""
        self._guard = Guard()
        nodes.mend = self._mend

    # Queues

    def of(self, queue: str) -> ShardStore:
        """Return the store of a queue; nothing is known of it unless it was added."""
        with self._guard:
            if queue not in self._stores:
                name = REGISTRY_TAG if queue == REGISTRY else tag(queue)
                self._servers[queue] = Shard(self.nodes, name, self._clock)
                on_end = partial(self._ended.add, queue)
                self._stores[queue] = ShardStore(self._servers[queue], on_end)
            return self._stores[queue]

    def server_of(self, queue: str) -> Shard:
        """Return where it is."""
        self.of(queue)
        return self._servers[queue]

    def add(self, queues: Iterable[str], *, is_sealed: bool = False) -> None:
        """Make sure that whoever lists shards will see these. First of all steps. Raises StoreMoved
        if one is new and the store is being moved, or was; unless it is the move that asks.
        """
        self._directory.add(queues, None if is_sealed else self._refuse_if_sealed)

    def _refuse_if_sealed(self) -> None:
        try:
            mark = sealing.seal(self.server_of(REGISTRY))
        except StoreUnreachable:
            return  # then no queue can be made; and each that is there says it itself
        if mark is not None:
            raise StoreMoved(f"{self.nodes.url}: {mark.message}")

    def register_again(self, queues: Sequence[str]) -> None:
        """Name these once more to those who were told before, and may have been replaced since."""
        self._directory.register_again(queues)

    def names(self) -> list[str]:
        """Return all that there are, by name."""
        return self._directory.names()

    def identity(self) -> str:
        """Return what the registry shard is called, as far as can be told without it."""
        try:
            found = self.of(REGISTRY).identity()
        except StoreUnreachable:
            if (copied := self._directory.read_identity_copy()) is None:
                raise
            return copied
        self._directory.copy_identity(found)
        return found

    def all(self) -> list[ShardStore]:
        """Return all that there are."""
        return [self.of(name) for name in self.names()]

    def each(self, script: str, *arguments: Any) -> list[Any]:
        """Return what a script answers in each of them, by name: one round trip a node."""
        calls = [self.server_of(name).call(script, *arguments) for name in self.names()]
        return self.nodes.run_many(calls) if calls else []

    def now(self) -> float:
        """Return the time of one of the nodes: the same one, as long as it is there."""
        place = key("shards", self.nodes.options.prefix)
        try:
            return self.nodes.at(place, lambda server: server.now())
        except StoreUnreachable:
            fan_out = FanOut(self)
            for server in self.nodes.primaries():
                if (found := fan_out.attempt(server.now)) is not None:
                    return found
            raise

    def _mend(self, name: str) -> bool:
        """Set aside what can't be read beside this key, or the key itself if it has its slot for
        itself; whether there was something.
        """
        prefix = self.nodes.options.prefix
        if (place := self._place_of(name.encode())) is not None:
            return place.mending.mend()
        index = key("damaged", f"{prefix}:{{{REGISTRY_TAG}}}")
        problem = self.nodes.at(
            name, lambda server: set_aside_alone(server, prefix, name, key("damaged", prefix))
        )
        if problem is None:
            return False
        logger.warning("set aside: the key %s %s (%s names it)", name, problem, index)
        with suppress(StoreUnreachable):  # the log has named it
            if self.nodes.ask(index, "TYPE", index) not in (b"hash", b"none"):
                self.nodes.ask(index, "DEL", index)
            self.nodes.ask(index, "HSET", index, name, problem)
        return True

    def _place_of(self, name: bytes) -> Shard | None:
        """Return all that has the slot of this key; None if it has that for itself, whoever made
        it.
        """
        head = f"{self.nodes.options.prefix}:{{".encode()
        tagged, closed, _ = name.removeprefix(head).partition(b"}")
        if not name.startswith(head) or not tagged or not closed:
            return None
        try:
            word = tagged.decode()
        except UnicodeDecodeError:
            return None
        if key_slot(name) != key_slot(head + tagged + b"}"):  # as Redis reads its braces
            return None
        with self._guard:
            if word not in self._by_tag:
                self._by_tag[word] = Shard(self.nodes, word, self._clock)
            return self._by_tag[word]

    def mend(self) -> bool:
        """Set aside what can't be read in all places that can be reached; whether there was
        something. Keys that have their slots for themselves are seen to by who asks for them.
        """
        if time.monotonic() < self._not_before:
            return False
        fan_out, found = FanOut(self), False
        for server in self.nodes.primaries():
            found = fan_out.attempt(partial(self._mend_at, server)) or found
        if not found:
            self._not_before = time.monotonic() + MEND_PAUSE_S
        return found

    def _mend_at(self, server: Server) -> bool:
        found = False
        for names in keys_below(server, self.nodes.options.prefix.encode()):
            places: dict[Shard, list[bytes]] = {}
            for name in names:
                if (place := self._place_of(name)) is not None:
                    places.setdefault(place, []).append(name)
            for place, some in places.items():
                try:
                    found = place.mending.mend_these(some) or found
                except StoreError as error:  # it may have moved, or be away: the others are here
                    logger.warning("not looked at: %s: %s", place.address.prefix, error)
        return found

    def take_ended(self) -> list[str]:
        """Return the queues in which something has ended that others may have to hear of; each is
        told to one thread, which sees to it.
        """
        found: list[str] = []
        with suppress(KeyError):
            while True:
                found.append(self._ended.pop())
        return found

    # Ids

    def let_go(self, ids: Sequence[str]) -> None:
        """Let the claims of tasks that are gone expire: seen without a task, and still the same."""
        self.forget(ids)
        claims = [claim for claim in self.claims.find(ids) if claim is not None]
        # Whoever submitted it may have died before it settled the claim: that must not bring the
        # task back when nobody remembers the id. Now it is refused, and the claim expires.
        open_ones = [claim for claim in claims if claim.task is not None and claim.plan is None]
        self.finish([claim for claim in open_ones if self._read_purged(claim) is not None])
        settled = [claim for claim in claims if claim.task is None]
        there = [self.of(claim.queue).get([claim.id])[0] for claim in settled]
        self.claims.expire(
            [claim for claim, task in zip(settled, there, strict=True) if task is None]
        )

    def settle(self, queue: str, ids: Sequence[str]) -> None:
        """Settle the claims of those of these tasks that are in the queue: before they are deleted,
        for what their claims still say would bring them back.
        """
        claims = [claim for claim in self.claims.find(ids) if claim is not None]
        open_ones = [claim for claim in claims if claim.task is not None and claim.queue == queue]
        there = self.of(queue).get([claim.id for claim in open_ones])
        self.claims.settle(
            [claim for claim, task in zip(open_ones, there, strict=True) if task is not None]
        )

    def remember(self, tasks: Iterable[Task | None]) -> None:
        """Remember where these are: an id stays where it is, as long as its task is there."""
        with self._guard:  # who makes room must not see the others change it
            for task in tasks:
                if task is not None:
                    self._places[task.id] = task.queue
            while len(self._places) > _REMEMBERED_PLACES:
                del self._places[next(iter(self._places))]

    def forget(self, ids: Iterable[str]) -> None:
        with self._guard:
            for id in ids:
                self._places.pop(id, None)

    def places(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the queue of each id that there is; what was claimed and not submitted is
        submitted.
        """
        found = {id: place for id in ids if (place := self._places.get(id)) is not None}
        unknown = [id for id in dict.fromkeys(ids) if id not in found]
        if unknown:
            answers = dict(zip(unknown, self.claims.seek(unknown), strict=True))
            away = {id: each for id, each in answers.items() if isinstance(each, StoreUnreachable)}
            if away:
                found |= self._find_places(away)
            claims = [claim for claim in answers.values() if isinstance(claim, Claim)]
            planned = [claim for claim in claims if claim.plan is not None]
            claims = [claim for claim in claims if claim.plan is None]
            unsettled = [claim for claim in claims if claim.task is not None]
            for queue in dict.fromkeys(claim.queue for claim in unsettled):
                # What replicas have not confirmed is there, and that is all that is asked here.
                with suppress(Unconfirmed):
                    self.finish([claim for claim in unsettled if claim.queue == queue])
            if planned:
                claims += self.plans.finish(planned)
            found |= {claim.id: claim.queue for claim in claims}
        return found

    def _find_places(self, unclaimed: dict[str, StoreUnreachable]) -> dict[str, str]:
        """Return where tasks are whose claims can't be asked for: a task that is seen is where it
        belongs, for its id is claimed elsewhere only after it is gone. Raises if one is not to be
        seen.
        """
        found: dict[str, str] = {}
        fan_out = FanOut(self)
        for name in self.names():
            ids = [id for id in unclaimed if id not in found]
            seen = fan_out.at(name, partial(self.of(name).get, ids)) if ids else None
            found |= {task.id: name for task in seen or () if task is not None}
        for id, why in unclaimed.items():
            if id not in found:
                raise why
        return found

    def by_place(self, ids: Sequence[str], items: Sequence[T]) -> dict[str, list[tuple[int, T]]]:
        """Items with their numbers, in groups by the queue of their ids; those of no queue under
        the empty name.
        """
        places = self.places(ids)
        groups: dict[str, list[tuple[int, T]]] = {}
        for number, (id, item) in enumerate(zip(ids, items, strict=True)):
            groups.setdefault(places.get(id, ""), []).append((number, item))
        return groups

    def finish(self, claims: Sequence[Claim]) -> list[Submitted]:
        """Submit what the claims say, whoever made them, and settle them."""
        groups: dict[str, list[int]] = {}
        for number, claim in enumerate(claims):
            groups.setdefault(claim.queue, []).append(number)
        answers: dict[int, Submitted] = {}
        for queue, numbers in groups.items():
            tasks = [task for number in numbers if (task := claims[number].task) is not None]
            answers |= zip(numbers, self._submit_to(queue, tasks), strict=True)
        self.claims.settle(claims)
        # Another task may have the same unique word: then none came of the claim.
        idle = [claim for number, claim in enumerate(claims) if not _is_of(answers[number], claim)]
        self.claims.expire(idle)
        return [answers[number] for number in range(len(claims))]

    def _submit_to(self, queue: str, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Submit to a shard; a unique word may be promised to a task that comes with others, or
        not.
        """
        for _ in range(_TRIES):
            try:
                return self.of(queue).submit(tasks)
            except Promised as promise:
                words = [new.unique for new in tasks if new.unique]
                self.plans.settle_promise(queue, str(promise), words)
        raise self._contention_error()

    def _contention_error(self) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self.nodes.url}: others submit the same again and again: try again later"
        )

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept each id once, in whichever queue."""
        claimable = self._claimable(tasks)
        try:
            return self._submit(claimable)
        except StoreError as error:
            if claimable is not tasks:
                error.drawn = tuple(new.id for new in claimable if new.generated)
            raise

    def _submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        with translated(self.nodes.url):
            pack_tasks(tasks, Arguments(fixed=4))  # says what can't be kept, before it is claimed
        if len({new.id for new in tasks}) < len(tasks):
            # What becomes of the second may depend on what became of the first, and of all between.
            return [self._submit([new])[0] for new in tasks]
        self.add(new.queue for new in tasks)
        claims = self._claim(tasks)
        answers: dict[int, Submitted] = {}
        # Ids of tasks that are gone are claimed before any of these comes, to keep their order.
        for number, claim in enumerate(claims):
            if claim.task is None:
                if (there := self.find_claimed(claim)) is not None:
                    answers[number] = there
                else:
                    claims[number] = self._take_over(claim, tasks[number]) or claim
        mine = [claim.task is new for claim, new in zip(claims, tasks, strict=True)]
        unsettled = [number for number, claim in enumerate(claims) if claim.task is not None]
        finished = self.finish([claims[number] for number in unsettled])
        for number, answer in zip(unsettled, finished, strict=True):
            if not mine[number] and answer.task.id != claims[number].id:
                continue  # nothing came of somebody's claim: the id is free
            # Somebody else may have finished what was claimed here.
            fresh = mine[number] and _is_of(answer, claims[number])
            answers[number] = Submitted(answer.task, fresh, answer.purged)
        for number, claim in enumerate(claims):
            if number not in answers:
                answers[number] = self._find_claimed_or_take(claim, tasks[number])
        self.remember(answer.task for answer in answers.values() if not answer.purged)
        return [answers[number] for number in range(len(tasks))]

    def _claimable(self, tasks: Sequence[NewTask]) -> Sequence[NewTask]:
        """Return tasks that can be claimed: those whose ids were drawn get others where a node is
        away that nothing was asked of.
        """
        if not any(new.generated for new in tasks) or not (absent := self.nodes.absent()):
            return tasks
        return [self._with_other_id(new, absent) for new in tasks]

    def _with_other_id(self, new: NewTask, absent: Container[Server]) -> NewTask:
        drawn, prefix = new, self.nodes.options.prefix
        for _ in range(_DRAWS if new.generated else 0):
            with suppress(StoreUnreachable):
                if self.nodes.server_of(key("claim", prefix, id=drawn.id)) not in absent:
                    return drawn
            drawn = replace(new, id=redraw(new.id))
        return new

    def _claim(self, tasks: Sequence[NewTask]) -> list[Claim]:
        """Return the claim on each id; none of them belongs to a plan."""
        claims = self.claims.claim(tasks)
        for _ in range(_TRIES):
            blocked = [number for number, claim in enumerate(claims) if claim.plan is not None]
            if not blocked:
                return claims
            for number in blocked:
                self.plans.settle(claims[number])
            again = self.claims.claim([tasks[number] for number in blocked])
            for number, claim in zip(blocked, again, strict=True):
                claims[number] = claim
        raise self._contention_error()

    def find_claimed(self, claim: Claim) -> Submitted | None:
        """Return what became of what was claimed; None if it is not even remembered."""
        if claim.task is not None:
            [answer] = self.finish([claim])
            if not _is_of(answer, claim) and not answer.purged:
                return None
            return Submitted(answer.task, False, answer.purged)
        if (task := self.of(claim.queue).get([claim.id])[0]) is not None:
            return Submitted(task, False)
        if (left := self._read_purged(claim)) is not None:
            return Submitted(left, False, True)
        return None

    def _find_claimed_or_take(self, claim: Claim, new: NewTask) -> Submitted:
        """Return what became of a task that was there once."""
        if (there := self.find_claimed(replace(claim, task=None))) is not None:
            return there
        taken = self._take_over(claim, new)
        if taken is None:
            return self.submit([new])[0]
        [answer] = self.finish([taken])
        return Submitted(answer.task, _is_of(answer, taken), answer.purged)

    def _take_over(self, gone: Claim, new: NewTask) -> Claim | None:
        """Return the claim on the id of a task that is gone; None if somebody else was faster."""
        self.forget([gone.id])
        return self.claims.take_over(gone, new)

    def _read_purged(self, claim: Claim) -> Task | None:
        """Return what is remembered of a purged task."""
        server = self.server_of(claim.queue)
        name = key("purged", server.address.prefix, id=claim.id)
        stored = server.ask("GET", name)
        if stored is None:
            return None
        try:
            left = record.read_purged(claim.id, stored)
        except UNREADABLE:
            server.mending.mend_these([name.encode()])
            return None
        return left if left.updated > server.now() - REMEMBERED else None

    def there(self, ids: Iterable[str]) -> set[str]:
        """Return which of these have tasks."""
        return {task.id for task in self.get(sorted(ids)) if task is not None}

    def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Return the tasks with these ids, in this order."""
        found = self._get(ids)
        # A place that was remembered may be one of the past.
        stale = [id for id, task in zip(ids, found, strict=True) if task is None]
        if any(id in self._places for id in stale):
            self.forget(stale)
            found = self._get(ids)
        self.remember(found)
        return found

    def _get(self, ids: Sequence[str]) -> list[Task | None]:
        found: list[Task | None] = [None] * len(ids)
        for queue, numbered in self.by_place(ids, ids).items():
            if queue:
                tasks = self.of(queue).get([id for _, id in numbered])
                for (number, _), task in zip(numbered, tasks, strict=True):
                    found[number] = task
        return found


def _is_of(answer: Submitted, claim: Claim) -> bool:
    """Return whether the task that came is the one that was claimed."""
    return answer.task.id == claim.id and not answer.purged
