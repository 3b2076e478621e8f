"""Tasks that come all or none, in whichever queues: a flow, or tasks that run after others.

A plan says which ids. They are claimed for it, with their tasks; unique words are promised to
them; then one step decides: go. Before that step nothing is there, and whoever needs one of the ids
may undo the plan. After it everything comes: whoever meets one of the claims, or promotes, puts all
of the tasks where they belong. So a submitter may die at any moment, and no part ever runs without
the rest.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from stayer.core.decoding import msgpack_decoder
from stayer.core.errors import Refused, StoreError, StoreUnreachable
from stayer.core.flows.model import NewFlow, explain_unique_conflict
from stayer.core.flows.model import check as check_ties
from stayer.core.model import NewTask, Submitted
from stayer.stores.redis import flows as ties
from stayer.stores.redis import record
from stayer.stores.redis.connection.server import Call
from stayer.stores.redis.errors import translated
from stayer.stores.redis.keys import key
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.tasks import Decided, pack_tasks
from stayer.stores.redis_cluster import cross_shard
from stayer.stores.redis_cluster.claims import Claim
from stayer.stores.redis_cluster.fan_out import FanOut

if TYPE_CHECKING:
    from stayer.stores.redis_cluster.router import Shards

PLAN_PATIENCE_S = 0.5
"""How long somebody else's plan may show no sign of life before it is undone by who needs its
ids."""
PLAN_ABANDONED_S = 10.0
"""How long before it is undone by who promotes."""
_PLAN_TRIES = 20
_TASKS_AT_ONCE = 1000
"""After how many ids a plan shows a sign of life: the claims of a large flow take a while."""
_pack = msgspec.msgpack.Encoder().encode

Status = Literal["open", "go", "undone"]


class _About(Struct, array_like=True):
    """What a plan says."""

    ids: list[str]
    flow: NewFlow | None
    created: float


_about = msgpack_decoder(_About).decode


class Plan(Struct, frozen=True):
    """Tasks that are being submitted."""

    name: str
    nonce: str
    status: Status
    about: _About


class _Undone(Exception):
    """Somebody was in the way: try again."""


def name_of(flow: str) -> str:
    """Return a flow's plan."""
    return f"flow {flow}"


