"""Queue: submitting, counting, pausing, dropping."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stayer import (
    BadInput,
    Client,
    DeletedId,
    DuplicateWarning,
    Queue,
    Refused,
    StoreUnreachable,
    TooLarge,
    UnknownQueue,
    UnknownTask,
)
from stayer.core.model import NewTask, Submitted
from tests.client.actors import take


@pytest.fixture
def queue(client: Client) -> Queue:
    return client.get_queue("q")


def test_enqueue_answers_with_the_id_of_a_pending_task(client: Client, queue: Queue) -> None:
    id = queue.enqueue({"n": 1})
    task = client.get_task(id)
    assert (task.id, task.queue, task.state) == (id, "q", "pending")
    assert task.parameters == {"n": 1}


def test_every_option_reaches_the_task(client: Client, queue: Queue) -> None:
    queue.enqueue(
        b"raw",
        id="mine",
        priority=7,
        command=["ffmpeg", "-i", "a"],
        cwd="/data",
        env={"A": "1"},
        owner="grace",
        tags=["x", "y"],
        held=True,
        retries=3,
    )
    task = client.get_task("mine")
    assert task.command == ("ffmpeg", "-i", "a")
    assert (task.parameters, task.priority, task.cwd, task.env) == (b"raw", 7, "/data", {"A": "1"})
    assert (task.owner, task.tags, task.held) == ("grace", ("x", "y"), True)
    assert task.policy.retries == 3


def test_a_task_may_have_a_name(client: Client, queue: Queue) -> None:
    assert client.get_task(queue.enqueue(name="video.encode")).name == "video.encode"


def test_owner_and_retries_are_as_configured(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAYER_RETRIES", "2")
    with Client(url) as client:
        queue = client.get_queue("q")
        silent, outspoken = queue.enqueue_many([1]), [queue.enqueue(1, owner="x", retries=0)]
        found = [client.get_task(id) for id in silent + outspoken]
    assert [(task.owner, task.policy.retries) for task in found] == [("ada", 2), ("x", 0)]


@pytest.mark.parametrize(
    "eta",
    [
        4_000_000_000,
        datetime.fromtimestamp(4_000_000_000, UTC),
        datetime.fromtimestamp(4_000_000_000),
        "2096-10-02T07:06:40Z",
    ],
    ids=["seconds", "with a zone", "local", "text"],
)
def test_an_eta_is_a_moment_however_it_is_given(client: Client, queue: Queue, eta: Any) -> None:
    tasks = [client.get_task(queue.enqueue(eta=eta)), client.get_task(queue.schedule(1, eta))]
    assert [(task.state, task.eta) for task in tasks] == [("scheduled", 4_000_000_000)] * 2


@pytest.mark.parametrize("delay", [600, 600.0, timedelta(minutes=10), "10m"])
def test_a_delay_counts_from_now_however_it_is_given(
    client: Client, queue: Queue, delay: Any
) -> None:
    task = client.get_task(queue.enqueue(delay=delay))
    assert task.state == "scheduled"
    assert task.eta == pytest.approx(time.time() + 600, abs=30)


def test_a_task_whose_eta_is_past_is_pending_at_once(client: Client, queue: Queue) -> None:
    assert client.get_task(queue.schedule(1, eta=1, name="late", tags=["x"])).state == "pending"


@pytest.mark.parametrize(
    "options",
    [
        {"eta": 1, "delay": 1},
        {"delay": "soon"},
        {"delay": -1},
        {"command": "ls"},
        {"tags": "x"},
        {"priority": "high"},
        {"retries": -1},
        {"id": ""},
        {"id": "-Itouch x"},
        {"id": "-"},
        {"id": "."},
        {"id": ".."},
        {"name": "x", "command": ["y"]},
    ],
)
def test_what_makes_no_sense_is_refused(queue: Queue, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        queue.enqueue(**options)
    assert queue.count() == 0


def test_a_queue_needs_a_name(client: Client) -> None:
    with pytest.raises(BadInput):
        client.get_queue("")


def test_the_same_task_again_is_the_one_there(client: Client, queue: Queue) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert queue.enqueue({"size": (1, 2)}, id="mine") == "mine"
    assert queue.count() == 1


def test_the_same_id_with_other_parameters_is_left_alone_with_a_warning(
    client: Client, queue: Queue
) -> None:
    queue.enqueue(1, id="mine")
    with pytest.warns(DuplicateWarning, match="mine is there already with other para") as caught:
        assert queue.enqueue(2, id="mine") == "mine"
    assert caught[0].filename == __file__
    with pytest.warns(DuplicateWarning) as caught:
        assert queue.enqueue_many([3], ids=["mine"]) == ["mine"]
    assert caught[0].filename == __file__
    assert client.get_task("mine").parameters == 1


def test_the_same_id_in_another_queue_is_left_alone_with_a_warning(
    client: Client, queue: Queue
) -> None:
    queue.enqueue(1, id="mine")
    with pytest.warns(DuplicateWarning, match="in queue q, not other"):
        assert client.get_queue("other").enqueue(1, id="mine") == "mine"
    assert client.get_task("mine").queue == "q"


def test_parameters_over_the_limit_are_refused(queue: Queue) -> None:
    with pytest.raises(TooLarge):
        queue.enqueue("x" * 1_000_001)


def test_many_tasks_go_in_few_round_trips(
    client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips = []
    submit = client.store.submit

    def counted(tasks: Sequence[NewTask]) -> list[Submitted]:
        trips.append(len(tasks))
        return submit(tasks)

    monkeypatch.setattr(client.store, "submit", counted)
    ids = queue.enqueue_many(({"n": n} for n in range(2500)), priority=5, tags=["bulk"])
    assert trips == [1000, 1000, 500]
    assert len(set(ids)) == 2500
    for number in (0, 999, 1000, 2499):
        task = client.get_task(ids[number])
        assert (task.parameters, task.priority, task.tags) == ({"n": number}, 5, ("bulk",))


def test_many_tasks_may_have_ids_of_their_own(client: Client, queue: Queue) -> None:
    ids = queue.enqueue_many(iter("abc"), ids=(f"task {letter}" for letter in "abc"))
    assert ids == ["task a", "task b", "task c"]
    assert client.get_task("task b").parameters == "b"
    assert queue.enqueue_many("abc", ids=ids) == ids
    assert queue.count() == 3


@pytest.mark.parametrize("ids", [["a"], ["a", "b", "c"]])
def test_ids_must_be_as_many_as_parameters(queue: Queue, ids: list[str]) -> None:
    with pytest.raises(BadInput, match="ids than parameters"):
        queue.enqueue_many([1, 2], ids=ids)


def test_a_wrong_id_among_many_is_refused(queue: Queue) -> None:
    with pytest.raises(BadInput, match="id"):
        queue.enqueue_many([1, 2], ids=["a", ""])
    with pytest.raises(BadInput, match="option"):
        queue.enqueue_many([1, 2], ids=["a", "-b"])


def test_none_at_all_is_many_too(queue: Queue) -> None:
    assert queue.enqueue_many([]) == []


def test_a_failure_on_the_way_says_how_many_were_accepted(queue: Queue) -> None:
    with pytest.raises(TooLarge, match=r"the first 1000 tasks were accepted"):
        queue.enqueue_many("x" * (1_000_001 if n == 1500 else 1) for n in range(3000))
    assert queue.count() == 1000


@pytest.mark.parametrize(
    ("in_doubt", "rest"), [(True, "some of the 500 after them may"), (False, "the rest was not")]
)
def test_a_store_that_fails_on_the_way_says_how_many_were_accepted(
    client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch, in_doubt: bool, rest: str
) -> None:
    answers = iter([client.store.submit])

    def fails(tasks: Sequence[NewTask]) -> list[Submitted]:
        for submit in answers:
            return submit(tasks)
        error = StoreUnreachable("gone")
        error.unsure = in_doubt
        raise error

    monkeypatch.setattr(client.store, "submit", fails)
    said = rf"gone \(the first 1000 tasks were accepted, {rest}"
    with pytest.raises(StoreUnreachable, match=said) as caught:
        queue.enqueue_many(range(1500))
    assert len(caught.value.drawn) == (500 if in_doubt else 0)


def test_the_callers_own_failure_on_the_way_goes_on_with_a_note(queue: Queue) -> None:
    def parameters() -> Iterator[int]:
        yield from range(1000)
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        queue.enqueue_many(parameters())
    assert caught.value.__notes__ == ["the first 1000 tasks were accepted, the rest was not"]


def test_tasks_are_counted_by_state(client: Client, queue: Queue) -> None:
    queue.enqueue_many([1, 2])
    queue.enqueue(delay="1h")
    assert (queue.count(), queue.count("pending"), queue.count("scheduled")) == (3, 2, 1)
    assert {state: n for state, n in queue.counts().items() if n} == {"pending": 2, "scheduled": 1}
    with pytest.raises(BadInput):
        queue.count("asleep")  # type: ignore[arg-type]


def test_a_queue_that_is_not_there_is_empty(client: Client) -> None:
    queue = client.get_queue("nowhere")
    assert (queue.count(), queue.count("pending"), queue.peek()) == (0, 0, [])
    assert client.queues() == []


def test_peek_shows_the_next_without_taking_them(client: Client, queue: Queue) -> None:
    first, second, _ = queue.enqueue("b"), queue.enqueue("c"), queue.enqueue("d")
    urgent = queue.enqueue("a", priority=1)
    assert [task.id for task in queue.peek(3)] == [urgent, first, second]
    assert queue.count("pending") == 4


def test_a_paused_queue_gives_nothing_until_it_is_resumed(client: Client, queue: Queue) -> None:
    id = queue.enqueue(1)
    queue.pause()
    assert queue.info().paused
    with client.get_listener("q") as listener:
        assert listener.listen(0) is None
        queue.resume()
        assert take(listener).id == id


def test_a_limit_bounds_how_many_run_at_once(client: Client, queue: Queue) -> None:
    queue.enqueue_many([1, 2, 3])
    queue.set_limit(1)
    with client.get_listener("q") as listener:
        first = take(listener)
        assert listener.listen(0) is None
        client.get_processor(first).complete()
        take(listener)
        assert listener.listen(0) is None
        queue.set_limit(None)
        take(listener)
    for wrong in (-1, True):
        with pytest.raises(BadInput):
            queue.set_limit(wrong)


def test_a_finished_task_can_be_deleted_from_its_own_queue(client: Client, queue: Queue) -> None:
    id = queue.enqueue(1)
    with pytest.raises(Refused):
        queue.delete(id)
    client.get_task(id).cancel()
    with pytest.raises(UnknownTask, match="in queue q"):
        client.get_queue("other").delete(id)
    queue.delete(id)
    with pytest.raises(UnknownTask):
        client.get_task(id)


def test_a_queue_with_unfinished_tasks_is_dropped_only_by_force(
    client: Client, queue: Queue
) -> None:
    queue.enqueue_many([1, 2])
    with pytest.raises(Refused):
        queue.drop()
    assert queue.drop(force=True) == 2
    assert client.queues() == []
    with pytest.raises(UnknownQueue):
        queue.drop()


def test_queues_are_listed_with_their_counts(client: Client, queue: Queue) -> None:
    queue.enqueue(1)
    client.get_queue("a").enqueue(1)
    assert [(info.name, info.counts["pending"]) for info in client.queues()] == [("a", 1), ("q", 1)]


def _delete(client: Client, *ids: str) -> None:
    queue = client.get_queue("q")
    for id in ids:
        queue.enqueue(1, id=id)
        client.get_task(id).cancel().delete()


def test_the_id_of_a_deleted_task_is_refused(client: Client, queue: Queue) -> None:
    _delete(client, "gone")

    with pytest.raises(DeletedId, match=r"task gone has been deleted.*choose another"):
        queue.enqueue(1, id="gone")
    with pytest.raises(DeletedId, match="gone"):
        queue.submit(1, id="gone")
    with pytest.raises(Refused):
        queue.schedule(1, time.time() + 60, id="gone")
    assert queue.count() == 0


def test_of_many_all_but_those_with_deleted_ids_are_accepted(client: Client, queue: Queue) -> None:
    _delete(client, "b", "d")

    with pytest.raises(DeletedId, match=r"2 of 5 tasks were not accepted.*b, d.*other 3") as raised:
        queue.enqueue_many(range(5), ids="abcde")

    assert raised.value.ids == ("b", "d")
    assert sorted(task.id for task in client.find(queues="q")) == ["a", "c", "e"]


def test_a_submit_says_whether_it_made_the_task(client: Client, queue: Queue) -> None:
    first = queue.submit({"n": 1}, id="t", priority=3)
    assert (first.fresh, first.id, first.state, first.priority) == (True, "t", "pending", 3)
    again = queue.submit({"n": 1}, id="t", priority=3)
    assert again.fresh is False
    assert again.refresh().fresh is False
    assert client.get_task("t").fresh is None
    many = queue.submit_many([1, {"n": 1}], ids=["t2", "t"])
    assert [(task.id, task.fresh) for task in many] == [("t2", True), ("t", False)]


def test_a_start_before_that_is_over_is_refused(client: Client, queue: Queue) -> None:
    with pytest.raises(BadInput, match=r"start_before 2020-01-01.* is over.*would never start"):
        queue.enqueue(start_before=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(BadInput, match="is over"):
        queue.enqueue_many([1, 2], start_before=1.0)
    with pytest.raises(BadInput, match=r"expire 0.*never get the chance"):
        queue.enqueue(expire=0)
    with pytest.raises(BadInput, match="is not after its eta"):
        queue.enqueue(eta=4e9, start_before=3e9)
    assert queue.count() == 0


def test_the_same_task_may_be_submitted_again_after_its_start_before(
    client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = time.time() + 3600
    queue.enqueue(1, id="t", start_before=soon)
    monkeypatch.setattr(client.store, "now", lambda: soon + 1)

    assert queue.enqueue(1, id="t", start_before=soon) == "t"
    with pytest.raises(BadInput, match="is over"):
        queue.enqueue(1, id="u", start_before=soon)
