"""Tokens for some queues only: what is not named here, they may not ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stayer.core.errors import UnknownTask
from stayer.core.insight.explanation import Reason
from stayer.core.model import NewTask, Submitted, Task
from stayer.http.problem import Problem
from stayer.http.session import Principal
from stayer.store import Store

if TYPE_CHECKING:
    from stayer.http.route import Found
    from stayer.http.service import Service

_TASK, _QUEUE = "/v1/tasks/{id}", "/v1/queues/{name}"
_OF_OTHERS = {f"{_TASK}/upstreams"}
_FREE = {
    ("GET", "/v1/session"), ("GET", "/v1/clock"),
    ("PUT", "/v1/files/{sha256}"),  # who knows the hash of a file could have sent it
}  # fmt: skip
_ON_MANY = ("cancel", "retry", "hold", "release", "pause", "resume", "signal", "delete")
_NAMED_BY = {
    ("GET", "/v1/tasks"): "queue",
    ("GET", "/v1/failures"): "queue",
    ("GET", "/v1/queues"): "name",
    ("GET", "/v1/events"): "queue",
    ("PATCH", "/v1/tasks"): "queue",
    **{("POST", f"/v1/tasks/{verb}"): "queue" for verb in _ON_MANY},
}
"""Which parameter says the queues that a request is about."""


async def confine(service: Service, who: Principal, found: Found, query: Any) -> Any:
    """Narrow the query to the queues of this token; raises Problem where that can't be."""
    route, path = found.route, found.path
    wanted = (route.method, route.path)
    if route.role == "work":  # these look for themselves: the fence is part of every request
        return query
    if who.role == "work" and wanted == ("GET", "/v1/files/{sha256}"):
        return query  # whoever knows the hash of a file has been given a task that names it
    if wanted in _FREE or wanted == ("POST", "/v1/tasks"):  # what it submits is looked at later
        return query
    if route.path.startswith(_TASK) and route.path not in _OF_OTHERS:
        await _check_task(service, who, path["id"])
        return query
    if route.path.startswith(_QUEUE):
        _check_queues(who, (path["name"],))
        return query
    field = _NAMED_BY.get(wanted)
    if field is None:
        raise _forbidden(who)
    named: tuple[str, ...] = getattr(query, field)
    _check_queues(who, named)
    if not named and route.method != "GET":
        raise Problem("forbidden", f"say {field}=…: this token is for {_list(who)} only")
    return replace(query, **{field: named or who.queues})


def check_new(who: Principal, new: NewTask) -> None:
    """Whether it may submit this. All queues share one space of ids, which is why a token for some
    of them may choose those that nobody else would: see `docs/decisions/0016`. Letters that look
    drawn may be another's; only what was drawn here is nobody's.
    """
    if who.queues:
        _check_queues(who, (new.queue,))
        if new.after:
            raise Problem(
                "forbidden",
                f"a token for {_list(who)} only can't let tasks wait for others: leave out `after`",
            )
        own = who.any_id or new.generated or new.id.rpartition(":")[0] == new.queue
        if not own:
            raise Problem(
                "forbidden",
                f"a token for {_list(who)} only may choose ids that are the queue's name, a colon, "
                "and a word without a colon: take for example "
                f"{new.queue}:{new.id.replace(':', '-')}, or leave the id out",
            )


def check_answer(who: Principal, answer: Submitted) -> None:
    """Refuse to show a task of other queues that is there under that id."""
    if who.queues and answer.task.queue not in who.queues:
        raise Problem(
            "forbidden", f"the id {answer.task.id!r} is taken in a queue of others: choose another"
        )


def confine_task(who: Principal | None, task: Task) -> Task:
    """Leave out of a task what names others: what it runs after is not shown to such a token, and
    `near` and `cloned_from` are of these.
    """
    if who is None or not who.queues or (task.policy.near, task.cloned_from) == (None, None):
        return task
    return replace(task, policy=replace(task.policy, near=None), cloned_from=None)


def confine_reason(who: Principal, store: Store, task: Task, reason: Reason) -> Reason:
    """Rewrite a reason so that it names no task of other queues."""
    if reason.reason == "waiting":
        number = store.waits(task.id, 0)[1]
        others = "another task" if number == 1 else f"{number:,} other tasks"
        return replace(reason, text=f"for {others} to end")
    if reason.reason == "near" and task.policy.near is not None:
        [near] = store.get([task.policy.near])
        if near is None or near.queue not in who.queues:
            text = "it waits for the node where another task has run; then any node may take it"
            return replace(reason, text=text)
    return reason


async def _check_task(service: Service, who: Principal, id: str) -> None:
    [task] = await service.ask(who, service.store.get, [id])
    if task is None or task.queue not in who.queues:
        raise UnknownTask(f"no task {id!r} in {_list(who)}")


def _check_queues(who: Principal, names: tuple[str, ...]) -> None:
    if not set(names) <= set(who.queues):
        raise Problem(
            "forbidden",
            f"the token {who.name} is for {_list(who)} only: name a queue of these, or use another "
            "token",
        )


def _forbidden(who: Principal) -> Problem:
    return Problem("forbidden", f"the token {who.name} is for {_list(who)} only: use another token")


def _list(who: Principal) -> str:
    one = len(who.queues) == 1
    return f"{'queue' if one else 'queues'} {', '.join(who.queues)}"