class Plans:
    """Makes plans, carries them out, undoes them."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._nodes = shards.nodes
        self._seen: dict[str, tuple[int, float]] = {}

    # Submitting

    def submit(self, tasks: Sequence[NewTask], flow: NewFlow | None = None) -> list[Submitted]:
        """Return what became of each; raises FlowKnown."""
        with translated(self._nodes.url):
            pack_tasks(tasks, Arguments(fixed=7))  # says what can't be kept
        check_ties(tasks)
        self._shards.add(new.queue for new in tasks)
        for number in range(_PLAN_TRIES):
            if flow is not None and cross_shard.flow(self._shards, flow.id) is not None:
                raise ties.FlowKnown
            try:
                return self._try(tasks, flow)
            except _Undone:
                time.sleep(random.random() * 0.02 * (number + 1))
        raise StoreUnreachable(
            f"{self._nodes.url}: others submit the same ids again and again: try again later"
        )

    def _try(self, tasks: Sequence[NewTask], flow: NewFlow | None) -> list[Submitted]:
        firsts = {new.id: new for new in reversed(tasks)}
        news = [firsts[id] for id in dict.fromkeys(new.id for new in tasks)]
        plan = self._lay([new.id for new in news], flow)
        try:
            known = self._claim(news, plan)
            if known and flow is not None:
                if cross_shard.flow(self._shards, flow.id) is not None:
                    raise ties.FlowKnown
                ties.refuse([b"taken", [id.encode() for id in known]])
            mine = [new for new in news if new.id not in known]
            self._promise([new for new in mine if new.unique], plan)
            self._show_life(plan)
            self._look_at_upstreams([new for new in tasks if new.id not in known], plan)
        except Exception:
            with suppress(StoreError):  # then whoever promotes will do it
                self.undo(plan)
            raise
        if not mine:
            self.undo(plan)
            return [known[new.id] for new in tasks]
        if self._decide(plan, "go") != "go":
            self.undo(plan)
            raise _Undone
        self.carry_out(plan)
        return self._answers(tasks, known, plan.about.created)

    def _answers(
        self, tasks: Sequence[NewTask], known: dict[str, Submitted], created: float
    ) -> list[Submitted]:
        wanted = [new.id for new in tasks if new.id not in known]
        needed = {id for new in tasks for id in (*new.after, *new.behind)}
        found = dict(zip(wanted, self._shards.get(wanted), strict=True))
        answers: list[Submitted] = []
        seen: set[str] = set()
        for new in tasks:
            if new.id in known:
                answers.append(known[new.id])
            elif (task := found[new.id]) is not None:
                answers.append(Submitted(task, new.id not in seen))
            else:  # it was accepted, and is gone already
                waits = bool(new.after or new.behind)
                as_it_was = record.task_as_submitted(new, created, waits, new.id in needed)
                answers.append(Submitted(as_it_was, new.id not in seen))
            seen.add(new.id)
        return answers

    def _lay(self, ids: list[str], flow: NewFlow | None) -> Plan:
        """Written down first, so that whoever promotes will find it."""
        nonce = secrets.token_hex(8)
        name = f"call {nonce}" if flow is None else name_of(flow.id)
        about = _About(ids, flow, self._shards.now())
        self._nodes.add_names("plans", [f"{nonce} {name}"])
        there = self._run("lay_plan", name, nonce, _pack(about))
        if there is not None:
            self._cross_out(nonce, name)
            self._settle(name, there[0].decode())
            raise _Undone
        return Plan(name, nonce, "open", about)

    def _claim(self, news: Sequence[NewTask], plan: Plan) -> dict[str, Submitted]:
        """Claim what is free for the plan; the answer is what is not."""
        known: dict[str, Submitted] = {}
        left = list(news)
        for _ in range(_PLAN_TRIES):
            blocked: list[NewTask] = []
            for new, claim in self._claim_tasks(left, plan):
                if claim.nonce == plan.nonce:
                    continue
                if claim.plan is not None:
                    self.settle(claim)
                    blocked.append(new)
                elif (there := self._shards.find_claimed(claim)) is not None:
                    known[new.id] = there
                elif self._shards.claims.take_over(claim, new, plan) is None:
                    blocked.append(new)
            left = blocked
            if not left:
                return known
        raise _Undone

    def _claim_tasks(self, news: Sequence[NewTask], plan: Plan) -> Iterator[tuple[NewTask, Claim]]:
        for first in range(0, len(news), _TASKS_AT_ONCE):
            some = news[first : first + _TASKS_AT_ONCE]
            yield from zip(some, self._shards.claims.claim(some, plan), strict=True)
            self._show_life(plan)

    def _show_life(self, plan: Plan) -> None:
        """Show a sign of life, unless the plan is undone."""
        if self._run("stir_plan", plan.name, plan.nonce) == 0:
            raise _Undone

    def _promise(self, news: Sequence[NewTask], plan: Plan) -> None:
        """Keep the unique words, so that nobody takes one between this and the end."""
        for queue in dict.fromkeys(new.queue for new in news):
            words = [part for new in news if new.queue == queue for part in (new.id, new.unique)]
            problem = self._shards.server_of(queue).run("promise", plan.nonce, queue, *words)
            if problem is None:
                continue
            id, holder, *promise = (each.decode() for each in problem)
            if promise and promise[0] != plan.nonce:
                self.settle_promise(queue, f"{promise[0]} {holder}", words[1::2])
                raise _Undone
            raise Refused(explain_unique_conflict(id, holder))

    def _look_at_upstreams(self, news: Sequence[NewTask], plan: Plan) -> None:
        mine = {new.id for new in news}
        wanted = {id for new in news for id in (*new.after, *new.behind)} - mine
        known: dict[str, str] = {}
        ids = sorted(wanted)
        for first in range(0, len(ids), _TASKS_AT_ONCE):
            known |= cross_shard.states(self._shards, ids[first : first + _TASKS_AT_ONCE])
            self._show_life(plan)
        for new in news:
            for id in (*new.after, *new.behind):
                if id not in mine and id not in known:
                    ties.refuse([b"unknown upstream", new.id.encode(), id.encode()])

    # Deciding, and what follows

    def find(self, name: str) -> Plan | None:
        """Return the plan of this name, unless it is over."""
        place = self._key(name)
        nonce, status, about = self._nodes.ask(place, "HMGET", place, "nonce", "status", "about")
        if nonce is None:
            return None
        return Plan(name, nonce.decode(), status.decode(), _about(about))

    def _look(self, name: str) -> tuple[str, str, int]:
        """Nonce and status of the plan of this name, and how many signs of life it has shown; no
        nonce if it is over.
        """
        place = self._key(name)
        nonce, status, signs = self._nodes.ask(place, "HMGET", place, "nonce", "status", "signs")
        return (nonce or b"").decode(), (status or b"undone").decode(), int(signs or 0)

    def carry_out(self, plan: Plan) -> None:
        """Put the tasks where they belong, as far as they are not there."""
        claims = [claim for claim in self._claims_of(plan) if claim.task is not None]
        tasks = [claim.task for claim in claims if claim.task is not None]
        if tasks:
            states = cross_shard.listen_for(self._shards, tasks)
            needed = frozenset(id for new in tasks for id in (*new.after, *new.behind))
            flow = plan.about.flow
            packed = b"" if flow is None else ties.pack_flow(flow, plan.about.created)
            for queue in dict.fromkeys(new.queue for new in tasks):
                part = [new for new in tasks if new.queue == queue]
                self._shards.of(queue).accept(part, packed, Decided(needed, states))
            self._shards.claims.settle(claims)
        self._end(plan)

    def undo(self, plan: Plan) -> None:
        """Give back what it has claimed, unless it was decided that it comes."""
        if self._decide(plan, "undone") == "go":
            self.carry_out(plan)
            return
        claims = self._claims_of(plan)
        tasks = [claim.task for claim in claims if claim.task is not None and claim.task.unique]
        for queue in dict.fromkeys(new.queue for new in tasks):
            words = [new.unique for new in tasks if new.queue == queue]
            self._shards.server_of(queue).run("break_promise", plan.nonce, *words)
        self._shards.claims.release(claims)
        self._end(plan)

    def settle(self, claim: Claim) -> None:
        """See to it that a claim of a plan is decided, and followed by what was decided."""
        assert claim.plan is not None
        self._settle(claim.plan, claim.nonce)
        # What is left of a claim whose plan is over came after that was undone.
        [now] = self._shards.claims.find([claim.id])
        if now is not None and now.nonce == claim.nonce and now.plan is not None:
            self._shards.claims.release([now])

    def _settle(self, name: str, nonce: str) -> None:
        shown, deadline = -1, 0.0
        while True:
            found, status, signs = self._look(name)
            if found != nonce:
                return
            if signs != shown:
                shown, deadline = signs, time.monotonic() + PLAN_PATIENCE_S
            if status == "open" and time.monotonic() <= deadline:
                time.sleep(0.01)
            elif (plan := self.find(name)) is not None and plan.nonce == nonce:
                self.undo(plan)  # or carry it out, if that was decided

    def settle_promise(self, queue: str, promise: str, words: Iterable[Any]) -> None:
        """See to a plan whose claim a unique word is promised to: `nonce id`."""
        nonce, _, id = promise.partition(" ")
        [claim] = self._shards.claims.find([id])
        if claim is not None and claim.nonce == nonce and claim.plan is not None:
            self.settle(claim)
        self._shards.server_of(queue).run("break_promise", nonce, *words)

    def finish(self, claims: Sequence[Claim]) -> list[Claim]:
        """Carry out what was decided of the plans of these claims; those that are there then."""
        for name in dict.fromkeys(claim.plan for claim in claims):
            self.finish_one(name or "")
        found = self._shards.claims.find([claim.id for claim in claims])
        return [claim for claim in found if claim is not None and claim.plan is None]

    def finish_one(self, name: str) -> None:
        """Carry it out, if that was decided."""
        plan = self.find(name)
        if plan is not None and plan.status == "go":
            self.carry_out(plan)

    def sweep(self) -> bool:
        """See to plans that somebody left behind; whether there are others."""
        written = {each.decode() for each in self._nodes.ask(self._list, "SMEMBERS", self._list)}
        self._seen = {each: seen for each, seen in self._seen.items() if each in written}
        fan_out = FanOut(self._shards)
        for each in sorted(written):
            if not fan_out.is_slow:
                fan_out.attempt(partial(self._see_to, each))
        return bool(written)

    def _see_to(self, written: str) -> None:
        nonce, _, name = written.partition(" ")
        found, status, signs = self._look(name)
        shown, since = self._seen.get(written, (-1, 0.0))
        now = time.monotonic()
        if (found == nonce and signs != shown) or written not in self._seen:
            shown, since = self._seen[written] = signs, now
        is_forsaken = now - since >= PLAN_ABANDONED_S
        plan = self.find(name) if found == nonce and (status == "go" or is_forsaken) else None
        if plan is not None and plan.nonce == nonce:
            self.undo(plan)  # or carry it out, if that was decided
        elif found != nonce and is_forsaken:
            self._cross_out(nonce, name)

    # Parts

    @property
    def _list(self) -> str:
        return key("plans", self._nodes.options.prefix)

    def _key(self, name: str) -> str:
        return key("plan", self._nodes.options.prefix, plan=name)

    def _claims_of(self, plan: Plan) -> list[Claim]:
        found = self._shards.claims.find(plan.about.ids)
        return [
            each
            for each in found
            if each is not None and each.nonce == plan.nonce and each.plan is not None
        ]

    def _decide(self, plan: Plan, to: Status) -> str:
        answer: bytes = self._run("decide_plan", plan.name, plan.nonce, to)
        return answer.decode()

    def _end(self, plan: Plan) -> None:
        self._run("end_plan", plan.name, plan.nonce)
        self._cross_out(plan.nonce, plan.name)

    def _cross_out(self, nonce: str, name: str) -> None:
        self._nodes.ask(self._list, "SREM", self._list, f"{nonce} {name}")

    def _run(self, script: str, name: str, *arguments: Any) -> Any:
        return self._nodes.run_many([Call(self._key(name), script, (name, *arguments))])[0]
