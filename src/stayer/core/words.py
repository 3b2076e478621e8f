"""What may be a name, a key or an id: the same everywhere."""

from __future__ import annotations

from stayer.core.errors import BadInput
from stayer.core.limits import WORD, check_length, shown

NAME_LIMIT = WORD


def check_word(what: str, word: str) -> None:
    """BadInput if it can't be a name, a key or an id."""
    if not isinstance(word, str) or not word:
        raise BadInput(f"{what} {shown(word)}: give a word of 1 to {NAME_LIMIT} characters")
    check_length(what, word)
    if not word.isprintable() or word != word.strip():
        raise BadInput(
            f"{what} {word!r}: control characters and spaces at its ends are not allowed"
        )
