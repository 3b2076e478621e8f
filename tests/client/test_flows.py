"""Building flows in Python, submitting them, and following them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stayer import (
    App,
    BadInput,
    Client,
    Flow,
    Refused,
    TaskCancelled,
    TaskFailed,
    UnknownFlow,
    WaitTimeout,
    aio,
)
from stayer.client.submit import Defaults, build
from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, NewTask
from tests.contract.builders import apply, register, take

app = App(queue="apps")


@app.task
def fetch(day: str) -> str:
    return day


@app.task(queue="gpu", retries=3)
def train(rate: float, seed: int = 0) -> float:
    return rate + seed


def planned(flow: Flow) -> dict[str, NewTask]:
    def make(queue: str, parameters: Any, **options: Any) -> NewTask:
        return build(queue, parameters, Defaults("ada", 1), **options)

    _, tasks = flow.laid_out(make)
    return {task.id: task for task in tasks}


def run(client: Client, failing: str = "") -> None:
    register(client.store, queues=("q",))
    while found := take(client.store):
        bad = failing and failing in found[0].id
        apply(client.store, found[0], Fail(Fault("Boom")) if bad else Done(found[0].id))


class TestBuilding:
    def test_calls_are_tasks_of_their_functions(self) -> None:
        flow = Flow("nightly", id="f", queue="etl", time_limit="1h")
        first = flow.add(fetch.s("today"))
        second = flow.add(train.s(0.1, seed=7), after=[first, "outside"], when_failed="run")
        flow.add(train.s(0.2), queue="big", retries=0, part="again", after=[second])
        tasks = planned(flow)
        a, b, c = tasks["f.fetch"], tasks["f.train"], tasks["f.again"]
        assert (a.queue, a.parameters, a.policy.retries) == ("etl", {"day": "today"}, 1)
        assert (b.queue, b.parameters, b.policy.retries) == ("gpu", {"rate": 0.1, "seed": 7}, 3)
        assert (b.after, b.policy.when_failed) == (("f.fetch", "outside"), "run")
        assert (c.queue, c.policy.retries, c.after) == ("big", 0, ("f.train",))
        assert {task.policy.time_limit for task in tasks.values()} == {3600.0}

    def test_parts_are_called_by_what_they_run(self) -> None:
        flow = Flow("n", id="f")
        flow.add(command=["/usr/bin/make all.sh", "x"])
        flow.add(fetch.s("a"))
        flow.add(fetch.s("b"))
        flow.add(name="video.encode")
        flow.add()
        assert list(planned(flow)) == ["f.make-all", "f.fetch", "f.fetch-2", "f.encode", "f.task"]

    def test_a_chain_is_one_after_the_other(self) -> None:
        flow = Flow("n", id="f")
        last = flow.chain(fetch.s("a"), ["tar", "c"], train.s(1.0), queue="q")
        flow.add(part="end", after=[last])
        assert [(task.id, task.after) for task in planned(flow).values()] == [
            ("f.fetch", ()),
            ("f.tar", ("f.fetch",)),
            ("f.train", ("f.tar",)),
            ("f.end", ("f.train",)),
        ]

    def test_a_map_calls_its_function_with_each_item(self) -> None:
        flow = Flow("n", id="f")
        trained = flow.map(train, [0.1, {"rate": 0.2, "seed": 3}], at_once=1, part="t")
        flow.map(["check", "{}"], trained)
        tasks = planned(flow)
        assert tasks["f.t.0"].parameters == {"rate": 0.1}
        assert tasks["f.t.1"].parameters == {"rate": 0.2, "seed": 3}
        assert tasks["f.t.1"].behind == ("f.t.0",)
        assert (tasks["f.check.1"].command, tasks["f.check.1"].after) == (
            ("check", "{}"),
            ("f.t.1",),
        )

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda flow, part: flow.add(after=part), "give a list"),
            (lambda flow, part: flow.add(after=[Flow("other").add(part="y")]), "of another one"),
            (lambda flow, part: flow.add(part="x"), "has a part 'x' already"),
            (lambda flow, part: flow.add(part="a.b"), "can't be the name of a part"),
            (lambda flow, part: flow.add(fetch.s("a"), command=["b"]), "not several of them"),
            (lambda flow, part: flow.map("ls", [1]), "a command as a list of words"),
            (lambda flow, part: flow.map(["ls"], part), "x is no map"),
            (lambda flow, part: flow.chain(), "at least one step"),
        ],
    )
    def test_a_slip_shows_at_once(self, make: Any, said: str) -> None:
        flow = Flow("n")
        part = flow.add(part="x")
        with pytest.raises(BadInput, match=said):
            make(flow, part)

    def test_a_wrong_call_shows_at_once(self) -> None:
        with pytest.raises(TypeError, match="rate"):
            train.s("much")  # type: ignore[arg-type]


def small(id: str | None = None) -> Flow:
    flow = Flow("small", id=id, queue="q")
    items = flow.map(["echo", "{}"], ["a", "b"], after=[flow.add(part="first")])
    flow.add(part="last", after=[items])
    return flow


class TestFollowing:
    def test_it_is_waited_for(self, client: Client) -> None:
        handle = client.submit(small("f"))
        assert (handle.id, handle.name, handle.state) == ("f", "small", "pending")
        with pytest.raises(WaitTimeout):
            handle.wait(timeout=0)
        run(client)
        assert handle.wait().state == "complete"
        assert handle.task("echo", 1).result == "f.echo.1"
        assert len(list(handle.tasks())) == 4
        assert [flow.id for flow in client.flows()] == ["f"]
        assert len(list(client.find(flow="f", states="complete"))) == 4

    def test_it_fails_is_retried_and_cancelled(self, client: Client) -> None:
        handle = client.submit(small("f"))
        run(client, failing="echo.1")
        with pytest.raises(TaskFailed, match=r"f.echo.1"):
            handle.wait()
        assert handle.retry().state == "pending"
        assert handle.cancel().state == "cancelled"
        with pytest.raises(TaskCancelled):
            client.get_flow("f").wait()
        with pytest.raises(UnknownFlow):
            client.get_flow("nobody")

    def test_the_same_id_is_accepted_once(self, client: Client) -> None:
        client.submit(small("f"))
        assert client.submit(small("f")).refresh().state == "pending"
        assert len(list(client.find())) == 4
        assert client.submit(small()).id != client.submit(small()).id
        with pytest.raises(Refused, match="nothing of it has failed"):
            client.get_flow("f").retry()

    def test_awaited(self, client: Client) -> None:
        async def main() -> None:
            async with aio.Client(client.store.url) as awaited:
                handle = await awaited.submit(small("f"))
                assert not await handle.ends_within(0)
                await asyncio.to_thread(run, client, "echo.1")
                with pytest.raises(TaskFailed):
                    await handle.wait()
                await handle.retry()
                await asyncio.to_thread(run, client)
                assert (await handle.wait()).state == "complete"
                assert (await handle.task("last")).result == "f.last"
                assert len([task async for task in handle.tasks()]) == 4
                assert [flow.id async for flow in awaited.flows()] == ["f"]
                assert (await awaited.get_flow("f")).name == "small"

        asyncio.run(main())


def test_a_task_is_enqueued_after_others(client: Client) -> None:
    queue = client.get_queue("q")
    first = queue.enqueue(1)
    second = queue.enqueue(2, after=[client.get_task(first)], when_failed="hold")
    assert client.get_task(second).state == "waiting"
    with pytest.raises(BadInput, match="give a list"):
        queue.enqueue(3, after=first)
    with pytest.raises(BadInput, match="no such task"):
        queue.enqueue(3, after=["nobody"])


def test_a_claimed_task_knows_its_inputs(client: Client) -> None:
    queue = client.get_queue("q")
    first = queue.enqueue(id="first")
    queue.enqueue(id="second", after=[first])
    with client.get_listener("q") as listener:
        for result, inputs in ((b"raw", {}), (None, {"first": b"raw"})):
            task = listener.listen(timeout="10s")
            assert task is not None
            processor = client.get_processor(task)
            assert processor.inputs == inputs
            processor.complete(result)


def test_a_task_may_be_near_one_that_it_runs_after(client: Client) -> None:
    queue = client.get_queue("q")
    first = client.get_task(queue.enqueue())
    id = queue.enqueue(after=[first], near=first, near_wait="5m")
    policy = client.get_task(id).policy
    assert (policy.near, policy.near_wait) == (first.id, 300.0)

    flow = Flow("f", id="f", queue="q")
    unpacked = flow.add(name="unpack")
    flow.add(name="index", after=[unpacked], near=unpacked, near_wait=5)
    done = flow.map(["sort", "{}"], ["a", "b"], part="sort")
    flow.map(["merge"], done, near=done, part="merge")
    handle = client.submit(flow)
    assert handle.task("index").policy.near == "f.unpack"
    assert handle.task("merge", 1).policy.near == "f.sort.1"
