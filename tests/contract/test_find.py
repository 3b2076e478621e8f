"""Store.find: filters, and pages that stay in step while tasks come and go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields

from stayer.core.errors import UnknownTask
from stayer.core.happenings import Done, Fail
from stayer.core.model import FINISHED, Fault, Filter, State
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores.redis import portions
from tests.contract.builders import (
    Clock,
    apply,
    fill,
    ids,
    new,
    register,
    started,
    submit,
    take,
    taken,
)


def found(store: Store, filter: Filter) -> set[str]:
    return {task.id for task in control.find_all(store, filter)}


FITS_NONE: dict[str, Any] = {
    "states": ("failed",), "held": True, "since": 9e9, "until": 1.0, "has_files": True,
    "meta": ("team=none",), "where": ("n=none",),
}  # fmt: skip
"""What asks for no plain task; any other filter does so by a word that no task has."""


def test_a_store_knows_every_filter(store: Store) -> None:
    """One that it passed over would find, or delete, all tasks."""
    submit(store, new("t"))
    for known in fields(Filter):
        word = "nothing" if known.default is None else ("nothing",)
        asked = Filter(**{known.name: FITS_NONE.get(known.name, word)})
        assert found(store, asked) == set(), known.name


class TestFilters:
    @pytest.fixture(autouse=True)
    def _tasks(self, store: Store, clock: Clock) -> None:
        register(store, "w")
        register(store, "v")
        apply(store, taken(store, "w", id="ab1", owner="ada", tags=("x", "y")), Done())
        clock.advance(10)
        started(store, "v", "r", id="ab2", name="encode", owner="bob", tags=("x",))
        clock.advance(10)
        submit(store, new("Ab3", held=True, owner="ada"), new("a%4", queue="r", name="enc_de"))
        clock.advance(10)
        submit(store, new("a_5", queue="s", delay=5, tags=("y", "xx")), new("abx"))

    @pytest.mark.parametrize(
        ("filter", "expected"),
        [
            (Filter(), "ab1 ab2 Ab3 a%4 a_5 abx"),
            (Filter(ids=("ab1", "abx", "unknown")), "ab1 abx"),
            (Filter(prefix="ab"), "ab1 ab2 abx"),
            (Filter(prefix="ab1"), "ab1"),
            (Filter(prefix="a%"), "a%4"),
            (Filter(prefix="a_"), "a_5"),
            (Filter(prefix="b"), ""),
            (Filter(prefix="a*"), ""),
            (Filter(prefix=""), "ab1 ab2 Ab3 a%4 a_5 abx"),
            (Filter(queues=("r",)), "ab2 a%4"),
            (Filter(queues=("r", "s", "unknown")), "ab2 a%4 a_5"),
            (Filter(states=("pending",)), "Ab3 a%4 abx"),
            (Filter(states=("complete", "started")), "ab1 ab2"),
            (Filter(states=("failed",)), ""),
            (Filter(name="encode"), "ab2"),
            (Filter(name="enc_de"), "a%4"),
            (Filter(owner="ada"), "ab1 Ab3"),
            (Filter(owner="Ada"), ""),
            (Filter(tags=("x",)), "ab1 ab2"),
            (Filter(tags=("y",)), "ab1 a_5"),
            (Filter(tags=("x", "y")), "ab1"),
            (Filter(worker="v"), "ab2"),
            (Filter(held=True), "Ab3"),
            (Filter(held=False), "ab1 ab2 a%4 a_5 abx"),
            (Filter(since=1_700_000_005.0), "ab2 Ab3 a%4 a_5 abx"),
            (Filter(until=1_700_000_005.0), "ab1"),
            (Filter(since=1_700_000_005.0, until=1_700_000_025.0), "ab2 Ab3 a%4"),
            (Filter(queues=("q",), owner="ada", states=("pending",)), "Ab3"),
            (Filter(prefix="ab", tags=("x",), queues=("q",)), "ab1"),
            (Filter(ids=("ab1", "ab2"), states=("started",), worker="v", name="encode"), "ab2"),
            (Filter(ids=("ab1",), owner="bob"), ""),
        ],
        ids=str,
    )
    def test_say_what_is_found(self, store: Store, filter: Filter, expected: str) -> None:
        assert found(store, filter) == set(expected.split())

    def test_keep_their_word_page_by_page(self, store: Store) -> None:
        filter = Filter(states=("pending", "scheduled"))
        cursor, seen = None, []
        while True:
            page = store.find(filter, cursor, 1)
            seen += ids(page.tasks)
            cursor = page.next
            if cursor is None:
                break
        assert seen == ["abx", "a_5", "a%4", "Ab3"]

    def test_find_whole_tasks(self, store: Store) -> None:
        for task in store.find(Filter(), None, 10).tasks:
            assert store.get([task.id]) == [task]

    def test_by_a_finished_tasks_worker_tell_where_it_ran(self, store: Store) -> None:
        assert found(store, Filter(worker="w")) == {"ab1"}


class TestSearch:
    def test_looks_for_words_wherever_a_person_would(self, store: Store) -> None:
        register(store, "w")
        oom = Fault("OutOfMemory", "CUDA has no 3 GB left", "Traceback: in layer.py")
        apply(
            store,
            taken(store, "w", id="run-1", command=("python", "train.py", "--lr=0.1")),
            Fail(oom),
        )
        submit(
            store,
            new("run-2", name="fit", parameters={"model": "ResNet", "say": 'a "quoted" word'}),
            new("50%_a", tags=("Nightly",), queue="other", meta={"team": "Vision"}),
            new("long", parameters={"text": "x" * 2000, "end": "needle"}),
            new("bytes", parameters=b"\xff\xfe\x00"),
        )
        for search, expected in {
            "RUN": {"run-1", "run-2"},
            "TRAIN.PY": {"run-1"},
            "lr=0.1 python": {"run-1"},
            "cuda OUTOFMEMORY 3": {"run-1"},
            "resnet": {"run-2"},
            '"quoted"': {"run-2"},
            "nightly": {"50%_a"},
            "vision team": {"50%_a"},
            "0%": {"50%_a"},
            "%": {"50%_a"},
            "_": {"50%_a"},
            "needle": {"long"},
            "python resnet": set(),
            "message": set(),
            "traceback": set(),
            "  ": {"run-1", "run-2", "50%_a", "long", "bytes"},
        }.items():  # fmt: skip
            assert found(store, Filter(search=search)) == expected, search
        assert found(store, Filter(search="run", states=("failed",))) == {"run-1"}
        assert found(store, Filter(search="nightly", queues=("q",))) == set()
        assert found(store, Filter(search="run", ids=("run-2", "long"))) == {"run-2"}

    def test_finds_everything_by_pages_that_may_be_short(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(portions, "SEARCHED", 1)
        monkeypatch.setattr(portions, "SEARCHES_A_PAGE", 1)
        rare = {f"rare-{n}" for n in range(0, 1300, 100)}
        submit(store, *(
            new(f"rare-{n}" if n % 100 == 0 else f"task-{n}", queue="qrs"[n % 3])
            for n in range(1300)
        ))  # fmt: skip
        wanted, cursor, seen = Filter(search="RARE"), None, list[str]()
        while True:
            page = store.find(wanted, cursor, 4)
            seen += ids(page.tasks)
            cursor = page.next
            if cursor is None:
                break
        assert len(seen) == len(rare)
        assert set(seen) == rare


class TestPages:
    def test_are_newest_first(self, store: Store, clock: Clock) -> None:
        names = []
        for _ in range(3):
            names += fill(store, 2)
            clock.advance(1)
        assert ids(store.find(Filter(), None, 100).tasks) == names[::-1]

    def test_of_very_many_queues_are_newest_first(self, store: Store, clock: Clock) -> None:
        """More queues than a script of Redis looks at; in some there is more than in others."""
        names = []
        for turn in range(3):
            some = [f"t{turn}-{number}" for number in range(0, 230, turn + 1)]
            submit(store, *(new(name, f"q{name.partition('-')[2]}") for name in some))
            names += some
            clock.advance(1)
        cursor, seen = None, []
        while True:
            page = store.find(Filter(), cursor, 90)
            seen.append(ids(page.tasks))
            cursor = page.next
            if cursor is None:
                break
        assert [len(each) for each in seen[:-1]] == [90] * (len(names) // 90)
        found = [id for each in seen for id in each]
        assert sorted(found) == sorted(names)
        turns = [id.partition("-")[0] for id in found]
        assert turns == sorted(turns, reverse=True)

    def test_have_what_is_named_twice_once(self, store: Store) -> None:
        names = fill(store, 3)
        wanted = Filter(ids=(*names, *names), queues=("q", "q"), states=("pending", "pending"))
        assert ids(store.find(wanted, None, 10).tasks) == names[::-1]

    def test_are_no_longer_than_asked(self, store: Store) -> None:
        names = fill(store, 7)
        page = store.find(Filter(), None, 3)
        assert (ids(page.tasks), page.next is None) == (names[:3:-1], False)

    def test_end(self, store: Store) -> None:
        assert (store.find(Filter(), None, 3).tasks, store.find(Filter(), None, 3).next) == (
            (),
            None,
        )
        fill(store, 3)
        assert store.find(Filter(), None, 100).next is None

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
    def test_hold_every_task_once(self, store: Store, clock: Clock, size: int) -> None:
        names = fill(store, 8)
        clock.advance(1)
        names += fill(store, 8)
        cursor, seen = None, []
        for _ in range(20):
            page = store.find(Filter(), cursor, size)
            assert len(page.tasks) <= size
            seen += ids(page.tasks)
            cursor = page.next
            if cursor is None:
                break
        assert seen == names[::-1]

    @pytest.mark.parametrize("states", [(), ("reserved", "started")])
    def test_hold_what_runs_in_its_place(
        self, store: Store, clock: Clock, states: tuple[State, ...]
    ) -> None:
        register(store)
        names, taken_of_them = [], []
        for _ in range(4):
            names += fill(store, 10)
            clock.advance(1)
            taken_of_them += [task.id for task in take(store, limit=7)]
        expected = [name for name in names if not states or name in taken_of_them]
        cursor, seen = None, []
        for _ in range(20):
            page = store.find(Filter(states=states), cursor, 3)
            seen += ids(page.tasks)
            cursor = page.next
            if cursor is None:
                break
        assert seen == expected[::-1]

    def test_go_by_when_tasks_were_made_not_by_when_they_changed(
        self, store: Store, clock: Clock
    ) -> None:
        register(store)
        names = fill(store, 4)
        for task in take(store, limit=4):
            clock.advance(1)
            apply(store, task, Done())
        first = store.find(Filter(), None, 2)
        second = store.find(Filter(), first.next, 2)
        assert ids(first.tasks + second.tasks) == names[::-1]
        assert second.next is None

    def test_stay_in_step_while_tasks_are_added(self, store: Store, clock: Clock) -> None:
        # Given half a list that was read
        names = fill(store, 6)
        first = store.find(Filter(), None, 3)

        # When tasks are added, also at the very same moment, and others with more priority
        fill(store, 2)
        clock.advance(1)
        fill(store, 5, priority=9)

        # Then the second half is what it was
        second = store.find(Filter(), first.next, 3)
        assert ids(first.tasks + second.tasks) == names[::-1]
        rest = store.find(Filter(), second.next, 3).tasks if second.next else ()
        assert rest == ()

    def test_stay_in_step_while_tasks_go(self, store: Store, clock: Clock) -> None:
        # Given half a list that was read, whose last task is then forgotten
        register(store)
        names = fill(store, 6)
        for task in take(store, limit=6):
            apply(store, task, Done())
        first = store.find(Filter(), None, 3)
        clock.advance(1)
        last = first.tasks[-1].id
        assert store.purge([last, first.tasks[0].id], FINISHED, clock.now, 10)

        # Then the second half is what it was
        second = store.find(Filter(), first.next, 3)
        assert ids(second.tasks) == names[2::-1]

    def test_stay_in_step_while_tasks_change(self, store: Store) -> None:
        register(store)
        names = fill(store, 6)
        first = store.find(Filter(), None, 3)
        for task in take(store, limit=6):
            apply(store, task, Fail(Fault("Boom")))
        second = store.find(Filter(), first.next, 3)
        assert ids(first.tasks + second.tasks) == names[::-1]

    def test_of_a_state_follow_the_tasks_that_leave_it(self, store: Store) -> None:
        register(store)
        names = fill(store, 6)
        first = store.find(Filter(states=("pending",)), None, 2)
        take(store, limit=2)
        second = store.find(Filter(states=("pending",)), first.next, 10)
        assert ids(second.tasks) == names[3:1:-1]

    def test_may_be_read_by_another(self, store: Store, other: Store) -> None:
        names = fill(store, 4)
        first = store.find(Filter(), None, 2)
        assert ids(other.find(Filter(), first.next, 2).tasks) == names[1::-1]


class TestResolving:
    def test_a_beginning_that_one_task_has_finds_it(self, store: Store) -> None:
        submit(store, new("abc"), new("abd"), new("ab"))
        assert control.resolve(store, "abc") == "abc"
        assert control.resolve(store, "ab") == "ab"
        with pytest.raises(UnknownTask):
            control.resolve(store, "a")
        with pytest.raises(UnknownTask):
            control.resolve(store, "x")
