"""Events and logs as they come, and going on after a break."""

from __future__ import annotations

import threading

import pytest

from stayer.core.happenings import Done, Interrupt
from stayer.core.model import LogPiece, Report
from stayer.http import events, streams
from stayer.http.log import _decode_whole_characters
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import apply, beat, fill, new, started, submit, take_one
from tests.faults.fleet import until
from tests.http.serving import Process, Site, Stream


def ids_of(stream: Stream, number: int) -> list[tuple[str, str]]:
    found = []
    for _ in range(number):
        message = stream.message()
        assert message is not None
        found.append((message.data["id"], message.data["event"]))
    return found


def test_what_happens_is_told_as_it_happens(site: Site, store: Store) -> None:
    submit(store, new("before"))
    with site.stream("/v1/events") as stream:
        begun = stream.until_id()
        assert int(begun) == store.last_event()
        submit(store, new("a"))
        control.cancel(store, "a")
        assert ids_of(stream, 2) == [("a", "pending"), ("a", "cancelled")]
        assert stream.id == str(store.last_event())


def test_a_stream_goes_on_where_it_broke_off(site: Site, store: Store) -> None:
    with site.stream("/v1/events") as stream:
        stream.until_id()
        submit(store, new("a"))
        ids_of(stream, 1)
        last = stream.id
    assert last is not None
    missed = fill(store, 700)  # more than is read at a time

    with site.stream("/v1/events", Last_Event_ID=last) as stream:
        assert ids_of(stream, 700) == [(id, "pending") for id in missed]
        submit(store, new("b"))
        assert ids_of(stream, 1) == [("b", "pending")]


