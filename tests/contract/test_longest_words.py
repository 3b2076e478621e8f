"""Names that are as long as they may be, in letters that take several bytes."""

from __future__ import annotations

from stayer.core import limits
from stayer.core.happenings import Done
from stayer.core.model import Filter
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from tests.contract.builders import (
    apply,
    check_counts,
    counts,
    get,
    ids,
    new,
    register,
    submit,
    taken,
)

ID, WORD = "\N{SNOWMAN}" * limits.ID, "\N{SNOWMAN}" * limits.WORD


def test_a_task_is_followed_by_its_longest_id(store: Store) -> None:
    register(store)
    task = taken(store, id=ID, notify=("ended:hook",))
    submit(store, new("after", after=(ID,)))
    apply(store, task, Done())
    assert get(store, "after").state == "pending"
    assert [event.event for event in store.watch(0, 0.0, 10) if event.id == ID] == [
        "pending", "reserved", "complete",
    ]  # fmt: skip
    assert [event.event for event in store.events(ID)] == ["pending", "reserved", "complete"]
    [notice] = store.take_notices(["hook"], 10, 60.0, 3600.0)
    assert notice.task == ID


def test_a_task_of_the_longest_words_is_found_and_taken(store: Store) -> None:
    store.set_queue(WORD, limit=3, key_limits={WORD: 2}, fair="owner")
    register(store, queues=[WORD])
    words = {"name": WORD, "owner": WORD, "key": WORD, "unique": WORD}
    submit(store, new(ID, WORD, tags=(WORD,), **words))
    [answer] = store.submit([new("other", WORD, **words)])
    assert answer.task.id == ID
    for found in (
        Filter(queues=(WORD,)), Filter(name=WORD), Filter(owner=WORD), Filter(key=WORD),
        Filter(tags=(WORD,)), Filter(unique=WORD),
    ):  # fmt: skip
        assert ids(store.find(found, None, 10).tasks) == [ID]
    [task] = store.reserve("w", [WORD], 1, EVERYTHING)
    apply(store, task, Done())
    assert counts(store, WORD) == {"complete": 1}
    check_counts(store)
