"""A test's own store: what was submitted, running it here and now, moving its clock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import stayer
from stayer import App, BadConfig, Client, Context, Flow, TaskFailed, testing
from stayer.testing import TestStore

app = App("sqlite:////nowhere/at/all.db")
calls: list[object] = []


@app.task(retries=2, retry_wait="1m")
def flaky(times: int) -> str:
    calls.append("flaky")
    if calls.count("flaky") <= times:
        raise ConnectionError("not yet")
    return "done"


@app.task
def add(one: int, other: int) -> int:
    calls.append((one, other))
    return one + other


@app.task
def fan_out(number: int) -> None:
    for each in range(number):
        add.submit(each, each)


@app.cron("30 2 * * *", parameters={"one": 1, "other": 2})
@app.task(name="nightly")
def nightly(one: int, other: int) -> int:
    calls.append("nightly")
    return one + other


@app.task
def long_one(task: Context) -> int:
    done = task.restore(0)
    for number in range(done, 4):
        task.checkpoint(number + 1)
        task.progress(number + 1, 4)
        if number == 1 and task.attempt == 1:
            raise RuntimeError("half way")
    return task.attempt


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@pytest.fixture
def store() -> Iterator[TestStore]:
    with testing.store(app, now="2026-03-01T12:00:00Z") as made:
        yield made


class TestDrain:
    def test_runs_what_was_submitted_in_order_and_gives_it(self, store: TestStore) -> None:
        first, second = add.submit(1, 2), add.submit(3, 4)
        ran = store.drain()
        assert [(each.id, each.result) for each in ran] == [(first.id, 3), (second.id, 7)]
        assert calls == [(1, 2), (3, 4)]
        assert first.wait() == 3
        assert store.drain() == []

    def test_runs_what_tasks_submit(self, store: TestStore) -> None:
        fan_out.submit(3)
        assert len(store.drain()) == 4

    def test_moves_over_the_waits_of_retries(self, store: TestStore) -> None:
        task = flaky.submit(2)
        before = store.clock()
        assert [each.state for each in store.drain()] == ["scheduled", "scheduled", "complete"]
        assert task.wait() == "done"
        assert store.clock() >= before + 60

    def test_leaves_retries_to_the_clock_if_asked(self, store: TestStore) -> None:
        flaky.submit(1)
        assert len(store.drain(retries=False)) == 1
        assert store.drain(retries=False) == []
        store.clock.advance("5m")
        assert [each.state for each in store.drain(retries=False)] == ["complete"]

    def test_raises_what_failed_for_good(self, store: TestStore) -> None:
        add.submit(1, 1)
        flaky.submit(9)
        with pytest.raises(TaskFailed, match="not yet") as raised:
            store.drain()
        assert isinstance(raised.value.__cause__, ConnectionError)
        store.assert_submitted(flaky, state="failed", times=1)

    def test_leaves_failures_to_the_test_if_asked(self, store: TestStore) -> None:
        flaky.submit(9)
        assert [each.state for each in store.drain(check=False)][-1] == "failed"

    def test_goes_on_from_a_checkpoint(self, store: TestStore) -> None:
        task = long_one.options(retries=1).submit()
        store.drain()
        assert task.refresh().result == 2
        assert task.progress is not None
        assert task.progress.done == 4

    def test_runs_flows_with_their_inputs(self, store: TestStore) -> None:
        @app.task(name=f"join {store.url}")
        def join(task: Context) -> list[int]:
            return sorted(task.inputs.values())

        flow = Flow("sums")
        one = flow.add(add.s(1, 2), part="a")
        two = flow.add(add.s(3, 4), part="b")
        flow.add(join.s(), part="c", after=[one, two])
        handle = store.client.submit(flow)
        store.drain()
        assert handle.refresh().task("c").result == [3, 7]

    def test_of_one_that_never_ends_says_so(self, store: TestStore) -> None:
        @app.task(name=f"again {store.url}")
        def again() -> None:
            raise stayer.Snooze(1)

        again.submit()
        with pytest.raises(AssertionError, match="for ever"):
            store.drain(limit=20)

    def test_runs_commands_only_if_asked(self, store: TestStore) -> None:
        queue = store.client.get_queue("q")
        command = ["sh", "-c", 'echo 7 > "$STAYER_CHECKPOINT"; echo "{}" > "$STAYER_RESULT"']
        task = queue.submit(command=command)
        bad = queue.submit(command=["sh", "-c", "echo no disk; exit 3"])
        assert store.drain() == []
        with pytest.raises(TaskFailed, match="no disk"):
            store.drain(commands=True)
        assert task.refresh().result == {}
        assert bad.refresh().error is not None
        kept = store.store.checkpoint(task.id)
        assert kept is not None
        assert kept.data == b"7\n"


class TestTheClock:
    def test_stands_still_until_it_is_moved(self, store: TestStore) -> None:
        add.options(delay="1h").submit(1, 2)
        assert store.drain() == []
        store.clock.advance(timedelta(minutes=59))
        assert store.drain() == []
        store.clock.advance("1m")
        assert len(store.drain()) == 1
        assert store.clock.datetime.isoformat() == "2026-03-01T13:00:00+00:00"

    def test_is_moved_through_what_comes_due(self, store: TestStore) -> None:
        add.options(delay="3h").submit(1, 2)
        ran = store.drain(within="2d")
        assert [each.name for each in ran].count("nightly") == 2
        assert [each.started_at for each in ran if each.name != "nightly"] == [
            store.clock() - 45 * 3600
        ]
        assert store.clock.datetime.isoformat() == "2026-03-03T12:00:00+00:00"

    def test_never_goes_back(self, store: TestStore) -> None:
        with pytest.raises(stayer.BadInput, match="can't go back"):
            store.clock.move_to("2026-02-28T00:00:00Z")


class TestInline:
    def test_a_task_has_run_when_submit_returns(self, store: TestStore) -> None:
        store.inline = True
        assert add.submit(1, 2).result == 3
        assert fan_out.submit(2).state == "complete"
        assert len(store.submitted(add)) == 3

    def test_whoever_waits_has_it_run(self, store: TestStore) -> None:
        assert add.submit(2, 2).wait(timeout="1h") == 4

    def test_whoever_waits_for_what_never_runs_is_told(self, store: TestStore) -> None:
        task = store.client.get_queue("q").submit(name="somebody.elses")
        with pytest.raises(AssertionError, match="nothing will end"):
            task.wait()


class TestAssertions:
    def test_find_what_was_submitted(self, store: TestStore) -> None:
        add.options(priority=3, tags=["x"]).submit(1, 2)
        add.submit(1, 3)
        store.assert_submitted(add, {"one": 1}, times=2)
        [found] = store.assert_submitted(add, {"one": 1, "other": 2}, priority=3, tags=["x"])
        assert found.parameters == {"one": 1, "other": 2}
        store.assert_nothing_submitted(flaky)

    def test_say_what_was_submitted_instead(self, store: TestStore) -> None:
        add.submit(1, 2)
        with pytest.raises(AssertionError, match=r"flaky was submitted never[^$]*'other': 2"):
            store.assert_submitted(flaky)
        with pytest.raises(AssertionError, match="1 times, not 2 times"):
            store.assert_submitted(add, times=2)
        with pytest.raises(AssertionError, match="1 times, not 0 times"):
            store.assert_nothing_submitted()


class TestOfOnesOwn:
    def test_apps_point_elsewhere_again_afterwards(self, tmp_path: Path) -> None:
        own = App(f"sqlite:///{tmp_path}/own.db")
        own.client.get_queue("q").submit({}, id="before")
        with testing.store(own) as store:
            own.client.get_queue("q").submit({}, id="meanwhile")
            assert [each.id for each in store.submitted()] == ["meanwhile"]
        assert [each.id for each in own.client.find()] == ["before"]
        own.client.close()

    def test_the_fixture_takes_every_app(self, stayer_store: TestStore) -> None:
        late = App()

        @late.task(name="late")
        def task() -> int:
            return 7

        handle = task.submit()
        add.submit(1, 2)
        Client().get_queue("q").submit(name="add")
        assert len(stayer_store.submitted()) == 3
        stayer_store.drain()
        assert handle.wait() == 7

    def test_without_a_store_of_its_own_a_test_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("STAYER_STORE", raising=False)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        with pytest.raises(BadConfig, match="stayer_store"):
            Client()
        with pytest.raises(BadConfig, match="the default"):
            _ = App().client
        (tmp_path / "stayer.toml").write_text('store = "sqlite:///team.db"')
        with pytest.raises(BadConfig, match=r"stayer\.toml"):
            Client()
        assert [each.name for each in tmp_path.iterdir()] == ["stayer.toml"]
        monkeypatch.setenv("STAYER_STORE", "memory:")
        assert list(Client().find()) == []

    def test_so_is_a_module_that_submits_when_pytest_imports_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("STAYER_STORE", raising=False)
        monkeypatch.delenv("PYTEST_CURRENT_TEST")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert "PYTEST_VERSION" in os.environ
        with pytest.raises(BadConfig, match="the default"):
            Client()
        assert list(tmp_path.iterdir()) == []

    def test_an_app_is_bound_for_a_while(self, tmp_path: Path) -> None:
        own = App("memory:")
        with own.bind(f"sqlite:///{tmp_path}/tenant.db"):
            own.client.get_queue("q").submit({}, id="t")
        assert list(own.client.find()) == []
        own.bind(f"sqlite:///{tmp_path}/tenant.db")
        assert [each.id for each in own.client.find()] == ["t"]
        own.client.close()


def test_a_function_runs_what_fits_its_pattern() -> None:
    routed = App()

    @routed.task(name="film", match="film-*")
    def film(task: Context) -> str | None:
        return task.name

    with testing.store(routed) as store:
        store.client.get_queue("default").submit(name="film-7", id="a")
        store.client.get_queue("default").submit(name="song", id="b")
        assert [done.result for done in store.drain()] == ["film-7"]


def test_the_plugin_costs_next_to_nothing_where_no_test_asks_for_it() -> None:
    code = "import sys, pytest; before = {*sys.modules}; import stayer.testing.pytest_plugin; "
    code += "print(*({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "stayer.testing.pytest_plugin" in done.stdout
    assert not {"msgspec", "sqlite3", "stayer.app", "stayer.client"} & {*done.stdout.split()}
