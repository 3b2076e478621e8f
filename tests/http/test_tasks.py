"""Submitting, listing and steering tasks over HTTP."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pytest

from stayer.core import codec
from stayer.core.happenings import Done, Fail
from stayer.core.insight.statistics import Recorder
from stayer.core.model import Fault, Filter, Report, Usage
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import apply, beat, fill, get, new, started, submit
from tests.http.serving import Site


def test_a_task_is_accepted_once(site: Site, store: Store) -> None:
    task = {"id": "t", "queue": "q", "parameters": {"n": 1}, "delay": "10m", "tags": ["x"]}

    first, again = site("POST", "/v1/tasks", task), site("POST", "/v1/tasks", task)

    assert (first.status, first.json["fresh"], first.json["state"]) == (201, True, "scheduled")
    assert (again.status, again.json["fresh"]) == (200, False)
    assert "warning" not in again.json
    assert first.headers["location"] == "/v1/tasks/t"
    assert {**codec.record(get(store, "t")), "fresh": True} == first.json


def test_another_task_with_the_same_id_is_a_warning(site: Site) -> None:
    site("POST", "/v1/tasks", {"id": "t", "parameters": 1})
    other = site("POST", "/v1/tasks", {"id": "t", "parameters": 2})
    assert other.status == 200
    assert "other parameters" in other.json["warning"]
    assert other.json["parameters"] == 1


def test_an_id_is_drawn_and_the_owner_is_who_asks(site: Site) -> None:
    task = site("POST", "/v1/tasks", {}, role="submit").json
    assert len(task["id"]) == 16
    assert (task["queue"], task["owner"]) == ("default", "the submit token")


def test_who_submits_is_the_token_whatever_is_said(site: Site, store: Store) -> None:
    task = site("POST", "/v1/tasks", {"id": "t", "submitted_by": "root@bank"}, role="submit").json
    assert task["submitted_by"].startswith("token the submit token at ")
    clone = site("POST", "/v1/tasks/t/clone", {"submitted_by": "root@bank"}, role="operate").json
    assert clone["submitted_by"].startswith("token the operate token")
    flow = {"name": "f", "id": "f", "tasks": {"part": {"submitted_by": "root@bank"}}}
    site("POST", "/v1/flows", flow)
    assert (get(store, "f.part").submitted_by or "").startswith("token the ")


def test_limits_belong_to_the_task(site: Site, store: Store) -> None:
    limits = {"time_limit": "1h", "memory_limit": "1M", "grace": 5, "fence": "kill", "retries": 2}
    task = site("POST", "/v1/tasks", {"id": "t", **limits}).json
    assert (task["time_limit"], task["memory_limit"], task["grace"]) == (3600.0, 1_000_000, 5.0)
    policy = get(store, "t").policy
    assert (policy.retries, policy.time_limit, policy.fence) == (2, 3600.0, "kill")


@pytest.mark.parametrize("wrap", [lambda tasks: tasks, lambda tasks: {"tasks": tasks}])
def test_many_are_accepted_together(site: Site, store: Store, wrap: Any) -> None:
    submit(store, new("b", queue="default"))
    reply = site("POST", "/v1/tasks", wrap([{"id": "a"}, {"id": "b"}, {"id": "a"}]))
    assert reply.status == 201
    assert [(task["id"], task["fresh"]) for task in reply.json["tasks"]] == [
        ("a", True), ("b", False), ("a", False),
    ]  # fmt: skip
    assert site("POST", "/v1/tasks", wrap([{"id": "b"}])).status == 200
    assert site("POST", "/v1/tasks", wrap([])).json == {"tasks": []}


def test_one_bad_task_and_none_is_accepted(site: Site, store: Store) -> None:
    bad = site("POST", "/v1/tasks", [{"id": "a"}, {"id": "b", "prio": 3}])
    bad.is_problem(400, "bad-input", "task 1", "'prio'", "priority")
    assert store.get(["a"]) == [None]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ["empty"]),
        (b"{", ["JSON"]),
        (b"nonsense", ["JSON"]),
        (b"3", ["object"]),
        (b"null", ["object"]),
        (b'{"queue": 3}', ["queue", "should be text"]),
        (b'{"queue": ""}', ["queue"]),
        (b'{"id": " x"}', ["id", "spaces"]),
        (b'{"id": "-x"}', ["id", "option"]),
        (b'{"id": ".."}', ["id", "folder"]),
        (b'{"env": {"STAYER_DIR": "/"}}', ["STAYER_DIR"]),
        (b'{"delay": "soon"}', ["delay", "12h"]),
        (b'{"eta": "then"}', ["eta", "moment"]),
        (b'{"name": "f", "command": ["x"]}', ["either"]),
        (b'{"time_limit": 0}', ["time_limit 0", "leave it out"]),
        (b'{"parameters": {"base64": "%"}}', ["base64"]),
        (b'{"id": "\xff"}', ["UTF-8"]),
        (b'{"tasks": 3}', ["list of tasks"]),
        (b'{"tasks": [], "id": "x"}', ["'tasks'"]),
        (b"[" * 200, ["list of tasks"]),
    ],
)
def test_a_bad_submission_says_what_is_wrong(site: Site, body: bytes, words: list[str]) -> None:
    site("POST", "/v1/tasks", body).is_problem(400, "bad-input", *words)


def test_bytes_go_in_and_out_as_base64(site: Site, store: Store) -> None:
    form = {"base64": base64.b64encode(b"\x00\xff").decode()}
    assert site("POST", "/v1/tasks", {"id": "t", "parameters": form}).json["parameters"] == form
    assert get(store, "t").parameters == b"\x00\xff"


def test_an_id_may_be_anything_printable(site: Site) -> None:
    for id in ("a/b", "50%", "x?y=1&z#f", "ü☃", "cancel", "%2F", "a b"):
        assert site("POST", "/v1/tasks", {"id": id, "queue": "a/b"}).status == 201
        path = f"/v1/tasks/{quote(id, safe='')}"
        assert site("GET", path).json["id"] == id
        assert site("POST", f"{path}/hold").json["held"] is True
        assert site("GET", f"/v1/tasks?id={quote(id, safe='')}").json["tasks"][0]["id"] == id
    assert site("GET", f"/v1/queues/{quote('a/b', safe='')}").json["name"] == "a/b"


def test_ten_thousand_are_listed_page_by_page(site: Site, store: Store) -> None:
    ids = fill(store, 10_000)
    found: list[str] = []
    path = "/v1/tasks?queue=q&limit=1000"
    cursor = None
    while True:
        page = site("GET", path + (f"&cursor={cursor}" if cursor else "")).json
        found += [task["id"] for task in page["tasks"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == ids[::-1]
    assert len(site("GET", "/v1/tasks").json["tasks"]) == 100


def test_a_filter_chooses(site: Site, store: Store, worker: str) -> None:
    apply(store, started(store, id="failed"), Fail(Fault("E")))
    started(store, id="running")
    submit(store, new("mine", owner="ann", tags=("a", "b"), name="f"), new("held", held=True))
    submit(store, new("other", queue="other"))

    def found(query: str) -> set[str]:
        return {task["id"] for task in site("GET", f"/v1/tasks?{query}").json["tasks"]}

    assert found("state=failed&state=started") == {"failed", "running"}
    assert found("queue=other") == {"other"}
    assert found("queue=none") == set()
    assert found("owner=ann&tag=a&tag=b") == {"mine"}
    assert found("name=f") == {"mine"}
    assert found("held=true") == {"held"}
    assert found("held=false&queue=q") == {"mine", "failed", "running"}
    assert found("prefix=he") == {"held"}
    assert found("worker=w&state=started") == {"running"}
    assert found("since=1h&queue=other") == {"other"}
    assert found("until=1h") == set()
    assert found("since=2020-01-01T00:00:00Z&id=mine&id=held") == {"mine", "held"}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("states=failed", ["'states'", "state"]),
        ("state=over", ["state"]),
        ("limit=0", ["limit"]),
        ("limit=1001", ["limit"]),
        ("limit=x", ["limit"]),
        ("owner=a&owner=b", ["twice"]),
        ("since=never", ["since"]),
        ("cursor=x", ["cursor"]),
        ("held=perhaps", ["held"]),
        ("name=%ff", ["UTF-8"]),
    ],
)
def test_a_bad_query_says_what_is_wrong(site: Site, query: str, words: list[str]) -> None:
    site("GET", f"/v1/tasks?{query}").is_problem(400, "bad-input", *words)


def test_what_is_unchanged_is_not_sent_again(site: Site, store: Store) -> None:
    submit(store, new("t"))
    for path in ("/v1/tasks/t", "/v1/tasks", "/v1/queues"):
        tag = site("GET", path).headers["etag"]
        again = site("GET", path, If_None_Match=tag)
        assert (again.status, again.body) == (304, b"")
    tag = site("GET", "/v1/tasks/t").headers["etag"]
    control.hold(store, "t")
    assert site("GET", "/v1/tasks/t", If_None_Match=tag).status == 200


def test_large_answers_are_compressed(site: Site, store: Store) -> None:
    fill(store, 100)
    reply = site("GET", "/v1/tasks", Accept_Encoding="gzip")
    assert reply.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in site("GET", "/v1/tasks").headers


def test_the_record_comes_with_its_history(site: Site, store: Store, worker: str) -> None:
    task = started(store, id="t")
    usage = Usage(ran=5.0, cpu=2.5, rss=1000)
    recorder = Recorder()
    recorder.add("loss", 0.5, 1.0, 2.0)
    recorder.begin("load", 1.5)
    own = recorder.result()
    report = Report(id="t", attempt=1, usage=usage, statistics=own, checkpoint=b"saved")
    beat(store, worker, 2, report)
    apply(store, task, Done({"answer": 42}))

    shown = site("GET", "/v1/tasks/t").json

    assert [event["event"] for event in shown["events"]] == [
        "pending", "reserved", "started", "complete",
    ]  # fmt: skip
    assert shown["attempts"][0]["ending"] == "done"
    assert site("GET", "/v1/tasks/t/attempts").json["attempts"] == shown["attempts"]
    assert site("GET", "/v1/tasks/t/events").json["events"] == shown["events"]
    [point] = site("GET", "/v1/tasks/t/usage").json["usage"]
    assert (point["ran"], point["cpu"], point["rss"]) == (5.0, 2.5, 1000)
    latest = {"last": 0.5, "min": 0.5, "max": 0.5, "count": 1, "x": 2.0}
    assert shown["metrics"] == {"loss": latest}
    statistics = site("GET", "/v1/tasks/t/statistics").json
    assert statistics["attempt"] == 1
    assert statistics["metrics"] == {"loss": {**latest, "points": [[1.0, 2.0, 0.5]]}}
    assert [step["name"] for step in statistics["steps"]] == ["load"]
    saved = site("GET", "/v1/tasks/t/checkpoint").json
    assert saved["data"] == {"base64": base64.b64encode(b"saved").decode()}
    assert site("GET", "/v1/tasks/t/result").json == {"answer": 42}


def test_the_beginning_of_a_generated_id_is_enough_to_see_it(site: Site, store: Store) -> None:
    ids = ("k7wzqb3m5n2cdxfg", "k7wzqb3m5n2cdxfh")
    for id in (*ids, "chosen-1"):
        submit(store, new(id=id))
    assert site("GET", "/v1/tasks/k7wzqb3m5n2cdxfg").json["id"] == ids[0]
    submit(store, new(id="z4wzqb3m5n2cdxfg"))
    assert site("GET", "/v1/tasks/z4").json["id"] == "z4wzqb3m5n2cdxfg"
    several = site("GET", "/v1/tasks/k7wz")
    assert (several.status, "several ids" in several.json["detail"]) == (404, True)
    assert site("GET", "/v1/tasks/chosen").status == 404
    assert site("POST", "/v1/tasks/z4wz/cancel").status == 404


def test_what_is_large_can_be_left_out(site: Site, store: Store, worker: str) -> None:
    task = started(store, id="t", parameters={"large": 1}, env={"A": "b"})
    submit(store, new("other"))
    beat(store, worker, 2, Report(id="t", attempt=1, checkpoint=b"saved"))
    apply(store, task, Fail(Fault("ValueError", "bad", "Traceback …")))

    [whole] = site("GET", "/v1/tasks?id=t").json["tasks"]
    [brief] = site("GET", "/v1/tasks?id=t&brief").json["tasks"]
    assert (whole["parameters"], whole["error"]["traceback"]) == ({"large": 1}, "Traceback …")
    error = {**whole["error"], "traceback": None}
    assert brief == {**whole, "env": None, "error": error}
    submit(store, new("u", parameters={"large": "x" * 500}))
    assert site("GET", "/v1/tasks?id=u&brief").json["tasks"][0]["parameters"] is None
    [found] = site("GET", "/v1/tasks?q=VALUEERROR%20large").json["tasks"]
    assert found["id"] == "t"
    saved = site("GET", "/v1/tasks/t/checkpoint?data=false").json
    assert (saved["attempt"], saved["data"]) == (1, None)
    assert saved["at"] == site("GET", "/v1/tasks/t/checkpoint").json["at"]
    nothing = {"attempt": None, "at": None, "data": None}
    assert site("GET", "/v1/tasks/other/checkpoint?data=false").json == nothing


def test_a_result_that_is_not_there_is_explained(site: Site, store: Store, worker: str) -> None:
    apply(store, started(store, id="bytes"), Done(b"\x00\x01"))
    apply(store, started(store, id="failed"), Fail(Fault("ValueError", "bad")))
    submit(store, new("pending"), new("cancelled"))
    control.cancel(store, "cancelled")

    raw = site("GET", "/v1/tasks/bytes/result")
    assert (raw.body, raw.headers["content-type"]) == (b"\x00\x01", "application/octet-stream")
    failed = site("GET", "/v1/tasks/failed/result")
    failed.is_problem(409, "task-failed", "ValueError: bad")
    assert failed.json["error"]["type"] == "ValueError"
    site("GET", "/v1/tasks/cancelled/result").is_problem(409, "task-cancelled", "retry")
    site("GET", "/v1/tasks/pending/result").is_problem(409, "refused", "?wait=")
    site("GET", "/v1/tasks/pending/result?wait=50ms").is_problem(409, "refused", "?wait=")
    site("GET", "/v1/tasks/pending/checkpoint").is_problem(409, "refused", "nothing")


def test_the_verbs_do_what_they_say(site: Site, store: Store, worker: str) -> None:
    started(store, id="runs")
    submit(store, new("waits"))

    assert site("POST", "/v1/tasks/waits/hold").json["held"] is True
    assert site("POST", "/v1/tasks/waits/release").json["held"] is False
    assert site("POST", "/v1/tasks/waits/cancel").json["state"] == "cancelled"
    assert site("POST", "/v1/tasks/waits/retry").json["state"] == "pending"
    for verb, body in (
        ("pause", None), ("resume", None), ("stack", None), ("signal", {"signal": "usr1"}),
        ("cancel", {"grace": "5s"}),
    ):  # fmt: skip
        assert site("POST", f"/v1/tasks/runs/{verb}", body).json["orders"][-1]["verb"] == verb
    orders = get(store, "runs").orders
    assert orders[-2].arguments == {"signal": "SIGUSR1"}
    assert orders[-1].arguments == {"grace": 5.0}


def test_a_retry_goes_on_from_the_checkpoint_unless_it_is_to_begin_from_the_start(
    site: Site, store: Store, worker: str
) -> None:
    for number, id in enumerate(("goes-on", "anew", "many", "plain"), 2):
        task = started(store, id=id)
        beat(store, worker, number, Report(id=id, attempt=task.attempt, checkpoint=b"half"))
        apply(store, task, Fail(Fault("Boom")))

    assert site("POST", "/v1/tasks/goes-on/retry", {}).json["state"] == "pending"
    assert site("POST", "/v1/tasks/anew/retry", {"from_start": True}).json["state"] == "pending"
    assert len(site("POST", "/v1/tasks/retry?id=many", {"from_start": True}).json["tasks"]) == 1
    assert site("POST", "/v1/tasks/retry?id=plain").json["tasks"][0]["state"] == "pending"

    left = [store.checkpoint(id) is not None for id in ("goes-on", "anew", "many", "plain")]
    assert left == [True, False, False, True]
    site("POST", "/v1/tasks/anew/retry", {"from_strat": True}).is_problem(400, "bad-input", "strat")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/v1/tasks/none", None, 404, "unknown-task"),
        ("GET", "/v1/tasks/none/log", None, 404, "unknown-task"),
        ("POST", "/v1/tasks/none/cancel", None, 404, "unknown-task"),
        ("DELETE", "/v1/tasks/none", None, 404, "unknown-task"),
        ("POST", "/v1/tasks/waits/retry", None, 409, "refused"),
        ("POST", "/v1/tasks/waits/pause", None, 409, "refused"),
        ("DELETE", "/v1/tasks/waits", None, 409, "refused"),
        ("POST", "/v1/tasks/waits/signal", {"signal": "HELLO"}, 400, "bad-input"),
        ("POST", "/v1/tasks/waits/signal", {}, 400, "bad-input"),
        ("POST", "/v1/tasks/waits/cancel", {"grace": "ages"}, 400, "bad-input"),
        ("POST", "/v1/tasks/waits/cancel", {"grce": 3}, 400, "bad-input"),
        ("POST", "/v1/tasks/waits/hold", {"x": 3}, 400, "bad-input"),
        ("POST", "/v1/tasks/waits/hold?x=3", None, 400, "bad-input"),
        ("PATCH", "/v1/tasks/waits", {}, 400, "bad-input"),
        ("PATCH", "/v1/tasks/waits", {"time_limit": "never"}, 400, "bad-input"),
        ("PATCH", "/v1/tasks/waits", {"priority": "high"}, 400, "bad-input"),
        ("GET", "/v1/tasks/waits/usage?attempt=7", None, 400, "bad-input"),
        ("GET", "/v1/tasks/waits/log?tail=3&start=4", None, 400, "bad-input"),
        ("POST", "/v1/tasks/cancel", None, 400, "bad-input"),
        ("POST", "/v1/tasks/purge", {"before": "1d", "states": ["pending"]}, 400, "bad-input"),
        ("POST", "/v1/tasks/purge", {}, 400, "bad-input"),
        ("GET", "/v1/nothing", None, 404, "unknown-path"),
        ("GET", "/v1/tasks/", None, 404, "unknown-path"),
        ("GET", "/v1/tasks/%ff", None, 400, "bad-input"),
        ("PUT", "/v1/tasks", None, 405, "method-not-allowed"),
        ("GET", "/v1/tasks/waits/cancel", None, 405, "method-not-allowed"),
        ("HEAD", "/v1/events", None, 405, "method-not-allowed"),
    ],
)
def test_what_goes_wrong_is_a_problem(
    site: Site, store: Store, method: str, path: str, body: Any, status: int, kind: str
) -> None:
    submit(store, new("waits"))
    reply = site(method, path, body)
    if method == "HEAD":
        assert (reply.status, reply.body) == (status, b"")
        return
    reply.is_problem(status, kind)
    if status == 405:
        assert reply.headers["allow"]


def test_priority_and_limits_can_be_changed(site: Site, store: Store, worker: str) -> None:
    started(store, id="runs")
    submit(store, new("waits"))

    waits = site("PATCH", "/v1/tasks/waits", {"priority": 7, "time_limit": "1h"}).json
    runs = site("PATCH", "/v1/tasks/runs", {"memory_limit": "1G", "silence_limit": None}).json
    more = site("PATCH", "/v1/tasks/runs", {"more_time": "1h"}).json

    assert (waits["priority"], waits["time_limit"], waits["orders"]) == (7, 3600.0, [])
    assert runs["orders"][-1]["arguments"] == {"memory": 10**9, "silence": 0}
    assert more["orders"][-1]["arguments"] == {"more_time": 3600.0}
    site("PATCH", "/v1/tasks/waits", {"more_time": "1h"})
    assert get(store, "waits").policy.time_limit == 7200.0


def test_a_finished_task_can_be_forgotten(site: Site, store: Store, worker: str) -> None:
    apply(store, started(store, id="t"), Done())
    assert site("DELETE", "/v1/tasks/t").status == 204
    site("GET", "/v1/tasks/t").is_problem(404, "unknown-task")
    gone = site("POST", "/v1/tasks", {"id": "t", "queue": "q"})
    gone.is_problem(409, "deleted-id")
    assert "not accepted again" in gone.json["detail"]
    [of_many] = site("POST", "/v1/tasks", [{"id": "t", "queue": "q"}]).json["tasks"]
    assert (of_many["purged"], of_many["fresh"]) == (True, False)


def test_verbs_on_many_go_page_by_page(site: Site, store: Store, worker: str) -> None:
    started(store, id="runs")
    fill(store, 5)
    submit(store, new("other", queue="other"))

    first = site("POST", "/v1/tasks/cancel?queue=q&limit=4", {"grace": 3}).json
    rest = site("POST", f"/v1/tasks/cancel?queue=q&limit=4&cursor={quote(first['next'])}").json

    assert (len(first["tasks"]), len(rest["tasks"]), rest["next"]) == (4, 2, None)
    states = {task.id: task.state for task in control.find_all(store, Filter())}
    assert states.pop("other") == "pending"
    assert states.pop("runs") == "started"
    assert set(states.values()) == {"cancelled"}
    assert len(site("POST", "/v1/tasks/retry?queue=q").json["tasks"]) == 5
    assert len(site("POST", "/v1/tasks/hold?queue=q").json["tasks"]) == 5
    assert len(site("POST", "/v1/tasks/release?queue=q").json["tasks"]) == 5


def test_old_tasks_are_purged_some_at_a_time(site: Site, store: Store) -> None:
    ids = fill(store, 3)
    for id in ids:
        control.cancel(store, id)
    body = {"before": "0s", "states": ["cancelled"], "limit": 2}
    purged = [site("POST", "/v1/tasks/purge", body).json["purged"] for _ in range(3)]
    assert [len(some) for some in purged] == [2, 1, 0]
    assert sorted(id for some in purged for id in some) == sorted(ids)


def test_a_word_that_is_none_of_those_allowed_lists_them(site: Site) -> None:
    state = site("GET", "/v1/tasks?state=walking")
    assert state.status == 400
    assert "'walking' is none of" in state.json["detail"]
    assert "running" in state.json["detail"]
    fence = site("POST", "/v1/tasks", {"fence": "melt"})
    assert "fence: 'melt' is none of freeze, kill" in fence.json["detail"]


def test_what_is_not_there_does_not_tell_where_the_database_is(site: Site, store: Store) -> None:
    for path in ("/v1/tasks/nobody", "/v1/tasks/nobody/explain", "/v1/flows/nowhere"):
        unknown = site("GET", path)
        assert unknown.status == 404
        assert "sqlite" not in unknown.json["detail"]
        assert store.url.rpartition("/")[2] not in unknown.json["detail"]


def test_a_task_that_could_never_start_is_refused(site: Site, store: Store) -> None:
    late = site("POST", "/v1/tasks", {"start_before": "2020-01-01T00:00:00Z"})
    assert (late.status, "is over" in late.json["detail"]) == (400, True)
    many = site("POST", "/v1/tasks", [{}, {"start_before": "2020-01-01T00:00:00Z"}])
    assert many.status == 400
    never = site("POST", "/v1/tasks", {"expire": 0})
    assert (never.status, "never get the chance" in never.json["detail"]) == (400, True)
    assert not list(control.find_all(store, Filter()))


def test_a_task_that_was_cancelled_before_its_eta_waits_for_it_or_runs_now(
    site: Site, store: Store
) -> None:
    submit(store, new("later", delay=3600))
    control.cancel(store, "later")
    assert site("POST", "/v1/tasks/later/retry", {}).json["state"] == "scheduled"
    control.cancel(store, "later")
    assert site("POST", "/v1/tasks/later/retry", {"now": True}).json["state"] == "pending"


def test_what_has_ended_can_not_be_released(site: Site, store: Store) -> None:
    submit(store, new("t"))
    assert site("POST", "/v1/tasks/t/release").status == 200
    control.cancel(store, "t")
    assert site("POST", "/v1/tasks/t/release").status == 409
