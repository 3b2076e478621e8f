"""What one token asks for takes its own share of a server: others are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from stayer.core import limits
from stayer.core.model import Event, LogPiece, Report
from stayer.http import static
from stayer.http.limits import Limits, Requests
from stayer.http.problem import Problem
from stayer.http.route import Call
from stayer.http.service import STORE_THREADS, Service, Settings
from stayer.http.session import by_token
from stayer.http.streams import EventFilter, EventsQuery
from stayer.http.token_places import TokenFile
from stayer.http.token_records import Token
from stayer.http.tokens import Access
from stayer.service.control import logs
from stayer.store import Store
from stayer.stores.sql.store import SqlStore
from tests.contract.builders import PATIENCE, beat, get, new, register, started, submit
from tests.faults.fleet import until
from tests.http.serving import Site, log_in, served_here


def test_a_token_has_its_turns_and_no_more() -> None:
    requests = Requests(Limits(requests_by_token=3), at_once=2)
    inside: list[str] = []

    async def ask(token: str, over: asyncio.Event) -> None:
        async with requests.turn(token):
            inside.append(token)
            await over.wait()

    async def crowd() -> None:
        over = asyncio.Event()
        asking = [asyncio.ensure_future(ask("a", over)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="at once"):
            await ask("a", over)
        asking.append(asyncio.ensure_future(ask("b", over)))
        await asyncio.sleep(0)
        assert inside == ["a", "a", "b"]
        over.set()
        await asyncio.gather(*asking)
        assert sorted(inside) == ["a", "a", "a", "b"]
        await ask("a", over)

    asyncio.run(crowd())
    assert not requests._waiting
    assert not requests._turns


def test_who_asks_for_much_keeps_nobody_from_the_store(tmp_path: Path, store: Store) -> None:
    """More requests of one token wait for the store than there are threads to ask it."""
    access = Access(TokenFile(tmp_path / "access.json"))
    one, other = (by_token(_token(access, name)) for name in ("one", "other"))
    over = threading.Event()

    async def crowd() -> None:
        service = Service(store, access, Settings())
        asked = [
            asyncio.ensure_future(service.ask(one, over.wait)) for _ in range(STORE_THREADS * 2)
        ]
        try:
            assert await asyncio.wait_for(service.ask(other, store.last_event), PATIENCE) == 0
            assert not any(each.done() for each in asked)
        finally:
            over.set()
        assert all(await asyncio.gather(*asked))
        service.close()

    asyncio.run(crowd())


def test_who_reads_old_events_keeps_nobody_from_the_store(
    tmp_path: Path, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More streams of one token begin far behind than there are threads to ask for it."""
    submit(store, *(new(f"t{number}") for number in range(5)))
    over = threading.Event()
    asking, real = 0, SqlStore.watch

    def held(self: SqlStore, since: int, timeout: float, limit: int) -> list[Event]:
        nonlocal asking
        if not timeout:  # the thread that watches for all has one
            asking += 1
            over.wait(PATIENCE)
        return real(self, since, timeout, limit)

    monkeypatch.setattr(SqlStore, "watch", held)
    with served_here(tmp_path, url) as site, ExitStack() as opened:
        streams = [
            opened.enter_context(site.stream("/v1/events?since=0"))
            for _ in range(STORE_THREADS + 1)
        ]
        for stream in streams:
            stream.until_id()
        until(lambda: asking >= STORE_THREADS // 2, "for some of them to ask")
        try:
            assert site("GET", "/v1/tasks/t1", role="operate").status == 200
            assert asking == STORE_THREADS // 2
        finally:
            over.set()
        for stream in streams:
            message = stream.message()
            assert message is not None
            assert message.data["id"] == "t0"


def test_what_events_are_wanted_is_looked_up_not_searched_for() -> None:
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = tuple(f"t{number}" for number in range(2000))
    filter = EventFilter(EventsQuery(id=names, queue=names))
    found = [
        Event(number=number, at=0.0, id=Counted(f"t{number}"), queue=Counted("t7"), event="pending")
        for number in range(500)
    ]
    assert len(filter.select(found)) == 500
    assert compared <= 4 * len(found)


def _token(access: Access, name: str) -> Token:
    access.add(name, "read")
    return next(each for each in access.tokens() if each.name == name)


@pytest.mark.parametrize("lines", [1, 2, 3, 1000, 999_999, 1_000_000, 1_000_001, 2**31])
def test_a_tail_of_a_log_of_newlines_is_counted_not_walked(lines: int) -> None:
    """A million newlines in four pieces; nobody goes from one to the next."""

    class Counted(bytes):
        def rfind(self, *_: object) -> int:
            raise AssertionError("walked")

        find = index = rindex = rfind

    pieces = [LogPiece(each * 250_000, Counted(b"\n" * 250_000)) for each in range(4)]
    found = logs.beginning_of_tail(pieces, lines)
    assert found == max(0, 1_000_000 - lines)


def test_a_tail_over_http(site: Site, store: Store) -> None:
    known = register(store)
    task = started(store, id="a")
    log = (LogPiece(0, b"one\ntwo\nthree\n"),)
    beat(store, known, 2, Report(id=task.id, attempt=task.attempt, log=log))
    for lines, text in ((1, b"three\n"), (2, b"two\nthree\n"), (9, b"one\ntwo\nthree\n")):
        assert site("GET", f"/v1/tasks/a/log?tail={lines}").body == text
    assert get(store, "a").state == "started"


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/flows", "/v1/schedules"])
def test_a_body_of_very_many_values_is_refused_unread(site: Site, path: str) -> None:
    body = b'{"name":"n","parameters":[' + b"[]," * 1_100_000 + b"0]}"
    reply = site("POST", path, body)
    reply.is_problem(413, "body-too-large", "2,000,000 values")


def test_a_task_that_is_written_too_long_is_refused_unread(site: Site) -> None:
    """Its parameters are not read, only to be found too large."""
    body = b'{"name":"n","parameters":"' + b"a" * limits.WRITTEN + b'"}'
    reply = site("POST", "/v1/tasks", body)
    reply.is_problem(413, "too-large", "6.4 MB")


def test_files_that_anybody_asks_for_keep_nobody_from_logging_in(
    tmp_path: Path, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places of those who are not known are taken by files of the page that don't get done."""
    over = threading.Event()
    real = static.Folder.answer

    def slow(folder: static.Folder, name: str, request: Request) -> Response:
        over.wait(PATIENCE)
        return real(folder, name, request)

    monkeypatch.setattr(static.Folder, "answer", slow)
    settings = Limits(requests_by_token=2)
    with (
        served_here(tmp_path, url, limits=settings) as site,
        ThreadPoolExecutor(3) as pool,
    ):
        asked = [pool.submit(site, "GET", "/ui/main.js", role=None) for _ in range(3)]
        try:
            until(lambda: any(each.done() for each in asked), "for one to find no place")
            assert log_in(site).page
        finally:
            over.set()
        assert sorted(each.result().status for each in asked) == [200, 200, 503]


def test_who_tries_to_log_in_keeps_others_from_nothing() -> None:
    def account(method: str, address: str) -> str:
        scope = {"method": method, "client": (address, 1)}
        return Call(None, scope, {}, None, {}, None, None, None)._anonymous()  # type: ignore[arg-type]

    assert account("GET", "192.0.2.1") == account("HEAD", "192.0.2.2") == ""
    assert account("POST", "192.0.2.1") != account("POST", "192.0.2.2")
    assert account("POST", "2001:db8::1") == account("POST", "2001:db8::2")
