"""New tasks as the scripts get them (`lib/submit.lua` names the parts)."""

from __future__ import annotations

from stayer.core import codec
from stayer.core.model import NewTask
from stayer.stores.redis.changes import Arguments
from stayer.stores.redis.record import PARAMETERS_BYTES, PARAMETERS_TEXT, Raw, apart, from_new


def packed_task(new: NewTask, arguments: Arguments) -> Raw:
    """One new task."""
    form = codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    delay = False if new.delay is None else float(new.delay)
    if form is None or not apart(form):
        return from_new(new, form), delay, new.generated
    flag = PARAMETERS_BYTES if isinstance(form, bytes) else PARAMETERS_TEXT
    return from_new(new, form), delay, new.generated, flag, arguments.add(form)
