"""What a task reports of itself, read from its `report` file while that grows.

How far it was read, and what has come of it, is kept in the run directory: the next worker goes on
from there, with the times at which lines without one were seen.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec
from msgspec import Struct

from stayer.core.decoding import decode_json
from stayer.core.insight.statistics import Recorder, weight
from stayer.core.model import Statistics
from stayer.worker import safe_files
from stayer.worker.run_directory import Run

logger = logging.getLogger("stayer.worker")

_FILE = "statistics"
_FILE_LIMIT_BYTES = 4_000_000
_READ_BYTES = 2_000_000
"""How much of the file is read for one beat."""
_BEHIND_BYTES = 16_000_000
"""Who writes faster than that is read: what is further behind is passed over."""
_WORDS = (b'"metric"', b'"step"')


class _State(Struct):
    read: int
    recorder: Recorder


class StatisticsReader:
    """Reads what is new, and knows what the store has not got."""

    def __init__(self, run: Run, *, fresh: bool) -> None:
        self._run = run
        self._state = _State(0, Recorder()) if fresh else _restore(run)
        self._is_unsent = False
        self._gathered = False

    def count_unread_bytes(self) -> int:
        """Return how much is left to read."""
        return max(0, self._size() - self._state.read)

    def gather(self, age: float, room: int) -> tuple[Statistics | None, bool]:
        """Return all of it, if something is new, and whether it has to wait for a beat with more
        room. The attempt began `age` seconds ago.
        """
        self._gathered = False
        self._is_unsent |= self._read(age)
        if not self._is_unsent:
            return None, False
        found = self._state.recorder.result()
        if weight(found) > room:
            return None, True
        self._gathered = True
        return found, False

    def mark_delivered(self) -> None:
        """Note that the store has what was gathered last."""
        if not self._gathered:
            return
        self._gathered = self._is_unsent = False
        try:
            self._run.keep_statistics(msgspec.json.encode(self._state).decode())
        except OSError as error:  # then the next worker reads from where this was last kept
            logger.debug("%s: statistics can't be kept: %s", self._run.folder, error)

    def _read(self, age: float) -> bool:
        state, found = self._state, self._run.part.stat("report")
        size = 0 if found is None else found.st_size
        if found is None or size <= state.read:
            return False
        is_cut = size - state.read > _BEHIND_BYTES
        if is_cut:
            state.read = size - _BEHIND_BYTES
        data = self._run.part.read_part("report", state.read, min(_READ_BYTES, size - state.read))
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) >= _READ_BYTES:
            whole = len(data)  # no report has so long a line
        state.read += whole
        wall, is_news = time.time(), False
        # A line that says no time was written before the file was last changed.
        written_at = min(wall, found.st_mtime)
        lines = data[:whole].split(b"\n")
        for line in lines[1:] if is_cut else lines:
            if any(word in line for word in _WORDS) and (content := _object(line)) is not None:
                is_news |= state.recorder.take({"at": written_at, **content}, age, wall)
        return is_news

    def _size(self) -> int:
        found = self._run.part.stat("report")
        return 0 if found is None else found.st_size


def _restore(run: Run) -> _State:
    try:
        kept = safe_files.read(run.folder / _FILE, _FILE_LIMIT_BYTES)
        return decode_json(kept, _State)
    except (OSError, msgspec.MsgspecError):
        return _State(0, Recorder())


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        return decode_json(line, dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
