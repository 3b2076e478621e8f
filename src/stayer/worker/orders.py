"""Orders from the store, as words for the keeper."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals

from stayer.core.model import Order
from stayer.runners.stack import STACK_SIGNAL
from stayer.worker.held import Held


def carry_out(held: Held, orders: Sequence[Order], grace: float) -> int:
    """Pass each new order on; the number of the last one."""
    for order in orders:
        if order.number > held.order_seen:
            held.order_seen = order.number
            _pass_on(held, order, grace)
    return held.order_seen


def _pass_on(held: Held, order: Order, grace: float) -> None:
    match order.verb:
        case "cancel":
            given = order.arguments.get("grace")
            wait = float(given) if isinstance(given, int | float) else grace
            held.run.order(stop={"why": "cancel", "grace": wait})
        case "pause":
            held.run.order(paused=True)
        case "resume":
            held.run.order(paused=False)
        case "signal":
            held.signals.append((order.number, str(order.arguments["signal"])))
            held.run.order(signals=held.signals)
        case "stack":
            held.signals.append((order.number, Signals(STACK_SIGNAL).name))
            held.run.order(signals=held.signals)
        case "set":
            held.limits.update(
                {
                    name: float(value)
                    for name, value in order.arguments.items()
                    if isinstance(value, int | float)
                }
            )
            held.run.order(limits=held.limits)
