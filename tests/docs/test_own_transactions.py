"""The examples of a task within a transaction of SQLAlchemy, Django or PyMySQL, on real servers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import counts
from tests.docs.pages import blocks
from tests.servers import mariadb, postgres
from tests.servers.finding import missing, postgres_binaries

IN_THE_PAGE = "postgresql://stayer@db.example.com/shop?schema=jobs"
ENGINE_IN_THE_PAGE = "postgresql+psycopg://stayer@db.example.com/shop"
FAILING = """
class Failing(Exception): pass
plain = client.get_queue
def get_queue(name):
    queue = plain(name)
    class Then:
        def enqueue(self, *words, **named):
            queue.enqueue(*words, **named)
            raise Failing
    return Then()
client.get_queue = get_queue
try:
    buy("another one")
except Failing:
    pass
"""
"""The same again, with an error behind it."""
DJANGO = """
import pymysql
pymysql.install_as_MySQLdb()
from django.conf import settings
settings.configure(DATABASES={{"default": {0!r}}})
import django
django.setup()
"""


class Shop(NamedTuple):
    """A database with a table of its own, and a store."""

    url: str
    engine: str
    django: dict[str, object]
    ask: Callable[[str], object]


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    if request.param == "postgres":
        with postgres.serving(postgres_binaries()) as pg:
            yield Shop(
                pg.url("jobs"),
                f"postgresql+psycopg:///postgres?host={pg.folder}&user=postgres",
                {
                    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres",
                    "USER": "postgres", "HOST": str(pg.folder),
                },
                pg.psql,
            )  # fmt: skip
        return
    with mariadb.serving(*mariadb.QUICK) as my:
        url = my.url()
        name = url.partition("?")[0].rpartition("/")[2]
        yield Shop(
            url,
            f"mysql+pymysql://root@localhost/{name}?unix_socket={my.socket}",
            {
                "ENGINE": "django.db.backends.mysql", "NAME": name, "USER": "root",
                "OPTIONS": {"unix_socket": my.socket},
            },
            lambda sql: my.sql(sql, name),
        )  # fmt: skip


@pytest.fixture
def store(shop: Shop) -> Iterator[Store]:
    shop.ask("DROP TABLE IF EXISTS orders")
    shop.ask("CREATE TABLE orders (item VARCHAR(100))")
    store = open_store(shop.url)
    store.setup()
    for queue in store.queues():
        store.drop_queue(queue.name, 10)
    yield store
    store.close()


def orders(shop: Shop) -> int:
    found = re.search(r"\d+", str(shop.ask("SELECT count(*) FROM orders")))
    assert found is not None
    return int(found[0])


def example(page: str, title: str) -> str:
    [code] = [block.code for block in blocks(page) if block.title == title]
    return code


def run(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["sqlalchemy", "django"])
def test_an_order_and_its_task_come_together_or_not_at_all(
    shop: Shop, store: Store, package: str
) -> None:
    if find_spec(package) is None:
        missing(package, f"pip install {package}")
    code = example("how-to/submit-in-a-transaction.md", f"with_{package}.py")
    assert IN_THE_PAGE in code
    code = code.replace(IN_THE_PAGE, shop.url).replace(ENGINE_IN_THE_PAGE, shop.engine)
    before = DJANGO.format(shop.django) if package == "django" else ""
    run(before + code + FAILING)
    assert counts(store, "invoices") == {"pending": 1}
    assert orders(shop) == 1


def test_so_it_is_with_pymysql(shop: Shop, store: Store) -> None:
    if shop.url.startswith("postgresql"):
        return  # see tests/postgres/test_docs.py
    code = example("how-to/use-mysql.md", "order.py")
    for shown, meant in (
        ('"mysql://stayer@localhost/shop"', repr(shop.url)),
        (
            'user="stayer", database="shop"',
            f'user="root", database={shop.django["NAME"]!r}, '
            f"unix_socket={shop.url.partition('unix_socket=')[2]!r}",
        ),
    ):
        assert shown in code
        code = code.replace(shown, meant)
    run(code)
    assert counts(store, "invoices") == {"pending": 1}
    assert orders(shop) == 1
