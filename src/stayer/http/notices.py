"""Notices: who is told what of tasks, and whether that reached them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from stayer.core.notify.notices import NoticeState, notice_record
from stayer.http.filters import LARGEST_PAGE, PAGE, Cursor, Limit
from stayer.http.route import Answer, Call
from stayer.service.control import tasks as control

State = Annotated[NoticeState, Meta(description="In this state.")]


class NoticesQuery(Struct, frozen=True, kw_only=True):
    """Which notices."""

    task: Annotated[str, Meta(description="Of this task.")] | None = None
    state: State | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class OfTask(Struct, frozen=True, kw_only=True):
    """Which notices of a task."""

    state: State | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class NoticesBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which notices, by id."""

    ids: Annotated[tuple[str, ...], Meta(min_length=1, max_length=LARGEST_PAGE)]


def find(call: Call) -> Answer:
    """Answer with a page of notices, newest first."""
    return _page(call, call.query.task)


def of_task(call: Call) -> Answer:
    """Answer with the notices of one task, which must be there."""
    return _page(call, control.get(call.store, call.path["id"]).id)


def _page(call: Call, task: str | None) -> Answer:
    query = call.query
    page = call.store.notices(task, query.state, query.cursor, query.limit)
    return Answer({"notices": [notice_record(each) for each in page.notices], "next": page.next})


def retry(call: Call) -> Answer:
    """Deliver notices once more."""
    return Answer({"notices": call.store.retry_notices(call.body.ids)})


def drop(call: Call) -> Answer:
    """Forget notices."""
    return Answer({"notices": call.store.drop_notices(call.body.ids)})
