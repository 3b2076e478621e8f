"""The verbs of an operator as requests: the server decides what becomes of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stayer.core.decoding import convert
from stayer.core.insight import explanation
from stayer.core.insight.explanation import Explanation
from stayer.core.model import JSON, Submitted, Task, Value
from stayer.core.submit.checks import written_value
from stayer.core.submit.edits import Edits, written
from stayer.core.worker_model import Worker
from stayer.stores.remote import records
from stayer.stores.remote.connection import Connection, path_of


class RemoteOperator:
    """Asks the server by verb, as any other program could."""

    def __init__(self, connection: Connection) -> None:
        self._ask = connection.ask

    def cancel(self, id: str, grace: float | None = None) -> Task:
        return self._verb(id, "cancel", {"grace": grace})

    def complete(self, id: str, result: Value = None) -> Task:
        return self._verb(id, "complete", {"result": written_value(result)})

    def fail(self, id: str, error: str = "") -> Task:
        return self._verb(id, "fail", {"error": error})

    def retry(
        self,
        id: str,
        *,
        from_start: bool = False,
        now: bool = False,
        latest_code: bool = False,
        edits: Edits | None = None,
    ) -> Task:
        # Only what is wanted: an older server does not know of the rest.
        body: dict[str, JSON] = {"from_start": from_start}
        if now:
            body["now"] = True
        if latest_code:
            body["code"] = "latest"
        if edits:
            body["changes"] = written(edits)
        return self._verb(id, "retry", body)

    def edit(self, id: str, edits: Edits) -> Task:
        return self._verb(id, "edit", written(edits))

    def clone(self, id: str, edits: Edits, *, owner: str | None = None) -> Submitted:
        mine = {} if owner is None else {"owner": owner}
        wanted = Edits(fields={**mine, **edits.fields}, parameters=edits.parameters)
        shown = self._ask("POST", path_of("tasks", id, "clone"), body=written(wanted))
        return records.read_submitted(shown)

    def hold(self, id: str) -> Task:
        return self._verb(id, "hold")

    def release(self, id: str) -> Task:
        return self._verb(id, "release")

    def pause(self, id: str) -> Task:
        return self._verb(id, "pause")

    def resume(self, id: str) -> Task:
        return self._verb(id, "resume")

    def signal(self, id: str, name: str) -> Task:
        return self._verb(id, "signal", {"signal": name})

    def stack(self, id: str) -> Task:
        return self._verb(id, "stack")

    def set(
        self,
        id: str,
        *,
        priority: int | None = None,
        limits: Mapping[str, float] | None = None,
        more_time: float | None = None,
        notify: Sequence[str] | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> Task:
        wanted: dict[str, JSON] = {f"{name}_limit": value for name, value in (limits or {}).items()}
        if more_time is not None:
            wanted["more_time"] = more_time
        if priority is not None:
            wanted["priority"] = priority
        if notify is not None:
            wanted["notify"] = list(notify)
        if meta is not None:
            wanted["meta"] = dict(meta)
        return records.task(self._ask("PATCH", path_of("tasks", id), body=wanted))

    def explain(self, id: str) -> Explanation:
        shown = self._ask("GET", path_of("tasks", id, "explain"))
        forecast = explanation.times_read(shown["forecast"])
        return convert({**shown, "forecast": forecast}, Explanation)

    def cancel_flow(self, id: str, grace: float | None = None) -> int:
        answer = self._ask("POST", path_of("flows", id, "cancel"), body={"grace": grace})
        return int(answer["tasks"])

    def retry_flow(self, id: str, *, from_start: bool = False) -> int:
        body: JSON = {"from_start": from_start}
        return int(self._ask("POST", path_of("flows", id, "retry"), body=body)["tasks"])

    def drop_worker(self, worker: str) -> int:
        return int(self._ask("DELETE", path_of("workers", worker))["returned"])

    def set_worker(
        self,
        worker: str,
        *,
        queues: Sequence[str] = (),
        add_queues: Sequence[str] = (),
        remove_queues: Sequence[str] = (),
        slots: int | None = None,
        reset: bool = False,
    ) -> Worker:
        body: JSON = {
            "queues": list(queues), "add_queues": list(add_queues),
            "remove_queues": list(remove_queues), "slots": slots, "reset": reset,
        }  # fmt: skip
        return records.read(Worker, self._ask("PATCH", path_of("workers", worker), body=body))

    def stop_worker(self, worker: str, grace: float | None = None) -> Worker:
        body: JSON = {} if grace is None else {"grace": grace}
        return records.read(
            Worker, self._ask("POST", path_of("workers", worker, "stop"), body=body)
        )

    def _verb(self, id: str, verb: str, body: JSON = None) -> Task:
        return records.task(self._ask("POST", path_of("tasks", id, verb), body=body))
