"""Ids: 16 random characters for tasks, `host.pid.seconds.millis` for workers."""

from __future__ import annotations

import os  # and not `secrets`, which brings in OpenSSL

LENGTH = 16
_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567"
_ALPHABET = frozenset(_LETTERS.decode())
_LETTER_OF = _LETTERS * (256 // len(_LETTERS))
"""Of each byte; every letter is as likely as the others."""
SHARED = 4
"""How many characters the ids of one batch share: neighbours in the index, so that adding many
tasks touches few of its pages however large it has become. Alone, an id is all random and a
short prefix names it."""


def is_generated(id: str) -> bool:
    """Return whether it may be one of ours; only those can be called by a prefix."""
    return len(id) == LENGTH and all(character in _ALPHABET for character in id)


def generate() -> str:
    """Draw a new task id."""
    return _random(LENGTH)


def generate_many(count: int) -> list[str]:
    """New task ids for one batch."""
    if count <= 1:
        return [generate() for _ in range(count)]
    shared, size = _random(SHARED), LENGTH - SHARED
    characters = _random(size * count)
    return [shared + characters[i : i + size] for i in range(0, size * count, size)]


def below_queue(queue: str, drawn: str) -> str:
    """Return the id of a task whose submitter may only choose ids that begin with this queue."""
    return f"{queue}:{drawn}"


def redraw(id: str) -> str:
    """Return another id in place of one that was drawn, with the same prefix."""
    return id[:-LENGTH] + generate()


def _random(length: int) -> str:
    return os.urandom(length).translate(_LETTER_OF).decode("ascii")


def worker_id(host: str, pid: int, moment: float) -> str:
    """Who, where, since when; the name says it to whoever reads a log."""
    seconds, millis = divmod(int(moment * 1000), 1000)
    return f"{host}.{pid}.{seconds}.{millis:03d}"
