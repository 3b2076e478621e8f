"""The operator's verbs on notices, the same for every door. See `tasks` for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stayer.core.errors import BadInput
from stayer.core.notify.notices import Notice, NoticeState
from stayer.service.control.tasks import BATCH, choose_id
from stayer.store import AdminStore, ReadStore


def find_all(
    store: ReadStore, task: str | None = None, state: NoticeState | None = None
) -> Iterator[Notice]:
    """Find every notice, newest first: of this task, in this state."""
    cursor: str | None = None
    while True:
        page = store.notices(task, state, cursor, BATCH)
        yield from page.notices
        if page.next is None:
            return
        cursor = page.next


def resolve(store: ReadStore, prefixes: Sequence[str]) -> list[str]:
    """Find the full ids of the notices whose ids are these, or begin so."""
    known = [notice.id for notice in find_all(store)]
    found: list[str] = []
    for prefix in prefixes:
        matching = [id for id in known if prefix and id.startswith(prefix)]
        if not matching:
            raise BadInput(
                f"no notice {prefix!r} in {store.url}: `stayer notices` lists those there are"
            )
        known_so = prefix in matching
        found.append(prefix if known_so else choose_id(prefix, matching, BadInput, to_change=True))
    return list(dict.fromkeys(found))


def retry(store: AdminStore, ids: Sequence[str]) -> int:
    """Deliver them now, as if they were new; how many. What is delivered stays so."""
    return _in_parts(store.retry_notices, ids)


def drop(store: AdminStore, ids: Sequence[str]) -> int:
    """Forget them; how many."""
    return _in_parts(store.drop_notices, ids)


def _in_parts(act: Callable[[Sequence[str]], int], ids: Sequence[str]) -> int:
    return sum(act(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH))
