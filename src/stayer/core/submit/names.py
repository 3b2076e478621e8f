"""What may be a name, a key or an id: the same everywhere."""

from __future__ import annotations

from stayer.core.errors import BadInput
from stayer.core.limits import ID, WORD, check_length, quote


def check_word(what: str, word: str, most: int = WORD) -> None:
    """BadInput if it can't be a name, a key or, with the `most` of those, an id."""
    if not isinstance(word, str) or not word:
        raise BadInput(f"{what} {quote(word)}: give a word of 1 to {most} characters")
    check_length(what, word, most)
    if not word.isprintable() or word != word.strip():
        raise BadInput(
            f"{what} {word!r}: control characters and spaces at its ends are not allowed"
        )


def check_id(what: str, id: str) -> None:
    """BadInput if a task, a flow or a schedule can't be called that."""
    check_word(what, id, ID)
    if is_option(id):
        raise BadInput(
            f"{what} {id!r}: it may not begin with -, or programs that are given it would take it "
            "for an option"
        )
    if id in (".", ".."):
        raise BadInput(f"{what} {id!r}: it would be a folder in a path or URL: give another word")


def is_option(id: str) -> bool:
    """Return whether a program that is given it as an argument may take it for an option."""
    return id.startswith("-")


def is_ours(variable: str) -> bool:
    """Return whether it is a variable by which a worker tells a task where its files are, or which
    opens the store.
    """
    return variable.startswith("STAYER_")
