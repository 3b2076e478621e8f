"""Fields of a task that mean something to its user alone: `meta`, a small JSON object.

Submitters, operators and the task itself set them; whoever sets some leaves the others as they are,
and null takes one away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.limits import META, check_count, quote
from stayer.core.model import JSON
from stayer.core.submit.names import check_word

MOST_NAMES = 100
_NOTE_LIMIT = 200
"""How many characters of them the history shows."""


def check(what: str, fields: Any) -> dict[str, JSON] | None:
    """Return what is kept of these fields, None if that is nothing. Raises BadInput, TooLarge."""
    return merge(None, check_names(what, fields))


def check_names(what: str, fields: Any) -> dict[str, JSON]:
    """Return the fields that are to be set; BadInput if there is something else, or a bad name."""
    if not isinstance(fields, Mapping):
        raise BadInput(
            f'{what} {quote(fields)}: give an object of named fields, such as {{"team": "vision"}}'
        )
    check_count(what, fields, MOST_NAMES)
    for name in fields:
        check_word(f"a name in {what}", name)
        if "=" in name:
            raise BadInput(f"a name in {what} {quote(name)}: give a name without =")
    return dict(fields)


def merge(
    known: Mapping[str, JSON] | None, wanted: Mapping[str, JSON] | None
) -> dict[str, JSON] | None:
    """Return the fields once some are set, and those taken away that are null; None if none is
    left. Raises BadInput for what JSON can't say, TooLarge if they are too many.
    """
    merged = {**(known or {}), **(wanted or {})}
    kept: dict[str, JSON] = {name: value for name, value in merged.items() if value is not None}
    if not kept:
        return None
    check_count("meta", kept, MOST_NAMES)
    codec.pack(kept, "meta", META)
    return kept


def describe(fields: Mapping[str, JSON], longest: int | None = _NOTE_LIMIT) -> str:
    """Write the fields on a line, as `team=vision epoch=3`."""
    texts = (
        f"{name}={value if isinstance(value, str) else codec.encode(value)}"
        for name, value in fields.items()
    )
    text = " ".join(texts)
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"
