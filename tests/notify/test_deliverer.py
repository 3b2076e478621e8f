"""Delivering: what is told, again and again until it is heard, by whoever lives."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.config import load
from stayer.core.errors import BadConfig, StoreUnreachable
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.notify import notices
from stayer.core.notify.hooks import Hook, Rules
from stayer.core.notify.notices import Delivery, Notice
from stayer.service.notify import deliverer as module
from stayer.service.notify.deliverer import DELIVERY_THREADS, Deliverer, judge_answer
from stayer.service.notify.settings import LEASE_MARGIN_S, Whom, read_config
from stayer.service.notify.turns import HOST_LANES
from stayer.service.notify.webhook import Answered
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import new, register, submit, take
from tests.notify import actors
from tests.notify.receiver import PATIENCE, Receiver, eventually, hang, receiving, status
from tests.processes import PROCESSES
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OPEN = Rules(hosts=("127.0.0.1",))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with serving(redis_binary()) as found:
        yield found


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("server").url())
    return f"sqlite:///{tmp_path}/stayer.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url)
    store.setup()
    yield store
    store.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try comes soon."""
    monkeypatch.setattr(notices, "wait", lambda id, tries: 0.05)


@contextmanager
def delivering(store: Store, whom: Whom) -> Iterator[Deliverer]:
    found = Deliverer(store, whom, soon=0.02, seldom=0.05)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def end_tasks(store: Store, *hooks: str, number: int = 1) -> None:
    """Tasks that tell of their end, and end."""
    register(store)
    submit(store, *(new(notify=hooks) for _ in range(number)))
    store.commit([decide(task, Done()) for task in take(store, limit=number)])


def kept(store: Store) -> tuple[Notice, ...]:
    return store.notices(None, None, None, 1000).notices


def states(store: Store) -> list[str]:
    return [notice.state for notice in kept(store)]


def await_states(store: Store, *wanted: str) -> list[Notice]:
    eventually(lambda: sorted(states(store)) == sorted(wanted))
    return list(store.notices(None, None, None, 1000).notices)


def test_a_url_of_a_task_is_told_once(store: Store, receiver: Receiver) -> None:
    end_tasks(store, f"ended:{receiver.url}")
    with delivering(store, Whom(rules=OPEN, secrets={"": (SECRET,)})):
        [notice] = await_states(store, "delivered")
        # Whatever comes next, comes after it
        end_tasks(store, f"ended:{receiver.url}")
        await_states(store, "delivered", "delivered")
    one, two = receiver.received
    assert one.id == notice.id != two.id
    assert one.is_signed_with(SECRET)
    assert (notice.tries, notice.said) == (1, "200 OK")


def test_a_hook_goes_where_it_is_configured_to_go(store: Store, receiver: Receiver) -> None:
    hook = Hook(name="hook", url=receiver.url)
    end_tasks(store, "ended:hook")
    with delivering(store, Whom(hooks={"hook": hook}, secrets={"hook": (SECRET,)})):
        await_states(store, "delivered")
    assert receiver.received[0].is_signed_with(SECRET)


def test_a_command_is_told(store: Store, tmp_path: Path) -> None:
    hook = Hook(name="hook", command=("sh", "-c", f"cat > {tmp_path}/told; echo heard"))
    end_tasks(store, "ended:hook")
    with delivering(store, Whom(hooks={"hook": hook})):
        [notice] = await_states(store, "delivered")
    assert notice.said == "exit code 0: heard"
    assert notice.task in (tmp_path / "told").read_text()


def test_who_does_not_hear_is_told_again_under_the_same_id(
    store: Store, receiver: Receiver
) -> None:
    receiver.answers = [status(500), status(429), status(200)]
    end_tasks(store, f"ended:{receiver.url}")
    with delivering(store, Whom(rules=OPEN)):
        [notice] = await_states(store, "delivered")
    assert notice.tries == 3
    assert [came.id for came in receiver.received] == [notice.id] * 3
    assert len({came.body for came in receiver.received}) == 1


