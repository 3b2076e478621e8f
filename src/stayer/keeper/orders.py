"""What the worker wants of a task that runs: the file `go`."""

from __future__ import annotations

from .folder import RunDirectory
from .lean import Content, loads
from .limits import as_limits


class Orders:
    """The last that made sense; what is not known is passed over."""

    def __init__(self, folder: RunDirectory) -> None:
        self._folder = folder
        self._text: bytes | None = None
        self._signals_done = 0
        self.stop: Content | None = None
        self.paused = False
        self.thaw = self.freeze = 0.0
        self.watched = 0.0
        self.limits: dict[str, float | None] = {}
        self.signals: list[str] = []

    def read(self) -> bool:
        """Look again; True if there is something new."""
        text = self._folder.read("go")
        if text is None or text == self._text:
            return False
        self._text = text
        try:
            self._take(loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return False  # words of a worker that we don't know
        return True

    def _take(self, orders: Content) -> None:
        stop = orders.get("stop")
        if stop:
            grace = stop.get("grace")
            stop = {"why": str(stop["why"]), "grace": None if grace is None else float(grace)}
        names = ("thaw", "watched", "freeze")
        thaw, watched, freeze = (float(orders.get(name) or 0.0) for name in names)
        limits = as_limits(orders.get("limits"))
        signals = [(int(number), str(name)) for number, name in orders.get("signals") or ()]
        self.stop, self.paused = stop or None, bool(orders.get("paused"))
        self.thaw, self.watched, self.freeze, self.limits = thaw, watched, freeze, limits
        self.signals = [name for number, name in signals if number > self._signals_done]
        self._signals_done = max([self._signals_done, *(number for number, _ in signals)])
