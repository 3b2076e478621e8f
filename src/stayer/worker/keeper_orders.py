"""Orders from the store, as words for the keeper."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals

from stayer.core.model import Order
from stayer.task.stack_dump import STACK_SIGNAL
from stayer.worker.attempt import HeldAttempt


def carry_out(held: HeldAttempt, orders: Sequence[Order]) -> int:
    """Pass each new order on; the number of the last one."""
    for order in orders:
        if order.number > held.order_seen:
            # Written with the order itself: a worker that dies before it can tell the store is
            # given the order again, and the next one must not carry it out twice.
            # What can't be passed on now is given to us again, with the next beat.
            if not held.ask(seen=order.number, **_words(held, order)):
                break
            held.order_seen = order.number
    return held.order_seen


def _words(held: HeldAttempt, order: Order) -> dict[str, object]:
    match order.verb:
        case "cancel":
            # None: the keeper was told of the task's own, or the worker's.
            return {"stop": {"why": "cancel", "grace": order.arguments.get("grace")}}
        case "pause":
            return {"paused": True}
        case "resume":
            return {"paused": False}
        case "signal":
            return _signal(held, order, str(order.arguments["signal"]))
        case "stack":
            return _signal(held, order, Signals(STACK_SIGNAL).name)
        case "set":
            return {"limits": _limits(held, order)}


def _signal(held: HeldAttempt, order: Order, name: str) -> dict[str, object]:
    return {"signals": [*held.run.keeper_orders.get("signals", ()), (order.number, name)]}


def _limits(held: HeldAttempt, order: Order) -> dict[str, float]:
    """Return those that were set before, and what this order says."""
    given = {
        name: float(value)
        for name, value in order.arguments.items()
        if isinstance(value, int | float)
    }
    more = given.pop("more_time", 0.0)
    limits = {**held.run.keeper_orders.get("limits", {}), **given}
    now = limits.get("time", held.run.first_limits.get("time", 0.0))
    return {**limits, "time": now + more} if more and now else limits
