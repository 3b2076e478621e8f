"""Tasks of which nobody knows whether they were accepted: to submit them again makes none twice."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stayer import Client, Flow
from stayer.core.errors import StoreUnreachable, StoreUnusable
from stayer.core.model import Filter, NewTask
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.pack import tasks as submitting
from tests.cli.running import Here
from tests.contract.builders import ids, new
from tests.http.serving import served_here
from tests.servers.redis import RedisServer, free_port

CHUNK = 1000
Starts = Callable[..., RedisServer]
Full = Callable[[int], None]


@pytest.fixture
def url(shared_server: RedisServer) -> str:
    """Nobody is there who could confirm."""
    return f"{shared_server.url()}&wait=1&wait_timeout=50ms"


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    """The same, which need not be confirmed."""
    store = open_store(unconfirmed(url))
    assert isinstance(store, RedisStore)
    store.setup()
    yield store
    store._server.ask("CONFIG", "SET", "maxmemory", 0)
    store.close()


@pytest.fixture
def stayer(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Here({"STAYER_STORE": url, "HOME": str(tmp_path), "USER": "ann"})


@pytest.fixture
def full_at(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> Full:
    """Lets the memory be full before a part is sent, counted from the beginning."""

    def let(wanted: int) -> None:
        count = 0

        def packed_parts(tasks: Sequence[NewTask], parts: Sequence[slice]) -> Iterator[list[Any]]:
            nonlocal count
            for part in submitting.pack_parts(tasks, parts):
                if count == wanted:
                    store._server.ask("CONFIG", "SET", "maxmemory", 1)
                count += 1
                yield part

        monkeypatch.setattr("stayer.stores.redis.pack_parts", packed_parts)

    return let


def unconfirmed(url: str) -> str:
    return url.partition("&wait")[0]


def everything(store: RedisStore) -> list[str]:
    return ids(store.find(Filter(), None, 100_000).tasks)


@pytest.mark.parametrize("verb", ["add", "run"])
def test_the_id_that_was_drawn_is_said(stayer: Here, store: RedisStore, verb: str) -> None:
    done = stayer(verb, "--", "true")
    done.refuses("may be there as", code=4)
    [id] = re.findall("the same with --id ([a-z2-7]{16}) submits it again", done.err)
    stayer(verb, "--id", id, "--", "true").refuses("confirmed it", code=4)
    assert everything(store) == [id]


def test_one_that_somebody_chose_is_known(stayer: Here) -> None:
    done = stayer("add", "--id", "mine", "--", "true")
    done.refuses("under the same id", code=4)
    assert "may be there" not in done.err


def test_a_server_that_was_never_asked_has_done_nothing(stayer: Here) -> None:
    done = stayer("--store", f"redis://127.0.0.1:{free_port()}", "add", "--", "true")
    done.refuses("can't be reached", code=4)
    assert "may be there" not in done.err


def test_in_python_the_error_has_them(url: str, store: RedisStore) -> None:
    with Client(url) as client:
        queue = client.get_queue("q")
        with pytest.raises(StoreUnreachable, match="It may be there as ") as one:
            queue.enqueue({})
        assert (one.value.unsure, one.value.drawn) == (True, tuple(everything(store)))
        with pytest.raises(StoreUnreachable, match="some of the 300 after them may have") as many:
            queue.enqueue_many(range(300))
    assert {*one.value.drawn, *many.value.drawn} == set(everything(store))
    assert len(many.value.drawn) == 300


def test_so_is_that_of_a_flow(url: str, store: RedisStore) -> None:
    flow = Flow("nightly")
    flow.add(command=["true"])
    with Client(url) as client, pytest.raises(StoreUnreachable) as refused:
        client.submit(flow)
    [found] = store.flows(None, 9).flows
    assert f"It may be there as {found.id}" in str(refused.value)


def test_over_http_too(tmp_path: Path, url: str, store: RedisStore) -> None:
    with served_here(tmp_path, url) as site:
        one = site("POST", "/v1/tasks", body={"queue": "q"})
        assert one.status == 503
        [id] = everything(store)
        assert (one.json["unsure"], one.json["drawn"]) == (True, [id])
        assert f"may be there as {id}" in one.json["detail"]
        several = site("POST", "/v1/tasks", body={"tasks": [{"queue": "q"}, {"queue": "q"}]})
        assert {id, *several.json["drawn"]} == set(everything(store))


class TestManyLines:
    """`add --jsonl`, when the memory is full in the midst of it."""

    @pytest.fixture
    def lines(self, tmp_path: Path) -> Path:
        path = tmp_path / "tasks.jsonl"
        said = (json.dumps({"queue": "q", "parameters": {"n": n}}) for n in range(2500))
        path.write_text("".join(f"{line}\n" for line in said))
        return path

    @pytest.mark.parametrize("full", [8, 10])
    def test_what_is_in_doubt_can_be_submitted_again(
        self, stayer: Here, store: RedisStore, lines: Path, full_at: Full, full: int
    ) -> None:
        # Given a memory that is full within the second thousand
        full_at(full)

        # When all are submitted
        plain = {"STAYER_STORE": unconfirmed(stayer.environment["STAYER_STORE"])}
        done = stayer("add", "--jsonl", str(lines), **plain)

        # Then those that were accepted are printed, and the others can be, none twice
        assert (done.code, len(done.lines)) == (2, CHUNK)
        assert "nothing was changed" not in done.err
        assert "1,000 tasks were accepted; lines 1,001 to 2,000 may have been" in done.err
        [path] = re.findall(r"the same with --jsonl (\S+) submits them again", done.err)
        assert len(everything(store)) > CHUNK
        store._server.ask("CONFIG", "SET", "maxmemory", 0)
        again = stayer("add", "--jsonl", path, **plain)
        assert again.code == 0
        rest = tuple(lines.read_text().splitlines(keepends=True)[2 * CHUNK :])
        assert "go on with line 2,001" in done.err
        stayer("add", "--jsonl", "-", input="".join(rest), **plain).works()
        found = store.find(Filter(), None, 100_000).tasks
        assert Counter(str(task.parameters) for task in found) == Counter(
            str({"n": n}) for n in range(2500)
        )

    def test_those_before_were_accepted_though_nothing_else_was(
        self, stayer: Here, store: RedisStore, lines: Path, full_at: Full
    ) -> None:
        full_at(7)
        done = stayer("--store", unconfirmed(store.url), "add", "--jsonl", str(lines))
        assert done.code == 2
        assert "nothing was changed" not in done.err
        assert "(the first 1,000 tasks were accepted, the rest was not)" in done.err
        assert done.lines == everything(store)[::-1]

    def test_what_is_not_is_said_to_be_not_accepted(
        self, stayer: Here, store: RedisStore, lines: Path
    ) -> None:
        store._server.ask("CONFIG", "SET", "maxmemory", 1)
        done = stayer("add", "--jsonl", str(lines))
        done.refuses("no memory left: nothing was changed", "(nothing was accepted)")
        assert everything(store) == []


def test_a_part_may_be_accepted_after_one_that_was_not(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed_parts(tasks: Sequence[NewTask], parts: Sequence[slice]) -> Iterator[list[Any]]:
        for number, part in enumerate(submitting.pack_parts(tasks, parts)):
            time.sleep(0.1)  # for the one before to be refused
            store._server.ask("CONFIG", "SET", "maxmemory", 1 if number == 0 else 0)
            yield part

    monkeypatch.setattr("stayer.stores.redis.pack_parts", packed_parts)
    with pytest.raises(StoreUnusable, match="tasks that were sent together some were") as refused:
        store.submit([new() for _ in range(300)])
    assert refused.value.unsure
    assert "nothing was changed" not in str(refused.value)
    assert everything(store)
