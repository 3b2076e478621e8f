"""Submits that come together go together, and each hears of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from stayer.core.errors import BadInput, StoreUnreachable
from stayer.core.ids import SHARED
from stayer.core.model import NewTask, Submitted
from stayer.http.problem import Problem
from stayer.http.submit_batcher import BATCH_TASKS, GATHER_S, MOST_WAITING_TASKS, Submitter
from stayer.store import Store
from tests.contract.builders import get, new
from tests.http.serving import Site


class Calls:
    """Runs the store in this thread, one turn of the loop later, and remembers how it was asked."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.error: Exception | None = None

    async def __call__(
        self, function: Callable[[Sequence[NewTask]], list[Submitted]], tasks: Sequence[NewTask]
    ) -> list[Submitted]:
        self.sizes.append(len(tasks))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return function(tasks)


def test_who_comes_while_one_is_under_way_shares_the_next(store: Store) -> None:
    calls = Calls()

    async def all_at_once() -> list[list[Submitted]]:
        submitter = Submitter(store, calls)
        return await asyncio.gather(*(submitter.submit([new(f"t{n}")]) for n in range(10)))

    answers = asyncio.run(all_at_once())
    assert [answer.task.id for [answer] in answers] == [f"t{n}" for n in range(10)]
    assert all(answer.fresh for [answer] in answers)
    assert calls.sizes == [10]


def test_more_than_fit_go_in_parts(store: Store) -> None:
    calls = Calls()

    async def three() -> list[list[Submitted]]:
        submitter = Submitter(store, calls)
        return await asyncio.gather(
            *(submitter.submit([new() for _ in range(BATCH_TASKS - 1)]) for _ in range(3))
        )

    assert [len(answers) for answers in asyncio.run(three())] == [BATCH_TASKS - 1] * 3
    assert calls.sizes == [BATCH_TASKS - 1] * 3


def test_the_same_id_at_once_is_accepted_once(store: Store) -> None:
    async def twice() -> list[list[Submitted]]:
        submitter = Submitter(store, Calls())
        return await asyncio.gather(*(submitter.submit([new("same")]) for _ in range(5)))

    assert sorted(answer.fresh for [answer] in asyncio.run(twice())) == [False] * 4 + [True]


def test_what_is_wrong_with_one_is_not_the_fault_of_others(store: Store) -> None:
    async def mixed() -> list[list[Submitted] | BaseException]:
        submitter = Submitter(store, Calls())
        asked = [new("good"), new("bad\0"), new("fine")]
        return await asyncio.gather(
            *(submitter.submit([each]) for each in asked), return_exceptions=True
        )

    good, bad, fine = asyncio.run(mixed())
    assert isinstance(bad, BadInput)
    assert not isinstance(good, BaseException)
    assert not isinstance(fine, BaseException)
    assert (good[0].fresh, fine[0].fresh) == (True, True)


def test_a_store_that_is_away_is_told_to_all_and_asked_again_by_the_next(store: Store) -> None:
    calls = Calls()

    async def in_turn() -> None:
        submitter = Submitter(store, calls)
        calls.error = StoreUnreachable("away")
        answers = await asyncio.gather(
            *(submitter.submit([new()]) for _ in range(3)), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [StoreUnreachable] * 3
        calls.error = None
        assert (await submitter.submit([new()]))[0].fresh

    asyncio.run(in_turn())
    assert calls.sizes == [3, 1]


def test_who_has_gone_is_not_waited_for(store: Store) -> None:
    async def leaving() -> None:
        submitter = Submitter(store, Calls())
        gone = asyncio.ensure_future(submitter.submit([new("gone")]))
        stays = asyncio.ensure_future(submitter.submit([new("stays")]))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await stays)[0].fresh

    asyncio.run(leaving())
    assert get(store, "gone").state == "pending"


def test_too_many_are_turned_away(store: Store) -> None:
    async def crowd() -> None:
        with pytest.raises(Problem, match="try again"):
            await Submitter(store, Calls()).submit([new()] * (MOST_WAITING_TASKS + 1))

    asyncio.run(crowd())


def test_many_clients_at_once_each_get_their_own(site: Site, store: Store) -> None:
    with ThreadPoolExecutor(16) as threads:
        replies = list(
            threads.map(
                lambda n: site("POST", "/v1/tasks", {"id": f"t{n}", "parameters": n}), range(64)
            )
        )
    assert [(reply.status, reply.json["id"], reply.json["parameters"]) for reply in replies] == [
        (201, f"t{n}", n) for n in range(64)
    ]
    assert store.queues(["default"])[0].counts["pending"] == 64


def test_its_duration_is_counted(site: Site) -> None:
    site("POST", "/v1/tasks", {"id": "t"})
    figures = site("GET", "/metrics").body.decode()
    assert 'stayer_http_request_seconds_count{method="POST",route="/v1/tasks"} 1' in figures


def test_a_crowd_that_is_answered_is_waited_for(store: Store) -> None:
    calls = Calls()

    async def crowd() -> None:
        submitter = Submitter(store, calls)

        async def client(delay: float) -> None:
            for _ in range(3):
                assert (await submitter.submit([new()]))[0].fresh
                await asyncio.sleep(delay)

        await asyncio.gather(*(client(n * GATHER_S / 8) for n in range(5)))

    asyncio.run(crowd())
    assert max(calls.sizes) == 5
    assert sum(calls.sizes) == 15
    assert len(calls.sizes) < 15


def test_nobody_waits_for_a_crowd_that_has_gone(store: Store) -> None:
    calls = Calls()

    async def dwindling() -> None:
        submitter = Submitter(store, calls)
        await asyncio.gather(*(submitter.submit([new()]) for _ in range(10)))
        for _ in range(2):
            assert (await submitter.submit([new()]))[0].fresh

    asyncio.run(dwindling())
    assert calls.sizes == [10, 1, 1]


def test_ids_that_are_drawn_in_a_crowd_begin_alike_and_alone_do_not(store: Store) -> None:
    async def drawn() -> tuple[list[str], list[str]]:
        submitter = Submitter(store, Calls())
        alone = [submitter.draw_id() for _ in range(8)]
        await asyncio.gather(*(submitter.submit([new()]) for _ in range(8)))
        return alone, [submitter.draw_id() for _ in range(8)]

    alone, crowded = asyncio.run(drawn())
    assert len({*alone, *crowded}) == 16
    assert len({id[:SHARED] for id in crowded}) == 1
    assert len({id[:SHARED] for id in alone}) > 1