def test_after_some_tries_it_is_set_aside_until_somebody_retries(
    store: Store, receiver: Receiver
) -> None:
    receiver.answers = [status(500), status(500), status(200)]
    end_tasks(store, f"ended:{receiver.url}")
    with delivering(store, Whom(rules=Rules(hosts=OPEN.hosts, tries=2))):
        [notice] = await_states(store, "failed")
        assert notice.said == "given up after 2 tries. 500 Internal Server Error"
        assert store.retry_notices([notice.id]) == 1
        await_states(store, "delivered")


def test_an_old_one_that_is_retried_is_tried_more_than_once(
    store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers = [status(410), status(500), status(200)]
    end_tasks(store, f"ended:{receiver.url}")
    with delivering(store, Whom(rules=OPEN)):
        [notice] = await_states(store, "failed")
    # What happened long ago, but was retried just now
    real = store.take_notices
    monkeypatch.setattr(
        store, "take_notices", lambda *args: [replace(each, at=1.0) for each in real(*args)]
    )
    store.retry_notices([notice.id])
    with delivering(store, Whom(rules=OPEN)):
        await_states(store, "delivered")
    assert len(receiver.received) == 3


def test_gone_and_forbidden_are_set_aside_at_once(store: Store, receiver: Receiver) -> None:
    receiver.answers = [status(410)]
    end_tasks(store, f"ended:{receiver.url}", "ended:hook")
    hook = Hook(name="hook", url=receiver.url)
    with delivering(store, Whom(hooks={"hook": hook})):  # private addresses for hooks only
        found = await_states(store, "failed", "failed")
    assert {notice.tries for notice in found} == {1}
    assert len(receiver.received) == 1


def test_who_hangs_keeps_nobody_else_waiting(store: Store, receiver: Receiver) -> None:
    receiver.answers = [hang(receiver.over), status(200)]
    end_tasks(store, f"ended:{receiver.url}", number=4)
    with delivering(store, Whom(rules=OPEN)):
        await_states(store, "delivered", "delivered", "delivered", "pending")


def test_no_more_are_told_at_once_than_there_are_hands(store: Store, receiver: Receiver) -> None:
    held = threading.Event()
    receiver.answers = [hang(held)]
    end_tasks(store, "ended:hook", number=DELIVERY_THREADS + 5)
    with delivering(store, Whom(hooks={"hook": Hook(name="hook", url=receiver.url)})):
        receiver.await_number(DELIVERY_THREADS)
        tries = [notice.tries for notice in store.notices(None, None, None, 100).notices]
        assert sum(tries) == DELIVERY_THREADS
        receiver.answers[:] = [status(200)]
        held.set()
        eventually(lambda: "delivered" in states(store))


def test_silent_urls_hold_up_neither_hooks_nor_other_hosts(
    store: Store, receiver: Receiver
) -> None:
    held = threading.Event()
    with receiving() as silent:
        silent.answers = [hang(held)]
        good = receiver.url.replace("127.0.0.1", "localhost")
        end_tasks(store, *(f"ended:{silent.url}&{n}" for n in range(10)), number=10)
        end_tasks(store, f"ended:{good}", "ended:hook", number=3)
        rules = Rules(hosts=("127.0.0.1", "localhost"), tries=2, time_limit=600.0)
        hook = Hook(name="hook", url=receiver.url)
        with delivering(store, Whom(rules=rules, hooks={"hook": hook})):
            eventually(lambda: states(store).count("delivered") == 6)
            assert len(silent.received) == HOST_LANES

            # None of them is lost for having been put back, and none is told twice
            silent.answers[:] = [status(200)]
            held.set()
            await_states(store, *["delivered"] * 106)
        ids = [came.id for came in (*silent.received, *receiver.received)]
    hung = {came.id for came in silent.received[:HOST_LANES]}  # and got no answer
    assert {id for id, times in Counter(ids).items() if times > 1} == hung
    assert (len(set(ids)), len(ids)) == (106, 106 + HOST_LANES)


def test_what_waits_in_line_when_it_stops_is_put_back(store: Store, receiver: Receiver) -> None:
    receiver.answers = [hang(receiver.over)]
    end_tasks(store, f"ended:{receiver.url}", number=6)
    whom = Whom(rules=Rules(hosts=OPEN.hosts, time_limit=0.5))
    with delivering(store, whom) as deliverer:
        receiver.await_number(HOST_LANES)
        eventually(lambda: all(notice.tries for notice in kept(store)))
        deliverer.stop(PATIENCE)
    found = kept(store)
    assert sorted(notice.tries - notice.forgiven for notice in found) == [0] * 4 + [1] * HOST_LANES
    assert len(receiver.received) == HOST_LANES


def test_who_is_killed_between_telling_and_saying_so_is_followed_by_another(
    store: Store, url: str, receiver: Receiver
) -> None:
    receiver.answers = [hang(receiver.over), status(200)]
    end_tasks(store, f"ended:{receiver.url}")
    whom = Whom(rules=Rules(hosts=OPEN.hosts, time_limit=1.0), margin=0.5)

    # Given one that has told it, and does not know yet how that was taken
    here, there = PROCESSES.Pipe()
    victim = PROCESSES.Process(
        target=actors.deliver_until_killed, args=(there, url, whom), daemon=True
    )
    victim.start()
    assert here.poll(PATIENCE)
    receiver.await_number(1)

    # When it is killed
    victim.kill()
    victim.join()

    # Then another tells it again, under the same id
    with delivering(store, whom):
        [notice] = await_states(store, "delivered")
    assert notice.tries == 2
    assert [came.id for came in receiver.received] == [notice.id] * 2


def test_a_store_that_is_away_for_a_while_loses_nothing(
    store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {"take_notices": 2, "settle_notice": 1}
    faults = iter((StoreUnreachable("away"), RuntimeError("a slip"), StoreUnreachable("away")))

    def faltering(name: str) -> Any:
        real = getattr(store, name)

        def call(*arguments: Any) -> Any:
            if left[name]:
                left[name] -= 1
                raise next(faults)
            return real(*arguments)

        return call

    for name in left:
        monkeypatch.setattr(store, name, faltering(name))
    end_tasks(store, f"ended:{receiver.url}")
    whom = Whom(rules=Rules(hosts=OPEN.hosts, time_limit=0.5), margin=0.2)
    with delivering(store, whom):
        [notice] = await_states(store, "delivered")
    assert [came.id for came in receiver.received] == [notice.id] * 2


def test_a_machine_that_has_no_thread_to_spare_for_a_while_loses_nothing(
    store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More often than there are hands: each of them must be free again
    refused = iter(range(DELIVERY_THREADS + 1))
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("notice ") and next(refused, None) is not None:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    end_tasks(store, f"ended:{receiver.url}", number=DELIVERY_THREADS)
    whom = Whom(rules=Rules(hosts=OPEN.hosts, time_limit=0.5), margin=0.2)
    with delivering(store, whom):
        await_states(store, *["delivered"] * DELIVERY_THREADS)
    assert next(refused, None) is None


def test_a_mistake_of_ours_is_neither_lost_nor_repeated_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Answered:
        raise RuntimeError("a slip")

    monkeypatch.setattr(module, "try_once", broken)
    end_tasks(store, "ended:hook")
    with delivering(store, Whom(rules=Rules(tries=2), hooks={"hook": Hook(name="hook")})):
        [notice] = await_states(store, "failed")
    assert "a slip" in (notice.said or "")


def test_stopping_waits_for_what_is_under_way_but_not_for_ever(
    store: Store, receiver: Receiver
) -> None:
    receiver.answers = [hang(receiver.over)]
    end_tasks(store, f"ended:{receiver.url}")
    with delivering(store, Whom(rules=OPEN)) as deliverer:
        receiver.await_number(1)
        deliverer.stop(patience=0.1)
    assert states(store) == ["pending"]


class TestJudging:
    def notice(self, tries: int, forgiven: int) -> Notice:
        return Notice(
            id="n", task="t", queue="q", event="failed", to="h", attempt=1, at=0.0, tries=tries,
            forgiven=forgiven,
        )  # fmt: skip

    def judge(
        self, answered: Answered, tries: int = 1, age: float = 0.0, forgiven: int = 0
    ) -> Delivery:
        return judge_answer(Rules(tries=5, age=1000), self.notice(tries, forgiven), answered, age)

    def test_success_is_success_however_late(self) -> None:
        assert self.judge(Answered(True, "ok"), 100, 1e9).state == "delivered"

    def test_peace_is_given_if_asked_for(self) -> None:
        assert self.judge(Answered(False, "x", after=90)).after == 90
        assert self.judge(Answered(False, "x", after=0)).after == 0.05

    def test_it_ends_with_the_tries_and_with_the_age(self) -> None:
        assert self.judge(Answered(False, "x"), 4).state == "pending"
        assert self.judge(Answered(False, "x"), 5).state == "failed"
        assert self.judge(Answered(False, "x"), 1, 999).state == "pending"
        assert self.judge(Answered(False, "x"), 1, 1000).state == "failed"
        assert self.judge(Answered(False, "x", after=500), 1, 600).state == "failed"

    def test_tries_before_a_retry_are_forgiven(self) -> None:
        assert self.judge(Answered(False, "x"), 9, forgiven=5).state == "pending"
        assert self.judge(Answered(False, "x"), 10, forgiven=5).said == "given up after 5 tries. x"


class TestConfiguration:
    def load(self, folder: Path, text: str) -> Whom:
        (folder / "stayer.toml").write_text(text)
        return read_config(load({"config": str(folder / "stayer.toml")}, {"HOME": str(folder)}))

    def test_says_who_can_be_told(self, tmp_path: Path) -> None:
        (tmp_path / "secrets").write_text(f"# new\n{SECRET}\n\n{SECRET.replace('M', 'N')}\n")
        whom = self.load(
            tmp_path,
            f"""
            [notices]
            hosts = ["*.Example.org"]
            secret_file = "secrets"
            tries = 3
            age = "1d"
            [hooks.mail]
            command = ["mail", "ann"]
            [hooks.chat]
            url = "https://chat.example/x"
            format = "slack"
            secret = "{SECRET}"
            time_limit = "1m"
            """,
        )
        assert whom.names == ("", "mail", "chat")
        assert whom.secrets[""] == (SECRET, SECRET.replace("M", "N"))
        assert whom.secrets["chat"] == (SECRET,)
        assert (whom.rules.hosts, whom.rules.tries, whom.rules.age) == (
            ("*.example.org",),
            3,
            86400,
        )
        assert whom.hooks["mail"].command == ("mail", "ann")
        assert whom.lease == 60 + LEASE_MARGIN_S

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[hooks.x]", ["hooks.x", "url or command"]),
            ('[hooks.x]\nurl = "https://a.example"\ncommand = ["a"]', ["url or command"]),
            ('[hooks.x]\nurl = "ftp://a.example"', ["url", "http"]),
            ('[hooks.x]\ncommand = "mail ann"', ["command", "list"]),
            ('[hooks.x]\ncommand = ["a"]\nsecret = "b"', ["secret"]),
            ('[hooks.x]\ncommand = ["a"]\ncolour = 1', ["colour", "time_limit"]),
            ('[hooks.failed]\ncommand = ["a"]', ["failed"]),
            ('[hooks."a:b"]\ncommand = ["a"]', ["a:b"]),
            (
                '[hooks.x]\nurl = "https://a.example"\nsecret = "short"',
                ["secret", "stayer notices"],
            ),
            ('[hooks.x]\nurl = "https://a.example"\nheaders = {Host = "b"}', ["headers", "Host"]),
            ('[hooks.x]\nurl = "https://a.example"\nheaders = {A = "b\\nc"}', ["headers", "line"]),
            ("[notices]\ntries = 0", ["notices", "tries"]),
            ('[notices]\nhosts = "a"', ["hosts", "list"]),
            ('[notices]\nsecret_file = "nothing"', ["nothing", "read"]),
            ("notices = 3", ["[notices]"]),
            ("hooks = 3", ["[hooks.NAME]"]),
        ],
    )
    def test_that_makes_no_sense_is_refused(
        self, tmp_path: Path, text: str, words: Sequence[str]
    ) -> None:
        with pytest.raises(BadConfig) as refused:
            self.load(tmp_path, text)
        for word in words:
            assert word in str(refused.value)
        assert "short" not in str(refused.value)
