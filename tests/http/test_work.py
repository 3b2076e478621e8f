"""The worker protocol, as `docs/reference/worker-protocol.md` has it, request by request."""

from __future__ import annotations

import hashlib
import secrets
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stayer.core.happenings import Done
from stayer.core.insight.statistics import Recorder
from stayer.core.model import NewTask, Policy
from stayer.core.units import CENTURY
from stayer.core.worker_model import EVERYTHING
from stayer.http.bells import Bells
from stayer.service import work
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract.builders import get, new, register, submit
from tests.faults.fleet import until
from tests.http.serving import Reply, Site, served_here


class Node:
    """A worker that is a few requests."""

    def __init__(self, site: Site, token: str, id: str = "node-7") -> None:
        self.site = site
        self.token = token
        self.id = id
        self.number = 0

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        said = {"Authorization": f"Bearer {self.token}", **headers}
        return self.site(method, f"/v1/work/{self.id}{path}", body, role=None, **said)

    def beat(self, **more: Any) -> Reply:
        self.number += 1
        body = {"number": self.number, "nonce": secrets.token_hex(8), "lease": 60, **more}
        return self("POST", "/beat", body)

    def take(self, **more: Any) -> list[dict[str, Any]]:
        answer = self("POST", "/take", {"key": secrets.token_hex(8), **more})
        assert answer.status == 200, answer
        tasks: list[dict[str, Any]] = answer.json["tasks"]
        return tasks

    def tell(self, id: str, verb: str, body: Any = None, attempt: int = 1, **more: str) -> Reply:
        query = "".join(f"&{name}={value}" for name, value in more.items())
        return self("POST", f"/tasks/{id}/{verb}?attempt={attempt}{query}", body)


LATER_S = 60 / 8
"""From one beat of a `Node` to the next, if nothing hurries it."""


class Clock:
    """By which the server tells how long a task has not been named."""

    at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """One that stands still unless a test moves it."""
    found = Clock()
    monkeypatch.setattr(work, "moment", found)
    return found


@pytest.fixture
def node(site: Site) -> Node:
    """One that has introduced itself, and may take tasks of `q`."""
    found = Node(site, site.access.add("node", "work", ("q",)))
    assert found.beat().status == 200
    return found


def put(store: Store, *ids: str, **more: Any) -> None:
    submit(store, *(new(id, **more) for id in ids))


def test_a_task_is_taken_started_told_of_and_completed(store: Store, node: Node) -> None:
    put(store, "a", parameters={"n": 1})

    [task] = node.take()
    assert (task["id"], task["attempt"], task["parameters"]) == ("a", 1, {"n": 1})
    assert node.tell("a", "start", {"pid": 12}).json["state"] == "started"
    assert node.tell("a", "progress", {"done": 1, "total": 2, "news": 0}).status == 204
    octets = {"Content_Type": "application/octet-stream"}
    logged = node("POST", "/tasks/a/log?attempt=1&start=0", b"hello\n", **octets)
    saved = node("PUT", "/tasks/a/checkpoint?attempt=1", b"\x00saved", **octets)
    assert (logged.status, saved.status) == (204, 204)
    assert node("GET", "/tasks/a/checkpoint").body == b"\x00saved"
    done = node.tell("a", "complete", {"result": [1]})

    assert (done.status, done.json["state"], done.json["result"]) == (200, "complete", [1])
    assert node.tell("a", "complete", {"result": [1]}).status == 200, "a repeated end is welcome"
    ended = get(store, "a")
    assert (ended.state, ended.result, ended.worker, ended.pid) == ("complete", [1], "node-7", 12)
    assert [piece.data for piece in store.log("a", 1, 0, 100)] == [b"hello\n"]


