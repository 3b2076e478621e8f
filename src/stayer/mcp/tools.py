"""The tools: what each takes and gives, and whether it changes something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from stayer.client import Client
from stayer.core import codec
from stayer.core.decoding import convert
from stayer.core.errors import BadInput, Refused
from stayer.core.insight import explanation
from stayer.core.model import JSON, StateWord
from stayer.core.queue_model import QueueInfo
from stayer.core.units import rfc3339
from stayer.core.worker_model import Worker
from stayer.service.control import logs
from stayer.service.control import tasks as control
from stayer.service.control.queues import list_queues
from stayer.service.operator import operator_of

_LONGEST_WAIT_S = 60
_LOG_LIMIT = 20_000
"""How many characters of a log are given at most, from its end."""

Id = Annotated[str, Meta(description="The id of the task, or the beginning of a generated one.")]


class _Arguments(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes."""


class ListTasks(_Arguments):
    queue: Annotated[str | None, Meta(description="Only of this queue.")] = None
    state: Annotated[
        StateWord | None, Meta(description="Only those in this state; running: what a worker has.")
    ] = None
    name: Annotated[str | None, Meta(description="Only of this function.")] = None
    owner: str | None = None
    tag: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class OneTask(_Arguments):
    id: Id


class ReadLog(_Arguments):
    id: Id
    lines: Annotated[int, Meta(ge=1, le=1000, description="How many of the last lines.")] = 100


class WaitForTask(_Arguments):
    id: Id
    seconds: Annotated[int, Meta(ge=0, le=_LONGEST_WAIT_S, description="How long at most.")] = 30


class Nothing(_Arguments):
    pass


class SubmitTask(_Arguments):
    queue: str = "default"
    name: Annotated[
        str | None, Meta(description="The function to run, as workers know it: module.function")
    ] = None
    command: Annotated[
        list[str] | None, Meta(description="Or the command to run, word by word; no shell.")
    ] = None
    parameters: Annotated[
        dict[str, Any] | None, Meta(description="What the function gets, by name.")
    ] = None
    id: Annotated[
        str | None, Meta(description="An id of your own: the same one again makes no second task.")
    ] = None
    priority: int = 0
    delay: Annotated[str | None, Meta(description="Start no earlier than in 10m, 2h …")] = None
    retries: Annotated[int, Meta(ge=0, description="How often to try again.")] | None = None
    tags: list[str] = []


class CancelTask(_Arguments):
    id: Id
    grace: Annotated[
        str | None, Meta(description="How long a running one may take to stop, such as 30s.")
    ] = None


class RetryTask(_Arguments):
    id: Id
    from_start: Annotated[bool, Meta(description="Not from its last checkpoint.")] = False


class Tool(Struct, frozen=True):
    """One tool."""

    name: str
    help: str
    takes: type[_Arguments]
    method: str
    kind: Literal["reads", "adds", "changes"] = "reads"


TOOLS = (
    Tool("list_tasks", "List tasks, the newest first.", ListTasks, "_list_tasks"),
    Tool("show_task", "Show all there is to know about a task.", OneTask, "_show_task"),
    Tool("explain_task", "Say why a task is not running, and when it will start and end.",
         OneTask, "_explain_task"),
    Tool("read_log", "Read the end of what a task printed.", ReadLog, "_read_log"),
    Tool("wait_for_task", "Wait a little for the end of a task; its record, ended or not.",
         WaitForTask, "_wait_for_task"),
    Tool("list_queues", "List queues, with how many tasks are in which state.", Nothing,
         "_list_queues"),
    Tool("list_workers", "List workers: which queues they serve, and whether they are alive.",
         Nothing, "_list_workers"),
    Tool("list_failures", "List what failed, grouped by fault, the most frequent first.", Nothing,
         "_list_failures"),
    Tool("submit_task", "Submit a task: a function by its name, or a command.", SubmitTask,
         "_submit_task", "adds"),
    Tool("cancel_task", "Cancel a task; one that runs is asked to stop, then killed.", CancelTask,
         "_cancel_task", "changes"),
    Tool("retry_task", "Run a task that has ended again.", RetryTask, "_retry_task", "changes"),
)  # fmt: skip


