"""What a task gets from those that it runs after: their results."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from stayer.core import codec
from stayer.core.errors import TooLarge
from stayer.core.flows.model import part_of
from stayer.core.model import JSON, Task, Value
from stayer.core.units import format_size
from stayer.store import ReadStore

LIMIT_BYTES = 100_000_000
"""How many bytes of results one task may get."""
_READ_BATCH = 500


def of(store: ReadStore, task: Task) -> dict[str, Value]:
    """Collect the results of what the task runs after: by the names of the parts of its flow, those
    of a map as a list; of tasks outside the flow by their ids. One that was deleted is not there,
    in a list None. Raises TooLarge.
    """
    if not task.upstreams:
        return {}
    after = store.upstreams([task.id])[0].after
    found: dict[str, Value] = {}
    size = 0
    for first in range(0, len(after), _READ_BATCH):
        ids = after[first : first + _READ_BATCH]
        for id, upstream in zip(ids, store.get(ids), strict=True):
            result = None if upstream is None else upstream.result
            size += _size(result)
            if size > LIMIT_BYTES:
                raise TooLarge(
                    f"the results of the {len(after)} tasks that {task.id} runs after are over "
                    f"{format_size(LIMIT_BYTES)}: let them store the data elsewhere and pass where "
                    "it is"
                )
            part, place = part_of(task.flow, id)
            if place is not None and part != task.policy.over:
                found.setdefault(part, [])
                found[part].append(result)  # type: ignore[union-attr, arg-type]
            elif upstream is not None:
                found[part] = result
    return found


def results_json(inputs: Mapping[str, Value]) -> dict[str, JSON]:
    """Write results as JSON can say them: bytes are `{"base64": …}`."""
    return {
        name: [_result_json(each) for each in value]
        if isinstance(value, list)
        else _result_json(value)
        for name, value in inputs.items()
    }


def _result_json(value: Value) -> JSON:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _size(value: Value) -> int:
    if value is None or isinstance(value, bool | int | float):
        return 8
    return len(value) if isinstance(value, bytes) else len(codec.encode(value))
