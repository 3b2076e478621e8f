"""Running a task that is an `async def`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from stayer.core.errors import Stopped
from stayer.task.context import Context

R = TypeVar("R")


def run(coroutine: Coroutine[Any, Any, R], context: Context | None) -> R:
    """Run it in an event loop of its own; when its task must stop, it is cancelled."""

    async def main() -> R:
        if context is None:
            return await coroutine
        own, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert own is not None
        before = context.on_stop(lambda: loop.call_soon_threadsafe(own.cancel))
        if before is not None:
            context.on_stop(before)  # whoever said it knows better how to stop this task
        try:
            return await coroutine
        finally:
            context.on_stop(before)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if context is not None and context.cancelled:
            raise Stopped("the task was asked to stop") from None
        raise
