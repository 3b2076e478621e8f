"""The code of a task and what it was pinned to, through edits, retries and clones: on every
store.
"""

from __future__ import annotations

import pytest

from stayer.core.errors import BadInput
from stayer.core.happening_json import cut_to_fit
from stayer.core.happenings import Fail, Pin, Start
from stayer.core.lifecycle import decide
from stayer.core.limits import FLOW_TASKS
from stayer.core.model import Code, Fault, Pinned, Task
from stayer.core.submit.edits import Edits
from stayer.service.control import edits as edit_control
from stayer.store import Store
from stayer.worker import preparation
from tests.contract.builders import apply, get, new, register, started, submit, take_one

CODE = Code(("numpy>=2",), "3.12", "https://host/repo@main")
OTHER = Code(("scipy",))
PIN = Pin(Pinned("3.12", "ab12" * 16, "c0ffee"), "numpy==2.0\n")
OTHER_PIN = Pin(Pinned("3.11", "cd34" * 16, "decaf"), "numpy==3.0\n")
BY_DEFAULT = Pin(Pinned("3.12", commit="c" * 40, git="https://host/x#jobs"))
ANEW = Pinned("", anew=True)


def change(code: Code | None) -> Edits:
    return Edits(fields={"code": code})


def failed(store: Store, id: str = "t") -> Task:
    register(store)
    task = apply(store, started(store, id=id, code=CODE), PIN)
    return apply(store, task, Fail(Fault("Boom"), final=True))


@pytest.mark.parametrize("code", [OTHER, None], ids=["other", "none"])
def test_other_code_takes_the_pin_away_and_the_history_says_so(
    store: Store, code: Code | None
) -> None:
    submit(store, new("t", code=CODE))
    apply(store, get(store, "t"), PIN)

    edit_control.edit(store, "t", change(code))

    task = get(store, "t")
    assert (task.code, task.pinned, task.lock) == (code, None, None)
    note = store.events("t")[-1].note
    assert note is not None
    assert "code " in note
    assert ("scipy" in note) is (code is OTHER)


def test_an_edit_of_something_else_leaves_the_pin(store: Store) -> None:
    submit(store, new("t", code=CODE))
    apply(store, get(store, "t"), PIN)

    edit_control.edit(store, "t", Edits(fields={"priority": 3, "code": CODE}))

    task = get(store, "t")
    assert (task.priority, task.code, task.pinned, task.lock) == (3, CODE, PIN.pinned, PIN.lock)


def test_a_retry_with_changes_runs_the_same_code(store: Store) -> None:
    failed(store)

    edit_control.retry(store, "t", edits=Edits(fields={"priority": 3}))

    task = get(store, "t")
    assert (task.priority, task.pinned, task.lock) == (3, PIN.pinned, PIN.lock)


def test_a_retry_with_changes_may_run_the_latest_code_as_well(store: Store) -> None:
    failed(store)

    edit_control.retry(store, "t", latest_code=True, edits=Edits(fields={"priority": 3}))

    task = get(store, "t")
    assert (task.priority, task.code, task.pinned, task.lock) == (3, CODE, ANEW, None)


@pytest.mark.parametrize(
    ("latest", "code", "pinned"),
    [(False, OTHER, None), (True, OTHER, ANEW), (True, None, None)],
    ids=["other", "other, latest", "none, latest"],
)
def test_a_retry_with_other_code_is_not_pinned_to_the_old(
    store: Store, latest: bool, code: Code | None, pinned: Pinned | None
) -> None:
    failed(store)

    edit_control.retry(store, "t", latest_code=latest, edits=change(code))

    task = get(store, "t")
    assert (task.code, task.pinned, task.lock) == (code, pinned, None)


def test_a_clone_asks_for_the_same_code_and_finds_out_anew_what_that_is(store: Store) -> None:
    failed(store)

    clone = edit_control.clone(store, "t", Edits()).task
    other = edit_control.clone(store, "t", change(OTHER)).task

    assert (get(store, clone.id).code, get(store, clone.id).pinned) == (CODE, None)
    assert get(store, other.id).code == OTHER


