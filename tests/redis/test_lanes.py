"""What a queue with a program for every task leaves in Redis: nothing."""

from __future__ import annotations

import pytest

from stayer.core.happenings import Cancel, Hold, Release, Set
from stayer.core.lifecycle import decide
from stayer.core.worker_model import EVERYTHING
from stayer.stores.redis import RedisStore
from tests.contract.builders import apply, get, ids, new, register, submit

PROGRAMS = 50


def keys(store: RedisStore, name: str) -> list[bytes]:
    prefix = store._server.address.prefix  # other tests leave theirs on the same server
    found = store._server.ask("KEYS", f"{prefix}:{{q}}:{name}*")
    assert isinstance(found, list)
    return found


def size(store: RedisStore, command: str, name: str) -> int:
    return sum(int(store._server.ask(command, key)) for key in keys(store, name))


@pytest.fixture
def crowd(store: RedisStore) -> RedisStore:
    register(store)
    about = [(f"t{number:02d}", f"p{number}", number % 3 - 1) for number in range(PROGRAMS)]
    submit(store, *(new(id, command=(program,), priority=rank) for id, program, rank in about))
    assert len(keys(store, "lane:")) == PROGRAMS
    return store


def test_lanes_go_with_the_last_task_that_is_taken(crowd: RedisStore) -> None:
    for taken in range(1, PROGRAMS + 1):
        assert len(crowd.reserve("w", ["q"], 1, EVERYTHING)) == 1
        if PROGRAMS - taken > 32:
            assert size(crowd, "SCARD", "lanes") == PROGRAMS - taken
    assert crowd.reserve("w", ["q"], 1, EVERYTHING) == []  # some go with the next look
    assert keys(crowd, "lane") == keys(crowd, "ranked") == []


def test_lanes_of_what_was_cancelled_go_when_somebody_looks(crowd: RedisStore) -> None:
    for number in range(1, PROGRAMS):
        apply(crowd, get(crowd, f"t{number:02d}"), Cancel())
    assert ids(crowd.reserve("w", ["q"], 5, EVERYTHING)) == ["t00"]
    assert crowd.reserve("w", ["q"], 5, EVERYTHING) == []
    assert keys(crowd, "lane") == keys(crowd, "ranked") == []


def test_a_rank_is_followed_through_all_that_happens(crowd: RedisStore) -> None:
    def ranks() -> int:
        return size(crowd, "ZCARD", "ranked")

    before = ranks()
    assert before == sum(number % 3 != 1 for number in range(PROGRAMS))
    apply(crowd, get(crowd, "t00"), Hold())
    assert ranks() == before - 1
    apply(crowd, get(crowd, "t00"), Release())
    assert ranks() == before
    apply(crowd, get(crowd, "t00"), Set(priority=0))
    assert ranks() == before - 1
    apply(crowd, get(crowd, "t01"), Set(priority=9))
    assert ranks() == before
    assert ids(crowd.reserve("w", ["q"], 1, EVERYTHING)) == ["t01"]
    assert ranks() == before - 1
    crowd.commit([decide(get(crowd, "t02"), Cancel())])
    assert ranks() == before - 2
