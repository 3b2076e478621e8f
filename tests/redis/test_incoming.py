"""The list that any language may push tasks to."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stayer.core.errors import StoreMoved
from stayer.core.happenings import Cancel, Done
from stayer.core.model import Filter
from stayer.service import move as moving
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import RedisStore, incoming
from tests.cli.running import Here
from tests.contract import actors
from tests.contract.builders import (
    PATIENCE,
    apply,
    check_counts,
    counts,
    get,
    happened,
    ids,
    in_thread,
    new,
    register,
    started,
    submit,
    take,
)
from tests.contract.test_waiter import calm
from tests.faults.fleet import until
from tests.http.serving import served_here
from tests.processes import PROCESSES
from tests.redis import pushing


@pytest.fixture
def push(store: RedisStore) -> Callable[..., None]:
    """What a program in any language does."""
    return lambda *items: pushing.push(store, *items)


def refused(store: RedisStore) -> list[dict[str, Any]]:
    """What was of no use, newest first."""
    items = store._server.ask("LRANGE", f"{store._server.address.prefix}:refused", 0, -1)
    return [json.loads(item) for item in items]


def left(store: RedisStore) -> int:
    return int(store._server.ask("LLEN", f"{store._server.address.prefix}:incoming"))


def test_an_item_has_the_defaults_of_its_queue(
    store: RedisStore, push: Callable[..., None]
) -> None:
    store.set_queue("encode", defaults={"retries": 3})
    push({"id": "silent", "queue": "encode"}, {"id": "other", "queue": "encode", "retries": 1})
    store.promote(10)
    assert [get(store, id).policy.retries for id in ("silent", "other")] == [3, 1]


def test_an_item_is_a_task(store: RedisStore, push: Callable[..., None]) -> None:
    push({"id": "film-1", "queue": "encode", "parameters": {"file": "a.mov"}, "priority": 5})
    assert store.promote(10) is None
    task = get(store, "film-1")
    assert (task.queue, task.parameters, task.priority) == ("encode", {"file": "a.mov"}, 5)
    assert (task.state, happened(store.events("film-1"))) == ("pending", ["pending"])
    assert (left(store), refused(store)) == (0, [])


def test_an_item_may_say_nothing(store: RedisStore, push: Callable[..., None]) -> None:
    push({}, {})
    store.promote(10)
    assert counts(store, "default") == {"pending": 2}


def test_items_are_taken_in_the_order_in_which_they_came(
    store: RedisStore, push: Callable[..., None]
) -> None:
    register(store)
    for number in range(250):
        push({"id": f"t{number}", "queue": "q"})
    store.promote(1000)
    assert ids(take(store, limit=1000)) == [f"t{number}" for number in range(250)]


def test_no_more_than_the_limit_are_taken(store: RedisStore, push: Callable[..., None]) -> None:
    push(*({"queue": "q"} for _ in range(30)))
    following = store.promote(10)
    assert following is not None
    assert following <= store.now()
    assert (counts(store), left(store)) == ({"pending": 10}, 20)
    while store.promote(10) is not None:
        pass
    assert counts(store) == {"pending": 30}


def test_bytes_and_times_are_understood(store: RedisStore, push: Callable[..., None]) -> None:
    push({"id": "a", "queue": "q", "parameters": {"base64": "AP8="}, "delay": "1h"})
    following = store.promote(10)
    task = get(store, "a")
    assert (task.parameters, task.state) == (b"\x00\xff", "scheduled")
    assert following == task.eta


def test_an_id_that_is_there_is_not_accepted_again(
    store: RedisStore, push: Callable[..., None]
) -> None:
    submit(store, new("a", parameters=1))
    push({"id": "a", "queue": "q", "parameters": 2})
    store.promote(10)
    assert get(store, "a").parameters == 1
    assert (counts(store), left(store)) == ({"pending": 1}, 0)


def test_another_task_under_an_id_that_is_there_is_told_of(
    store: RedisStore, push: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    large = {"text": "x" * 5000, "and": [1, 2]}
    submit(store, new("a", parameters={"b": 1, "c": 2}), new("large", parameters=large))
    push({"id": "a", "queue": "q", "parameters": {"c": 2, "b": 1}})
    push({"id": "large", "queue": "q", "parameters": large})
    store.promote(10)
    assert (refused(store), caplog.messages) == ([], []), "the same is no news"
    push({"id": "a", "queue": "other", "command": ["ls"]}, {"id": "a", "queue": "q"})
    push({"id": "b", "queue": "q"}, {"id": "b", "queue": "r"}, {"id": "b", "queue": "q"})
    store.promote(10)
    assert [line["error"] for line in refused(store)] == [
        "task 'b' is there already, and differs in queue",
        "task 'a' is there already, and differs in parameters",
        "task 'a' is there already, and differs in queue, command, parameters",
    ]
    assert json.loads(refused(store)[0]["item"]) == {"id": "b", "queue": "r"}
    assert [re.findall("incoming: (task .*?): {", line) for line in caplog.messages] == [
        ["task 'a' is there already, and differs in queue, command, parameters"],
        ["task 'a' is there already, and differs in parameters"],
        ["task 'b' is there already, and differs in queue"],
    ]
    assert (counts(store), counts(store, "r"), left(store)) == ({"pending": 3}, {}, 0)


def test_each_reason_is_logged_once(
    store: RedisStore, push: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    push(b"no JSON", {"queue": "q", "colour": "red"}, b"no JSON", {"queue": "q", "priority": "x"})
    store.promote(10)
    assert len(caplog.messages) == 3
    assert caplog.messages[0].endswith("no JSON (and 1 more)")
    assert "no field is called 'colour'" in caplog.messages[1]
    caplog.clear()
    push(*({"queue": "q", f"colour{number}": 1} for number in range(9)))
    store.promote(10)
    assert len(caplog.messages) == incoming.REASONS + 1
    assert caplog.messages[-1].endswith("for other reasons: 4 more")


def test_fields_that_can_not_come_this_way_are_not_named(
    store: RedisStore, push: Callable[..., None]
) -> None:
    push({"queue": "q", "colour": "red"})
    store.promote(10)
    [line] = refused(store)
    allowed = line["error"].partition("allowed are ")[2].split(", ")
    assert {"id", "queue", "unique"} < set(allowed)
    assert {"after", "near", "when_failed"}.isdisjoint(allowed)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (b"not JSON", "not JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"[1]", "object"),
        (b"", "empty"),
        (b'{"queue": "q", "colour": "red"}', "colour"),
        (b'{"queue": ""}', "queue"),
        (b'{"queue": "q", "id": "-Itouch x"}', "option"),
        (b'{"queue": "q", "id": "."}', "folder"),
        (b'{"queue": "q", "priority": "high"}', "priority"),
        (b'{"delete": "unknown"}', "unknown"),
        (b'{"delete": 5}', "delete takes one id and stands alone"),
        (b'{"delete": ["a"]}', "delete takes one id and stands alone"),
        (b'{"delete": "a", "queue": "q"}', "delete takes one id and stands alone"),
    ],
)
def test_what_is_of_no_use_is_set_aside_with_its_error(
    store: RedisStore, push: Callable[..., None], item: bytes, said: str
) -> None:
    push(item, {"id": "good", "queue": "q"})
    while store.promote(10) is not None:
        pass
    [what] = refused(store)
    assert said in what["error"]
    assert abs(what["at"] - store.now()) < 3600
    assert get(store, "good").state == "pending"
    assert left(store) == 0


def test_every_field_of_a_submission_may_be_given(
    store: RedisStore, push: Callable[..., None]
) -> None:
    """Taken or refused, but never in the way of the rest."""
    push({"queue": "q", "time_limit": "1h", "memory_limit": "1G", "grace": 5, "fence": "kill"})
    push({"id": "next", "queue": "q"})
    while store.promote(10) is not None:
        pass
    assert get(store, "next").state == "pending"
    assert counts(store)["pending"] + len(refused(store)) == 2


def test_why_it_was_of_no_use_is_told_in_short(
    store: RedisStore, push: Callable[..., None]
) -> None:
    push({"delete": "x" * 100_000})
    store.promote(10)
    [problem] = refused(store)
    assert problem["error"] == f"no task '{'x' * 991}"


def test_what_is_set_aside_is_capped(store: RedisStore, push: Callable[..., None]) -> None:
    push(*(b"bad %d" % number for number in range(1200)))
    while store.promote(500) is not None:
        pass
    kept = refused(store)
    assert (len(kept), kept[0]["item"]) == (1000, "bad 1199")


class TestDeleting:
    def test_cancels_what_waits(self, store: RedisStore, push: Callable[..., None]) -> None:
        submit(store, new("a"), new("b", delay=100))
        push({"delete": "a"}, {"delete": "b"})
        while store.promote(10) is not None:
            pass
        assert [get(store, id).state for id in ("a", "b")] == ["cancelled", "cancelled"]
        assert (refused(store), left(store)) == ([], 0)
        check_counts(store)

    def test_works_on_what_came_right_before(
        self, store: RedisStore, push: Callable[..., None]
    ) -> None:
        push({"id": "a", "queue": "q"}, {"delete": "a"}, {"id": "b", "queue": "q"})
        while store.promote(10) is not None:
            pass
        assert (get(store, "a").state, get(store, "b").state) == ("cancelled", "pending")

    def test_asks_what_runs(self, store: RedisStore, push: Callable[..., None]) -> None:
        register(store)
        started(store, id="a")
        push({"delete": "a"})
        store.promote(10)
        task = get(store, "a")
        assert (task.state, task.cancel_wanted) == ("started", True)

    def test_what_has_ended_stays(self, store: RedisStore, push: Callable[..., None]) -> None:
        register(store)
        apply(store, started(store, id="a"), Done())
        push({"delete": "a"})
        store.promote(10)
        assert get(store, "a").state == "complete"
        assert len(refused(store)) == 1

    def test_that_finds_the_task_changed_looks_again(
        self, store: RedisStore, other: Store, push: Callable[..., None]
    ) -> None:
        """The taker has read the task, and somebody was faster."""
        submit(store, new("a"))
        push({"delete": "a"})
        ask = store._server.run

        def slowly(name: str, *arguments: Any, **rest: Any) -> Any:
            if name == "take_incoming" and get(other, "a").held is False:
                control.hold(other, "a")
            return ask(name, *arguments, **rest)

        store._server.run = slowly  # type: ignore[method-assign]
        incoming.take(store._server, 10)
        assert get(store, "a").state == "cancelled"
        assert left(store) == 0


class TestExactlyOnce:
    def test_many_takers_at_once_make_each_task_once(
        self, store: RedisStore, url: str, push: Callable[..., None]
    ) -> None:
        push(*({"queue": "q", "parameters": number % 7} for number in range(400)))
        actors.together(actors.promote_all, [(url,)] * 4)
        tasks = list(control.find_all(store, Filter()))
        assert Counter(task.parameters for task in tasks) == Counter(n % 7 for n in range(400))
        assert (left(store), refused(store)) == (0, [])
        check_counts(store)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_taker_that_dies_leaves_nothing_behind_and_nothing_twice(
        self, store: RedisStore, url: str, push: Callable[..., None], when: str
    ) -> None:
        push(*({"queue": "q"} for _ in range(5)))
        with pytest.raises(AssertionError, match="died"):
            actors.together(pushing.take_and_die, [(url, when)])
        store.promote(100)
        assert (counts(store), left(store)) == ({"pending": 5}, 0)

    def test_one_that_is_killed_at_any_moment(
        self, store: RedisStore, url: str, push: Callable[..., None]
    ) -> None:
        for round in range(5):
            victim = PROCESSES.Process(target=pushing.take_for_ever, args=(url,), daemon=True)
            victim.start()
            push(*({"id": f"{round} {n}", "queue": "q"} for n in range(100)))
            while not counts(store):
                pass
            victim.kill()
            victim.join()
        while store.promote(1000) is not None:
            pass
        assert counts(store) == {"pending": 500}
        check_counts(store)


class TestWakingUp:
    def test_a_publisher_is_heard_at_once(
        self, store: RedisStore, push: Callable[..., None]
    ) -> None:
        waiter = store.waiter(None, ["q"])
        calm(waiter)
        push({"queue": "q"})
        store._server.ask("PUBLISH", f"{store._server.address.prefix}:incoming", "")
        assert waiter.wait(PATIENCE)
        waiter.close()

    def test_so_is_the_server_if_it_is_told_to_notify(
        self, store: RedisStore, push: Callable[..., None]
    ) -> None:
        store._server.ask("CONFIG", "SET", "notify-keyspace-events", "Kl")
        waiter = store.waiter(None, ["q"])
        calm(waiter)
        push({"queue": "q"})
        assert waiter.wait(PATIENCE)
        store._server.ask("CONFIG", "SET", "notify-keyspace-events", "")
        waiter.close()

    def test_else_it_is_found_by_the_next_look(
        self, store: RedisStore, push: Callable[..., None]
    ) -> None:
        waiter = store.waiter(None, ["q"])
        calm(waiter)
        woken = in_thread(lambda: waiter.wait(None))
        push({"queue": "q"})
        assert woken()
        waiter.close()

    def test_who_takes_no_tasks_is_left_alone(
        self, store: RedisStore, push: Callable[..., None]
    ) -> None:
        register(store)
        waiter = store.waiter("w", [])
        push({"queue": "q"})
        store._server.ask("PUBLISH", f"{store._server.address.prefix}:incoming", "")
        calm(waiter)
        waiter.close()


def test_a_second_delete_is_no_error(
    store: RedisStore, push: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    register(store)
    apply(store, started(store, id="a"), Cancel())
    submit(store, new("b"))
    push({"delete": "a"}, {"delete": "b"}, {"delete": "b"}, {"id": "good", "queue": "q"})
    store.promote(10)
    assert (refused(store), left(store), caplog.messages) == ([], 0, [])
    assert (get(store, "b").state, get(store, "good").state) == ("cancelled", "pending")


def test_an_item_that_is_kept_out_by_another_is_refused_and_told_of(
    store: RedisStore, push: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    register(store)
    apply(store, started(store, id="gone"), Done())
    assert store.purge(["gone"], ["complete"], store.now() + 9, 9) == ["gone"]
    submit(store, new("holds", unique="u"))
    push({"id": "gone", "queue": "q"}, {"id": "new", "queue": "q", "unique": "u"})
    push({"queue": "q", "unique": "u", "parameters": "ä" * 10_000}, {"id": "good", "queue": "q"})
    store.promote(10)
    assert [line["error"].partition(":")[0] for line in refused(store)] == [
        "its unique word 'u' is held by task 'holds'",
        "its unique word 'u' is held by task 'holds'",
        "task 'gone' has been here and was deleted",
    ]
    assert json.loads(refused(store)[2]["item"]) == {"id": "gone", "queue": "q"}
    assert len(caplog.messages) == 2, "a line for each reason"
    assert store.get(["new"]) == [None]
    assert (get(store, "good").state, left(store)) == ("pending", 0)


def test_what_was_pushed_and_not_taken_is_moved(
    store: RedisStore, push: Callable[..., None], tmp_path: Path
) -> None:
    push(*({"id": f"film-{number}", "queue": "encode"} for number in range(250)), "nonsense")
    target = open_store(f"sqlite:///{tmp_path}/new.db")
    target.setup()
    moving.move(store, target, lambda _: None)
    assert counts(target, "encode")["pending"] == 250
    assert left(store) == 0

    push({"id": "late", "queue": "encode"})  # nobody takes it any more, and it is not lost
    with pytest.raises(StoreMoved):
        store.promote(10)
    assert left(store) == 1
    target.close()


def test_a_server_takes_it_and_until_then_it_is_told_of(
    store: RedisStore, push: Callable[..., None], url: str, tmp_path: Path
) -> None:
    push({"id": "t", "queue": "q"})

    stayer = Here({"STAYER_STORE": url, "HOME": str(tmp_path)})
    assert "1 item that came from outside is no task yet" in stayer("ls").err
    assert "1 item that came from outside" in stayer("queues").err
    assert "1 item that came from outside, and no worker to take it" in stayer("doctor").out

    with served_here(tmp_path, url):
        until(lambda: store.get(["t"])[0] is not None, "for the server to take it")
    assert store.count_incoming() == 0
    assert "outside" not in stayer("ls").err
