"""Notices over HTTP, and through a store that is a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault
from stayer.core.notify.notices import Delivery
from stayer.service.control import notices as notice_control
from stayer.service.operator import operator_of
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import apply, get, new, started, submit
from tests.http.serving import Site


@pytest.fixture
def remote(site: Site) -> Iterator[Store]:
    with closing(open_store(site.url, token=site.tokens["operate"])) as store:
        yield store


def test_a_task_is_submitted_with_hooks(site: Site, store: Store) -> None:
    answer = site("POST", "/v1/tasks", {"id": "t", "queue": "q", "notify": ["mail", "oom:chat"]})
    assert answer.json["notify"] == ["ended:mail", "oom:chat"]
    assert get(store, "t").notify == ("ended:mail", "oom:chat")
    bad = {"queue": "q", "notify": ["gone:mail"]}
    site("POST", "/v1/tasks", bad).is_problem(400, "bad-input", "gone", "expired")
    bad = {"queue": "q", "notify": ["https://me:pw@a.example/"]}
    assert "pw" not in str(site("POST", "/v1/tasks", bad).json)


def test_a_task_and_a_queue_get_others(site: Site, store: Store) -> None:
    submit(store, new("t"))
    changed = site("PATCH", "/v1/tasks/t", {"notify": ["failed:mail"]})
    assert changed.json["notify"] == ["failed:mail"]
    assert site("PATCH", "/v1/tasks/t", {"notify": []}).json["notify"] == []
    assert site("PATCH", "/v1/queues/q", {"notify": ["mail"]}).json["notify"] == ["ended:mail"]
    assert site("GET", "/v1/queues/q").json["notify"] == ["ended:mail"]
    assert site("PATCH", "/v1/queues/q", {"notify": None}).json["notify"] == []
    site("PATCH", "/v1/queues/q", {"notify": ["x y"]}).is_problem(400, "bad-input", "name")


@pytest.mark.usefixtures("worker")
def test_notices_are_listed_retried_and_dropped(site: Site, store: Store) -> None:
    apply(store, started(store, id="a", notify=("ended:mail",)), Done())
    apply(store, started(store, id="b", notify=("ended:mail",)), Fail(Fault("E")))
    one, two = store.take_notices(["mail"], 10, 60, 86400)
    store.settle_notice(one, Delivery(True, "200 OK"))
    store.settle_notice(two, Delivery(False, "410 Gone"))

    page = site("GET", "/v1/notices?limit=1").json
    rest = site("GET", f"/v1/notices?limit=1&cursor={page['next']}").json
    shown = page["notices"] + rest["notices"]
    assert sorted(each["id"] for each in shown) == sorted([one.id, two.id])
    assert rest["next"] is None
    assert "record" not in shown[0]
    [failed] = site("GET", "/v1/notices?state=failed").json["notices"]
    assert (failed["task"], failed["said"], failed["tries"]) == (two.task, "410 Gone", 1)
    assert site("GET", f"/v1/notices?task={two.task}").json["notices"] == [failed]
    assert site("GET", f"/v1/tasks/{two.task}/notices").json["notices"] == [failed]
    site("GET", "/v1/tasks/nobody/notices").is_problem(404, "unknown-task")

    body = {"ids": [one.id, two.id]}
    assert site("POST", "/v1/notices/retry", body, role="operate").json == {"notices": 1}
    assert site("POST", "/v1/notices/drop", body, role="operate").json == {"notices": 2}
    assert site("GET", "/v1/notices").json == {"notices": [], "next": None}
    site("POST", "/v1/notices/drop", body, role="read").is_problem(403, "forbidden")
    site("POST", "/v1/notices/drop", {"ids": []}).is_problem(400, "bad-input")


@pytest.mark.usefixtures("worker")
def test_a_store_that_is_a_server_does_the_same(store: Store, remote: Store) -> None:
    remote.set_queue("q", notify=("ended:chat",))
    assert remote.queues(["q"])[0].notify == ("ended:chat",)
    submit(remote, new("waits", notify=("failed:mail",)))
    assert operator_of(remote).set("waits", notify=["chat"]).notify == ("ended:chat",)
    operator_of(remote).cancel("waits")
    apply(store, started(store, id="a"), Done())
    found = list(notice_control.find_all(remote))
    assert {(each.task, each.event, each.to) for each in found} == {
        ("waits", "cancelled", "chat"),
        ("a", "complete", "chat"),
    }
    assert found[0].at > 1e9
    [notice] = store.take_notices(["chat"], 1, 60, 86400)
    store.settle_notice(notice, Delivery(False, "no"))
    assert [each.id for each in notice_control.find_all(remote, state="failed")] == [notice.id]
    assert notice_control.retry(remote, [notice.id]) == 1
    assert notice_control.drop(remote, [each.id for each in found]) == 2
    assert remote.take_notices(["chat"], 1, 60, 86400) == [], "the server delivers them"
