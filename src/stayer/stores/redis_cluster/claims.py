"""Ids across queues: each is claimed for one queue, with its task until that is there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec
from stayer.core.decoding import msgpack_decoder
from stayer.core.errors import StoreUnreachable
from stayer.core.model import NewTask
from stayer.stores.redis.connection.server import Call
from stayer.stores.redis.damaged_keys import UNREADABLE, check_claim
from stayer.stores.redis.keys import key
from stayer.stores.redis.record import pack
from stayer.stores.redis_cluster.nodes import Nodes

_CLAIM_BATCH = 1000
_decode = msgpack_decoder(NewTask).decode


class Claim(Struct, frozen=True):
    """An id belongs to a queue."""

    id: str
    queue: str
    nonce: str
    task: NewTask | None
    """What is to be submitted, unless it is known to be there."""
    plan: str | None = None
    """The name of the plan that it comes with, until it is there."""


class Planned(Protocol):
    """A plan, for which ids are claimed."""

    @property
    def name(self) -> str: ...

    @property
    def nonce(self) -> str: ...


class Claims:
    """The claims of a cluster, asked for in batches."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def claim(self, tasks: Sequence[NewTask], plan: Planned | None = None) -> list[Claim]:
        """Return the claim on each id: a new one, or the one that is there."""
        mine = [_new_claim(new, plan) for new in tasks]
        answers = self._run(
            "claim",
            [
                (each.id, each.queue, each.nonce, _pack_task(new), each.plan or "")
                for each, new in zip(mine, tasks, strict=True)
            ],
        )
        return [
            each if answer is None else _claim(each.id, answer)
            for each, answer in zip(mine, answers, strict=True)
        ]

    def mention(self, tasks: Sequence[NewTask]) -> list[Claim]:
        """Claim ids, but nobody has to finish what comes of it: the task may come, or not."""
        given = [(new.id, new.queue, secrets.token_hex(4), "", "") for new in tasks]
        answers = self._run("claim", given)
        return [
            Claim(new.id, new.queue, arguments[2], None)
            if answer is None
            else _claim(new.id, answer)
            for new, arguments, answer in zip(tasks, given, answers, strict=True)
        ]

    def claim_for(self, queue: str, ids: Sequence[str]) -> list[Claim]:
        """Claim ids whose tasks are, or were, in a queue."""
        given = [(id, queue, secrets.token_hex(4), "", "") for id in ids]
        answers = self._run("claim", given)
        return [
            Claim(id, queue, nonce, None) if answer is None else _claim(id, answer)
            for (id, _, nonce, *_), answer in zip(given, answers, strict=True)
        ]

    def find(self, ids: Sequence[str]) -> list[Claim | None]:
        """Return the claims that there are."""
        answers = self._run("find_claim", [(id,) for id in ids])
        return [_claim_or_none(id, answer) for id, answer in zip(ids, answers, strict=True)]

    def seek(self, ids: Sequence[str]) -> list[Claim | StoreUnreachable | None]:
        """Find the claims; where one can't be asked for, the error is in its place."""
        answers = self._run("find_claim", [(id,) for id in ids], self._nodes.try_many)
        return [
            answer if isinstance(answer, StoreUnreachable) else _claim_or_none(id, answer)
            for id, answer in zip(ids, answers, strict=True)
        ]

    def settle(self, claims: Sequence[Claim]) -> None:
        """Their tasks are there."""
        open_ones = [claim for claim in claims if claim.task is not None]
        self._run("settle_claim", [(claim.id, claim.nonce) for claim in open_ones])

    def take_over(self, gone: Claim, new: NewTask, plan: Planned | None = None) -> Claim | None:
        """Claim an id whose task is gone; None if somebody else was faster."""
        mine = _new_claim(new, plan)
        given = (new.id, gone.nonce, new.queue, mine.nonce, _pack_task(new), mine.plan or "")
        return mine if self._run("take_claim", [given])[0] == 1 else None

    def release(self, claims: Sequence[Claim]) -> None:
        """Release claims of a plan from which nothing comes."""
        self._run("release_claim", [(claim.id, claim.nonce) for claim in claims])

    def expire(self, claims: Sequence[Claim]) -> None:
        """Their tasks are gone: let the claims go as well, in time."""
        self._run("expire_claim", [(claim.id, claim.nonce) for claim in claims])

    def _run(
        self,
        name: str,
        given: Sequence[tuple[Any, ...]],
        run_many: Callable[[Sequence[Call]], list[Any]] | None = None,
    ) -> list[Any]:
        prefix, run = self._nodes.options.prefix, run_many or self._nodes.run_many
        answers: list[Any] = []
        for first in range(0, len(given), _CLAIM_BATCH):
            part = given[first : first + _CLAIM_BATCH]
            calls = [Call(key("claim", prefix, id=each[0]), name, each) for each in part]
            answers += map(self._readable, calls, run(calls))
        return answers

    def _readable(self, call: Call, answer: Any) -> Any:
        """Return the answer, after a claim that can't be read was set aside."""
        if isinstance(answer, list) and answer[0] is not None:
            try:
                check_claim(*answer)
            except UNREADABLE:
                if not self._nodes.mend(call.key):
                    raise
                return self._nodes.run_many([call])[0]
        return answer


def _new_claim(new: NewTask, plan: Planned | None) -> Claim:
    nonce = secrets.token_hex(8) if plan is None else plan.nonce
    return Claim(new.id, new.queue, nonce, new, None if plan is None else plan.name)


def _claim_or_none(id: str, answer: Any) -> Claim | None:
    return None if answer[0] is None else _claim(id, answer)


def _claim(id: str, answer: Any) -> Claim:
    queue, nonce, task, plan = answer
    return Claim(
        id,
        queue.decode(),
        nonce.decode(),
        None if task is None else _unpack_task(task),
        None if plan is None else plan.decode(),
    )


def _pack_task(new: NewTask) -> bytes:
    """Parameters as every store keeps them: JSON has numbers that MessagePack has not."""
    form = codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    return pack(replace(new, parameters=form))


def _unpack_task(stored: bytes) -> NewTask:
    new = _decode(stored)
    form: Any = new.parameters
    return replace(new, parameters=codec.unpack(form))
