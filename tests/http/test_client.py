"""The Python client, and a store that is a server."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import stayer
from stayer.core.errors import (
    BadConfig,
    BadInput,
    Refused,
    StoreUnreachable,
    StoreUnusable,
    UnknownTask,
)
from stayer.core.happenings import Done, Fail, Interrupt
from stayer.core.insight.statistics import Recorder
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Filter, Policy, Report, Usage
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.remote.connection import Connection
from tests.client.actors import take
from tests.contract.builders import (
    VALUES,
    apply,
    beat,
    fill,
    get,
    new,
    register,
    started,
    submit,
    taken,
)
from tests.http.serving import Process, Site


@pytest.fixture
def client(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[stayer.Client]:
    monkeypatch.setenv("STAYER_TOKEN", site.tokens["operate"])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with stayer.Client(site.url) as client:
        yield client


@pytest.fixture
def remote(site: Site) -> Iterator[Store]:
    """The store as an operator sees it through the server."""
    with closing(open_store(site.url, token=site.tokens["operate"])) as store:
        yield store


def test_a_store_behind_a_server_is_the_same_store(remote: Store, store: Store) -> None:
    assert remote.identity() == store.identity()


def test_a_long_history_is_read_with_its_gap(remote: Store, store: Store, worker: str) -> None:
    task = taken(store, id="t")
    for _ in range(700):
        _, [task] = store.turn(worker, [decide(task, Interrupt())], ["q"], 1, EVERYTHING)
    events = remote.events("t")
    assert len(events) < 1200
    assert [event.event for event in events].count("dropped") == 1
    own = store.events("t")
    assert [(event.number, event.note) for event in events] == [
        (event.number, event.note) for event in own
    ]
    assert [attempt.attempt for attempt in remote.attempts("t")] == [
        attempt.attempt for attempt in store.attempts("t")
    ]


def test_a_client_submits_waits_and_steers(
    client: stayer.Client, store: Store, worker: str
) -> None:
    queue = client.get_queue("q")
    id = queue.enqueue({"n": 1}, id="t", priority=3, tags=["x"], delay="0s", retries=1)
    assert (id, queue.count("pending")) == ("t", 1)
    handle = client.get_task("t")
    assert (handle.priority, handle.tags, handle.policy.retries) == (3, ("x",), 1)
    assert handle.hold().held
    assert not handle.release().held
    [task] = store.reserve("w", ["q"], 1, stayer.Handles(plain=True))
    finishing = threading.Timer(0, lambda: apply(store, task, Done({"answer": 42})))
    finishing.start()
    assert handle.wait(timeout="60s") == {"answer": 42}
    assert [attempt.ending for attempt in handle.attempts()] == ["done"]
    assert [event.event for event in handle.events()][-1] == "complete"
    assert handle.retry().state == "pending"
    assert handle.cancel().state == "cancelled"
    with pytest.raises(stayer.TaskCancelled):
        handle.wait(timeout="1s")
    handle.delete()
    with pytest.raises(UnknownTask):
        client.get_task("t")


def test_queues_and_workers_are_seen_and_set(client: stayer.Client, worker: str) -> None:
    queue = client.get_queue("q")
    ids = queue.enqueue_many([{"n": number} for number in range(1500)])
    assert [handle.id for handle in queue.peek(2)] == ids[:2]
    queue.pause()
    queue.set_limit(3)
    assert (queue.info().paused, queue.info().limit) == (True, 3)
    queue.resume()
    queue.set_limit(None)
    assert [info.name for info in client.queues()] == ["q"]
    assert [found.id for found in client.workers()] == [worker]
    assert len(list(client.find(queues="q", states="pending"))) == 1500
    assert queue.drop(force=True) == 1500


def test_lost_workers_are_seen_through_a_server(client: stayer.Client, store: Store) -> None:
    register(store, "judge")
    register(store, "lost")
    started(store, "lost")
    store.declare_lost("judge", {"lost": 1})
    [lost] = store.lost_workers()
    [seen] = client.store.lost_workers()
    assert seen.beat_at == pytest.approx(lost.beat_at, abs=0.01)
    assert (seen.id, seen.by, seen.running, seen.tasks) == ("lost", lost.by, 1, lost.tasks)
    assert [found.id for found in client.store.workers()] == ["judge"]


def test_the_same_id_with_other_parameters_is_a_warning(client: stayer.Client) -> None:
    queue = client.get_queue("q")
    queue.enqueue(1, id="t")
    with pytest.warns(stayer.DuplicateWarning, match="other parameters"):
        queue.enqueue(2, id="t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        queue.enqueue(1, id="t")


def test_a_listener_works_through_the_server(
    site: Site, store: Store, client: stayer.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_TOKEN", site.access.add("node", "work", ("q",)))
    submit(store, new("a", parameters=[1]))
    with stayer.Client(site.url) as worker, worker.get_listener("q") as listener:
        processor = worker.get_processor(take(listener))
        assert processor.start() == [1]
        processor.checkpoint(b"half")
        saved = store.checkpoint("a")
        processor.complete([1, 2])
    assert saved is not None
    ended = get(store, "a")
    assert (ended.state, ended.result, ended.attempt) == ("complete", [1, 2], 1)
    assert store.workers() == []


def test_who_may_operate_may_not_take_tasks(client: stayer.Client) -> None:
    with client.get_listener("q") as listener, pytest.raises(Refused, match="needs work"):
        listener.listen(timeout=0)


def test_a_record_comes_back_as_it_was(remote: Store, store: Store, worker: str) -> None:
    policy = Policy(retries=2, time_limit=60.0, memory_limit=2**30, grace=5.0, fence="kill")
    task = started(
        store, id="t", command=("a", "b"), cwd="/", env={"A": "1"}, owner="o", priority=-2,
        tags=("x", "y"), policy=policy,
    )  # fmt: skip
    recorder = Recorder()
    recorder.add("loss", 0.5, 1.0, 2.0)
    own = recorder.result()
    report = Report(id="t", attempt=1, usage=Usage(ran=3.0), statistics=own, checkpoint=b"\x00")
    beat(store, worker, 2, report)
    control.pause(store, "t")
    for id in ("t", *fill(store, 1)):
        here, there = get(store, id), get(remote, id)
        for name in here.__struct_fields__:
            value = getattr(here, name)
            if isinstance(value, float):
                value = pytest.approx(value, abs=0.001)
            if name not in ("returned_from", "usage"):
                assert getattr(there, name) == value, name
    assert remote.attempts("t")[0].worker == worker
    assert remote.usage("t", 1)[0].ran == 3.0
    there_too = remote.statistics("t", 1)
    assert there_too is not None
    assert (there_too.metrics, there_too.steps) == (own.metrics, own.steps)
    assert remote.statistics("none", 1) is None
    saved = remote.checkpoint("t")
    assert saved is not None
    assert saved.data == b"\x00"
    assert remote.checkpoint("none") is None
    assert (remote.attempts("none"), remote.events("none"), remote.log("none", 1, 0, 9)) == (
        [],
        [],
        [],
    )
    assert remote.now() == pytest.approx(store.now(), abs=60)
    apply(store, get(store, "t"), Fail(Fault("E", "m", exit_code=3)))
    assert get(remote, "t").error == Fault("E", "m", exit_code=3)
    assert task.id == "t"


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_were(remote: Store, store: Store, value: object) -> None:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        with pytest.raises(BadInput, match="stands for bytes"):
            remote.submit([new("t", parameters=value)])
        return
    [answer] = remote.submit([new("t", parameters=value)])
    assert answer.fresh
    assert get(store, "t").parameters == value
    assert get(remote, "t").parameters == value


def test_pages_go_on_where_they_ended(remote: Store, store: Store) -> None:
    ids = fill(store, 1203)
    first = remote.find(Filter(queues=("q",)), None, 1100)
    rest = remote.find(Filter(queues=("q",)), first.next, 1100)
    assert [task.id for task in (*first.tasks, *rest.tasks)] == ids[::-1]
    assert rest.next is None
    assert [task and task.id for task in remote.get([*ids[:120], "none"])] == [*ids[:120], None]


def test_errors_are_those_of_the_store(remote: Store, store: Store, worker: str) -> None:
    submit(store, new("t"))
    with pytest.raises(Refused, match="only a finished task"):
        operator_of(remote).retry("t")
    with pytest.raises(Refused, match="running"):
        operator_of(remote).pause("t")
    with pytest.raises(Refused):
        operator_of(remote).drop_worker(worker)
    with pytest.raises(BadInput, match="cursor"):
        remote.find(Filter(), "x", 10)


def test_a_token_that_is_missing_or_too_weak_is_said(site: Site, store: Store) -> None:
    submit(store, new("t"))
    for token, said in ((None, "needs a token.*STAYER_TOKEN"), ("wrong", "expired.*STAYER_TOKEN")):
        with (
            closing(open_store(site.url, token=token)) as nobody,
            pytest.raises(StoreUnusable, match=said),
        ):
            nobody.setup()
    with (
        closing(open_store(site.url, token=site.tokens["read"])) as reader,
        pytest.raises(Refused, match="needs operate"),
    ):
        operator_of(reader).cancel("t")
    assert get(store, "t").state == "pending"
    control.cancel(store, "t")
    with (
        closing(open_store(site.url, token=site.tokens["read"])) as reader,
        pytest.raises(Refused, match="needs operate"),
    ):
        control.delete(reader, "t")


def test_a_server_that_is_away_is_unreachable_until_it_is_back(
    tmp_path: Path, process: tuple[Process, Site], url: str
) -> None:
    server, site = process
    with closing(open_store(site.url, token=site.tokens["read"])) as far:
        far.setup()
        server.stop()
        with pytest.raises(StoreUnreachable, match="stayer serve"):
            far.now()
        again = Process(tmp_path, url, port=server.port)
        try:
            assert far.queues() == []
        finally:
            again.stop()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://user:hush@localhost", "STAYER_TOKEN"),
        ("http://", "http://localhost:8787"),
        ("http://localhost:x", "http://localhost:8787"),
        ("https://localhost?x=1", "http://localhost:8787"),
    ],
)
def test_a_bad_url_is_refused_and_shows_no_secret(url: str, words: str) -> None:
    with pytest.raises(BadConfig, match=words) as raised:
        open_store(url)
    assert "hush" not in str(raised.value)


def test_what_is_no_server_of_ours_is_said(site: Site) -> None:
    with (
        closing(open_store(f"{site.url}/elsewhere", token=site.tokens["read"])) as store,
        pytest.raises(StoreUnusable, match="has nothing under /elsewhere: leave that out"),
    ):
        store.setup()


def test_the_id_of_a_deleted_task_is_refused(client: stayer.Client) -> None:
    queue = client.get_queue("q")
    assert queue.submit(1, id="gone").fresh
    assert queue.submit(1, id="gone").fresh is False
    client.get_task("gone").cancel().delete()
    with pytest.raises(stayer.DeletedId, match="gone has been deleted"):
        queue.enqueue(1, id="gone")


def test_a_task_that_was_cancelled_before_its_eta_waits_for_it_or_runs_now(
    client: stayer.Client,
) -> None:
    task = client.get_queue("q").submit(1, delay=3600)
    assert task.cancel().retry().state == "scheduled"
    assert task.cancel().retry(now=True).state == "pending"


@pytest.mark.parametrize("status", [400, 401, 403, 500, 503])
@pytest.mark.parametrize("answer", [b"[1]", b'"x"', b"7", b"null", b"no JSON"])
def test_a_problem_that_is_no_object_is_one_clear_error(
    remote: Store, monkeypatch: pytest.MonkeyPatch, status: int, answer: bytes
) -> None:
    def answered(*_: object) -> tuple[int, str, bytes]:
        return status, "application/problem+json", answer

    monkeypatch.setattr(Connection, "_exchange", answered)
    with pytest.raises(StoreUnusable, match="is that the URL of a `stayer serve`"):
        remote.now()