@pytest.mark.parametrize(
    ("verb", "body", "state", "ending"),
    [
        ("fail", {"error": {"type": "X", "message": "no"}}, "failed", "error"),
        ("fail", {"error": {"type": "X"}, "ending": "oom", "final": True}, "failed", "oom"),
        ("return", {"note": "stopping"}, "pending", "interrupted"),
        ("return", {"delay": 60}, "scheduled", "snoozed"),
        ("return", None, "pending", "interrupted"),
    ],
)
def test_other_ends_and_the_same_again(
    store: Store, node: Node, verb: str, body: Any, state: str, ending: str
) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start")

    for _ in range(2):
        answer = node.tell("a", verb, body)
        assert (answer.status, answer.json["state"]) == (200, state), answer

    assert [attempt.ending for attempt in store.attempts("a")] == [ending]


def test_whoever_lost_the_task_gets_409_and_changes_nothing(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start")
    node.tell("a", "return")
    [again] = node.take()
    assert again["attempt"] == 2

    for verb, body in (
        ("start", None), ("progress", {"done": 1}), ("fail", {"error": {"type": "X"}}),
        ("complete", {"result": "old"}),
    ):  # fmt: skip
        node.tell("a", verb, body, attempt=1).is_problem(409, "not-held", "no longer held")
    node("POST", "/tasks/a/log?attempt=1&start=0", b"old").is_problem(409, "not-held")
    node("PUT", "/tasks/a/checkpoint?attempt=1", b"old").is_problem(409, "not-held")

    current = get(store, "a")
    assert (current.state, current.attempt, current.progress) == ("reserved", 2, None)
    assert store.checkpoint("a") is None


def test_a_result_that_comes_late_is_welcome_if_nobody_began_again(
    store: Store, node: Node
) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start")
    worker_control.return_lost_tasks(store, store.drop_worker("node-7", 1))
    assert get(store, "a").state == "pending"

    assert node.tell("a", "complete", {"result": 1}).json["state"] == "complete"


class TestTakes:
    def test_with_the_same_key_return_the_same_tasks_from_any_server(
        self, store: Store, node: Node, tmp_path: Path, url: str
    ) -> None:
        put(store, "a", "b", "c")
        first = node.take(key="k", limit=2)
        assert [task["id"] for task in first] == ["a", "b"]

        assert node.take(key="k", limit=2) == first
        with served_here(tmp_path, url, node.site) as other:  # with the same file of tokens
            elsewhere = Node(other, node.token)
            assert elsewhere.take(key="k") == first
            assert [task["id"] for task in elsewhere.take(key="l")] == ["c"]

    def test_with_the_same_key_at_once_are_given_one_answer(self, store: Store, node: Node) -> None:
        put(store, *(f"t{n}" for n in range(20)))
        found: list[list[str]] = []

        def ask() -> None:
            found.append([task["id"] for task in node.take(key="k", limit=2)])

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(found) == 6
        assert all(each == found[0] for each in found)
        assert [task.id for task in store.holdings("node-7")] == found[0], "the others went back"

    def test_with_the_same_key_that_wait_at_two_servers_are_given_one_answer(
        self,
        store: Store,
        node: Node,
        tmp_path: Path,
        url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        waiting: list[str] = []
        found: list[list[str]] = []
        wait = Bells.wait

        async def note(bells: Bells, *arguments: Any) -> str:
            waiting.append(arguments[-1])
            return await wait(bells, *arguments)

        def ask(asking: Node) -> None:
            found.append([task["id"] for task in asking.take(key="k", wait=20)])

        monkeypatch.setattr(Bells, "wait", note)
        with served_here(tmp_path, url, node.site) as other:
            threads = [
                threading.Thread(target=ask, args=(each,))
                for each in (node, Node(other, node.token))
            ]
            for thread in threads:
                thread.start()
            until(lambda: len(waiting) >= 2, "for both to wait")
            put(store, "a")
            for thread in threads:
                thread.join()
        assert found == [["a"], ["a"]]

    def test_leave_out_what_is_not_held_any_more(self, store: Store, node: Node) -> None:
        put(store, "a", "b")
        node.take(key="k", limit=2)
        node.tell("a", "return")

        assert [task["id"] for task in node.take(key="k", limit=2)] == ["b"]

    def test_wait_for_a_task(self, store: Store, node: Node) -> None:
        found: list[str] = []
        asking = threading.Thread(
            target=lambda: found.extend(task["id"] for task in node.take(wait=60))
        )
        asking.start()
        put(store, "a")
        asking.join()

        assert found == ["a"]

    def test_wait_for_what_time_brings(self, store: Store, node: Node) -> None:
        put(store, "a", delay=0.5)

        assert [task["id"] for task in node.take(wait=60)] == ["a"]

    def test_are_of_the_queues_of_the_token_and_of_what_is_handled(
        self, store: Store, node: Node
    ) -> None:
        put(store, "other", queue="others")
        put(store, "command", command=("true",))
        put(store, "named", name="encode")

        assert [task["id"] for task in node.take(limit=9)] == ["named"]
        refused = node("POST", "/take", {"key": "k", "queues": ["others"]})
        refused.is_problem(403, "forbidden", "not for queue others")
        handles = {"programs": ["true"]}
        assert [task["id"] for task in node.take(limit=9, handles=handles)] == ["command"]


class TestBeats:
    def test_register_and_renew(self, store: Store, node: Node) -> None:
        answer = node.beat(queues=["q"], slots=3, node="host", version="mine 1").json
        assert (answer["lease"], answer["orders"], answer["lost"]) == (60.0, [], [])

        [worker] = store.workers()
        assert (worker.id, worker.number, worker.slots, worker.node) == ("node-7", 2, 3, "host")
        assert node("GET", "").json["number"] == 2

    def test_may_be_repeated_but_not_with_another_nonce(self, node: Node) -> None:
        body = {"number": 2, "nonce": "n"}
        assert node("POST", "/beat", body).status == 200
        assert node("POST", "/beat", body).status == 200
        node("POST", "/beat", {**body, "nonce": "m"}).is_problem(409, "lease-lost")

    def test_of_somebody_who_was_declared_lost_are_refused(self, store: Store, node: Node) -> None:
        store.drop_worker("node-7", 1)
        node.beat().is_problem(409, "lease-lost")
        node("POST", "/take", {"key": "k", "queues": ["q"], "handles": {}}).is_problem(
            409, "lease-lost"
        )

    def test_bring_orders_until_they_are_acknowledged(self, store: Store, node: Node) -> None:
        put(store, "a")
        node.take()
        node.tell("a", "start")
        control.cancel(store, "a", 5.0)
        running = {"id": "a", "attempt": 1}

        [orders] = node.beat(running=[running]).json["orders"]
        [order] = orders["orders"]
        assert (orders["id"], order["verb"], order["arguments"]) == ("a", "cancel", {"grace": 5.0})
        number = order["number"]
        assert node.beat(running=[{**running, "acknowledged": number}]).json["orders"] == []

        assert node.tell("a", "cancelled").json["state"] == "cancelled"
        assert node.tell("a", "cancelled").status == 200

    def test_give_back_what_was_not_named_twice(
        self, store: Store, node: Node, clock: Clock
    ) -> None:
        put(store, "a", "b")
        node.take(limit=2)
        named = [{"id": "a", "attempt": 1}]

        node.beat(running=named)
        clock.at += LATER_S
        again = {"number": node.number, "nonce": "other"}
        node("POST", "/beat", {**again, "running": named}).is_problem(409, "lease-lost")
        assert get(store, "b").state == "reserved", "once is not enough"
        node.beat(running=named)

        assert (get(store, "a").state, get(store, "b").state) == ("reserved", "pending")
        node.tell("b", "start").is_problem(409, "not-held")

    def test_leave_alone_what_was_started_while_they_were_made(
        self, store: Store, node: Node, clock: Clock
    ) -> None:
        put(store, "a")
        node.take()
        node.beat(running=[])
        node.tell("a", "start")
        clock.at += LATER_S
        node.beat(running=[])  # made before the answer to the start came
        assert get(store, "a").state == "started"
        clock.at += LATER_S
        node.beat(running=[])
        assert get(store, "a").state == "pending"

    def test_that_come_fast_leave_alone_what_was_just_taken(
        self, store: Store, node: Node, clock: Clock
    ) -> None:
        put(store, "a")
        node.take()
        for _ in range(5):  # orders bring a beat at once, and the answer to the take is on its way
            node.beat(running=[])
        assert get(store, "a").state == "reserved"
        clock.at += LATER_S
        node.beat(running=[{"id": "a", "attempt": 1}])
        node.beat(running=[])
        assert get(store, "a").state == "reserved", "it was named meanwhile"
        clock.at += LATER_S
        node.beat(running=[])
        assert get(store, "a").state == "pending"

    def test_that_name_nothing_give_nothing_back(self, store: Store, node: Node) -> None:
        put(store, "a")
        node.take()

        for _ in range(3):
            node.beat()

        assert get(store, "a").state == "reserved"

    def test_say_what_was_lost(self, store: Store, node: Node) -> None:
        put(store, "a")
        node.take()
        node.tell("a", "return")

        assert node.beat(running=[{"id": "a", "attempt": 1}]).json["lost"] == [
            {"id": "a", "attempt": 1}
        ]

    def test_of_another_protocol_are_refused(self, node: Node) -> None:
        node.beat(protocol=2).is_problem(400, "bad-input", "speaks 1")

    def test_have_fields_that_nobody_knows(self, node: Node) -> None:
        assert node.beat(colour="blue", handles={"names": ["*"], "smells": 1}).status == 200


class TestWhoseItIs:
    def test_a_worker_id_belongs_to_the_token_that_introduced_it(
        self, store: Store, node: Node, tmp_path: Path, url: str
    ) -> None:
        put(store, "a")
        node.take()
        stranger = node.site.access.add("stranger", "work", ("q",))
        with served_here(tmp_path, url, node.site) as other:
            thief = Node(other, stranger)
            thief.number = 41
            for answer in (
                thief.beat(), thief("POST", "/take", {"key": "k"}), thief("GET", ""),
                thief.tell("a", "complete", {}), thief("GET", "/holdings"),
                thief("POST", "/leave", {"number": 1}), thief("GET", "/wait"),
            ):  # fmt: skip
                answer.is_problem(403, "forbidden", "belongs to another token")

        assert get(store, "a").state == "reserved"

    def test_nor_does_one_that_is_at_the_database(self, store: Store, site: Site) -> None:
        register(store, "direct")
        token = site.access.add("node", "work", ("q",))
        for number in (0, 99):
            thief = Node(site, token, "direct")
            thief.number = number
            answer = thief.beat()
            assert answer.status in (403, 409), answer
        assert [worker.number for worker in store.workers()] == [1]

    def test_it_may_read_its_queues_but_neither_submit_nor_operate(
        self, store: Store, node: Node
    ) -> None:
        put(store, "mine")
        put(store, "other", queue="others")
        said = {"Authorization": f"Bearer {node.token}"}

        def ask(method: str, path: str, body: Any = None) -> int:
            return node.site(method, path, body, role=None, **said).status

        assert ask("GET", "/v1/tasks/mine") == 200
        assert ask("GET", "/v1/tasks/other") == 404
        assert ask("POST", "/v1/tasks", {"queue": "q"}) == 403
        assert ask("POST", "/v1/tasks/mine/cancel", {}) == 403
        assert ask("DELETE", "/v1/workers/node-7") == 403

    @pytest.mark.parametrize("role", ["read", "submit", "operate"])
    def test_other_roles_don_t_work(self, site: Site, role: Any) -> None:
        body = {"number": 1, "nonce": "n"}
        site("POST", "/v1/work/w/beat", body, role=role).is_problem(403, "forbidden", "needs work")

    def test_one_that_nobody_introduced_is_not_known(self, node: Node) -> None:
        Node(node.site, node.token, "nobody")("GET", "").is_problem(404, "unknown-worker")


class TestWaits:
    def test_hear_of_orders_and_tasks_and_miss_nothing_between(
        self, store: Store, node: Node
    ) -> None:
        put(store, "a")
        node.take()
        first = node("GET", "/wait?queue=q").json
        assert first["news"] is False
        control.cancel(store, "a")

        heard = node("GET", f"/wait?queue=q&seconds=60&since={first['position']}").json
        assert heard["news"] is True

    def test_are_not_woken_by_what_the_worker_does_itself(self, store: Store, node: Node) -> None:
        def rings() -> int:
            return int(node("GET", "/wait").json["position"].rpartition("-")[2])

        until(rings, "for the server to listen: it rings for all then")
        before = rings()
        put(store, "a")
        node.take()
        node.tell("a", "start")
        seen: list[str] = []
        while "started" not in seen:
            path = f"/v1/events?since={len(seen)}&wait=60s"
            told = node.site("GET", path, role="read", Accept="application/json").json["events"]
            seen += [event["event"] for event in told]
        control.cancel(store, "a")
        until(lambda: rings() > before, "for it to hear of the order")
        assert rings() == before + 1

    def test_end_with_their_time(self, node: Node) -> None:
        position = node("GET", "/wait").json["position"]
        position = node("GET", f"/wait?since={position}&seconds=0.2").json["position"]
        assert node("GET", f"/wait?since={position}&seconds=0.1").json["news"] is False

    def test_at_several_servers_in_turn_end_with_their_time_and_miss_nothing(
        self, store: Store, node: Node, tmp_path: Path, url: str
    ) -> None:
        put(store, "a")
        node.take()
        with served_here(tmp_path, url, beside=node.site) as second:
            nodes = (node, Node(second, node.token))
            position = "elsewhere-7"

            def listen(which: int, seconds: float) -> bool:
                nonlocal position
                path = f"/wait?queue=q&seconds={seconds}&since={position}"
                answer = nodes[which]("GET", path).json
                assert (answer["position"] != position) == answer["news"]
                position = answer["position"]
                return bool(answer["news"])

            assert [listen(which, 0.05) for which in (0, 1)] == [True, True], "they are new"
            until(lambda: not any(listen(which, 0.05) for which in (0, 1)), "for silence")

            control.cancel(store, "a")
            assert [listen(which, 60) for which in (0, 1)] == [True, True]

    def test_with_a_position_that_the_server_does_not_know_are_answered_slowly(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        wait = Bells.wait

        async def note(bells: Bells, *arguments: Any) -> str:
            waits.append(arguments[-1])
            return await wait(bells, *arguments)

        monkeypatch.setattr(Bells, "wait", note)
        monkeypatch.setattr("stayer.http.work._STRANGER_WAIT_S", 0.1)
        assert node("GET", "/wait?seconds=60&since=elsewhere-7").json["news"] is True
        assert node("GET", "/wait?seconds=0&since=elsewhere-7").json["news"] is True
        assert waits == [0.1]


def test_leaving_gives_all_back_and_may_be_said_twice(store: Store, node: Node) -> None:
    put(store, "a", "b")
    node.take(limit=2)
    node.tell("b", "start")

    assert node("POST", "/leave", {"number": 1}).status == 204
    assert node("POST", "/leave", {"number": 1}).status == 204

    assert {get(store, id).state for id in ("a", "b")} == {"pending"}
    assert store.workers() == []


def test_leaving_late_gives_nothing_back(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start")
    node.beat()
    assert node("POST", "/leave", {"number": 1}).status == 204
    assert get(store, "a").state == "started"
    assert node.beat().status == 200


def test_leaving_after_a_beat_that_never_came_gives_all_back(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    assert node("POST", "/leave", {"number": 2}).status == 204
    assert get(store, "a").state == "pending"
    assert store.workers() == []
    node.beat().is_problem(409, "lease-lost")  # it comes after all


def test_the_id_of_a_dead_worker_opens_no_other_queue(store: Store, site: Site) -> None:
    for id, was_lost in (("dead", True), ("gone", False)):
        register(store, id=id, queues=("secret",))
        put(store, f"t-{id}", queue="secret")
        [task] = store.reserve(id, ["secret"], 1, EVERYTHING)
        held = store.drop_worker(id, 1)
        if was_lost:
            worker_control.return_lost_tasks(store, held)
        thief = Node(site, site.access.add(f"thief of {id}", "work", ("q",)), id)
        thief.beat()
        answer = thief.tell(task.id, "complete", {"result": 1}, task.attempt)
        assert answer.status in (403, 404, 409), answer
        assert get(store, task.id).state != "complete"


def test_inputs_of_other_queues_are_for_whoever_holds_what_runs_after_them(
    store: Store, node: Node
) -> None:
    register(store, "direct", queues=("others",))
    first: NewTask = new("first", queue="others")
    submit(store, first, new("then", after=("first",)))
    assert node("GET", "/tasks/first/inputs").status == 404
    [task] = store.reserve("direct", ["others"], 1, EVERYTHING)
    control.settle(store, task, Done({"x": 1}))
    assert [each["id"] for each in node.take(wait=10)] == ["then"]

    assert node("GET", "/tasks/then/inputs").json == {"first": {"x": 1}}
    assert node("GET", "/tasks?id=first").json["tasks"][0]["result"] == {"x": 1}


def test_a_worker_gets_the_files_that_its_tasks_name(store: Store, node: Node) -> None:
    sha256 = hashlib.sha256(b"code").hexdigest()
    store.put_file(sha256, b"code")
    said = {"Authorization": f"Bearer {node.token}"}

    assert node.site("GET", f"/v1/files/{sha256}", role=None, **said).body == b"code"
    assert node.site("PUT", f"/v1/files/{sha256}", b"code", role=None, **said).status == 403


def test_a_beat_brings_metrics_but_not_too_many(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start", {"pid": 12})
    recorder = Recorder()
    recorder.add("loss", 0.5, 1.0)
    own = msgspec.to_builtins(recorder.result())
    assert node.beat(running=[{"id": "a", "attempt": 1, "statistics": own}]).status == 200
    found = store.statistics("a", 1)
    assert found is not None
    assert found.metrics == recorder.result().metrics
    own["metrics"]["loss"]["points"] *= 100_000
    node.beat(running=[{"id": "a", "attempt": 1, "statistics": own}]).is_problem(400, "bad-input")


def test_names_of_metrics_and_steps_are_cut_as_those_of_a_recorder(
    store: Store, node: Node
) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start", {"pid": 12})
    one = {"last": 1, "min": 1, "max": 1, "count": 1, "points": []}
    own = {
        "metrics": {**{f"{n:03}" + "x" * 100_000: one for n in range(60)}, "\x1b]0;x": one},
        "steps": [{"name": f"{n:03}" + "y" * 10_000, "start": 1} for n in range(120)],
    }
    assert node.beat(running=[{"id": "a", "attempt": 1, "statistics": own}]).status == 200
    found, metrics = store.statistics("a", 1), get(store, "a").metrics
    assert found is not None
    assert metrics is not None
    assert (len(metrics), len(found.steps), found.left_out) == (50, 100, 31)
    assert {len(name) for name in metrics} == {100}
    assert {len(step.name) for step in found.steps} == {100}


def test_a_task_gets_fields_of_its_own_while_it_is_held(store: Store, node: Node) -> None:
    put(store, "a", meta={"team": "vision", "old": 1})
    node.take()
    node.tell("a", "start")

    for _ in range(2):
        assert node.tell("a", "meta", {"meta": {"epoch": 7, "old": None}}).status == 204
    assert get(store, "a").meta == {"team": "vision", "epoch": 7}
    node.tell("a", "meta", {"meta": {"a=b": 1}}).is_problem(400, "bad-input", "without =")
    node.tell("a", "meta", {"meta": {"long": "x" * 5000}}).is_problem(413, "too-large")
    node.tell("a", "meta", {"meta": {"epoch": 8}}, attempt=2).is_problem(409, "not-held")
    node.tell("a", "complete")
    node.tell("a", "meta", {"meta": {"epoch": 8}}).is_problem(409, "not-held")
    assert get(store, "a").meta == {"team": "vision", "epoch": 7}


def test_news_in_a_beat_are_those_of_the_page(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start")
    news = {
        "progress": {"done": 30, "total": 100, "message": "frame 30"},
        "usage": {"ran": 12.5, "cpu": 20.1, "rss": 1_000_000, "peak": 2_000_000, "processes": 2},
        "statistics": {
            "metrics": {
                "loss": {
                    "last": 0.31, "min": 0.31, "max": 0.9, "count": 2, "x": 2,
                    "points": [[1.5, 1, 0.9], [3.0, 2, 0.31]],
                }
            },
            "steps": [
                {"name": "load", "start": 0.1, "end": 1.2, "elapsed": 1.1},
                {"name": "train", "start": 1.2, "since": 1.2},
            ],
        },
    }  # fmt: skip

    assert node.beat(running=[{"id": "a", "attempt": 1, **news}]).json["lost"] == []
    task, statistics = get(store, "a"), store.statistics("a", 1)
    assert task.progress is not None
    assert task.usage is not None
    assert statistics is not None
    assert (task.progress.message, task.usage.cpu) == ("frame 30", 20.1)
    assert statistics.metrics["loss"].points[-1] == (3.0, 2.0, 0.31)
    assert [step.name for step in statistics.steps] == ["load", "train"]


def test_what_has_ended_while_a_beat_was_on_its_way_is_among_the_lost(
    store: Store, node: Node
) -> None:
    put(store, "a")
    node.take()
    node.tell("a", "start")
    node.tell("a", "complete")

    answer = node.beat(running=[{"id": "a", "attempt": 1}])
    assert answer.json["lost"] == [{"id": "a", "attempt": 1}]
    assert get(store, "a").state == "complete"


def test_a_cancel_between_take_and_start_is_an_order_like_others(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    control.cancel(store, "a")

    [order] = node.tell("a", "start").json["orders"]
    assert order["verb"] == "cancel"
    [found] = node.beat(running=[{"id": "a", "attempt": 1}]).json["orders"]
    assert found["orders"] == [{"number": 1, "verb": "cancel"}], "no arguments if there are none"
    assert node.tell("a", "cancelled").json["state"] == "cancelled"


def test_what_a_worker_runs_is_said_in_so_many_patterns(store: Store, node: Node) -> None:
    for names, why in ((["x"] * 1001, "1,001 patterns"), (["x" * 65_000], "65,000 characters")):
        handles = {"names": names, "variables": []}
        node.beat(handles=handles).is_problem(400, "bad-input", why)
        body = {"key": "k", "queues": ["q"], "handles": handles}
        node("POST", "/take", body).is_problem(400, "bad-input", why)
    assert node.beat(handles={"names": ["x" * 60] * 1000, "variables": []}).status == 200


def test_a_token_has_so_many_workers(
    store: Store, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "WORKERS_A_TOKEN", 2)
    second, third = Node(node.site, node.token, "n2"), Node(node.site, node.token, "n3")
    assert second.beat().status == 200
    third.beat().is_problem(409, "refused", "2 workers already")
    other = Node(node.site, node.site.access.add("another", "work", ("q",)), "n4")
    assert other.beat().status == 200
    assert second("POST", "/leave", {"number": 1}).status == 204
    third.number = second.number = 0
    assert third.beat().status == 200
    second.beat().is_problem(409, "refused")


def changes(node: Node, id: str, **happening: Any) -> Reply:
    body = {"changes": [{"id": id, "attempt": 1, "happening": happening}]}
    return node("POST", "/changes", body)


def test_texts_of_a_worker_are_cut_and_its_end_is_kept(store: Store, node: Node) -> None:
    long = "x" * 100_000
    put(store, "a", "b")
    node.take(limit=2)
    assert changes(node, "a", what="note", event=long, note=long).status == 200
    usage = {"ran": 1e308, "cpu": -1, "rss": 10**40}
    news = {"id": "a", "attempt": 1, "progress": {"message": long}, "usage": usage}
    assert node.beat(news=[news]).status == 200
    error = {"type": long, "message": long, "traceback": long + "end"}
    assert node.tell("a", "fail", {"error": error}).status == 200
    assert changes(node, "b", what="fail", error=error, final=True).status == 200

    for id in "ab":
        found = get(store, id).error
        assert found is not None
        assert (len(found.type), len(found.message)) == (1000, 64_000)
        assert found.traceback is not None
        assert (len(found.traceback), found.traceback[-3:]) == (64_000, "end")
    assert max(len(f"{event.note}{event.event}") for event in store.events("a")) <= 1200
    progress = get(store, "a").progress
    assert progress is None or len(progress.message or "") <= 1000


def test_a_pin_is_of_the_form_that_workers_find_out(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    line = "numpy==2.1.0 --hash=sha256:" + "0" * 64 + "\n"

    def pin(python: str = "3.12", lock: str = line, **more: str) -> Reply:
        digest = hashlib.sha256(lock.encode()).hexdigest()
        pinned = {"python": python, "lock": digest, **more}
        return changes(node, "a", what="pin", pinned=pinned, lock=lock)

    pin(python="x" * 100_000).is_problem(400, "bad-input", "python")
    pin(commit="-x").is_problem(400, "bad-input", "commit")
    pin(lock="--index-url http://x\n").is_problem(400, "bad-input", "options")
    pin(lock=line * 3000).is_problem(413, "too-large", "256,000")
    changes(node, "a", what="pin", pinned={"python": "3.12"}, lock=line).is_problem(
        400, "bad-input"
    )
    pin(image="sha256:" + "0" * 64).is_problem(400, "bad-input", "nothing else")
    for image in ("evil.org/x", "--privileged"):
        changes(node, "a", what="pin", pinned={"image": image}).is_problem(400, "bad-input")
    assert pin().status == 200
    assert get(store, "a").lock == line
    digest = "sha256:" + "0" * 64
    assert changes(node, "a", what="pin", pinned={"image": digest}).status == 200


@pytest.mark.parametrize("wait", [1e300, -1e300])
def test_a_worker_names_no_moment_that_nobody_can_show(
    store: Store, node: Node, wait: float
) -> None:
    put(store, "a", "b", policy=Policy(retries=1))
    node.take(limit=2)
    for id in ("a", "b"):
        assert node.tell(id, "start").status == 200

    assert changes(node, "a", what="snooze", delay=wait).status == 200
    assert changes(node, "b", what="fail", error={"type": "E"}, after=wait).status == 200

    etas = [get(store, id).eta or 0.0 for id in ("a", "b")]
    assert all(0.0 <= eta < store.now() + 1.1 * CENTURY for eta in etas)


def test_what_a_worker_tells_has_the_form_of_a_submission(store: Store, node: Node) -> None:
    put(store, "a")
    node.take()
    changes(node, "a", what="meta", fields={"a\0": 1}).is_problem(
        400, "bad-input", "a name in meta"
    )
    note = {"what": "note", "event": "e", "note": "n"}
    body = {"changes": [{"id": "a", "attempt": 1, "happening": note, "checkpoint": "a"}]}
    node("POST", "/changes", body).is_problem(400, "bad-input", "base64")