class Toolbox:
    """The tools on a store, with what the user lets an assistant do."""

    def __init__(self, client: Client, *, read_only: bool, allow_commands: bool) -> None:
        self._client = client
        self._store = client.store
        self._allow_commands = allow_commands
        self._tools = {tool.name: tool for tool in TOOLS if tool.kind == "reads" or not read_only}

    @property
    def names(self) -> Sequence[str]:
        """What the tools are called."""
        return list(self._tools)

    def descriptions(self) -> list[dict[str, Any]]:
        """Describe them as the protocol has it."""
        return [
            {
                "name": tool.name,
                "description": tool.help,
                "inputSchema": _schema(tool.takes),
                "annotations": {
                    "readOnlyHint": tool.kind == "reads",
                    "destructiveHint": tool.kind == "changes",
                    "idempotentHint": tool.kind != "adds",
                },
            }
            for tool in self._tools.values()
        ]

    def call(self, name: str, arguments: object) -> dict[str, Any]:
        """Use a tool. Raises StayerError."""
        tool = self._tools[name]
        try:
            given = convert(arguments, tool.takes)
        except msgspec.ValidationError as error:
            raise BadInput(f"{name}: {error}") from None
        method = cast("Callable[[_Arguments], dict[str, Any]]", getattr(self, tool.method))
        return method(given)

    def _id(self, given: str, *, to_change: bool = False) -> str:
        return control.resolve(self._store, given, to_change=to_change)

    def _list_tasks(self, given: ListTasks) -> dict[str, Any]:
        found = self._client.find(
            queues=given.queue or (),
            states=given.state or (),
            name=given.name,
            owner=given.owner,
            tags=given.tag or (),
        )
        return {"tasks": [codec.record(each.record) for each in islice(found, given.limit)]}

    def _show_task(self, given: OneTask) -> dict[str, Any]:
        return codec.record(control.get(self._store, self._id(given.id)))

    def _explain_task(self, given: OneTask) -> dict[str, Any]:
        return explanation.record(operator_of(self._store).explain(self._id(given.id)))

    def _read_log(self, given: ReadLog) -> dict[str, Any]:
        task = control.get(self._store, self._id(given.id))
        pieces = logs.read(self._store, task.id, task.attempt) if task.attempt else ()
        text = b"".join(piece.data for piece in pieces).decode("utf-8", "replace")
        wanted = "".join(text.splitlines(keepends=True)[-given.lines :])[-_LOG_LIMIT:]
        return {"attempt": task.attempt, "log": wanted, "is_whole": len(wanted) == len(text)}

    def _wait_for_task(self, given: WaitForTask) -> dict[str, Any]:
        handle = self._client.get_task(self._id(given.id))
        handle.ends_within(given.seconds)
        return codec.record(handle.record)

    def _list_queues(self, given: Nothing) -> dict[str, Any]:
        return {"queues": [_queue(each) for each in list_queues(self._store)]}

    def _list_workers(self, given: Nothing) -> dict[str, Any]:
        return {"workers": [_worker(each) for each in self._store.workers()]}

    def _list_failures(self, given: Nothing) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self._client.failures())
        return found

    def _submit_task(self, given: SubmitTask) -> dict[str, Any]:
        if (given.name is None) == (given.command is None):
            raise BadInput("submit_task: give either the name of a function, or a command")
        if given.command is not None and not self._allow_commands:
            raise Refused(
                "commands are not allowed here: whoever runs `stayer mcp` can allow them with "
                "--allow-commands. Functions can be submitted by name"
            )
        handle = self._client.get_queue(given.queue).submit(
            cast(JSON, given.parameters),
            id=given.id,
            name=given.name,
            command=given.command,
            priority=given.priority,
            delay=given.delay,
            retries=given.retries,
            tags=given.tags,
        )
        return {**codec.record(handle.record), "fresh": handle.fresh}

    def _cancel_task(self, given: CancelTask) -> dict[str, Any]:
        handle = self._client.get_task(self._id(given.id, to_change=True))
        return codec.record(handle.cancel(given.grace).record)

    def _retry_task(self, given: RetryTask) -> dict[str, Any]:
        handle = self._client.get_task(self._id(given.id, to_change=True))
        return codec.record(handle.retry(from_start=given.from_start).record)


def _schema(takes: type[_Arguments]) -> dict[str, Any]:
    (found,), parts = msgspec.json.schema_components([takes], ref_template="#/$defs/{name}")
    schema = dict(parts.pop(takes.__name__, found))
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


def _queue(queue: QueueInfo) -> dict[str, Any]:
    return {"name": queue.name, "paused": queue.paused, "counts": dict(queue.counts)}


def _worker(worker: Worker) -> dict[str, Any]:
    return {
        "id": worker.id,
        "node": worker.node,
        "queues": list(worker.queues),
        "state": worker.state,
        "running": worker.running,
        "slots": worker.slots,
        "last_heartbeat": rfc3339(worker.beat_at),
    }