def test_a_pin_that_comes_too_late_is_not_for_other_code(store: Store) -> None:
    """Whoever resolved it may have read a task of its map before that was edited."""
    submit(store, new("t", code=CODE))
    before = get(store, "t")
    edit_control.edit(store, "t", change(OTHER))

    assert store.commit([decide(before, PIN)]) == [None]
    assert preparation.agree(store, before, PIN) == PIN

    assert get(store, "t").pinned is None


def test_who_comes_second_uses_what_the_first_one_pinned(store: Store) -> None:
    submit(store, new("t", code=CODE))
    before = get(store, "t")
    apply(store, before, PIN)

    assert preparation.agree(store, before, OTHER_PIN) == PIN

    assert (get(store, "t").pinned, get(store, "t").lock) == (PIN.pinned, PIN.lock)


def test_a_map_is_pinned_by_whichever_of_its_tasks_is_the_first_to_know(store: Store) -> None:
    submit(store, *(new(f"f.p.{n}", code=CODE, flow="f", part="p") for n in range(3)))

    assert preparation.agree(store, get(store, "f.p.2"), PIN) == PIN
    assert preparation.agree(store, get(store, "f.p.1"), OTHER_PIN) == PIN
    assert preparation.agree(store, get(store, "f.p.0"), OTHER_PIN) == PIN

    assert [get(store, f"f.p.{n}").pinned for n in range(3)] == [PIN.pinned] * 3


def test_a_task_that_runs_without_code_is_not_pinned_to_that_of_its_map(store: Store) -> None:
    """Its worker has no default, and that of another task of the map has."""
    register(store)
    submit(store, *(new(f"f.p.{n}", flow="f", part="p") for n in range(2)))
    assert apply(store, take_one(store), Start(pid=77)).id == "f.p.0"

    assert preparation.agree(store, get(store, "f.p.1"), BY_DEFAULT) == BY_DEFAULT

    assert get(store, "f.p.0").pinned is None
    assert get(store, "f.p.1").pinned == BY_DEFAULT.pinned


def test_the_latest_code_of_a_task_that_asks_for_none_is_found_out_anew(store: Store) -> None:
    register(store)
    task = apply(store, started(store, id="t"), BY_DEFAULT)
    apply(store, task, Fail(Fault("Boom"), final=True))

    edit_control.retry(store, "t", latest_code=True)

    assert (get(store, "t").pinned, get(store, "t").lock) == (ANEW, None)
    assert edit_control.clone(store, "t", Edits()).task.code is None


@pytest.mark.parametrize("git", ["https://host/x@main", "ext::sh -c x", "--upload-pack=x"])
def test_a_pin_names_a_repository_and_a_commit(git: str) -> None:
    for commit, place in (("c" * 40, git), (None, "https://host/x")):
        with pytest.raises(BadInput):
            cut_to_fit(Pin(Pinned("3.12", commit=commit, git=place)))
    cut_to_fit(Pin(Pinned("3.12", commit="c" * 40, git="https://host/x#jobs")))


def test_a_place_that_no_map_has_is_not_counted_up_to(store: Store) -> None:
    """Whoever can write to the store may have written a place of any length."""
    place = FLOW_TASKS + 10_000
    submit(store, *(new(f"f.p.{n}", code=CODE, flow="f", part="p") for n in (0, place)))
    apply(store, get(store, "f.p.0"), PIN)

    assert preparation.with_known_pin(store, get(store, f"f.p.{place}")).pinned is None


@pytest.mark.parametrize("odd", [{"python": "3." + "1" * 10}, {"text": "a==1\n" * 60_000}])
def test_a_pin_that_a_process_claims_is_no_longer_than_others(odd: dict[str, str]) -> None:
    """While source packages are built, it is their code that may say so."""
    with pytest.raises(BadInput):
        preparation._as_pin({"python": "3.11", "text": "a==1\n", **odd})
