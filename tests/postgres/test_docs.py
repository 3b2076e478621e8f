"""What the page about PostgreSQL shows works."""

from __future__ import annotations

import psycopg

from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import counts
from tests.docs.pages import blocks
from tests.servers.postgres import PostgresServer

PAGE = blocks("how-to/use-postgresql.md")


def test_the_rights_that_are_named_can_be_given(server: PostgresServer) -> None:
    [rights, _] = [block.code for block in PAGE if block.language == "sql"]
    with psycopg.connect(server.conninfo) as connection:
        connection.execute(rights)
        connection.rollback()


def test_rows_are_inserted_and_deleted(
    server: PostgresServer, store: PostgresStore, schema: str
) -> None:
    [_, by_hand] = [block.code for block in PAGE if block.language == "sql"]
    insert, delete = by_hand.replace("jobs.", f"{schema}.").splitlines()
    server.psql(insert)
    assert counts(store, "encode") == {"pending": 1}
    server.psql(delete)
    assert counts(store, "encode") == {}


def test_an_order_and_its_task_come_together(
    server: PostgresServer, store: PostgresStore, hand: psycopg.Connection, url: str
) -> None:
    [code] = [block.code for block in PAGE if block.title == "order.py"]
    hand.execute("CREATE TABLE IF NOT EXISTS public.orders (item text)")
    shown = '"postgresql://stayer@db.example.com/shop?schema=jobs"'
    assert shown in code
    theirs = server.conninfo + "&options=-csearch_path%3Dpublic"
    code = code.replace(shown, repr(url)).replace('url.partition("?")[0]', repr(theirs))
    exec(compile(code, "order.py", "exec"), {})
    assert hand.execute("SELECT count(*) FROM public.orders").fetchone() == (1,)
    assert counts(store, "invoices") == {"pending": 1}
