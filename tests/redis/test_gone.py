"""Parts of tasks and other keys that are gone, and where all that is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from stayer.core.happenings import Cancel, Done, Note
from stayer.core.lifecycle import decide
from stayer.core.model import Policy
from stayer.core.worker_model import EVERYTHING
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import (
    Clock,
    apply,
    fill,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    taken,
)
from tests.redis.losing import key, lose, tidy
from tests.servers.redis import RedisServer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(shared_server: RedisServer, clock: Clock) -> Iterator[RedisStore]:
    store = open_store(shared_server.url(), clock=clock)
    assert isinstance(store, RedisStore)
    store.setup()
    register(store)
    yield store
    store.close()


class TestParametersThatAreGone:
    LONG = "x" * 5000

    def test_let_the_task_fail_and_say_why(self, store: RedisStore) -> None:
        names = fill(store, 2, parameters=self.LONG, policy=Policy(retries=3))
        lose(store, names[0], of="parameters")
        [given] = take(store, limit=1)
        assert (given.id, given.parameters) == (names[1], self.LONG)
        failed = get(store, names[0])
        assert (failed.state, failed.ending) == ("failed", "error")
        assert failed.attempt == 1  # another try is of no use
        assert failed.error is not None
        assert (failed.error.type, "submit it again" in failed.error.message) == (
            "ParametersLost",
            True,
        )

    def test_in_a_turn(self, store: RedisStore) -> None:
        task = started(store)
        names = fill(store, 3, parameters=b"bytes")
        lose(store, names[1], of="parameters")
        _, given = store.turn("w", [decide(task, Done())], ["q"], 2, EVERYTHING)
        assert ids(given) == [names[0], names[2]]
        assert get(store, names[1]).state == "failed"

    def test_a_result_that_is_gone_is_none(self, store: RedisStore) -> None:
        task = apply(store, started(store), Done(self.LONG))
        lose(store, task.id, of="result")
        assert get(store, task.id).result is None


class TestWhereOperatorsLook:
    def test_doctor_tells(self, store: RedisStore) -> None:
        [id] = fill(store, 1)
        assert "records" not in [finding.check for finding in store.check()]
        lose(store, id)
        assert take(store) == []
        tidy(store)
        [finding] = [each for each in store.check() if each.check == "records"]
        assert (finding.status, "tasks lost: 1." in finding.message) == ("warn", True)

    def test_the_log_tells(self, store: RedisStore, caplog: pytest.LogCaptureFixture) -> None:
        names = fill(store, 2)
        lose(store, *names)
        assert take(store) == []
        with caplog.at_level(logging.WARNING):
            tidy(store)
        assert ": 2. Their records are gone" in caplog.text


class TestOtherKeysThatAreGone:
    def test_the_number_of_the_last_event(self, store: RedisStore) -> None:
        fill(store, 3)
        assert store._server.ask("DEL", key(store, "last")) == 1
        names = fill(store, 1)
        assert ids(take(store, limit=9))[-1:] == names

    def test_what_stood_in_a_lane_is_found_again_when_its_queue_is_lined_up_anew(
        self, store: RedisStore
    ) -> None:
        names = fill(store, 2)
        assert store._server.ask("DEL", key(store, "{q}:lane:")) == 1
        assert take(store) == []
        store.set_queue("q", fair="owner")
        store.set_queue("q", fair=None)
        assert ids(take(store, limit=9)) == names

    def test_the_beginning_of_a_long_history(self, store: RedisStore) -> None:
        task = taken(store, policy=Policy(retries=1))
        told = decide(task, Note("said", "x" * 50))
        store.commit([told] * 300)
        lose(store, task.id, of="history")
        for _ in range(12):
            assert all(store.commit([told] * 100))
        assert store.events(task.id)
        assert store.attempts(task.id)

    def test_a_notice(self, store: RedisStore) -> None:
        register(store, "h")
        submit(
            store,
            new(notify=("ended:http://x.example/a",)),
            new(notify=("ended:http://x.example/b",)),
        )
        for task in take(store, limit=2):
            apply(store, task, Cancel())
            apply(store, get(store, task.id), Done())
        [first, second] = store.notices(None, None, None, 9).notices
        lose(store, first.id, of="notice")
        assert [each.id for each in store.notices(None, None, None, 9).notices] == [second.id]
        assert [each.id for each in store.take_notices([""], 9, 60.0, 3600.0)] == [second.id]
        assert [each.id for each in store.take_notices([""], 9, 60.0, 0.0)] == []