def test_a_client_that_is_far_behind_misses_nothing(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RING_EVENTS", 10)
    with site.stream("/v1/events") as stream:
        stream.until_id()
        ids = [id for _ in range(5) for id in fill(store, 40)]
        assert ids_of(stream, 200) == [(id, "pending") for id in ids]


def test_events_are_filtered(site: Site, store: Store) -> None:
    with (
        site.stream("/v1/events?queue=other") as of_queue,
        site.stream("/v1/events?id=b&id=c") as of_tasks,
    ):
        of_queue.until_id()
        of_tasks.until_id()
        submit(store, new("a"), new("b"), new("c", queue="other"))
        assert ids_of(of_queue, 1) == [("c", "pending")]
        assert ids_of(of_tasks, 2) == [("b", "pending"), ("c", "pending")]


def test_a_number_of_another_store_means_from_now_on(site: Site, store: Store) -> None:
    with site.stream("/v1/events", Last_Event_ID="999999") as stream:
        assert stream.until_id() == "0"
        submit(store, new("a"))
        assert ids_of(stream, 1) == [("a", "pending")]
    site("GET", "/v1/events", Last_Event_ID="x").is_problem(400, "bad-input", "Last-Event-ID")


def test_one_thread_watches_for_all(site: Site, store: Store) -> None:
    def watchers() -> int:
        return sum(thread.name == "watch" for thread in threading.enumerate())

    until(lambda: not watchers(), "for the threads of servers before this one to end")
    with site.stream("/v1/events") as first, site.stream("/v1/events") as second:
        first.until_id()
        second.until_id()
        assert watchers() == 1
        submit(store, new("a"))
        assert ids_of(first, 1) == ids_of(second, 1)


def test_a_silent_stream_is_alive(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    with site.stream("/v1/events?queue=none") as stream:
        stream.until_id()
        stream.id = None
        submit(store, new("a"))
        while stream.until_id() != str(store.last_event()):  # moves on past what is not wanted
            stream.id = None


def test_a_stream_is_alive_though_others_are_busy(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.5)
    busy = threading.Event()

    def work() -> None:
        while not busy.wait(0.01):
            fill(store, 1)

    worker = threading.Thread(target=work)
    with site.stream("/v1/events?queue=none") as stream:
        stream.until_id()
        stream.id = None
        worker.start()
        try:
            stream.until_id()
        finally:
            busy.set()
            worker.join()


def test_a_stream_ends_with_the_token_that_opened_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    with site.stream("/v1/events") as stream:
        stream.until_id()
        site.access.remove("the read token")
        assert stream.message() is None


def test_programs_wait_for_the_next_events(site: Site, store: Store) -> None:
    submit(store, new("a"))

    def ask(query: str) -> tuple[list[str], int]:
        found = site("GET", f"/v1/events?{query}", Accept="application/json").json
        return [event["id"] for event in found["events"]], found["next"]

    assert ask("since=0") == (["a"], 1)
    assert ask("since=1") == ([], 1)
    assert ask("since=1&wait=50ms") == ([], 1)
    assert ask("wait=50ms") == ([], 1)
    answers: list[tuple[list[str], int]] = []
    waiting = threading.Thread(target=lambda: answers.append(ask("since=1&wait=60s&id=c")))
    waiting.start()
    submit(store, new("b"))
    submit(store, new("c"))
    waiting.join()
    assert answers == [(["c"], 3)]


def test_a_result_is_waited_for(site: Site, store: Store, worker: str) -> None:
    task = started(store, id="t")
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(site("GET", "/v1/tasks/t/result?wait=60s"))
    )
    waiting.start()
    apply(store, task, Done({"answer": 42}))
    waiting.join()
    assert answers[0].json == {"answer": 42}


def write(store: Store, number: int, attempt: int, start: int, data: bytes) -> None:
    pieces = (LogPiece(start, data),)
    beat(store, "w", number, Report(id="t", attempt=attempt, log=pieces))


def test_a_log_is_text(site: Site, store: Store, worker: str) -> None:
    started(store, id="t")
    write(store, 2, 1, 0, b"one\ntwo\nthree\n")
    assert site("GET", "/v1/tasks/t/log").body == b"one\ntwo\nthree\n"
    assert site("GET", "/v1/tasks/t/log").headers["content-type"] == "text/plain; charset=utf-8"
    assert site("GET", "/v1/tasks/t/log?start=4").body == b"two\nthree\n"
    assert site("GET", "/v1/tasks/t/log?start=4&limit=3").body == b"two"
    assert site("GET", "/v1/tasks/t/log?tail=2").body == b"two\nthree\n"
    assert site("GET", "/v1/tasks/t/log?tail=9&attempt=1").body == b"one\ntwo\nthree\n"
    write(store, 3, 1, 100, b"far\n")
    left_out = "\n… 86 bytes left out …\n".encode()
    assert site("GET", "/v1/tasks/t/log?start=8").body == b"three\n" + left_out + b"far\n"
    pieces = site("GET", "/v1/tasks/t/log/pieces?start=8").json
    assert ([piece["start"] for piece in pieces["pieces"]], pieces["next"]) == ([8, 100], 104)


def test_a_log_is_followed_into_the_next_attempt(site: Site, store: Store, worker: str) -> None:
    task = started(store, id="t")
    write(store, 2, 1, 0, b"one\n")
    with site.stream("/v1/tasks/t/log?follow") as stream:
        first = stream.message()
        assert first is not None
        assert first.data == {"attempt": 1, "start": 0, "text": "one\n"}
        assert beat(store, "w", 3).watched
        write(store, 4, 1, 4, "zw\N{LATIN SMALL LETTER O WITH DIAERESIS}"[:3].encode()[:3])
        write(store, 5, 1, 7, b"\xb6lf\n")
        texts = ""
        while not texts.endswith("\n"):
            message = stream.message()
            assert message is not None
            texts += message.data["text"]
        assert texts == "zwölf\n"
        apply(store, task, Interrupt())
        again = take_one(store)
        write(store, 6, 2, 0, b"two\n")
        second = stream.message()
        assert second is not None
        assert second.data == {"attempt": 2, "start": 0, "text": "two\n"}
        assert second.id == "2:4"
        apply(store, again, Done())
        end = stream.message()
        assert end is not None
        assert (end.event, end.data["state"]) == ("end", "complete")
        assert stream.message() is None

    with site.stream("/v1/tasks/t/log?follow", Last_Event_ID="1:4") as stream:
        rest = [stream.message() for _ in range(3)]
        assert [message.data.get("text") for message in rest if message] == [
            "zwölf\n",
            "two\n",
            None,
        ]
    with site.stream("/v1/tasks/t/log?follow&attempt=1") as stream:
        texts = ""
        while (message := stream.message()) and message.event == "log":
            texts += message.data["text"]
        assert texts == "one\nzwölf\n"


@pytest.mark.parametrize(
    ("data", "final", "text", "length"),
    [
        ("aö".encode(), False, "aö", 3),
        ("aö".encode()[:2], False, "a", 1),
        ("aö".encode()[:2], True, "a\ufffd", 2),
        ("☃".encode()[:2], False, "", 0),
        ("\U0001f40c".encode()[:3], False, "", 0),
        ("\U0001f40c".encode(), False, "\U0001f40c", 4),
        (b"a\x80\x80\x80\x80\x80", False, "a" + 5 * "\ufffd", 6),
        (b"", False, "", 0),
    ],
)
def test_a_letter_is_never_cut_in_two(data: bytes, final: bool, text: str, length: int) -> None:
    assert _decode_whole_characters(data, final=final) == (text, length)


def test_a_server_with_open_streams_ends_at_once(process: tuple[Process, Site]) -> None:
    server, site = process
    with site.stream("/v1/events") as stream:
        stream.until_id()
        server.process.terminate()
        assert stream.message() is None
    assert server.stop() == -15
    assert "Cancel" not in server.log.read_text()
    assert "Traceback" not in server.log.read_text()
