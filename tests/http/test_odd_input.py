"""What no client of ours sends: each is answered with what is wrong, and nothing is told of the
machine.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from stayer.core import errors
from stayer.http import pages, queues
from stayer.http.problem import response
from stayer.store import Store
from tests.contract.builders import new, started, submit
from tests.http.serving import Site, served_here

DEEP = 100_000
NESTED = {
    "lists": b"[" * DEEP,
    "closed lists": b"[" * DEEP + b"]" * DEEP,
    "objects": b'{"a":' * DEEP,
    "tasks": b'{"tasks":' + b"[" * DEEP,
    "closed tasks": b'{"tasks":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "parameters": b'{"parameters":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "a flow": b'{"laid_out":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "a flow's parts": b'{"name":"x","id":"x","parts":[],"laid_out":[{"parameters":'
    + b"[" * DEEP + b"]" * DEEP + b"}]}",
    "a schedule": b'{"name":"x","cron":"@daily","task":{"parameters":'
    + b"[" * DEEP + b"]" * DEEP + b"}}",
    "a list of lists": b'[{"parameters":' + b"[" * DEEP + b"]" * DEEP + b"}]",
}  # fmt: skip
BODIES = (
    "POST /v1/tasks", "POST /v1/flows", "POST /v1/schedules", "PATCH /v1/tasks/t",
    "PATCH /v1/queues/q", "POST /v1/tasks/t/cancel", "POST /v1/tasks/purge",
    "POST /v1/notices/retry", "POST /v1/workers/attend",
)  # fmt: skip


@pytest.mark.parametrize("what", NESTED)
def test_deep_nesting_is_bad_input(site: Site, store: Store, what: str) -> None:
    submit(store, new("t"))
    for route in BODIES:
        method, _, path = route.partition(" ")
        reply = site(method, path, NESTED[what])
        assert 400 <= reply.status < 500, (route, reply)
        assert reply.json["type"].startswith("urn:stayer:problem:")


def test_a_value_that_is_accepted_can_be_read_again(site: Site) -> None:
    """However deep it may be, one task must not keep others from being listed."""
    made = 0
    for depth in (10, 100, 300, 500, 700, 800, 850, 900, 925, 950, 975, 990, 1000):
        body = b'{"id":"d%d","parameters":%b}' % (depth, b"[" * depth + b"]" * depth)
        made += site("POST", "/v1/tasks", body).status == 201
    assert made >= 2
    listed = site("GET", "/v1/tasks?limit=100")
    assert listed.status == 200
    assert len(listed.json["tasks"]) == made
    for task in listed.json["tasks"]:
        assert site("GET", f"/v1/tasks/{task['id']}").status == 200


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/tasks/runs/log?follow", {"Last_Event_ID": "1:" + "9" * 32}),
        ("/v1/tasks/runs/log?follow", {"Last_Event_ID": "9" * 17 + ":1"}),
        ("/v1/tasks/runs/log?follow", {"Last_Event_ID": "1:²"}),
        ("/v1/events", {"Last_Event_ID": "9" * 18}),
        ("/v1/events", {"Last_Event_ID": DIGITS}),
        ("/v1/events", {"Last_Event_ID": "²"}),
        *((f"/v1/tasks?cursor={quote(word)}", {}) for word in (
            "9" * 400, "1:" + "9" * 400, "1e999:1", "nan:1", "inf:1", "-1:-1", "\x00", "ü", "1:1:1",
            "1:" + DIGITS, DIGITS, "a" * 20_000,
        )),
        *((f"/v1/flows?cursor={quote(word)}", {}) for word in ("9" * 400, DIGITS, "x", "\x00")),
        *((f"/v1/notices?cursor={quote(word)}", {}) for word in ("9" * 400, DIGITS, "x", "\x00")),
        *((f"/v1/{path}={word}", {}) for word in (DIGITS, "-1", "1e999", "nan") for path in (
            "tasks?limit", "events?since", "tasks/runs/log?start", "tasks/runs/log?tail",
            "tasks/runs/log/pieces?attempt", "tasks/runs/usage?attempt", "queues/q/peek?limit",
        )),
        *((f"/v1/tasks?{name}={word}", {}) for name in ("since", "until") for word in (
            DIGITS, DIGITS + "d", "1e999", "nan", "-inf", "9" * 400 + "h",
        )),
        *((f"/v1/stats?since={word}", {}) for word in (DIGITS, DIGITS + "d", "1e999", "nan")),
    ],
)  # fmt: skip
def test_odd_numbers_and_cursors_are_bad_input(
    odd: Site, path: str, headers: dict[str, Any]
) -> None:
    headers = {name: word.encode().decode("latin-1") for name, word in headers.items()}
    headers["Accept"] = "text/event-stream" if headers else "application/json"
    odd("GET", path, **headers).is_problem(400, "bad-input")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from stayer.stores import open_store
    from tests.contract.builders import register

    folder = tmp_path_factory.mktemp("odd")
    url = f"sqlite:///{folder}/stayer.db"
    store = open_store(url)
    store.setup()
    register(store)
    started(store, id="runs")
    store.close()
    with served_here(folder, url) as site:
        yield site


@pytest.mark.parametrize("body", [None, b"", b"  \n"])
@pytest.mark.parametrize(
    "route", ["PATCH /v1/queues/made", "PATCH /v1/tasks/t", "POST /v1/tasks", "POST /v1/flows"]
)
def test_a_body_that_is_needed_has_to_be_there(
    site: Site, store: Store, route: str, body: bytes | None
) -> None:
    submit(store, new("t"))
    method, _, path = route.partition(" ")
    site(method, path, body).is_problem(400, "bad-input", "empty")
    assert store.queues(["made"]) == []


def test_a_database_that_fails_does_not_say_where_it_is(
    site: Site, store: Store, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "stayer.db") as other:
        other.execute("DROP TABLE stayer_events")
    answers = [site("GET", path) for path in ("/v1/events?since=0", "/v1/clock", "/v1/stats")]
    for answer in answers:
        said = answer.body.decode()
        assert str(tmp_path) not in said
        assert "stayer.db" not in said
    assert any(answer.status == 503 for answer in answers)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:////data/x/tasks.db", "/data/x/tasks.db has been locked by process 23675"),
        ("sqlite:////d/t.db", "/d/t.db has been locked by process 1 and process 23675: stop it"),
        ("sqlite:///tasks.db", "tasks.db is full"),
        ("sqlite:////a b/t.db", "/a b/t.db can't be opened: Permission denied"),
        ("redis://db.corp:6379/0", "redis://db.corp:6379/0 can't be reached: 10.1.2.3:6379"),
        ("redis://db.corp:6379/0", "redis://db.corp:6379/0: MOVED to db-3.corp:6380"),
        ("redis://h/0", "redis://h/0 can't be reached: [fd00::1]:6379, /run/redis/x.sock"),
    ],
)  # fmt: skip
def test_an_answer_names_no_place_of_the_machine(url: str, said: str) -> None:
    body = response(errors.StoreUnreachable(said), url).body
    shown = bytes(body).decode()
    for place in (
        "/data",
        "tasks.db",
        "/d/",
        "/a b",
        "t.db",
        "23675",
        "10.1.2.3",
        "corp",
        "fd00",
        "/run",
    ):
        assert place not in shown, shown
    assert re.search(r"locked|full|can't be|MOVED", shown)


def test_an_access_file_that_others_may_read_is_not_named(site: Site, tmp_path: Path) -> None:
    Path(site.access.where).chmod(0o644)
    Path(site.access.where).touch()
    reply = site("GET", "/v1/clock")
    reply.is_problem(500, "bad-config", "log")
    assert str(tmp_path) not in reply.body.decode()
    assert "access" not in reply.body.decode()


def test_nobody_is_told_the_version_without_a_token(site: Site) -> None:
    from stayer import __version__

    assert site("GET", "/healthz", role=None).json == {"status": "ok"}
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/", "/login"):
        assert __version__ not in site("GET", path, role=None).body.decode()
    assert site("GET", "/v1/clock").json["version"] == __version__


def test_the_id_of_a_deleted_task_is_refused(site: Site, store: Store) -> None:
    site("POST", "/v1/tasks", {"id": "gone", "queue": "q"})
    site("POST", "/v1/tasks/gone/cancel")
    assert site("DELETE", "/v1/tasks/gone").status == 204

    again = site("POST", "/v1/tasks", {"id": "gone", "queue": "q"})

    again.is_problem(409, "deleted-id", "has been deleted", "choose another")
    site("GET", "/v1/tasks/gone").is_problem(404, "unknown-task")
    many = site("POST", "/v1/tasks", [{"id": "gone", "queue": "q"}, {"id": "fresh", "queue": "q"}])
    assert [(each["fresh"], each.get("purged")) for each in many.json["tasks"]] == [
        (False, True), (True, None),
    ]  # fmt: skip


def test_a_page_of_large_tasks_ends_early(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 100_000)
    monkeypatch.setattr(queues, "PAGE_SIZE", 350_000)
    for number in range(120):
        site("POST", "/v1/tasks", {"id": f"t{number}", "queue": "q", "parameters": "x" * 5000})
    seen, cursor, number_of_pages = [], "", 0
    while cursor is not None:
        page = site("GET", f"/v1/tasks?limit=1000{cursor and '&cursor=' + quote(cursor)}")
        assert len(page.body) < 400_000
        seen += [task["id"] for task in page.json["tasks"]]
        cursor, number_of_pages = page.json["next"], number_of_pages + 1
    assert sorted(seen) == sorted(f"t{number}" for number in range(120))
    assert number_of_pages > 1
    assert 50 < len(site("GET", "/v1/queues/q/peek?limit=1000").json["tasks"]) < 70
    assert len(site("GET", "/v1/tasks?limit=70&brief=true").json["tasks"]) == 70
