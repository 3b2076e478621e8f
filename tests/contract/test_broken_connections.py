"""Connections that break, servers that are slow, transactions that the server gives up: what was
answered holds, what was refused did not happen, and nothing is done twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pymysql
import pytest

from stayer.core.errors import StoreError, StoreUnreachable
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import Filter
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import (
    beat,
    check_counts,
    counts,
    fill,
    get,
    in_thread,
    new,
    register,
    take,
)
from tests.contract.own_connections import SQL_SERVERS, database, own_connections
from tests.servers.proxy import Proxy, between

pytestmark = pytest.mark.parametrize("fresh_url", SQL_SERVERS, indirect=True, scope="session")
ROUNDS = 8


@pytest.fixture
def direct(timely: Store) -> Store:
    """The store, reached without a proxy."""
    return timely


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if url.startswith("postgresql"):
        path = f"{query['host'][0]}/.s.PGSQL.5432"
    else:
        path = next(query[key][0] for key in ("socket", "unix_socket") if key in query)
    with between(path) as proxy:
        yield proxy


@pytest.fixture
def store(direct: Store, proxy: Proxy, url: str) -> Iterator[Store]:
    """The same through the proxy."""
    if url.startswith("postgresql"):
        through = re.sub(r"host=[^&]*", f"host=127.0.0.1&port={proxy.port}", url)
    else:
        parts = urlsplit(url)
        through = f"mariadb://root@127.0.0.1:{proxy.port}{parts.path}"
    store = open_store(through)
    yield store
    store.close()


def submitted(store: Store, ids: list[str], sure: dict[str, bool]) -> None:
    """Submit these one by one; notes which are known to be there, and which known not to be."""
    for id in ids:
        try:
            store.submit([new(id)])
            sure[id] = True
        except StoreError as error:
            if not error.unsure:
                sure[id] = False


@pytest.mark.parametrize("when", ["requests_left", "answers_left"])
def test_what_was_answered_is_there_and_what_was_refused_is_not(
    store: Store, direct: Store, proxy: Proxy, when: str
) -> None:
    sure: dict[str, bool] = {}
    submitted(store, ["first"], sure)
    for left in range(ROUNDS):
        setattr(proxy, when, left)
        submitted(store, [f"{left}-{n}" for n in range(3)], sure)
        setattr(proxy, when, None)
    there = {task.id for task in control.find_all(direct, Filter())}
    assert there >= {id for id, is_there in sure.items() if is_there}
    assert not there & {id for id, is_there in sure.items() if not is_there}
    check_counts(direct)
    # Whoever is not sure submits again, and makes none twice
    submitted(store, [f"{left}-{n}" for left in range(ROUNDS) for n in range(3)], sure)
    assert counts(direct) == {"pending": 3 * ROUNDS + 1}


@pytest.mark.parametrize("when", ["requests_left", "answers_left"])
def test_work_goes_on_though_connections_are_cut_in_the_middle_of_it(
    store: Store, direct: Store, proxy: Proxy, when: str
) -> None:
    register(direct)
    names = fill(direct, ROUNDS)
    for number in range(ROUNDS):
        setattr(proxy, when, number)
        patiently(partial(beat, store, "w", number + 2))
        patiently(lambda: take(store, limit=1))
        for task in direct.holdings("w"):
            patiently(partial(store.commit, [decide(task, Done())]))
        setattr(proxy, when, None)
    assert counts(direct) == {"complete": ROUNDS}
    for name in names:
        assert [event.event for event in direct.events(name)] == ["pending", "reserved", "complete"]
    check_counts(direct)


def patiently(call: Callable[[], Any]) -> None:
    """Once more, as a worker does, if the store can't be reached."""
    try:
        call()
    except StoreUnreachable:
        call()


def test_a_slow_network_only_takes_longer(store: Store, proxy: Proxy) -> None:
    fill(store, 1)
    proxy.delay = 0.02
    register(store)
    [task] = take(store)
    store.commit([decide(task, Done())])
    assert get(store, task.id).state == "complete"


def test_connections_that_were_closed_while_nobody_used_them_are_replaced(
    store: Store, proxy: Proxy
) -> None:
    fill(store, 1)
    proxy.half_close()
    fill(store, 1)
    proxy.cut_all()
    fill(store, 1)
    assert counts(store) == {"pending": 3}


def test_connections_that_the_server_ends_in_mid_operation_are_replaced(direct: Store) -> None:
    register(direct)
    fill(direct, 1)
    [task] = take(direct)
    with own_connections(direct, 2) as (connection, killer):
        connection.ask("SELECT 1 FROM stayer_tasks FOR UPDATE")
        done = in_thread(lambda: direct.commit([decide(task, Done())]))
        connection.wait_for_lock()
        killer.end_who_waits()
        connection.rollback()
        assert done() != [None]
    assert [event.event for event in direct.events(task.id)] == ["pending", "reserved", "complete"]
    check_counts(direct)


@pytest.mark.parametrize("number", [1, 3])
def test_what_the_server_gives_up_for_the_sake_of_others_is_done_again(
    direct: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each operation is broken up so many times, at its end, where most is to be undone."""
    victims: list[str] = []
    with database(direct).write() as tx:
        kind = type(tx)
    name = "flush" if direct.url.startswith("postgresql") else "commit"
    plain = getattr(kind, name)

    def victim(self: Any, *given: Any) -> None:
        if given in ((), ("COMMIT",)) and len(victims) < number and not self.may_stay_open:
            victims.append(name)
            raise (
                psycopg.errors.SerializationFailure("injected")
                if name == "flush"
                else pymysql.err.OperationalError(1213, "injected")
            )
        plain(self, *given)

    monkeypatch.setattr(kind, name, victim)
    for call in (
        lambda: register(direct),
        lambda: fill(direct, 2),
        lambda: direct.set_queue("q", limit=2),
        lambda: take(direct, limit=2),
        lambda: direct.commit([decide(task, Done()) for task in direct.holdings("w")]),
        lambda: direct.drop_queue("q", 10),
    ):
        victims.clear()
        call()
        assert len(victims) == number
        victims.extend([name] * number)
        check_counts(direct)
