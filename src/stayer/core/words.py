"""What may be a name, a key or an id: the same everywhere."""

from __future__ import annotations

from stayer.core.errors import BadInput

NAME_LIMIT = 200


def check_word(what: str, word: str) -> None:
    """BadInput if it can't be a name, a key or an id."""
    if not isinstance(word, str) or not word:
        raise BadInput(f"{what} {word!r}: give a word of 1 to {NAME_LIMIT} characters")
    if len(word) > NAME_LIMIT:
        raise BadInput(f"{what} {word[:20]}… has {len(word)} characters, at most {NAME_LIMIT} fit")
    if not word.isprintable() or word != word.strip():
        raise BadInput(
            f"{what} {word!r}: control characters and spaces at its ends are not allowed"
        )
