"""Searching tasks for words: what a search looks at is the same in every store.

A word is found wherever it is a part of the id, name, command, parameters, tags, meta, or error
(type and message) of a task. Whether letters are large or small does not matter (of A to Z; in some
databases, of all). Several words must all be found, each anywhere.
Parameters that are bytes, or so long that they are kept compressed, need not be found.
"""

from __future__ import annotations

import json

from msgspec import Struct


class Word(Struct, frozen=True):
    """A word as it is, and as it stands in the JSON of commands, tags, parameters and meta."""

    plain: str
    in_json: str


def words(search: str) -> list[Word]:
    """Divide what is searched for into words, each once."""
    return [
        Word(each, json.dumps(each, ensure_ascii=False)[1:-1])
        for each in dict.fromkeys(search.split())
    ]
