"""What a queue says for tasks that don't: applied when they are accepted, however they come."""

from __future__ import annotations

import pytest

from stayer.core.errors import BadInput
from stayer.core.model import Code, Policy
from stayer.core.submit.checks import new_task
from stayer.core.submit.edits import Edits
from stayer.service.control import edits as edit_control
from stayer.service.control.queues import set_queue
from stayer.store import Store
from stayer.stores.sql.store import SqlStore
from tests.contract.builders import Clock, get, submit
from tests.contract.own_connections import SQL_SERVERS, run_by_hand


def test_a_task_has_what_its_queue_says_unless_it_says_otherwise(
    store: Store, clock: Clock
) -> None:
    submit(store, new_task(queue="q", id="before"))
    info = set_queue(
        store, "q", defaults={"retries": 3, "time_limit": "2h", "deadline": 60, "retry_on": ["oom"]}
    )
    wanted = {"retries": 3, "time_limit": 7200.0, "deadline": 60.0, "retry_on": ["oom"]}
    assert info.defaults == store.queues(["q"])[0].defaults == wanted
    made = submit(
        store,
        new_task(queue="q", id="silent"),
        new_task(queue="q", id="other", retries=0, time_limit=5.0),
        new_task(queue="elsewhere", id="elsewhere"),
    )
    silent, other, elsewhere = made
    assert silent.policy == Policy(
        retries=3, retry_wait=10.0, time_limit=7200.0, deadline=60.0, retry_on=("oom",)
    )
    assert silent.finish_before == silent.start_before == clock.now + 60
    assert (other.policy.retries, other.policy.time_limit) == (0, 5.0)
    assert other.policy.deadline == 60.0
    assert get(store, "before").policy == elsewhere.policy == Policy()
    assert [get(store, task.id) for task in made] == made


def test_what_another_has_set_since_holds_for_an_id_that_was_drawn(
    store: Store, other: Store
) -> None:
    for _ in range(2):
        submit(store, new_task(queue="q"))  # which may remember that there was nothing
    set_queue(other, "q", defaults={"retries": 3})
    for _ in range(2):
        [task] = submit(store, new_task(queue="q"))
        assert get(store, task.id).policy.retries == 3
    set_queue(other, "q", defaults={"retries": None})
    [task] = submit(store, new_task(queue="q"))
    assert get(store, task.id).policy.retries == 0


def test_defaults_are_changed_one_by_one(store: Store) -> None:
    set_queue(store, "q", defaults={"retries": 3, "retry_wait": "1m"})
    submit(store, new_task(queue="q", id="a", retries=1))
    assert get(store, "a").policy == Policy(retries=1, retry_wait=60.0)
    code = {"requirements": ["numpy"]}
    assert set_queue(store, "q", defaults={"retries": None, "code": code}).defaults == {
        "retry_wait": 60.0, "code": code,
    }  # fmt: skip
    submit(
        store, new_task(queue="q", id="b"), new_task(queue="q", id="c", code=Code(python="3.12"))
    )
    assert get(store, "b").code == Code(requirements=("numpy",))
    assert get(store, "c").code == Code(python="3.12")
    assert set_queue(store, "q", defaults={"retry_wait": None, "code": None}).defaults == {}
    assert submit(store, new_task(queue="q", id="d"))[0].policy == Policy()


def test_very_many_tasks_at_once_have_them_too(store: Store) -> None:
    plain = [new_task(queue="q", id=f"a{number}") for number in range(300)]
    assert {task.policy for task in submit(store, *plain)} == {Policy()}
    set_queue(store, "q", defaults={"retries": 2})
    plain = [new_task(queue="q", id=f"b{number}") for number in range(300)]
    answers = store.submit(plain)
    assert {(each.task.policy.retries, each.fresh) for each in answers} == {(2, True)}
    assert {task.policy.retries for task in store.get([new.id for new in plain]) if task} == {2}


def test_a_clone_is_as_the_first_one_was(store: Store) -> None:
    submit(store, new_task(queue="q", id="a"))
    set_queue(store, "q", defaults={"retries": 2})
    assert edit_control.clone(store, "a", Edits()).task.policy == Policy()
    edits = Edits(fields={"retries": None})
    assert edit_control.clone(store, "a", edits).task.policy.retries == 2


def test_what_can_be_no_default_is_refused(store: Store) -> None:
    for wrong, said in (
        ({"priority": 1}, "no default for 'priority'"),
        ({"retries": -1}, "retries"),
        ({"time_limit": "soon"}, "time_limit"),
        ({"code": {"files": [{"name": "a", "sha256": "0" * 64, "size": 1}]}}, "no files"),
    ):
        with pytest.raises(BadInput, match=said):
            set_queue(store, "q", defaults=wrong)


def test_defaults_are_short_since_each_task_has_them(store: Store) -> None:
    long = {"requirements": [f"package-{number}=={'1' * 50}" for number in range(40)]}
    set_queue(store, "q", defaults={"code": long})
    for more in (
        {"retry_on": [f"module.Error{number}{'x' * 150}" for number in range(10)]},
        {"code": {"requirements": [f"package-{n}=={'1' * 50}" for n in range(200)]}},
    ):
        with pytest.raises(BadInput, match="at most 4,000 fit"):
            set_queue(store, "q", defaults=more)
    assert set_queue(store, "q", defaults={"retries": 3}).defaults.keys() == {"code", "retries"}
    assert set_queue(store, "q", defaults={"code": None}).defaults == {"retries": 3}


@pytest.mark.parametrize("fresh_url", ["sqlite", *SQL_SERVERS], indirect=True, scope="session")
def test_rows_by_hand_have_them_too(store: Store) -> None:
    assert isinstance(store, SqlStore)
    code = {"requirements": ["numpy"]}
    set_queue(
        store, "q", defaults={"retries": 3, "deadline": 60, "retry_on": ["oom"], "code": code}
    )
    for row in (
        "(id, queue) VALUES ('silent', 'q')",
        "(id, queue, policy) VALUES ('other', 'q', '{\"retries\": 0, \"deadline\": null}')",
        "(id, queue, policy) VALUES ('elsewhere', 'e', '{\"deadline\": 30}')",
    ):
        run_by_hand(store, f"INSERT INTO stayer_tasks {row}")
    silent, other, elsewhere = (get(store, id) for id in ("silent", "other", "elsewhere"))
    assert silent.policy == Policy(retries=3, deadline=60.0, retry_on=("oom",))
    assert silent.code == Code(requirements=("numpy",))
    assert silent.finish_before == silent.start_before == silent.created + 60
    assert (other.policy.retries, other.finish_before, other.start_before) == (0, None, None)
    assert (elsewhere.finish_before, elsewhere.code) == (elsewhere.created + 30, None)
