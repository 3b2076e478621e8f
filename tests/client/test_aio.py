"""The awaited door: the same, without blocking the loop, and no task lost to a cancelled await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, assert_type

import pytest

from stayer import Client as SyncClient
from stayer import (
    LeaseLost,
    NotHeld,
    Refused,
    TaskCancelled,
    TaskFailed,
    UnknownTask,
    WaitTimeout,
    aio,
)
from stayer.core.queue_model import QueueInfo
from tests.client.actors import PATIENCE, declare_lost, until

Scene = Callable[[aio.Client], Awaitable[None]]


def play(url: str, scene: Scene) -> None:
    """Run a scene with a client of its own."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), aio.Client(url) as client:
            await scene(client)

    asyncio.run(main())


async def take(listener: aio.Listener) -> aio.TaskHandle[Any]:
    task = await listener.listen(PATIENCE)
    assert task is not None
    return task


async def eventually(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(until, condition)


def test_a_task_goes_all_the_way(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        queue = client.get_queue("q")
        id = await queue.enqueue({"n": 1}, tags=["x"])
        assert_type(id, str)
        handle = await client.get_task(id)
        assert (handle.state, handle.tags, handle.result) == ("pending", ("x",), None)
        async with client.get_listener("q") as listener:
            task = await take(listener)
            processor = client.get_processor(task)
            assert await processor.start() == processor.parameters == {"n": 1}
            await processor.progress(1, 2)
            await processor.checkpoint(b"half")
            assert await processor.restore() == b"half"
            assert not await processor.is_cancelled()
            await processor.complete({"answer": 42})
        assert await handle.wait() == handle.result == {"answer": 42}
        assert [attempt.ending for attempt in await handle.attempts()] == ["done"]
        assert len(await handle.events()) == 4
        with pytest.raises(AttributeError):
            handle.state = "failed"  # type: ignore[misc]

    play(url, scene)


def test_the_verbs_are_all_there(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        queue = client.get_queue("q")
        first, second = await queue.enqueue_many([1, 2])
        later = await queue.schedule(3, 4_000_000_000)
        assert [task.id for task in await queue.peek()] == [first, second]
        await queue.pause()
        assert (await queue.info()).paused
        await queue.resume()
        await queue.set_limit(5)
        [info] = await client.queues()
        assert_type(info, QueueInfo)
        assert (info.limit, info.paused) == (5, False)
        assert (await queue.count(), (await queue.counts())["scheduled"]) == (3, 1)
        found = [task.id async for task in client.find(states="scheduled")]
        assert found == [later]
        task = await client.get_task(first)
        assert (await task.hold()).held
        assert not (await task.release()).held
        assert (await task.cancel()).state == "cancelled"
        assert (await task.retry()).state == "pending"
        assert (await task.cancel()).finished
        await task.delete()
        with pytest.raises(UnknownTask):
            await task.refresh()
        await (await client.get_task(second)).cancel()
        await queue.delete(second)
        assert await queue.drop(force=True) == 1
        assert await client.workers() == []

    play(url, scene)


def test_many_tasks_are_found_in_batches(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        ids = await client.get_queue("q").enqueue_many(range(250))
        assert {task.id async for task in client.find()} == set(ids)

    play(url, scene)


def test_waiting_ends_with_the_task_or_the_time(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        failing, going, gone = await client.get_queue("q").enqueue_many([1, 2, 3])
        with pytest.raises(WaitTimeout):
            await (await client.get_task(going)).wait("10ms")
        waiting = asyncio.create_task((await client.get_task(failing)).wait())
        async with client.get_listener("q") as listener:
            with pytest.raises(ValueError, match="no good"):
                async with client.get_processor(await take(listener)):
                    raise ValueError("no good")
        with pytest.raises(TaskFailed, match="no good"):
            await waiting
        with pytest.raises(TaskCancelled):
            await (await (await client.get_task(gone)).cancel()).wait(5)

    play(url, scene)


def test_a_cancelled_wait_leaves_no_thread_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "WAIT_SLICE_S", 0.1)

    async def scene(client: aio.Client) -> None:
        task = await client.get_task(await client.get_queue("q").enqueue(1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await task.wait()
        await eventually(lambda: not own_threads())

    play(url, scene)


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "stayer.aio"]


def test_the_loop_goes_on_while_it_listens(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        async with client.get_listener("q") as listener:
            listening = asyncio.create_task(take(listener))
            id = await client.get_queue("q").enqueue(1)
            assert (await listening).id == id

    play(url, scene)


def test_tasks_come_by_iteration_until_the_listener_is_closed(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        await client.get_queue("q").enqueue_many([1, 2, 3])
        listener = client.get_listener("q")
        seen: list[Any] = []

        async def work() -> None:
            async for task in listener:
                async with client.get_processor(task) as processor:
                    seen.append(processor.parameters)

        working = asyncio.create_task(work())
        await eventually(lambda: len(seen) == 3 and listener.sync._waiters)
        await listener.close()
        await working
        assert seen == [1, 2, 3]
        with pytest.raises(Refused, match="closed"):
            await listener.listen()

    play(url, scene)


def test_listening_that_is_cancelled_stops(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        async with client.get_listener("q") as listener:
            listening = asyncio.create_task(listener.listen())
            await eventually(lambda: listener._made and listener._made._waiters)
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
            await eventually(lambda: not own_threads())
            id = await client.get_queue("q").enqueue(1)
            assert (await take(listener)).id == id

    play(url, scene)


def test_a_task_claimed_for_a_cancelled_await_goes_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(client: aio.Client) -> None:
        id = await client.get_queue("q").enqueue(1)
        async with client.get_listener("q") as listener:
            await asyncio.to_thread(lambda: listener.sync)
            entered, go_on = threading.Event(), threading.Event()
            claim = listener.sync._claim

            def slow() -> object:
                entered.set()
                assert go_on.wait(PATIENCE)
                return claim()

            monkeypatch.setattr(listener.sync, "_claim", slow)
            listening = asyncio.create_task(listener.listen())
            await asyncio.to_thread(entered.wait)
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
            go_on.set()
            store = client.sync.store
            await eventually(lambda: (task := store.get([id])[0]) and task.interruptions)
            task = await take(listener)
            assert (task.id, task.attempt) == (id, 2)

    play(url, scene)


def test_a_task_that_came_as_the_await_was_cancelled_goes_back(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        id = await client.get_queue("q").enqueue(1)
        async with client.get_listener("q") as listener:
            listening = asyncio.create_task(listener.listen())
            # Given that the task has come, and the loop has not yet told the one who awaits it
            store = client.sync.store
            while (task := store.get([id])[0]) is None or task.state != "reserved":
                await asyncio.sleep(0)
            for _ in range(3):
                listening.cancel()
                await asyncio.sleep(0)
            # Then either it was in time and has the task, or the task goes back
            if listening.cancelled():
                await eventually(lambda: (task := store.get([id])[0]) and task.interruptions)
                assert (await take(listener)).id == id

    play(url, scene)


def test_no_task_is_lost_to_many_short_awaits(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        ids = set(await client.get_queue("q").enqueue_many(range(30)))
        done: set[str] = set()
        async with client.get_listener("q") as listener:
            while done != ids:
                try:
                    async with asyncio.timeout(0.002):
                        task = await listener.listen()
                except TimeoutError:
                    continue
                assert task is not None
                await client.get_processor(task).complete()
                done.add(task.id)
        for id in ids:
            assert (await client.get_task(id)).state == "complete"

    play(url, scene)


def test_work_that_is_cancelled_is_given_back(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        id = await client.get_queue("q").enqueue(1)
        begun = asyncio.Event()

        async def work() -> None:
            async with client.get_processor(await take(listener)):
                begun.set()
                await asyncio.Event().wait()

        async with client.get_listener("q") as listener:
            working = asyncio.create_task(work())
            await begun.wait()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            task = await client.get_task(id)
            assert (task.state, task.interruptions) == ("pending", 1)

    play(url, scene)


def test_a_cancel_is_seen_and_confirmed(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        await client.get_queue("q").enqueue(1)
        async with client.get_listener("q") as listener:
            task = await take(listener)
            processor = client.get_processor(task)
            await task.cancel()
            while not await processor.is_cancelled():
                pass
            await processor.stopped()
            assert (await task.refresh()).state == "cancelled"

    play(url, scene)


def test_a_lost_lease_is_told(url: str) -> None:
    async def scene(client: aio.Client) -> None:
        await client.get_queue("q").enqueue_many([1, 2])
        listener = client.get_listener("q")
        task = await take(listener)
        await asyncio.to_thread(declare_lost, client.sync, listener.sync)
        with pytest.raises(LeaseLost):
            await listener.listen()
        async with client.get_listener("q") as another:
            await take(another)
            with pytest.raises(NotHeld):
                await client.get_processor(task).complete()

    play(url, scene)


def test_making_a_client_touches_nothing(url: str, tmp_path: Any) -> None:
    client = aio.Client(url)
    client.get_queue("q")
    client.get_listener("q")
    asyncio.run(client.close())
    assert list(tmp_path.iterdir()) == []


def test_both_doors_lead_to_the_same_store(url: str) -> None:
    with SyncClient(url) as sync_client:
        id = sync_client.get_queue("q").enqueue(1)

        async def scene(client: aio.Client) -> None:
            async with client.get_listener("q") as listener:
                await client.get_processor((await take(listener)).record).complete(2)

        play(url, scene)
        assert sync_client.get_task(id).wait(0) == 2
