"""Connections that are cut, servers that go away, and rights that are missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest

from stayer.core.errors import BadConfig, BadInput, StoreError, StoreUnreachable, StoreUnusable
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.stores import open_store
from stayer.stores.sql.postgres import PostgresStore
from stayer.stores.sql.postgres.schema import ddl
from stayer.stores.sql.postgres.url import parse, without_password
from tests.contract.builders import (
    PATIENCE,
    check_counts,
    counts,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    submit,
    take,
)
from tests.postgres.conftest import opened
from tests.postgres.test_several_writers import wait_for_lock
from tests.servers.finding import postgres_binaries
from tests.servers.postgres import PostgresServer, serving


def cut_all(hand: psycopg.Connection) -> None:
    """End all connections but this one."""
    hand.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )


class TestACutConnection:
    def test_is_replaced_if_nobody_used_it(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        fill(store, 1)
        cut_all(hand)
        fill(store, 1)
        assert counts(store) == {"pending": 2}

    def test_in_mid_operation_is_tried_again_on_another(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        # Given a commit that waits for somebody
        register(store)
        submit(store, new("a"))
        tasks = take(store)
        hand.execute("BEGIN")
        hand.execute("SELECT 1 FROM stayer_tasks FOR UPDATE")
        done = in_thread(lambda: store.commit([decide(task, Done()) for task in tasks]))
        wait_for_lock(hand)
        # When its connection is cut
        cut_all(hand)
        hand.execute("COMMIT")
        # Then it is done, once
        assert None not in done()
        assert [event.event for event in store.events("a")] == ["pending", "reserved", "complete"]
        check_counts(store)

    def test_at_the_commit_leaves_a_doubt(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        # A submit is one round trip, with the commit in it: whether that was done nobody knows.
        fill(store, 1)
        hand.execute("BEGIN")
        hand.execute("LOCK TABLE stayer_tasks IN EXCLUSIVE MODE")
        failed: list[StoreError] = []

        def submit_one() -> None:
            try:
                fill(store, 1)
            except StoreError as error:
                failed.append(error)

        ended = in_thread(submit_one)
        wait_for_lock(hand)
        cut_all(hand)
        hand.execute("COMMIT")
        ended()
        assert [error.unsure for error in failed] == [True]

    def test_wakes_those_who_wait_once_there_is_another(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        waiter = store.waiter(None, ["q"])
        try:
            cut_all(hand)
            fill(store, 1)
            assert waiter.wait(PATIENCE)
        finally:
            waiter.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with serving(postgres_binaries(), careless=False) as server:
        yield server


def test_what_was_answered_outlives_a_server_that_is_killed(own_server: PostgresServer) -> None:
    url = own_server.url("jobs")
    store = opened(url)
    register(store)
    names = fill(store, 20)
    own_server.stop(signal.SIGKILL)
    with pytest.raises(StoreUnreachable, match="running"):
        store.get(names)
    own_server.start()
    assert ids(take(store, limit=20)) == names
    check_counts(store)
    store.close()


def test_a_forked_child_leaves_the_connections_alone(store: PostgresStore) -> None:
    fill(store, 1)
    child = os.fork()
    if child == 0:
        try:
            submit(store, new("by the child"))
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    fill(store, 1)
    assert counts(store) == {"pending": 3}


class TestRights:
    @pytest.fixture
    def role(self, server: PostgresServer) -> Iterator[str]:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            admin.execute("DROP ROLE IF EXISTS plain")
            admin.execute("CREATE ROLE plain LOGIN")
            yield "plain"
            admin.execute("DROP OWNED BY plain CASCADE")
            admin.execute("DROP ROLE plain")

    def test_a_role_without_any_but_its_own_schema_is_enough(
        self, server: PostgresServer, role: str, url: str, schema: str
    ) -> None:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
        store = opened(url.replace("user=postgres", f"user={role}"))
        register(store)
        fill(store, 2)
        [task] = take(store)
        store.commit([decide(task, Done())])
        assert len(store.watch(0, 0.0, 10)) == 4
        store._database.tidy()
        check_counts(store)
        store.close()

    def test_without_the_right_to_make_tables_it_is_said_what_to_do(
        self, server: PostgresServer, role: str, url: str
    ) -> None:
        store = open_store(url.replace("user=postgres", f"user={role}"))
        with pytest.raises(StoreUnusable, match="grant it"):
            store.setup()
        store.close()

    def test_an_administrator_may_make_the_tables_by_hand(
        self, server: PostgresServer, url: str
    ) -> None:
        server.psql(ddl(parse(url)))
        store = opened(url)
        fill(store, 1)
        assert counts(store) == {"pending": 1}
        store.close()


def test_before_setup_it_is_said_what_to_do(url: str) -> None:
    store = open_store(url)
    with pytest.raises(StoreUnusable, match="stayer init"):
        store.queues()
    store.close()


def test_many_who_set_up_at_once_make_one_store(url: str) -> None:
    stores = [open_store(url) for _ in range(4)]
    for ready in [in_thread(store.setup) for store in stores]:
        ready()
    assert len({store.identity() for store in stores}) == 1
    for store in stores:
        store.close()


def test_tables_of_a_newer_version_are_left_alone(
    store: PostgresStore, hand: psycopg.Connection, url: str
) -> None:
    hand.execute("UPDATE stayer_meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(StoreUnusable, match="newer Stayer"):
        open_store(url).setup()


def test_stores_in_one_database_know_nothing_of_each_other(server: PostgresServer) -> None:
    urls = [server.url("one"), server.url("two"), server.url("one", prefix="jobs_")]
    stores = [opened(url) for url in urls]
    waiters = [store.waiter(None, ["q"]) for store in stores]
    fill(stores[0], 1)
    assert [counts(store) for store in stores] == [{"pending": 1}, {}, {}]
    assert waiters[0].wait(PATIENCE)
    assert not waiters[1].wait(0.01)
    assert not waiters[2].wait(0.01)
    for waiter in waiters:
        waiter.close()
    for store in stores:
        store.close()


def test_without_a_schema_the_users_own_is_taken(server: PostgresServer) -> None:
    store = opened(f"{server.conninfo}&prefix=plain_")
    register(store)
    fill(store, 1)
    assert len(take(store)) == 1
    store.close()


def test_where_nobody_may_listen_those_who_wait_look_for_themselves(url: str) -> None:
    store = opened(url + "&listen=no")
    waiter = store.waiter(None, ["q"])
    assert waiter.wait(None)
    waiter.close()
    store.close()


def test_many_threads_share_the_connections(store: PostgresStore) -> None:
    threads = [threading.Thread(target=fill, args=(store, 3)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts(store) == {"pending": 36}


class TestTheUrl:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("postgresql://u:secret@h:1/d?schema=s", "postgresql://u@h:1/d?schema=s"),
            ("postgresql://h/d?password=secret&user=u", "postgresql://h/d?user=u"),
            ("postgresql://u:a%40b@h/d", "postgresql://u@h/d"),
            ("postgres://h/d", "postgres://h/d"),
        ],
    )
    def test_is_shown_without_a_password(self, url: str, shown: str) -> None:
        assert without_password(url) == shown
        assert open_store(url).url == shown

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql:d",
            "postgresql://h:x/d",
            "postgresql://h/d?listen=x",
            "postgresql://h?schema=",
        ],
    )
    def test_is_refused_if_it_makes_no_sense(self, url: str) -> None:
        with pytest.raises(BadConfig):
            open_store(url)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (("/postgres?", "/nowhere?"), "does not exist"),
            (("user=postgres", "user=nobody_here"), "does not exist"),
            (("user=postgres", "user=postgres&sslmode=odd"), "invalid|sslmode"),
        ],
    )
    def test_of_what_is_not_there_says_so(
        self, url: str, change: tuple[str, str], said: str
    ) -> None:
        with pytest.raises((StoreUnusable, BadInput), match=said):
            open_store(url.replace(*change)).queues()

    def test_of_no_server_says_so(self) -> None:
        with pytest.raises(StoreUnreachable, match="Is the server running") as raised:
            open_store("postgresql://127.0.0.1:1/d").queues()
        assert str(raised.value).count("Is the server running") == 1  # libpq asks it, too


def test_without_the_driver_it_is_said_what_to_install() -> None:
    script = """
import sys
sys.modules["psycopg"] = None
from stayer.stores import open_store
try:
    open_store("postgresql://h/d")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("BadConfig store postgresql:… needs the package psycopg")
    assert "'.[postgres]'" in done.stdout


def test_text_that_no_column_can_hold_is_refused(store: PostgresStore) -> None:
    for fields in ({"owner": "a\0b"}, {"key": "\ud800"}):
        with pytest.raises(BadInput, match="can't keep"):
            submit(store, new("a", **fields))
    assert get(store, submit(store, new("b", parameters={"a": "\0"}))[0].id).parameters == {
        "a": "\0"
    }


def test_what_keeps_tables_small_is_read_committed_whatever_the_role_has(
    url: str, hand: psycopg.Connection
) -> None:
    # Given a role for whom transactions are something else, and functions that would refuse that
    theirs = opened(f"{url}&options=-c%20default_transaction_isolation%3Dserializable")
    for name in ("stayer_number_events", "stayer_upkeep"):
        hand.execute(
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN "
            "IF current_setting('transaction_isolation') <> 'read committed' THEN "
            "RAISE EXCEPTION 'no'; END IF; RETURN 0; END $$"
        )
    # Then they are content
    theirs._database.tidy()
    theirs.close()
