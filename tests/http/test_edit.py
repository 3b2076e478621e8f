"""Editing, cloning, and retrying with changes over HTTP, and by the client of a server."""

from __future__ import annotations

import pytest

from stayer.client import Client
from stayer.core.errors import Refused
from stayer.core.happenings import Cancel, Fail
from stayer.core.model import Code, Fault, Pinned
from stayer.store import Store
from tests.contract.builders import apply, get, new, register, started, submit
from tests.http.serving import Site


def test_what_waits_is_edited(site: Site, store: Store) -> None:
    submit(store, new("t", parameters={"a": 1, "b": 2}, tags=("x",)))

    reply = site(
        "POST", "/v1/tasks/t/edit",
        {"command": ["ls"], "time_limit": "2h", "tags": None, "set_parameters": {"b": 3}},
    )  # fmt: skip

    assert reply.status == 200
    task = get(store, "t")
    assert (task.command, task.parameters, task.tags) == (("ls",), {"a": 1, "b": 3}, ())
    assert (task.policy.time_limit, reply.json["time_limit"]) == (7200, 7200.0)
    site("POST", "/v1/tasks/t/edit", {"queue": "z"}).is_problem(400, "bad-input", "clone it")
    site("POST", "/v1/tasks/t/edit", {"nope": None}).is_problem(400, "bad-input", "'nope'")
    site("POST", "/v1/tasks/t/edit", {}).is_problem(400, "bad-input", "say what to change")
    site("POST", "/v1/tasks/t/edit", {"priority": 1}, role="submit").is_problem(403, "forbidden")


def test_a_task_is_cloned_for_whoever_asks(site: Site, store: Store) -> None:
    submit(store, new("t", command=("train", "1"), parameters={"lr": 1}, owner="ann"))

    reply = site("POST", "/v1/tasks/t/clone", {"set_parameters": {"lr": 2}}, role="submit")

    assert (reply.status, reply.json["fresh"]) == (201, True)
    task = get(store, reply.json["id"])
    assert reply.headers["location"] == f"/v1/tasks/{task.id}"
    assert (task.command, task.parameters, task.cloned_from) == (("train", "1"), {"lr": 2}, "t")
    assert task.owner == "the submit token"
    assert site("POST", "/v1/tasks/t/clone").status == 201
    site("POST", "/v1/tasks/nope/clone").is_problem(404, "unknown-task")
    site("POST", "/v1/tasks/t/clone", {}, role="read").is_problem(403, "forbidden")


def test_a_token_for_some_queues_clones_within_them(site: Site, store: Store) -> None:
    submit(store, new("mine", queue="films", owner="ann"), new("theirs", queue="other"))
    token = site.access.add("films", "submit", ("films",))

    def ask(path: str, body: object) -> int:
        return site("POST", path, body, role=None, Authorization=f"Bearer {token}").status

    assert ask("/v1/tasks/mine/clone", {"owner": "ann"}) == 201
    clone = next(task for task in store.peek("films", 9) if task.cloned_from)
    assert (clone.owner, clone.id.split(":")[0]) == ("films", "films")
    assert ask("/v1/tasks/theirs/clone", {}) == 404
    assert ask("/v1/tasks/mine/clone", {"queue": "other"}) == 403


def test_a_retry_brings_changes(site: Site, store: Store) -> None:
    register(store)
    apply(store, started(store, id="t", parameters={"n": 1}), Fail(Fault("E")))

    changes = {"memory_limit": "2G", "set_parameters": {"n": 2}}
    reply = site("POST", "/v1/tasks/t/retry", {"changes": changes})

    assert (reply.status, reply.json["state"]) == (200, "pending")
    task = get(store, "t")
    assert (task.parameters, task.policy.memory_limit) == ({"n": 2}, 2_000_000_000)


def test_a_client_of_a_server_edits_clones_and_retries(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_TOKEN", site.tokens["operate"])
    register(store)
    with Client(site.url) as client:
        task = client.get_task(client.get_queue("q").enqueue({"lr": 1}, name="train"))
        task.edit(set_parameters={"lr": 2}, time_limit="1h", delay="1h")
        assert (task.state, task.parameters, task.time_limit) == ("scheduled", {"lr": 2}, 3600)
        clone = task.clone(parameters=b"raw", eta=None, tags=["x"])
        assert (clone.state, clone.parameters, clone.tags) == ("pending", b"raw", ("x",))
        assert clone.cloned_from == task.id
        clone.cancel()
        with pytest.raises(Refused, match="it has ended"):
            clone.edit(priority=1)
        clone.retry(parameters=[1], priority=3)
        assert (clone.state, clone.parameters, clone.priority) == ("pending", [1], 3)


def test_code_is_changed_and_found_out_anew(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_TOKEN", site.tokens["operate"])
    asked = {"name": "f", "queue": "q", "id": "t", "code": {"requirements": ["numpy"]}}
    site("POST", "/v1/tasks", asked)
    reply = site("POST", "/v1/tasks/t/edit", {"code": {"requirements": "scipy", "python": "3.12"}})
    assert reply.json["code"] == {
        "requirements": ["scipy"], "python": "3.12", "git": None, "files": [], "image": None
    }  # fmt: skip
    apply(store, get(store, "t"), Cancel())
    changes = {"code": {"requirements": ["rich"]}}
    site("POST", "/v1/tasks/t/retry", {"code": "latest", "changes": changes})
    task = get(store, "t")
    assert (task.code, task.pinned) == (Code(("rich",)), Pinned("", anew=True))

    with Client(site.url) as client:
        handle = client.get_task("t")
        assert handle.clone().code == Code(("rich",))
        assert handle.clone(code=Code("attrs")).code == Code(("attrs",))
        assert handle.edit(code=Code("numpy")).code == Code(("numpy",))
        assert get(store, "t").pinned is None
        handle.cancel()
        assert handle.retry().code == Code(("numpy",))
        handle.cancel()
        handle.retry(code="latest", priority=3)
        assert (handle.priority, get(store, "t").pinned) == (3, Pinned("", anew=True))
        handle.cancel()
        assert handle.retry(code=Code(python="3.12")).code == Code(python="3.12")
        handle.cancel()
        assert handle.retry(code=None).code is None
